//! Several agents at once: the share of each, fairness of the shares, and synchronised bursts (incast).

use serde::{Deserialize, Serialize};

use super::Spread;

/// Results of all agents of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManyRow {
    /// Results of each agent, in the order in which they were named.
    pub agents: Vec<AgentRow>,
    /// Sum of all goodputs (bit/s), by the method's clock.
    pub sum_bps: Option<Spread>,
    /// Jain's fairness index ([`jain`]) of the agents' mean goodputs; 1 if all are equal.
    pub jain: Option<f64>,
    /// Time from the start of the first agent to the start of the last (s), over the repeats.
    pub start_skew_s: Option<Spread>,
    /// Uncertainty of the agents' clocks, and so of `start_skew_s` (s): half a round trip of the control channel; 0 on
    /// one host.
    pub clock_error_s: f64,
    /// Synchronised bursts; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<IncastRow>,
}

/// Results of one agent; counts include all repeats and the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRow {
    /// The agent, as the user named it.
    pub agent: String,
    /// Goodput of its flows (bit/s), by the method's clock.
    pub goodput_bps: Option<Spread>,
    /// Bytes that the senders of its flows passed to the kernel.
    pub sent_bytes: u64,
    /// Bytes that the receivers of its flows read.
    pub received_bytes: u64,
    /// Segments that the agent's flows retransmitted; absent for other transports than TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Datagrams that were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Datagrams that were sent but not received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Time from the start of the first agent to the start of this one (s), median over the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_after_s: Option<f64>,
}

/// Synchronised bursts, without bursts that began in the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncastRow {
    /// Bytes that each flow sends per burst.
    pub burst_bytes: u64,
    /// Time from the start of a burst to the start of the next (s).
    pub every_s: f64,
    /// Number of flows that send simultaneously.
    pub flows: u32,
    /// Number of bursts that arrived completely.
    pub whole: u64,
    /// Number of bursts that took longer than the time to the next.
    pub overran: u64,
    /// Time from the common start of a burst until its last byte was read (s): median, minimum, maximum.
    pub until_last_byte_s: Option<Spread>,
    /// 99th percentile of that time (s).
    pub p99_s: Option<f64>,
}

/// Jain's fairness index (Jain, Chiu and Hawe 1984, DEC-TR-301, equation 1): (sum of x)^2 / (n * sum of x^2). 1 if all
/// values are equal, 1/n if one has everything. None without values, or if all are 0.
pub fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_of_equal_shares_and_one_nth_of_one_share() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[1.0, 2.0]), Some(0.9));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }
}
