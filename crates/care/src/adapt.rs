//! Switches a device between interrupts and polling by its load: the hybrid scheme of Salah, El-Badawi and Khalid
//! (2007) on a real kernel.
//!
//! [`Follower`] decides from counters and times; it has no clock and no device. [`Forecast`] has the engines'
//! predictions for both modes, made before any setting is changed. [`run`] applies both to devices.
//! `netcliff_host::tune::adapt` makes the settings.

mod forecast;
mod running;

pub use forecast::{Both, Forecast, Side};
pub use running::{Device, Event, Options, Spent, run};

use netcliff_core::Host;
use netcliff_core::switching::{self, Averages, Part};
use netcliff_host::tune::adapt::Counters;

/// Weight of a new window in the moving averages: after three windows, all earlier ones together have a weight of 1/8.
const WEIGHT: f64 = 0.5;
/// A counter of 32 bits wraps at this value.
const WRAP_32: u64 = 1 << 32;
/// Maximum number of packets that a device with 32-bit counters can receive in a window. A larger difference means that
/// the driver reset its counters.
const MOST_PACKETS: u64 = 1 << 28;
/// The same limit for bytes.
const MOST_BYTES: u64 = 1 << 31;

/// Rates at which to switch.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// Switch to polling above this load (pps). `None`: use the load at which interrupts saturate the host with frames
    /// of the measured size, by Salah et al. (2007), eq. (13), from `costs`.
    pub up_pps: Option<f64>,
    /// Switch back to interrupts below this load (pps). `None`: a tenth below the upper threshold.
    pub down_pps: Option<f64>,
    /// Costs of the host. Required if `up_pps` is `None`.
    pub costs: Option<Host>,
}

impl Thresholds {
    /// Returns the upper threshold for this frame size with FCS (pps); infinite if neither a rate nor costs are given.
    pub fn up_pps(&self, frame_bytes: f64) -> f64 {
        let saturation =
            |host: &Host| switching::saturation(packet_s(host, frame_bytes), host.interrupt_s + host.mask_s);
        self.up_pps.or_else(|| self.costs.as_ref().map(saturation)).unwrap_or(f64::INFINITY)
    }

    /// Returns the lower threshold for this frame size with FCS (pps); at most the upper threshold.
    pub fn down_pps(&self, frame_bytes: f64) -> f64 {
        let up_pps = self.up_pps(frame_bytes);
        self.down_pps.unwrap_or_else(|| switching::down_of(up_pps)).min(up_pps)
    }
}

/// CPU time per packet without interrupts: protocol work and the reading program (s).
fn packet_s(host: &Host, frame_bytes: f64) -> f64 {
    host.service_s(frame_bytes) + host.application_s.unwrap_or(0.0)
}

/// Load of a device after a time window, as moving averages over the windows.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Moving average of the arriving packets, lost ones included (pps).
    pub pps: f64,
    /// Moving average of the frame size (bytes, FCS included).
    pub frame_bytes: f64,
    /// Load above which the device switches to polling, at this frame size (pps).
    pub up_pps: f64,
    /// Load below which the device switches back to interrupts, at this frame size (pps).
    pub down_pps: f64,
}

/// Follows the load of a device and decides which mode to use.
#[derive(Debug, Clone)]
pub struct Follower {
    thresholds: Thresholds,
    /// Shortest time between two switches (s).
    hold_s: f64,
    averages: Averages,
    part: Part,
    /// Time of the last switch, or of the first reading (s).
    since_s: Option<f64>,
    last: Option<(f64, Counters)>,
    /// Time (s) and number of arrived packets of all windows, by mode.
    spent: [(f64, f64); 2],
}

impl Follower {
    /// Makes the state of a device that starts with interrupts and stays in each mode for at least `hold_s`.
    pub fn new(thresholds: Thresholds, hold_s: f64) -> Self {
        let averages = Averages::new(WEIGHT);
        Self { thresholds, hold_s, averages, part: Part::Interrupt, since_s: None, last: None, spent: [(0.0, 0.0); 2] }
    }

    /// Returns the present mode.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Returns time (s) and packets of the windows in which a mode was used.
    pub fn spent(&self, part: Part) -> (f64, f64) {
        self.spent[part as usize]
    }

    /// Takes a reading of the counters at a time (s, of a monotonic clock). Returns the averages, and the mode to
    /// switch to, which then is the present mode. The averages are `None` at the first reading, after a reset of the
    /// counters, and before any packet.
    pub fn reading(&mut self, at_s: f64, now: Counters) -> (Option<Measured>, Option<Part>) {
        let since_s = *self.since_s.get_or_insert(at_s);
        let Some((last_s, last)) = self.last.filter(|(last_s, _)| at_s > *last_s) else {
            self.last.get_or_insert((at_s, now));
            return (None, None);
        };
        self.last = Some((at_s, now));
        let Some(grown) = grown(last, now) else { return (None, None) };
        let (window_s, came) = (at_s - last_s, (grown.packets + grown.lost) as f64);
        let spent = &mut self.spent[self.part as usize];
        *spent = (spent.0 + window_s, spent.1 + came);
        let known_bytes = || self.averages.values().map(|(_, bytes)| bytes);
        let Some(bytes) = grown.frame_bytes().or_else(known_bytes) else { return (None, None) };
        let (pps, frame_bytes) = self.averages.window(came / window_s, bytes);
        let [up_pps, down_pps] = [self.thresholds.up_pps(frame_bytes), self.thresholds.down_pps(frame_bytes)];
        let wanted = switching::verdict(pps, up_pps, down_pps)
            .filter(|part| *part != self.part && at_s - since_s >= self.hold_s);
        if let Some(part) = wanted {
            (self.part, self.since_s) = (part, Some(at_s));
        }
        (Some(Measured { pps, frame_bytes, up_pps, down_pps }), wanted)
    }
}

/// Returns the increase between two readings. `None` if the driver reset its counters, for example after a reset of the
/// device.
fn grown(last: Counters, now: Counters) -> Option<Counters> {
    let of = |last: u64, now: u64, most: u64| match now.checked_sub(last) {
        Some(grown) => Some(grown),
        None => (now + WRAP_32).checked_sub(last).filter(|grown| last < WRAP_32 && *grown < most),
    };
    Some(Counters {
        packets: of(last.packets, now.packets, MOST_PACKETS)?,
        bytes: of(last.bytes, now.bytes, MOST_BYTES)?,
        lost: of(last.lost, now.lost, MOST_PACKETS)?,
    })
}

#[cfg(test)]
mod tests;
