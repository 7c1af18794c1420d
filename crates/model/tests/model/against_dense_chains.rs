//! All exact schemes compared with a dense solution by an independent implementation (the referee), at random
//! parameters.

mod modulated;
use crate::referee;

use netcliff_core::{Engine, Host, Outcome, Point, Service};
use netcliff_model::{Fidelity, ModelEngine};
use proptest::prelude::*;

/// A state: (packets, stage, served in this poll).
type State = (u64, Stage, u64);

/// Target states and rates.
type Jumps = Vec<(State, f64)>;

const START: State = (0, Stage::Idle, 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Idle.
    Idle,
    /// The interrupt.
    Isr,
    /// Poll overhead.
    Poll,
    /// The register write after a poll that emptied the ring or found it empty.
    Unmask,
    /// Protocol processing.
    Service,
}

/// Rates of one test case, in units of the protocol rate.
#[derive(Debug, Clone)]
struct Case {
    places: u64,
    lambda: f64,
    isr: f64,
    overhead: f64,
    /// Rate of a register write; used for NAPI only.
    unmask: f64,
    weight: u64,
}

impl Case {
    fn host(&self) -> Host {
        Host {
            name: "case".to_owned(),
            interrupt_s: 1e-6 / self.isr,
            interrupt_latency_s: 0.0,
            protocol_s: 1e-6,
            per_byte_s: 0.0,
            mask_s: 0.0,
            poll_s: 1e-6 / self.overhead,
            application_s: None,
            context_switch_s: 0.0,
            wakeup_s: 0.0,
            socket_drop_cost: 1.0,
            ring: self.places,
            socket_buffer: 1,
            tick_s: 1e-3,
            service: Service::Exponential,
            ..Host::pentium4_2530mhz()
        }
    }

    /// The host for a scheme: only NAPI masks and unmasks.
    fn host_for(&self, scheme: &str) -> Host {
        let mask_s = if scheme.starts_with("napi:") { 1e-6 / self.unmask } else { 0.0 };
        Host { mask_s, ..self.host() }
    }

    fn solve(&self, scheme: &str) -> Outcome {
        let point = Point::poisson(self.host_for(scheme), scheme.parse().unwrap(), self.lambda * 1e6);
        ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).unwrap()
    }
}

fn cases(places: std::ops::Range<u64>) -> impl Strategy<Value = Case> {
    let rates = (-3.0..1.5_f64, -2.0..2.0_f64, -1.5..2.0_f64, -1.0..3.0_f64);
    (places, rates, 1..7_u64).prop_map(|(places, (load, isr, overhead, unmask), weight)| Case {
        places,
        lambda: load.exp(),
        isr: isr.exp(),
        overhead: overhead.exp(),
        unmask: unmask.exp(),
        weight,
    })
}

/// Results of the referee in the terms of the outcome (rates in units of the protocol rate).
struct Verdict {
    full: f64,
    present: f64,
    interrupt: f64,
    poll: f64,
    unmask: f64,
    /// P(unmasking, with packets that came during it).
    unmask_met: f64,
    protocol: f64,
    idle: f64,
}

fn verdict(jumps: &dyn Fn(&State) -> Jumps, places: u64) -> Verdict {
    verdict_of(&referee::stationary(START, jumps), places)
}

fn verdict_of(chain: &[(State, f64)], places: u64) -> Verdict {
    let sum = |pick: &dyn Fn(&State) -> bool| chain.iter().filter(|(s, _)| pick(s)).map(|(_, p)| p).sum::<f64>();
    Verdict {
        full: sum(&|s| s.0 == places),
        present: chain.iter().map(|(s, p)| s.0 as f64 * p).sum(),
        interrupt: sum(&|s| s.1 == Stage::Isr),
        poll: sum(&|s| s.1 == Stage::Poll),
        unmask: sum(&|s| s.1 == Stage::Unmask),
        unmask_met: sum(&|s| s.1 == Stage::Unmask && s.0 > 0),
        protocol: sum(&|s| s.1 == Stage::Service),
        idle: sum(&|s| s.1 == Stage::Idle),
    }
}

