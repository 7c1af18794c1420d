//! Schemes whose busy periods begin with a gathering (packets collect before the interrupt) and an ISR, and then last
//! until the ring is empty: masked coalescing, disable-enable and ideal, with any distribution of times. Exact, as
//! M/G/1/K with a set-up.

mod latency;

use netcliff_core::Coalesce;
use netcliff_core::math;

use super::{Work, quantiles};
use crate::answer::{Ring, Shares};
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::mg1k::{Mg1k, Setup};

/// Conditions under which the interrupt follows the first frame; the earliest one counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gathering {
    /// Number of frames, at least 1; `None` if frames are not counted.
    pub frames: Option<u64>,
    /// Time from the first frame (s).
    pub timer_s: Option<f64>,
    /// Time from the last frame (s); not together with `timer_s`.
    pub packet_timer_s: Option<f64>,
    /// True: a frame that finds the ring full also restarts the packet timer.
    pub drops_restart: bool,
}

impl Gathering {
    /// Makes a gathering that ends with the first frame: the interrupt comes at once.
    pub fn first_frame() -> Self {
        Self { frames: Some(1), ..Self::default() }
    }

    /// Returns the gathering of a masked coalescing scheme; `None` if the scheme has features that this set-up lacks.
    pub fn of(coalesce: &Coalesce) -> Option<Self> {
        let on = |timer: Option<f64>| timer.filter(|seconds| *seconds > 0.0);
        if on(coalesce.min_gap_s).is_some()
            || (on(coalesce.packet_timer_s).is_some() && on(coalesce.absolute_timer_s).is_some())
        {
            return None;
        }
        let (timer_s, packet_timer_s) = (coalesce.absolute_timer_s, on(coalesce.packet_timer_s));
        // Without timers only the count matters; without any condition the interrupt comes at once.
        let timed = timer_s.is_some() || packet_timer_s.is_some();
        Some(Self {
            frames: coalesce.frames.or(if timed { None } else { Some(1) }),
            timer_s,
            packet_timer_s,
            drops_restart: coalesce.drops_interrupt,
        })
    }

    /// Distribution of the frames present at the end of the gathering (index 0 is 1 frame), its mean time after the
    /// first frame (s), and the mean number of frames lost in it.
    pub fn solve(&self, arrival_pps: f64, places: usize) -> (Vec<f64>, f64, f64) {
        let wanted = self.frames.unwrap_or(u64::MAX).min(places as u64 + 1) as usize;
        if let Some(packet_timer_s) = self.packet_timer_s {
            return self.by_gaps(arrival_pps * packet_timer_s, arrival_pps, wanted, places);
        }
        let Some(timer_s) = self.timer_s else {
            let mut present = vec![0.0; wanted.min(places)];
            *present.last_mut().unwrap_or(&mut 0.0) = 1.0;
            return (present, (wanted.min(places) - 1) as f64 / arrival_pps, 0.0);
        };
        let most = wanted.min(places);
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, arrival_pps * timer_s, places);
        // 1 + min(most - 1, arrivals during the timer).
        let mut present = counts.equal[..most].to_vec();
        present[most - 1] += counts.above[most - 1];
        let counted = self.frames.is_some_and(|frames| frames <= places as u64);
        if counted {
            // The gathering ends with the timer or the last frame: its mean time is the mean number of frames gathered
            // / their rate.
            let gathered: f64 = counts.above[..most - 1].iter().sum();
            return (present, gathered / arrival_pps, 0.0);
        }
        (present, timer_s, counts.excess[places - 1])
    }

    /// [`Gathering::solve`] for a timer that each frame restarts; it lasts `load` mean interarrival times. Another
    /// frame arrives before the timer ends with probability q = 1 - e^-load.
    fn by_gaps(&self, load: f64, arrival_pps: f64, wanted: usize, places: usize) -> (Vec<f64>, f64, f64) {
        let (followed, alone) = (-math::exp_m1(-load), math::exp(-load));
        let most = wanted.min(places);
        let mut present = Vec::with_capacity(most);
        let mut reached = 1.0;
        for _ in 1..most {
            present.push(reached * alone);
            reached *= followed;
        }
        present.push(reached);
        // Mean number of frames after the first: P(2 or more) + P(3 or more) + ...
        let further: f64 = present
            .iter()
            .rev()
            .scan(0.0, |tail, share| {
                *tail += share;
                Some(*tail)
            })
            .sum::<f64>()
            - 1.0;
        // The end is a stopping time of the arrivals, so that its mean is the mean number of arrivals / their rate.
        // Arrivals are the frames gathered, and those dropped because the ring is full, before the timer of the last
        // stored frame ends: the drops during that timer or, if drops restart it, all drops up to the first longer gap.
        let more = if self.drops_restart { math::exp_m1(load) } else { load };
        let lost = if wanted > places { reached * more } else { 0.0 };
        (present, (further + lost) / arrival_pps, lost)
    }
}

