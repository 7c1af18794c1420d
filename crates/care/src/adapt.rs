//! A device between interrupts and polling by its load: the hybrid scheme of Salah, El-Badawi and Khalid (2007) on a real kernel.
//!
//! [`Follower`] decides: counters and the time in, a switch out, no clock and no device. [`Forecast`] is what the engines expect of both
//! parts, before anything is set. [`run`] follows devices with both. The settings themselves are `netcliff_host::tune::adapt`'s.

mod forecast;
mod running;

pub use forecast::{Both, Forecast, Side};
pub use running::{Device, Event, Options, Spent, run};

use netcliff_core::Host;
use netcliff_core::switching::{self, Averages, Part};
use netcliff_host::tune::adapt::Counters;

/// Weight of a new window in the averages: three windows forget 7/8 of what was before.
const WEIGHT: f64 = 0.5;
/// Counters of 32 bits start again here.
const WRAP_32: u64 = 1 << 32;
/// Packets and bytes that a device with such counters cannot receive in a window: more is a driver that began to count anew.
const MOST_PACKETS: u64 = 1 << 28;
const MOST_BYTES: u64 = 1 << 31;

/// Rates at which to switch.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// To polling above (pps); `None`: where interrupts saturate the host with frames as they are measured, eq. (13) by `costs`.
    pub up_pps: Option<f64>,
    /// Back below (pps); `None`: a tenth below the upper one.
    pub down_pps: Option<f64>,
    /// Costs of the host. Without them `up_pps` has to be given.
    pub costs: Option<Host>,
}

impl Thresholds {
    /// The upper one for frames of this size with FCS (pps); infinite with neither a rate nor costs.
    pub fn up_pps(&self, frame_bytes: f64) -> f64 {
        let saturation =
            |host: &Host| switching::saturation(packet_s(host, frame_bytes), host.interrupt_s + host.mask_s);
        self.up_pps.or_else(|| self.costs.as_ref().map(saturation)).unwrap_or(f64::INFINITY)
    }

    /// The lower one (pps).
    pub fn down_pps(&self, frame_bytes: f64) -> f64 {
        let up_pps = self.up_pps(frame_bytes);
        self.down_pps.unwrap_or_else(|| switching::down_of(up_pps)).min(up_pps)
    }
}

/// CPU time of a packet apart from interrupts, its protocol work and its reader's (s).
fn packet_s(host: &Host, frame_bytes: f64) -> f64 {
    host.service_s(frame_bytes) + host.application_s.unwrap_or(0.0)
}

/// What a window of time brought.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Packets that came, lost ones included, as a moving average (pps).
    pub pps: f64,
    /// Mean frame size with FCS, as a moving average (bytes).
    pub frame_bytes: f64,
    /// Upper threshold at that size (pps).
    pub up_pps: f64,
    /// Lower threshold at that size (pps).
    pub down_pps: f64,
}

/// Follows the load of a device and decides which part is to run.
#[derive(Debug, Clone)]
pub struct Follower {
    thresholds: Thresholds,
    /// Least time between two switches (s).
    hold_s: f64,
    averages: Averages,
    part: Part,
    /// Time of the last switch, or of the first reading (s).
    since_s: Option<f64>,
    last: Option<(f64, Counters)>,
    /// Of all windows, by part: time (s), packets that came.
    spent: [(f64, f64); 2],
}

impl Follower {
    /// A device that begins with interrupts, and stays in a part for `hold_s` at least.
    pub fn new(thresholds: Thresholds, hold_s: f64) -> Self {
        let averages = Averages::new(WEIGHT);
        Self { thresholds, hold_s, averages, part: Part::Interrupt, since_s: None, last: None, spent: [(0.0, 0.0); 2] }
    }

    /// The part that runs.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Time (s) and packets of the windows that a part has run for.
    pub fn spent(&self, part: Part) -> (f64, f64) {
        self.spent[part as usize]
    }

    /// Takes the counters at a time (s, of a clock that does not go back). Returns what was measured, `None` without a window: at the first
    /// reading, after counters began anew, and before any packet; and the part to switch to, from then on the one that runs.
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

/// What was counted between two readings; `None`: the driver began to count anew, as after a reset of the device.
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
