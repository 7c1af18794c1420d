//! Settings that serve an objective: what to set ([`plan()`]), where queues belong ([`affinity`]), and setting it with a way
//! back ([`apply`]).

pub mod affinity;
pub mod apply;
pub mod plan;

pub use plan::{Plan, Step, Wish, plan};
