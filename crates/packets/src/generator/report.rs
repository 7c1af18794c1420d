//! What a generator measured about its own sending.

use serde::{Deserialize, Serialize};

use crate::error::WireError;
use crate::latency::Latency;
use crate::port::SendOutcome;
use crate::thread::CpuUse;
use crate::transmit::Method;

/// The frames of one slot of the window, by intended send time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSlot {
    /// Frames offered.
    pub sent: u64,
    /// Frames that left later than [`netcliff_core::verdict::LATE_NS`].
    pub late: u64,
}

/// A time in which a thread or CPU did nothing [ns of `CLOCK_MONOTONIC`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Last heartbeat before the gap.
    pub from_ns: u64,
    /// First heartbeat after the gap.
    pub to_ns: u64,
}

/// How well the schedule was followed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SenderReport {
    /// Rate of the schedule over the frames that were offered [packets/s]; `None` below two frames.
    pub intended_pps: Option<f64>,
    /// Rate at which the frames were offered [packets/s].
    pub achieved_pps: Option<f64>,
    /// All frames offered to the kernel, by what happened to them.
    pub frames: SendOutcome,
    /// Number of frames of the measured window that were offered.
    pub window_offered: u64,
    /// The frames of the measured window, by what happened to them.
    pub window_frames: SendOutcome,
    /// One more than the highest sequence number used. All sequence numbers below it were offered.
    pub next_sequence: u64,
    /// Lateness of each frame: time at which the call that transmitted it returned, minus its intended send time.
    pub lateness: Latency,
    /// Frames of the window by slots of `SLOT_NS`.
    pub slots: Vec<SentSlot>,
    /// Gaps of more than `STALL_NS` between two clock readings, in which the sender's thread did not run: the first 10
    /// 000.
    pub stalls: Vec<Gap>,
    /// Largest burst \[frames\].
    pub largest_burst: u64,
    /// Number of kicks (handovers to the kernel) by burst size: `burst_kicks[n]` kicks handed over n frames.
    pub burst_kicks: Vec<u64>,
    /// Number of times that the ring had no free slot, which is a limit of the *sender*.
    pub ring_full: u64,
    /// How far the generator was behind its schedule when it stopped \[s\]; 0 if it finished.
    pub behind_s: f64,
    /// Whether achieved / intended >= `KEPT_UP_SHARE`, the 99th percentile of lateness is within the bound, and no
    /// frame was lost to the sender's own limits. If false, a loss says nothing about the receiver.
    pub kept_up: bool,
    /// Whether every frame of the schedule left, at most 10 ms after the end of the schedule, however late single
    /// frames were.
    pub sent_all: bool,
    /// The bound on the 99th percentile of lateness used for `kept_up` \[s\].
    pub lateness_bound_s: f64,
    /// Whether the stop flag ended the run early.
    pub stopped: bool,
    /// Time just before the first frames were handed to the kernel [ns of `CLOCK_MONOTONIC`].
    pub first_kick_ns: Option<u64>,
    /// Time just after the last frames were handed to the kernel [ns of `CLOCK_MONOTONIC`].
    pub last_kick_ns: Option<u64>,
    /// CPU time of the sending thread: about one CPU at any rate, because the thread spins.
    pub cpu: CpuUse,
    /// How frames were handed to the kernel.
    pub method: Method,
    /// Time from the intended send time of frames of the window to the kernel's receive timestamp of the sink's answer.
    /// `None` if answers were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Latency>,
}

impl SenderReport {
    /// Adds the report of another generator of the same measurement, whose clock is `ahead_ns` ahead. Rates and counts
    /// are added, `kept_up` requires that both kept up, and the lateness histogram contains all frames.
    pub fn add(&mut self, other: &Self, ahead_ns: i64) {
        let both = |own: Option<f64>, theirs: Option<f64>| Some(own? + theirs?);
        let here = |ns: u64| ns.saturating_add_signed(-ahead_ns);
        self.intended_pps = both(self.intended_pps, other.intended_pps);
        self.achieved_pps = both(self.achieved_pps, other.achieved_pps);
        self.frames.add(&other.frames);
        self.window_offered += other.window_offered;
        self.window_frames.add(&other.window_frames);
        self.next_sequence = self.next_sequence.max(other.next_sequence);
        self.lateness.merge(&other.lateness);
        self.slots.resize(self.slots.len().max(other.slots.len()), SentSlot::default());
        for (own, theirs) in self.slots.iter_mut().zip(&other.slots) {
            own.sent += theirs.sent;
            own.late += theirs.late;
        }
        let stalls = other.stalls.iter().map(|stall| Gap { from_ns: here(stall.from_ns), to_ns: here(stall.to_ns) });
        self.stalls.extend(stalls);
        self.largest_burst = self.largest_burst.max(other.largest_burst);
        self.burst_kicks.resize(self.burst_kicks.len().max(other.burst_kicks.len()), 0);
        self.burst_kicks.iter_mut().zip(&other.burst_kicks).for_each(|(own, theirs)| *own += theirs);
        self.ring_full += other.ring_full;
        self.behind_s = self.behind_s.max(other.behind_s);
        self.kept_up &= other.kept_up;
        self.sent_all &= other.sent_all;
        self.stopped |= other.stopped;
        let first = [self.first_kick_ns, other.first_kick_ns.map(here)];
        self.first_kick_ns = first.into_iter().flatten().min();
        self.last_kick_ns = self.last_kick_ns.max(other.last_kick_ns.map(here));
        self.cpu = self.cpu.beside(&other.cpu);
        match (&mut self.round_trips, &other.round_trips) {
            (Some(own), Some(theirs)) => own.merge(theirs),
            (own, theirs) => *own = own.take().or_else(|| theirs.clone()),
        }
    }
}

/// A generator that failed during the run, with the results so far.
#[derive(Debug, thiserror::Error)]
#[error("the generator stopped after {} frames: {reason}", measured.as_ref().map_or(0, |m| m.frames.total()))]
pub struct SenderFailure {
    /// Why the generator failed.
    #[source]
    pub reason: WireError,
    /// What was measured before the failure, if anything.
    pub measured: Option<Box<SenderReport>>,
}

impl From<WireError> for SenderFailure {
    fn from(reason: WireError) -> Self {
        Self { reason, measured: None }
    }
}
