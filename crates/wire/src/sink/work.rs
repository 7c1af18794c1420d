//! What the application does with each packet.

use std::hint::black_box;

use hdrhistogram::Histogram;
use netcliff_host::cpu::heartbeat::Heartbeat;

use crate::clock;
use crate::error::WireError;

/// Longest work on one packet \[s\].
const LONGEST_S: f64 = 0.1;
/// Time between two beats of a long work \[s\]: a fifth of the shortest pause reported, and a clock read a thousandth of it.
const BEAT_S: f64 = 50e-6;
/// Pieces of work up to this multiple of their lower quartile are taken to have been undisturbed; an interrupt with what follows it takes longer.
const UNDISTURBED: f64 = 1.25;
/// The quartile is an interrupted piece's where it takes this multiple of what calibration before the run says.
const INTERRUPTED: f64 = 2.0;
/// Fewest pieces of which a quartile is taken.
const FEWEST_PIECES: u64 = 100;
/// Longest piece that is told from longer ones \[ns\].
const LONGEST_PIECE_NS: u64 = 10_000_000;

/// The application.
pub trait Application: Send {
    /// Called once in the sink's thread, in its place, before any packet.
    ///
    /// # Errors
    /// The application can not run.
    fn prepare(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    /// Called for each packet of the run, after it was timed.
    fn handle(&mut self, payload: &[u8]);

    /// What the work on a packet took in this run where nothing interrupted it \[s\]; `None`: not known.
    fn undisturbed_s(&self) -> Option<f64> {
        None
    }
}

/// A stand-in for an application.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Work {
    /// Nothing: the packet is only read.
    #[default]
    None,
    /// CPU time in seconds: a loop whose speed is calibrated at start. Time during which the thread
    /// is interrupted or preempted is *not* work, as with a real application. Prefer this.
    CpuTime(f64),
    /// Wall time in seconds: spins until the clock says so, so that interruptions shorten the work.
    WallTime(f64),
}

impl Work {
    /// The application that does this work, and beats `heartbeat` meanwhile.
    ///
    /// # Errors
    /// The time is negative, not a number, or more than 0.1 s.
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
    /// Rounds between two beats.
    beat_rounds: u64,
    heartbeat: Heartbeat,
    /// How long the rounds between two beats took \[ns\].
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

    /// From pieces of the run itself: an emulated CPU is as fast as before the run only by chance, and at its fastest hardly ever.
    fn undisturbed_s(&self) -> Option<f64> {
        let piece_ns = undisturbed_ns(&self.pieces)?;
        let calibrated_ns = 1e9 * self.work_s / self.rounds as f64 * self.beat_rounds as f64;
        let each_ns = piece_ns / self.beat_rounds as f64;
        (piece_ns < INTERRUPTED * calibrated_ns).then_some(each_ns * self.rounds as f64 * 1e-9)
    }
}

/// Mean time of a piece that nothing interrupted \[ns\], if one in four or more was so; `None`: too few pieces.
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

/// Rounds of a shift and a multiplication that wait for the ones before: some five cycles each, in registers alone.
/// A value kept in memory would take one to three times as long, as the CPU forwards its stores or does not.
#[inline(never)]
fn turn(rounds: u64, seed: u64) -> u64 {
    let mut value = seed | 1;
    for _ in 0..rounds {
        value = (value ^ (value >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(value)
}

/// Seconds a round takes on this CPU: the fastest of 50 trials of about 40 us, so that a trial in
/// which the thread was interrupted does not count.
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

    /// The least of 200 trials (ns): other programs can only lengthen a trial.
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

    /// The CPU's speed changes by a third as its other hardware thread works or rests, perhaps between the two halves of a round (6 ms):
    /// one round in two is then wrong, all of twenty one run in a million. A loop of another length is wrong in each.
    #[test]
    fn the_loop_takes_the_time_asked_for() {
        let rounds_ns: Vec<u64> = std::iter::repeat_with(fastest_of_a_new_loop_ns).take(20).collect();
        assert!(rounds_ns.iter().any(|ns| (17_000..23_000).contains(ns)), "{rounds_ns:?} ns");
    }

    /// Of pieces about 60 us long, four in ten were interrupted for 50 us or more each.
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
        // All interrupted: half of the work's time is not its own.
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
