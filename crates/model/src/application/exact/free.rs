//! The application's progress between the first packet of a free period and the interrupt, and the number of packets in
//! the ring at the interrupt.
//!
//! Progress j counts finished pieces of work: the context switch, if there is one, then packets. The limit by the
//! number of packets in the socket is applied later, so that one distribution serves sockets of all sizes.

mod gaps;
mod stages;
mod timer;

use super::budget::Budget;
use gaps::Gaps;
use netcliff_core::math;
use stages::Stages;
use timer::Timer;

/// Condition that ends the wait for an interrupt after the first packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// Nothing: it comes at once.
    Nothing,
    /// A total number of packets, at least 2.
    Packets(usize),
    /// An exponential time: the interrupt's latency.
    Exponential {
        /// Mean of the time (s).
        mean_s: f64,
    },
    /// A constant time from the first packet; a number of packets may end the wait earlier.
    Timer {
        /// The constant time (s).
        timer_s: f64,
        /// The number of packets, at least 2; `None` if only the time counts.
        packets: Option<usize>,
    },
    /// A constant time from the last packet; a number of packets may end the wait earlier.
    PacketTimer {
        /// The constant time (s).
        timer_s: f64,
        /// The number of packets, at least 2; `None` if only the time counts.
        packets: Option<usize>,
        /// True: a packet that finds the ring full also restarts the timer.
        drops_restart: bool,
    },
}

/// All waits for an interrupt that end with the same number of packets in the ring.
///
/// Progress (pieces of work that the application finishes during the wait) does not depend on the packets. For a given
/// end and progress, the gaps between packets are therefore exchangeable: the waiting time of each packet follows from
/// the two times here.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Packets in the ring.
    pub packets: usize,
    /// `[j]`: P(the wait ends with this number of packets and progress j).
    pub progress: Vec<f64>,
    /// `[j]`: mean time from the first to the last packet in the ring (s), over all waits; waits that end otherwise
    /// count as 0.
    pub gathering_s: Vec<f64>,
    /// `[j]`: mean time from the last packet in the ring to the end (s), over all waits; waits that end otherwise count
    /// as 0.
    pub after_s: Vec<f64>,
}

/// Waiting times of the packets for one end and one progress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketWaits {
    /// Number of packets.
    pub packets: usize,
    /// Mean time from the first packet to the last one in the ring (s).
    pub gathering_s: f64,
    /// Mean time from the last packet in the ring to the end (s).
    pub after_s: f64,
}

impl End {
    /// Waiting times for this progress.
    pub fn waits(&self, progress: usize) -> PacketWaits {
        let (gathering_s, after_s) = (self.gathering_s[progress], self.after_s[progress]);
        PacketWaits { packets: self.packets, gathering_s, after_s }
    }
}

impl PacketWaits {
    /// Sum of the waiting times of the first `room` packets, or of all if there are fewer (s): packet i of n waits for
    /// n - i of the n - 1 gaps, and for the time after the last packet.
    pub fn of_first(&self, room: usize) -> f64 {
        let (all, first) = (self.packets as f64, room.min(self.packets) as f64);
        let gaps = first * (all - 0.5 * (first + 1.0)) / (all - 1.0).max(1.0);
        first * self.after_s + gaps * self.gathering_s
    }
}

/// Distribution of a wait.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waited {
    /// The possible ends.
    pub ends: Vec<End>,
    /// `[j]`: mean time with progress j (s).
    pub times: Vec<f64>,
    /// Integral over time of the packets in the ring [packet s].
    pub area: f64,
    /// Mean time with a full ring (s).
    pub full_s: f64,
}

/// Rates at which the application finishes pieces of work (1/s); the first piece has its own rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Rate of the first piece (1/s).
    pub first: f64,
    /// Rate of all other pieces (1/s).
    pub others: f64,
}

impl Pace {
    /// The application makes no progress.
    pub const NONE: Self = Self { first: 0.0, others: 0.0 };

    fn of(&self, progress: usize, most: usize) -> f64 {
        match progress {
            _ if progress >= most => 0.0,
            0 => self.first,
            _ => self.others,
        }
    }
}

/// Probability below which ends and progress are left out.
const LEFT_OUT: f64 = 1e-14;

impl Wait {
    /// Largest number of packets in the ring, and largest number of pieces of work, that an exponential wait reaches
    /// with noticeable probability; `None` for other waits.
    pub fn reaches(&self, arrival_pps: f64, places: usize, read_pps: f64, most: usize) -> Option<(usize, usize)> {
        let Self::Exponential { mean_s } = *self else { return None };
        // The cast saturates: a float above the largest usize becomes the largest usize.
        let furthest = |per_s: f64| (-math::ln(LEFT_OUT) / math::ln_1p(1.0 / (per_s * mean_s))) as usize;
        Some((furthest(arrival_pps).min(places), furthest(read_pps).min(most)))
    }

    /// Solves the wait from the first packet, with up to `most` pieces of work finished by the application; `None` if
    /// the budget does not suffice.
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
