//! The tagged frame of one direction, from sending to its latencies.

mod socket;

use std::time::{Duration, Instant};

use netcliff_host::nic::phc::{DeviceClock, Line, Reading};

use socket::Times;

use super::{Absent, Stamped, Stamps};
use crate::tester::frame::Templates;
use crate::tester::stamps::PortStamps;
use netcliff_packets::error::WireError;
use netcliff_packets::port::SendOutcome;

pub(in crate::tester) use socket::{Tagger, Tap};

/// Longest wait for the timestamps of a frame after the trial. Programs that set clocks by such timestamps allow
/// drivers 10 ms.
const WAIT: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The sockets for the tagged frames of a direction, and the clocks of its ports.
#[derive(Debug)]
pub(in crate::tester) struct Tags {
    stamps: Stamps,
    tagger: Tagger,
    tap: Tap,
    clocks: Option<Clocks>,
}

/// The clocks of the ports, with their readings before the trial.
#[derive(Debug)]
struct Clocks {
    near: DeviceClock,
    far: DeviceClock,
    before: Option<[Reading; 2]>,
}

impl Clocks {
    fn open(near: &PortStamps, far: &PortStamps) -> Result<Self, WireError> {
        let open = |port: &PortStamps| {
            let action = || format!("use the clock of interface {}", port.interface);
            let number = port.offered.and_then(|offered| offered.clock);
            let number = number.ok_or_else(|| WireError::system(action(), nix::Error::ENODEV))?;
            DeviceClock::open(number).map_err(|error| WireError::system(action(), error))
        };
        Ok(Self { near: open(near)?, far: open(far)?, before: None })
    }

    fn read(&self) -> Result<[Reading; 2], WireError> {
        let read = |clock: &DeviceClock| {
            let action = || format!("read /dev/ptp{} against the system's clock", clock.number());
            clock.read().map_err(|error| WireError::system(action(), error))
        };
        Ok([read(&self.near)?, read(&self.far)?])
    }

    /// Time from a timestamp of the near port to a timestamp of the far port, and its uncertainty (s). `None` if a
    /// clock was set in between.
    fn between(&self, left_ns: i64, came_ns: i64) -> Result<Option<(f64, f64)>, WireError> {
        if self.near.number() == self.far.number() {
            return Ok(Some(((came_ns - left_ns) as f64 * 1e-9, 0.0)));
        }
        let (Some(before), after) = (self.before, self.read()?) else { return Ok(None) };
        Ok(apart(before, after, left_ns, came_ns))
    }
}

/// Time from a timestamp of the near clock to one of the far clock, and its uncertainty (s), from readings of both
/// clocks before and after the trial. `None` if a clock was set in between, or a timestamp is not from the trial.
fn apart(before: [Reading; 2], after: [Reading; 2], left_ns: i64, came_ns: i64) -> Option<(f64, f64)> {
    let line = |at: usize| Line::between(before[at], after[at]).ok();
    let (near, far) = (line(0)?, line(1)?);
    let ns = far.system_ns(came_ns)? - near.system_ns(left_ns)?;
    Some((ns as f64 * 1e-9, near.uncertainty_s() + far.uncertainty_s()))
}

impl Tags {
    /// Prepares the sockets at the near and the far port.
    ///
    /// # Errors
    /// Hardware timestamps are requested, and a port's clock cannot be read.
    pub(in crate::tester) fn new(
        stamps: Stamps,
        (tagger, near): (Tagger, &PortStamps),
        (tap, far): (Tap, &PortStamps),
    ) -> Result<Self, WireError> {
        let clocks = (stamps == Stamps::Hardware).then(|| Clocks::open(near, far)).transpose()?;
        Ok(Self { stamps, tagger, tap, clocks })
    }

    /// Selects the tagged frame of the next trial.
    pub(in crate::tester) fn begin(&mut self, templates: &Templates, tag: u16, sequence: u64) -> Result<(), WireError> {
        self.tagger.clear()?;
        self.tap.wait_for(tag, sequence, templates.label_at())?;
        if let Some(clocks) = &mut self.clocks {
            clocks.before = Some(clocks.read()?);
        }
        Ok(())
    }

