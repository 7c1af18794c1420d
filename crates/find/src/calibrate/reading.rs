//! Costs of the application: reading a packet, a context switch to it, and the cost of an interrupt to it beyond the
//! handler.

use netcliff_core::Figure;

use super::{BLOCKED_WORK_S, CalibrationError, Seen};
use netcliff_stats::{self as stats, Fit};
use netcliff_trial::bench::Counts;
use netcliff_trial::trial::TrialShape;

/// Smallest ratio of interrupts to polls in a trial from which the cost of interrupts is determined.
const MOSTLY: f64 = 0.5;

/// Costs of the application (s).
pub struct Reading {
    /// Reading a packet.
    pub application: Figure,
    /// Context switch to the application.
    pub context_switch: Figure,
}

impl Reading {
    /// Fits the costs. `hidden_s`: time that an interrupt takes from the application beyond its handler (s).
    /// `by_totals`: whether to try regression over whole trials first, as for the softirqs' costs.
    pub fn of(seen: &Seen, hidden_s: f64, by_totals: bool) -> Result<Self, CalibrationError> {
        let by_totals = by_totals.then(|| totals(seen, hidden_s)).flatten();
        let fit = by_totals.map_or_else(|| application(seen, hidden_s), Ok)?;
        Ok(Self { application: fit.coefficients[0], context_switch: fit.coefficients[1] })
    }
}

/// [packet, context switch] by regression of the application's time over trials. If the first packet after a wake-up
/// costs many times as much as others, as in an emulated guest, small loads alone do not separate the cost of a packet
/// from the cost of a switch; so trials in which the ring overflowed, but not the socket, are included.
fn totals(seen: &Seen, hidden_s: f64) -> Option<Fit> {
    let trials = seen.delivering();
    super::by_speed(seen, &trials, |slowness| {
        let (rows, own_s) = times(trials.iter().copied().zip(slowness.iter().copied()), hidden_s);
        // The uncertainty of a trial's time is proportional to it.
        let weight: Vec<f64> = trials.iter().zip(slowness).map(|(c, slow)| (c.application_s / slow).powi(-2)).collect();
        stats::fit_non_negative_robust(&rows, &own_s, &weight)
    })
}

/// Regressors and times of trials: rows of [packets read, wake-ups], and the application's times (s), scaled to a
/// common speed and without the time that interrupts took from the application. Input: each trial with its relative
/// slowness.
fn times<'a>(trials: impl Iterator<Item = (&'a Counts, f64)>, hidden_s: f64) -> (Vec<Vec<f64>>, Vec<f64>) {
    let own_s = |c: &Counts, slow: f64| c.application_s / slow - hidden_s * c.busy_interrupts;
    trials.map(|(c, slow)| (vec![c.delivered, c.wakeups], own_s(c, slow))).unzip()
}

/// True if interrupts began most polls. If NAPI polls without interrupts, as in ksoftirqd, it is not interrupts that
/// take the application's time.
fn mostly_interrupted(counts: &Counts) -> bool {
    counts.busy_interrupts > 0.0 && counts.busy_interrupts >= MOSTLY * counts.polls
}

/// Cost of an interrupt to the application it interrupts, beyond its handler: median over the trials; `None` without
/// such trials.
///
/// With a NIC, only a few interrupts fall into the milliseconds of work. If the CPU were a tenth slower than in earlier
/// trials, as emulated CPUs can be, each interrupt would seem to cost tens of microseconds. With a NIC, the work is
/// therefore compared with its uninterrupted time in the same trial, and the time to read the packet is added.
pub fn hidden(seen: &Seen, base: &TrialShape) -> Result<Option<Figure>, CalibrationError> {
    let configured_s = base.work_s + BLOCKED_WORK_S;
    // Time to read a packet without the configured work, which the trial's `undisturbed_work_s` already includes.
    let reading_s = match seen.backlog {
        true => None,
        false => Some(application(seen, 0.0)?.coefficients[0].value - base.work_s),
    };
    let work_s =
        |c: &Counts| c.undisturbed_work_s.zip(reading_s).map_or(configured_s, |(work_s, more_s)| work_s + more_s);
    let has_interrupts = |c: &&Counts| c.busy_interrupts > 0.0 && (seen.backlog || mostly_interrupted(c));
    let each: Vec<f64> = seen
        .blocked
        .iter()
        .filter(has_interrupts)
        .map(|c| (c.application_s - work_s(c) * c.delivered) / c.busy_interrupts)
        .collect();
    Ok(stats::median(&each).map(|figure| Figure { value: figure.value.max(0.0), ..figure }))
}

/// [packet, context switch] of the application.
fn application(seen: &Seen, hidden_s: f64) -> Result<Fit, CalibrationError> {
    let (rows, y) = times(seen.plain.iter().map(|trial| (trial, 1.0)), hidden_s);
    // Weighted so that a packet's cost counts equally in each trial.
    let weight: Vec<f64> = seen.plain.iter().map(|c| 1.0 / c.delivered.powi(2)).collect();
    let undetermined = CalibrationError::Undetermined { what: "application and context switch cost", trials: y.len() };
    stats::fit_non_negative(&rows, &y, &weight).ok_or(undetermined)
}
