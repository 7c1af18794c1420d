//! Queueing mathematics, useful without netcliff: no hosts, no schemes, only rates and sizes.
//!
//! | module | holds |
//! | --- | --- |
//! | [`geometric`] | truncated geometric distributions by x = ln(ratio), exact to the last digits at ratio 1 |
//! | [`birth_death`] | M/M/1/B |
//! | [`mmcb`] | M/M/c/B |
//! | [`arrivals`] | arrivals in a random time |
//! | [`mg1k`] | M/G/1/K with a set-up, subtraction-free |
//! | [`matrix`] | small dense matrices, inverses and stationary vectors without subtraction (GTH) |
//! | [`banded`] | stationary vectors of banded chains |
//! | [`qbd`] | finite level-dependent quasi-birth-death processes |
//! | [`pieces`] | weights by level as runs of a constant ratio |
//! | [`quadrature`] | Gauss-Legendre |
//! | [`inversion`] | quantiles from Laplace transforms |
//! | [`uniform`] | what a chain does in a constant time |
//! | [`krylov`] | stationary vectors of chains that are known by what one step does |
//! | [`two_moment`] | finite queues known only by two moments |
//!
//! Nothing here but [`krylov`] subtracts probabilities: sums of positive terms keep their relative accuracy, so that a loss of
//! 1e-30 is as exact as one of 0.5.

pub mod arrivals;
pub mod banded;
pub mod birth_death;
pub(crate) mod complex;
pub mod geometric;
pub mod inversion;
pub mod krylov;
pub mod matrix;
pub mod mg1k;
pub mod mmcb;
pub mod pieces;
pub mod qbd;
pub mod quadrature;
pub mod two_moment;
pub mod uniform;
pub mod wide;
