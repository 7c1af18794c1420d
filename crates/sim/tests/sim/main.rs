//! The simulator against theory, invariants and snapshots. All tests are one binary: each file is a module.

mod applications;
mod choices;
mod cliff;
mod coverage;
mod invariants;
mod pauses;
mod queues;
mod sides;
mod snapshot;
mod speed;
mod theory;
mod trace;
