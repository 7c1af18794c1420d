//! One trial and its result, for every search.

use netcliff_core::verdict::{Void, VoidClass, VoidReason, repeats};
use serde::{Deserialize, Serialize};

use crate::End;

/// Counts of one trial at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Intended load (pps).
    pub load_pps: f64,
    /// Length (s): as intended, or until the result of the trial was decided.
    pub duration_s: f64,
    /// Frames sent.
    pub sent: u64,
    /// Number of these frames that were not forwarded.
    pub lost: u64,
}

impl Trial {
    /// Share of the frames that were not forwarded; 0 for a trial that sent none.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost.min(self.sent) as f64 / self.sent as f64 }
    }

    /// Load times forwarding ratio (pps): RFC 9971's trial forwarding rate.
    pub fn forwarding_pps(&self) -> f64 {
        self.load_pps * (1.0 - self.loss_ratio())
    }
}

/// A trial that a search requests from the tester.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Length (s).
    pub duration_s: f64,
    /// Load (pps).
    pub load_pps: f64,
    /// Frames that the trial may lose. One more lost frame decides its result: the tester may then end the trial, and
    /// returns its real length and the frames sent until then (a short trial that lost, RFC 9971, appendix A). `None`:
    /// the trial runs to its end.
    pub most_lost: Option<u64>,
}

impl Request {
    /// A whole trial of `duration_s` at `load_pps`.
    pub fn whole(duration_s: f64, load_pps: f64) -> Self {
        Self { duration_s, load_pps, most_lost: None }
    }
}

/// Answer of the tester to a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// The sender offered the load; the device lost all lost frames.
    Valid(Trial),
    /// The trial is void: it says nothing about the device.
    Void {
        /// Rate that the sender reached (pps).
        reached_pps: f64,
        /// Why the trial is void.
        why: VoidReason,
    },
}

impl Answer {
    /// Returns the trial or, if it is void, the reason ([`netcliff_core::verdict`]) and the rate that the sender
    /// reached, which is below the load only if the sender was too slow.
    pub fn of(trial: Trial, void: Option<Void>) -> Self {
        match void {
            Some(Void { why, reached_pps }) if why.class() == VoidClass::Sender => Self::Void { reached_pps, why },
            Some(Void { why, .. }) => Self::Void { reached_pps: trial.load_pps, why },
            None => Self::Valid(trial),
        }
    }

    /// Length of the trial (s); for a void trial the requested length.
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
    /// Highest (pps): the limit of the medium or of the sender.
    pub max_pps: f64,
}

/// Makes trials, counts them and their time, and lowers the highest load if the sender does not reach it.
pub(super) struct Tester<'a, E> {
    ask: &'a mut dyn FnMut(Request) -> Result<Answer, E>,
    /// Loads still worth a trial; `max_pps` falls if all trials at a load are void.
    pub(super) range: Range,
    /// How a search ends if the highest load of `range` upheld the goal. [`End::AboveMaximum`] until that load is
    /// lowered; then [`End::AboveSender`] if the sender fell behind in all trials at the load above, otherwise
    /// [`End::AboveVoid`].
    pub(super) at_highest: End,
    /// Valid trials in the order they were made.
    pub(super) trials: Vec<Trial>,
    /// Number of void trials.
    pub(super) void_trials: u32,
    /// Total length of all trials (s); void trials count with their requested length.
    pub(super) spent_s: f64,
}

impl<'a, E> Tester<'a, E> {
    /// True if the sender does not reach even the lowest load.
    pub(super) fn too_slow(&self) -> bool {
        self.range.max_pps < self.range.min_pps
    }

    pub(super) fn new(range: Range, ask: &'a mut dyn FnMut(Request) -> Result<Answer, E>) -> Self {
        Self { ask, range, at_highest: End::AboveMaximum, trials: Vec::new(), void_trials: 0, spent_s: 0.0 }
    }

    /// Makes a whole trial of `duration_s` (s) at `load_pps` (pps), repeated while it is void. `None` if all repeats
    /// were void; the load is then above `range`.
    pub(super) fn trial(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<Trial>, E> {
        self.made(Request::whole(duration_s, load_pps))
    }

    /// Like `trial`, for a trial that may end as soon as it has lost more than `loss_ratio` of its frames.
    pub(super) fn decided(&mut self, duration_s: f64, load_pps: f64, loss_ratio: f64) -> Result<Option<Trial>, E> {
        let most_lost = Some((loss_ratio * duration_s * load_pps).floor() as u64);
        self.made(Request { duration_s, load_pps, most_lost })
    }

    fn made(&mut self, request: Request) -> Result<Option<Trial>, E> {
        let Request { duration_s, load_pps, .. } = request;
        // The sender can reach the highest rate of the repeats: in the other repeats it may have been delayed.
        let mut reached: f64 = 0.0;
        let mut is_slow = true;
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
                    is_slow &= why.class() == VoidClass::Sender;
                    reached = reached.max(reached_pps.min(load_pps));
                }
            }
        }
        self.at_highest = if is_slow { End::AboveSender } else { End::AboveVoid };
        // Slightly below the rate that the sender reached, so that the next trial is not void again. If that rate was
        // the load itself (an uneven sender), further below.
        self.range.max_pps = if reached < 0.99 * load_pps { 0.99 * reached } else { 0.95 * load_pps };
        Ok(None)
    }
}
