//! [`Bench`]: the measurements that calibration and search need, so that both can be tested against an exact fake.

#[cfg(test)]
pub mod through;

use netcliff_core::ledger::Ledger;
use netcliff_core::{Figure, Outcome};
use netcliff_wire::void::{Sides, Void};

use crate::trial::{TrialError, TrialSpec};

/// Result of one trial, without the wire's details.
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

    /// Why the trial says nothing about the host, by the rule of every trial ([`Sides::void`]).
    pub fn void(&self) -> Option<Void> {
        self.sides.void()
    }
}

/// External influences on a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outside {
    /// Shortest detectable pause of a CPU (s); None: pauses are not measured.
    pub shortest_pause_s: Option<f64>,
    /// Share of the sender's CPU that the hypervisor took.
    pub sender_steal_share: f64,
    /// Iterations of fixed work that the host's CPU did a second of undisturbed time; None: not kept awake, or no time for it.
    pub turns_per_s: Option<f64>,
    /// Time in which the machine was suspended (s).
    pub suspended_s: f64,
    /// Nanoseconds of the kernel's clock a tick of the CPU's counter; None: the counter is not used.
    pub ns_per_tick: Option<f64>,
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
    /// Interrupts that began polls.
    pub interrupts: f64,
    /// All that the device under test raised; None: they are not listed.
    pub raised: Option<f64>,
    /// Packets the application read.
    pub delivered: f64,
    /// What the configured work on a packet took where nothing interrupted it (s); None: not known.
    pub undisturbed_work_s: Option<f64>,
    /// Times the application blocked and was woken.
    pub wakeups: f64,
    /// Interrupts that hit the application.
    pub busy_interrupts: f64,
    /// Interrupts of a NIC that hit a softirq; 0: not counted.
    pub softirq_interrupts: f64,
    /// How long polls took, by packets.
    pub poll_times: Vec<PollTime>,
    /// Time in softirqs after their last poll (s).
    pub tail_s: f64,
    /// Polls in which a driver gave GRO a packet of its ring, and the time until the first of each (s).
    pub looks: f64,
    /// See `looks`.
    pub look_s: f64,
    /// Those of them that the NIC interrupted, their time without its handlers (s), and how often.
    pub hit_looks: f64,
    /// See `hit_looks`.
    pub hit_look_s: f64,
    /// See `hit_looks`.
    pub look_hits: f64,
}

/// Fewest interrupts in looks that tell what one takes from polls.
const FEWEST_HITS: f64 = 50.0;

/// What an interrupt of the NIC takes from a poll that it hits, beyond its handler (s): from the time until the first packet of polls that were hit before it,
/// and of the others of each trial. None: too few were hit.
pub fn taken_from_polls_s(trials: &[Counts]) -> Option<f64> {
    let more_s = |c: &Counts| Some(c.hit_look_s - c.hit_looks * c.own_look_s()?);
    let told = || trials.iter().filter_map(|c| Some((more_s(c)?, c.look_hits)));
    let hits: f64 = told().map(|(_, hits)| hits).sum();
    (hits >= FEWEST_HITS).then(|| (told().map(|(more_s, _)| more_s).sum::<f64>() / hits).max(0.0))
}

impl Counts {
    /// Mean time of a poll until its first packet, where no interrupt hit it before (s).
    pub fn own_look_s(&self) -> Option<f64> {
        let own = self.looks - self.hit_looks;
        (own > 0.0).then(|| (self.look_s - self.hit_look_s) / own)
    }

    /// Time in protocol processing without the `taken_s` (s) that each interrupt which hit it took from it (s).
    pub fn own_protocol_s(&self, taken_s: f64) -> f64 {
        (self.protocol_s - taken_s * self.softirq_interrupts).max(0.0)
    }

    /// Time in hard interrupts over those that began polls (s), so that the local timer's is in it and shows where the latter are few; None without them.
    pub fn handler_s(&self) -> Option<f64> {
        (self.interrupts > 0.0).then(|| self.interrupt_s / self.interrupts)
    }

    /// Service demand: CPU time of interrupts and softirqs a packet taken, and of the application a packet read (s); None without packets.
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
