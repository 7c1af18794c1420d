//! `run`: expands an experiment, asks its engines on all cores, and goes on where an earlier run was stopped.
//!
//! [`Plan`] is the experiment with what the user changed; [`compute`] answers its tasks. Answers come to the caller one
//! by one, on the caller's thread, as they come, so that each can be kept at once. An answer depends on the plan
//! only, not on threads or order. Experiments that are formulas are curves at once:
//! [`mlfrr`], [`roofline`].

mod answer;
mod formulas;
mod plan;
mod wire;
mod workers;

pub use answer::Answer;
pub use formulas::{mlfrr, roofline};
pub use plan::{Changes, Plan};
pub use wire::measure;
pub use workers::compute;
