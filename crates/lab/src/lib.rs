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
//! | [`repeats`] | when the repeats of a test are enough; the CPUs of both ends' hosts over them |
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
//!
//! # How `find` answers
//!
//! 4. `lab::find` runs the stages: sender alone, rough search, calibration (its trials drawn anew:
//!    `calibrate/resample.rs`, through the model: `find/sureness.rs`), predicted and simulated cliff, measured cliffs
//!    (searches by MLRsearch, behind a NIC from the lowest load that loses: `find/cliff/climb.rs`; each trial read
//!    with and without disturbances; `find/recorder.rs` keeps what disturbed each trial and how fast the machine
//!    was), model and simulation once more for the speed of each part in those trials (`calibrate/present.rs`) and
//!    for what disturbances leave behind (`find/fluid.rs`), sweep past twice the cliff, the same loads on the other
//!    engines, conclusions, suggestions; then, on testbeds of their own (`find/later.rs`), other set-ups (`check.rs`)
//!    and the best suggestion (`tried.rs`). What could not be measured goes to `Finding::missing` with the reason.
//!    Where another host is under test, its agent runs the stages, and the client that sends the load computes, too
//!    (`find/elsewhere.rs`). `lab::costs` gives other commands the costs of a stored finding.
//!
//! 5. `lab::store` keeps each record as it comes (SQLite, one transaction each) and the `Finding` at the end.
//!    `netcliff run` takes points from a file instead: `core::experiment` expands it to tasks, `lab::run` answers
//!    them on all cores, each record goes to the store under its task, so that a run that was killed goes on
//!    (`store/experiments.rs`).
//!
//! # Forwarding
//!
//! `host::testbed::forward` makes three namespaces instead, for `rfc2544`: generator, router, sink. `lab::rfc2544`
//! asks a `conduct::Device` (the real one, `kernel`, or a fake) for trials; the searches are pure. `lab::forwarding`
//! lets several set-ups of the router take turns; what the tuning planner proposes for it is set inside its
//! namespace.
//!
//! Latency of the tagged frame by stamps (`wire::forward::stamps`): it alone goes through a socket to which the kernel reports when
//! it left, and a socket whose filter lets only it pass tells when it came. `host::nic::phc` brings two devices'
//! clocks together (pure), `host::nic::stamping` is what a device is set to stamp, `host::testbed::stamping` sets it
//! with undo.
//!
//! # Monitoring and trend
//!
//! `lab::headroom` holds a `Moment` of `host::watch` against the newest `find` (pure); `lab::monitor` keeps the last
//! reading; `report::metrics` writes it, `wire::scrape` answers for it. `lab::trend` divides the kept runs of one
//! name (`trend/divisive.rs`). `report::builds` writes what build servers read.

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
