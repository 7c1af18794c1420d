//! Offloads that the kernel switches off for what a measurement attaches, and leaves off afterwards.

use std::path::Path;

use crate::{
    journal::{HostLock, Journal, JournalError},
    nic,
    setting::{Group, Setting},
};

/// Frames merged by the device: switched off for good wherever an XDP program is attached (generic_xdp_install in net/core/dev.c;
/// vmxnet3_xdp_set).
pub const MERGING: [&str; 2] = ["rx-lro", "rx-gro-hw"];

/// Offloads that are switched on again when this is dropped, or at the next start where the run is killed.
#[derive(Debug)]
pub struct KeptOffloads {
    /// None: nothing is on.
    _journal: Option<Journal>,
}

impl KeptOffloads {
    /// Records which of these offloads, by the kernel's names, are on at interfaces of the thread's network namespace.
    ///
    /// # Errors
    /// The undo journal cannot be used.
    pub fn hold(lock: &HostLock, interfaces: &[&str], offloads: &[&str]) -> Result<Self, JournalError> {
        let mut journal = None;
        for interface in interfaces {
            // One that has gone has none.
            let Ok(nic) = nic::read(interface, Path::new("/sys")) else { continue };
            let on = offloads.iter().filter(|name| nic.feature(name) == Some(true));
            let setting = |name: &&str| Setting::Ethtool {
                interface: (*interface).to_owned(),
                group: Group::Features,
                key: (*name).to_owned(),
            };
            let settings: Vec<_> = on.map(|name| (setting(name), "on".to_owned())).collect();
            if !settings.is_empty() {
                Journal::record_at_risk(&mut journal, lock.state(), interface, settings)?;
            }
        }
        Ok(Self { _journal: journal })
    }
}
