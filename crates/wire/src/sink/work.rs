//! What the application does with each packet.

use std::hint::black_box;

use netcliff_host::cpu::heartbeat::Heartbeat;

use crate::clock;
use crate::error::WireError;

/// Longest work on one packet \[s\].
const LONGEST_S: f64 = 0.1;
/// Time between two beats of a long work \[s\]: a fifth of the shortest pause reported, and a clock read a thousandth of it.
const BEAT_S: f64 = 50e-6;

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
            Work::CpuTime(work_s) => {
                Ok(Box::new(Loop { work_s: check(work_s)?, rounds: 0, beat_rounds: 0, heartbeat: heartbeat.clone() }))
            }
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
        while left > self.beat_rounds {
            turn(self.beat_rounds, payload.len() as u64);
            left -= self.beat_rounds;
            self.heartbeat.beat(clock::monotonic_ns());
        }
        turn(left, payload.len() as u64);
    }
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
        let mut work = Loop { work_s: 20e-6, rounds: 0, beat_rounds: 0, heartbeat: Heartbeat::default() };
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
