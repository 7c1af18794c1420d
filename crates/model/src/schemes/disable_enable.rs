//! disable-enable: the first packet raises an interrupt; all further packets are served with interrupts masked until
//! the ring is empty.

use netcliff_core::note::Note;

use num_complex::Complex64;

use super::{Work, exponential, quantiles};
use crate::answer::{Distribution, Ring, Shares};
use crate::queue::pieces::Pieces;

/// Weights of the chain's states, by packets present. Each is a sum of positive terms.
struct States {
    idle: f64,
    /// `[n]`: first stage (ISR, or ISR and first packet) with n packets.
    first: Vec<f64>,
    /// `[n]`: service stage with n packets.
    served: Vec<f64>,
}

/// Sums over the states, divided by the total weight.
struct Sums {
    first: f64,
    served: f64,
    idle: f64,
    full: f64,
    mean: f64,
}

impl States {
    /// Computes the weights of all states, up to a common factor: `idle` = 1, `first[n]` = b^n and `served[n + 1]` =
    /// a (`served[n]` + b^(n + shift)), with `served[0]` = 0, a = lambda/mu and b = lambda/(lambda + rate of the first
    /// stage). `lambda_first` is lambda times the mean length of the first stage. `shift` is 1 if the first stage
    /// serves a packet (so that n is lower by one at its end), otherwise 0. The last level (B = `places`) differs,
    /// because its arrivals are dropped. Takes O(B) operations and has no singularity at a = 1.
    fn solve(a: f64, lambda_first: f64, places: usize, serves: bool) -> Self {
        let b = lambda_first / (1.0 + lambda_first);
        let mut states = Self { idle: 1.0, first: vec![0.0; places + 1], served: vec![0.0; places + 1] };
        let mut power = 1.0;
        for n in 0..places {
            let fed = if serves {
                power * b
            } else if n == 0 {
                0.0
            } else {
                power
            };
            let below = if n == 0 { states.feed(serves) } else { states.served[n] };
            let last = n + 1 == places;
            // At the top, arrivals during the first stage are dropped: if that stage serves, its end leads to level
            // B-1.
            let fed = if last && serves { 0.0 } else { fed };
            states.served[n + 1] = a * (below + fed);
            power *= if last { lambda_first } else { b };
            states.first[n + 1] = power;
            if states.served[n + 1] > 1e250 {
                states.scale(n + 1, 1e-250);
                power *= 1e-250;
            }
        }
        states
    }

    /// Flow from idle into the service stage of level 1: all of it, unless the first stage serves.
    fn feed(&self, serves: bool) -> f64 {
        if serves { 0.0 } else { self.idle }
    }

    /// Scales the weights computed so far, from level `n` down to the first level with weight 0; all below are 0 too.
    fn scale(&mut self, n: usize, factor: f64) {
        self.idle *= factor;
        for level in (0..=n).rev() {
            if level > 0 && self.first[level] + self.served[level] == 0.0 {
                break;
            }
            self.first[level] *= factor;
            self.served[level] *= factor;
        }
    }

    fn sums(&self) -> Sums {
        let places = self.first.len() - 1;
        let (first, served): (f64, f64) = (self.first.iter().sum(), self.served.iter().sum());
        let total = self.idle + first + served;
        let mean: f64 = (1..=places).map(|n| n as f64 * (self.first[n] + self.served[n])).sum();
        Sums {
            first: first / total,
            served: served / total,
            idle: self.idle / total,
            full: (self.first[places] + self.served[places]) / total,
            mean: mean / total,
        }
    }
}

/// Solves the paper's chain: mask, ISR and first packet are one exponential stage with rate nu.
pub fn merged(work: &Work) -> Ring {
    let first_s = work.mask_s + work.interrupt_s + work.service_s;
    let states =
        States::solve(work.arrival_pps * work.service_s, work.arrival_pps * first_s, work.places as usize, true);
    let sums = states.sums();
    // Divide the stage's time between interrupt and protocol in proportion to their means.
    let serving = work.service_s / first_s;
    let shares = Shares {
        interrupt: sums.first * (1.0 - serving),
        poll: 0.0,
        protocol: sums.first * serving + sums.served,
        available: sums.idle,
    };
    let found = states.found(work.quantiles);
    let service_s = work.service_s;
    let transform = move |z: Complex64| {
        let (first, service) = (exponential(z, first_s), exponential(z, service_s));
        // A packet that finds the host idle starts the first stage. A packet that finds n packets in the first stage
        // waits for the stage's rest, which serves one, so that n services are left.
        found.transform(service, first, first * service, service * service)
    };
    let mut ring = ring(work, &sums, shares, transform);
    ring.notes.push(Note::MergedStage);
    ring
}

/// Solves the chain with two exponential stages: mask and ISR (m + s), then services.
pub fn two_stage(work: &Work) -> Ring {
    let first_s = work.mask_s + work.interrupt_s;
    let states =
        States::solve(work.arrival_pps * work.service_s, work.arrival_pps * first_s, work.places as usize, false);
    let sums = states.sums();
    let shares = Shares { interrupt: sums.first, poll: 0.0, protocol: sums.served, available: sums.idle };
    let found = states.found(work.quantiles);
    let service_s = work.service_s;
    let transform = move |z: Complex64| {
        let (first, service) = (exponential(z, first_s), exponential(z, service_s));
        found.transform(service, first * service, first * service * service, service * service)
    };
    ring(work, &sums, shares, transform)
}

/// Distribution of the state that an accepted packet finds.
struct Found {
    idle: f64,
    /// Weights of first and service stage with n + 1 packets.
    first: Pieces,
    served: Pieces,
    weight: f64,
}

impl States {
    /// Distribution that an accepted packet finds; empty if not `wanted`.
    fn found(&self, wanted: bool) -> Found {
        let places = if wanted { self.first.len() - 1 } else { 1 };
        let [first, served] = [&self.first, &self.served].map(|all| &all[1..places]);
        let weight = self.idle + first.iter().sum::<f64>() + served.iter().sum::<f64>();
        Found { idle: self.idle, first: Pieces::new(first), served: Pieces::new(served), weight }
    }
}

impl Found {
    /// E[e^(-z T)] for the latency T of an accepted packet: `idle` if it finds no packets; if it finds n packets,
    /// `first` x service^(n-1) in the first stage, and `served` x service^(n-1) in the service stage.
    fn transform(&self, service: Complex64, idle: Complex64, first: Complex64, served: Complex64) -> Complex64 {
        let found = first * self.first.transform(service) + served * self.served.transform(service);
        (found + idle * self.idle) / self.weight
    }
}

fn ring(work: &Work, sums: &Sums, shares: Shares, transform: impl Fn(Complex64) -> Complex64 + 'static) -> Ring {
    let throughput_pps = work.arrival_pps * (1.0 - sums.full).max(0.0);
    // If most packets are lost, 1 - loss is a small difference of large numbers. The CPU time spent gives a more
    // accurate throughput.
    let throughput_pps = if sums.full > 0.5 { shares.protocol / work.service_s } else { throughput_pps };
    let mean_latency_s = sums.mean / throughput_pps;
    let latencies = work.quantiles.then(|| Distribution::new(mean_latency_s, transform));
    Ring {
        throughput_pps,
        loss: sums.full,
        mean_present: sums.mean,
        mean_latency_s,
        quantiles: quantiles(latencies.as_ref()),
        latencies,
        interrupts_per_s: work.arrival_pps * sums.idle,
        cycles_per_s: work.arrival_pps * sums.idle,
        clocked: false,
        polls_per_s: None,
        shares,
        exact: true,
        notes: Vec::new(),
    }
}
