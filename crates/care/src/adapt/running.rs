//! [`run`]: follows devices until the end, each with its own session.

use super::{Follower, Measured, Thresholds};
use netcliff_core::switching::Part;
use netcliff_host::journal::HostLock;
use netcliff_host::nic::Nic;
use netcliff_host::serving::own_cpu_s;
use netcliff_host::tune::adapt::{Adapting, Lever, Levers, Receiver};
use netcliff_host::tune::apply::{Applied, ApplyError, Session};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Forecast;

/// Interval between two checks for a signal to stop.
const LOOK: Duration = Duration::from_millis(20);

/// How devices are followed.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Time between two readings of the counters.
    pub window: Duration,
    /// Shortest time between two switches of a device.
    pub hold: Duration,
    /// Time to run. `None`: until stopped.
    pub length: Option<Duration>,
}

/// An event while devices are switched between interrupts and polling, in the order of time.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Start: from now on the device is followed, in interrupt mode.
    Start {
        /// Name of the device.
        interface: String,
        /// True if no settings are changed.
        dry_run: bool,
        /// Load above which the device switches to polling (pps), at the frame size of `forecast`, or at 64 bytes
        /// without a forecast.
        up_pps: f64,
        /// Load below which the device switches back to interrupts (pps).
        down_pps: f64,
        /// Settings that differ between the two modes.
        settings: Vec<Lever>,
        /// Predictions of the model or the simulator for both modes; `null` if neither can compute them, with the
        /// reason in `not_predicted`.
        forecast: Option<Box<Forecast>>,
        /// Why there is no forecast; absent if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_predicted: Option<String>,
        /// Other programs and drivers that act on the same device.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// The device changes its mode; in a dry run it would.
    Switch {
        /// Name of the device.
        interface: String,
        /// Time since the start (s).
        at_s: f64,
        /// Mode of the device from now on.
        part: Part,
        /// Measured load on which the switch is based, with the thresholds.
        #[serde(flatten)]
        measured: Measured,
        /// Settings that were changed; empty in a dry run.
        applied: Vec<Applied>,
    },
    /// The device is no longer followed, because its counters cannot be read or its settings cannot be changed.
    Lost {
        /// Name of the device.
        interface: String,
        /// Time since the start (s).
        at_s: f64,
        /// The reason.
        why: String,
    },
    /// The end: the settings of the device are restored, except those in `not_set_back`.
    End {
        /// Name of the device.
        interface: String,
        /// Time for which the device was followed (s): until the end of the run, or until the device was lost.
        seconds: f64,
        /// Number of switches.
        switches: u64,
        /// Time and load in interrupt mode.
        interrupt: Spent,
        /// Time and load in polling mode.
        poll: Spent,
        /// CPU time of netcliff itself for all devices together, as a share of one CPU.
        own_cpu_share: f64,
        /// Why settings could not be restored, a sentence each; absent if all were.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        not_set_back: Vec<String>,
    },
}

/// Time and load in one mode.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spent {
    /// Time in the mode (s).
    pub seconds: f64,
    /// Mean load in the mode, lost packets included (pps); `null` if the mode was not used.
    pub mean_pps: Option<f64>,
}

/// A device that is followed.
pub struct Device {
    interface: String,
    levers: Levers,
    receiver: Receiver,
    follower: Follower,
    /// The session that changes the device; `None` in a dry run.
    session: Option<(Session, Adapting)>,
    switches: u64,
    /// When the device was lost (s after the start of the run); `None`: it was not.
    lost_s: Option<f64>,
}

impl Device {
    /// Makes a device whose settings have not been changed. `right` is the lock and the permission to adapt the device;
    /// without it no setting is ever changed.
    pub fn new(
        nic: &Nic,
        levers: Levers,
        thresholds: Thresholds,
        hold: Duration,
        right: Option<(&HostLock, Adapting)>,
    ) -> Self {
        Self {
            interface: nic.name.clone(),
            levers,
            receiver: Receiver::new(nic),
            follower: Follower::new(thresholds, hold.as_secs_f64()),
            session: right.map(|(lock, right)| (Session::new(lock), right)),
            switches: 0,
            lost_s: None,
        }
    }

