//! ideal: no interrupt cost; M/M/1/B.

use num_complex::Complex64;

use super::{Work, exponential, quantiles};
use crate::answer::{Distribution, Ring, Shares};
use crate::queue::birth_death::Mm1b;

/// M/M/1/B.
pub fn solve(work: &Work) -> Ring {
    let queue = Mm1b::new(work.arrival_pps, work.service_pps(), work.places);
    let mean_latency_s = queue.mean_sojourn();
    // An accepted packet finds n with truncated geometric weights, then n + 1 services.
    let (found, service_s) = (queue.found(), work.service_s);
    let transform = move |z: Complex64| {
        let service = exponential(z, service_s);
        found.transform(service) * service
    };
    let latencies = work.quantiles.then(|| Distribution::new(mean_latency_s, transform));
    Ring {
        throughput_pps: queue.throughput(),
        loss: queue.blocking(),
        mean_present: queue.mean_present(),
        mean_latency_s,
        quantiles: quantiles(latencies.as_ref()),
        latencies,
        interrupts_per_s: 0.0,
        cycles_per_s: work.arrival_pps * queue.idle(),
        clocked: false,
        polls_per_s: None,
        shares: Shares { protocol: queue.busy(), available: queue.idle(), ..Shares::default() },
        exact: true,
        notes: Vec::new(),
    }
}
