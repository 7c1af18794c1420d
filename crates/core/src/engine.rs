//! [`Engine`]: the trait that model, simulation and measurement implement.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::host::{Host, PauseTimes};
use crate::outcome::{Outcome, Unsound};
use crate::queues::Flows;
use crate::scheme::Scheme;
use crate::traffic::{Load, Traffic};
use crate::written;

/// Input of an engine: host, scheme, traffic and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "written::Point", into = "written::Point")]
pub struct Point {
    /// Costs and sizes.
    pub host: Host,
    /// How packets reach the CPU.
    pub scheme: Scheme,
    /// Offered traffic.
    pub traffic: Traffic,
    /// Offered load. In JSON it is a key of the traffic.
    #[serde(skip)]
    pub load: Load,
}

impl From<written::Point> for Point {
    fn from(written: written::Point) -> Self {
        let written::Point { host, scheme, traffic } = written;
        Self { host, scheme, load: traffic.rate, traffic: traffic.shape() }
    }
}

impl From<Point> for written::Point {
    fn from(point: Point) -> Self {
        let Point { host, scheme, traffic, load } = point;
        Self { host, scheme, traffic: written::Traffic::new(traffic, Some(load)) }
    }
}

impl Point {
    /// Makes a point from host, scheme and traffic, at an offered load of `pps`.
    pub fn of(host: &Host, scheme: &Scheme, traffic: &Traffic, pps: f64) -> Self {
        Self { host: host.clone(), scheme: scheme.clone(), traffic: traffic.clone(), load: Load::Pps(pps) }
    }

    /// Makes a point with Poisson arrivals of 64-byte frames at `pps` over 1 Gbit/s.
    pub fn poisson(host: Host, scheme: Scheme, pps: f64) -> Self {
        Self { host, scheme, traffic: Traffic::default(), load: Load::Pps(pps) }
    }

    /// Returns the same host, scheme and traffic at another offered load (pps).
    pub fn at_pps(&self, pps: f64) -> Self {
        Self { load: Load::Pps(pps), ..self.clone() }
    }

    /// lambda: offered packets per second; `None` if the traffic's file of frame sizes has not been read.
    pub fn rate_pps(&self) -> Option<f64> {
        self.traffic.rate_pps(self.load)
    }

    /// SHA-256 digests of the files read for this point, by their use: packets of a capture, its flows, measured times,
    /// lengths of pauses. (Frame sizes are part of the point itself.)
    pub fn digests(&self) -> BTreeMap<String, String> {
        let flows = self.traffic.flows.as_ref().and_then(Flows::capture);
        let pauses = self.host.pause_times.as_ref().and_then(PauseTimes::measured);
        let found = [
            ("arrivals_sha256", self.traffic.arrivals.capture().and_then(|capture| capture.sha256.as_ref())),
            ("flows_sha256", flows.and_then(|capture| capture.sha256.as_ref())),
            ("service_sha256", self.host.service.measured().and_then(|times| times.sha256.as_ref())),
            ("pause_times_sha256", pauses.and_then(|times| times.sha256.as_ref())),
        ];
        found.into_iter().filter_map(|(name, digest)| Some((name.to_owned(), digest?.clone()))).collect()
    }

    /// Checks host, scheme, traffic and load, each alone and together.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate(&self.host, &self.scheme, &self.traffic)?;
        self.traffic.validate_load(self.load)
    }
}

/// Checks host, scheme and traffic of a point, each alone and together, but not its load.
pub fn validate(host: &Host, scheme: &Scheme, traffic: &Traffic) -> Result<(), Invalid> {
    host.validate()?;
    scheme.validate(host)?;
    traffic.validate()
}

/// The kinds of engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Predicted by the model.
    Model,
    /// Simulated.
    Sim,
    /// Measured: real packets through the real kernel.
    Wire,
}

impl EngineKind {
    /// The name in files, records and plots.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Sim => "sim",
            Self::Wire => "wire",
        }
    }
}

impl std::fmt::Display for EngineKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl std::str::FromStr for EngineKind {
    type Err = crate::error::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "model" => Ok(Self::Model),
            "sim" => Ok(Self::Sim),
            "wire" => Ok(Self::Wire),
            _ => Err(crate::error::ParseError::new("engine", text, "expected model, sim or wire")),
        }
    }
}

/// Which of the model's approximations are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Fidelity {
    /// The papers' own approximations as they are printed, misprints included (docs/theory/misprints.md).
    Printed,
    /// The papers' own approximations, corrected where docs/theory/misprints.md says so.
    Paper,
    /// A Markov chain that is exact under its stated assumptions.
    #[default]
    Exact,
}

impl std::fmt::Display for Fidelity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Printed => "printed",
            Self::Paper => "paper",
            Self::Exact => "exact",
        })
    }
}

impl std::str::FromStr for Fidelity {
    type Err = crate::error::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "printed" => Ok(Self::Printed),
            "paper" => Ok(Self::Paper),
            "exact" => Ok(Self::Exact),
            _ => Err(crate::error::ParseError::new("fidelity", text, "expected exact, paper or printed")),
        }
    }
}

crate::units::serde_as_text!(Fidelity);

/// Why an engine has no outcome for a point: the property of the point that it does not support, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{engine} does not support this point: {reason}")]
pub struct Unsupported {
    /// The engine.
    pub engine: EngineKind,
    /// The property of the point that the engine does not support, and a remedy, one sentence.
    pub reason: String,
}

impl Unsupported {
    /// Makes the error of `engine` for a point that it does not support, with the `reason`.
    pub fn new(engine: EngineKind, reason: impl Into<String>) -> Self {
        Self { engine, reason: reason.into() }
    }
}

/// Why a point has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum EngineFailure {
    /// A parameter of the point is out of range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The engine does not support the point.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The run was stopped before it had an outcome.
    #[error("stopped before this point was finished")]
    Interrupted,
    /// The engine computed an impossible figure: a defect of netcliff, not of the input.
    #[error("{engine} found {unsound}: this is a defect of netcliff, please report it with the command")]
    Unsound {
        /// The engine.
        engine: EngineKind,
        /// The impossible figure.
        unsound: Unsound,
    },
    /// The computation or measurement failed.
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// Computes or measures the outcome of a point. Seed, precision and fidelity are settings of the engine, not of the
/// point.
pub trait Engine {
    /// The kind of this engine.
    fn kind(&self) -> EngineKind;
    /// Whether the engine supports the point; if not, a reason that a user can act on.
    fn supports(&self, point: &Point) -> Result<(), Unsupported>;
    /// The engine's outcome at the point, unchecked. Only engines implement it; all callers use [`Engine::evaluate`].
    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure>;
    /// An engine of the same kind with nearly the same answers in less time. A search uses it for its first steps; its
    /// last steps, and its result, come from this engine. `None` if there is no faster engine for this host.
    fn guide(&self, _host: &Host) -> Option<&dyn Engine> {
        None
    }
    /// The checked outcome of the point: a figure that is not a number, infinite or out of its range becomes an error
    /// that names it. Engines do not override this method.
    fn evaluate(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        let outcome = self.answer(point)?;
        match outcome.check() {
            Ok(()) => Ok(outcome),
            Err(unsound) => Err(EngineFailure::Unsound { engine: self.kind(), unsound }),
        }
    }
}
