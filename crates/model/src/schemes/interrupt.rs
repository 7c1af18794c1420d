//! interrupt: every arrival raises an interrupt unless an ISR is running.

use netcliff_core::note::Note;

use num_complex::Complex64;

use super::{Work, exponential, quantiles};
use crate::answer::{Distribution, Ring, Shares};
use crate::queue::birth_death::Mm1b;
use crate::queue::geometric::Geometric;

/// The paper's approximation: M/M/1/B with the service rate that interrupts leave, mu r/(lambda + r).
pub fn paper(work: &Work) -> Ring {
    // r/(lambda + r) = 1/(1 + lambda s), which allows s = 0.
    let left = 1.0 / (1.0 + work.arrival_pps * work.interrupt_s);
    let queue = Mm1b::new(work.arrival_pps, work.service_pps() * left, work.places);
    Ring {
        throughput_pps: queue.throughput(),
        loss: queue.blocking(),
        mean_present: queue.mean_present(),
        mean_latency_s: work.interrupt_s + queue.mean_sojourn(),
        quantiles: None,
        latencies: None,
        interrupts_per_s: work.arrival_pps * left,
        cycles_per_s: work.arrival_pps * left * queue.idle(),
        clocked: false,
        polls_per_s: None,
        shares: Shares {
            interrupt: work.arrival_pps * work.interrupt_s * left,
            poll: 0.0,
            protocol: left * queue.busy(),
            available: left * queue.idle(),
        },
        exact: false,
        notes: vec![Note::InterruptOfPaper],
    }
}

/// The chain (packets, ISR running or not): p_n = sigma^n p_0 below B, p_B = kappa p_(B-1) (docs/theory/chains.md).
pub fn exact(work: &Work, drops_interrupt: bool) -> Ring {
    let (lambda, mean) = (work.arrival_pps, work.service_s);
    let rho = lambda * mean;
    let interrupted = lambda * work.interrupt_s / (1.0 + lambda * work.interrupt_s);
    let below = Geometric::with_ratio(rho + interrupted, work.places);
    // kappa = full_off + full_on: the states (B, off) and (B, on), relative to p_(B-1).
    let full_on = lambda * work.interrupt_s * if drops_interrupt { 1.0 + rho } else { 1.0 };
    let last = below.weight(work.places - 1);
    let (below_sum, full_sum) = (below.sum(), last * (rho + full_on));
    let total = below_sum + full_sum;
    let (accepted, loss) = (below_sum / total, full_sum / total);
    // Cut equation: lambda p_n = mu p_(n+1, off). The ISR runs in the states (n, on), with p_(n, on) = U p_(n-1) for 0
    // < n < B.
    let on_below = if work.places > 1 { interrupted * (below_sum - last).max(0.0) } else { 0.0 };
    let shares = Shares {
        interrupt: (on_below + last * full_on) / total,
        poll: 0.0,
        protocol: rho * accepted,
        available: below.weight(0) / total,
    };
    let mean_present = below.mean() * accepted + work.places as f64 * loss;
    let throughput_pps = lambda * accepted;
    let mean_latency_s = mean_present / throughput_pps;
    // Latency: one ISR (a new one, or the rest of the running one), then n + 1 services, each interrupted by all
    // arrivals.
    let interrupt_s = work.interrupt_s;
    let transform = move |z: Complex64| {
        let isr = exponential(z, interrupt_s);
        let service = 1.0 / (1.0 + mean * (z + lambda * (1.0 - isr)));
        isr * service * below.transform(service)
    };
    // If dropped packets raise no interrupts, services after a loss run uninterrupted, which the transform ignores.
    let known = work.quantiles && (drops_interrupt || loss < 1e-6);
    let latencies = known.then(|| Distribution::new(mean_latency_s, transform));
    Ring {
        throughput_pps,
        loss,
        mean_present,
        mean_latency_s,
        quantiles: quantiles(latencies.as_ref()),
        latencies,
        interrupts_per_s: if work.interrupt_s > 0.0 {
            shares.interrupt / work.interrupt_s
        } else {
            instant(work, drops_interrupt, accepted)
        },
        cycles_per_s: lambda * shares.available,
        clocked: false,
        polls_per_s: None,
        shares,
        exact: true,
        notes: Vec::new(),
    }
}

/// Interrupts per second if they take no time: one per arrival, or only one per accepted arrival.
fn instant(work: &Work, drops_interrupt: bool, accepted: f64) -> f64 {
    work.arrival_pps * if drops_interrupt { 1.0 } else { accepted }
}
