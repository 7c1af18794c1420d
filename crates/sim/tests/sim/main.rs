//! The simulator against theory, invariants and snapshots. One binary: a module is a file.

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
