//! Evaluates a trial twice: including the disturbances from outside the host ("experienced"), and without them ("own").
//!
//! The evaluation for the host's own cliff excludes the time slots in which the sender was stalled, or the host's CPU
//! was paused or ran another task, and the following slots until the resulting queue has drained. A pause of length R
//! at load lambda leaves lambda R packets, which a host that serves mu drains in lambda R / (mu - lambda)
//! (docs/theory/pauses.md). A breakdown that lasts longer is due to the host and is included.

use netcliff_core::verdict::TesterCounts;

use netcliff_core::verdict::VoidReason;
use netcliff_mlrsearch::trial::{Answer, Trial};
use netcliff_trial::bench::{Observation, Slots, Span};

/// Largest drain time, as a multiple of the pause's length. It applies at loads close to or above the host's capacity.
const LONGEST_DRAIN: f64 = 10.0;
/// Share of a trial's frames that must remain for the evaluation of the host's own cliff.
const LEAST_LEFT: f64 = 0.5;

/// A trial, evaluated twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// With all frames.
    pub experienced: Answer,
    /// Without the time slots that were disturbed from outside.
    pub own: Answer,
    /// Share of the time slots that the own evaluation excludes.
    pub left_out: f64,
}

/// Evaluates a trial of a host that serves about `capacity_pps`.
pub fn read(observation: &Observation, capacity_pps: f64) -> Reading {
    let spec = &observation.spec;
    let load_pps = spec.rate_pps;
    let whole =
        Trial { load_pps, duration_s: spec.shape.seconds, sent: observation.sent, lost: observation.sides.lost };
    let experienced = Answer::of(whole, observation.void());
    let slots = &observation.slots;
    let pauses = slots.host_pauses.as_deref().unwrap_or_default();
    let visits = slots.visits.as_deref().unwrap_or_default();
    let away = || pauses.iter().chain(visits.iter().map(|visit| &visit.at));
    let all = || slots.sender_stalls.iter().chain(away());
    let mut left = Left::of(slots, all(), load_pps, capacity_pps);
    if left.sent < LEAST_LEFT * observation.sent as f64 {
        // If the sender stalls again and again, hardly any slot is undisturbed: then only the slots with the host's
        // pauses and other tasks are excluded, and the sender's late frames decide whether the trial is void, as in
        // other trials.
        left = Left::of(slots, away(), load_pps, capacity_pps);
    }
    if left.out == 0.0 {
        // No slot is excluded, so both evaluations are equal, and late frames before and after the measured window
        // count in both.
        return Reading { own: experienced, experienced, left_out: 0.0 };
    }
    let own = if left.sent < LEAST_LEFT * observation.sent as f64 {
        Answer::Void { reached_pps: load_pps, why: VoidReason::Disturbed }
    } else {
        let void = observation.void_by(TesterCounts { lost: left.lost, late: left.late, ..observation.sides });
        Answer::of(Trial { sent: left.sent as u64, lost: left.lost, ..whole }, void)
    };
    Reading { experienced, own, left_out: left.out }
}

/// Sums over the slots of a trial that are not excluded.
struct Left {
    sent: f64,
    lost: u64,
    late: u64,
    /// Share of the slots that were excluded.
    out: f64,
}

impl Left {
    fn of<'a>(slots: &Slots, spans: impl Iterator<Item = &'a Span>, load_pps: f64, capacity_pps: f64) -> Self {
        let out = left_out(slots.slots.len(), slots.each_s, spans, load_pps, capacity_pps);
        let mut left = Self { sent: 0.0, lost: 0, late: 0, out: 0.0 };
        for (slot, out) in slots.slots.iter().zip(&out) {
            if *out {
                left.out += 1.0 / slots.slots.len() as f64;
            } else {
                left.sent += slot.sent as f64;
                left.lost += slot.lost;
                left.late += slot.late;
            }
        }
        left
    }
}

/// Returns the loss fraction of a trial at a constant load without its disturbed slots. `lost`: packets lost in each
/// slot of `each_s` (s); `spans`: pauses and stalls. `None` if fewer than half of the slots remain.
pub fn left<'a>(
    lost: &[f64],
    each_s: f64,
    spans: impl Iterator<Item = &'a Span>,
    load_pps: f64,
    capacity_pps: f64,
) -> Option<f64> {
    let out = left_out(lost.len(), each_s, spans, load_pps, capacity_pps);
    let kept: Vec<f64> = lost.iter().zip(&out).filter_map(|(lost, out)| (!out).then_some(*lost)).collect();
    let enough = kept.len() as f64 >= LEAST_LEFT * lost.len() as f64 && !kept.is_empty();
    enough.then(|| kept.iter().sum::<f64>() / (kept.len() as f64 * load_pps * each_s))
}

/// For each slot, whether a pause or stall, or the drain after it, overlaps it.
fn left_out<'a>(
    slots: usize,
    each_s: f64,
    spans: impl Iterator<Item = &'a Span>,
    load_pps: f64,
    capacity_pps: f64,
) -> Vec<bool> {
    let mut out = vec![false; slots];
    for span in spans {
        let to_s = span.from_s + span.length_s + drain_s(span, load_pps, capacity_pps);
        let place = |at_s: f64| (at_s / each_s).floor();
        let (first, last) = (place(span.from_s).max(0.0), place(to_s));
        if last < 0.0 {
            continue;
        }
        for slot in out.iter_mut().take(last as usize + 1).skip(first as usize) {
            *slot = true;
        }
    }
    out
}

/// Time to drain the queue that a pause leaves (s).
fn drain_s(pause: &Span, load_pps: f64, capacity_pps: f64) -> f64 {
    let free_pps = capacity_pps - load_pps;
    let lengths = if free_pps > 0.0 { (load_pps / free_pps).min(LONGEST_DRAIN) } else { LONGEST_DRAIN };
    pause.length_s * lengths
}
