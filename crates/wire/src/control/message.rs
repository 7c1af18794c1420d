//! The messages between the two ends, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::Token;

/// Who an end is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// The kinds of test it can run.
    pub can: Vec<String>,
    /// What it knows beside that, by name: what another version does not name is not asked of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Its monotonic clock, where it can be told.
    pub clock: Option<ClockId>,
}

/// Names a `CLOCK_MONOTONIC`: two ends with the same one can compare their times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockId {
    /// The kernel's boot id.
    pub boot: String,
    /// The time namespace, which can shift the clock.
    pub time_namespace: String,
}

impl ClockId {
    /// The clock of this process; `None` if procfs does not report it.
    pub fn of_this_process() -> Option<Self> {
        let time_namespace = std::fs::read_link("/proc/self/ns/time").ok()?.to_string_lossy().into_owned();
        Some(Self { boot: netcliff_host::process::boot_id()?, time_namespace })
    }
}

/// From the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// First of all.
    Hello(Hello),
    /// Start a test.
    Start {
        /// Its name.
        kind: String,
        /// Its settings, in its own form.
        settings: Value,
    },
    /// How is it going?
    Report,
    /// What a running test waits for from its client, in its own form; it is not answered.
    Tell(Value),
    /// End the test; its last report is due.
    Stop,
    /// Ask a service of the agent's host, between tests.
    Ask {
        /// Its name.
        service: String,
        /// What is asked, in its own form.
        request: Value,
    },
    /// Still here.
    Alive,
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// First of all.
    Hello(Hello),
    /// The test waits for its data connections.
    Ready(Ready),
    /// What the test has counted so far, in its own form.
    Report(Value),
    /// The test has ended.
    Final(Final),
    /// What a service says, in its own form.
    Answer(Value),
    /// The request is refused, or the test failed; complete words.
    Error(String),
    /// Still here.
    Alive,
}

/// Where a test takes its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Ports, in the order of the test's flows or one for all.
    pub ports: Vec<u16>,
    /// What a data connection shows first.
    pub token: Token,
    /// What else the test tells, in its own form.
    pub info: Value,
}

/// The end of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// What it counted.
    pub report: Value,
    /// Why it ended before it was told to.
    pub partial: Option<String>,
}

impl ToAgent {
    /// Its name, for messages about it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Start { .. } => "start",
            Self::Report => "report",
            Self::Tell(_) => "tell",
            Self::Stop => "stop",
            Self::Ask { .. } => "ask",
            Self::Alive => "alive",
        }
    }
}

impl FromAgent {
    /// Its name, for messages about it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Ready(_) => "ready",
            Self::Report(_) => "report",
            Self::Final(_) => "final",
            Self::Answer(_) => "answer",
            Self::Error(_) => "error",
            Self::Alive => "alive",
        }
    }
}
