//! The application above the ring: saturation, receive livelock and the cliff; and the two-moment socket compared with
//! the referee's exact chain of CPU, ring and socket.

use crate::referee;

use netcliff_core::{Engine, Host, Outcome, Point, Scheme, Service, Traffic};
use netcliff_model::{Fidelity, ModelEngine, cliff, livelock_index};

/// Costs as calibrated on a small virtual machine.
fn calibrated() -> Host {
    Host {
        name: "calibrated".to_owned(),
        interrupt_s: 2e-6,
        interrupt_latency_s: 0.0,
        protocol_s: 0.9e-6,
        per_byte_s: 0.0,
        mask_s: 0.0,
        poll_s: 0.5e-6,
        application_s: Some(1e-6),
        context_switch_s: 2e-6,
        wakeup_s: 1e-6,
        socket_drop_cost: 0.7,
        ring: 1000,
        socket_buffer: 5000,
        tick_s: 4e-3,
        service: Service::Exponential,
        ..Host::pentium4_2530mhz()
    }
}

fn solve(host: &Host, scheme: &str, pps: f64) -> Outcome {
    let point = Point::poisson(host.clone(), scheme.parse().unwrap(), pps);
    ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).unwrap()
}

fn throughput(outcome: &Outcome) -> f64 {
    outcome.throughput_pps.unwrap().value
}

#[test]
fn loss_rises_and_the_application_starves() {
    // Ring and socket of about a hundred packets, so that 39 loads are solved quickly.
    let host = Host { ring: 64, socket_buffer: 128, ..calibrated() };
    let mut last = 0.0;
    for step in 1..40 {
        let outcome = solve(&host, "napi", f64::from(step) * 50e3);
        let loss = outcome.loss_fraction.unwrap().value;
        assert!(loss >= last - 1e-9, "{step} {loss} {last}");
        last = loss;
        let cpu = outcome.cpu.unwrap();
        let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available];
        let total: f64 = shares.iter().map(|share| share.unwrap().value).sum();
        assert!((total - 1.0).abs() < 1e-12);
        assert!(shares.iter().all(|share| share.unwrap().value >= 0.0));
    }
    assert!(last > 0.999, "livelock takes everything: {last}");
}

#[test]
fn cliff_is_where_the_cpu_ends() {
    let host = Host { ring: 300, socket_buffer: 2000, ..calibrated() };
    let (engine, traffic) = (ModelEngine::default().without_quantiles(), Traffic::default());
    let scheme: Scheme = "napi".parse().unwrap();
    let found = cliff(&engine, &host, &scheme, &traffic, 1e-4).unwrap();
    // lambda (protocol + application) + interrupts (s + o) = 1, without wake-ups.
    let outcome = solve(&host, "napi", found.pps);
    let interrupts = outcome.interrupts_per_s.unwrap().value;
    let used = found.pps * 1.9e-6 + interrupts * 2.5e-6;
    assert!((used - 1.0).abs() < 3e-3, "{} pps uses {used}", found.pps);
    let index = livelock_index(&engine, &host, &scheme, &traffic, found.pps).unwrap();
    assert!((0.3..0.7).contains(&index), "{index}");
}

/// Result of the exact chain: packets read (1/s), and mean time to the start of a read (s).
struct Exact {
    read_pps: f64,
    latency_s: f64,
}

/// disable-enable with an application; states (ring, stage, socket including the packet being read).
fn exact(host: &Host, lambda: f64) -> Exact {
    let (isr, mu, alpha) = (1.0 / host.interrupt_s, 1.0 / host.protocol_s, 1.0 / host.application_s.unwrap());
    // Stage 0: softirq idle; 1: interrupt; 2: protocol.
    let chain = referee::stationary((0_u64, 0_u8, 0_u64), &|&(packets, stage, waiting)| {
        let mut jumps = Vec::new();
        if packets < host.ring {
            jumps.push(((packets + 1, stage.max(1), waiting), lambda));
        }
        match stage {
            1 => jumps.push(((packets, 2, waiting), isr)),
            2 => {
                let kept = (waiting + 1).min(host.socket_buffer + 1);
                jumps.push(((packets - 1, if packets == 1 { 0 } else { 2 }, kept), mu));
            }
            _ if waiting > 0 => jumps.push(((0, 0, waiting - 1), alpha)),
            _ => {}
        }
        jumps
    });
    let mean = |value: &dyn Fn(&(u64, u8, u64)) -> f64| chain.iter().map(|(state, p)| value(state) * p).sum::<f64>();
    let delivered = mean(&|state| if state.1 == 2 { mu } else { 0.0 });
    let read_pps = mean(&|state| if state.1 == 0 && state.2 > 0 { alpha } else { 0.0 });
    let left = mean(&|state| f64::from(state.1 == 0));
    // A read takes t / V from start to end, including the time in which protocol work interrupts it.
    let reading_s = host.application_s.unwrap() / left;
    let latency_s = mean(&|state| state.0 as f64) / delivered + mean(&|state| state.2 as f64) / read_pps - reading_s;
    Exact { read_pps, latency_s }
}

#[test]
fn two_moments_near_the_exact_socket() {
    let mut host = calibrated();
    (host.context_switch_s, host.wakeup_s, host.socket_drop_cost) = (0.0, 0.0, 1.0);
    (host.ring, host.socket_buffer) = (24, 40);
    // Erlang with one stage is exponential, but not recognised as such: the approximation is used.
    host.service = Service::Erlang { stages: 1 };
    for kpps in [100.0, 200.0, 300.0, 340.0, 380.0, 450.0, 600.0, 900.0] {
        let outcome = solve(&host, "disable-enable", kpps * 1e3);
        assert_eq!(outcome.cpu_method.as_deref(), Some("approximate"));
        let Exact { read_pps, latency_s } = exact(&host, kpps * 1e3);
        let (read, latency) = (throughput(&outcome), outcome.latency_s.unwrap().mean.unwrap().value);
        assert!((read / read_pps - 1.0).abs() < 0.006, "{kpps} kpps: {read} read, exactly {read_pps}");
        assert!((latency / latency_s - 1.0).abs() < 0.08, "{kpps} kpps: {latency} s, exactly {latency_s}");
    }
}
