//! The clocks that both ends share. Reads go through the vDSO, so with the `tsc` clocksource they need no system call.

use serde::{Deserialize, Serialize};
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

/// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` in nanoseconds, from the shortest of eight reads of `CLOCK_REALTIME` between
/// two reads of `CLOCK_MONOTONIC`. The error is at most half the time of these reads (see [`read_cost_s`]).
pub fn realtime_minus_monotonic_ns() -> i64 {
    realtime_minus_monotonic().0
}

/// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` and its error bound, both in nanoseconds: see [`realtime_minus_monotonic_ns`].
pub fn realtime_minus_monotonic() -> (i64, u64) {
    (0..8)
        .map(|_| {
            let before = monotonic_ns();
            let real = realtime_ns();
            let after = monotonic_ns();
            let middle = before + (after - before) / 2;
            (after - before, real as i64 - middle as i64)
        })
        .min()
        .map_or((0, 0), |(window, offset)| (offset, window.div_ceil(2)))
}

/// A reading of three clocks at one moment. The clocks advance differently if the machine is suspended or moved to
/// another host.
#[derive(Debug, Clone, Copy)]
pub struct ClockStamp {
    monotonic_ns: u64,
    boottime_ns: u64,
    ticks: u64,
}

/// How the clocks advanced between two stamps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockReading {
    /// Time during which the machine slept \[s\]: `CLOCK_BOOTTIME` advanced, `CLOCK_MONOTONIC` did not.
    pub suspended_s: f64,
    /// Nanoseconds of `CLOCK_MONOTONIC` per tick of the processor's counter. `None` if the counter is not used.
    pub ns_per_tick: Option<f64>,
}

impl ClockStamp {
    /// Reads the clocks.
    pub fn now() -> Self {
        let (monotonic_ns, ticks) = read_both();
        // A few microseconds may pass between these reads, which is far below the length of a suspension.
        let apart_ns = read_ns(libc::CLOCK_BOOTTIME).saturating_sub(self::monotonic_ns());
        Self { monotonic_ns, boottime_ns: monotonic_ns + apart_ns, ticks }
    }

    /// How the clocks advanced from this stamp to a later one.
    pub fn until(&self, later: &Self) -> ClockReading {
        let passed_ns = |of: fn(&Self) -> u64| of(later).saturating_sub(of(self)) as f64;
        let ticks = later.ticks.wrapping_sub(self.ticks);
        let steady = ticks > 0 && counter_is_steady();
        ClockReading {
            suspended_s: (passed_ns(|s| s.boottime_ns) - passed_ns(|s| s.monotonic_ns)).max(0.0) * 1e-9,
            ns_per_tick: steady.then(|| passed_ns(|s| s.monotonic_ns) / ticks as f64),
        }
    }
}

/// Mean cost of one clock read \[s\], which measuring adds to each packet.
pub fn read_cost_s() -> f64 {
    const READS: u32 = 1000;
    let begin = monotonic_ns();
    for _ in 0..READS {
        std::hint::black_box(monotonic_ns());
    }
    (monotonic_ns() - begin) as f64 * 1e-9 / f64::from(READS + 1)
}

