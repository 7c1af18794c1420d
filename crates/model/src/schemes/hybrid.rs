//! hybrid: disable-enable below a switching rate, polling above it; the decision follows the measured rate of protocol
//! processing.
//!
//! Each part is solved exactly. Its share of time follows from a Markov chain of the rate meter ([`meter`]). This is an
//! approximation: samples are lognormal and independent, and each part is in equilibrium immediately after a switch. If
//! polling overflows the ring, disable-enable begins with a full ring; if it then runs for less time than it takes to
//! drain the ring, it runs at its capacity.

mod meter;

use netcliff_core::note::Note;
use netcliff_core::{Hybrid, Scheme, Service, switching};

use super::Work;
use crate::answer::{Ring, Shares};
use crate::bounds;
use meter::{Part, Rule, Times, WINDOW};
use netcliff_core::engine::Fidelity;

/// Loss above which a part counts as saturated: its samples then vary only with its service times.
const SATURATED: f64 = 0.01;

fn parts(hybrid: &Hybrid) -> [Scheme; 2] {
    [
        Scheme::DisableEnable { merged: hybrid.merged },
        Scheme::Polling { period_s: hybrid.period_s, quota: hybrid.quota },
    ]
}

/// Checks that both parts are supported; the error is the reason why not.
pub fn supported(hybrid: &Hybrid, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    parts(hybrid).iter().try_for_each(|part| super::supported(part, fidelity, service))
}

/// Solves both parts, each for its share of the time.
pub fn solve(work: &Work, hybrid: &Hybrid, fidelity: Fidelity, service: &Service) -> Result<Ring, String> {
    let up_pps = hybrid.up_pps.unwrap_or_else(|| switching::saturation(work.service_s, work.interrupt_s));
    let down_pps = hybrid.down_pps.unwrap_or_else(|| switching::down_of(up_pps));
    let rule = Rule { up_pps, down_pps, weight: hybrid.ewma };
    let [quiet, busy] = parts(hybrid);
    // If no sample of disable-enable can reach `up`, polling never runs and need not be solved.
    let quiet = super::solve(&quiet, fidelity, service, work)?;
    let steady = Part { throughput_pps: quiet.throughput_pps, deviation: deviation(work, &quiet, 1.0) };
    let alone = meter::times(&[steady; 2], Rule { down_pps: 0.0, ..rule }).polling == 0.0;
    let (times, rings) = if alone {
        (Times { polling: 0.0, switches_per_s: 0.0 }, [quiet.clone(), quiet])
    } else {
        let busy = super::solve(&busy, fidelity, service, work)?;
        let polled = hybrid.quota as f64 - busy.throughput_pps * hybrid.period_s;
        let other = Part { throughput_pps: busy.throughput_pps, deviation: deviation(work, &busy, polled) };
        let (times, quiet) = drained(work, [steady, other], rule, quiet, &busy);
        (times, [quiet, busy])
    };
    let mut ring = mixed(rings, times.polling);
    let source = if hybrid.up_pps.is_some() { "given" } else { "eq. (13)" };
    ring.notes.push(Note::HybridThresholds(up_pps, source, down_pps, work.arrival_pps, times.polling));
    if times.polling > 0.0 && times.polling < 1.0 {
        ring.exact = false;
        ring.notes.extend([Note::HybridSwitches(times.switches_per_s, WINDOW), Note::Approximate(bounds::HYBRID)]);
    }
    Ok(ring)
}

/// Relative standard deviation of the time of a sample of 64 packets: of a Poisson stream or, in saturation, of the
/// services. `unused` is the part of the quota that a tick leaves unused (packets), an upper limit of the variation in
/// saturation.
fn deviation(work: &Work, ring: &Ring, unused: f64) -> f64 {
    let variation = if ring.loss > SATURATED { work.shape.squared_variation().min(unused.max(0.0)) } else { 1.0 };
    (variation.max(1e-4) / WINDOW).sqrt()
}

/// Returns the shares of time, and disable-enable as it behaves while it runs: at its capacity, if it stops before the
/// ring has drained.
fn drained(work: &Work, parts: [Part; 2], rule: Rule, quiet: Ring, busy: &Ring) -> (Times, Ring) {
    let times = meter::times(&parts, rule);
    let full = quiet.loss <= SATURATED && busy.loss > SATURATED && times.polling > 0.0 && times.polling < 1.0;
    if !full {
        return (times, quiet);
    }
    let capacity_pps = work.service_pps();
    let deviation = (work.shape.squared_variation().max(1e-4) / WINDOW).sqrt();
    let hurried = meter::times(&[Part { throughput_pps: capacity_pps, deviation }, parts[1]], rule);
    let stay_s = (1.0 - hurried.polling) / hurried.switches_per_s.max(f64::MIN_POSITIVE);
    let drain_s = work.places as f64 / (capacity_pps - work.arrival_pps).max(f64::MIN_POSITIVE);
    if stay_s > drain_s {
        return (times, quiet);
    }
    // In this case disable-enable drains a ring that polling has filled, so that it delivers more packets than arrive.
    // Its negative loss makes accepted packets equal delivered ones over both parts.
    let ring = Ring {
        throughput_pps: capacity_pps,
        loss: 1.0 - capacity_pps / work.arrival_pps,
        mean_present: busy.mean_present,
        mean_latency_s: busy.mean_present / capacity_pps,
        quantiles: None,
        latencies: None,
        interrupts_per_s: 0.0,
        cycles_per_s: 0.0,
        clocked: false,
        polls_per_s: None,
        shares: Shares { protocol: 1.0, ..Shares::default() },
        exact: false,
        notes: quiet.notes,
    };
    (hurried, ring)
}

/// Averages the figures of disable-enable and of polling, weighted by their shares of the time.
fn mixed([quiet, busy]: [Ring; 2], polling: f64) -> Ring {
    if polling == 0.0 || polling == 1.0 {
        return if polling == 0.0 { quiet } else { busy };
    }
    let mean = |pick: &dyn Fn(&Ring) -> f64| (1.0 - polling) * pick(&quiet) + polling * pick(&busy);
    let throughput_pps = mean(&|ring| ring.throughput_pps);
    let mean_present = mean(&|ring| ring.mean_present);
    let mut notes = quiet.notes.clone();
    notes.extend(busy.notes.iter().filter(|note| !quiet.notes.contains(note)).cloned());
    Ring {
        throughput_pps,
        loss: mean(&|ring| ring.loss),
        mean_present,
        mean_latency_s: mean_present / throughput_pps,
        quantiles: None,
        latencies: None,
        interrupts_per_s: mean(&|ring| ring.interrupts_per_s),
        cycles_per_s: mean(&|ring| ring.cycles_per_s),
        clocked: quiet.clocked || busy.clocked,
        polls_per_s: Some(mean(&|ring| ring.polls_per_s.unwrap_or(0.0))),
        shares: Shares {
            interrupt: mean(&|ring| ring.shares.interrupt),
            poll: mean(&|ring| ring.shares.poll),
            protocol: mean(&|ring| ring.shares.protocol),
            available: mean(&|ring| ring.shares.available),
        },
        exact: false,
        notes,
    }
}
