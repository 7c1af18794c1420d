//! The simulator: one CPU that serves interrupts before protocol work before the application, packet by packet.
//!
//! Start with [`SimEngine`]: it turns a [`netcliff_core::Point`] into an [`netcliff_core::Outcome`] with intervals from
//! independent replications; [`cliff_sim`] searches the highest load within a loss target.
//!
//! | module | holds |
//! | --- | --- |
//! | `clock`, `random`, `draw` | time in whole ticks, streams of random numbers, service times |
//! | `source` | the packets: gaps, sizes and CPU times, the same under every scheme |
//! | `machine` | the CPU, its ring, the application's socket, and what is counted |
//! | `schemes` | what an arrival does and when packets are served; `schemes::linux` follows the kernel's functions |
//! | `recursion` | packets computed one by one without events, where scheme and host allow it |
//! | `trace` | a short run in detail, for display |
//! | `multi_queue` | several queues, each with a core of its own or several on one |
//! | `shared` | one core that serves several queues |
//! | `observe` | distributions of queue and busy periods, and a series in time |
//! | `pair` | two schemes on the same packets |
//! | `replicas` | single replications, for procedures that decide how many they need |
//! | `trials` | short runs from an empty host, like trials of a measurement |
//! | `sample` | the number of packets and replications |
//! | `executor` | executors of replications: this machine, or others |
//! | `length` | the warm-up, and whether replications are long enough for their results |
//! | `replicate`, `stats`, `summary` | replications, intervals, figures |
//! | `caveats` | notes: precision that was not reached, intervals that are not justified |
//!
//! Nothing here reads a clock or a file: seeds are arguments, and a seed gives the same figures on any number of
//! threads.
//!
//! ```
//! use netcliff_core::{Engine, Host, Point, Traffic};
//! use netcliff_sim::SimEngine;
//!
//! // Twice what the host can serve: about half is lost, and the interval says how well that is known.
//! let host = Host::pentium4_2530mhz();
//! let traffic = Traffic::poisson(1.0);
//! let rate_pps = 2.0 * host.mu_pps(64.0);
//! let point = Point { host, scheme: "ideal".parse()?, traffic: traffic.at_pps(rate_pps) };
//! let loss = SimEngine::with_packets(1, 100_000).evaluate(&point)?.loss_fraction.expect("counted");
//! assert!((loss.value - 0.5).abs() < 0.02 && loss.interval.is_some(), "{loss:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The results have the same bits on every platform: see core::math.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod caveats;
mod cliff;
mod clock;
mod control;
mod draw;
mod engine;
mod executor;
mod fifo;
mod free_running;
mod length;
mod machine;
mod multi_queue;
mod observe;
mod pair;
mod random;
mod recursion;
#[cfg(test)]
mod referee;
mod replicas;
mod replicate;
mod sample;
mod schemes;
mod shared;
mod simpler;
mod source;
mod stats;
mod summary;
mod tally;
mod trace;

pub use cliff::{Cliff, cliff_sim, cliff_sim_unless};
pub use engine::{Effort, SimAt, SimEngine, Simulation};
pub use executor::{Executor, Filled, LocalExecutor, ReplicationRequest};
pub use observe::Wanted;
pub use replicas::Replica;
pub use trace::{Activity, Level, Span, Trace};

mod spare {
    //! Reuses the memory of one replication for the next. Allocating fresh pages for each one takes a noticeable part of a
    //! short replication's time (measured on figure 7 as a whole: tests/speed.rs).

    use std::sync::{Mutex, PoisonError};

    /// Unused lists of one kind, from any thread. Their number is limited.
    #[derive(Debug)]
    pub(crate) struct Spare<T> {
        kept: Mutex<Vec<Vec<T>>>,
        most: usize,
    }

    impl<T> Spare<T> {
        pub(crate) const fn new(most: usize) -> Self {
            Self { kept: Mutex::new(Vec::new()), most }
        }

        /// Takes a list with the content that it was left with.
        pub(crate) fn take(&self) -> Option<Vec<T>> {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()
        }

        /// Leaves a list with the content that the next user expects.
        pub(crate) fn keep(&self, list: Vec<T>) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < self.most {
                kept.push(list);
            }
        }
    }
}

mod trials {
    //! [`SimEngine::trial_loss`]: short runs from an empty host, like trials of a measurement.

    use netcliff_core::{EngineFailure, Point};

    use crate::engine::SimEngine;
    use crate::machine::CELLS;
    use crate::replicate::run;

    impl SimEngine {
        /// Share of packets lost in trial `number` of `packets` arrivals (at least 100) into an empty host. No warm-up is
        /// cut off, and packets still inside at the end are not lost. Trials with equal number and seed have pauses of
        /// equal lengths at every load. Effort and confidence of the engine are not used. Errors: see
        /// [`SimEngine::replicas`].
        pub fn trial_loss(&self, point: &Point, number: u64, packets: u64) -> Result<f64, EngineFailure> {
            let (packets, clock) = self.of_one_queue(point, packets)?;
            let counts = run(point, clock, self.seed, number, packets).marks[CELLS];
            Ok(counts.lost() as f64 / counts.offered as f64)
        }
    }

    #[cfg(test)]
    mod tests {
        use netcliff_core::{Host, Traffic};

        use super::*;

        fn point(load_pps: f64, pauses: &[&str]) -> Point {
            let mut host = Host { ring: 100, ..Host::preset("pentium4-2530mhz").unwrap() };
            pauses.iter().for_each(|setting| host.set(setting).unwrap());
            Point { host, scheme: "ideal".parse().unwrap(), traffic: Traffic::poisson(load_pps) }
        }

        /// A pause of 10 ms at 50 kpps is 500 packets. The ring holds 100 of them, so every trial with a pause loses the
        /// rest.
        #[test]
        fn trials_with_a_pause_lose_what_does_not_fit() {
            let engine = SimEngine { seed: 5, ..SimEngine::default() };
            let paused = point(50e3, &["pause=10ms", "pause_every=200ms", "pause_times=constant"]);
            let trial = |point: &Point, number| engine.trial_loss(point, number, 5_000).unwrap();
            let losses: Vec<f64> = (0..40).map(|number| trial(&paused, number)).collect();
            let (lost, whole): (Vec<f64>, Vec<f64>) = losses.iter().partition(|share| **share > 0.0);
            // The probability of no pause in 0.1 s is e^-0.5 = 0.61; a pause may begin at the end of a trial.
            assert!((16..=32).contains(&whole.len()), "{}", whole.len());
            assert!(lost.iter().filter(|share| (0.07..0.09).contains(*share)).count() >= lost.len() / 2, "{lost:?}");
            assert_eq!(trial(&paused, 7), losses[7]);
            assert_eq!([0, 1, 2].map(|number| trial(&point(50e3, &[]), number)), [0.0; 3]);
        }
    }
}
