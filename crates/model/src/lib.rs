//! The receive path of a host as an analytical model: queueing mathematics, and the schemes of docs/theory/host.md as
//! Markov chains.
//!
//! Start with [`ModelEngine`], which evaluates a [`netcliff_core::Point`], and [`cliff`](cliff::cliff), which searches
//! the load at which an engine's loss crosses a bound. Steps of an evaluation: [`engine`] checks the point, [`schemes`]
//! solves the ring by one of the queues of [`queue`], [`application`] adds socket and application, and [`answer`] makes
//! the [`netcliff_core::Outcome`].
//!
//! No clock, no randomness, no I/O; compiles to wasm32-unknown-unknown.
//!
//! ```
//! use netcliff_core::{Engine, Host, Point};
//! use netcliff_model::ModelEngine;
//!
//! // With arrivals as fast as its service, the K + 1 states of M/M/1/K are equally probable; one of them loses packets.
//! let mut host = Host::pentium4_2530mhz();
//! host.set("ring=9")?;
//! let mu_pps = host.mu_pps(64.0);
//! let point = Point::poisson(host, "ideal".parse()?, mu_pps);
//! let loss = ModelEngine::default().evaluate(&point)?.loss_fraction.expect("the model has it");
//! assert!((loss.value - 0.1).abs() < 1e-9, "{loss:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Results must have the same bits on every platform: see core::math.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod answer;
pub mod application;
pub mod bounds;
pub mod cliff;
pub mod engine;
pub mod limits;
pub mod mlfrr;
pub mod pauses;
pub mod queue;
pub mod schemes;
pub mod sensitivity;

pub use cliff::{Cliff, CliffSearch, cliff, livelock_index};
pub use engine::{Fidelity, ModelEngine};
pub use sensitivity::{Question, STEP, Sensitivity, analyse, sensitivities};
