//! `run`: expands an experiment, evaluates it on all cores, and continues an earlier run that was stopped.
//!
//! [`Plan`] is the experiment with the user's changes. [`compute`] evaluates its tasks. It passes each answer to the
//! caller as it arrives, on the caller's thread, so that the answer can be stored at once. An answer depends only on
//! the plan, not on threads or order. Some experiments only evaluate formulas, so they give curves without tasks:
//! [`mlfrr`], [`roofline`].

mod answer;
mod formulas;
mod plan;
mod wire;
mod workers;

pub use answer::{Answer, has_other_fidelity};
pub use formulas::{mlfrr, roofline};
pub use plan::{Changes, Plan};
pub use wire::measure;
pub use workers::{DIED, compute, compute_by};
