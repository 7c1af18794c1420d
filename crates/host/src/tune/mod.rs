//! Settings that serve an objective: what to set ([`plan()`]), where queues belong ([`affinity`]) and where their packets are worked on ([`work`]), setting it with undo
//! ([`apply`]) or for good ([`permanent`]); settings of a device by name ([`device`]).

pub mod affinity;
pub mod apply;
mod at_risk;
pub mod device;
pub mod permanent;
pub mod plan;
pub mod work;

pub use plan::{Plan, PlanError, Step, Wish, plan};
