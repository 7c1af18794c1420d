//! The router set by the tuning planner.

use netcliff_core::inspection::Objective;
use netcliff_host::testbed::forward::RouterPlan;

use super::{DeviceError, Kernel};

impl Kernel {
    /// Sets the router's interfaces as a plan for `objective` does, sparing the tester's CPU, for as long as the device
    /// lives. Real ports are not the router's: nothing is set there.
    ///
    /// # Errors
    /// A setting cannot be made; those before it are then set back.
    pub fn tune(&mut self, objective: Objective) -> Result<Option<RouterPlan>, DeviceError> {
        Ok(self.bed.as_mut().map(|bed| bed.tune(objective)).transpose()?)
    }

    /// The tester's CPU.
    pub fn tester_cpu(&self) -> u32 {
        self.tester_cpu
    }
}
