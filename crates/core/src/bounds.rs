//! Accepted ranges of the quantities that make up a point. A value outside is a typing error, and would exceed the
//! range of doubles, the memory or any reasonable run time: checks of hosts, schemes and traffic refuse it.

use crate::error::Invalid;
use crate::units;

/// The longest time (s): eleven days.
pub const LONGEST_S: f64 = 1e6;
/// The shortest time above 0 (s).
pub const SHORTEST_S: f64 = 1e-18;
/// The lowest packet rate (pps): one packet in eleven days.
pub const LOWEST_PPS: f64 = 1e-6;
/// The highest packet rate (pps): about 10 000 times the rate of 64-byte frames at 800 Gbit/s.
pub const HIGHEST_PPS: f64 = 1e13;
/// The slowest link (bit/s).
pub const SLOWEST_BPS: f64 = 1.0;
/// The fastest link (bit/s).
pub const FASTEST_BPS: f64 = 1e16;
/// Largest ring, buffer or backlog (packets). Rings of NICs have up to 32768 slots, backlogs
/// (net.core.netdev_max_backlog) some millions.
pub const MOST_PACKETS: u64 = 1 << 24;
/// Largest quota, budget or weight (packets): Linux stores them as int.
pub const MOST_COUNT: u64 = i32::MAX as u64;

/// Accepts 0, or a time from [`SHORTEST_S`] to [`LONGEST_S`].
pub(crate) fn time_or_none(name: &str, seconds: f64) -> Result<(), Invalid> {
    if seconds == 0.0 { Ok(()) } else { within(name, seconds, "0s, or a time from") }
}

/// Accepts a time from [`SHORTEST_S`] to [`LONGEST_S`].
pub(crate) fn time(name: &str, seconds: f64) -> Result<(), Invalid> {
    within(name, seconds, "a time from")
}

fn within(name: &str, seconds: f64, what: &str) -> Result<(), Invalid> {
    if (SHORTEST_S..=LONGEST_S).contains(&seconds) {
        return Ok(());
    }
    let readable = (1e-30..1e30).contains(&seconds);
    let value = if readable || seconds == 0.0 { units::print_time_s(seconds) } else { format!("{seconds:e} s") };
    Err(Invalid::new(name, value, format!("must be {what} 1e-18 s to 1e6 s")))
}

/// Accepts a packet rate from [`LOWEST_PPS`] to [`HIGHEST_PPS`]. `value`: the rate as the user wrote it, for the error.
pub fn rate(name: &str, pps: f64, value: impl ToString) -> Result<(), Invalid> {
    if (LOWEST_PPS..=HIGHEST_PPS).contains(&pps) {
        return Ok(());
    }
    let value = value.to_string();
    // A text with hundreds of zeros is shown as a power of ten.
    let value = if value.len() > 40 { format!("{pps:e} pps") } else { value };
    Err(Invalid::new(name, value, "must be from 1e-6 pps to 1e13 pps"))
}

/// Accepts 1 to [`MOST_PACKETS`].
pub(crate) fn packets(name: &str, count: u64, what: &str) -> Result<(), Invalid> {
    if (1..=MOST_PACKETS).contains(&count) {
        return Ok(());
    }
    Err(Invalid::new(name, count, format!("must be at least 1 and at most {MOST_PACKETS} {what}")))
}

/// Accepts 1 to [`MOST_COUNT`].
pub(crate) fn count(name: &str, count: u64) -> Result<(), Invalid> {
    if (1..=MOST_COUNT).contains(&count) {
        return Ok(());
    }
    Err(Invalid::new(name, count, format!("must be at least 1 and at most {MOST_COUNT}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal names the value and the accepted range, in a readable length.
    #[test]
    fn what_is_refused_is_told_with_its_range() {
        for (refused, parts) in [
            (time_or_none("interrupt", 1e308), ["interrupt = 1e308 s", "1e6 s"]),
            (time_or_none("interrupt", -1e-6), ["interrupt = -1e-6 s", "0s, or"]),
            (time("period", 0.0), ["period = 0s", "1e-18 s"]),
            (time("tick", f64::NAN), ["NaN", "1e-18 s"]),
            (rate("rate", 1e-320, units::print_pps(1e-320)), ["rate = 1e-320 pps", "1e-6 pps"]),
            (rate("rate", 1e300, "1e298%"), ["rate = 1e298%", "1e13 pps"]),
            (packets("ring", u64::MAX, "slots"), ["ring = 18446744073709551615", "16777216 slots"]),
            (count("quota", 0), ["quota = 0", "2147483647"]),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(parts.iter().all(|part| said.contains(part)) && said.len() < 120, "{said}");
        }
        for seconds in [0.0, SHORTEST_S, 1e-6, LONGEST_S] {
            assert!(time_or_none("mask", seconds).is_ok());
        }
        assert!(rate("rate", LOWEST_PPS, "").is_ok() && rate("rate", HIGHEST_PPS, "").is_ok());
        assert!(packets("ring", 1, "slots").is_ok() && packets("ring", MOST_PACKETS, "slots").is_ok());
    }
}
