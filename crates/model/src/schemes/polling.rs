//! polling: a tick every `period` starts a cycle of up to `quota` packets.

mod exponential;

pub use exponential::Polling;

use netcliff_core::Service;
use netcliff_core::engine::Fidelity;
use netcliff_core::note::Note;

use super::ticks::Ticked;
use super::{Work, afford};
use crate::answer::{Ring, Shares};
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::banded::Banded;
use crate::queue::mg1k::{Mg1k, Setup};

/// Checks that these times are supported; the error is the reason why not.
pub fn supported(fidelity: Fidelity, service: &Service) -> Result<(), String> {
    if fidelity == Fidelity::Exact && !matches!(service, Service::Deterministic | Service::Exponential) {
        return Err(format!(
            "polling is exact for exponential and for deterministic times only (ticks against service = {service} have \
             no small chain): use fidelity paper, another service, or the simulator"
        ));
    }
    Ok(())
}

/// Solves the scheme.
pub fn solve(work: &Work, period_s: f64, quota: u64, fidelity: Fidelity) -> Result<Ring, String> {
    let by = match fidelity {
        Fidelity::Exact => return exact(work, period_s, quota),
        Fidelity::Paper => paper,
        Fidelity::Printed => printed,
    };
    afford::mg1k("polling", &Work { shape: TimeShape::Deterministic, ..work.clone() })?;
    Ok(by(work, period_s, quota))
}

/// Solves the paper's M/D/1/B at the polled rate, with two corrections: Q/T_v of eq. (9) is Q/T_poll, and the wait for
/// a tick in eq. (12) is half a period.
fn paper(work: &Work, period_s: f64, quota: u64) -> Ring {
    let polled = (quota as f64 / period_s).min(work.service_pps() * (1.0 - work.poll_s / period_s));
    let queue = md1b(work, polled);
    let queued_s = (queue.mean_present / queue.throughput - 1.0 / polled).max(0.0);
    let mean_latency_s = 0.5 * period_s + queued_s + work.service_s;
    let protocol = queue.throughput * work.service_s;
    by_formula(work, period_s, &queue, mean_latency_s, protocol, Note::PollingOfPaper)
}

/// Eq. (9) to (12) as printed.
fn printed(work: &Work, period_s: f64, quota: u64) -> Ring {
    let (quota, served_s) = (quota as f64, period_s - work.poll_s);
    let polled = if quota * work.service_s < served_s {
        quota / served_s
    } else {
        work.service_pps() * (1.0 - work.poll_s / period_s)
    };
    let queue = md1b(work, polled);
    let empty = 1.0 - queue.throughput / polled;
    let mean_latency_s = queue.mean_present / queue.throughput + empty * period_s;
    let (arrive, fit) = (work.arrival_pps * period_s, served_s / work.service_s);
    let protocol = if arrive < fit && arrive < quota {
        work.arrival_pps * work.service_s
    } else if quota < fit {
        quota * work.service_s / period_s
    } else {
        served_s / period_s
    };
    by_formula(work, period_s, &queue, mean_latency_s, protocol, Note::PollingAsPrinted)
}

/// M/D/1/B with the polled rate as service rate (pps).
fn md1b(work: &Work, polled: f64) -> Mg1k {
    let counts = ArrivalCounts::new(&TimeShape::Deterministic, work.arrival_pps / polled, work.places as usize);
    let setup = Setup::none(work.arrival_pps);
    Mg1k::new(work.arrival_pps, 1.0 / polled, &counts, work.places as usize, &setup)
}

/// Result of the paper's formulas, with a CPU share for the protocol.
fn by_formula(work: &Work, period_s: f64, queue: &Mg1k, mean_latency_s: f64, protocol: f64, note: Note) -> Ring {
    let poll = work.poll_s / period_s;
    Ring {
        throughput_pps: queue.throughput,
        loss: queue.loss,
        mean_present: mean_latency_s * queue.throughput,
        mean_latency_s,
        quantiles: None,
        latencies: None,
        interrupts_per_s: 0.0,
        cycles_per_s: (1.0 / period_s).min(queue.throughput),
        clocked: true,
        polls_per_s: Some(1.0 / period_s),
        shares: Shares { interrupt: 0.0, poll, protocol, available: (1.0 - poll - protocol).max(0.0) },
        exact: false,
        notes: vec![note],
    }
}

