//! [`Bench`]: the measurements that calibration and search need, so that both can be tested against an exact fake.

mod counts;

use netcliff_core::ledger::Ledger;
use netcliff_core::verdict::{TesterCounts, Void};
use netcliff_core::{Figure, Outcome};
use netcliff_packets::latency::LatencySummary;

use crate::trial::{Outside, TrialError, TrialSpec};
pub use counts::{Counts, Handlers, PollTime, taken_from_polls_s};

/// Result of one trial, without the wire's details.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The configuration.
    pub spec: TrialSpec,
    /// The trial as an outcome.
    pub outcome: Outcome,
    /// What sender and sink counted in the window.
    pub sides: TesterCounts,
    /// Frames of the window offered.
    pub sent: u64,
    /// The same by slots, where they were counted.
    pub slots: Slots,
    /// 99th percentile of actual minus intended send time (s).
    pub lateness_p99_s: Option<f64>,
    /// Share of the host's CPU that the hypervisor took.
    pub steal_share: f64,
    /// External influences, besides what [`Slots`] has.
    pub outside: Outside,
    /// Counts of the host's CPU; None without a meter that separates softirq from application time.
    pub counts: Option<Counts>,
}

impl Observation {
    /// Share of the offered packets that were not read.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.sides.lost.min(self.sent) as f64 / self.sent as f64 }
    }

    /// Why the trial says nothing about the host ([`TesterCounts::void`]).
    pub fn void(&self) -> Option<Void> {
        self.void_by(self.sides)
    }

    /// Like [`Observation::void`], for what is left of the trial without some of its slots.
    pub fn void_by(&self, counts: TesterCounts) -> Option<Void> {
        counts.void(self.counts.as_ref().is_some_and(Counts::is_saturated))
    }
}

/// A trial's frames and what disturbed it, by slots of equal length of the measured window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slots {
    /// Length of a slot (s).
    pub each_s: f64,
    /// The slots; the last may be shorter.
    pub slots: Vec<Slot>,
    /// Stalls of the sender, from the start of the window (s).
    pub sender_stalls: Vec<Span>,
    /// Intervals in which the host's CPU was taken away from outside; None: not measured.
    pub host_pauses: Option<Vec<Span>>,
    /// The same of the sender's CPU.
    pub sender_pauses: Option<Vec<Span>>,
    /// Intervals in which other tasks had the host's CPU; None: not measured.
    pub visits: Option<Vec<Visit>>,
}

/// An interval in which a task other than the application and the network stack had the host's CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// When.
    pub at: Span,
    /// The task's name.
    pub task: String,
}

/// Frames by intended send time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// Offered.
    pub sent: u64,
    /// Of these, not read.
    pub lost: u64,
    /// Of those offered, how many left late.
    pub late: u64,
}

/// An interval from the start of a trial's window (s); it may begin before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// When it begins (s).
    pub from_s: f64,
    /// How long it is (s).
    pub length_s: f64,
}

/// Highest rate of the sender alone.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderCeiling {
    /// How it sends, in words.
    pub method: String,
    /// Packets/s flat out, one value a repeat.
    pub pps: Vec<f64>,
    /// Highest load allowed (pps); None: any.
    pub most_pps: Option<f64>,
}

/// A ceiling within this share of the highest load allowed is that limit, not the sender's.
const AT_LIMIT: f64 = 0.98;

/// Highest load that may be offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Highest {
    /// The sender's ceiling (pps).
    pub ceiling_pps: f64,
    /// Highest load allowed (pps); None: any.
    pub most_pps: Option<f64>,
}

impl Highest {
    /// Of a sender that nothing limits (pps).
    pub fn of_sender(ceiling_pps: f64) -> Self {
        Self { ceiling_pps, most_pps: None }
    }

    /// Whether the limit is what keeps loads low.
    pub fn is_limited(&self) -> bool {
        self.most_pps.is_some_and(|most_pps| self.ceiling_pps >= AT_LIMIT * most_pps)
    }

    /// The highest load (pps).
    pub fn pps(&self) -> f64 {
        self.most_pps.filter(|_| self.is_limited()).unwrap_or(self.ceiling_pps)
    }

    /// The highest that a sender paces which reaches its ceiling only flat out, with this share of it (pps).
    pub fn paced_pps(&self, share: f64) -> f64 {
        self.most_pps.filter(|_| self.is_limited()).unwrap_or(share * self.ceiling_pps)
    }

    /// What it is called.
    pub fn in_words(&self) -> &'static str {
        if self.is_limited() { "--max-rate" } else { "the sender's ceiling" }
    }
}

/// Round trips of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrips {
    /// Answers that the application sent, warm-up included.
    pub answers: u64,
    /// Times of those to frames of the window that arrived; None: none did, or the clock of the host that sends was set meanwhile.
    pub times: Option<LatencySummary>,
}

/// A host under test with a sender.
pub trait Bench {
    /// Offers one load and observes.
    ///
    /// # Errors
    /// Stopped, or sender, sink or meter failed.
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError>;

    /// Measures the sender flat out, whatever the receiver loses.
    ///
    /// # Errors
    /// Stopped, or the sender failed.
    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError>;

    /// Packets that the application's socket holds if nothing reads it; None if they cannot be counted.
    ///
    /// # Errors
    /// Stopped, or sender or sink failed.
    fn socket_capacity(&mut self, spec: &TrialSpec) -> Result<Option<f64>, TrialError>;

    /// Offers one load and says where each packet went; None: this bench cannot tell.
    ///
    /// # Errors
    /// As [`Bench::observe`].
    fn ledger(&mut self, _spec: &TrialSpec) -> Result<Option<Ledger>, TrialError> {
        Ok(None)
    }

    /// Offers one load, of whose frames the application answers some; None: the sender is on this host.
    ///
    /// # Errors
    /// As [`Bench::observe`], or the sender cannot take answers.
    fn round_trips(&mut self, _spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        Ok(None)
    }

    /// Slots of the receive backlog or ring.
    fn ring_slots(&self) -> Option<u64>;

    /// How CPU time is accounted, in words.
    ///
    /// # Errors
    /// Why protocol processing cannot be separated from the application here, as a sentence.
    fn cpu_method(&self) -> Result<String, String>;
}

/// The figure's value, or nothing.
pub fn value(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value)
}
