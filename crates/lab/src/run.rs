//! `run`: expands an experiment, evaluates it on all cores, and continues an earlier run that was stopped.
//!
//! [`Plan`] is the experiment with what the user changed; [`compute`] answers its tasks. Answers are handed to the caller one
//! by one, on the caller's thread, as they arrive, so that each can be kept at once. An answer depends on the plan
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
pub use workers::{DIED, compute, compute_by};