/// Solves the scheme; `interrupt_s` is the time of the ISR including masking, 0 without an ISR.
pub fn solve(work: &Work, gathering: Gathering, interrupt_s: f64) -> Ring {
    let (lambda, places) = (work.arrival_pps, work.places as usize);
    let (gathered, gathering_s, mut lost) = gathering.solve(lambda, places);
    let shape = &work.shape;
    let exponential = *shape == TimeShape::Exponential && work.mixture.is_empty();
    let mut present = gathered.clone();
    if interrupt_s > 0.0 {
        let meanwhile = ArrivalCounts::new(shape, lambda * interrupt_s, places);
        lost += present.iter().enumerate().map(|(i, share)| share * meanwhile.excess[places - i - 1]).sum::<f64>();
        present = spread(&present, &meanwhile, places);
    }
    let waiting_s = 1.0 / lambda + gathering_s;
    let setup = Setup { present, mean_s: waiting_s + interrupt_s, lost };
    let counts = ArrivalCounts::mixture(shape, lambda * work.service_s, &work.mixture, places);
    let queue = Mg1k::new(lambda, work.service_s, &counts, places, &setup);
    let mean_latency_s = queue.mean_present / queue.throughput;
    let latencies = if work.quantiles && exponential {
        let found = latency::Found::new(&gathered, &queue.left_behind, lambda * interrupt_s);
        latency::latency(work, gathering, interrupt_s, found, mean_latency_s)
    } else {
        None
    };
    Ring {
        throughput_pps: queue.throughput,
        loss: queue.loss,
        mean_present: queue.mean_present,
        mean_latency_s,
        quantiles: quantiles(latencies.as_ref()),
        latencies,
        interrupts_per_s: if interrupt_s > 0.0 { queue.cycles } else { 0.0 },
        cycles_per_s: queue.cycles,
        clocked: gathering != Gathering::first_frame(),
        polls_per_s: None,
        shares: Shares {
            interrupt: queue.cycles * interrupt_s,
            poll: 0.0,
            protocol: queue.throughput * work.service_s,
            available: queue.cycles * waiting_s,
        },
        exact: true,
        notes: Vec::new(),
    }
}

/// Probability below which arrivals in a set-up are left out.
const RAREST: f64 = 1e-60;

/// Returns the distribution of packets present after further arrivals, limited to the ring's size.
fn spread(present: &[f64], arrivals: &ArrivalCounts, places: usize) -> Vec<f64> {
    let width = arrivals.above.iter().position(|p| *p < RAREST).map_or(places, |last| last + 1);
    let mut after = vec![0.0; places.min(present.len() + width)];
    let top = after.len();
    if !arrivals.geometric.is_empty() {
        // Geometric arrivals: the tail over all packets already present follows by one multiplication per level.
        for (weight, ratio) in &arrivals.geometric {
            let mut sum = 0.0;
            for (k, after) in after.iter_mut().enumerate() {
                sum = ratio * sum + present.get(k).map_or(0.0, |share| share * weight * (1.0 - ratio));
                *after += sum;
            }
        }
        if top == places {
            after[top - 1] += present.iter().enumerate().map(|(i, p)| p * arrivals.above[top - 1 - i]).sum::<f64>();
        }
        return after;
    }
    for (i, share) in present.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        for (k, probability) in arrivals.equal[..(top - i).min(width)].iter().enumerate() {
            after[i + k] += share * probability;
        }
        if top == places {
            after[top - 1] += share * arrivals.above[top - 1 - i];
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::disable_enable;

    fn work(arrival_pps: f64, places: u64) -> Work {
        Work {
            arrival_pps,
            service_s: 5.34e-6,
            interrupt_s: 3.73e-6,
            delivery_s: 0.0,
            mask_s: 0.5e-6,
            poll_s: 0.0,
            places,
            shape: TimeShape::Exponential,
            frame_bytes: 64.0,
            mixture: Vec::new(),
            quantiles: true,
            left_out: 0.0,
        }
    }

    /// Gathering one frame is the same as disable-enable, whose chain computes its latency by another transform.
    #[test]
    fn one_frame_is_disable_enable() {
        for (arrival_pps, places) in [(1e3, 1024), (100e3, 1024), (180e3, 1024), (150e3, 16), (400e3, 64), (50e3, 1)] {
            let work = work(arrival_pps, places);
            let one = solve(&work, Gathering::first_frame(), work.mask_s + work.interrupt_s);
            let chain = disable_enable::two_stage(&work);
            let (a, b) = (one.quantiles.unwrap(), chain.quantiles.unwrap());
            for (a, b) in [(a.p50, b.p50), (a.p90, b.p90), (a.p99, b.p99), (a.p999, b.p999)] {
                assert!((a / b - 1.0).abs() < 1e-4, "{arrival_pps} {places}: {a} {b}");
            }
        }
    }

    /// A timer longer than any wait, or a count that is never reached, has no effect.
    #[test]
    fn limits_of_both_conditions() {
        let close = |a: Gathering, b: Gathering, arrival_pps: f64| {
            let work = work(arrival_pps, 256);
            let of = |gathering| solve(&work, gathering, 4.23e-6).quantiles.unwrap();
            let (a, b) = (of(a), of(b));
            for (a, b) in [(a.p50, b.p50), (a.p90, b.p90), (a.p99, b.p99), (a.p999, b.p999)] {
                assert!((a / b - 1.0).abs() < 1e-4, "{arrival_pps}: {a} {b}");
            }
        };
        let both = |frames: u64, timer_s: f64| Gathering {
            frames: Some(frames),
            timer_s: Some(timer_s),
            ..Gathering::default()
        };
        for arrival_pps in [20e3, 100e3, 170e3] {
            close(both(8, 60.0 / arrival_pps), Gathering { frames: Some(8), ..Gathering::default() }, arrival_pps);
            close(both(120, 50e-6), Gathering { timer_s: Some(50e-6), ..Gathering::default() }, arrival_pps);
        }
    }
}
