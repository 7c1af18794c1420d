//! Result of `netcliff stream`: one row per block size, each figure the median of its repeats with minimum and maximum;
//! and formulas that turn counts into figures.

mod frames;
mod many;
mod probe;
mod row;
mod warning;
mod wire;

use serde::{Deserialize, Serialize};

use crate::record::{Fingerprint, Provenance};

pub use frames::{DatagramFrames, ETHERNET_BYTES, datagram_frames, payload_share, wire_bytes};
pub use many::{AgentRow, IncastRow, ManyRow, jain};
pub use probe::{ProbePhase, ProbePoint, ProbeQueue, ProbeRow, quantile, round_trips_per_minute};
pub use row::{
    DatagramRow, DeviceRow, EndCpu, FollowedRow, MappedRow, OTHER_PROGRAMS, PacingRow, StreamRow, StreamSample,
    ZeroCopyRow,
};
pub use warning::StreamWarning;
pub use wire::{TcpFlow, TcpFlows, TcpInterval, TcpRow, UdpRow};

/// Median, minimum and maximum over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of the finite values; `None` if no value is finite.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { median, min, max })
    }
}

/// CPU time of one end in one repeat (s).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTimes {
    /// CPU time in user mode (s).
    pub user_s: f64,
    /// CPU time in kernel mode (s).
    pub system_s: f64,
    /// Elapsed time (s).
    pub wall_s: f64,
}

/// Kernel share of the CPU as in the 2003 study (docs/theory/README.md; its section 5.6.3): mean over repeats of
/// `sys / (sys + user) * percent`, where percent is CPU time divided by elapsed time; here 0 to 1. `None` if no repeat
/// used any CPU time.
pub fn kernel_share(repeats: &[CpuTimes]) -> Option<f64> {
    let shares: Vec<f64> = repeats
        .iter()
        .filter(|times| times.user_s + times.system_s > 0.0 && times.wall_s > 0.0)
        .map(|times| {
            let used_s = times.system_s + times.user_s;
            times.system_s / used_s * (used_s / times.wall_s)
        })
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The result of `netcliff stream`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamReport {
    /// The configuration: (name, value).
    pub asked: Vec<(String, String)>,
    /// Settings in force at the sender's socket, as the kernel reports them: (name, value).
    pub in_force: Vec<(String, String)>,
    /// End whose clock `goodput_bps` uses: `receiver` or `sender`.
    pub clock: String,
    /// One row per block size.
    pub rows: Vec<StreamRow>,
    /// Settings that were requested but not possible, with the reason.
    pub not_had: Vec<String>,
    /// Rate at which one thread reads the sent file from its disk, without a network (bit/s); absent: no file is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bps: Option<f64>,
    /// Limits of the figures, one sentence each.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub warnings: Vec<StreamWarning>,
    /// How each kind of CPU figure was measured: (kind, method).
    pub cpu_methods: Vec<(String, String)>,
    /// Properties of host and software that explain a difference to another run.
    pub fingerprint: Fingerprint,
    /// Fingerprint of the far end's host; absent if it is this host, or if it is not known (`not_had` has the reason).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// Version and settings of the run.
    pub provenance: Provenance,
    /// True if it was stopped, or cut short by an error.
    pub partial: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_ordered_and_ignores_what_is_no_number() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, f64::NAN, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn the_kernel_share_is_the_mean_over_repeats() {
        let times = |user_s, system_s| CpuTimes { user_s, system_s, wall_s: 1.0 };
        // 0.6/0.8 x 80 % = 60 %; 0.2/0.4 x 40 % = 20 %.
        let share = kernel_share(&[times(0.2, 0.6), times(0.2, 0.2)]).expect("CPU was used");
        assert!((share - 0.4).abs() < 1e-12, "{share}");
        assert_eq!(kernel_share(&[times(0.0, 0.0)]), None);
    }
}
