//! [`DeviceState`]: the settings of a device that are changed, with their values.

use crate::nic::{Nic, link::LinkMode};
use netcliff_core::experiment::Coalesce;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How a device stands, or shall stand: then only what is named is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceState {
    /// MTU (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Offloads by the kernel's name.
    pub features: BTreeMap<String, bool>,
    /// Interrupt coalescing by the kernel's name; empty where the driver has none.
    pub coalesce: BTreeMap<String, u32>,
    /// Speed and duplex of its link; None while it is down, or where the driver does not report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkMode>,
    /// Those that it can have; what is wanted names none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub link_modes: BTreeSet<LinkMode>,
}

impl DeviceState {
    pub(crate) fn of(nic: &Nic) -> Self {
        Self {
            mtu_bytes: nic.mtu_bytes,
            features: nic.features.clone(),
            coalesce: nic.coalesce.clone(),
            link: nic.link_mode(),
            link_modes: nic.link_supported.iter().filter_map(|name| LinkMode::of(name)).collect(),
        }
    }

    /// Figures of coalescing that the driver does not choose by itself.
    pub(crate) fn own_coalescing(&self) -> Vec<(&'static str, u32)> {
        let is_off = |switch: Coalesce| self.coalesce.get(switch.kernel_name()).is_none_or(|on| *on == 0);
        let own = Coalesce::DIRECTIONS.into_iter().filter(|[switch, ..]| is_off(*switch));
        let names = own.flat_map(|[_, time, frames]| [time, frames]).map(Coalesce::kernel_name);
        names.filter_map(|name| Some((name, *self.coalesce.get(name)?))).collect()
    }
}
