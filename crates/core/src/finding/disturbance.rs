//! What disturbed a run from outside, and how fast the machine was meanwhile.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// What came from outside in the trials of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// Length of all measured windows (s).
    pub measured_s: f64,
    /// Trials behind it.
    pub trials: u32,
    /// Times in which the host's CPU was taken from outside; None: not measured, see `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Pauses>,
    /// The same of the sender's CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Pauses>,
    /// Times in which tasks had the host's CPU that are neither the application nor the network's; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_tasks: Option<Pauses>,
    /// Which tasks those were, the longest first; the first [`MOST_TASKS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTime>,
    /// Times in which the sender did not look at its clock, whatever the cause: its CPU's pauses, and other tasks there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_stalls: Option<Pauses>,
    /// Share of the slots of the searches' trials that the host's own cliff leaves out.
    pub left_out: f64,
    /// Trials in which the clocks did not agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_jumps: Vec<ClockJump>,
}

/// So many tasks are named.
pub const MOST_TASKS: usize = 5;

/// What a task took of the host's CPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskTime {
    /// Its name, as `ps` has it.
    pub task: String,
    /// How often.
    pub count: u64,
    /// In all (s).
    pub total_s: f64,
}

/// Times in which a CPU or thread was away.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// How many a second.
    pub per_s: f64,
    /// All of them (s).
    pub total_s: f64,
    /// The same as a share of the measured time.
    pub share: f64,
    /// Median length (s); None: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// 99th percentile of the lengths (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Longest (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
    /// Shortest that shows (s).
    pub shortest_s: f64,
    /// What the hypervisor says that it took of this CPU in the same trials (the steal clock), as a share of the time; 0 where it does
    /// not tell. None: it is not about a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
    /// Counts by length: each bin ends at twice its begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthBin>,
}

/// The longest pause of its CPU that a host survives at a load, as a fluid and from empty queues (docs/theory/pauses.md).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PauseBudget {
    /// Share of the cliff.
    pub share: f64,
    /// That load (pps).
    pub load_pps: f64,
    /// Length of the longest pause without loss (s).
    pub longest_s: f64,
    /// The queue that overflows first in a longer one.
    pub first: Buffer,
    /// How many pauses of the host's CPU were longer in the searches' trials; None: they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer: Option<u64>,
}

/// A buffer between the wire and the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Buffer {
    /// The receive ring (the backlog where there is no NIC), which fills in a pause.
    Ring,
    /// The application's socket, which fills after it, while protocol processing drains the ring before the application runs.
    Socket,
}

/// Pauses of similar lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthBin {
    /// Shortest (s); the longest is twice that.
    pub from_s: f64,
    /// How many.
    pub count: u64,
}

impl Pauses {
    /// Of these lengths (s) in so much time (s); shorter ones than `shortest_s` do not show.
    pub fn of(lengths_s: &[f64], measured_s: f64, shortest_s: f64) -> Self {
        let mut sorted = lengths_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let total_s: f64 = sorted.iter().sum();
        // The smallest length that so large a share does not exceed.
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

/// Of sorted lengths; the first bin begins at the shortest that shows.
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

/// A trial in which the clocks did not agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockJump {
    /// When it ended, from the start of the run (s).
    pub at_s: f64,
    /// What happened, as a sentence.
    pub what: String,
}

/// How fast the host's CPU was. By the loop that keeps it awake (a fixed piece of work, without interruptions), and by what a packet
/// took in protocol processing, re-estimated from each trial's own polls.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Speed {
    /// Pieces of work a second, median over the trials of the searches; None: the CPU was not kept awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_s: Option<Figure>,
    /// Time of a packet in protocol processing (s), median over the trials of the searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_s: Option<Figure>,
    /// CPU time of softirqs and application in a trial over what the calibrated costs give for its packets, polls, wake-ups and
    /// interrupts; median over the trials of the searches. 1.1: everything took a tenth longer than in calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowness: Option<Figure>,
    /// Service demand: CPU time of interrupts and softirqs a packet taken, and of the application a packet read (s), median over the trials of
    /// the searches. The cliff times this is the share of the CPU that is busy at the cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_s: Option<Figure>,
    /// The same over the trials that lost next to nothing, at the higher ones of their loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_empty_s: Option<Figure>,
    /// The same over the trials that lost more than a tenth: the socket was full, and its packets out of the caches. Where this is longer than
    /// `demand_empty_s` there are two cliffs: up to 1 / this a full socket empties again, up to 1 / that an empty one stays so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_full_s: Option<Figure>,
    /// Every trial, in the order they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<SpeedAt>,
}

/// The speed in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedAt {
    /// When it ended, from the start of the run (s).
    pub at_s: f64,
    /// What it was for: `calibration`, `search`, `sweep`, ...
    pub stage: String,
    /// Offered load (pps).
    pub load_pps: f64,
    /// See [`Speed::turns_per_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns_per_s: Option<f64>,
    /// See [`Speed::packet_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_s: Option<f64>,
    /// See [`Speed::slowness`]; None also for trials of other frames or work, and for those that lost more than 1 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowness: Option<f64>,
}

/// How the speed changed over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// Change of the speed from the first trial to the last as a share, by a line through all: of 1 over [`Speed::slowness`] where trials
    /// tell it, else of the loop's turns.
    pub share: Figure,
    /// Standard deviation of the trials about that line as a share.
    pub scatter: f64,
    /// The speed in the searches over that in calibration, less 1: what a prediction from the calibration's costs does not know; None:
    /// one of the two has no speed.
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
