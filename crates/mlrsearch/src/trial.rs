//! One trial and its result, for every search.

use std::collections::BTreeMap;

use netcliff_core::verdict::{Void, VoidReason, repeats};
use serde::{Deserialize, Serialize};

use crate::End;

/// Counts of one trial at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Intended load (pps).
    pub load_pps: f64,
    /// Length (s): the intended one, or until it was decided.
    pub duration_s: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames of these that were not forwarded.
    pub lost: u64,
}

impl Trial {
    /// Share of the frames that were not forwarded; 0 for a trial that sent none.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost.min(self.sent) as f64 / self.sent as f64 }
    }

    /// Load times forwarding ratio (pps), RFC 9971's trial forwarding rate.
    pub fn forwarding_pps(&self) -> f64 {
        self.load_pps * (1.0 - self.loss_ratio())
    }
}

/// A trial that a search wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Length (s).
    pub duration_s: f64,
    /// Load (pps).
    pub load_pps: f64,
    /// Frames that it may lose. One more decides it, whatever the rest would do: the tester may end it there, and then answers with its real
    /// length and what was sent until then, a short trial that lost (RFC 9971, appendix A). `None`: the whole trial is wanted.
    pub most_lost: Option<u64>,
}

impl Request {
    /// A whole trial of `duration_s` at `load_pps`.
    pub fn whole(duration_s: f64, load_pps: f64) -> Self {
        Self { duration_s, load_pps, most_lost: None }
    }
}

/// Result of requesting a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// The load was offered; what was lost was lost by the device.
    Valid(Trial),
    /// The trial is void: it says nothing about the device.
    Void {
        /// What the sender reached (pps).
        reached_pps: f64,
        /// Why.
        why: VoidReason,
    },
}

impl Answer {
    /// The trial, or why it is void ([`netcliff_core::verdict`]). Only a sender that was too slow did not reach the load.
    pub fn of(trial: Trial, void: Option<&Void>) -> Self {
        match void {
            Some(Void::SenderTooSlow { reached_pps }) => {
                Self::Void { reached_pps: *reached_pps, why: VoidReason::SenderTooSlow }
            }
            Some(void) => Self::Void { reached_pps: trial.load_pps, why: void.reason() },
            None => Self::Valid(trial),
        }
    }

    /// Its length (s); of a void trial that of the requested one.
    pub fn length_s(&self, requested_s: f64) -> f64 {
        match self {
            Self::Valid(trial) => trial.duration_s,
            Self::Void { .. } => requested_s,
        }
    }
}

/// Loads that a search may try.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// Lowest (pps), above 0.
    pub min_pps: f64,
    /// Highest (pps): what the medium or the sender allows.
    pub max_pps: f64,
}

/// Makes trials, counts them and their time, and lowers the highest load to what the sender reaches.
pub(super) struct Tester<'a, E> {
    ask: &'a mut dyn FnMut(Request) -> Result<Answer, E>,
    /// Loads still worth asking for; `max_pps` falls where the sender does not reach it.
    pub(super) range: Range,
    /// Why all trials above `range.max_pps` were void, where it is no longer what was requested: [`VoidReason::SenderTooSlow`] if the sender fell behind in all
    /// of them, else the reason of most others.
    pub(super) limited: Option<VoidReason>,
    /// Valid trials in the order they were made.
    pub(super) trials: Vec<Trial>,
    /// Trials in which the sender did not reach the load.
    pub(super) void_trials: u32,
    /// Length of all trials (s), of void ones as requested.
    pub(super) spent_s: f64,
}

impl<'a, E> Tester<'a, E> {
    /// Not even the lowest load is in the sender's reach.
    pub(super) fn too_slow(&self) -> bool {
        self.range.max_pps < self.range.min_pps
    }

    pub(super) fn new(range: Range, ask: &'a mut dyn FnMut(Request) -> Result<Answer, E>) -> Self {
        Self { ask, range, limited: None, trials: Vec::new(), void_trials: 0, spent_s: 0.0 }
    }

    /// How a search ends at the highest load worth asking for.
    pub(super) fn at_highest(&self) -> End {
        match self.limited {
            None => End::AboveMaximum,
            Some(VoidReason::SenderTooSlow) => End::AboveSender,
            Some(_) => End::AboveVoid,
        }
    }

    /// A whole trial of `duration_s` at `load_pps`. `None` if the sender does not reach the load, which is then out of range.
    pub(super) fn trial(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<Trial>, E> {
        self.made(Request::whole(duration_s, load_pps))
    }

    /// The same of a trial that may end once it has lost more than `loss_ratio` of all its frames.
    pub(super) fn decided(&mut self, duration_s: f64, load_pps: f64, loss_ratio: f64) -> Result<Option<Trial>, E> {
        let most_lost = Some((loss_ratio * duration_s * load_pps).floor() as u64);
        self.made(Request { duration_s, load_pps, most_lost })
    }

    fn made(&mut self, request: Request) -> Result<Option<Trial>, E> {
        let Request { duration_s, load_pps, .. } = request;
        // The best of them is what the sender can do: in the others it may have been held up.
        let mut reached: f64 = 0.0;
        let mut reasons: BTreeMap<VoidReason, u32> = BTreeMap::new();
        for _ in 0..=repeats(duration_s) {
            let answer = (self.ask)(request)?;
            self.spent_s += answer.length_s(duration_s);
            match answer {
                Answer::Valid(trial) => {
                    self.trials.push(trial);
                    return Ok(Some(trial));
                }
                Answer::Void { reached_pps, why } => {
                    self.void_trials += 1;
                    *reasons.entry(why).or_default() += 1;
                    reached = reached.max(reached_pps.min(load_pps));
                }
            }
        }
        let others = reasons.iter().filter(|(why, _)| **why != VoidReason::SenderTooSlow);
        self.limited = Some(others.max_by_key(|(_, count)| **count).map_or(VoidReason::SenderTooSlow, |(why, _)| *why));
        // Below what was reached, so that the next trial is not void by a hair; further where it was the load itself, at which
        // the sender was uneven.
        self.range.max_pps = if reached < 0.99 * load_pps { 0.99 * reached } else { 0.95 * load_pps };
        Ok(None)
    }
}
