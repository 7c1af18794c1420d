//! The work that the application under test does on each packet.

use std::hint::black_box;

use hdrhistogram::Histogram;
use netcliff_host::cpu::heartbeat::Heartbeat;

use crate::clock;
use crate::error::WireError;

/// Longest accepted work per packet \[s\].
const LONGEST_S: f64 = 0.1;
/// Time between two heartbeats during long work \[s\]: a fifth of the shortest pause that is reported. Reading the
/// clock takes a thousandth of this time.
const BEAT_S: f64 = 50e-6;
/// A piece of work (the rounds between two heartbeats) counts as undisturbed if it takes at most this multiple of the
/// lower quartile of all pieces. An interrupt and the softirq that follows take longer.
const UNDISTURBED: f64 = 1.25;
/// If the undisturbed pieces take more than this multiple of the time calibrated before the run, they were interrupted,
/// too, and no time is reported.
const INTERRUPTED: f64 = 2.0;
/// Smallest number of pieces for a usable quartile.
const FEWEST_PIECES: u64 = 100;
/// Longest piece that the histogram resolves \[ns\]; longer pieces count as this value.
const LONGEST_PIECE_NS: u64 = 10_000_000;

/// The application that receives the packets.
pub trait Application: Send {
    /// Prepares the application. Called once in the sink's thread, after the thread was placed and before any packet.
    ///
    /// # Errors
    /// The application cannot run.
    fn prepare(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    /// Handles one packet of the run, after the packet was timed.
    fn handle(&mut self, payload: &[u8]);

    /// Time that the work on one packet took in this run without interruption \[s\]. `None` if not known.
    fn undisturbed_s(&self) -> Option<f64> {
        None
    }
}

/// A substitute for an application: busy work of a given length.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Work {
    /// No work: the packet is only read.
    #[default]
    None,
    /// CPU time in seconds: a loop whose speed is calibrated at the start. Time during which the thread is interrupted
    /// or preempted is *not* work, as with a real application. Prefer this.
    CpuTime(f64),
    /// Wall time in seconds: spins until this time has passed, so that interruptions shorten the work.
    WallTime(f64),
}

impl Work {
    /// Makes the application that does this work and updates `heartbeat` while it works.
    pub fn application(self, heartbeat: &Heartbeat) -> Result<Box<dyn Application>, WireError> {
        match self {
            Work::None => Ok(Box::new(Idle)),
            Work::CpuTime(work_s) => Ok(Box::new(Loop::new(check(work_s)?, heartbeat.clone()))),
            Work::WallTime(work_s) => Ok(Box::new(Spin { work_ns: (check(work_s)? * 1e9) as u64 })),
        }
    }
}

fn check(work_s: f64) -> Result<f64, WireError> {
    if (0.0..=LONGEST_S).contains(&work_s) {
        return Ok(work_s);
    }
    Err(WireError::setting("work_s", work_s, format!("0 to {LONGEST_S} s")))
}

struct Idle;

impl Application for Idle {
    fn handle(&mut self, _: &[u8]) {}
}

struct Spin {
    work_ns: u64,
}

impl Application for Spin {
    fn handle(&mut self, _: &[u8]) {
        let begin = clock::monotonic_ns();
        while clock::monotonic_ns() - begin < self.work_ns {
            std::hint::spin_loop();
        }
    }
}

struct Loop {
    work_s: f64,
    rounds: u64,
    /// Number of rounds between two heartbeats.
    beat_rounds: u64,
    heartbeat: Heartbeat,
    /// Time that the rounds between two heartbeats took \[ns\].
    pieces: Histogram<u64>,
}

impl Loop {
    fn new(work_s: f64, heartbeat: Heartbeat) -> Self {
        let pieces = Histogram::new_with_bounds(1, LONGEST_PIECE_NS, 3).expect("the bounds are in order");
        Self { work_s, rounds: 0, beat_rounds: 0, heartbeat, pieces }
    }
}

impl Application for Loop {
    fn prepare(&mut self) -> Result<(), WireError> {
        let round_s = round_s();
        self.rounds = (self.work_s / round_s).round() as u64;
        self.beat_rounds = ((BEAT_S / round_s) as u64).max(1);
        Ok(())
    }

    fn handle(&mut self, payload: &[u8]) {
        let mut left = self.rounds;
        if left > self.beat_rounds {
            let mut before_ns = clock::monotonic_ns();
            while left > self.beat_rounds {
                turn(self.beat_rounds, payload.len() as u64);
                left -= self.beat_rounds;
                let now_ns = clock::monotonic_ns();
                self.heartbeat.beat(now_ns);
                self.pieces.saturating_record(now_ns - before_ns);
                before_ns = now_ns;
            }
        }
        turn(left, payload.len() as u64);
    }