fn agree(outcome: &Outcome, verdict: &Verdict) -> Result<(), TestCaseError> {
    let cpu = outcome.cpu.unwrap();
    let pairs = [
        ("throughput", outcome.throughput_pps.unwrap().value / 1e6, verdict.protocol),
        ("present", outcome.packets_in_system.unwrap().value, verdict.present),
        ("loss", outcome.loss_fraction.unwrap().value, verdict.full),
        ("interrupt", cpu.interrupt.unwrap().value, verdict.interrupt),
        ("poll", cpu.poll.unwrap().value, verdict.poll + verdict.unmask),
        ("protocol", cpu.protocol.unwrap().value, verdict.protocol),
        ("available", cpu.available.unwrap().value, verdict.idle),
    ];
    for (name, got, want) in pairs {
        // The dense solution itself has an absolute error of about 1e-14, which is 1e-9 relative above 1e-4.
        prop_assert!((got - want).abs() <= 1e-9 * want.abs() + 1e-13, "{name}: {got} against {want}");
    }
    let total: f64 =
        [cpu.interrupt, cpu.poll, cpu.protocol, cpu.available].iter().map(|share| share.unwrap().value).sum();
    prop_assert!((total - 1.0).abs() < 1e-12, "shares sum to {total}");
    Ok(())
}

/// interrupt: (packets, ISR or not); each arrival starts an ISR unless one runs.
fn interrupt(case: &Case, drops: bool) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    move |&(n, stage, _): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            jumps.push(((n + 1, Stage::Isr, 0), case.lambda));
        } else if drops && stage != Stage::Isr {
            jumps.push(((n, Stage::Isr, 0), case.lambda));
        }
        match stage {
            Stage::Isr => jumps.push(((n, Stage::Service, 0), case.isr)),
            Stage::Service => jumps.push((after(n - 1, Stage::Service), 1.0)),
            _ => {}
        }
        jumps
    }
}

fn after(n: u64, stage: Stage) -> State {
    if n == 0 { (0, Stage::Idle, 0) } else { (n, stage, 0) }
}

/// disable-enable. `merged`: the stage Isr also serves the first packet, with the sum of both means.
fn disable_enable(case: &Case, merged: bool) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    let first = if merged { 1.0 / (1.0 / case.isr + 1.0) } else { case.isr };
    move |&(n, stage, _): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            let next = if stage == Stage::Idle { Stage::Isr } else { stage };
            jumps.push(((n + 1, next, 0), case.lambda));
        }
        match stage {
            Stage::Isr if merged => jumps.push((after(n - 1, Stage::Service), first)),
            Stage::Isr => jumps.push(((n, Stage::Service, 0), first)),
            Stage::Service => jumps.push((after(n - 1, Stage::Service), 1.0)),
            _ => {}
        }
        jumps
    }
}