    fn switch(&mut self, part: Part) -> Result<Vec<Applied>, String> {
        let Some((session, _)) = &mut self.session else { return Ok(Vec::new()) };
        self.levers.switch(session, part).map_err(|error| match error {
            ApplyError::Changed { name, is, was, .. } => format!(
                "another program set {name} to {is}, which netcliff had as {was}: stop that program (tuned, a script, a second tool for the \
                 same settings), or do not adapt this device"
            ),
            other => other.to_string(),
        })
    }

    /// Reads the counters, and switches the mode if the load requires it. Returns the switch as an event; `None` if
    /// there is no switch.
    fn reading(&mut self, at_s: f64) -> Result<Option<Event>, String> {
        let counters = self.receiver.read()?;
        let (Some(measured), Some(part)) = self.follower.reading(at_s, counters) else { return Ok(None) };
        let applied = self.switch(part)?;
        self.switches += 1;
        Ok(Some(Event::Switch { interface: self.interface.clone(), at_s, part, measured, applied }))
    }

    fn end(&mut self, seconds: f64, own_cpu_share: f64) -> Event {
        let undone = self.session.take().map(|(mut session, _)| session.set_back()).unwrap_or_default();
        let [interrupt, poll] = [Part::Interrupt, Part::Poll].map(|part| {
            let (seconds, packets) = self.follower.spent(part);
            Spent { seconds, mean_pps: (seconds > 0.0).then(|| packets / seconds) }
        });
        Event::End {
            interface: self.interface.clone(),
            seconds: self.lost_s.unwrap_or(seconds),
            switches: self.switches,
            interrupt,
            poll,
            own_cpu_share,
            not_set_back: undone.into_iter().filter_map(|outcome| outcome.error).collect(),
        }
    }
}

/// Follows devices until the time is over, `stop` is set, or no device is left; then restores all settings. Calls
/// `tell` with each [`Event`] except [`Event::Start`]. Returns true if no device was lost and all settings were
/// restored.
///
/// # Errors
/// The first error of `tell`. Settings that are not restored yet are restored when the devices are dropped.
pub fn run<E>(
    devices: &mut [Device],
    options: &Options,
    stop: &AtomicBool,
    mut tell: impl FnMut(Event) -> Result<(), E>,
) -> Result<bool, E> {
    let (start, cpu_s) = (Instant::now(), own_cpu_s());
    let stopped = || stop.load(Ordering::Relaxed);
    for device in devices.iter_mut() {
        if let Err(why) = device.switch(Part::Interrupt) {
            device.lost_s = Some(0.0);
            tell(Event::Lost { interface: device.interface.clone(), at_s: 0.0, why })?;
        }
    }
    let mut next = start;
    while !stopped() && devices.iter().any(|device| device.lost_s.is_none()) {
        for device in devices.iter_mut().filter(|device| device.lost_s.is_none()) {
            let at_s = start.elapsed().as_secs_f64();
            match device.reading(at_s) {
                Ok(None) => {}
                Ok(Some(event)) => tell(event)?,
                Err(why) => {
                    device.lost_s = Some(at_s);
                    tell(Event::Lost { interface: device.interface.clone(), at_s, why })?;
                }
            }
        }
        if options.length.is_some_and(|length| start.elapsed() >= length) {
            break;
        }
        // A late reading does not shorten the next window.
        next = (next + options.window).max(Instant::now());
        let until = options.length.map_or(next, |length| next.min(start + length));
        while !stopped() && Instant::now() < until {
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let own_cpu_share = (own_cpu_s() - cpu_s) / seconds.max(1e-9);
    let mut well = devices.iter().all(|device| device.lost_s.is_none());
    let ends: Vec<Event> = devices.iter_mut().map(|device| device.end(seconds, own_cpu_share)).collect();
    for end in ends {
        well &= !matches!(&end, Event::End { not_set_back, .. } if !not_set_back.is_empty());
        tell(end)?;
    }
    Ok(well)
}
