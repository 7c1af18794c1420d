//! Network interfaces as the kernel describes them, read by netlink, ioctl and sysfs (no tool is run).
//!
//! [`read_all`] reads the network namespace of the calling thread. A value that the kernel or the driver does not offer
//! is `None`; [`Nic::missing`] has the reason, by topic.

pub mod classify;
pub mod counts;
mod driver;
pub mod ethtool;
pub(crate) mod ioctl;
pub mod landing;
pub mod link;
pub mod losses;
pub mod moderation;
pub mod neighbour;
pub mod netdev;
mod numbered;
pub mod own_counts;
pub mod path;
pub(crate) mod per_queue;
#[cfg(target_os = "linux")]
pub mod phc;
pub mod queues;
pub mod scheme;
pub mod stamping;
mod sysfs;
pub mod vlan;

pub(crate) use ioctl::{key_bytes, set_rss_key, set_rss_table};
pub(crate) use sysfs::{hints, message_interrupts};

use crate::rtnl::{RawLink, Rtnl};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path};

/// `struct ifinfomsg` flag IFF_UP.
const IFF_UP: u32 = 1;
/// Parent handle of a root qdisc, linux/pkt_sched.h.
const TC_H_ROOT: u32 = 0xffff_ffff;

/// One network interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nic {
    /// Interface name.
    pub name: String,
    /// Interface index in its namespace.
    pub index: u32,
    /// Hardware address.
    pub mac: Option<String>,
    /// Administratively up.
    pub up: bool,
    /// RFC 2863 operational state: `up`, `down`, `unknown`, ...
    pub operational_state: Option<String>,
    /// MTU (bytes).
    pub mtu_bytes: Option<u32>,
    /// Kind of a virtual link (`veth`, `bridge`, ...).
    pub kind: Option<String>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Driver version as the driver states it.
    pub driver_version: Option<String>,
    /// Firmware version.
    pub firmware: Option<String>,
    /// Bus address, for example a PCI address.
    pub bus: Option<String>,
    /// Version of QEMU's machine if QEMU emulates this device as one of Intel's or VMware's; (0, 0) if the version is
    /// not reported. `None` for any other device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<(u32, u32)>,
    /// Numeric parameters that this process passed to the driver's module; empty if it did not load the module.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, u32>,
    /// NUMA node of the device.
    pub numa_node: Option<u32>,
    /// Qdiscs, root first.
    pub qdiscs: Vec<String>,
    /// Transmit queue length (packets).
    pub txqlen_packets: Option<u32>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// Largest packet GRO may build (bytes).
    pub gro_max_bytes: Option<u32>,
    /// Largest packet GSO may hand down (bytes).
    pub gso_max_bytes: Option<u32>,
    /// Link speed (Mbit/s).
    pub speed_mbps: Option<u32>,
    /// `full` or `half`.
    pub duplex: Option<String>,
    /// Speed and duplex are negotiated.
    pub autoneg: Option<bool>,
    /// Highest speed among the link modes that the device supports (Mbit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_supported_mbps: Option<u32>,
    /// Link modes that the device supports, by the kernel's name (`100baseT/Half`), with its ports and kinds of pause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link_supported: Vec<String>,
    /// Link modes that the device offers to the far end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link_offered: Vec<String>,
    /// The PCI Express link in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<slot::Slot>,
    /// The PCI Express link that the device can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_max: Option<slot::Slot>,
    /// Index of the link below (VLAN, macvlan, or the peer of a veth in the same namespace).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// Index of the bridge or bond that this is a port of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<u32>,
    /// Offloads by the kernel's name (`rx-gro`), on or off.
    pub features: BTreeMap<String, bool>,
    /// Interrupt coalescing by the kernel's name (`rx-usecs`).
    pub coalesce: BTreeMap<String, u32>,
    /// Profiles of adaptive coalescing by direction (`rx`, `tx`); empty if the driver does not show them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub coalesce_profiles: BTreeMap<String, Vec<Profile>>,
    /// Interrupt coalescing of each queue, by the kernel's name; empty if the driver can only set the whole device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_coalesce: Vec<BTreeMap<String, u32>>,
    /// Ring sizes (descriptors), `rx`, `rx-max`, `tx`, `tx-max`.
    pub rings: BTreeMap<String, u32>,
    /// Whether TCP headers are received into separate buffers; `None` if the driver does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_split: Option<bool>,
    /// Numbers of channels in use (`rx`, `tx`, `combined`), and the possible numbers (`rx-max`, `tx-max`,
    /// `combined-max`).
    pub channels: BTreeMap<String, u32>,
    /// Ethernet pause, `autoneg`, `rx`, `tx`.
    pub pause: BTreeMap<String, bool>,
    /// Receive-side scaling.
    pub rss: Option<Rss>,
    /// Header fields that RSS hashes by kind of packets (`udp4`), in ethtool's letters (`sdfn`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hash_fields: BTreeMap<String, String>,
    /// Number of receive classification rules (`ethtool -n`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntuple_rules: Option<u32>,
    /// The receive classification rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_rules: Vec<classify::FlowRule>,
    /// Number of rules for which the device's table has space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_rule_places: Option<u32>,
    /// Whether the device's TLP processing hints (TPH: PCI Express writes that name a CPU's cache) are on. `None` if
    /// the device has none, or if only root may read the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tph: Option<bool>,
    /// Parameters of the driver's module; empty if the kernel does not show them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub module_parameters: BTreeMap<String, String>,
    /// NAPI instances.
    pub napis: Vec<netdev::Napi>,
    /// Queues and the NAPI instance that serves each.
    pub queues: Vec<netdev::Queue>,
    /// RPS CPU mask of each receive queue.
    pub rps_cpus: Vec<String>,
    /// RFS flow entries of each receive queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rps_flow_counts: Vec<u32>,
    /// XPS CPU mask of each transmit queue; an empty text if the queue has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xps_cpus: Vec<String>,
    /// CPUs that take each interrupt of the device, by interrupt number.
    pub irq_affinity: BTreeMap<u32, String>,
    /// `threaded`, `gro_flush_timeout` and `napi_defer_hard_irqs` from sysfs.
    pub napi_settings: BTreeMap<String, u64>,
    /// Topics that could not be read, with the reason.
    pub missing: BTreeMap<String, String>,
}

