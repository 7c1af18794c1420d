//! The messages between the two ends, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::Token;
use netcliff_packets::error::Refusal;

/// The identity and the capabilities of one end, sent first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// The kinds of test that this end can run.
    pub can: Vec<String>,
    /// Names of further features. An end requests only features that the other end names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Monotonic clock of this end. `None` if the kernel does not report its identity.
    pub clock: Option<ClockId>,
}

/// Identifies a `CLOCK_MONOTONIC`: two ends with equal values can compare their times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockId {
    /// The kernel's boot id.
    pub boot: String,
    /// The time namespace, which can shift the clock.
    pub time_namespace: String,
}

impl ClockId {
    /// The clock of this process. `None` if procfs does not report it.
    pub fn of_this_process() -> Option<Self> {
        let time_namespace = std::fs::read_link("/proc/self/ns/time").ok()?.to_string_lossy().into_owned();
        Some(Self { boot: netcliff_host::process::boot_id()?, time_namespace })
    }
}

/// A message from the client to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// The client's identity; the first message.
    Hello(Hello),
    /// Start a test.
    Start {
        /// Name of the kind of test.
        kind: String,
        /// Settings of the test, in the test's own form.
        settings: Value,
    },
    /// Request the counts of the running test.
    Report,
    /// Information that the running test waits for from its client, in the test's own form. The agent sends no answer.
    Tell(Value),
    /// End the test and request its last report.
    Stop,
    /// Request something from a service of the agent's host, between tests.
    Ask {
        /// Name of the service.
        service: String,
        /// The request, in the service's own form.
        request: Value,
    },
    /// Heartbeat.
    Alive,
}

/// A message from the agent to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The agent's identity; the first message.
    Hello(Hello),
    /// The test waits for its data connections.
    Ready(Ready),
    /// What the test has counted so far, in the test's own form.
    Report(Value),
    /// The test has ended.
    Final(Final),
    /// The answer of a service, in the service's own form.
    Answer(Value),
    /// The request is refused, or the test failed.
    Error(Refusal),
    /// Heartbeat.
    Alive,
}

/// Where and how a test accepts its data connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Ports, in the order of the test's flows, or one port for all.
    pub ports: Vec<u16>,
    /// Token that each data connection must prove first.
    pub token: Token,
    /// Further information from the test, in the test's own form.
    pub info: Value,
}

/// The end of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Final {
    /// What the test counted.
    pub report: Value,
    /// Why the test ended before the client stopped it. `None` if it did not.
    pub partial: Option<String>,
}

impl ToAgent {
    /// Name of the message, for error messages.
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
    /// Name of the message, for error messages.
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
