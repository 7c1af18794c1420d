//! Clocks of network devices (PHC, `/dev/ptpN`) compared with the system's clock: [`DeviceClock`] reads both at once,
//! [`Line`] converts a time of the device's clock to the system's. Only [`DeviceClock`] accesses a device.

use std::{fs::File, io, os::fd::AsRawFd};

/// Number of samples of both clocks per call (the most that the kernel allows); the sample with the shortest window
/// counts.
const SAMPLES: u32 = libc::PTP_MAX_SAMPLES;
/// Largest relative rate difference between a device's clock and the system's. Beyond it a clock was stepped or is
/// broken: crystals deviate by up to 100 ppm, and the kernel adjusts the rate of its own clock by at most 500 ppm.
const MOST_DRIFT: f64 = 1e-3;

/// A device's clock and CLOCK_REALTIME at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The device's clock (ns).
    pub device_ns: i64,
    /// CLOCK_REALTIME (ns), the middle of the window.
    pub system_ns: i64,
    /// Time in which the device's clock was read (ns). The moment is known to within half of it.
    pub window_ns: u64,
}

impl Reading {
    /// Returns the sample (system before, device, system after; ns) with the shortest window; `None` if time went
    /// backwards in all samples.
    pub fn tightest(samples: impl IntoIterator<Item = (i64, i64, i64)>) -> Option<Self> {
        let readings = samples.into_iter().filter_map(|(before, device_ns, after)| {
            let window_ns = u64::try_from(after.checked_sub(before)?).ok()?;
            Some(Self { device_ns, system_ns: before + (after - before) / 2, window_ns })
        });
        readings.min_by_key(|reading| reading.window_ns)
    }
}

/// Why times of a device's clock cannot be converted to the system's.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoLine {
    /// One of the clocks was set between the readings.
    #[error("its clock went {device_s:.6} s while the system's went {system_s:.6} s: one of them was set in that time")]
    Stepped {
        /// Elapsed time by the device's clock (s).
        device_s: f64,
        /// Elapsed time by the system's clock (s).
        system_s: f64,
    },
    /// There is no time between the readings.
    #[error("the two readings of its clock are of one moment")]
    OneMoment,
}

/// Linear conversion of a device clock's times to the system's, through two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    from: Reading,
    to: Reading,
    /// Rate of the system's clock relative to the device's.
    rate: f64,
}

impl Line {
    /// The line from a reading before to a reading after the times to be converted.
    ///
    /// # Errors
    /// A clock was set between the two.
    pub fn between(from: Reading, to: Reading) -> Result<Self, NoLine> {
        let (device_ns, system_ns) = (to.device_ns - from.device_ns, to.system_ns - from.system_ns);
        if device_ns == 0 && system_ns == 0 {
            return Err(NoLine::OneMoment);
        }
        let rate = system_ns as f64 / device_ns as f64;
        // The uncertainty of the readings, half of each window, does not count as drift.
        let open = (from.window_ns + to.window_ns) as f64 / 2.0;
        let apart = (system_ns - device_ns).unsigned_abs() as f64;
        if device_ns <= 0 || system_ns <= 0 || apart > MOST_DRIFT * device_ns as f64 + open {
            return Err(NoLine::Stepped { device_s: device_ns as f64 * 1e-9, system_s: system_ns as f64 * 1e-9 });
        }
        Ok(Self { from, to, rate })
    }

    /// System time (ns of CLOCK_REALTIME) at which the device's clock showed `device_ns`; `None` outside the two
    /// readings.
    pub fn system_ns(&self, device_ns: i64) -> Option<i64> {
        let inside = (self.from.device_ns..=self.to.device_ns).contains(&device_ns);
        inside.then(|| self.from.system_ns + ((device_ns - self.from.device_ns) as f64 * self.rate).round() as i64)
    }

    /// Uncertainty of [`Line::system_ns`] (s), if each clock's rate was constant between the readings: half the wider
    /// reading's window.
    pub fn uncertainty_s(&self) -> f64 {
        self.from.window_ns.max(self.to.window_ns) as f64 * 0.5e-9
    }
}

/// The clock of a device.
#[derive(Debug)]
pub struct DeviceClock {
    file: File,
    number: u32,
}

impl DeviceClock {
    /// Opens `/dev/ptpN`.
    ///
    /// # Errors
    /// The device file does not exist, or may not be read.
    pub fn open(number: u32) -> io::Result<Self> {
        let path = format!("/dev/ptp{number}");
        let file = File::open(&path).map_err(|error| io::Error::new(error.kind(), format!("open {path}: {error}")))?;
        Ok(Self { file, number })
    }

    /// Its number. Ports with the same number share the clock.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Reads the clock together with the system's, by the best method of the driver: both in one instant (PRECISE),
    /// between two reads of the system's clock by the driver (EXTENDED), or between two reads by the kernel.
    ///
    /// # Errors
    /// The driver supports none of them.
    pub fn read(&self) -> io::Result<Reading> {
        self.at_once().or_else(|_| self.in_driver()).or_else(|_| self.around())
    }

    fn at_once(&self) -> io::Result<Reading> {
        const ZERO: libc::ptp_clock_time = libc::ptp_clock_time { sec: 0, nsec: 0, reserved: 0 };
        let mut both =
            libc::ptp_sys_offset_precise { device: ZERO, sys_realtime: ZERO, sys_monoraw: ZERO, rsv: [0; 4] };
        self.ask(libc::PTP_SYS_OFFSET_PRECISE, &mut both)?;
        Ok(Reading { device_ns: ns(&both.device), system_ns: ns(&both.sys_realtime), window_ns: 0 })
    }

    fn in_driver(&self) -> io::Result<Reading> {
        // SAFETY: plain integers, for which all-zero is a valid value.
        let mut offsets: libc::ptp_sys_offset_extended = unsafe { std::mem::zeroed() };
        offsets.n_samples = SAMPLES;
        self.ask(libc::PTP_SYS_OFFSET_EXTENDED, &mut offsets)?;
        let samples = offsets.ts.iter().take(offsets.n_samples as usize);
        Reading::tightest(samples.map(|[before, device, after]| (ns(before), ns(device), ns(after)))).ok_or_else(none)
    }

    fn around(&self) -> io::Result<Reading> {
        // SAFETY: as above.
        let mut offsets: libc::ptp_sys_offset = unsafe { std::mem::zeroed() };
        offsets.n_samples = SAMPLES;
        self.ask(libc::PTP_SYS_OFFSET, &mut offsets)?;
        Reading::tightest(alternating(&offsets.ts, offsets.n_samples)).ok_or_else(none)
    }

    fn ask<T>(&self, request: libc::Ioctl, data: &mut T) -> io::Result<()> {
        // SAFETY: every caller passes the structure that the number encodes, with its size; it outlives the call.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), request, std::ptr::from_mut(data)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Samples from alternating times (system, device, system, device, ..., system): each device time with its two
/// neighbours.
fn alternating(times: &[libc::ptp_clock_time], samples: u32) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
    let triples = times.windows(3).step_by(2).take(samples as usize);
    triples.map(|three| (ns(&three[0]), ns(&three[1]), ns(&three[2])))
}

fn ns(time: &libc::ptp_clock_time) -> i64 {
    time.sec * 1_000_000_000 + i64::from(time.nsec)
}

fn none() -> io::Error {
    io::Error::other("the system's clock went backwards during every read of the device's clock")
}

#[cfg(test)]
mod tests;
