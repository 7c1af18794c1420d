//! The engines compared with each other; experiments, forwarding and ledgers on a real kernel. One binary: each module
//! is a file.

mod against;
mod application_against_sim;
mod application_bounds;
mod experiments;
mod forwarding;
mod ledgers;
mod model_against_sim;
mod pauses;
mod scan;
mod wire;