/// Receive-side scaling of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rss {
    /// Hash function bit (1 Toeplitz, 2 XOR, 4 CRC32), `ETH_RSS_HASH_*`.
    pub hash_function: Option<u32>,
    /// Indirection table: queue of each hash bucket.
    pub indirection: Vec<u32>,
    /// Length of the hash key (bytes).
    pub key_bytes: Option<usize>,
    /// The hash key, hexadecimal. Whoever knows it can aim flows at one queue, so captures leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// One step of adaptive coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profile {
    /// Delay of the interrupt (us).
    pub usecs: u32,
    /// Frames that end the delay.
    pub frames: u32,
}

impl Nic {
    /// Whether the device is hardware, real or emulated by a hypervisor, and not a virtual link (veth, bridge).
    pub fn is_physical(&self) -> bool {
        self.kind.is_none() && self.bus.is_some()
    }

    /// Whether an offload is on; `None` if the kernel does not list it.
    pub fn feature(&self, name: &str) -> Option<bool> {
        self.features.get(name).copied()
    }
}

/// All interfaces of the calling thread's network namespace, by index. `sys` is where sysfs is mounted (`/sys`).
///
/// # Errors
/// rtnetlink does not report the links. Other missing values are noted in [`Nic::missing`].
pub fn read_all(sys: &Path) -> io::Result<Vec<Nic>> {
    let mut nics = ask_all()?;
    nics.iter_mut().for_each(|nic| sysfs::fill(nic, sys));
    Ok(nics)
}

/// All interfaces as netlink and ioctls report them, without values from sysfs.
///
/// # Errors
/// rtnetlink does not report the links.
pub fn ask_all() -> io::Result<Vec<Nic>> {
    Ok(Rtnl::new().links()?.iter().map(ask).collect())
}

/// Adds the values that sysfs, mounted at `sys`, has for an interface.
pub fn add_sysfs(nic: &mut Nic, sys: &Path) {
    sysfs::fill(nic, sys);
}

/// One interface by name.
///
/// # Errors
/// When there is no such interface in the thread's namespace.
pub fn read(name: &str, sys: &Path) -> io::Result<Nic> {
    let mut nic = ask(&Rtnl::new().link(name)?);
    sysfs::fill(&mut nic, sys);
    Ok(nic)
}

fn ask(link: &RawLink) -> Nic {
    let mut nic = from_link(link);
    match Rtnl::new().qdiscs(link.index) {
        Ok(mut qdiscs) => {
            qdiscs.sort_by_key(|(parent, _)| *parent != TC_H_ROOT);
            nic.qdiscs = qdiscs.into_iter().map(|(_, kind)| kind).collect();
        }
        Err(error) => drop(nic.missing.insert("qdisc".into(), error.to_string())),
    }
    ethtool::fill(&mut nic);
    netdev::fill(&mut nic);
    ioctl::fill(&mut nic);
    classify::fill(&mut nic);
    per_queue::fill(&mut nic);
    nic
}

fn from_link(link: &RawLink) -> Nic {
    Nic {
        name: link.name.clone(),
        index: link.index,
        mac: link.mac.clone(),
        up: link.flags & IFF_UP != 0,
        operational_state: link.operstate.map(operational_state),
        mtu_bytes: link.mtu_bytes,
        kind: link.kind.clone(),
        qdiscs: link.qdisc.clone().into_iter().collect(),
        txqlen_packets: link.txqlen,
        rx_queues: link.rx_queues,
        tx_queues: link.tx_queues,
        gro_max_bytes: link.gro_max_bytes,
        gso_max_bytes: link.gso_max_bytes,
        lower: link.lower,
        master: link.master,
        ..Nic::default()
    }
}

