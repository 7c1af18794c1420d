//! The clocks both ends share. Reads go through the vDSO: no system call with the `tsc` clocksource.

use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of every intended send time.
#[inline]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME`, the clock of the kernel's receive timestamps.
#[inline]
pub fn realtime_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` in nanoseconds, from the tightest of eight bracketed reads;
/// its error is at most half the time those reads take (see [`read_cost_s`]).
pub fn realtime_minus_monotonic_ns() -> i64 {
    (0..8)
        .map(|_| {
            let before = monotonic_ns();
            let real = realtime_ns();
            let after = monotonic_ns();
            let middle = before + (after - before) / 2;
            (after - before, real as i64 - middle as i64)
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

/// The mean cost of one clock read, in seconds: what the instrument itself spends a packet.
pub fn read_cost_s() -> f64 {
    const READS: u32 = 1000;
    let begin = monotonic_ns();
    for _ in 0..READS {
        std::hint::black_box(monotonic_ns());
    }
    (monotonic_ns() - begin) as f64 * 1e-9 / f64::from(READS + 1)
}

/// CPU time of a thread of this process since its start, in nanoseconds; `None` once it has ended.
pub(crate) fn thread_cpu_ns(thread: libc::pid_t) -> Option<u64> {
    // The kernel's encoding of a thread's scheduling clock (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
    let clock: libc::clockid_t = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; an unknown clock is an error, not undefined.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (done == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds of a duration in seconds; `None` unless it is finite and not negative.
pub fn ns_from_s(seconds: f64) -> Option<u64> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec, and both clocks exist on every Linux, so the
    // call can not fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_translates_between_the_clocks() {
        let offset = realtime_minus_monotonic_ns();
        let before = monotonic_ns() as i64 + offset;
        let real = realtime_ns() as i64;
        let after = monotonic_ns() as i64 + offset;
        // A millisecond of slack: the machine may be stepped by NTP between the reads.
        assert!(before - 1_000_000 <= real && real <= after + 1_000_000);
    }

    #[test]
    fn seconds_become_nanoseconds_or_nothing() {
        assert_eq!(ns_from_s(1.5e-6), Some(1500));
        assert_eq!(ns_from_s(-1.0), None);
        assert_eq!(ns_from_s(f64::NAN), None);
        assert_eq!(ns_from_s(f64::INFINITY), None);
    }
}
