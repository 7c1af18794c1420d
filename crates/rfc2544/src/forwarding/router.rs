//! [`Router`]: a device under test that describes its set-up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_mlrsearch::trial::Request;
use serde::{Deserialize, Serialize};

use super::SetUp;
use super::report::Change;
use crate::conduct::{Burst, Device, Measured};
use crate::cost::Predicted;
use crate::kernel::{DeviceError, Kernel, Place};
use crate::settings::{FrameSize, Settings};

/// A device with a description of its set-up.
pub trait Router: Device {
    /// Describes the set-up. Called after it was measured.
    fn about(&self) -> About;
}

/// How a router is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct About {
    /// Description of the device under test, in one line.
    pub device: String,
    /// How frames are sent and received, in one line.
    pub tester: String,
    /// Settings that the tuning plan changed; empty if the plan changed none, or if there was no plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Change>,
    /// What the tuning plan does not do, with the reason, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// CPUs that do the router's work.
    pub router_cpus: Vec<u32>,
    /// True if router and tester work on the same CPU.
    pub shared: bool,
    /// How the set-up limits the result, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// A router in a namespace of this kernel, set up by a tuning plan.
pub(super) struct Planned {
    kernel: Kernel,
    settings: Vec<Change>,
    notes: Vec<String>,
    cpus: Vec<u32>,
}

/// Builds the testbed and sets up the router.
pub(super) fn build(set_up: &SetUp, settings: &Settings, stop: &Arc<AtomicBool>) -> Result<Planned, DeviceError> {
    let tester_cpu = netcliff_host::inventory::Inventory::of_this_host().cpu.online.first().copied().unwrap_or(0);
    // Without a plan nothing moves packets to other CPUs, so the tester's CPU also does the router's work.
    let router_cpu = set_up.tune.is_none().then_some(tester_cpu);
    let place = Place::Namespaces { forwarding: set_up.forwarding, rules: set_up.rules, router_cpu };
    let mut kernel = Kernel::build(settings, place, Some(tester_cpu), Arc::clone(stop))?;
    let plan = set_up.tune.map(|objective| kernel.tune(objective)).transpose()?.flatten();
    let Some(plan) = plan else {
        return Ok(Planned { kernel, settings: Vec::new(), notes: Vec::new(), cpus: vec![tester_cpu] });
    };
    let change = |applied: &netcliff_host::tune::apply::Applied| Change {
        name: applied.name.clone(),
        before: applied.before.clone(),
        after: applied.effective.clone(),
    };
    Ok(Planned {
        kernel,
        settings: plan.applied.iter().map(change).collect(),
        notes: plan.notes,
        cpus: if plan.cpus.is_empty() { vec![tester_cpu] } else { plan.cpus },
    })
}

impl Device for Planned {
    type Error = DeviceError;

    fn frames(&mut self, frame: FrameSize) -> Result<(), DeviceError> {
        self.kernel.frames(frame)
    }

    fn sender_pps(&mut self) -> Result<f64, DeviceError> {
        self.kernel.sender_pps()
    }

    fn trial(&mut self, request: Request) -> Result<Measured, DeviceError> {
        self.kernel.trial(request)
    }

    fn burst(&mut self, frames: u64) -> Result<Burst, DeviceError> {
        self.kernel.burst(frames)
    }

    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, DeviceError> {
        // The model of the prediction has a single server.
        if self.cpus.len() == 1 { self.kernel.predict(throughput_pps) } else { Ok(None) }
    }
}

impl Router for Planned {
    fn about(&self) -> About {
        let shared = self.cpus.contains(&self.kernel.tester_cpu());
        About {
            device: self.kernel.describe(),
            tester: self.kernel.tester(),
            settings: self.settings.clone(),
            notes: self.notes.clone(),
            router_cpus: self.cpus.clone(),
            shared,
            limits: self.kernel.limits.clone(),
        }
    }
}
