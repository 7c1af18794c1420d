//! Bursts that all senders start together (incast), and the times at which their last bytes arrived.

use std::io;

use serde::{Deserialize, Serialize};

use super::end::{DataPath, End};
use super::pace::{LONGEST_WAIT_NS, wait_until};
use super::settings::Settings;
use netcliff_packets::clock;
use netcliff_packets::error::WireError;

/// Largest number of bursts of a transfer: their times are stored.
pub const MOST_BURSTS: f64 = 100_000.0;

/// A burst that each flow sends periodically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Bytes of a burst, a multiple of the block size.
    pub bytes: u64,
    /// Time between the starts of two bursts (ns).
    pub every_ns: u64,
}

impl Burst {
    /// Refuses bursts that do not fit the block size or the duration of the transfer.
    pub(super) fn check(self, block_bytes: usize, time_s: f64) -> Result<(), WireError> {
        if self.bytes == 0 || !self.bytes.is_multiple_of(block_bytes as u64) {
            return Err(WireError::setting("burst", self.bytes, format!("whole blocks, of {block_bytes} bytes each")));
        }
        if self.every_ns == 0 || time_s * 1e9 / self.every_ns as f64 > MOST_BURSTS {
            let every = format!("{} s", self.every_ns as f64 * 1e-9);
            return Err(WireError::setting("every", every, format!("at most {MOST_BURSTS} bursts in a transfer")));
        }
        Ok(())
    }
}

/// A sender of bursts. The first burst starts with the transfer.
pub(super) struct Sender<'a> {
    mover: Box<dyn DataPath + 'a>,
    burst: Burst,
    began_ns: Option<u64>,
    sent: u64,
}

impl<'a> Sender<'a> {
    /// Sends bursts from the common start on or, without one, from the first step on.
    pub(super) fn new(mover: Box<dyn DataPath + 'a>, burst: Burst) -> Self {
        Self { mover, burst, began_ns: None, sent: 0 }
    }
}

impl DataPath for Sender<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let began_ns = *self.began_ns.get_or_insert_with(clock::monotonic_ns);
        // A burst that takes longer than its period is followed by the next one at once.
        let due_ns = began_ns.saturating_add((self.sent / self.burst.bytes).saturating_mul(self.burst.every_ns));
        let now_ns = wait_until(due_ns.min(clock::monotonic_ns() + LONGEST_WAIT_NS));
        if now_ns < due_ns {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (bytes, calls) = self.mover.step()?;
        self.sent += bytes as u64;
        Ok((bytes, calls))
    }

    fn due_ns(&self) -> Option<u64> {
        let began_ns = self.began_ns?;
        Some(began_ns.saturating_add((self.sent / self.burst.bytes).saturating_mul(self.burst.every_ns)))
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.mover.finish(end)
    }
}

/// A receiver that records when each burst is complete.
pub(super) struct Receiver<'a> {
    mover: Box<dyn DataPath + 'a>,
    burst: Burst,
    received: u64,
    whole_ns: Vec<u64>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(mover: Box<dyn DataPath + 'a>, burst: Burst) -> Self {
        Self { mover, burst, received: 0, whole_ns: Vec::new() }
    }
}

impl DataPath for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let (bytes, calls) = self.mover.step()?;
        self.received += bytes as u64;
        let whole = (self.received / self.burst.bytes).min(MOST_BURSTS as u64) as usize;
        if whole > self.whole_ns.len() {
            self.whole_ns.resize(whole, clock::monotonic_ns());
        }
        Ok((bytes, calls))
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        end.bursts_ns = std::mem::take(&mut self.whole_ns);
        self.mover.finish(end)
    }
}

/// Wraps the data path for the bursts of the settings, if any.
pub(super) fn of<'a>(settings: &Settings, sender: bool, mover: Box<dyn DataPath + 'a>) -> Box<dyn DataPath + 'a> {
    match settings.burst {
        None => mover,
        Some(burst) if sender => Box::new(Sender::new(mover, burst)),
        Some(burst) => Box::new(Receiver::new(mover, burst)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data path that moves ten bytes per step.
    struct Ten;

    impl DataPath for Ten {
        fn step(&mut self) -> io::Result<(usize, u64)> {
            Ok((10, 1))
        }
    }

    #[test]
    fn bursts_begin_when_they_are_due_and_are_whole_when_all_has_come() {
        let burst = Burst { bytes: 20, every_ns: 5_000_000 };
        let mut sender = Sender::new(Box::new(Ten), burst);
        let begin_ns = clock::monotonic_ns();
        let times: Vec<u64> = (0..6)
            .map(|_| {
                sender.step().expect("no error");
                clock::monotonic_ns() - begin_ns
            })
            .collect();
        assert!(times[2] >= 5_000_000 && times[4] >= 10_000_000, "{times:?}");
        assert!(sender.due_ns().is_some_and(|due_ns| due_ns >= begin_ns + 15_000_000));
        let mut receiver = Receiver::new(Box::new(Ten), burst);
        (0..5).for_each(|_| drop(receiver.step()));
        let mut end = End::default();
        receiver.finish(&mut end).expect("no error");
        assert!(end.bursts_ns.len() == 2 && end.bursts_ns[0] <= end.bursts_ns[1], "{end:?}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let burst = Burst { bytes: 65_536, every_ns: 10_000_000 };
        assert!(burst.check(65_536, 1.0).is_ok());
        assert!(burst.check(60_000, 1.0).expect_err("no whole blocks").to_string().contains("60000 bytes each"));
        assert!(
            Burst { every_ns: 1, ..burst }
                .check(65_536, 1.0)
                .expect_err("too many")
                .to_string()
                .contains("at most 100000")
        );
        assert!(Burst { bytes: 0, ..burst }.check(65_536, 1.0).is_err());
    }
}
