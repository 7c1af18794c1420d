//! The laboratory: calibrates the host, searches its cliff on three engines, keeps the records.
//!
//! | module | holds |
//! | --- | --- |
//! | [`inputs`] | files a user names |
//! | [`run`] | an experiment on model, simulator and wire, continued where it was stopped |
//! | [`advise`] | settings for an objective: screened by the model, simulated, picked at a confidence |
//! | [`mod@compare`] | one run against another, point by point |
//! | [`mod@trend`] | the runs of one name over time, and where a figure changed its level |
//! | [`store`] | records in SQLite |
//! | [`mod@traffic`] | what a traffic offers over time, by source, how long its bursts last, and its frame sizes |
//! | [`stored`] | what a run keeps, whatever its kind, and its JSON |
//!
//! # Monitoring and trend
//!
//! `care::headroom` holds a `Moment` of `host::watch` against the newest `find` (pure); `care::monitor` keeps the last
//! reading; `report::metrics` writes it, `remote::scrape` answers for it. `lab::trend` divides the kept runs of one
//! name (`trend/divisive.rs`). `report::builds` writes what build servers read.

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
