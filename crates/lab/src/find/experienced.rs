//! The cliff as experienced, on paper and in simulation: the host's own, lowered by the pauses that its CPU had while it was searched.
//!
//! A trial has a highest load at which its pauses let no more than the target be lost; the cliff is the load that as many trials do
//! not reach as the definition allows: a quantile over trials. On paper they are the measured trials with their own pauses, through a
//! fluid of one buffer ([`netcliff_model::pauses`]); in simulation trials of the same length, with the measured lengths as they are,
//! at exponential times.

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::finding::{FullFirst, PauseBudget};
use netcliff_core::host::PauseTimes;
use netcliff_core::{EngineFailure, Figure, Host};
use netcliff_model::pauses::{self, Buffer};
use netcliff_sim::SimEngine;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::engines::Computed;
use super::stages::Run;
use super::{Halt, missing};
use crate::bench::Span;
use crate::rfc2544::search::Goal;
use crate::stats::quantile_at;

/// Trials simulated: their median has an interval of 96 %.
const TRIALS: u64 = 15;
/// Steps of the search for the highest load of a trial on paper.
const HALVINGS: u32 = 30;
/// Loads are told apart no closer than this in simulation; a trial that passes so little below the host's own cliff passes that.
const WIDTH: f64 = 0.01;
/// No load is tried below this share of the host's own cliff.
const LOWEST: f64 = 0.01;
/// Shares of the cliff at which the longest pause is told that loses nothing.
const BUDGET_SHARES: [f64; 2] = [0.5, 0.9];

/// Pauses of the host's CPU in trials of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Those of each trial, by their begin.
    pub trials: Vec<Vec<Span>>,
    /// Length of a trial (s).
    pub trial_s: f64,
}

impl Measured {
    fn lengths_s(&self) -> Vec<f64> {
        self.trials.iter().flatten().map(|pause| pause.length_s).filter(|length_s| *length_s > 0.0).collect()
    }

    /// A host with pauses of these lengths, as often as they were; None where there was none.
    fn on(&self, host: &Host) -> Option<Host> {
        let lengths_s = self.lengths_s();
        let up_s = self.trials.len() as f64 * self.trial_s - lengths_s.iter().sum::<f64>();
        let times = PauseTimes::from_lengths("measured", &lengths_s).ok()?;
        // A CPU that is hardly ever there is no host to predict.
        (up_s > 0.0).then(|| Host {
            pause_s: None,
            pause_every_s: Some(up_s / lengths_s.len() as f64),
            pause_times: Some(times),
            ..host.clone()
        })
    }
}

/// The quantile over the highest loads of trials. Where that is the host's own cliff, so are the ends of its interval.
fn over_trials(highest_pps: &[f64], own: &Figure, exceed: f64) -> Option<Figure> {
    let found = quantile_at(highest_pps, exceed)?;
    let Some(ends) = found.interval else { return Some(found) };
    let of_own = |end: f64, own_end: Option<f64>| if end >= own.value { own_end.unwrap_or(end) } else { end };
    let own_ends = own.interval;
    let low = of_own(ends.low, own_ends.map(|ends| ends.low));
    let high = of_own(ends.high, own_ends.map(|ends| ends.high));
    Some(Figure::between(found.value, low.min(found.value), high.max(found.value), ends.confidence))
}

/// On paper, of a host whose own cliff the model has at `own`; None without a trial.
pub fn on_paper(computed: &Computed, own: &Figure, measured: &Measured, goal: &Goal) -> Option<Figure> {
    let highest = |pauses: &Vec<Span>| {
        let passes = |load_pps: f64| {
            let lost = Fluid::of(computed, own.value, load_pps).lost(pauses, measured.trial_s);
            lost <= goal.loss_ratio * load_pps * measured.trial_s
        };
        if passes(own.value) {
            return own.value;
        }
        let (mut low, mut high) = (LOWEST * own.value, own.value);
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            if passes(middle) { low = middle } else { high = middle }
        }
        low
    };
    over_trials(&measured.trials.iter().map(highest).collect::<Vec<_>>(), own, goal.exceed_ratio)
}

/// Packets come at a load, wait in one buffer, and are served as fast as the host can, but for pauses.
struct Fluid {
    load_pps: f64,
    served_pps: f64,
    /// Packets: what comes in the longest pause that loses nothing.
    buffer: f64,
}

impl Fluid {
    /// Of a host that serves `served_pps`.
    fn of(computed: &Computed, served_pps: f64, load_pps: f64) -> Self {
        let budget = pauses::budget(&computed.host, computed.frame_bytes(), load_pps);
        let longest_s = budget.map_or(computed.host.ring as f64 / load_pps, |budget| budget.longest_s);
        Self { load_pps, served_pps, buffer: load_pps * longest_s }
    }

