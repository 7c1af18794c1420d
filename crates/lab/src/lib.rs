//! The laboratory: calibrates the host, searches its cliff on three engines, keeps the records.
//!
//! | module | holds |
//! | --- | --- |
//! | [`inputs`] | files a user names |
//! | [`mod@forwarding`] | experiments of forwarding: a router in several set-ups, over the frame sizes |
//! | [`rfc2544`] | forwarding through a device: throughput, latency, loss, bursts |
//! | [`rig`] | the testbed with the CPUs it uses |
//! | [`trial`] | one measurement at one load |
//! | [`mod@bench`] | the measurements that calibration and search need; [`wire_bench`] makes them with real packets |
//! | [`calibrate`] | costs by regression |
//! | [`rfc2544::search`] | MLRsearch (RFC 9971): the one search of `find` and `rfc2544`, pure |
//! | [`find`] | the main job: calibrate, predict, simulate, measure |
//! | [`run`] | an experiment on model, simulator and wire, continued where it was stopped |
//! | [`advise`] | settings for an objective: screened by the model, simulated, picked at a confidence |
//! | [`limits`] | the roofline |
//! | [`monitor`] | counters and headroom for a monitoring system |
//! | [`rr`] | request/response between two ends on this host, or against an agent |
//! | [`companion`] | the far end on this host as a process of its own |
//! | [`cpus`] | the CPUs of both ends' hosts over the repeats of a test |
//! | [`mod@headroom`] | how near this host is to its calibrated cliff now |
//! | [`hosts`] | the fingerprints of both ends' hosts |
//! | [`mod@compare`] | one run against another, point by point |
//! | [`stream`] | bulk transfers: a sweep, metered |
//! | [`mod@trend`] | the runs of one name over time, and where a figure changed its level |
//! | [`tuning`] | what a tuning plan is expected to change, and the host measured with and without it in turns |
//! | [`transfers`] | experiments of bulk transfers: settings varied by a design, and their effects |
//! | [`store`] | records in SQLite |
//! | [`stored`] | what a run keeps, whatever its kind, and its JSON |
//! | `alike` | sentences that differ in their numbers only, as one |
//! | [`stand`] | the devices, addresses and CPUs that a measurement depends on: what changed meanwhile |
//! | [`stats`] | intervals and least squares |

// Names of Linux that another system lacks, each refused there.
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as nix;

pub mod account;
pub mod advise;
mod alike;
pub mod bench;
pub mod calibrate;
mod chance;
pub mod companion;
pub mod compare;
pub mod costs;
pub mod cpus;
pub mod find;
pub mod forwarding;
pub mod headroom;
pub mod hosts;
pub mod inputs;
mod ledger;
pub mod limits;
pub mod monitor;
pub mod repeats;
pub mod rfc2544;
pub mod rig;
pub mod rr;
pub mod run;
pub mod stand;
pub mod stats;
pub mod store;
pub mod stored;
pub mod stream;
pub mod transfers;
pub mod trend;
pub mod trial;
pub mod tuning;
pub mod wire_bench;

pub use netcliff_host::inventory::lasting;