/// IF_OPER_* of linux/if.h.
fn operational_state(state: u8) -> String {
    const NAMES: [&str; 7] = ["unknown", "not-present", "down", "lower-layer-down", "testing", "dormant", "up"];
    NAMES.get(usize::from(state)).map_or_else(|| state.to_string(), |name| (*name).to_owned())
}

/// Whether the speed that a device with this driver reports is invented: no link limits it.
pub fn has_made_up_speed(driver: &str) -> bool {
    driver::named(driver).line != driver::Line::Cable
}

/// Whether the device is paravirtual: neither the speed nor the PCI Express link that it reports limits it.
pub(crate) fn is_paravirtual(driver: &str) -> bool {
    driver::named(driver).line == driver::Line::Hypervisor
}

pub mod parameters {
    //! Parameters that this process passed to a driver's module: e1000 and e1000e do not report theirs.

    use std::collections::BTreeMap;
    use std::sync::OnceLock;

    static GIVEN: OnceLock<(String, String)> = OnceLock::new();

    /// Stores the parameters, in modprobe's syntax, of a module that was loaded. Only the first call counts.
    pub fn given(module: &str, parameters: &str) {
        let _ = GIVEN.set((module.to_owned(), parameters.to_owned()));
    }

    /// Numeric parameters that this process passed to a driver's module. If a parameter has a list of values, the first
    /// one, which is for the first device.
    pub(super) fn of(driver: &str) -> BTreeMap<String, u32> {
        match GIVEN.get() {
            Some((module, parameters)) if module == driver => read(parameters),
            _ => BTreeMap::new(),
        }
    }

    fn read(parameters: &str) -> BTreeMap<String, u32> {
        let one = |item: &str| {
            let (name, value) = item.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        // modprobe accepts blanks between parameters, and commas between values of one.
        parameters.split([' ', ',']).filter_map(one).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn parameters_as_modprobe_takes_them() {
            let read = read("RxIntDelay=32 RxAbsIntDelay=128,64 debug=y");
            assert_eq!(
                read.into_iter().collect::<Vec<_>>(),
                [("RxAbsIntDelay".to_owned(), 128), ("RxIntDelay".to_owned(), 32)]
            );
        }
    }
}

pub mod slot {
    //! [`slot`]: the PCI Express link of a NIC, from sysfs.

    use serde::{Deserialize, Serialize};
    use std::path::Path;

    /// A PCI Express link.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Slot {
        /// Generation of PCI Express, 1 to 6.
        pub generation: u32,
        /// Lanes in use.
        pub lanes: u32,
    }

    /// The link of an interface's device; `None` for a device without such a link (veth, virtio, a NIC on another bus).
    /// `sys` is where sysfs is mounted.
    pub fn slot(name: &str, sys: &Path) -> Option<Slot> {
        let device = sys.join("class/net").join(name).join("device");
        link(&device, "current")
    }

    /// The widest and fastest link that an interface's device can have.
    pub fn widest(name: &str, sys: &Path) -> Option<Slot> {
        let device = sys.join("class/net").join(name).join("device");
        link(&device, "max")
    }

    fn link(device: &Path, which: &str) -> Option<Slot> {
        let read = |file: &str| std::fs::read_to_string(device.join(format!("{which}_link_{file}"))).ok();
        parse(&read("speed")?, &read("width")?)
    }

    /// Parses speed and width, such as `8.0 GT/s PCIe` and `8`, as drivers/pci/pci-sysfs.c prints them; older kernels
    /// print `8 GT/s`.
    fn parse(speed: &str, width: &str) -> Option<Slot> {
        let transfers: f64 = speed.split_ascii_whitespace().next()?.parse().ok()?;
        const SPEEDS: [f64; 6] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
        let place = SPEEDS.iter().position(|known| *known == transfers)?;
        let lanes = width.trim().parse().ok().filter(|lanes| *lanes > 0)?;
        Some(Slot { generation: place as u32 + 1, lanes })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn links_of_sysfs() {
            let root = tempfile::tempdir().unwrap();
            let device = root.path().join("class/net/eth0/device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("current_link_speed"), "8.0 GT/s PCIe\n").unwrap();
            std::fs::write(device.join("current_link_width"), "4\n").unwrap();
            assert_eq!(slot("eth0", root.path()), Some(Slot { generation: 3, lanes: 4 }));
            assert_eq!(slot("eth1", root.path()), None);
            assert_eq!(parse("Unknown", "8"), None);
            assert_eq!(parse("2.5 GT/s", "0"), None);
        }
    }
}
