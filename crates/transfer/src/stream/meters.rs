//! CPU time and device counts over the windows of a transfer.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::bulk::{Interval, Settings, Watch};
use netcliff_host::cpu::system::{SystemShares, SystemStamp};
use netcliff_host::cpu::{self, CpuMeter, CpuSplit, MeterSpec, Method, Watch as WatchTask};

use super::devices::{Devices, Sides};
use super::probe::{self, Probed, Probing};
use super::{Far, Live, LiveEvent, StreamOptions};

/// The meters' values of one transfer.
type Metered = (Vec<SystemShares>, Vec<CpuSplit>, Option<Sides>);

/// Meters the windows of each transfer.
pub struct Meters {
    exact: Option<Box<dyn CpuMeter>>,
    devices: Option<Devices>,
    from: Option<SystemStamp>,
    devices_from: Option<Sides>,
    metered: Metered,
    live: Option<Live>,
    /// The requests that run during the current transfer.
    probing: Option<Probing>,
    /// What could not be metered, with the reason.
    pub not_had: Vec<String>,
}

impl Meters {
    /// Starts the meters on all CPUs. Those that do not work here are named in `not_had`.
    pub(super) fn start(options: &StreamOptions, far: &Far<'_>) -> Self {
        let cpus = netcliff_host::inventory::Inventory::of_this_host().cpu.online;
        let cpus = cpus.into_iter().map(|cpu| cpu as usize).collect();
        let spec = MeterSpec { cpus, watch: vec![WatchTask::Process(std::process::id())] };
        let mut not_had = Vec::new();
        let exact = match cpu::choose(options.cpu, &spec) {
            Ok(choice) => {
                not_had.extend(choice.passed_over.iter().map(|why| format!("exact CPU shares: {why}")));
                Some(choice.meter)
            }
            Err(why) => {
                not_had.push(format!("CPU shares: {why}"));
                None
            }
        };
        let devices = Devices::of(options, far);
        let live = options.live.clone();
        let metered = Metered::default();
        Self { exact, devices, from: None, devices_from: None, metered, live, probing: None, not_had }
    }

    /// Adds something that is not available to `not_had`, once.
    pub(super) fn note(&mut self, why: Option<&str>) {
        if let Some(why) = why.filter(|why| !self.not_had.iter().any(|known| known == why)) {
            self.not_had.push(why.to_owned());
        }
    }

    /// Method of the exact CPU meter, if there is one.
    pub fn method(&self) -> Option<Method> {
        self.exact.as_ref().map(|meter| meter.method())
    }

    /// Takes the values of the last windows. A second call returns none.
    pub(super) fn take(&mut self) -> Metered {
        std::mem::take(&mut self.metered)
    }

    /// Starts the requests for a transfer that is about to start, and waits for the time before it.
    pub(super) fn probe(&mut self, options: &StreamOptions, settings: &Settings, far: &Far<'_>) {
        let Some(requested) = &options.probe else { return };
        match Probing::start(requested, settings, far) {
            Ok(mut probing) => {
                probe::rest(requested.around_s, &options.stop);
                probing.begins();
                self.probing = Some(probing);
            }
            Err(error) => self.once(format!("latency under load: {error}")),
        }
    }

    /// Waits for the time after the transfer, then ends the requests and returns them.
    pub(super) fn probed(&mut self, options: &StreamOptions) -> Option<Probed> {
        let (requested, probing) = (options.probe.as_ref()?, self.probing.take()?);
        probe::rest(requested.around_s, &options.stop);
        Some(probing.end())
    }

    fn once(&mut self, why: String) {
        if !self.not_had.contains(&why) {
            self.not_had.push(why);
        }
    }
}

impl Watch for Meters {
    fn interval(&self) -> Option<Duration> {
        self.live.as_ref().map(|live| live.every)
    }

    fn passed(&mut self, interval: &Interval) {
        if let Some(live) = &self.live {
            let _ = live.to.send(LiveEvent::Passed(*interval));
        }
    }

    fn observes(&self) -> bool {
        self.probing.is_some()
    }

    fn sockets(&mut self, sockets: Vec<(bool, OwnedFd)>) {
        if let Some(probing) = &self.probing {
            probing.sockets(sockets);
        }
    }

    fn opened(&mut self) {
        self.probing.iter_mut().for_each(Probing::opened);
        self.metered = Metered::default();
        self.devices_from = self.devices.as_ref().map(Devices::read);
        if let Some(Err(why)) = self.exact.as_mut().map(|meter| meter.mark()) {
            self.once(why.to_string());
        }
        self.from = SystemStamp::now().ok();
    }

    fn closed(&mut self) {
        self.probing.iter_mut().for_each(Probing::closed);
        if let (Some(from), Ok(to)) = (&self.from, SystemStamp::now()) {
            self.metered.0 = from.until(&to);
        }
        match self.exact.as_mut().map(|meter| meter.read()) {
            Some(Ok(splits)) => self.metered.1 = splits,
            Some(Err(why)) => self.once(why.to_string()),
            None => {}
        }
        let devices = self.devices.as_ref().map(Devices::read);
        if let (Some(from), Some(to)) = (&self.devices_from, devices) {
            self.metered.2 = Some(to.since(from));
        }
    }
}
