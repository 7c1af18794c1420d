//! [`Bench`]: the measurements that calibration and search need, as a trait, so that tests can replace the real bench
//! by a fake with known answers.

mod counts;

use netcliff_core::ledger::Ledger;
use netcliff_core::verdict::{TesterCounts, Void};
use netcliff_core::{Figure, Outcome};
use netcliff_packets::latency::LatencySummary;

use crate::trial::{Outside, TrialError, TrialShape, TrialSpec};
pub use counts::{Counts, Handlers, PollTime, taken_from_polls_s};

/// Result of one trial, without the wire's details.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Shape and load of the trial.
    pub spec: TrialSpec,
    /// Rates, loss, latency and CPU shares.
    pub outcome: Outcome,
    /// Counts of sender and sink in the window.
    pub sides: TesterCounts,
    /// Frames offered in the window.
    pub sent: u64,
    /// Frames and disturbances by slots; empty if they were not counted.
    pub slots: Slots,
    /// 99th percentile of actual minus intended send time (s); `None` without frames.
    pub lateness_p99_s: Option<f64>,
    /// Share of the host's CPU that the hypervisor took.
    pub steal_share: f64,
    /// External influences in addition to the disturbances in [`Slots`].
    pub outside: Outside,
    /// Counts of the host's CPU; `None` without a meter that separates softirq from application time.
    pub counts: Option<Counts>,
}

impl Observation {
    /// Share of the offered packets that were not read.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.sides.lost.min(self.sent) as f64 / self.sent as f64 }
    }

    /// Reason why the trial is void, i.e. says nothing about the host ([`TesterCounts::void`]); `None` if it is valid.
    pub fn void(&self) -> Option<Void> {
        self.void_by(self.sides)
    }

    /// Like [`Observation::void`], for the part of the trial that `counts` describes.
    pub fn void_by(&self, counts: TesterCounts) -> Option<Void> {
        counts.void(self.counts.as_ref().is_some_and(Counts::is_saturated))
    }
}

/// Frames and disturbances of a trial, by slots of equal length of the measured window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slots {
    /// Length of a slot (s).
    pub each_s: f64,
    /// The slots; the last may be shorter.
    pub slots: Vec<Slot>,
    /// Stalls of the sender, from the start of the window (s).
    pub sender_stalls: Vec<Span>,
    /// Intervals in which the hypervisor or another cause outside the host took its CPU away; `None` if not measured.
    pub host_pauses: Option<Vec<Span>>,
    /// Intervals in which the hypervisor or another cause outside the sender took its CPU away; `None` if not measured.
    pub sender_pauses: Option<Vec<Span>>,
    /// Intervals in which other tasks had the host's CPU; `None` if not measured.
    pub visits: Option<Vec<Visit>>,
}

/// An interval in which a task other than the application and the network stack had the host's CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// The interval.
    pub at: Span,
    /// The task's name.
    pub task: String,
}

/// Frames by intended send time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Frames offered.
    pub sent: u64,
    /// Offered frames that were not read.
    pub lost: u64,
    /// Offered frames that left late.
    pub late: u64,
}

/// An interval, relative to the start of a trial's window (s); it may begin before the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Start (s).
    pub from_s: f64,
    /// Length (s).
    pub length_s: f64,
}

/// Highest rate of the sender alone.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderCeiling {
    /// Description of the send method.
    pub method: String,
    /// Rate without pacing (packets/s), one value per repeat.
    pub pps: Vec<f64>,
    /// Highest load allowed (pps); `None` if there is no limit.
    pub most_pps: Option<f64>,
}

/// A ceiling above this share of the highest load allowed is due to that limit, not to the sender.
const AT_LIMIT: f64 = 0.98;

/// Highest load that may be offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Highest {
    /// The sender's ceiling (pps).
    pub ceiling_pps: f64,
    /// Highest load allowed (pps); `None` if there is no limit.
    pub most_pps: Option<f64>,
}

impl Highest {
    /// The highest load of a sender without a limit whose ceiling is `ceiling_pps` (pps).
    pub fn of_sender(ceiling_pps: f64) -> Self {
        Self { ceiling_pps, most_pps: None }
    }

    /// Whether the limit, and not the sender, determines the highest load.
    pub fn is_limited(&self) -> bool {
        self.most_pps.is_some_and(|most_pps| self.ceiling_pps >= AT_LIMIT * most_pps)
    }

    /// The highest load (pps).
    pub fn pps(&self) -> f64 {
        self.most_pps.filter(|_| self.is_limited()).unwrap_or(self.ceiling_pps)
    }

    /// Highest load (pps) that a sender can pace: the limit if it determines the highest load, otherwise `share` of the
    /// ceiling.
    pub fn paced_pps(&self, share: f64) -> f64 {
        self.most_pps.filter(|_| self.is_limited()).unwrap_or(share * self.ceiling_pps)
    }

    /// Describes what determines the highest load.
    pub fn in_words(&self) -> &'static str {
        if self.is_limited() { "--max-rate" } else { "the sender's ceiling" }
    }
}

/// Round trips in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrips {
    /// Answers sent by the application, warm-up included.
    pub answers: u64,
    /// Times of the answers to frames of the window; `None` if no answer arrived, or the clock of the sending host was
    /// set during the trial.
    pub times: Option<LatencySummary>,
}

/// A host under test with a sender.
pub trait Bench {
    /// Offers one load and returns the observation.
    ///
    /// # Errors
    /// The measurement was stopped, or sender, sink or meter failed.
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError>;

    /// Measures the sender without pacing, whatever the receiver loses.
    ///
    /// # Errors
    /// The measurement was stopped, or the sender failed.
    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError>;

    /// Number of packets that the application's socket holds if nothing reads it; `None` if they cannot be counted.
    ///
    /// # Errors
    /// The measurement was stopped, or sender or sink failed.
    fn socket_capacity(&mut self, shape: &TrialShape) -> Result<Option<f64>, TrialError>;

    /// Offers one load and accounts for every packet; `None` if this bench has no such accounting.
    ///
    /// # Errors
    /// See [`Bench::observe`].
    fn ledger(&mut self, _spec: &TrialSpec) -> Result<Option<Ledger>, TrialError> {
        Ok(None)
    }

    /// Offers one load; the application answers some of its frames. Returns the round trips; `None` if the sender is on
    /// this host.
    ///
    /// # Errors
    /// See [`Bench::observe`]; also if the sender cannot receive answers.
    fn round_trips(&mut self, _spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        Ok(None)
    }

    /// Slots of the receive backlog or ring; `None` if unknown.
    fn ring_slots(&self) -> Option<u64>;

    /// Describes how CPU time is accounted.
    ///
    /// # Errors
    /// The reason why protocol processing cannot be separated from the application here, as a sentence.
    fn cpu_method(&self) -> Result<String, String>;
}

/// Value of a figure; `None` without a figure.
pub fn value(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value)
}
