//! The types that all of netcliff uses: host, scheme, traffic and outcome, with their text forms.
//!
//! This crate reads no file, clock or random number: text and numbers come in as arguments. Start with [`Point`] (host,
//! scheme, traffic and load), [`Outcome`] (the result) and [`Engine`] (computes or measures it). docs/theory defines
//! the terms along the receive path of one CPU: interrupt > protocol > application.
//!
//! | module | holds |
//! | --- | --- |
//! | [`units`] | quantities with units, parsed and printed so that they round-trip |
//! | [`bounds`] | ranges of the quantities of a point |
//! | [`host`] | [`Host`]: costs and sizes |
//! | [`scheme`] | [`Scheme`]: how packets reach the CPU |
//! | [`parts`] | [`Bus`], [`parts::Memory`], [`Offload`]: limits of a host besides its CPU |
//! | [`traffic`] | [`Traffic`]: arrivals x frame sizes; [`Load`] |
//! | [`outcome`] | [`Outcome`]: the figures of a point, each optional; [`Measure`]: a figure by name; [`Aims`], [`Precision`]: their precision |
//! | [`engine`] | [`Engine`], [`Point`]: the trait that model, simulation and measurement implement |
//! | [`experiment`] | [`Experiment`]: computations or measurements and their figure, from TOML |
//! | [`inspection`] | facts about a host, and its probable problems |
//! | [`tuning`] | proposals of `netcliff tune` |
//! | [`roofline`] | [`Roofline`]: the page of `netcliff limits` |
//! | [`finding`] | [`finding::Settings`] and [`Finding`]: what `netcliff find` measures, and its result |
//! | [`drops`], [`filter`] | result of `netcliff drops` for an interval; expressions that select packets |
//! | [`learned`] | [`Learned`]: costs and cliff of a host, observed under its normal traffic |
//! | [`profile`] | [`Profile`]: CPU time of a packet by stage |
//! | [`ledger`] | [`ledger::Ledger`]: accounting of a trial's packets: delivered, dropped, unexplained |
//! | [`mod@watch`] | result of `netcliff watch` for an interval, and its bottleneck |
//! | [`note`], [`warning`] | limits of an outcome; values that are possible but probably mistakes |
//! | [`wide`] | loops compiled for wider vectors, selected at run time |
//! | [`detail`] | distributions and time series of a simulation; two schemes on the same packets |
//! | [`switching`] | when the hybrid scheme switches between interrupts and polling |
//! | [`net_dim`] | how Linux's dynamic interrupt moderation chooses among its profiles |
//! | [`capture`] | [`Capture`]: recorded packets |
//! | [`queues`] | [`Queues`]: several receive queues, RSS, flows, and the core of each queue |
//! | [`quote`] | quoting for a shell, udev rules and INI files |
//! | [`objective`] | [`Goal`], [`Constraint`]: the figure that settings optimise, and bounds on figures |
//! | [`advice`] | [`Advice`]: result of `netcliff advise` |
//! | [`cpus`] | [`cpus::CpuRow`]: use of a host's CPUs during a test |
//! | [`stream`] | [`stream::StreamReport`]: the cost of transfers, and formulas of rates on the wire |
//! | [`analysis`] | [`Analysis`]: cliff, livelock index, sensitivities |
//! | [`binding`] | the bottleneck at the cliff, as a sentence |
//! | [`record`] | [`Record`]: an outcome with its [`record::Provenance`] and [`Fingerprint`] |
//! | [`service`] | [`ServiceFinding`]: result of `netcliff find --service` |
//! | [`headroom`] | result of `netcliff headroom`: load of a host relative to its cliff |
//! | [`metrics`] | counters of a host and of an agent, for monitoring systems |
//! | [`verdict`] | when a trial is void, and how often a void trial is repeated |
//! | [`repeats`] | number of repeats of a configuration, and the precision of their mean |
//! | [`math`] | elementary functions with the same result on every platform |
//! | [`params`], [`mod@error`] | parsing of parameters and of names; errors of input |
//! | [`endpoint`] | [`endpoint::Endpoint`]: a host with an optional port |
//! | [`written`] | the JSON of points and of their traffic |
//!
//! ```
//! use netcliff_core::{Host, Point, Scheme};
//!
//! let mut host = Host::pentium4_2530mhz();
//! host.set("ring=64")?;
//! let point = Point::poisson(host, "napi:weight=32".parse()?, 100e3);
//! point.validate()?;
//! assert_eq!(point.rate_pps(), Some(100e3));
//!
//! // A refusal names the value and what is accepted.
//! let refused = "napi:wait=32".parse::<Scheme>().unwrap_err().to_string();
//! assert!(refused.contains("wait") && refused.contains("weight"), "{refused}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Results must have the same bits on every platform. clippy.toml therefore forbids the elementary functions of the
// standard library; the module `math` replaces them.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod advice;
pub mod analysis;
pub mod binding;
pub mod bounds;
pub mod capture;
pub mod cpus;
pub mod detail;
pub mod drops;
pub mod endpoint;
pub mod engine;
pub mod error;
pub mod experiment;
pub mod filter;
pub mod finding;
pub mod headroom;
pub mod host;
pub mod inspection;
pub mod learned;
pub mod ledger;
pub mod math;
pub mod metrics;
pub mod net_dim;
pub mod note;
pub mod objective;
pub mod outcome;
pub mod params;
pub mod parts;
pub mod profile;
pub mod queues;
pub mod quote;
pub mod record;
pub mod repeats;
pub mod roofline;
pub mod scheme;
pub mod service;
pub mod stream;
pub mod switching;
pub mod traffic;
pub mod tuning;
pub mod units;
pub mod verdict;
pub mod warning;
pub mod watch;
pub mod wide;
pub mod written;

pub use advice::Advice;
pub use analysis::Analysis;
pub use capture::Capture;
pub use detail::{BusyPeriods, Detail, Difference, LatencyHistogram, QueueShare, Slice};
pub use engine::{Engine, EngineFailure, EngineKind, Fidelity, Point, Unsupported};
pub use error::{Invalid, ParseError};
pub use experiment::Experiment;
pub use finding::Finding;
pub use host::{Host, Service};
pub use learned::Learned;
pub use objective::{Constraint, Goal};
pub use outcome::{
    Aims, ApplicationOutcome, CpuShares, Dimension, Figure, Interval, Latency, Loss, Measure, Outcome, Precision,
    Transmitted, Unsound,
};
pub use params::Choice;
pub use parts::{Bus, Offload};
pub use profile::Profile;
pub use queues::{Flows, QueueOutcome, Queues};
pub use record::{Fingerprint, Provenance, Record};
pub use roofline::Roofline;
pub use scheme::{Coalesce, Dim, DimProfile, FreebsdPolling, Hybrid, Moderation, Napi, Napi2007, Scheme, SoftTimers};
pub use service::ServiceFinding;
pub use traffic::{Arrivals, FrameSizes, Load, Traffic};
