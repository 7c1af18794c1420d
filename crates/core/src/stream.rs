//! What `netcliff stream` found: one row a block size, each figure the median of its repeats with the least and the
//! greatest, and the formulas that turn counts into figures.

mod frames;
mod many;
mod probe;
mod row;
mod wire;

use serde::{Deserialize, Serialize};

use crate::record::{Fingerprint, Provenance};

pub use frames::{DatagramFrames, ETHERNET_BYTES, datagram_frames, payload_share, wire_bytes};
pub use many::{AgentRow, IncastRow, ManyRow, jain};
pub use probe::{ProbePhase, ProbePoint, ProbeQueue, ProbeRow, quantile, round_trips_per_minute};
pub use row::{
    DatagramRow, DeviceRow, EndCpu, FollowedRow, MappedRow, PacingRow, StreamRow, StreamSample, ZeroCopyRow,
};
pub use wire::{TcpFlow, TcpFlows, TcpInterval, TcpRow, UdpRow};

/// Median, least and greatest of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The median; the mean of the middle two of an even number.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of the finite ones of these values; None if there are none.
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

/// CPU time of one end of one repeat (s).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTimes {
    /// In user mode (s).
    pub user_s: f64,
    /// In kernel mode (s).
    pub system_s: f64,
    /// Wall time (s).
    pub wall_s: f64,
}

/// Kernel share of the CPU as the 2003 study of TCP tools has it (section 5.6.3): the mean over repeats of
/// `sys / (sys + user) * percent`, where percent is CPU time over wall time; here 0 to 1. None without a repeat that
/// used any CPU.
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

/// A stream's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamReport {
    /// The configuration, by name.
    pub asked: Vec<(String, String)>,
    /// What the kernel had in force at the sender's socket, by name.
    pub in_force: Vec<(String, String)>,
    /// Whose clock `goodput_bps` is by: `receiver` or `sender`.
    pub clock: String,
    /// A row a block size.
    pub rows: Vec<StreamRow>,
    /// What was requested and refused, with the reason.
    pub not_had: Vec<String>,
    /// What makes figures mean less.
    pub warnings: Vec<String>,
    /// How each kind of CPU figure was measured.
    pub cpu_methods: Vec<(String, String)>,
    /// What explains a difference to another run.
    pub fingerprint: Fingerprint,
    /// The same of the far end's host, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped or cut short.
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
