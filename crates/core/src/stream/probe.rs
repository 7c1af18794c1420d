//! Latency under load: requests beside a transfer, before, during and after it, and the queue that grew.

use serde::{Deserialize, Serialize};

/// Requests beside a transfer, in all its repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRow {
    /// What carried them: `udp` or `tcp`, by a flow of their own.
    pub transport: String,
    /// Gap between two requests (s).
    pub every_s: f64,
    /// Time before and after each transfer (s).
    pub around_s: f64,
    /// Before the transfer.
    pub idle: ProbePhase,
    /// While the transfer was measured: its warm-up is left out.
    pub loaded: ProbePhase,
    /// After its windows.
    pub recovering: ProbePhase,
    /// Median while loaded less that of idle (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_p50_s: Option<f64>,
    /// The same of the 99th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_p99_s: Option<f64>,
    /// Median of the way to the far end while loaded less that of idle (s); absent without a common clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_forth_s: Option<f64>,
    /// The same from the far end to here (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_back_s: Option<f64>,
    /// The queues that can be seen from here.
    pub queues: Vec<ProbeQueue>,
    /// The queue that grew, a sentence.
    pub grew: String,
    /// Latency over time, all repeats together.
    pub over_time: Vec<ProbePoint>,
    /// Why it ended early in a repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Requests of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbePhase {
    /// Sent.
    pub sent: u64,
    /// Answered; others are in no figure below.
    pub answered: u64,
    /// Least round trip (s).
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
    /// Greatest (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// [`round_trips_per_minute`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_per_minute: Option<f64>,
    /// Mean time that a request left after it was due (s): the asking thread waited for a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_mean_s: Option<f64>,
}

/// A queue beside the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeQueue {
    /// Which.
    pub name: String,
    /// Unit of the lengths: `bytes` or `packets`.
    pub unit: String,
    /// True where all flows of the host wait in it, the requests too; else it is the transfer's own.
    pub shared: bool,
    /// Mean length before the transfer.
    pub idle: f64,
    /// While it was measured.
    pub loaded: f64,
    /// After it.
    pub recovering: f64,
    /// The greatest while loaded.
    pub max: f64,
}

/// Requests that were sent in a short time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbePoint {
    /// Middle of that time, since the windows opened (s).
    pub at_s: f64,
    /// Median round trip (s); absent where none was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// Greatest (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// Sent.
    pub sent: u64,
    /// Not answered.
    pub lost: u64,
}

/// A share of the round trips that [`round_trips_per_minute`] leaves out: the slowest.
const TRIMMED: f64 = 0.05;

impl ProbePhase {
    /// From the round trips that were answered, and the times by which requests left late (s).
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

    /// Requests that were not answered.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}

/// Value at or below which the share `q` of the sorted values lies (nearest rank); None of none.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Round trips a minute: 60 s over the trimmed mean of the round trips (draft-ietf-ippm-responsiveness, section 4.3: the mean of those at or
/// below the 95th percentile), sorted. Of the draft's times it has that of a request on a connection that exists (its http_f); handshakes
/// of TCP and TLS, and requests on the loaded connections themselves, are not in it. None without an answer.
pub fn round_trips_per_minute(sorted_s: &[f64]) -> Option<f64> {
    let kept = ((1.0 - TRIMMED) * sorted_s.len() as f64).ceil() as usize;
    let kept = &sorted_s[..kept.min(sorted_s.len())];
    let sum_s: f64 = kept.iter().sum();
    (sum_s > 0.0).then(|| 60.0 * kept.len() as f64 / sum_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty trips of 10 ms, one of which took a second: it is trimmed, and 6000 are left a minute.
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
