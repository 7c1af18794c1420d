//! Several agents at once: each one's share, how fair the shares are, and bursts that begin together (incast).

use serde::{Deserialize, Serialize};

use super::Spread;

/// All agents of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManyRow {
    /// Each by itself, in the order in which they were named.
    pub agents: Vec<AgentRow>,
    /// Goodput of all together (bit/s), by the method's clock.
    pub sum_bps: Option<Spread>,
    /// [`jain`] of their mean goodputs; 1 where all have the same.
    pub jain: Option<f64>,
    /// From the first agent's beginning to the last one's (s), of each repeat.
    pub start_skew_s: Option<Spread>,
    /// How well their clocks are known, and the skew with them (s): half a round trip of the control channel; 0 on one host.
    pub clock_error_s: f64,
    /// Bursts that begin together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<IncastRow>,
}

/// One agent; counts are of all repeats, warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRow {
    /// As it was named.
    pub agent: String,
    /// Goodput of its flows (bit/s), by the method's clock.
    pub goodput_bps: Option<Spread>,
    /// Bytes that the senders of its flows gave to the kernel.
    pub sent_bytes: u64,
    /// Bytes that the receivers of its flows read.
    pub received_bytes: u64,
    /// Segments that its flows retransmitted; absent where it is not TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Datagrams that were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    /// Datagrams that were sent and not received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// When it began after the first (s), median of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_after_s: Option<f64>,
}

/// Bursts, those that began in the warm-up left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IncastRow {
    /// Bytes that each flow sends at once.
    pub burst_bytes: u64,
    /// From one burst to the next (s).
    pub every_s: f64,
    /// Flows that send together.
    pub flows: u32,
    /// Bursts whose last byte came.
    pub whole: u64,
    /// Bursts that took longer than the time to the next.
    pub overran: u64,
    /// Time from the common beginning of a burst until its last byte was read (s): median, least, greatest.
    pub until_last_byte_s: Option<Spread>,
    /// Its 99th percentile (s).
    pub p99_s: Option<f64>,
}

/// Jain's fairness index (Jain, Chiu and Hawe 1984, DEC-TR-301, equation 1): the square of the sum over n times the sum of the squares;
/// 1 where all are equal, 1/n where one has all. None without values, or where all are 0.
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