/// A part of the slot (the time between two ticks) in which no packet leaves: its arrivals, and sums of their excess.
struct Stretch {
    length_s: f64,
    counts: ArrivalCounts,
    /// area[m] = sum of E[(A - k)^+] over k = 1..=m, which is lambda x the integral of E[min(A(t), m)].
    area: Vec<f64>,
    /// Number of arrivals that is exceeded with negligible probability.
    width: usize,
}

/// Probability below which arrivals in a part of the slot are left out.
const LEFT_OUT: f64 = 1e-30;

impl Stretch {
    fn new(arrival_pps: f64, length_s: f64, places: usize) -> Self {
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, arrival_pps * length_s, places + 1);
        let mut sum = 0.0;
        let area = (0..=places)
            .map(|m| {
                sum += if m == 0 { 0.0 } else { counts.excess[m] };
                sum
            })
            .collect();
        let width = counts.above.iter().position(|p| *p < LEFT_OUT).unwrap_or(places);
        Self { length_s, counts, area, width: width.min(places) }
    }

    /// Adds the arrivals of this part to the distribution `levels`, limited by the ring.
    fn pass(&self, levels: &[f64], base: usize, places: usize) -> Vec<f64> {
        let end = (base + levels.len() - 1 + self.width).min(places);
        let mut after = vec![0.0; end - base + 1];
        for (i, share) in levels.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let room = places - base - i;
            for (k, probability) in self.counts.equal[..room.min(self.width + 1)].iter().enumerate() {
                after[i + k] += share * probability;
            }
            if room <= self.width {
                after[i + room] += share * if room == 0 { 1.0 } else { self.counts.above[room - 1] };
            }
        }
        after
    }
}

/// Sums of times over a slot.
#[derive(Default)]
struct Tally {
    served: f64,
    lost: f64,
    /// Integral over time of the packets present [packet s].
    present: f64,
}

struct Slots<'a> {
    work: &'a Work,
    quota: usize,
    places: usize,
    overhead: Stretch,
    service: Stretch,
    /// `[k]`: the rest of the slot after k services.
    rests: Vec<Stretch>,
}

impl<'a> Slots<'a> {
    fn new(work: &'a Work, period_s: f64, quota: usize) -> Self {
        let places = work.places as usize;
        let stretch = |length_s: f64| Stretch::new(work.arrival_pps, length_s, places);
        let rest = |k: usize| stretch((period_s - work.poll_s - k as f64 * work.service_s).max(0.0));
        Self {
            work,
            quota,
            places,
            overhead: stretch(work.poll_s),
            service: stretch(work.service_s),
            rests: (0..=quota).map(rest).collect(),
        }
    }

    fn note(&self, stretch: &Stretch, levels: &[f64], base: usize, tally: &mut Option<&mut Tally>) {
        let Some(tally) = tally else { return };
        for (i, share) in levels.iter().enumerate() {
            let (level, room) = (base + i, self.places - base - i);
            tally.lost += share * stretch.counts.excess[room];
            tally.present += share * (level as f64 * stretch.length_s + stretch.area[room] / self.work.arrival_pps);
        }
    }

    /// Computes the levels at the next tick from `levels` at this one (index 0 is level `base`). Also returns the level
    /// of the result's index 0. Adds to `tally`.
    fn slot(&self, levels: &[f64], base: usize, mut tally: Option<&mut Tally>) -> (Vec<f64>, usize) {
        let lowest = base.saturating_sub(self.quota);
        let mut ended = vec![0.0; self.places + 1 - lowest];
        let mut finish = |levels: &[f64], base: usize, rest: &Stretch, tally: &mut Option<&mut Tally>| {
            self.note(rest, levels, base, tally);
            let after = rest.pass(levels, base, self.places);
            ended[base - lowest..].iter_mut().zip(after).for_each(|(sum, share)| *sum += share);
        };
        self.note(&self.overhead, levels, base, &mut tally);
        let (mut current, mut base) = (self.overhead.pass(levels, base, self.places), base);
        for served in 0..self.quota {
            if base == 0 {
                let empty = current[0];
                finish(&[empty], 0, &self.rests[served], &mut tally);
                current.remove(0);
                base = 1;
            }
            if current.is_empty() {
                return (ended, lowest);
            }
            self.note(&self.service, &current, base, &mut tally);
            current = self.service.pass(&current, base, self.places);
            base -= 1;
            if let Some(tally) = &mut tally {
                tally.served += current.iter().sum::<f64>();
            }
        }
        finish(&current, base, &self.rests[self.quota], &mut tally);
        (ended, lowest)
    }
}

