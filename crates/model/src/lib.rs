//! The receive path of a host on paper: queueing mathematics and the schemes of THEORY section 2 as chains.
//!
//! Start with [`ModelEngine`], which answers a [`netcliff_core::Point`], and [`cliff`](cliff::cliff), which looks for
//! the load where an engine's loss crosses a bound. The way of a point: [`engine`] checks it, [`schemes`] turns it
//! into the ring's answer by one of the queues of [`queue`], [`application`] puts the socket and the application on
//! top, [`answer`] writes the [`netcliff_core::Outcome`].
//!
//! No clock, no randomness, no I/O; compiles to wasm32-unknown-unknown.

pub mod analysis;
pub mod answer;
pub mod application;
pub mod cliff;
pub mod engine;
pub mod limits;
pub mod mlfrr;
pub mod queue;
pub mod schemes;
pub mod sensitivity;

pub use analysis::{Question, analyse};
pub use cliff::{Cliff, cliff, livelock_index};
pub use engine::{Fidelity, ModelEngine};
pub use schemes::switching_pps;
pub use sensitivity::{STEP, Sensitivity, sensitivities};