/// CPU time of a thread of this process since its start \[ns\]. `None` once the thread has ended.
pub fn thread_cpu_ns(thread: libc::pid_t) -> Option<u64> {
    // The kernel's encoding of a thread's scheduling clock (CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED).
    let clock: libc::clockid_t = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; an unknown clock is an error, not undefined.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (done == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of the calling thread since its start, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of a duration in seconds; `None` unless it is finite and not negative.
pub fn ns_from_s(seconds: f64) -> Option<u64> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(duration.as_nanos()).ok()
}

/// `CLOCK_MONOTONIC` computed from the processor's time stamp counter, for loops that read it continuously: half the
/// cost of a vDSO call. It is anchored to the kernel's clock every 10 ms and follows it to within about a microsecond.
/// If the counter cannot be used, it reads the kernel's clock.
#[derive(Debug, Clone)]
pub struct Ticker {
    /// Nanoseconds per tick, once known.
    ns_per_tick: Option<f64>,
    anchor: (u64, u64),
    /// Number of counter ticks after which the kernel's clock must be read again.
    lifetime: u64,
    last_ns: u64,
}

const ANCHOR_NS: u64 = 10_000_000;

impl Ticker {
    /// Measures the counter's rate, which takes 20 ms.
    pub fn new() -> Self {
        let from = read_both();
        if counter_is_steady() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let to = read_both();
        let ticks = to.1.wrapping_sub(from.1);
        let steady = counter_is_steady() && ticks > 0;
        let ns_per_tick = steady.then(|| (to.0 - from.0) as f64 / ticks as f64);
        let lifetime = ns_per_tick.map_or(0, |ns| (ANCHOR_NS as f64 / ns) as u64);
        Self { ns_per_tick, anchor: to, lifetime, last_ns: 0 }
    }

    /// Reads the kernel's clock; later times are computed from this reading.
    pub fn anchor(&mut self) {
        self.anchor = read_both();
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`; never less than the previous value.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        let Some(ns_per_tick) = self.ns_per_tick else { return monotonic_ns() };
        let mut ticks = counter().wrapping_sub(self.anchor.1);
        if ticks > self.lifetime {
            self.anchor();
            ticks = 0;
        }
        self.last_ns = self.last_ns.max(self.anchor.0 + (ticks as f64 * ns_per_tick) as u64);
        self.last_ns
    }
}

impl Ticker {
    /// Upper bound on the present difference between this clock and the kernel's \[ns\], from the shortest of eight
    /// reads between two reads of the kernel's clock.
    pub fn off_ns(&mut self) -> u64 {
        let read = |ticker: &mut Self| {
            let before = monotonic_ns();
            let now = ticker.now_ns();
            let window = monotonic_ns() - before;
            (window, now.abs_diff(before + window / 2) + window.div_ceil(2))
        };
        (0..8).map(|_| read(self)).min().map_or(0, |(_, off)| off)
    }
}

impl Default for Ticker {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the kernel's clock \[ns\] and the counter at the same moment: the pair with the shortest time between the
/// counter reads before and after it, of four tries.
fn read_both() -> (u64, u64) {
    let read = |_| {
        let before = counter();
        let ns = monotonic_ns();
        let after = counter();
        (after.wrapping_sub(before), (ns, before.wrapping_add(after.wrapping_sub(before) / 2)))
    };
    (0..4).map(read).min_by_key(|(span, _)| *span).map_or((0, 0), |(_, both)| both)
}

/// Reads the processor's time stamp counter; on architectures other than x86-64 the kernel's clock.
#[inline]
fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and Linux does not forbid it to programs by default; where
    // it is forbidden (prctl PR_SET_TSC) the kernel's vDSO clock could not work either.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    monotonic_ns()
}

/// Whether the kernel itself keeps time by the time stamp counter. It does so only if the counter is steady and
/// synchronous on all CPUs.
fn counter_is_steady() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|name| matches!(name.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page"))
        && cfg!(target_arch = "x86_64")
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec, and the clocks exist on every Linux, so the
    // call can not fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clock that measures the latency of tagged frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The sender's clock: from just before the frame is written to its software timestamp at the sink.
    #[default]
    Application,
    /// The kernel's clock, as frames pass the drivers of both ports.
    Kernel,
    /// The hardware clocks of the ports.
    Hardware,
}

impl netcliff_core::Choice for Stamps {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Application, "application", "The tester's own, read before a frame is written"),
        (
            Self::Kernel,
            "kernel",
            "The kernel's, from the driver of the sending port: without the time that the tester takes to send",
        ),
        (
            Self::Hardware,
            "hardware",
            "The clocks of the two ports' NICs, related by the system's clock if they differ; the ports stamp every frame during the test",
        ),
    ];
}

impl std::fmt::Display for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(netcliff_core::Choice::name(*self))
    }
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
        // A millisecond of tolerance: NTP may step the real time between the reads.
        assert!(before - 1_000_000 <= real && real <= after + 1_000_000);
    }

    #[test]
    fn the_ticker_follows_the_kernels_clock() {
        let mut ticker = Ticker::new();
        let (mut last, mut apart) = (0, Vec::new());
        for _ in 0..2000 {
            let before = monotonic_ns();
            let now = ticker.now_ns();
            assert!(now >= last);
            last = now;
            let after = monotonic_ns();
            apart.push(now.saturating_sub(after).max(before.saturating_sub(now)));
            std::thread::sleep(Duration::from_micros(20));
        }
        // The bound includes the duration of the reads, so it is above 0.
        assert!(ticker.off_ns() > 0);
        apart.sort_unstable();
        // The thread may be interrupted between the reads, hence a quantile.
        assert!(apart[1900] < 3000, "95 % within {} ns", apart[1900]);
    }

    #[test]
    fn clocks_that_agree_show_neither_a_suspend_nor_another_rate() {
        let stamps: Vec<ClockStamp> = (0..3)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(20));
                ClockStamp::now()
            })
            .collect();
        let [first, second] = [stamps[0].until(&stamps[1]), stamps[1].until(&stamps[2])];
        // If a stamp is interrupted between its reads, it is wrong by milliseconds at most.
        assert!(first.suspended_s < 0.01 && second.suspended_s < 0.01, "{first:?} {second:?}");
        if let (Some(a), Some(b)) = (first.ns_per_tick, second.ns_per_tick) {
            assert!((a / b - 1.0).abs() < 0.05, "{a} and {b} ns a tick");
        }
    }

    #[test]
    fn a_suspend_and_another_rate_show() {
        let at = |monotonic_ns, boottime_ns, ticks| ClockStamp { monotonic_ns, boottime_ns, ticks };
        let reading = at(0, 0, 0).until(&at(1_000_000_000, 3_500_000_000, 2_000_000_000));
        assert_eq!(reading.suspended_s, 2.5);
        assert!(reading.ns_per_tick.is_none_or(|ns| ns == 0.5));
    }

    #[test]
    fn seconds_become_nanoseconds_or_nothing() {
        assert_eq!(ns_from_s(1.5e-6), Some(1500));
        assert_eq!(ns_from_s(-1.0), None);
        assert_eq!(ns_from_s(f64::NAN), None);
        assert_eq!(ns_from_s(f64::INFINITY), None);
    }
}