/// Solves the chain observed at ticks: exact for exponential times, and for deterministic times if a whole cycle fits
/// between two ticks.
fn exact(work: &Work, period_s: f64, quota: u64) -> Result<Ring, String> {
    if work.shape == TimeShape::Exponential {
        return Polling::new(work, period_s, quota)?.solve();
    }
    let longest_s = work.poll_s + quota as f64 * work.service_s;
    if longest_s > period_s * (1.0 + 1e-12) {
        return Err(format!(
            "polling is exact only where a cycle of {quota} packets ({longest_s:.3e} s with its overhead) fits into the \
             period ({period_s:.3e} s): use fidelity paper or the simulator"
        ));
    }
    let kept = (quota + 3).saturating_mul(work.places);
    if kept > MOST_KEPT {
        return Err(format!(
            "polling with quota = {quota} and a ring of {} keeps {kept} numbers, more than {MOST_KEPT}: use a smaller ring or \
             quota, fidelity paper, or the simulator",
            work.places
        ));
    }
    let slots = Slots::new(work, period_s, quota as usize);
    let reach: usize = slots.overhead.width + slots.rests[0].width + quota as usize * slots.service.width;
    let (states, up) = (slots.places + 1, reach.min(slots.places));
    if states * up > MOST_ENTRIES {
        return Err(
            "polling at this load and ring needs too wide a chain: use fidelity paper or the simulator".to_owned()
        );
    }
    let down = slots.quota;
    let alike = (down + 1)..states.saturating_sub(up + 1).max(down + 1);
    let as_row = |state: usize| {
        let (after, lowest) = slots.slot(&[1.0], state, None);
        let mut row = vec![0.0; down + up + 1];
        for (i, share) in after.iter().enumerate() {
            let place = lowest + i + down - state;
            if place < row.len() {
                row[place] = *share;
            }
        }
        row
    };
    let common = (!alike.is_empty()).then(|| as_row(alike.start));
    let mut row = |state: usize| match &common {
        Some(row) if alike.contains(&state) => row.clone(),
        _ => as_row(state),
    };
    let band = Banded { states, down, up, alike: alike.clone(), period: 1, row: &mut row };
    let mut at_ticks = band.stationary().ok_or("polling: the chain does not fit in memory")?;
    let total: f64 = at_ticks.iter().sum();
    at_ticks.iter_mut().for_each(|share| *share /= total);
    let mut tally = Tally::default();
    slots.slot(&at_ticks, 0, Some(&mut tally));
    Ok(ring(work, period_s, &tally))
}

/// Largest product of quota and ring; a few numbers are stored for each pair.
const MOST_KEPT: u64 = 1 << 22;
/// Maximum number of band entries that are computed, which takes some seconds.
const MOST_ENTRIES: usize = 1 << 26;

fn ring(work: &Work, period_s: f64, tally: &Tally) -> Ring {
    let throughput_pps = tally.served / period_s;
    let poll = work.poll_s / period_s;
    let protocol = throughput_pps * work.service_s;
    let mean_present = tally.present / period_s;
    Ring {
        throughput_pps,
        loss: tally.lost / (tally.lost + tally.served),
        mean_present,
        mean_latency_s: mean_present / throughput_pps,
        quantiles: None,
        latencies: None,
        interrupts_per_s: 0.0,
        cycles_per_s: (1.0 / period_s).min(throughput_pps),
        clocked: true,
        polls_per_s: Some(1.0 / period_s),
        shares: Shares { interrupt: 0.0, poll, protocol, available: (1.0 - poll - protocol).max(0.0) },
        exact: true,
        notes: Vec::new(),
    }
}
