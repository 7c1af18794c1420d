//! Disturbances of a run from outside, and the machine's speed during it.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// Disturbances from outside during the trials of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// Total length of all measured windows (s).
    pub measured_s: f64,
    /// Number of trials.
    pub trials: u32,
    /// Times in which the host's CPU was taken away from outside, as by a hypervisor; None: not measured, see
    /// `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Pauses>,
    /// Times in which the sender's CPU was taken away; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Pauses>,
    /// Times in which other tasks than the application and the network ran on the host's CPU; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_tasks: Option<Pauses>,
    /// The tasks behind `other_tasks`, longest total time first; at most [`MOST_TASKS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTime>,
    /// Times in which the sender did not read its clock, because its CPU was taken away or other tasks ran there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_stalls: Option<Pauses>,
    /// Share of the searches' trial time that the host's own cliff excludes because of disturbances. Trials are divided
    /// into time slots for this.
    pub left_out: f64,
    /// Trials in which the clocks disagreed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_jumps: Vec<ClockJump>,
}

/// Most tasks that are named.
pub const MOST_TASKS: usize = 5;

/// Time of one task on the host's CPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskTime {
    /// Its name, as `ps` prints it.
    pub task: String,
    /// Number of times it ran.
    pub count: u64,
    /// Total time (s).
    pub total_s: f64,
}

/// Times in which a CPU or thread did not run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pauses {
    /// Number of pauses.
    pub count: u64,
    /// Pauses per second.
    pub per_s: f64,
    /// Total length (s).
    pub total_s: f64,
    /// Total length as a share of the measured time.
    pub share: f64,
    /// Median length (s); None without pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// 99th percentile of the lengths (s); None without pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Longest (s); None without pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// Shortest pause that can be detected (s).
    pub shortest_s: f64,
    /// Share of the time that the hypervisor reports as stolen from this CPU in the same trials (the steal clock); 0 if
    /// it reports nothing. None: these are not pauses of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
    /// Counts by length; each bin ends at twice its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthBin>,
}

/// The longest pause of a host's CPU that causes no loss at a load, by a fluid model that starts with empty queues
/// (docs/theory/pauses.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseBudget {
    /// The load as a share of the cliff.
    pub share: f64,
    /// The load (pps).
    pub load_pps: f64,
    /// Length of the longest pause without loss (s).
    pub longest_s: f64,
    /// The queue that overflows first in a longer pause.
    pub first: Buffer,
    /// Number of pauses of the host's CPU longer than `longest_s`, in the searches' trials; `None`: pauses were not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer: Option<u64>,
}

/// A buffer between the wire and the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Buffer {
    /// The receive ring (without a NIC the backlog), which fills during a pause.
    Ring,
    /// The application's socket, which fills after the pause, when protocol processing drains the ring before the
    /// application runs.
    Socket,
}

/// Pauses of similar lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthBin {
    /// Shortest length (s); the bin ends at twice this length.
    pub from_s: f64,
    /// Number of pauses.
    pub count: u64,
}

impl Pauses {
    /// Statistics of pauses with these lengths (s) during `measured_s` (s). `shortest_s`: shortest pause that can be
    /// detected (s).
    pub fn of(lengths_s: &[f64], measured_s: f64, shortest_s: f64) -> Self {
        let mut sorted = lengths_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let total_s: f64 = sorted.iter().sum();
        // The smallest length that a `share` of all pauses does not exceed.
        let quantile = |share: f64| {
            let place = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            sorted.get(place - 1).copied()
        };
        let over = |amount: f64| if measured_s > 0.0 { amount / measured_s } else { 0.0 };
        Self {
            count: sorted.len() as u64,
            per_s: over(sorted.len() as f64),
            total_s,
            share: over(total_s),
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
            max_s: sorted.last().copied(),
            shortest_s,
            steal_share: None,
            lengths: bins(&sorted, shortest_s),
        }
    }
}

/// Counts sorted lengths by bins; the first bin begins at `shortest_s`.
fn bins(sorted: &[f64], shortest_s: f64) -> Vec<LengthBin> {
    let mut bins: Vec<LengthBin> = Vec::new();
    let Some(longest_s) = sorted.last().filter(|_| shortest_s > 0.0) else { return bins };
    let mut from_s = shortest_s;
    let mut place = 0;
    while from_s <= *longest_s {
        let end = sorted.partition_point(|length_s| *length_s < 2.0 * from_s);
        bins.push(LengthBin { from_s, count: (end - place) as u64 });
        (place, from_s) = (end, 2.0 * from_s);
    }
    bins
}

