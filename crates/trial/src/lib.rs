//! One measurement at one load: real packets joined with CPU time, on a testbed, a device or a link to another host.
//!
//! | module | contents |
//! | --- | --- |
//! | [`rig`] | the testbed with the CPUs it uses |
//! | [`trial`] | one measurement at one load |
//! | [`mod@bench`] | the measurements that calibration and search need; [`wire_bench`] makes them with real packets |
//! | [`account`] | sums of the counters of generators and device |
//! | [`ledger`] | what happened to each packet of a trial |
//! | [`repeats`] | when a test has enough repeats; the CPUs of both ends' hosts over the repeats |
//! | [`stand`] | the devices, addresses and CPUs that a measurement depends on, and their changes during it |
//! | [`alike`] | merges sentences that differ only in their numbers |

pub mod account;
pub mod alike;
pub mod bench;
pub mod ledger;
pub mod repeats;
pub mod rig;
pub mod stand;
pub mod trial;
pub mod wire_bench;
