//! [`Bench`]: what calibration and search ask of the wire, so that both can be tested against an exact fake.

use netcliff_core::{Figure, Outcome};
use netcliff_wire::void::{Sides, Void};

use crate::trial::{TrialError, TrialSpec};

/// What one trial says, without the wire's details.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The configuration.
    pub spec: TrialSpec,
    /// The trial as an outcome.
    pub outcome: Outcome,
    /// What sender and sink counted in the window.
    pub sides: Sides,
    /// Frames of the window offered.
    pub sent: u64,
    /// The same by slots, where they were counted.
    pub slots: Slots,
    /// 99th percentile of actual minus intended send time (s).
    pub lateness_p99_s: Option<f64>,
    /// Share of the host's CPU that the hypervisor took.
    pub steal_share: f64,
    /// What came from outside, besides what [`Slots`] has.
    pub outside: Outside,
    /// What was counted on the host's CPU, where a meter that can tell ran.
    pub counts: Option<Counts>,
}

impl Observation {
    /// Share of the offered packets that were not read.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.sides.lost.min(self.sent) as f64 / self.sent as f64 }
    }

    /// Why the trial says nothing about the host, by the rule of every trial ([`Sides::void`]).
    pub fn void(&self) -> Option<Void> {
        self.sides.void()
    }
}

/// What a trial tells of the machine around it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outside {
    /// Shortest pause of a CPU that shows (s); None: none are measured.
    pub shortest_pause_s: Option<f64>,
    /// Share of the sender's CPU that the hypervisor took.
    pub sender_steal_share: f64,
    /// Pieces of fixed work that the host's CPU did in a second of undisturbed time; None: it was not kept awake, or had no time.
    pub turns_per_s: Option<f64>,
    /// Time in which the machine slept (s).
    pub suspended_s: f64,
    /// Nanoseconds of the kernel's clock a tick of the CPU's counter; None: the counter is not used.
    pub ns_per_tick: Option<f64>,
}

/// A trial's frames and what disturbed it, by slots of equal length of the measured window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slots {
    /// Length of a slot (s).
    pub each_s: f64,
    /// One a slot; the last may be shorter.
    pub slots: Vec<Slot>,
    /// Stalls of the sender, from the start of the window (s).
    pub sender_stalls: Vec<Span>,
    /// Times in which the host's CPU was taken from outside; None: not measured.
    pub host_pauses: Option<Vec<Span>>,
    /// The same of the sender's CPU.
    pub sender_pauses: Option<Vec<Span>>,
    /// Times in which other tasks had the host's CPU; None: not measured.
    pub visits: Option<Vec<Visit>>,
}

/// A time in which a task had the host's CPU that is neither the application nor the network's.
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

/// A time from the start of a trial's window (s); it may begin before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// When it begins (s).
    pub from_s: f64,
    /// How long it is (s).
    pub length_s: f64,
}

/// Times and events on the host's CPU during a metered trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Length of the interval (s).
    pub elapsed_s: f64,
    /// Time in protocol processing: NET_RX softirqs (s).
    pub protocol_s: f64,
    /// Time in hard interrupts (s).
    pub interrupt_s: f64,
    /// Time of the application's thread, without what interrupted it (s).
    pub application_s: f64,
    /// Time with nothing to do (s).
    pub idle_s: f64,
    /// Time in other tasks and other softirqs (s).
    pub other_s: f64,
    /// Time that the meter itself took, contained in the others (s); None: not measured.
    pub meter_s: Option<f64>,
    /// Packets that protocol processing took.
    pub packets: f64,
    /// Polls.
    pub polls: f64,
    /// Interrupts.
    pub interrupts: f64,
    /// Packets the application read.
    pub delivered: f64,
    /// Times the application blocked and was woken.
    pub wakeups: f64,
    /// Interrupts that found a task running.
    pub busy_interrupts: f64,
    /// How long polls took, by packets.
    pub poll_times: Vec<PollTime>,
    /// Time in softirqs after their last poll (s).
    pub tail_s: f64,
}

impl Counts {
    /// Service demand: CPU time of interrupts and softirqs a packet taken, and of the application a packet read (s); None where nothing was.
    pub fn demand_s(&self) -> Option<f64> {
        let some = self.packets > 0.0 && self.delivered > 0.0;
        some.then(|| (self.interrupt_s + self.protocol_s) / self.packets + self.application_s / self.delivered)
    }
}

/// All polls of a trial that took the same number of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollTime {
    /// Packets a poll.
    pub packets: f64,
    /// Such polls.
    pub polls: f64,
    /// Mean time (s).
    pub mean_s: f64,
    /// Variance of the time (s^2).
    pub variance_s2: f64,
    /// True: the CPU was idle, so that the poll also woke the application.
    pub from_idle: bool,
}

/// The sender alone.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderCeiling {
    /// How it sends, in words.
    pub method: String,
    /// Packets/s flat out, one value a repeat.
    pub pps: Vec<f64>,
}

/// A host under test with a sender.
pub trait Bench {
    /// Offers one load and observes.
    ///
    /// # Errors
    /// Stopped, or sender, sink or meter failed.
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError>;

    /// The sender flat out, the receiver's fate ignored.
    ///
    /// # Errors
    /// Stopped, or the sender failed.
    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError>;

    /// Packets that the application's socket holds when nobody reads; None where it cannot be counted.
    ///
    /// # Errors
    /// Stopped, or sender or sink failed.
    fn socket_capacity(&mut self, spec: &TrialSpec) -> Result<Option<f64>, TrialError>;

    /// Slots of the receive backlog or ring.
    fn ring_slots(&self) -> Option<u64>;

    /// How CPU time is accounted, in words.
    ///
    /// # Errors
    /// Why protocol processing cannot be told from the application here, as a sentence.
    fn cpu_method(&self) -> Result<String, String>;
}

/// The figure's value, or nothing.
pub fn value(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value)
}
