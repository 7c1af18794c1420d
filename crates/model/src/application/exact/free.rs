//! What the application gets done between the first packet of a free period and the interrupt, and how many packets
//! the ring has then.
//!
//! Its progress j counts what it has finished: the context switch, if it owes one, then packets. Whether the socket had
//! so many is checked afterwards, so that one distribution serves every socket.

mod gaps;
mod stages;
mod timer;

use super::budget::Budget;
use gaps::Gaps;
use netcliff_core::math;
use stages::Stages;
use timer::Timer;

/// What is waited for after the first packet before the interrupt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// Nothing.
    Nothing,
    /// So many packets in all, at least 2.
    Packets(usize),
    /// An exponential time: the interrupt's delivery.
    Exponential {
        /// Its mean (s).
        mean_s: f64,
    },
    /// A constant time from the first packet, or so many packets if they come before.
    Timer {
        /// The time (s).
        timer_s: f64,
        /// The packets, at least 2.
        packets: Option<usize>,
    },
    /// A constant time from the last packet, or so many packets if they come before.
    PacketTimer {
        /// The time (s).
        timer_s: f64,
        /// The packets, at least 2.
        packets: Option<usize>,
        /// True: a packet that finds the ring full restarts the timer, too.
        drops_restart: bool,
    },
}

/// One way for the wait to end: with so many packets in the ring.
///
/// Progress goes on whatever the packets do, so that gaps between packets of one end with one progress are exchangeable: each packet's wait
/// follows from the two times here.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Packets in the ring.
    pub packets: usize,
    /// P(it ends so, with progress j).
    pub progress: Vec<f64>,
    /// Mean time from the first packet to the last that is kept, where it ends so with progress j, else 0 (s).
    pub gathering_s: Vec<f64>,
    /// The same from that packet to the end (s).
    pub after_s: Vec<f64>,
}

/// Waits of the packets of one end with one progress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketWaits {
    /// How many there are.
    pub packets: usize,
    /// Mean time from the first packet to the last that is kept (s).
    pub gathering_s: f64,
    /// The same from that packet to the end (s).
    pub after_s: f64,
}

impl End {
    /// Waits with this progress.
    pub fn waits(&self, progress: usize) -> PacketWaits {
        let (gathering_s, after_s) = (self.gathering_s[progress], self.after_s[progress]);
        PacketWaits { packets: self.packets, gathering_s, after_s }
    }
}

impl PacketWaits {
    /// Of the first `room` packets, or of all if they are fewer, together (s): packet i of n waits for n - i of n - 1 gaps.
    pub fn of_first(&self, room: usize) -> f64 {
        let (all, first) = (self.packets as f64, room.min(self.packets) as f64);
        let gaps = first * (all - 0.5 * (first + 1.0)) / (all - 1.0).max(1.0);
        first * self.after_s + gaps * self.gathering_s
    }
}

/// The wait as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waited {
    /// Its ends.
    pub ends: Vec<End>,
    /// Mean time with progress j (s).
    pub times: Vec<f64>,
    /// Integral of the packets in the ring [packet s].
    pub area: f64,
    /// Mean time with a full ring (s).
    pub full_s: f64,
}

/// Rates of progress: of the first piece of work, and of the others (1/s).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Rate of the first.
    pub first: f64,
    /// Rate of the others.
    pub others: f64,
}

impl Pace {
    /// No progress.
    pub const NONE: Self = Self { first: 0.0, others: 0.0 };

    fn of(&self, progress: usize, most: usize) -> f64 {
        match progress {
            _ if progress >= most => 0.0,
            0 => self.first,
            _ => self.others,
        }
    }
}

/// Ends and progress rarer than this are left out.
const LEFT_OUT: f64 = 1e-14;

impl Wait {
    /// Packets in the ring and progress of an exponential wait that are as good as never exceeded; None: of other waits that is not known before.
    pub fn reaches(&self, arrival_pps: f64, places: usize, read_pps: f64, most: usize) -> Option<(usize, usize)> {
        let Self::Exponential { mean_s } = *self else { return None };
        // No more than a usize holds: a float that is larger becomes its largest.
        let furthest = |per_s: f64| (-math::ln(LEFT_OUT) / math::ln_1p(1.0 / (per_s * mean_s))) as usize;
        Some((furthest(arrival_pps).min(places), furthest(read_pps).min(most)))
    }

    /// The wait from the first packet on, for progress counted up to `most`; None where the budget does not last.
    pub fn solve(&self, arrival_pps: f64, places: usize, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        match *self {
            Self::Nothing => Some(Waited {
                ends: vec![End { packets: 1, progress: vec![1.0], gathering_s: vec![0.0], after_s: vec![0.0] }],
                ..Waited::default()
            }),
            Self::Packets(packets) => {
                let stages = Stages { arrival_pps, ends_per_s: 0.0, packets: packets.min(places + 1), places };
                stages.solve(pace, most, budget)
            }
            Self::Exponential { mean_s } => {
                let stages = Stages { arrival_pps, ends_per_s: 1.0 / mean_s, packets: usize::MAX, places };
                stages.solve(pace, most, budget)
            }
            Self::Timer { timer_s, packets } => {
                Timer { arrival_pps, timer_s, packets, places }.solve(pace, most, budget)
            }
            Self::PacketTimer { timer_s, packets, drops_restart } => {
                Gaps { arrival_pps, timer_s, packets, places, drops_restart }.solve(pace, most, budget)
            }
        }
    }
}
