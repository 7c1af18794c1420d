//! Pacing in user space: datagrams leave when they are due. Lost time is not made up for by a burst.

use std::io;
use std::time::Duration;

pub use super::end::Pacing;
use super::end::{DataPath, End};
use netcliff_packets::clock;

/// A sender that is later than this skips the excess (ns), so that a catch-up burst covers at most this time. The
/// kernel's timer slack and a wake-up together take less (`netcliff stream --channel udp --rate 100Mbit/s --json`,
/// `late_mean_s`).
const MOST_LATE_NS: u64 = 200_000;

/// The thread spins for the last part of a wait (ns), because a sleep ends late by the timer slack of 50 us and a
/// wake-up.
pub(super) const SPIN_NS: u64 = 80_000;

/// Longest single wait (ns): the waiting thread has to check whether to continue.
pub(super) const LONGEST_WAIT_NS: u64 = 50_000_000;

/// Computes when the next datagram is due.
#[derive(Debug)]
pub(super) struct Pacer {
    bits_per_s: f64,
    ns_per_byte: f64,
    began_ns: Option<u64>,
    /// Due time of the next datagram since `began_ns`, with skipped time (ns).
    due_ns: f64,
    given_up_ns: u64,
    waits: u64,
    late_sum_ns: u64,
    late_max_ns: u64,
    bytes: u64,
    last_ns: u64,
}

impl Pacer {
    pub(super) fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s: bits_per_s as f64,
            ns_per_byte: 8e9 / bits_per_s as f64,
            began_ns: None,
            due_ns: 0.0,
            given_up_ns: 0,
            waits: 0,
            late_sum_ns: 0,
            late_max_ns: 0,
            bytes: 0,
            last_ns: 0,
        }
    }

    /// Waits until the next datagram of `bytes` is due. Returns the number of datagrams that are due then, at most
    /// `most`.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`]: no datagram is due yet after [`LONGEST_WAIT_NS`].
    pub(super) fn wait(&mut self, bytes: usize, most: usize) -> io::Result<usize> {
        let began_ns = *self.began_ns.get_or_insert_with(clock::monotonic_ns);
        let due_ns = began_ns.saturating_add(self.due_ns as u64);
        let now_ns = wait_until(due_ns.min(clock::monotonic_ns() + LONGEST_WAIT_NS));
        if now_ns < due_ns {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let late_ns = now_ns - due_ns;
        self.waits += 1;
        self.late_sum_ns += late_ns;
        self.late_max_ns = self.late_max_ns.max(late_ns);
        if late_ns > MOST_LATE_NS {
            let given_up_ns = late_ns - MOST_LATE_NS;
            self.given_up_ns += given_up_ns;
            self.due_ns += given_up_ns as f64;
        }
        let gap_ns = self.ns_per_byte * bytes as f64;
        let behind = late_ns.min(MOST_LATE_NS) as f64 / gap_ns;
        Ok((1_usize.saturating_add(behind as usize)).min(most))
    }

    /// Time at which the next datagram is due (ns). `None` before the first, which is due at once.
    pub(super) fn due_ns(&self) -> Option<u64> {
        Some(self.began_ns?.saturating_add(self.due_ns as u64))
    }

    /// Records the bytes sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.due_ns += self.ns_per_byte * bytes as f64;
        self.bytes += bytes as u64;
        self.last_ns = clock::monotonic_ns();
    }

    pub(super) fn report(&self) -> Pacing {
        // The rate includes the last datagram's own time: it counts up to the due time of the next datagram.
        let span_s = (self.due_ns * 1e-9).max((self.last_ns - self.began_ns.unwrap_or(self.last_ns)) as f64 * 1e-9);
        let seconds = |ns: u64| ns as f64 * 1e-9;
        Pacing {
            asked_bps: self.bits_per_s,
            sent_bps: if span_s > 0.0 { self.bytes as f64 * 8.0 / span_s } else { 0.0 },
            late_mean_s: if self.waits > 0 { seconds(self.late_sum_ns) / self.waits as f64 } else { 0.0 },
            late_max_s: seconds(self.late_max_ns),
            given_up_s: seconds(self.given_up_ns),
        }
    }
}

/// A sender of a stream that hands over each block when it is due.
pub(super) struct Paced<'a> {
    mover: Box<dyn DataPath + 'a>,
    pacer: Pacer,
    block_bytes: usize,
}

impl<'a> Paced<'a> {
    pub(super) fn new(mover: Box<dyn DataPath + 'a>, bits_per_s: u64, block_bytes: usize) -> Self {
        Self { mover, pacer: Pacer::new(bits_per_s), block_bytes }
    }
}

impl DataPath for Paced<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        self.pacer.wait(self.block_bytes, 1)?;
        let (bytes, calls) = self.mover.step()?;
        self.pacer.sent(bytes);
        Ok((bytes, calls))
    }

    fn due_ns(&self) -> Option<u64> {
        self.pacer.due_ns()
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        end.pacing = Some(self.pacer.report());
        self.mover.finish(end)
    }
}

/// Sleeps, then spins, until `due_ns`. Returns the time at which it ended (ns).
pub(crate) fn wait_until(due_ns: u64) -> u64 {
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= due_ns {
            return now_ns;
        }
        match (due_ns - now_ns).checked_sub(SPIN_NS) {
            Some(ns) if ns > 0 => std::thread::sleep(Duration::from_nanos(ns)),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_and_lost_time_is_no_burst() {
        // 8 Mbit/s with datagrams of 1000 bytes: one per millisecond.
        let mut pacer = Pacer::new(8_000_000);
        let begin_ns = clock::monotonic_ns();
        for _ in 0..20 {
            assert!(pacer.wait(1000, 64).expect("it is due within a millisecond") >= 1);
            pacer.sent(1000);
        }
        let took_s = (clock::monotonic_ns() - begin_ns) as f64 * 1e-9;
        // Nineteen gaps are never shorter. Only a busy machine makes them longer, and then the pacer reports it.
        assert!(took_s >= 0.0188, "{took_s}");
        let report = pacer.report();
        assert!(report.sent_bps <= 8.1e6 && report.late_max_s >= report.late_mean_s, "{report:?}");
        std::thread::sleep(Duration::from_millis(20));
        // Twenty were due, but only those within the tolerated time are sent at once.
        assert_eq!(pacer.wait(1000, 64).expect("it is due"), 1);
        assert!(pacer.report().given_up_s > 0.015);
    }

    #[test]
    fn what_is_due_goes_together_up_to_what_the_sender_takes() {
        // 1 byte per nanosecond: in the tolerated time, 2000 blocks of 100 bytes are due.
        let mut pacer = Pacer::new(8_000_000_000);
        pacer.wait(100, 64).expect("the first is due at once");
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(pacer.wait(100, 64).expect("it is due"), 64);
    }

    /// A wait stays interruptible even if a block is due in a thousand years.
    #[test]
    fn a_wait_is_short_however_slow_the_rate() {
        for bits_per_s in [0, 1] {
            let mut pacer = Pacer::new(bits_per_s);
            pacer.wait(1 << 20, 1).expect("the first is due at once");
            pacer.sent(1 << 20);
            let begin_ns = clock::monotonic_ns();
            assert_eq!(pacer.wait(1 << 20, 1).expect_err("it is not due").kind(), io::ErrorKind::Interrupted);
            assert!(clock::monotonic_ns() - begin_ns < 2_000_000_000);
            assert!(pacer.due_ns().is_some_and(|due_ns| due_ns > begin_ns));
        }
    }
}
