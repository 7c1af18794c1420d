//! Costs of the application: reading a packet, being switched to, and what an interrupt takes from it beyond its handler.

use netcliff_core::Figure;

use super::{BLOCKED_WORK_S, CalibrationError, Seen};
use netcliff_stats::{self as stats, Fit};
use netcliff_trial::bench::Counts;
use netcliff_trial::trial::TrialSpec;

/// Share of the polls of a trial that an interrupt began from which on what interrupts cost can be told.
const MOSTLY: f64 = 0.5;

/// The application's costs (s).
pub struct Reading {
    /// A packet.
    pub application: Figure,
    /// A switch to the application.
    pub context_switch: Figure,
}

impl Reading {
    /// From trials in which an interrupt took `hidden_s` (s) from the application. Where the softirqs' costs follow from whole trials, so do these.
    pub fn of(seen: &Seen, hidden_s: f64, by_totals: bool) -> Result<Self, CalibrationError> {
        let by_totals = by_totals.then(|| totals(seen, hidden_s)).flatten();
        let fit = by_totals.map_or_else(|| application(seen, hidden_s), Ok)?;
        Ok(Self { application: fit.coefficients[0], context_switch: fit.coefficients[1] })
    }
}

/// [packet, context switch] by regression of the application's time over trials. On a host where the first packet after a wake-up costs many times what the
/// others do, as in an emulated guest, small loads alone do not tell a packet from a switch: those past the ring's cliff count, too.
fn totals(seen: &Seen, hidden_s: f64) -> Option<Fit> {
    let trials = seen.delivering();
    super::by_speed(seen, &trials, |slowness| {
        let (rows, own_s) = times(trials.iter().copied().zip(slowness.iter().copied()), hidden_s);
        // A trial's time is uncertain by a share of it.
        let weight: Vec<f64> = trials.iter().zip(slowness).map(|(c, slow)| (c.application_s / slow).powi(-2)).collect();
        stats::fit_non_negative_robust(&rows, &own_s, &weight)
    })
}

/// What the application did in trials, and its time at the speed of all, without what interrupts took from it (s). Each trial with how many times as slow it was.
fn times<'a>(trials: impl Iterator<Item = (&'a Counts, f64)>, hidden_s: f64) -> (Vec<Vec<f64>>, Vec<f64>) {
    let own_s = |c: &Counts, slow: f64| c.application_s / slow - hidden_s * c.busy_interrupts;
    trials.map(|(c, slow)| (vec![c.delivered, c.wakeups], own_s(c, slow))).unzip()
}

/// Where NAPI polls on without interrupts, as in ksoftirqd, what the application loses is not theirs.
fn mostly_interrupted(counts: &Counts) -> bool {
    counts.busy_interrupts > 0.0 && counts.busy_interrupts >= MOSTLY * counts.polls
}

/// What an interrupt costs whom it hits, beyond its handler: median over the trials; None without such trials.
///
/// Behind a NIC some milliseconds of work have few interrupts, so that a CPU which is a tenth slower than before the trial, as emulated ones are, would
/// make each seem to cost tens of microseconds: there the work takes what it took in the trial where nothing interrupted it, and reading the packet counts.
pub fn hidden(seen: &Seen, base: &TrialSpec) -> Result<Option<Figure>, CalibrationError> {
    let configured_s = base.work_s + BLOCKED_WORK_S;
    // That contains the base's work, as does what the trial tells of it.
    let reading_s = match seen.backlog {
        true => None,
        false => Some(application(seen, 0.0)?.coefficients[0].value - base.work_s),
    };
    let work_s =
        |c: &Counts| c.undisturbed_work_s.zip(reading_s).map_or(configured_s, |(work_s, more_s)| work_s + more_s);
    let told = |c: &&Counts| c.busy_interrupts > 0.0 && (seen.backlog || mostly_interrupted(c));
    let each: Vec<f64> = seen
        .blocked
        .iter()
        .filter(told)
        .map(|c| (c.application_s - work_s(c) * c.delivered) / c.busy_interrupts)
        .collect();
    Ok(stats::median(&each).map(|figure| Figure { value: figure.value.max(0.0), ..figure }))
}

/// [packet, context switch] of the application.
fn application(seen: &Seen, hidden_s: f64) -> Result<Fit, CalibrationError> {
    let (rows, y) = times(seen.plain.iter().map(|trial| (trial, 1.0)), hidden_s);
    // A packet's cost counts alike in every trial.
    let weight: Vec<f64> = seen.plain.iter().map(|c| 1.0 / c.delivered.powi(2)).collect();
    let undetermined = CalibrationError::Undetermined { what: "application and context switch cost", trials: y.len() };
    stats::fit_non_negative(&rows, &y, &weight).ok_or(undetermined)
}
