//! A guest of this host as the far host of transfers.

use std::collections::BTreeMap;

use netcliff_core::experiment::Feature;
use netcliff_host::device::DeviceState;
use netcliff_host::testbed::vm::{Vm, VmError};
use netcliff_packets::error::ControlError;
use netcliff_remote::control::client::Session;
use netcliff_remote::device::FarDevice;

/// A guest with its device under this process's control: its device is changed, and host-wide results are those of the
/// guest.
#[derive(Debug, Clone, Copy)]
pub struct GuestHost<'a> {
    /// The guest.
    pub vm: &'a Vm,
    /// What limits results measured in the guest, a sentence each.
    pub limits: &'a [String],
}

/// Settings of a guest's link during a run. `None` leaves the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuestLink {
    /// MTU of both ends (bytes).
    pub mtu_bytes: Option<u32>,
    /// Transmit offloads of the guest's device.
    pub offloads: Option<bool>,
}

/// Why a guest's link cannot be set as requested.
#[derive(Debug, thiserror::Error)]
pub enum GuestLinkError {
    /// This host's end of the link cannot be set.
    #[error(transparent)]
    Wire(#[from] VmError),
    /// The guest's end of the link cannot be set.
    #[error(transparent)]
    Device(#[from] ControlError),
}

/// The transmit offloads that `--offloads` sets in a testbed.
const OFFLOADS: [Feature; 4] = [Feature::TxChecksum, Feature::Sg, Feature::Tso, Feature::Gso];

impl GuestLink {
    /// Sets both ends. Nothing is restored, because the link ends with the guest.
    ///
    /// # Errors
    /// The driver refuses a value, or the guest is gone.
    pub fn set(self, vm: &Vm, session: &mut Session) -> Result<(), GuestLinkError> {
        if self == Self::default() {
            return Ok(());
        }
        let device = FarDevice::take(session)?;
        self.mtu_bytes.map_or(Ok(()), |bytes| vm.wire().set_mtu(bytes))?;
        device.bring_to(session, &self.wanted(&device.found))?;
        Ok(())
    }

    /// Converts the settings to a device state. Offloads that the device (`found`) does not have are omitted.
    fn wanted(self, found: &DeviceState) -> DeviceState {
        let names = OFFLOADS.into_iter().flat_map(Feature::kernel_names);
        let has = names.filter(|name| found.features.contains_key(**name));
        let features: BTreeMap<String, bool> =
            self.offloads.map(|on| has.map(|name| ((*name).to_owned(), on)).collect()).unwrap_or_default();
        DeviceState { mtu_bytes: self.mtu_bytes, features, ..DeviceState::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_offloads_that_the_device_has_are_set() {
        let features = ["tx-scatter-gather", "tx-tcp-segmentation", "rx-checksum"].map(|name| (name.to_owned(), true));
        let found = DeviceState { features: BTreeMap::from(features), mtu_bytes: Some(1500), ..DeviceState::default() };
        let off = GuestLink { mtu_bytes: Some(9000), offloads: Some(false) }.wanted(&found);
        let set = ["tx-scatter-gather", "tx-tcp-segmentation"].map(|name| (name.to_owned(), false));
        assert_eq!((off.features, off.mtu_bytes), (BTreeMap::from(set), Some(9000)));
        let mtu = GuestLink { mtu_bytes: Some(9000), offloads: None }.wanted(&found);
        assert!(mtu.features.is_empty() && mtu.coalesce.is_empty());
    }
}
