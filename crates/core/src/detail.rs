//! [`Detail`]: distributions of queue lengths, busy periods and latencies, and a time series, which a simulation can
//! give besides its figures. [`Difference`]: how one figure differs between two schemes that served the same packets.

use serde::{Deserialize, Serialize};

use crate::outcome::{CpuShares, Figure};

/// Distributions over the whole run after its warm-up, and a series of its first replication.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Detail {
    /// Packets in ring and protocol, by share of time. Numbers that never occurred are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ring: Vec<QueueShare>,
    /// Packets in the application's socket, by share of time. Numbers that never occurred are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub socket: Vec<QueueShare>,
    /// Times in which the CPU is busy without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_periods: Option<BusyPeriods>,
    /// Latencies of the delivered packets.
    #[serde(default, skip_serializing_if = "LatencyHistogram::is_empty")]
    pub latency_histogram_ns: LatencyHistogram,
    /// Time series of the first replication: slices from its start, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Slice>,
}

/// Share of time during which a number of packets is in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueShare {
    /// Number of packets, including the packet in service.
    pub packets: u64,
    /// Share of time (1).
    pub share: Figure,
}

/// Periods in which the CPU is never available: interrupt, poll, protocol and application follow each other without a
/// break.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyPeriods {
    /// Busy periods that end (1/s).
    pub per_s: Figure,
    /// Mean length (s); None if none ended: the CPU never rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_s: Option<Figure>,
    /// Median length (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<Figure>,
    /// 99th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<Figure>,
    /// Longest that ended (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<Figure>,
}

/// Counts and means of one slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// Start (s).
    pub from_s: f64,
    /// End (s).
    pub to_s: f64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets delivered: by protocol processing or, if there is an application, to the application.
    pub delivered: u64,
    /// Packets lost at the ring.
    pub dropped_ring: u64,
    /// Packets lost at the socket.
    pub dropped_socket: u64,
    /// Mean packets in ring and protocol.
    pub ring_mean: f64,
    /// Most packets in ring and protocol.
    pub ring_max: u64,
    /// Shares of the CPU's time.
    pub cpu: CpuShares,
}

/// Histogram of latencies: pairs (largest latency of the cell (ns), packets), by rising latency. The cells are the
/// cells of HdrHistogram at three significant digits. They are equal in all runs, so that histograms merge without
/// loss.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct LatencyHistogram(pub Vec<(u64, u64)>);

impl LatencyHistogram {
    /// True if the histogram has no packets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of packets in it.
    pub fn packets(&self) -> u64 {
        self.0.iter().map(|(_, packets)| packets).sum()
    }

    /// Adds the packets of another run.
    pub fn merge(&mut self, other: &Self) {
        let mut cells: std::collections::BTreeMap<u64, u64> = self.0.drain(..).collect();
        for (latency_ns, packets) in &other.0 {
            *cells.entry(*latency_ns).or_default() += packets;
        }
        self.0 = cells.into_iter().collect();
    }

    /// The latency (s) that a `share` (0 to 1) of the packets does not exceed, rounded up to its cell; None without
    /// packets.
    pub fn quantile_s(&self, share: f64) -> Option<f64> {
        let wanted = share * self.packets() as f64;
        let mut seen = 0;
        let cell = self.0.iter().find(|(_, packets)| {
            seen += packets;
            seen as f64 >= wanted
        });
        cell.or(self.0.last()).map(|(latency_ns, _)| *latency_ns as f64 * 1e-9)
    }
}

/// A figure under two schemes, and its difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The figure's name in the JSON outcome, such as `throughput_pps` or `latency_s.p99`.
    pub figure: String,
    /// Under the first scheme, in the figure's unit.
    pub first: Figure,
    /// Under the second scheme.
    pub second: Figure,
    /// Second minus first, with its paired-t interval.
    pub difference: Figure,
    /// Variance of the difference if each scheme had its own packets, divided by the variance of the difference with
    /// the same packets. None if the divisor is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance_reduction: Option<f64>,
}

impl Difference {
    /// True if the interval does not contain 0.
    pub fn is_significant(&self) -> bool {
        self.difference.interval.is_some_and(|ends| ends.low > 0.0 || ends.high < 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_merge_cell_by_cell() {
        let mut one = LatencyHistogram(vec![(10, 2), (30, 1)]);
        one.merge(&LatencyHistogram(vec![(5, 1), (30, 4), (70, 2)]));
        assert_eq!(one, LatencyHistogram(vec![(5, 1), (10, 2), (30, 5), (70, 2)]));
        assert_eq!((one.packets(), one.quantile_s(0.3), one.quantile_s(1.0)), (10, Some(10e-9), Some(70e-9)));
        assert_eq!(LatencyHistogram::default().quantile_s(0.5), None);
        assert_eq!(serde_json::to_string(&one).unwrap(), "[[5,1],[10,2],[30,5],[70,2]]");
    }
}
