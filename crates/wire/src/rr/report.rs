//! What a request/response test measured.

use netcliff_host::cpu::CpuSplit;
use netcliff_host::cpu::system::SystemShares;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::far_meter::FarCpu;
use crate::latency::{Latency, LatencyRecord};
use crate::transfer::hardware::Hardware;

/// Totals of the far end since its start; the near end takes differences over its window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerCount {
    /// Time since the start (s), by the far end's clock.
    pub at_s: f64,
    /// Responses sent.
    pub responses: u64,
    /// CPU time of the far end's threads (s), without interrupts and softirqs served elsewhere.
    pub threads_s: f64,
    /// Busy time of all CPUs of its host (s), by procfs; `None`: it does not say.
    pub host_busy_s: Option<f64>,
    /// Each CPU of its host since the last count, by procfs; `None`: it does not say, as older agents do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Vec<SystemShares>>,
    /// What the exact meter of its host saw since the last count, where it was asked for: the near end's window, where a count
    /// was made as it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<FarCpu>,
    /// Cycles and instructions of the far end's threads; absent where the CPU has no counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// Connections and datagrams that did not show the token.
    pub refused: u64,
}

/// CPU time of one end's threads in the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCost {
    /// Share of one CPU, all threads together.
    pub cpus: f64,
    /// CPU time a transaction (us).
    pub us_per_transaction: f64,
    /// CPU cycles a transaction, by the CPU's own counters of these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_transaction: Option<f64>,
    /// Instructions a transaction, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_transaction: Option<f64>,
}

/// CPU time of a whole host in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostCost {
    /// How it was measured.
    pub method: String,
    /// CPUs busy, summed over all.
    pub busy_cpus: f64,
    /// Service demand: busy time of all CPUs a transaction (us); other programs' work is in it.
    pub us_per_transaction: f64,
    /// By CPU, where the method tells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split: Vec<CpuSplit>,
}

/// What CPU time the test took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// The near end's threads (getrusage).
    pub client_threads: Option<ThreadCost>,
    /// The far end's threads (their CPU clocks).
    pub server_threads: Option<ThreadCost>,
    /// The near end's host.
    pub client_host: Option<HostCost>,
    /// The near end's host by the kernel's ticks, where `client_host` is by another method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ticks: Option<HostCost>,
    /// The far end's host, where it is another, by the kernel's ticks.
    pub server_host: Option<HostCost>,
    /// The same by eBPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_exact: Option<HostCost>,
}

/// Each CPU of the hosts over the window, by the kernel's ticks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostTicks {
    /// The near end's host.
    pub near: Vec<SystemShares>,
    /// The far end's, if it is another host and reports them.
    pub far: Vec<SystemShares>,
}

/// One-way delays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OneWay {
    /// From send to receive call, both ends on one clock.
    Delays {
        /// From the near to the far end.
        forth: LatencyRecord,
        /// From the far to the near end.
        back: LatencyRecord,
    },
    /// Not available, and why.
    NotAvailable(String),
}

/// One of several agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentShare {
    /// As it was named.
    pub agent: String,
    /// Transactions that count.
    pub transactions: u64,
    /// Of these a second (1/s).
    pub rate_per_s: f64,
    /// Requests without an answer.
    pub timeouts: u64,
    /// Latency; absent without a transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRecord>,
    /// When its first request left after the first of all (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_after_s: Option<f64>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Together {
    /// In the order in which they were named.
    pub agents: Vec<AgentShare>,
    /// Jain's fairness index of their rates.
    pub jain: Option<f64>,
    /// From the first agent's first request to the last agent's (s); the greatest of the repeats.
    pub start_skew_s: Option<f64>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// What was done.
    pub settings: Settings,
    /// Between which ends.
    pub path: String,
    /// Length of the window (s).
    pub window_s: f64,
    /// Transactions that count: answered in the window (closed loop) or due in it and answered (open loop).
    pub transactions: u64,
    /// Of these a second (1/s).
    pub rate_per_s: f64,
    /// Rates of the flows (1/s), in their order.
    pub flow_rates_per_s: Vec<f64>,
    /// From the request (open loop: from when it was due) to the whole response; `None` without a transaction.
    pub latency: Option<LatencyRecord>,
    /// How late requests left (open loop): what of the latency is the near end's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatencyRecord>,
    /// One-way delays.
    pub one_way: OneWay,
    /// Requests without an answer in time, or at all; they are in no histogram.
    pub timeouts: u64,
    /// Requests that were due in the window and never left (open loop): too many were under way, or the socket was full. They are in no
    /// histogram.
    #[serde(default)]
    pub unsent: u64,
    /// Answers that came after their request was given up.
    pub late_answers: u64,
    /// CPU time.
    pub cost: Cost,
    /// Of one test only; of several, what sums them up says it.
    #[serde(skip)]
    pub ticks: HostTicks,
    /// Connections and datagrams the far end refused for want of the token.
    pub refused: u64,
    /// When the first request left (ns of this host's monotonic clock).
    #[serde(skip)]
    pub began_ns: Option<u64>,
    /// Each of several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Why it is not the whole test.
    pub partial: Option<String>,
    /// What a reader must know; complete sentences.
    pub notes: Vec<String>,
}

impl Report {
    /// Requests that were due: transactions, requests without an answer, requests that never left.
    pub fn asked(&self) -> u64 {
        self.transactions + self.timeouts + self.unsent
    }
}

/// A histogram for the report; `None` without samples.
pub(super) fn recorded(latency: &Latency) -> Option<LatencyRecord> {
    LatencyRecord::of(latency)
}
