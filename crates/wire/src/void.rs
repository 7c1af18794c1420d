//! When a trial says nothing about the device: RFC 9971's void, one rule for every kind of trial.

use serde::{Deserialize, Serialize};

/// Share of the frames that must leave in time for the load to count as offered.
pub const KEPT_UP_SHARE: f64 = 0.999;
/// From here on a frame is late \[ns\]: at 1 Mpps 100 frames then follow at once, a tenth of the default backlog.
pub const LATE_NS: u64 = 100_000;

/// Why a trial says nothing about the device.
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

/// What the ends of the tester counted in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sides {
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

impl Sides {
    /// Void: the sink missed frames, the sender offered less than [`KEPT_UP_SHARE`] of the load, or the loss, where there is
    /// one, does not exceed the frames sent late. None: the loss is the device's.
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

    const GOOD: Sides = Sides { offered_share: 1.0, reached_pps: 1e5, lost: 0, late: 0, missed: 0 };

    #[test]
    fn a_loss_is_the_devices_unless_the_tester_may_have_caused_it() {
        assert_eq!(GOOD.void(), None);
        assert_eq!(Sides { lost: 10, ..GOOD }.void(), None);
        assert_eq!(Sides { late: 10, ..GOOD }.void(), None, "what passed has passed");
        assert_eq!(Sides { lost: 10, late: 10, ..GOOD }.void(), Some(Void::SenderUneven { late: 10 }));
        assert_eq!(Sides { lost: 11, late: 10, ..GOOD }.void(), None);
        assert_eq!(Sides { offered_share: 0.998, ..GOOD }.void(), Some(Void::SenderTooSlow { reached_pps: 1e5 }));
        assert_eq!(Sides { missed: 1, ..GOOD }.void(), Some(Void::SinkTooSlow { missed: 1 }));
    }
}