/// Linux NAPI: the interrupt's `delivery` if it takes time; interrupt and mask; overhead; up to `weight` packets;
/// another overhead after `weight` packets, otherwise unmasking. Packets that arrive during unmasking interrupt after
/// it.
fn napi(case: &Case, delivery: Option<f64>) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    let isr = 1.0 / (1.0 / case.isr + 1.0 / case.unmask);
    move |&(n, stage, served): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            let next = if stage == Stage::Idle && delivery.is_none() { Stage::Isr } else { stage };
            jumps.push(((n + 1, next, served), case.lambda));
        }
        match (stage, delivery) {
            // The interrupt has not been delivered yet.
            (Stage::Idle, Some(delivery)) if n > 0 => jumps.push(((n, Stage::Isr, 0), delivery)),
            (Stage::Idle, _) => {}
            (Stage::Isr, _) => jumps.push(((n, Stage::Poll, 0), isr)),
            (Stage::Poll, _) if n == 0 => jumps.push(((0, Stage::Unmask, 0), case.overhead)),
            (Stage::Poll, _) => jumps.push(((n, Stage::Service, 0), case.overhead)),
            (Stage::Service, _) if served + 1 == case.weight => jumps.push(((n - 1, Stage::Poll, 0), 1.0)),
            (Stage::Service, _) if n == 1 => jumps.push(((0, Stage::Unmask, 0), 1.0)),
            (Stage::Service, _) => jumps.push(((n - 1, Stage::Service, served + 1), 1.0)),
            (Stage::Unmask, _) if n == 0 => jumps.push(((0, Stage::Idle, 0), case.unmask)),
            (Stage::Unmask, _) => jumps.push(((n, Stage::Isr, 0), case.unmask)),
        }
        jumps
    }
}

/// Masked coalescing by count: gather `frames`, interrupt, serve until empty.
fn masked_count(case: &Case, frames: u64) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    move |&(n, stage, _): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            let next = if stage == Stage::Idle && n + 1 == frames { Stage::Isr } else { stage };
            jumps.push(((n + 1, next, 0), case.lambda));
        }
        match stage {
            Stage::Isr => jumps.push(((n, Stage::Service, 0), case.isr)),
            Stage::Service => jumps.push((after(n - 1, Stage::Service), 1.0)),
            _ => {}
        }
        jumps
    }
}

/// Unmasked coalescing by count: `counted` frames wait for the interrupt that announces them; the others are served.
fn unmasked_count(case: &Case, frames: u64) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    let serving = move |n: u64, counted: u64| (n, if n > counted { Stage::Service } else { Stage::Idle }, counted);
    move |&(n, stage, counted): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            let interrupts = stage == Stage::Isr || counted + 1 == frames;
            let next = if interrupts { (n + 1, Stage::Isr, 0) } else { serving(n + 1, counted + 1) };
            jumps.push((next, case.lambda));
        }
        match stage {
            Stage::Isr => jumps.push((serving(n, 0), case.isr)),
            Stage::Service => jumps.push((serving(n - 1, counted), 1.0)),
            _ => {}
        }
        jumps
    }
}

/// disable-enable with services and interrupts of `stages` exponential stages each; the third number of a state is the
/// number of stages done.
fn erlang_disable_enable(case: &Case, stages: u64) -> impl Fn(&State) -> Jumps + use<> {
    let case = case.clone();
    let pace = stages as f64;
    move |&(n, stage, done): &State| {
        let mut jumps = Vec::new();
        if n < case.places {
            let next = if stage == Stage::Idle { Stage::Isr } else { stage };
            jumps.push(((n + 1, next, done), case.lambda));
        }
        match stage {
            Stage::Isr if done + 1 == stages => jumps.push(((n, Stage::Service, 0), case.isr * pace)),
            Stage::Service if done + 1 == stages => jumps.push((after(n - 1, Stage::Service), pace)),
            Stage::Isr => jumps.push(((n, stage, done + 1), case.isr * pace)),
            Stage::Service => jumps.push(((n, stage, done + 1), pace)),
            _ => {}
        }
        jumps
    }
}

