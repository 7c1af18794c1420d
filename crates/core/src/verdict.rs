//! The verdict of a trial, for `find`, `rfc2544` and experiments: when it says nothing about the device (RFC 9971 calls it void), why, and how often it
//! is repeated.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Share of the frames that must leave in time for the load to count as offered.
pub const KEPT_UP_SHARE: f64 = 0.999;
/// From here on a frame is late \[ns\]: at 1 Mpps 100 frames then follow at once, a tenth of the default backlog.
pub const LATE_NS: u64 = 100_000;

/// How often a void trial is repeated before its load counts as beyond the sender.
pub const REPEATS: u32 = 2;
/// How often a void trial shorter than [`SHORT_S`] is repeated: one stall of the tester's CPU may void several in turn, and they cost little.
const SHORT_REPEATS: u32 = 6;
/// \[s\]
const SHORT_S: f64 = 1.0;

/// How often a void trial of `duration_s` is repeated.
pub fn repeats(duration_s: f64) -> u32 {
    if duration_s < SHORT_S { SHORT_REPEATS } else { REPEATS }
}

/// Why a trial is void, with what was counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Void {
    /// Frames did not leave in time.
    SenderTooSlow {
        /// Frames a second that left, of the slowest direction.
        reached_pps: f64,
    },
    /// Frames were lost, but no more than left late, and bunched for it: the sender may have lost them.
    SenderUneven {
        /// Frames that left later than [`LATE_NS`].
        late: u64,
    },
    /// The sink's own queues overflowed.
    SinkTooSlow {
        /// Frames the sink's ring had no room for.
        missed: u64,
    },
}

impl Void {
    /// The reason, without numbers.
    pub fn reason(&self) -> VoidReason {
        match self {
            Self::SenderTooSlow { .. } => VoidReason::SenderTooSlow,
            Self::SenderUneven { .. } => VoidReason::SenderUneven,
            Self::SinkTooSlow { .. } => VoidReason::SinkTooSlow,
        }
    }
}

/// Why a trial is void; `Display` is the sentence that users read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VoidReason {
    /// The sender fell behind the load.
    SenderTooSlow,
    /// The sender was delayed, and caught up: its bursts may have caused the loss.
    SenderUneven,
    /// The sink did not receive everything that arrived.
    SinkTooSlow,
    /// Pauses of a CPU left less than half of it.
    Disturbed,
}

impl VoidReason {
    /// The sentence where what sends is not called the sender but `sender`.
    pub fn of(self, sender: &str) -> String {
        match self {
            Self::SenderTooSlow => format!("the {sender} fell behind"),
            Self::SenderUneven => format!("the {sender} was delayed, and may have caused the loss"),
            Self::SinkTooSlow => "the sink did not take in all that came".to_owned(),
            Self::Disturbed => "pauses of a CPU left less than half of it".to_owned(),
        }
    }
}

impl fmt::Display for VoidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of("sender"))
    }
}

/// What sender and sink counted in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TesterCounts {
    /// Share of the scheduled frames that left in time.
    pub offered_share: f64,
    /// Frames a second that left.
    pub reached_pps: f64,
    /// Frames sent that did not come.
    pub lost: u64,
    /// Frames that left later than [`LATE_NS`].
    pub late: u64,
    /// Frames the sink's ring had no room for.
    pub missed: u64,
}

impl TesterCounts {
    /// Void: the sink missed frames, the sender offered less than [`KEPT_UP_SHARE`] of the load, or the loss, where there is one, does not exceed the
    /// frames sent late. `None`: the loss is the device's. A device whose CPU was `saturated` all the time would have dropped the same frames however
    /// evenly they had come, so late frames do not void its trial.
    pub fn void(&self, saturated: bool) -> Option<Void> {
        if self.missed > 0 {
            return Some(Void::SinkTooSlow { missed: self.missed });
        }
        if self.offered_share < KEPT_UP_SHARE {
            return Some(Void::SenderTooSlow { reached_pps: self.reached_pps });
        }
        (self.lost > 0 && self.lost <= self.late && !saturated).then_some(Void::SenderUneven { late: self.late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: TesterCounts = TesterCounts { offered_share: 1.0, reached_pps: 1e5, lost: 0, late: 0, missed: 0 };

    #[test]
    fn a_loss_is_the_devices_unless_the_tester_may_have_caused_it() {
        let uneven = TesterCounts { lost: 10, late: 10, ..GOOD };
        assert_eq!(GOOD.void(false), None);
        assert_eq!(TesterCounts { lost: 10, ..GOOD }.void(false), None);
        assert_eq!(TesterCounts { late: 10, ..GOOD }.void(false), None, "what passed has passed");
        assert_eq!(uneven.void(false), Some(Void::SenderUneven { late: 10 }));
        assert_eq!(uneven.void(true), None, "a full CPU would have lost them, too");
        assert_eq!(TesterCounts { lost: 11, late: 10, ..GOOD }.void(false), None);
        let slow = TesterCounts { offered_share: 0.998, ..GOOD };
        assert_eq!(slow.void(true), Some(Void::SenderTooSlow { reached_pps: 1e5 }));
        assert_eq!(TesterCounts { missed: 1, ..GOOD }.void(true), Some(Void::SinkTooSlow { missed: 1 }));
    }

    #[test]
    fn short_trials_are_repeated_more_often() {
        assert!(repeats(0.4) > repeats(1.0));
    }
}
