//! The laboratory: experiments, advice, comparisons, and the store of results.
//!
//! | module | holds |
//! | --- | --- |
//! | [`inputs`] | the files that a user names |
//! | [`run`] | an experiment on model, simulator and wire, continued if it was stopped |
//! | [`advise`] | the best settings for an objective: screened by the model, simulated, picked at a confidence |
//! | [`mod@compare`] | comparison of two runs, point by point |
//! | [`mod@trend`] | the runs of one name over time, and where a figure changed its level |
//! | [`store`] | records in SQLite |
//! | [`mod@traffic`] | the offered traffic: load over time by source, burstiness, frame sizes |
//! | [`stored`] | the result of a run of any kind, and its JSON |
//!
//! # Monitoring and trend
//!
//! `care::headroom` compares a `Moment` of `host::watch` with the newest `find` (pure functions). `care::monitor`
//! stores the last reading, `report::metrics` formats it, and `remote::scrape` answers requests with it. `lab::trend`
//! divides the stored runs of one name into levels (`trend/divisive.rs`). `report::builds` writes files for build
//! servers.

pub mod advise;
pub mod compare;
pub mod costs;
pub mod inputs;
pub mod run;
pub mod store;
pub mod stored;
pub mod traffic;
pub mod trend;

pub use netcliff_host::inventory::lasting;
