//! Measurements after the stages of a run, each on a new testbed: other set-ups ([`super::check`]) and suggestions
//! ([`super::tried`]).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netcliff_core::Finding;

use super::FindOptions;
use super::idle::HostIdle;
use super::plan::{Plan, Progress};
use super::recorder::Recorder;
use super::stages::{self, Basis};
use netcliff_trial::bench::Highest;
use netcliff_trial::rig::{Rig, RigOptions};
use netcliff_trial::wire_bench::WireBench;

/// Longest wait until a link passes packets after a change of its settings: copper negotiates 1000 Mbit/s for 2 to 4 s,
/// and this host waits until its own end is up.
const LINK_TIME: Duration = Duration::from_secs(5);

/// Inputs of the later measurements.
pub struct Later<'a, 'p> {
    pub options: &'a FindOptions,
    pub plan: &'a Plan,
    pub basis: &'a Basis,
    pub switch: &'a mut HostIdle,
    pub stop: &'a Arc<AtomicBool>,
    pub progress: &'a RefCell<Progress<'p>>,
    /// Sentences on settings that could not be restored after a measurement.
    pub left: Vec<String>,
}

impl Later<'_, '_> {
    /// Builds a testbed with these options, runs `work` on it, and ends it; only one testbed exists at a time.
    pub fn on<T>(
        &mut self,
        rig: &RigOptions,
        work: impl FnOnce(&Self, &mut Recorder<'_>, &Rig) -> Result<T, String>,
    ) -> Result<T, String> {
        let rig = RigOptions { link_time: LINK_TIME, ..rig.clone() };
        let rig = Rig::build(&rig, Arc::clone(self.stop)).map_err(|error| error.to_string())?;
        let done = self.with(&rig, work);
        self.left.extend(rig.end());
        done
    }

    fn with<T>(
        &mut self,
        rig: &Rig,
        work: impl FnOnce(&Self, &mut Recorder<'_>, &Rig) -> Result<T, String>,
    ) -> Result<T, String> {
        let progress = self.progress;
        let watch = |load_pps: f64, _: u64, _: u64| progress.borrow_mut().trial(load_pps);
        let mut bench = WireBench::new(rig, self.options.cpu, Box::new(watch));
        self.switch.follow(bench.host_heartbeat())?;
        work(self, &mut Recorder::of_run(&mut bench, progress), rig)
    }

    /// Reports the start of a stage.
    pub fn stage(&self, name: &str) {
        self.progress.borrow_mut().stage(name);
    }

    /// Whether the user stopped the run; if so, marks the finding as partial.
    pub fn is_stopped(&self, finding: &mut Finding) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed);
        finding.partial |= stopped;
        stopped
    }
}

/// Highest load that could be offered; infinite if it was not measured.
pub fn highest(finding: &Finding) -> Highest {
    stages::highest(finding).unwrap_or(Highest::of_sender(f64::INFINITY))
}
