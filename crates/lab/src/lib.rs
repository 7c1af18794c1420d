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
pub mod store;
pub mod stored;
pub mod traffic;
pub mod trend;

pub mod run {
    //! `run`: expands an experiment, evaluates it on all cores, and continues an earlier run that was stopped.
    //!
    //! [`Plan`] is the experiment with the user's changes. [`compute`] evaluates its tasks. It passes each answer to the
    //! caller as it arrives, on the caller's thread, so that the answer can be stored at once. An answer depends only on
    //! the plan, not on threads or order. Some experiments only evaluate formulas, so they give curves without tasks:
    //! [`mlfrr`], [`roofline`].

    mod answer;
    mod formulas;
    mod plan;
    mod wire;
    mod workers;

    pub use answer::{Answer, has_other_fidelity};
    pub use formulas::{mlfrr, roofline};
    pub use plan::{Changes, Plan};
    pub use wire::measure;
    pub use workers::{DIED, compute, compute_by};
}

pub use netcliff_host::inventory::lasting;
