//! [`Monitor`]: values for a monitoring system: the present counters, and the load since the previous reading compared
//! with the cliff.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::headroom::Headroom;
use netcliff_core::metrics::Counters;
use netcliff_core::watch::Moment;
use netcliff_host::cpu::MeterError;
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::inventory::Inventory;
use netcliff_host::watch::Look;

use crate::headroom::{Here, headroom};
use netcliff_find::kernel_name;
use netcliff_lab::costs::{self, Found};

/// Minimum time over which shares are computed: over shorter times, the kernel's ticks are too coarse.
const LEAST: Duration = Duration::from_secs(1);
/// Interval between searches of the store for a newer calibration.
const CALIBRATION_AGE: Duration = Duration::from_secs(300);

/// Result of one reading.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// Counters of this moment.
    pub counters: Counters,
    /// The load over the last interval of at least a second. `None` before the second reading.
    pub moment: Option<Moment>,
    /// The load compared with the cliff. `None` if there is no calibration of this machine, or no load yet.
    pub headroom: Option<Headroom>,
}

/// Selects the calibration whose cliff loads are compared with.
#[derive(Debug, Clone, Default)]
pub struct Calibration {
    /// Value of `--host`. `None`: this host's calibration.
    pub named: Option<String>,
    /// The store.
    pub store: Option<PathBuf>,
}

impl Calibration {
    /// Reads the present cliff; the store may have changed since the last call.
    ///
    /// # Errors
    /// A sentence that says why no cliff is known.
    pub fn read(&self) -> Result<Found, String> {
        let store = || self.store.clone().ok_or_else(|| "no directory for a store is known".to_owned());
        costs::cliff_of(self.named.as_deref(), store)
    }
}

/// Reads the counters of this host, as often as required.
pub struct Monitor {
    host: Inspection,
    /// Names of the interfaces to read. Empty: the main ones.
    interfaces: Vec<String>,
    calibration: Calibration,
    kernel: String,
    cpu: String,
    state: Mutex<State>,
}

struct State {
    before: Look,
    at: Instant,
    moment: Option<Moment>,
    headroom: Option<Headroom>,
    found: Option<Found>,
    asked: Instant,
}

impl Monitor {
    /// Makes a monitor of these interfaces (empty: the main ones). `found` is the calibration if it has been read
    /// already; otherwise `None`.
    ///
    /// # Errors
    /// /proc/stat cannot be read or has an unknown format.
    pub fn new(
        host: Inspection,
        interfaces: Vec<String>,
        calibration: Calibration,
        found: Option<Found>,
    ) -> Result<Self, MeterError> {
        let before = Look::now(&ports(&host, &interfaces))?;
        let (at, kernel) = (Instant::now(), kernel_name(&Inventory::of_this_host()));
        let cpu = costs::this_cpu();
        let state = State { before, at, moment: None, headroom: None, found, asked: at };
        Ok(Self { host, interfaces, calibration, kernel, cpu, state: Mutex::new(state) })
    }

    /// Returns whether a cliff is known with which loads can be compared.
    pub fn is_calibrated(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).found.is_some()
    }

    /// Makes a reading at `now_unix_s`, the caller's time (s since the Unix epoch).
    ///
    /// # Errors
    /// /proc/stat cannot be read or has an unknown format.
    pub fn read(&self, now_unix_s: f64) -> Result<Read, MeterError> {
        let ports = ports(&self.host, &self.interfaces);
        // Only one reading at a time, so that the next reading can use the results of this one.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.before.next(&ports)?;
        let counters = now.counters();
        if state.asked.elapsed() >= CALIBRATION_AGE {
            state.asked = Instant::now();
            if let Ok(found) = self.calibration.read() {
                state.found = Some(found);
            }
        }
        if state.at.elapsed() >= LEAST {
            let moment = state.before.until(&now, &ports);
            let here = Here { unix_s: now_unix_s, kernel: &self.kernel, cpu: &self.cpu };
            let against = |found: &Found| headroom(&moment, found, here).ok();
            state.headroom = state.found.as_ref().and_then(against);
            (state.moment, state.before, state.at) = (Some(moment), now, Instant::now());
        }
        Ok(Read { counters, moment: state.moment.clone(), headroom: state.headroom.clone() })
    }
}

/// Returns the ports with these names; ports that no longer exist are omitted.
fn ports<'a>(host: &'a Inspection, names: &[String]) -> Vec<&'a Port> {
    match names {
        [] => host.main_ports(),
        names => names.iter().filter_map(|name| host.port(name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_at_once_and_shares_after_a_second() {
        let host = Inspection::of_this_host(Duration::ZERO).expect("this host");
        let monitor = Monitor::new(host, Vec::new(), Calibration::default(), None).expect("a monitor");
        let first = monitor.read(0.0).expect("a reading");
        assert!(!first.counters.cpus.is_empty() && first.moment.is_none() && !monitor.is_calibrated());
        std::thread::sleep(LEAST);
        let second = monitor.read(1.0).expect("a reading");
        let moment = second.moment.expect("a second has passed");
        assert!(moment.seconds >= 1.0 && moment.cpus.len() == first.counters.cpus.len(), "{moment:?}");
        let idle = |read: &Counters| read.cpus.iter().flat_map(|cpu| &cpu.seconds).map(|(_, s)| s).sum::<f64>();
        assert!(idle(&second.counters) > idle(&first.counters), "time passes on some CPU");
    }
}
