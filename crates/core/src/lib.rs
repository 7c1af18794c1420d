//! The vocabulary of netcliff: what a host, a scheme, a traffic and an outcome are, and how they are written.
//!
//! Nothing here reads a file, a clock or a random number: text and numbers come in as arguments. Start with
//! [`Point`] (what is asked), [`Outcome`] (what an engine answers) and [`Engine`] (who answers); the meaning of
//! every word is in `docs/theory` and follows the receive path of one CPU: interrupt > protocol > application.
//!
//! | module | holds |
//! | --- | --- |
//! | [`units`] | quantities with units, parsed and printed so that they round-trip |
//! | [`bounds`] | ranges of the quantities of a point |
//! | [`host`] | [`Host`]: costs and sizes |
//! | [`scheme`] | [`Scheme`]: how packets reach the CPU |
//! | [`parts`] | [`Bus`], [`parts::Memory`], [`Offload`]: what bounds a host beside its CPU |
//! | [`traffic`] | [`Traffic`]: arrivals x frame sizes x load |
//! | [`outcome`] | [`Outcome`]: what was found, every figure optional |
//! | [`engine`] | [`Engine`], [`Point`]: the one trait that joins model, simulation and wire |
//! | [`precision`] | [`Aims`], [`Precision`]: which figures a simulation is to know how well |
//! | [`measure`] | [`Measure`]: a figure of an outcome by name |
//! | [`experiment`] | [`Experiment`]: what to draw and who answers, from TOML |
//! | [`inspection`] | what a host is, what looks wrong with it, for people |
//! | [`tuning`] | what `netcliff tune` proposes |
//! | [`roofline`] | [`Roofline`]: the page of `netcliff limits` |
//! | [`finding`] | [`Finding`]: the one page of `netcliff find` |
//! | [`drops`], [`filter`] | what `netcliff drops` shows of an interval; which packets are meant |
//! | [`learned`] | [`Learned`]: what watching a host at work found |
//! | [`profile`] | [`Profile`]: where a packet's time goes, by stage |
//! | [`ledger`] | [`ledger::Ledger`]: where the packets of a trial went |
//! | [`mod@watch`] | what `netcliff watch` shows of a moment, and its bottleneck |
//! | [`note`], [`warning`] | what the reader of an outcome must know; what works but is probably a mistake |
//! | [`wide`] | loops compiled for wider vectors, selected at run time |
//! | [`detail`], [`difference`] | distributions and series of a simulation; two schemes on the same packets |
//! | [`switching`] | when the hybrid scheme switches between interrupts and polling |
//! | [`net_dim`] | how Linux's dynamic moderation walks along its profiles |
//! | [`capture`] | [`Capture`]: recorded packets |
//! | [`queues`] | [`Queues`]: several receive queues, RSS, flows, and which core works for which |
//! | [`quote`] | text as words of a shell, values of udev and of INI files |
//! | [`objective`] | [`Goal`], [`Constraint`]: what settings are wanted for |
//! | [`advice`] | [`Advice`]: the settings that `netcliff advise` found |
//! | [`cpus`] | [`cpus::CpuRow`]: a host's CPUs over the windows of a test |
//! | [`stream`] | [`stream::StreamReport`]: what transfers cost, and the formulas of the wire |
//! | [`analysis`] | [`Analysis`]: cliff, livelock index, sensitivities |
//! | [`binding`] | the bottleneck at the cliff, in words |
//! | [`record`] | [`Record`]: an outcome with its provenance and [`Fingerprint`] |
//!
//! ```
//! use netcliff_core::{Host, Point, Scheme, Traffic};
//!
//! let mut host = Host::pentium4_2530mhz();
//! host.set("ring=64")?;
//! let point = Point { host, scheme: "napi:weight=32".parse()?, traffic: Traffic::poisson(100e3) };
//! point.validate()?;
//! assert_eq!(point.traffic.rate_pps(), Some(100e3));
//!
//! // What is refused is named, with what is accepted.
//! let refused = "napi:wait=32".parse::<Scheme>().unwrap_err().to_string();
//! assert!(refused.contains("wait") && refused.contains("weight"), "{refused}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The same bits on every platform: see core::math.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod advice;
pub mod analysis;
pub mod binding;
pub mod bounds;
pub mod capture;
pub mod choice;
pub mod cpus;
pub mod detail;
pub mod difference;
pub mod drops;
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
pub mod measure;
pub mod metrics;
pub mod net_dim;
pub mod note;
pub mod objective;
pub mod outcome;
pub mod params;
pub mod parts;
pub mod precision;
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

pub use advice::Advice;
pub use analysis::Analysis;
pub use capture::Capture;
pub use choice::Choice;
pub use detail::{BusyPeriods, Detail, LatencyHistogram, QueueShare, Slice};
pub use difference::Difference;
pub use engine::{Engine, EngineFailure, EngineKind, Fidelity, Point, Unsupported};
pub use error::{Invalid, ParseError};
pub use experiment::Experiment;
pub use finding::Finding;
pub use host::{Host, Service};
pub use learned::Learned;
pub use measure::{Dimension, Measure};
pub use objective::{Constraint, Goal};
pub use outcome::{ApplicationOutcome, CpuShares, Figure, Interval, Latency, Loss, Outcome, Transmitted, Unsound};
pub use parts::{Bus, Offload};
pub use precision::{Aims, Precision};
pub use profile::Profile;
pub use queues::{Flows, QueueOutcome, Queues};
pub use record::{Fingerprint, Provenance, Record};
pub use roofline::Roofline;
pub use scheme::{Coalesce, Dim, DimProfile, FreebsdPolling, Hybrid, Moderation, Napi, Napi2007, Scheme, SoftTimers};
pub use service::ServiceFinding;
pub use traffic::{Arrivals, FrameSizes, Load, Traffic};
