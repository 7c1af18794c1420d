//! Latency under load: requests before, during and after a transfer, and the queue that grew.

use serde::{Deserialize, Serialize};

/// Requests during a transfer, over all its repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRow {
    /// Transport of the requests, `udp` or `tcp`; the requests have a separate flow.
    pub transport: String,
    /// Time between two requests (s).
    pub every_s: f64,
    /// Time with requests only, before and after each transfer (s).
    pub around_s: f64,
    /// Requests before the transfer.
    pub idle: ProbePhase,
    /// Requests while the transfer was measured, without its warm-up.
    pub loaded: ProbePhase,
    /// Requests after the transfer.
    pub recovering: ProbePhase,
    /// Median round trip under load minus the idle median (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_p50_s: Option<f64>,
    /// 99th percentile of the round trip under load minus that percentile without load (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_p99_s: Option<f64>,
    /// Median one-way time to the far end under load minus the idle one (s); absent without a common clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_forth_s: Option<f64>,
    /// Median one-way time from the far end under load minus the idle one (s); absent without a common clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_back_s: Option<f64>,
    /// Queues whose length can be observed on this host.
    pub queues: Vec<ProbeQueue>,
    /// Which queue grew, one sentence.
    pub grew: String,
    /// Latency over time, for all repeats together.
    pub over_time: Vec<ProbePoint>,
    /// Why the requests ended early in a repeat; absent: they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Requests of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbePhase {
    /// Number of requests sent.
    pub sent: u64,
    /// Number of requests answered; the other figures count only these.
    pub answered: u64,
    /// Shortest round trip (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_s: Option<f64>,
    /// Mean (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_s: Option<f64>,
    /// Median (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// 90th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_s: Option<f64>,
    /// 99th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Longest (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// Round trips per minute ([`round_trips_per_minute`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_per_minute: Option<f64>,
    /// Mean delay between the due time of a request and its sending (s): the requesting thread waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_mean_s: Option<f64>,
}

/// Length of a queue before, during and after a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeQueue {
    /// Name of the queue.
    pub name: String,
    /// Unit of the lengths: `bytes` or `packets`.
    pub unit: String,
    /// True: all flows of the host share it, requests included. False: it belongs to the transfer.
    pub shared: bool,
    /// Mean length before the transfer.
    pub idle: f64,
    /// Mean length while the transfer was measured.
    pub loaded: f64,
    /// Mean length after the transfer.
    pub recovering: f64,
    /// Longest while the transfer was measured.
    pub max: f64,
}

/// Requests that were sent within a short time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbePoint {
    /// Middle of the time in which the requests were sent, since the start of the measured window (s).
    pub at_s: f64,
    /// Median round trip (s); absent if no request was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// Longest round trip (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of requests without an answer.
    pub lost: u64,
}

/// Share of the slowest round trips, which [`round_trips_per_minute`] leaves out.
const TRIMMED: f64 = 0.05;

impl ProbePhase {
    /// Statistics of the answered round trips and of the delays of sending (s).
    pub fn of(sent: u64, mut took_s: Vec<f64>, late_s: &[f64]) -> Self {
        took_s.sort_by(f64::total_cmp);
        let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        Self {
            sent,
            answered: took_s.len() as u64,
            min_s: took_s.first().copied(),
            mean_s: mean(&took_s),
            p50_s: quantile(&took_s, 0.5),
            p90_s: quantile(&took_s, 0.9),
            p99_s: quantile(&took_s, 0.99),
            max_s: took_s.last().copied(),
            round_trips_per_minute: round_trips_per_minute(&took_s),
            late_mean_s: mean(late_s),
        }
    }

    /// Number of requests without an answer.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}

/// Quantile `q` (0 to 1) of sorted values, by nearest rank; None without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Round trips per minute: 60 s divided by the mean of the sorted round trips at or below the 95th percentile
/// (draft-ietf-ippm-responsiveness, section 4.3). Of the draft's times it uses only http_f, of requests on an existing
/// connection; it leaves out TCP and TLS handshakes and requests on the loaded connections. `None` without an answer.
pub fn round_trips_per_minute(sorted_s: &[f64]) -> Option<f64> {
    let kept = ((1.0 - TRIMMED) * sorted_s.len() as f64).ceil() as usize;
    let kept = &sorted_s[..kept.min(sorted_s.len())];
    let sum_s: f64 = kept.iter().sum();
    (sum_s > 0.0).then(|| 60.0 * kept.len() as f64 / sum_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty round trips of 10 ms, except one of a second: that one is left out, and the others give 6000 per minute.
    #[test]
    fn round_trips_a_minute_leave_the_slowest_out() {
        let mut trips = vec![0.01; 19];
        trips.push(1.0);
        assert_eq!(round_trips_per_minute(&trips).map(f64::round), Some(6000.0));
        assert_eq!(round_trips_per_minute(&[]), None);
        assert_eq!(round_trips_per_minute(&[0.5]).map(f64::round), Some(120.0));
    }

    #[test]
    fn a_phase_is_what_was_answered() {
        let phase = ProbePhase::of(5, vec![0.004, 0.001, 0.002, 0.003], &[0.0, 1e-4]);
        assert_eq!((phase.sent, phase.answered, phase.lost()), (5, 4, 1));
        assert_eq!(
            (phase.min_s, phase.p50_s, phase.p99_s, phase.max_s),
            (Some(0.001), Some(0.002), Some(0.004), Some(0.004))
        );
        assert_eq!(phase.late_mean_s, Some(5e-5));
        assert_eq!(ProbePhase::of(3, Vec::new(), &[]), ProbePhase { sent: 3, ..ProbePhase::default() });
    }
}
