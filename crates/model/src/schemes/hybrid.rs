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
pub fn supported(hybrid: &Hybrid, fidelity: Fidelity, service: Service) -> Result<(), String> {
    parts(hybrid).iter().try_for_each(|part| super::supported(part, fidelity, service))
}

/// Eq. (13): where interrupt-per-packet saturates, (r/2)(sqrt(1 + 4 mu/r) - 1), written without cancellation.
pub fn switching_pps(service_s: f64, interrupt_s: f64) -> f64 {
    // With r = 1/s: 2 mu / (1 + sqrt(1 + 4 mu s)).
    let mu = 1.0 / service_s;
    2.0 * mu / (1.0 + (1.0 + 4.0 * mu * interrupt_s).sqrt())
}

/// The part that a steady load at this rate settles in.
pub fn solve(work: &Work, hybrid: &Hybrid, fidelity: Fidelity) -> Result<Ring, String> {
    let up_pps = hybrid.up_pps.unwrap_or_else(|| switching_pps(work.service_s, work.interrupt_s));
    let [interrupts, polling] = parts(hybrid);
    let part = if work.arrival_pps <= up_pps { interrupts } else { polling };
    let mut ring = super::solve(&part, fidelity, work)?;
    ring.notes.push(format!(
        "hybrid: a steady load below {} stays with interrupts, above it polls; time spent around the switching rate \
         is not modelled",
        units::print_pps(up_pps)
    ));
    Ok(ring)
}
