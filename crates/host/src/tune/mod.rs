//! Settings that serve an objective: what to set ([`plan()`]), where queues belong ([`affinity`]) and where their packets are worked on ([`work`]), setting it with undo
//! ([`apply`]) or for good ([`permanent`]).

pub mod affinity;
pub mod apply;
mod at_risk;
pub mod permanent;
pub mod plan;
pub mod work;

pub use plan::{Plan, PlanError, Step, Wish, plan};
