//! hybrid: disable-enable below a switching rate, polling above it.

use netcliff_core::{Hybrid, Scheme, Service, units};

use super::Work;
use crate::answer::Ring;
use crate::engine::Fidelity;

fn parts(hybrid: &Hybrid) -> [Scheme; 2] {
    [
        Scheme::DisableEnable { merged: hybrid.merged },
        Scheme::Polling { period_s: hybrid.period_s, quota: hybrid.quota },
    ]
}

/// Both parts must have an answer.
pub fn supported(hybrid: &Hybrid, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    parts(hybrid).iter().try_for_each(|part| super::supported(part, fidelity, service))
}

/// Eq. (13): where interrupt-per-packet saturates, (r/2)(sqrt(1 + 4 mu/r) - 1) (pps), written without cancellation; the
/// paper switches a little below it.
pub fn switching_pps(service_s: f64, interrupt_s: f64) -> f64 {
    // With r = 1/s: 2 mu / (1 + sqrt(1 + 4 mu s)).
    let mu = 1.0 / service_s;
    2.0 * mu / (1.0 + (1.0 + 4.0 * mu * interrupt_s).sqrt())
}

/// The part that a steady load at this rate settles in.
pub fn solve(work: &Work, hybrid: &Hybrid, fidelity: Fidelity) -> Result<Ring, String> {
    let up_pps = hybrid.up_pps.unwrap_or_else(|| switching_pps(work.service_s, work.interrupt_s));
    let down_pps = hybrid.down_pps.unwrap_or(0.9 * up_pps);
    let [interrupts, polling] = parts(hybrid);
    let polls = work.arrival_pps > up_pps;
    let mut ring = super::solve(if polls { &polling } else { &interrupts }, fidelity, work)?;
    let source = if hybrid.up_pps.is_some() { "given" } else { "eq. (13)" };
    let [up, down] = [up_pps, down_pps].map(|pps| units::print_pps(pps.round()));
    ring.notes.push(format!(
        "hybrid: switches to polling at {up} ({source}) and back at {down}; a steady load of {} stays with {}",
        units::print_pps(work.arrival_pps),
        if polls { "polling" } else { "disable-enable" }
    ));
    if !polls && work.arrival_pps > down_pps {
        ring.notes
            .push("between the two switching rates a host that polls goes on polling; this is the other".to_owned());
    }
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's cliffs, just below which it would switch (120 and 110 kpps): 127 kpps at 5.34 us, 116 kpps at 5.99 us.
    #[test]
    fn switching_points() {
        for (service_s, kpps) in [(5.34e-6, 127.05), (5.99e-6, 116.4)] {
            let found = switching_pps(service_s, 3.73e-6) / 1e3;
            assert!((found - kpps).abs() < 0.06, "{found} {kpps}");
        }
    }
}