    /// Packets that a trial with these pauses loses.
    fn lost(&self, pauses: &[Span], trial_s: f64) -> f64 {
        let (mut queue, mut lost, mut from_s) = (0.0, 0.0, 0.0);
        for pause in pauses {
            let (begin_s, end_s) = (pause.from_s.max(from_s), (pause.from_s + pause.length_s).min(trial_s));
            if end_s <= begin_s {
                continue;
            }
            queue = (queue + (self.load_pps - self.served_pps) * (begin_s - from_s)).max(0.0);
            queue += self.load_pps * (end_s - begin_s);
            lost += (queue - self.buffer).max(0.0);
            queue = queue.min(self.buffer);
            from_s = end_s;
        }
        lost
    }
}

/// In simulation, of a host whose own cliff the simulator has at `own`; None if `stop` was set meanwhile.
///
/// # Errors
/// The simulator does not support the point.
pub fn in_simulation(
    computed: &Computed,
    own: &Figure,
    measured: &Measured,
    goal: &Goal,
    stop: &AtomicBool,
) -> Result<Option<Figure>, EngineFailure> {
    let Some(host) = measured.on(&computed.host) else { return Ok(Some(*own)) };
    let paused = Computed { host, ..computed.clone() };
    let highest = |number| Trial { paused: &paused, goal, trial_s: measured.trial_s, number }.highest(own.value, stop);
    let found: Result<Option<Vec<f64>>, EngineFailure> = (0..TRIALS).into_par_iter().map(highest).collect();
    Ok(found?.and_then(|highest| over_trials(&highest, own, goal.exceed_ratio)))
}

/// A simulated trial: the same pauses at every load.
struct Trial<'a> {
    paused: &'a Computed,
    goal: &'a Goal,
    trial_s: f64,
    number: u64,
}

impl Trial<'_> {
    fn passes(&self, load_pps: f64) -> Result<bool, EngineFailure> {
        let engine = SimEngine { seed: self.paused.seed, ..SimEngine::default() };
        let packets = (load_pps * self.trial_s).ceil() as u64;
        let losses = engine.trial_losses(&self.paused.point(load_pps), self.number..self.number + 1, packets)?;
        Ok(losses.iter().all(|lost| *lost <= self.goal.loss_ratio))
    }

    /// The highest load that it passes (pps), up to the host's own cliff; None once `stop` is set.
    fn highest(&self, own_pps: f64, stop: &AtomicBool) -> Result<Option<f64>, EngineFailure> {
        let (mut low, mut high) = (LOWEST * own_pps, own_pps);
        if self.passes((1.0 - WIDTH) * own_pps)? {
            return Ok(Some(own_pps));
        }
        while high / low > 1.0 + WIDTH {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let middle = (low * high).sqrt();
            if self.passes(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }
}

impl Run<'_, '_> {
    /// Model and simulation with the pauses that the searches' trials had.
    pub(super) fn as_experienced(&mut self, computed: &Computed) -> Result<(), Halt> {
        let Some(measured) = self.bench.in_searches(self.plan.goal.final_trial_s) else {
            for figure in ["cliff_experienced_pps.model", "cliff_experienced_pps.sim"] {
                missing(self.finding, figure, "the pauses of the host's CPU were not measured");
            }
            return Ok(());
        };
        let (own, goal) = (self.finding.cliff_pps.clone(), self.plan.goal);
        let experienced = &mut self.finding.cliff_experienced_pps;
        experienced.model = own.model.and_then(|own| on_paper(computed, &own, &measured, &goal));
        let Some(own) = own.sim else { return Ok(()) };
        let simulated = computed.unless_stopped(self.stop, move |computed, unwanted| {
            in_simulation(computed, &own, &measured, &goal, unwanted)
        });
        match simulated {
            Some(Ok(Some(figure))) => experienced.sim = Some(figure),
            Some(Err(error)) => missing(self.finding, "cliff_experienced_pps.sim", error.to_string()),
            None | Some(Ok(None)) => return Err(Halt::Stopped),
        }
        Ok(())
    }
}

/// The longest pauses without loss at shares of a cliff, with how many pauses were longer where they were measured.
pub fn budget(computed: &Computed, cliff_pps: f64, measured: Option<&Measured>) -> Vec<PauseBudget> {
    let at = |share: f64| {
        let load_pps = share * cliff_pps;
        let budget = pauses::budget(&computed.host, computed.frame_bytes(), load_pps)?;
        let first = match budget.first {
            Buffer::Ring => FullFirst::Ring,
            Buffer::Socket => FullFirst::Socket,
        };
        let longer = |measured: &Measured| {
            measured.lengths_s().iter().filter(|length_s| **length_s > budget.longest_s).count() as u64
        };
        Some(PauseBudget { share, load_pps, longest_s: budget.longest_s, first, longer: measured.map(longer) })
    };
    BUDGET_SHARES.into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests;
