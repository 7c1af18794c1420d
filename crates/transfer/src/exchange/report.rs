//! The results of a request/response test.

use netcliff_host::cpu::CpuSplit;
use netcliff_host::cpu::system::SystemShares;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::bulk::hardware::Hardware;
use netcliff_packets::latency::{Latency, LatencyRecord};
use netcliff_remote::far_meter::FarCpu;

/// Totals of the far end since its start. The near end computes differences over its own window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerCount {
    /// Time since the start (s), by the far end's clock.
    pub at_s: f64,
    /// Number of responses sent.
    pub responses: u64,
    /// CPU time of the far end's threads (s), without interrupts and softirqs served on other CPUs.
    pub threads_s: f64,
    /// Busy time of all CPUs of the far host (s), by procfs. `None` if the far host does not report this time.
    pub host_busy_s: Option<f64>,
    /// CPU use of the far host since the last count, one entry per CPU, by procfs. `None` if the far host does not
    /// report this use (older agents).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Vec<SystemShares>>,
    /// CPU use of the far host since the last count, by eBPF; absent if it was not requested. A count is made when the
    /// near end's window opens, so this covers that window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<FarCpu>,
    /// Cycles and instructions of the far end's threads. Absent if the CPU has no counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// Number of connections and datagrams refused because they did not prove the token.
    pub refused: u64,
}

/// CPU time of one end's threads in the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCost {
    /// Share of one CPU, all threads together.
    pub cpus: f64,
    /// CPU time per transaction (us).
    pub us_per_transaction: f64,
    /// CPU cycles per transaction, by these threads' hardware counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_transaction: Option<f64>,
    /// Instructions per transaction, by these threads' hardware counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_transaction: Option<f64>,
}

/// CPU time of a whole host in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCost {
    /// Method of measurement, such as `procfs`.
    pub method: String,
    /// Sum of the busy shares of all CPUs.
    pub busy_cpus: f64,
    /// Service demand: busy time of all CPUs per transaction (us), with the work of other programs.
    pub us_per_transaction: f64,
    /// CPU use, one entry per CPU; empty if the method does not report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<CpuSplit>,
}

/// CPU cost of the test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Cost of the near end's threads (getrusage). `None` without transactions.
    pub client_threads: Option<ThreadCost>,
    /// Cost of the far end's threads (their CPU clocks). `None` without transactions, or without counts of the far end.
    pub server_threads: Option<ThreadCost>,
    /// Cost of the near end's host. `None` without transactions, or if the host's CPU use was not measured.
    pub client_host: Option<HostCost>,
    /// Cost of the near end's host by the kernel's ticks; absent if `client_host` already is by ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ticks: Option<HostCost>,
    /// Cost of the far end's host by the kernel's ticks. `None` if both ends run on the same host, or if the far host
    /// does not report its CPU use.
    pub server_host: Option<HostCost>,
    /// Cost of the far end's host by eBPF; absent if both ends run on the same host, or if eBPF was not requested or
    /// not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_exact: Option<HostCost>,
}

/// CPU use of the hosts over the window by CPU, by the kernel's ticks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostTicks {
    /// CPUs of the near end's host.
    pub near: Vec<SystemShares>,
    /// CPUs of the far end's host. Empty if the far end runs on this host, or its host does not report them.
    pub far: Vec<SystemShares>,
}

/// One-way delays of requests and responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OneWay {
    /// Delays from send call to receive call; both ends have the same clock.
    Delays {
        /// Delays from the near end to the far end.
        forth: LatencyRecord,
        /// Delays from the far end to the near end.
        back: LatencyRecord,
    },
    /// The delays are not available, with the reason.
    NotAvailable(String),
}

/// The results of one of several agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentShare {
    /// Name of the agent, as the user gave it.
    pub agent: String,
    /// Number of the agent's transactions that count (see [`Report::transactions`]).
    pub transactions: u64,
    /// Transactions per second (1/s).
    pub rate_per_s: f64,
    /// Number of requests without an answer.
    pub timeouts: u64,
    /// Latency of the agent's transactions; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRecord>,
    /// Time from the first request of all agents to the first request of this agent (s); absent if this time is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_after_s: Option<f64>,
}

/// Results of several agents that were tested together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Together {
    /// The agents, in the order in which the user named them.
    pub agents: Vec<AgentShare>,
    /// Jain's fairness index of the agents' rates. `None` if all rates are 0.
    pub jain: Option<f64>,
    /// Time from the first agent's first request to the last agent's first request (s), the longest of the repeats.
    /// `None` if this time is not known for an agent.
    pub start_skew_s: Option<f64>,
}

/// The result of a request/response test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Settings of the test.
    pub settings: Settings,
    /// Description of the path between the two ends.
    pub path: String,
    /// Length of the window (s).
    pub window_s: f64,
    /// Number of transactions that count: answered in the window (closed loop), or due in the window and answered (open
    /// loop).
    pub transactions: u64,
    /// Transactions per second (1/s).
    pub rate_per_s: f64,
    /// Rates of the flows (1/s), in the order of the flows.
    pub flow_rates_per_s: Vec<f64>,
    /// Latency from the request (open loop: from its due time) to the complete response. `None` without transactions.
    pub latency: Option<LatencyRecord>,
    /// How late requests left (open loop): the near end's own part of the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatencyRecord>,
    /// One-way delays of requests and responses.
    pub one_way: OneWay,
    /// Number of requests without an answer in time. They are in no histogram.
    pub timeouts: u64,
    /// Number of requests that were due in the window and never left (open loop), because too many were under way or
    /// the socket was full. They are in no histogram.
    #[serde(default)]
    pub unsent: u64,
    /// Number of answers that came after their request was given up.
    pub late_answers: u64,
    /// CPU cost.
    pub cost: Cost,
    /// CPU use by CPU. Filled for a single test only; a summary of several tests has its own.
    #[serde(skip)]
    pub ticks: HostTicks,
    /// Number of connections and datagrams that the far end refused because they did not prove the token.
    pub refused: u64,
    /// Time at which the first request left (ns of this host's monotonic clock).
    #[serde(skip)]
    pub began_ns: Option<u64>,
    /// Results by agent. `None` with a single agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Why the test ended early. `None` if it is complete.
    pub partial: Option<String>,
    /// Remarks for the reader; complete sentences.
    pub notes: Vec<String>,
}

impl Report {
    /// Number of requests that were due: transactions, requests without an answer, and requests that never left.
    pub fn asked(&self) -> u64 {
        self.transactions + self.timeouts + self.unsent
    }
}

/// Converts a histogram for the report. `None` without samples.
pub(super) fn recorded(latency: &Latency) -> Option<LatencyRecord> {
    LatencyRecord::of(latency)
}
