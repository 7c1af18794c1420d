//! Verdict of a trial, for `find`, `rfc2544` and experiments: whether the trial is void (RFC 9971: it says nothing
//! about the device), why, and how often a void trial is repeated.

use std::fmt;

/// Share of the frames that must be sent in time for the load to count as offered.
pub const KEPT_UP_SHARE: f64 = 0.999;
/// Delay above which a frame counts as late \[ns\]: at 1 Mpps a sender that catches up this delay sends a burst of 100
/// frames, a tenth of the default backlog.
pub const LATE_NS: u64 = 100_000;

/// Repeats of a void trial before its load counts as too high for the sender.
pub const REPEATS: u32 = 2;
/// Repeats of a void trial shorter than [`SHORT_S`]: one stall of the tester's CPU may void several trials in a row,
/// and they are cheap.
const SHORT_REPEATS: u32 = 6;
/// Length below which a trial counts as short \[s\].
const SHORT_S: f64 = 1.0;

/// Number of repeats of a void trial that lasts `duration_s`.
pub fn repeats(duration_s: f64) -> u32 {
    if duration_s < SHORT_S { SHORT_REPEATS } else { REPEATS }
}

/// A void trial: why, and what the sender reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Void {
    /// The reason.
    pub why: VoidReason,
    /// Frames sent per second, in the slower direction.
    pub reached_pps: f64,
}

/// Why a trial is void; `Display` gives a sentence for users. A new reason needs a class and a sentence here, and a line
/// in docs/how-to/read-a-page.md; other code distinguishes classes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VoidReason {
    /// The sender fell behind the load.
    SenderTooSlow,
    /// The sender was delayed and caught up: its bursts may have caused the loss.
    SenderUneven,
    /// The sink did not receive all frames that arrived.
    SinkTooSlow,
    /// Pauses of a CPU left less than half of the trial.
    Disturbed,
}

/// Kind of a [`VoidReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoidClass {
    /// The sender did not reach the load.
    Sender,
    /// The sink did not keep up with the load.
    Sink,
    /// The load was reached, but a delay spoiled the trial: a higher load can be offered.
    Delay,
}

impl VoidReason {
    /// The kind of the reason.
    pub fn class(self) -> VoidClass {
        match self {
            Self::SenderTooSlow => VoidClass::Sender,
            Self::SinkTooSlow => VoidClass::Sink,
            Self::SenderUneven | Self::Disturbed => VoidClass::Delay,
        }
    }

    /// The sentence, with `sender` as the name of the sender.
    pub fn of(self, sender: &str) -> String {
        match self {
            Self::SenderTooSlow => format!("the {sender} fell behind"),
            Self::SenderUneven => format!("the {sender} was delayed, and may have caused the loss"),
            Self::SinkTooSlow => "the sink did not receive all frames that arrived".to_owned(),
            Self::Disturbed => "pauses of a CPU left less than half of the trial undisturbed".to_owned(),
        }
    }
}

impl fmt::Display for VoidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of("sender"))
    }
}

/// Counts of sender and sink in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TesterCounts {
    /// Share of the scheduled frames that were sent in time.
    pub offered_share: f64,
    /// Frames sent per second.
    pub reached_pps: f64,
    /// Frames sent but not received.
    pub lost: u64,
    /// Frames sent later than [`LATE_NS`].
    pub late: u64,
    /// Frames that the sink had no room for: its ring was full or, with AF_XDP, no buffer was free. In zero-copy mode
    /// also the number of times that the driver found no free buffer.
    pub missed: u64,
}

impl TesterCounts {
    /// Why the trial is void: the sink missed frames; the sender offered less than [`KEPT_UP_SHARE`] of the load; or
    /// frames were lost, but no more than were sent late. `None`: the loss is the device's. Late frames do not void a
    /// trial in which the device's CPU was `saturated`: it would have dropped the same frames anyway.
    pub fn void(&self, saturated: bool) -> Option<Void> {
        let why = if self.missed > 0 {
            VoidReason::SinkTooSlow
        } else if self.offered_share < KEPT_UP_SHARE {
            VoidReason::SenderTooSlow
        } else if self.lost > 0 && self.lost <= self.late && !saturated {
            VoidReason::SenderUneven
        } else {
            return None;
        };
        Some(Void { why, reached_pps: self.reached_pps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: TesterCounts = TesterCounts { offered_share: 1.0, reached_pps: 1e5, lost: 0, late: 0, missed: 0 };

    #[test]
    fn a_loss_is_the_devices_unless_the_tester_may_have_caused_it() {
        let void = |why| Some(Void { why, reached_pps: 1e5 });
        let uneven = TesterCounts { lost: 10, late: 10, ..GOOD };
        assert_eq!(GOOD.void(false), None);
        assert_eq!(TesterCounts { lost: 10, ..GOOD }.void(false), None);
        assert_eq!(TesterCounts { late: 10, ..GOOD }.void(false), None, "what passed has passed");
        assert_eq!(uneven.void(false), void(VoidReason::SenderUneven));
        assert_eq!(uneven.void(true), None, "a full CPU would have lost them, too");
        assert_eq!(TesterCounts { lost: 11, late: 10, ..GOOD }.void(false), None);
        let slow = TesterCounts { offered_share: 0.998, ..GOOD };
        assert_eq!(slow.void(true), void(VoidReason::SenderTooSlow));
        assert_eq!(TesterCounts { missed: 1, ..GOOD }.void(true), void(VoidReason::SinkTooSlow));
    }

    #[test]
    fn short_trials_are_repeated_more_often() {
        assert!(repeats(0.4) > repeats(1.0));
    }
}
