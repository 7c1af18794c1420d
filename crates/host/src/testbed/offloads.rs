//! Offloads of the testbed's interfaces, by the kernel's names (the names of `ethtool -k` differ).

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::path::Path;

use super::TestbedError;
use super::netns::{Side, Testbed};
use crate::nic::{self, ethtool};

/// Offloads of the sending stack: checksums, scatter/gather, and segmentation by the device or just before it. A setup
/// without offloads has them off at both ends. GRO is part of [`super::options::Reception`].
pub const TRANSMIT_OFFLOADS: [&str; 9] = [
    "tx-checksum-ip-generic",
    "tx-scatter-gather",
    "tx-scatter-gather-fraglist",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-generic-segmentation",
];

/// TCP segmentation by the device. While it is on at one end, the peer's NAPI does not poll the packets of this end's
/// sockets: these packets take the path without GRO, on the CPU that sends (`veth_skb_is_eligible_for_gro`,
/// drivers/net/veth.c).
pub const SEGMENTATION: [&str; 4] =
    ["tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"];

impl Testbed {
    /// Switches off [`SEGMENTATION`] at the sender's end, because it keeps the NAPI of the host under test from polling
    /// the sender's packets. Returns false if the kernel leaves some of it on.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the interface cannot be read.
    pub fn let_napi_poll(&self) -> Result<bool, TestbedError> {
        Ok(self.set_features(Side::Sender, &SEGMENTATION.map(|feature| (feature, false)))?.is_empty())
    }

    /// Offloads that an end's interface can switch or has on.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the interface cannot be read.
    pub fn features(&self, side: Side) -> Result<BTreeMap<String, bool>, TestbedError> {
        let name = self.endpoint(side).interface.clone();
        let nic = self.run_in(side, || nic::read(&name, Path::new("/sys")))?;
        Ok(nic.map_err(TestbedError::failed(format!("ask {name} for its offloads")))?.features)
    }

    /// Switches offloads of an end's interface. Returns the offloads whose state then differs from the wanted state,
    /// with the reason: the interface lacks or cannot switch the feature, or it depends on another.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the interface cannot be read.
    pub fn set_features(&self, side: Side, wanted: &[(&str, bool)]) -> Result<BTreeMap<String, String>, TestbedError> {
        let name = self.endpoint(side).interface.clone();
        let refusals = self.run_in(side, || {
            let set = |(feature, on)| Some((feature, set(&name, feature, on).err()?));
            wanted.iter().copied().filter_map(set).collect::<Vec<_>>()
        })?;
        let held = self.features(side)?;
        let other = wanted.iter().filter(|(feature, on)| held.get(*feature).copied().unwrap_or(false) != *on);
        let why = |feature: &str| {
            let refusal = refusals.iter().find(|(refused, _)| *refused == feature);
            refusal.map_or("the kernel keeps it as it is".to_owned(), |(_, error)| error.to_string())
        };
        Ok(other.map(|(feature, _)| ((*feature).to_owned(), why(feature))).collect())
    }
}

fn set(interface: &str, feature: &str, on: bool) -> io::Result<()> {
    let feature = CString::new(feature).map_err(io::Error::other)?;
    ethtool::set_feature(interface, &feature, on)
}
