//! The receive path of a host as a model: queueing mathematics and the schemes of docs/theory/host.md as chains.
//!
//! Start with [`ModelEngine`], which answers a [`netcliff_core::Point`], and [`cliff`](cliff::cliff), which looks for
//! the load where an engine's loss crosses a bound. The way of a point: [`engine`] checks it, [`schemes`] turns it
//! into the ring's answer by one of the queues of [`queue`], [`application`] puts the socket and the application on
//! top, [`answer`] writes the [`netcliff_core::Outcome`].
//!
//! No clock, no randomness, no I/O; compiles to wasm32-unknown-unknown.
//!
//! ```
//! use netcliff_core::{Engine, Host, Point, Traffic};
//! use netcliff_model::ModelEngine;
//!
//! // An M/M/1/K as fast as its arrivals has each of its K + 1 states equally often, and loses in one of them.
//! let mut host = Host::pentium4_2530mhz();
//! host.set("ring=9")?;
//! let traffic = Traffic::poisson(1.0);
//! let mu_pps = host.mu_pps(64.0);
//! let point = Point { host, scheme: "ideal".parse()?, traffic: traffic.at_pps(mu_pps) };
//! let loss = ModelEngine::default().evaluate(&point)?.loss_fraction.expect("the model has it");
//! assert!((loss.value - 0.1).abs() < 1e-9, "{loss:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The same bits on every platform: see core::math.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod analysis;
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

pub use analysis::{Question, analyse};
pub use cliff::{Cliff, CliffSearch, cliff, livelock_index};
pub use engine::{Fidelity, ModelEngine};
pub use sensitivity::{STEP, Sensitivity, sensitivities};