    /// Estimated from pieces of the run itself: an emulated CPU is rarely as fast during the run as in the calibration
    /// before it.
    fn undisturbed_s(&self) -> Option<f64> {
        let piece_ns = undisturbed_ns(&self.pieces)?;
        let calibrated_ns = 1e9 * self.work_s / self.rounds as f64 * self.beat_rounds as f64;
        let each_ns = piece_ns / self.beat_rounds as f64;
        (piece_ns < INTERRUPTED * calibrated_ns).then_some(each_ns * self.rounds as f64 * 1e-9)
    }
}

/// Mean time of an uninterrupted piece \[ns\], provided that at least a quarter of the pieces were uninterrupted.
/// `None` if there are too few pieces.
fn undisturbed_ns(pieces: &Histogram<u64>) -> Option<f64> {
    if pieces.len() < FEWEST_PIECES {
        return None;
    }
    let longest_ns = (UNDISTURBED * pieces.value_at_quantile(0.25) as f64) as u64;
    let whole = pieces.iter_recorded().take_while(|each| each.value_iterated_to() <= longest_ns);
    let (count, sum_ns) = whole.fold((0, 0.0), |(count, sum_ns), each| {
        let here = each.count_at_value();
        (count + here, sum_ns + here as f64 * each.value_iterated_to() as f64)
    });
    (count > 0).then(|| sum_ns / count as f64)
}

/// Runs rounds of a shift and a multiplication that depend on the previous round. A round takes about five cycles and
/// uses only registers: with a value in memory it would take one to three times as long, depending on store forwarding.
#[inline(never)]
fn turn(rounds: u64, seed: u64) -> u64 {
    let mut value = seed | 1;
    for _ in 0..rounds {
        value = (value ^ (value >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(value)
}

/// Time of one round on this CPU \[s\]: the fastest of 50 trials of about 40 us, so that a trial in which the thread
/// was interrupted does not count.
fn round_s() -> f64 {
    const ROUNDS: u64 = 20_000;
    turn(50 * ROUNDS, 1);
    let fastest_ns = (0..50)
        .map(|seed| {
            let begin = clock::monotonic_ns();
            black_box(turn(ROUNDS, seed));
            clock::monotonic_ns() - begin
        })
        .min()
        .unwrap_or(1);
    fastest_ns.max(1) as f64 * 1e-9 / ROUNDS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shortest of 200 trials \[ns\], because other programs can only lengthen a trial.
    fn fastest_of_a_new_loop_ns() -> u64 {
        let mut work = Loop::new(20e-6, Heartbeat::default());
        work.prepare().expect("it always works");
        let trials_ns = (0..200).map(|_| {
            let begin = clock::monotonic_ns();
            work.handle(&[0; 18]);
            clock::monotonic_ns() - begin
        });
        trials_ns.min().expect("it ran")
    }

    /// The CPU's speed changes by a third when its other hardware thread starts or stops working, perhaps between the
    /// two halves of a test round (6 ms). So one round in two may have the wrong length, but all twenty only in one of
    /// a million runs. A loop of the wrong length is wrong in every round.
    #[test]
    fn the_loop_takes_the_time_asked_for() {
        let rounds_ns: Vec<u64> = std::iter::repeat_with(fastest_of_a_new_loop_ns).take(20).collect();
        assert!(rounds_ns.iter().any(|ns| (17_000..23_000).contains(ns)), "{rounds_ns:?} ns");
    }

    /// Of 1000 pieces of about 60 us, 400 are interrupted for 50 us or more.
    #[test]
    fn interrupted_pieces_do_not_count_as_work() {
        let mut work = Loop::new(1e-3, Heartbeat::default());
        (work.rounds, work.beat_rounds) = (20_000, 1_000);
        assert_eq!(work.undisturbed_s(), None, "nothing was worked yet");
        for piece in 0..1000_u64 {
            let interrupted_ns = if piece % 5 < 2 { 50_000 + 100 * piece } else { 0 };
            work.pieces.record(58_000 + 400 * (piece % 11) + interrupted_ns).expect("it is in bounds");
        }
        let work_s = work.undisturbed_s().expect("a thousand pieces");
        assert!((work_s / 1.2e-3 - 1.0).abs() < 0.002, "20 pieces of 60 us, not {work_s}");
        // If all pieces are interrupted, half of the measured time is not work, and no time is reported.
        let mut always = Loop::new(1e-3, Heartbeat::default());
        (always.rounds, always.beat_rounds) = (20_000, 1_000);
        (0..1000).for_each(|_| always.pieces.record(110_000).expect("it is in bounds"));
        assert_eq!(always.undisturbed_s(), None);
    }

    #[test]
    fn impossible_work_is_named() {
        for work_s in [-1.0, f64::NAN, 1.0] {
            for work in [Work::CpuTime(work_s), Work::WallTime(work_s)] {
                let error = work.application(&Heartbeat::default()).err().expect("out of range").to_string();
                assert!(error.contains("work_s"), "{error}");
            }
        }
    }
}
