//! One measurement at one load: real packets joined with CPU time, on a testbed, a device or a link to another host.
//!
//! | module | holds |
//! | --- | --- |
//! | [`rig`] | the testbed with the CPUs it uses |
//! | [`trial`] | one measurement at one load |
//! | [`mod@bench`] | the measurements that calibration and search need; [`wire_bench`] makes them with real packets |
//! | [`account`] | the counters of generators and device, summed up |
//! | [`ledger`] | what became of each packet of a trial |
//! | [`repeats`] | when the repeats of a test are enough; the CPUs of both ends' hosts over them |
//! | [`stand`] | the devices, addresses and CPUs that a measurement depends on: what changed meanwhile |
//! | [`alike`] | sentences that differ in their numbers only, as one |

pub mod account;
pub mod alike;
pub mod bench;
pub mod ledger;
pub mod repeats;
pub mod rig;
pub mod stand;
pub mod trial;
pub mod wire_bench;