    /// Sends the tagged frame.
    pub(in crate::tester) fn send(
        &mut self,
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<SendOutcome, WireError> {
        self.tagger.send(length, write)
    }

    /// Returns, after the trial, the latencies of the tagged frame, which the sink received. `None` if the frame was
    /// not sent.
    pub(in crate::tester) fn end(&mut self) -> Result<Option<Stamped>, WireError> {
        let until = Instant::now() + WAIT;
        let mut came: Option<Times> = None;
        loop {
            let Some((written_ns, left)) = self.tagger.times()? else { return Ok(None) };
            if came.is_none() {
                came = self.tap.times()?;
            }
            let all = left.by(self.stamps).and(came);
            if all.is_some() || Instant::now() >= until {
                let came = came.unwrap_or_default();
                return Ok(Some(latencies(self.stamps, written_ns, left, came, self.by_hardware(left, came)?)));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Latency by the devices' clocks (s), and its uncertainty (s). `None` if a timestamp is missing or the clocks
    /// cannot be related.
    fn by_hardware(&self, left: Times, came: Times) -> Result<Option<(f64, f64)>, WireError> {
        match (&self.clocks, left.hardware_ns, came.hardware_ns) {
            (Some(clocks), Some(left_ns), Some(came_ns)) => clocks.between(left_ns, came_ns),
            _ => Ok(None),
        }
    }
}

/// Computes the latencies of a frame that arrived from its timestamps.
fn latencies(stamps: Stamps, written_ns: i64, left: Times, came: Times, hardware: Option<(f64, f64)>) -> Stamped {
    let from = |from_ns: Option<i64>| Some((came.software_ns? - from_ns?) as f64 * 1e-9);
    let (no_left, no_came) = (left.by(stamps).is_none(), came.by(stamps).is_none());
    let unclear = stamps == Stamps::Hardware && !no_left && !no_came && hardware.is_none();
    Stamped {
        application_s: from(Some(written_ns)),
        kernel_s: from(left.software_ns),
        hardware_s: hardware.map(|(latency_s, _)| latency_s),
        uncertainty_s: hardware.map(|(_, uncertainty_s)| uncertainty_s),
        absent: Absent { left: no_left.into(), came: no_came.into(), clock: unclear.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(device_ns: i64, system_ns: i64, window_ns: u64) -> Reading {
        Reading { device_ns, system_ns, window_ns }
    }

    const SECOND: i64 = 1_000_000_000;

    /// Two clocks with different origins, one of them 50 ppm fast, are related to each other.
    #[test]
    fn two_devices_clocks_are_brought_together() {
        let before = [reading(5 * SECOND, 100 * SECOND, 800), reading(70 * SECOND, 100 * SECOND, 600)];
        let after = [reading(7 * SECOND, 102 * SECOND, 400), reading(72 * SECOND + 100_000, 102 * SECOND, 700)];
        // The frame left at 101 s and arrived 40 us later by the system's clock.
        let (left, came) = (6 * SECOND, 71 * SECOND + 50_000 + 40_002);
        let (latency_s, uncertainty_s) = apart(before, after, left, came).expect("both clocks went evenly");
        assert!((latency_s - 40e-6).abs() < 2e-9, "{latency_s}");
        assert!((uncertainty_s - 0.75e-6).abs() < 1e-12, "{uncertainty_s}");
        // One of the clocks was set during the trial.
        let set = [after[0], reading(71 * SECOND, 102 * SECOND, 700)];
        assert_eq!(apart(before, set, left, came), None);
        // The timestamp is older than the trial.
        assert_eq!(apart(before, after, 4 * SECOND, came), None);
    }

    #[test]
    fn what_did_not_come_back_is_counted_and_not_guessed() {
        let times = |software_ns, hardware_ns| Times { software_ns, hardware_ns };
        let (left, came) = (times(Some(1_002_000), None), times(Some(1_010_000), None));
        let kernel = latencies(Stamps::Kernel, 1_000_000, left, came, None);
        assert_eq!((kernel.absent, kernel.hardware_s), (Absent::default(), None));
        let near = |value: Option<f64>, s: f64| value.is_some_and(|value| (value - s).abs() < 1e-12);
        assert!(near(kernel.application_s, 10e-6) && near(kernel.by(Stamps::Kernel), 8e-6), "{kernel:?}");
        // Without a timestamp of departure, the latency by the kernel's clock is unknown, but the latency by the
        // application's clock is known.
        let unsent = latencies(Stamps::Kernel, 1_000_000, Times::default(), came, None);
        assert_eq!((unsent.kernel_s, unsent.absent), (None, Absent { left: 1, came: 0, clock: 0 }));
        assert!(near(unsent.application_s, 10e-6));
        // The device stamped only one end.
        let half = latencies(Stamps::Hardware, 1_000_000, times(Some(1_002_000), Some(7)), came, None);
        assert_eq!((half.hardware_s, half.absent), (None, Absent { left: 0, came: 1, clock: 0 }));
        assert!(near(half.kernel_s, 8e-6));
        // Both ends were stamped, by clocks that cannot be related.
        let set = latencies(Stamps::Hardware, 1_000_000, times(None, Some(7)), times(None, Some(9)), None);
        assert_eq!(set, Stamped { absent: Absent { left: 0, came: 0, clock: 1 }, ..Stamped::default() });
        let both =
            latencies(Stamps::Hardware, 1_000_000, times(None, Some(7)), times(None, Some(9)), Some((5e-6, 1e-7)));
        assert_eq!((both.by(Stamps::Hardware), both.uncertainty_s), (Some(5e-6), Some(1e-7)));
        assert_eq!(both.absent, Absent::default());
    }
}
