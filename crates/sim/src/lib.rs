//! The simulator: one CPU that serves interrupts before protocol work before the application, packet by packet.
//!
//! Start with [`SimEngine`]: it turns a [`netcliff_core::Point`] into an [`netcliff_core::Outcome`] with intervals from
//! independent replications; [`cliff_sim`] searches the highest load within a loss target.
//!
//! | module | contents |
//! | --- | --- |
//! | `clock`, `random`, `draw` | time in whole ticks, streams of random numbers, service times |
//! | `source` | the packets: gaps, sizes and CPU times, the same under every scheme |
//! | `machine` | the CPU, its ring, the application's socket, and the counts |
//! | `schemes` | what an arrival does and when packets are served; `schemes::linux` follows the kernel's functions |
//! | `recursion` | packets computed one by one without events, where scheme and host allow it |
//! | `offered` | bytes that arrive in each slice of time, without a host |
//! | `trace` | a short run in detail, for display |
//! | `engine` | evaluates a point; also hosts with several queues, on separate cores or on one core |
//! | `shared` | one core that serves several queues |
//! | `observe` | distributions of queue and busy periods, and a series in time |
//! | `pair` | two schemes on the same packets |
//! | `replicas` | single replications; trials from an empty host, like the trials of a measurement |
//! | `sample` | the number of packets and replications |
//! | `executor` | executors of replications: this machine, or others |
//! | `length` | the warm-up, and whether replications are long enough for their results |
//! | `replicate`, `batch` | one replication, and all of a point with their warm-up |
//! | `stats`, `summary` | intervals, figures |
//! | `caveats` | notes: precision not reached, intervals not justified |
//!
//! Nothing here reads a clock or a file: seeds are arguments, and a seed gives the same figures on any number of
//! threads.
//!
//! Each CPU computes one replication at a time. Computing eight replications in the lanes of SIMD registers (AVX2), one
//! event of each per step, was tried for hosts with an application and was not faster: the kind of the next event
//! differs from lane to lane, so that each step has to compute every kind of event and two random times for all lanes,
//! while times and histograms are still read and written lane by lane.
//!
//! ```
//! use netcliff_core::{Engine, Host, Point};
//! use netcliff_sim::SimEngine;
//!
//! // Twice what the host can serve: about half is lost, and the interval says how well that is known.
//! let host = Host::pentium4_2530mhz();
//! let rate_pps = 2.0 * host.mu_pps(64.0);
//! let point = Point::poisson(host, "ideal".parse()?, rate_pps);
//! let loss = SimEngine::with_packets(1, 100_000).evaluate(&point)?.loss_fraction.expect("counted");
//! assert!((loss.value - 0.5).abs() < 0.02 && loss.interval.is_some(), "{loss:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The results have the same bits on every platform: see core::math.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
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
mod observe;
mod offered;
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

pub use cliff::{Cliff, Start, cliff_sim, cliff_sim_unless};
pub use engine::{Effort, SimAt, SimEngine, Simulation};
pub use executor::{Executor, Filled, LocalExecutor, ReplicationRequest};
pub use observe::Wanted;
pub use offered::offered_bytes;
pub use replicas::{Replica, SimulatedTrial, TRIAL_LOWEST};
pub use trace::{Activity, Level, Span, Trace};