/// A trial in which the clocks disagreed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockJump {
    /// When it ended, from the start of the run (s).
    pub at_s: f64,
    /// Description of the event, one sentence.
    pub what: String,
}

/// Speed of the host's CPU, by two measures: the turns of the loop that keeps it awake (a fixed piece of work, without
/// interruptions), and the time of a packet in protocol processing, estimated again from the polls of each trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Speed {
    /// Turns per second of the loop that keeps the CPU awake, median over the trials of the searches; `None`: the CPU
    /// was not kept awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_s: Option<Figure>,
    /// Time of a packet in protocol processing (s), median over the trials of the searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_s: Option<Figure>,
    /// CPU time of softirqs and application in a trial, divided by the time that the calibrated costs give for its
    /// packets, polls, wake-ups and interrupts; median over the trials of the searches. 1.1: everything took a tenth
    /// longer than in calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowness: Option<Figure>,
    /// Service demand (s): CPU time of interrupts and softirqs per packet taken, plus CPU time of the application per
    /// packet read; median over the trials of the searches. Cliff times demand is the share of the CPU that is busy at
    /// the cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_s: Option<Figure>,
    /// Service demand (s), median over the trials with almost no loss: over the higher loads if these have enough
    /// trials, else over all such trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_empty_s: Option<Figure>,
    /// Service demand (s) in the trials that lost more than a tenth: the socket was full, and its packets had left the
    /// caches. If it exceeds `demand_empty_s`, there are two cliffs: up to 1 / `demand_full_s` a full socket becomes
    /// empty again, up to 1 / `demand_empty_s` an empty socket stays empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_full_s: Option<Figure>,
    /// Speed in every trial, in the order of the trials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<SpeedAt>,
}

/// Speed in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedAt {
    /// When it ended, from the start of the run (s).
    pub at_s: f64,
    /// Stage that the trial belongs to: `calibration`, `search`, `sweep`, ...
    pub stage: String,
    /// Offered load (pps).
    pub load_pps: f64,
    /// See [`Speed::turns_per_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_s: Option<f64>,
    /// See [`Speed::packet_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_s: Option<f64>,
    /// See [`Speed::slowness`]. None also for trials with other frames or work, and for trials that lost more than 1 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowness: Option<f64>,
}

/// Change of the CPU's speed over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// Relative change of the speed from the first trial to the last, by linear regression: of 1 / [`Speed::slowness`]
    /// if trials have it, otherwise of the loop's turns per second.
    pub share: Figure,
    /// Standard deviation of the trials from that line, relative.
    pub scatter: f64,
    /// Speed in the searches divided by speed in calibration, minus 1: a prediction from the calibrated costs lacks
    /// this change. `None`: the speed was not measured in one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_over_calibration: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_summed_up_and_binned() {
        let pauses = Pauses::of(&[4e-3, 3e-4, 1.1e-3, 3.5e-4], 2.0, 2.5e-4);
        assert_eq!((pauses.count, pauses.per_s, pauses.max_s), (4, 2.0, Some(4e-3)));
        assert!((pauses.total_s - 5.75e-3).abs() < 1e-12 && (pauses.share - 2.875e-3).abs() < 1e-12);
        assert_eq!((pauses.p50_s, pauses.p99_s), (Some(3.5e-4), Some(4e-3)));
        let counts: Vec<(f64, u64)> = pauses.lengths.iter().map(|bin| (bin.from_s, bin.count)).collect();
        assert_eq!(counts, [(2.5e-4, 2), (5e-4, 0), (1e-3, 1), (2e-3, 0), (4e-3, 1)]);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), pauses.count);
    }

    #[test]
    fn no_pause_has_no_length() {
        let none = Pauses::of(&[], 2.0, 2.5e-4);
        assert_eq!((none.count, none.share, none.p50_s, none.lengths.len()), (0, 0.0, None, 0));
        assert_eq!(Pauses::of(&[], 0.0, 2.5e-4).per_s, 0.0);
    }
}
