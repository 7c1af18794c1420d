//! The router configured by the tuning planner instead of the testbed's own RPS.

use std::{fs, io, time::Duration};

use netcliff_core::inspection::Objective;

use super::{ForwardBed, router_interface};
use crate::{
    inspect::Inspection,
    journal::UndoOutcome,
    procfs::{cpus_of_mask, text},
    testbed::TestbedError,
    tune::{
        self, Wish,
        apply::{Applied, Session},
    },
};

/// Result of a plan for the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterPlan {
    /// Settings that were made.
    pub applied: Vec<Applied>,
    /// What the plan omits, and why.
    pub notes: Vec<String>,
    /// CPUs that do the router's work; empty if the CPU that sends does it.
    pub cpus: Vec<u32>,
}

impl ForwardBed {
    /// Switches RPS off, which leaves the router's work on the CPU that sends, then makes the settings that a plan for
    /// `objective` proposes for the router's interfaces. The plan does not use the tester's CPU. The settings last as
    /// long as the testbed, and are recorded in the journal.
    ///
    /// # Errors
    /// The router cannot be inspected, or a setting cannot be made; the settings before it are then restored.
    pub fn tune(&mut self, objective: Objective) -> Result<RouterPlan, TestbedError> {
        let interfaces = [router_interface(0), router_interface(1)];
        let wish =
            Wish { interfaces: interfaces.to_vec(), spared: vec![self.options.tester_cpu], ..Wish::new(objective) };
        let mut session = Session::new(&self.lock);
        let made = self.router.run(|| -> io::Result<RouterPlan> {
            for interface in &interfaces {
                fs::write(rps_file(interface), "0")?;
            }
            let plan = tune::plan(&Inspection::of_this_host(Duration::ZERO)?, &wish).map_err(io::Error::other)?;
            session.apply(&plan).map_err(io::Error::other)?;
            let mask = text(rps_file(&interfaces[0])).unwrap_or_default();
            Ok(RouterPlan {
                applied: session.applied.clone(),
                notes: plan.notes,
                cpus: cpus_of_mask(&mask).unwrap_or_default(),
            })
        })?;
        let made = made.map_err(TestbedError::failed("set the router as planned"))?;
        // Without a chosen CPU the tester's CPU, which sends, does the router's work.
        self.options.router_cpu = made.cpus.first().copied().unwrap_or(self.options.tester_cpu);
        self.tuned = Some(session);
        Ok(made)
    }

    /// Restores a plan's settings, from within the router's namespace, because they belong to it.
    pub(super) fn untune(&mut self) -> Vec<UndoOutcome> {
        let Some(mut session) = self.tuned.take() else { return Vec::new() };
        self.router.run(move || session.set_back()).unwrap_or_default()
    }
}

fn rps_file(interface: &str) -> String {
    format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus")
}
