//! [`Engine`]: the one trait that joins model, simulation and wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::host::{Host, PauseTimes};
use crate::outcome::{Outcome, Unsound};
use crate::queues::Flows;
use crate::scheme::Scheme;
use crate::traffic::Traffic;

/// One question: this host, this scheme, this traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Costs and sizes.
    pub host: Host,
    /// How packets reach the CPU.
    pub scheme: Scheme,
    /// What is offered.
    pub traffic: Traffic,
}

impl Point {
    /// The same with this offered load.
    pub fn at_pps(&self, pps: f64) -> Self {
        Self { traffic: self.traffic.at_pps(pps), ..self.clone() }
    }

    /// The SHA-256 digests of the files that were read for this point, by what they were read for: a capture's packets, its
    /// flows, measured times, lengths of pauses. (Frame sizes are part of the point itself.)
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

    /// Checks every part and the parts against each other.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.host.validate()?;
        self.scheme.validate(&self.host)?;
        self.traffic.validate()
    }
}

/// Which world answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Predicted by the model.
    Model,
    /// In simulation.
    Sim,
    /// Real packets through the real kernel.
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

/// How faithful the mathematics of the model is to the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Fidelity {
    /// The papers' own approximations as they are printed, misprints included (docs/theory/misprints.md).
    Printed,
    /// The papers' own approximations, corrected where docs/theory/misprints.md says so.
    Paper,
    /// A chain that is exact for its stated assumptions.
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

/// Why an engine does not answer a point: the assumption or part it lacks, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{engine} does not support this point: {reason}")]
pub struct Unsupported {
    /// Who declines.
    pub engine: EngineKind,
    /// What is lacking, as a sentence.
    pub reason: String,
}

impl Unsupported {
    /// `engine` declines for `reason`.
    pub fn new(engine: EngineKind, reason: impl Into<String>) -> Self {
        Self { engine, reason: reason.into() }
    }
}

/// Why a point has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum EngineFailure {
    /// The point cannot be: a parameter is out of range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The engine does not do this.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The run was stopped before it had an outcome.
    #[error("stopped before this point was finished")]
    Interrupted,
    /// The engine found a figure that cannot be: a defect of netcliff, not of the question.
    #[error("{engine} found {unsound}: this is a defect of netcliff, please report it with the command")]
    Unsound {
        /// Who found it.
        engine: EngineKind,
        /// The figure.
        unsound: Unsound,
    },
    /// The attempt failed (a measurement, mostly).
    #[error("{0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// Turns points into outcomes. Seed, precision and fidelity belong to the engine, not to the point.
pub trait Engine {
    /// Which world this is.
    fn kind(&self) -> EngineKind;
    /// Whether the point can be answered; if not, a reason a user can act on.
    fn supports(&self, point: &Point) -> Result<(), Unsupported>;
    /// What the engine finds at the point, as yet unchecked; everybody but an engine asks [`Engine::evaluate`].
    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure>;
    /// An engine of the same world that answers nearly the same in less time, for the steps of a search; its last steps, and what it returns, are this
    /// engine's. `None` if no engine guides for this host.
    fn guide(&self, _host: &Host) -> Option<&dyn Engine> {
        None
    }
    /// Answers the point. Not for engines to implement: the one door through which outcomes leave, where a figure that cannot
    /// be (not a number, infinite, out of its range) becomes an error with its name.
    fn evaluate(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        let outcome = self.answer(point)?;
        match outcome.check() {
            Ok(()) => Ok(outcome),
            Err(unsound) => Err(EngineFailure::Unsound { engine: self.kind(), unsound }),
        }
    }
}
