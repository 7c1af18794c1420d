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
//! | [`ledger`] | [`ledger::Ledger`]: where the packets of a trial went |
//! | [`mod@watch`] | what `netcliff watch` shows of a moment, and its bottleneck |
//! | [`warning`] | what works but is probably a mistake |
//! | [`detail`], [`difference`] | distributions and series of a simulation; two schemes on the same packets |
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
pub mod binding;
pub mod bounds;
pub mod capture;
pub mod cpus;
pub mod detail;
pub mod drops;
pub mod engine;
pub mod experiment;
pub mod filter;
pub mod finding;
pub mod headroom;
pub mod host;
pub mod inspection;
pub mod ledger;
pub mod math;
pub mod measure;
pub mod metrics;
pub mod net_dim;
pub mod objective;
pub mod outcome;
pub mod params;
pub mod parts;
pub mod precision;
pub mod queues;
pub mod quote;
pub mod record;
pub mod repeats;
pub mod roofline;
pub mod scheme;
pub mod stream;
pub mod traffic;
pub mod tuning;
pub mod units;
pub mod warning;
pub mod watch;

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
pub use measure::{Dimension, Measure};
pub use objective::{Constraint, Goal};
pub use outcome::{ApplicationOutcome, CpuShares, Figure, Interval, Latency, Loss, Outcome, Transmitted, Unsound};
pub use parts::{Bus, Offload};
pub use precision::{Aims, Precision};
pub use queues::{Flows, QueueOutcome, Queues};
pub use record::{Fingerprint, Provenance, Record};
pub use roofline::Roofline;
pub use scheme::{Coalesce, Dim, DimProfile, Hybrid, Moderation, Napi, Scheme};
pub use traffic::{Arrivals, FrameSizes, Load, Traffic};

pub mod analysis {
    //! [`Analysis`]: where a host's cliff lies by the model, what is left beyond it, and which cost is worth attacking.

    use serde::{Deserialize, Serialize};

    /// Cliff, livelock index and sensitivities.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Analysis {
        /// Highest offered load with a loss of at most `loss_target` (pps).
        pub cliff_pps: f64,
        /// The loss fraction that defines the cliff.
        pub loss_target: f64,
        /// Throughput at twice the cliff over the peak: 1 holds, 0 is receive livelock.
        pub livelock: f64,
        /// Step h of the sensitivities: costs are multiplied by e^h and e^-h.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub step: Option<f64>,
        /// By cost, the most telling for the cliff first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub sensitivities: Vec<CostSensitivity>,
    }

    /// How three figures move with one cost.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct CostSensitivity {
        /// The cost's key of `--set`.
        pub cost: String,
        /// Percent of change of the cliff a percent of the cost.
        pub cliff: f64,
        /// Percent of change of the mean latency a percent of the cost, at the point's load.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latency: Option<f64>,
        /// Change of the CPU's available share a percent of the cost, in percent of one CPU, at the point's load.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub available: Option<f64>,
    }
}

pub mod choice {
    //! [`Choice`]: one of several values that a user names, with its name and its help in one row.

    /// An enum whose values a user names.
    pub trait Choice: Copy + PartialEq + 'static {
        /// Each value with its name and its help, in the order of the help.
        const CHOICES: &'static [(Self, &'static str, &'static str)];

        /// The value of this name.
        fn named(name: &str) -> Option<Self> {
            Self::CHOICES.iter().find(|(_, known, _)| *known == name).map(|(value, ..)| *value)
        }

        /// Its name; empty of a value without a row.
        fn name(self) -> &'static str {
            Self::CHOICES.iter().find(|(value, ..)| *value == self).map_or("", |(_, name, _)| name)
        }
    }
}

pub mod difference {
    //! [`Difference`]: one figure of two schemes that served the same packets.

    use serde::{Deserialize, Serialize};

    use crate::outcome::Figure;

    /// A figure under two schemes and what lies between them.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Difference {
        /// The figure's name in the JSON outcome, such as `throughput_pps` or `latency_s.p99`.
        pub figure: String,
        /// Under the first scheme, in the figure's unit.
        pub first: Figure,
        /// Under the second.
        pub second: Figure,
        /// Second minus first, with the paired-t interval.
        pub difference: Figure,
        /// Variance of the difference had the two been simulated apart, over its variance with the same packets; None if the
        /// latter is 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub variance_reduction: Option<f64>,
    }

    impl Difference {
        /// True if the interval leaves 0 out.
        pub fn is_significant(&self) -> bool {
            self.difference.interval.is_some_and(|ends| ends.low > 0.0 || ends.high < 0.0)
        }
    }
}

pub mod error {
    //! What is wrong with an input, said so that it can be mended.

    /// A text that could not be read as a quantity, scheme, traffic or key.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("{what}: cannot read \"{value}\": {accepted}")]
    pub struct ParseError {
        /// What was being read, for instance `time` or `--scheme`.
        pub what: String,
        /// The offending text, whole.
        pub value: String,
        /// The accepted form, as a clause: `expected a time such as "20us"`.
        pub accepted: String,
    }

    impl ParseError {
        /// An error for `value`, read as `what`, with the `accepted` form.
        pub fn new(what: impl Into<String>, value: impl Into<String>, accepted: impl Into<String>) -> Self {
            Self { what: what.into(), value: value.into(), accepted: accepted.into() }
        }

        /// The same error with `what` put in front, for a caller that knows the key.
        #[must_use]
        pub fn within(mut self, what: &str) -> Self {
            self.what = what.to_owned();
            self
        }
    }

    /// A value that was read but cannot be: out of its range or at odds with another.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("{parameter} = {value}: {range}")]
    pub struct Invalid {
        /// The parameter's name as the user writes it.
        pub parameter: String,
        /// Its value, printed with its unit.
        pub value: String,
        /// The accepted range, as a clause: `must be at least 1`.
        pub range: String,
    }

    impl Invalid {
        /// An error for `parameter` with `value`, outside `range`.
        pub fn new(parameter: impl Into<String>, value: impl ToString, range: impl Into<String>) -> Self {
            Self { parameter: parameter.into(), value: value.to_string(), range: range.into() }
        }
    }
}