// Each run tests new random cases: 500 of them show a fault that affects one case in 100 with a probability of 99 %.
proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn interrupt_chain(case in cases(1..65), drops: bool) {
        let outcome = case.solve(&format!("interrupt:drops_interrupt={drops}"));
        agree(&outcome, &verdict(&interrupt(&case, drops), case.places))?;
    }

    #[test]
    fn disable_enable_two_stage(case in cases(1..65)) {
        let outcome = case.solve("disable-enable:merged=false");
        agree(&outcome, &verdict(&disable_enable(&case, false), case.places))?;
    }

    #[test]
    fn disable_enable_merged(case in cases(1..65)) {
        let chain = verdict(&disable_enable(&case, true), case.places);
        // The referee's stage contains interrupt and first packet: divided in proportion to their means.
        let serving = 1.0 / (1.0 / case.isr + 1.0);
        let split = Verdict {
            interrupt: chain.interrupt * (1.0 - serving),
            protocol: chain.protocol + chain.interrupt * serving,
            ..chain
        };
        agree(&case.solve("disable-enable:merged=true"), &split)?;
    }

    #[test]
    fn masked_coalescing_by_count(case in cases(1..65), share in 0.0..1.0_f64) {
        let frames = 1 + ((case.places - 1) as f64 * share) as u64;
        let outcome = case.solve(&format!("coalesce:frames={frames},masked=true"));
        agree(&outcome, &verdict(&masked_count(&case, frames), case.places))?;
    }

    #[test]
    fn unmasked_coalescing_by_count(case in cases(1..33), share in 0.0..1.0_f64) {
        let frames = 1 + ((case.places - 1) as f64 * share) as u64;
        let outcome = case.solve(&format!("coalesce:frames={frames}"));
        let chain = verdict(&unmasked_count(&case, frames), case.places);
        agree(&outcome, &chain)?;
        let interrupts = outcome.interrupts_per_s.unwrap().value / 1e6;
        prop_assert!((interrupts - chain.interrupt * case.isr).abs() <= 1e-9 * interrupts + 1e-13);
    }

    /// One interrupt per frame is the scheme interrupt, also if dropped frames count.
    #[test]
    fn unmasked_coalescing_of_one_frame_is_interrupt(case in cases(1..65), drops: bool) {
        let coalesce = case.solve(&format!("coalesce:frames=1,drops_interrupt={drops}"));
        agree(&coalesce, &verdict(&interrupt(&case, drops), case.places))?;
    }

    #[test]
    fn disable_enable_with_erlang_times(case in cases(1..30), stages in 2..5_u32) {
        let host = Host { service: Service::Erlang { stages }, ..case.host() };
        let scheme = "disable-enable:merged=false".parse().unwrap();
        let point = Point::poisson(host, scheme, case.lambda * 1e6);
        let outcome = ModelEngine::default().evaluate(&point).unwrap();
        agree(&outcome, &verdict(&erlang_disable_enable(&case, stages.into()), case.places))?;
    }

    /// The interrupt is delivered late, and the CPU is free until then.
    #[test]
    fn napi_chain_with_late_interrupts(case in cases(1..30), latency in -2.0..2.0_f64) {
        let delivery = latency.exp();
        let scheme = format!("napi:weight={}", case.weight);
        let host = Host { interrupt_latency_s: 1e-6 / delivery, ..case.host_for(&scheme) };
        let point = Point::poisson(host, scheme.parse().unwrap(), case.lambda * 1e6);
        let outcome = ModelEngine::default().evaluate(&point).unwrap();
        agree(&outcome, &verdict(&napi(&case, Some(delivery)), case.places))?;
    }

    #[test]
    fn napi_chain(case in cases(1..65)) {
        let outcome = case.solve(&format!("napi:weight={}", case.weight));
        let chain = verdict(&napi(&case, None), case.places);
        agree(&outcome, &chain)?;
        let polls = outcome.polls_per_s.unwrap().value / 1e6;
        prop_assert!((polls - chain.poll * case.overhead).abs() <= 1e-9 * polls);
        let interrupts = outcome.interrupts_per_s.unwrap().value / 1e6;
        prop_assert!((interrupts - chain.idle * case.lambda - chain.unmask_met * case.unmask).abs() <= 1e-9 * interrupts + 1e-13);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn napi_chain_of_64(case in cases(64..65)) {
        let outcome = case.solve(&format!("napi:weight={}", case.weight));
        agree(&outcome, &verdict(&napi(&case, None), case.places))?;
    }
}
