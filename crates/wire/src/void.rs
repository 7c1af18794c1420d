//! When a trial is void (RFC 9971), because it says nothing about the device. One rule for every kind of trial.

use serde::{Deserialize, Serialize};

/// Smallest share of frames that must leave in time for the load to count as offered.
pub const KEPT_UP_SHARE: f64 = 0.999;
/// A frame is late from this delay on \[ns\]: at 1 Mpps, 100 frames then follow at once, a tenth of the default
/// backlog.
pub const LATE_NS: u64 = 100_000;

/// Why a trial is void.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Void {
    /// The sender was too slow: frames did not leave in time.
    SenderTooSlow {
        /// Frames per second that left, in the slowest direction.
        reached_pps: f64,
    },
    /// Frames were lost, but no more than left late: the bunching of late frames may have caused the loss.
    SenderUneven {
        /// Number of frames that left later than [`LATE_NS`].
        late: u64,
    },
    /// The sink's own queues overflowed.
    SinkTooSlow {
        /// Number of frames that found the sink's ring full.
        missed: u64,
    },
}

/// Counts of the tester's two ends in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TesterCounts {
    /// Share of the scheduled frames that left in time.
    pub offered_share: f64,
    /// Frames per second that left.
    pub reached_pps: f64,
    /// Number of frames sent that did not arrive.
    pub lost: u64,
    /// Number of frames that left later than [`LATE_NS`].
    pub late: u64,
    /// Number of frames that found the sink's ring full.
    pub missed: u64,
}

impl TesterCounts {
    /// Judges a trial. It is void if the sink missed frames, if the sender offered less than [`KEPT_UP_SHARE`] of the
    /// load, or if frames were lost but no more than left late. `None` if the trial counts: then the device caused the
    /// loss.
    pub fn void(&self) -> Option<Void> {
        if self.missed > 0 {
            return Some(Void::SinkTooSlow { missed: self.missed });
        }
        if self.offered_share < KEPT_UP_SHARE {
            return Some(Void::SenderTooSlow { reached_pps: self.reached_pps });
        }
        (self.lost > 0 && self.lost <= self.late).then_some(Void::SenderUneven { late: self.late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: TesterCounts = TesterCounts { offered_share: 1.0, reached_pps: 1e5, lost: 0, late: 0, missed: 0 };

    #[test]
    fn a_loss_is_the_devices_unless_the_tester_may_have_caused_it() {
        assert_eq!(GOOD.void(), None);
        assert_eq!(TesterCounts { lost: 10, ..GOOD }.void(), None);
        assert_eq!(TesterCounts { late: 10, ..GOOD }.void(), None, "what passed has passed");
        assert_eq!(TesterCounts { lost: 10, late: 10, ..GOOD }.void(), Some(Void::SenderUneven { late: 10 }));
        assert_eq!(TesterCounts { lost: 11, late: 10, ..GOOD }.void(), None);
        assert_eq!(
            TesterCounts { offered_share: 0.998, ..GOOD }.void(),
            Some(Void::SenderTooSlow { reached_pps: 1e5 })
        );
        assert_eq!(TesterCounts { missed: 1, ..GOOD }.void(), Some(Void::SinkTooSlow { missed: 1 }));
    }
}
