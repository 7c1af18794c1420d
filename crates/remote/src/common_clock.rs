//! Offset between an agent's clock and this host's: a service of every agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::client::Session;
use crate::control::far::{Opened, Service};
use netcliff_packets::clock;

/// Name of the service, and of the feature in an agent's hello.
pub const CLOCK: &str = "clock";

/// Number of clock readings; the one with the shortest round trip is used.
const READINGS: usize = 8;

/// Answers with the host's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClockService;

#[derive(Debug, Serialize, Deserialize)]
struct Reading {
    monotonic_ns: u64,
}

impl Service for ClockService {
    fn name(&self) -> &'static str {
        CLOCK
    }

    fn open(&self) -> Result<Box<dyn Opened>, String> {
        Ok(Box::new(*self))
    }
}

impl Opened for ClockService {
    fn ask(&mut self, _: Value) -> Result<Value, String> {
        serde_json::to_value(Reading { monotonic_ns: clock::monotonic_ns() }).map_err(|e| e.to_string())
    }
}

/// Offset of an agent's monotonic clock from this host's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// The agent's time minus ours (ns).
    pub ahead_ns: i64,
    /// Bound on the error of `ahead_ns` (ns): half the shortest round trip; 0 if both ends share a clock.
    pub error_ns: u64,
}

impl ClockOffset {
    /// Converts a time of this host (ns) to the agent's clock.
    pub fn theirs(self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Converts a time of the agent (ns) to this host's clock.
    pub fn ours(self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(-self.ahead_ns)
    }

    /// Computes the offset from readings (our time before, the agent's time, our time after): the one with the shortest
    /// round trip. `None` without readings.
    fn of(readings: impl IntoIterator<Item = (u64, u64, u64)>) -> Option<Self> {
        let offset = |(before, theirs, after): (u64, u64, u64)| {
            let took_ns = after.saturating_sub(before);
            let middle_ns = before + took_ns / 2;
            Self { ahead_ns: theirs.wrapping_sub(middle_ns) as i64, error_ns: took_ns.div_ceil(2) }
        };
        readings.into_iter().map(offset).min_by_key(|offset| offset.error_ns)
    }
}

/// Measures the offset of an agent's clock from this host's, between tests.
///
/// # Errors
/// The agent does not have the service, or is gone; a message for the user.
pub fn offset(session: &mut Session) -> Result<ClockOffset, String> {
    if session.shares_clock() {
        return Ok(ClockOffset::default());
    }
    if !session.offers(CLOCK) {
        return Err(session.lacks(CLOCK));
    }
    let mut readings = Vec::new();
    for _ in 0..READINGS {
        let before_ns = clock::monotonic_ns();
        let answer = session.ask(CLOCK, &Value::Null).map_err(|error| error.to_string())?;
        let after_ns = clock::monotonic_ns();
        let malformed = |e| format!("{} said something else than its clock: {e}", session.peer());
        let reading: Reading = serde_json::from_value(answer).map_err(malformed)?;
        readings.push((before_ns, reading.monotonic_ns, after_ns));
    }
    Ok(ClockOffset::of(readings).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_reading_is_used_and_bounds_the_error() {
        let offset = ClockOffset::of([(1000, 6000, 2000), (3000, 7_100, 3200), (5000, 9000, 9000)]).expect("readings");
        assert_eq!(offset, ClockOffset { ahead_ns: 4000, error_ns: 100 });
        assert_eq!((offset.theirs(500), offset.ours(4500)), (4500, 500));
        let behind = ClockOffset::of([(9000, 1000, 9000)]).expect("a reading");
        assert_eq!((behind.ahead_ns, behind.theirs(9500), behind.ours(1500)), (-8000, 1500, 9500));
        assert_eq!(ClockOffset::of([]), None);
    }
}
