//! Latency histograms (HDR, three significant digits, 1 ns to 60 s).

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

const LONGEST_NS: u64 = 60_000_000_000;

/// A histogram of times. Times longer than 60 s count as 60 s. The caller must clip negative times to 0.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// Statistics of a histogram of latencies. Each value is within 0.1 % of the sample that it represents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencySummary {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample \[s\].
    pub min_s: f64,
    /// Mean \[s\].
    pub mean_s: f64,
    /// Median \[s\].
    pub p50_s: f64,
    /// 90th percentile \[s\].
    pub p90_s: f64,
    /// 99th percentile \[s\].
    pub p99_s: f64,
    /// 99.9th percentile \[s\].
    pub p999_s: f64,
    /// Largest sample \[s\].
    pub max_s: f64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty histogram: about 0.4 MB, of which only the part in use occupies the cache.
    pub fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds are constants that the library accepts"),
        }
    }

    /// Adds one time.
    #[inline]
    pub fn record_ns(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds `count` equal times.
    #[inline]
    pub fn record_n_ns(&mut self, ns: u64, count: u64) {
        self.histogram.saturating_record_n(ns, count);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Time at or below which the share `quantile` (0 to 1) of the samples lies \[s\]; `None` without
    /// samples.
    pub fn quantile_s(&self, quantile: f64) -> Option<f64> {
        (!self.histogram.is_empty()).then(|| self.histogram.value_at_quantile(quantile) as f64 * 1e-9)
    }

    /// Adds the samples of another histogram, for example of a repeat.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same constant bounds");
    }

    /// The statistics of the histogram. `None` without samples.
    pub fn summary(&self) -> Option<LatencySummary> {
        let quantile = |q| self.quantile_s(q);
        Some(LatencySummary {
            count: self.count(),
            min_s: quantile(0.0)?,
            mean_s: self.histogram.mean() * 1e-9,
            p50_s: quantile(0.5)?,
            p90_s: quantile(0.9)?,
            p99_s: quantile(0.99)?,
            p999_s: quantile(0.999)?,
            max_s: self.histogram.max() as f64 * 1e-9,
        })
    }

    /// The underlying histogram \[ns\].
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// A histogram with its statistics, in the form that is stored. The counts restore the histogram, so that runs can be
/// merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRecord {
    /// The statistics.
    #[serde(flatten)]
    pub summary: LatencySummary,
    /// Pairs of a time (ns, within 0.1 %) and its number of samples, in increasing order of time.
    pub counts_ns: Vec<(u64, u64)>,
}

impl LatencyRecord {
    /// The record of a histogram. `None` without samples.
    pub fn of(latency: &Latency) -> Option<Self> {
        let counts = latency.histogram.iter_recorded();
        let counts_ns = counts.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect();
        Some(Self { summary: latency.summary()?, counts_ns })
    }

    /// Restores the histogram from its counts.
    pub fn latency(&self) -> Latency {
        let mut latency = Latency::new();
        self.counts_ns.iter().for_each(|&(ns, count)| latency.record_n_ns(ns, count));
        latency
    }
}

impl Serialize for Latency {
    /// Serialises the histogram as its [`LatencyRecord`], or null without samples.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LatencyRecord::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Option::<LatencyRecord>::deserialize(deserializer)?;
        Ok(record.map_or_else(Self::new, |record| record.latency()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_samples() {
        let mut latency = Latency::new();
        assert!(latency.summary().is_none());
        for ns in 1..=1000 {
            latency.record_ns(ns * 1000);
        }
        let summary = latency.summary().expect("it has samples");
        assert_eq!(summary.count, 1000);
        for (got, want) in [(summary.p50_s, 500e-6), (summary.p99_s, 990e-6), (summary.max_s, 1e-3)] {
            assert!((got / want - 1.0).abs() < 2e-3, "{got} {want}");
        }
        let mut twice = latency.clone();
        twice.merge(&latency);
        assert_eq!(twice.count(), 2000);
    }

    #[test]
    fn a_record_gives_the_histogram_back_and_merges() {
        let mut latency = Latency::new();
        (1..=5000).for_each(|n| latency.record_ns(n * n));
        let record = LatencyRecord::of(&latency).expect("it has samples");
        let text = serde_json::to_string(&record).expect("plain data");
        let back: LatencyRecord = serde_json::from_str(&text).expect("the same");
        assert_eq!(back, record);
        let whole: Latency =
            serde_json::from_str(&serde_json::to_string(&latency).expect("plain data")).expect("the same");
        assert_eq!(whole.histogram(), latency.histogram());
        let none: Latency = serde_json::from_str("null").expect("no samples");
        assert_eq!(none.count(), 0);
        let mut merged = back.latency();
        assert_eq!(merged.histogram(), latency.histogram());
        merged.merge(&latency);
        assert_eq!(merged.count(), 10_000);
        assert_eq!(merged.quantile_s(0.5), latency.quantile_s(0.5));
    }

    #[test]
    fn hours_do_not_overflow() {
        let mut latency = Latency::new();
        latency.record_ns(u64::MAX);
        assert!(latency.quantile_s(0.5).expect("one sample") >= 59.9);
    }
}
