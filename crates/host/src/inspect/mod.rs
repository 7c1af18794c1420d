//! This host along the path of a packet, and problems of its configuration.
//!
//! Start with [`Inspection::of_this_host`] (or [`Inspection::of_capture`]), then [`rules::check`] and [`page::sheet`].
//! All facts are read from files below a root directory (`/`, or a directory that [`capture::write`] made) and from the
//! kernel's netlink answers, which a capture holds in [`capture::ANSWERS`]. So every rule can be tested with the tree
//! of another host.

pub mod capture;
mod counters;
pub(crate) mod interrupts;
pub mod memory;
mod network;
pub mod page;
mod paths;
pub mod rules;

pub use counters::{Growth, Reading};
pub use interrupts::{Direction, Irq, QueuePath};
pub use memory::ProgramMemory;
pub use network::Network;
pub use paths::{Known, NarrowPath};

use crate::{
    inventory::Inventory,
    nic::{self, Nic},
    procfs,
    spaces::{FarEnd, Spaces},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path, thread, time::Duration};

/// A host along the path of a packet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inspection {
    /// Processors, kernel, memory, sysctls, load.
    pub host: Inventory,
    /// Parts of the kernel that examine each packet: netfilter and security modules.
    pub network: Network,
    /// Interfaces.
    pub ports: Vec<Port>,
    /// Counters since boot.
    pub counters: Reading,
    /// Growth of the counters while watching; `None` if the host was read only once.
    pub growth: Option<Growth>,
    /// Memory of the programs that receive from the network, on a host with several NUMA nodes. Without root only
    /// programs of this user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramMemory>,
    /// What could not be read: topic and reason.
    pub missing: BTreeMap<String, String>,
}

/// An interface, with its interrupts and queues.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Port {
    /// As the kernel describes it.
    pub nic: Nic,
    /// Its interrupts.
    pub irqs: Vec<Irq>,
    /// Its queues, each with the interrupt and the CPUs that serve it, as far as known.
    pub queues: Vec<QueuePath>,
    /// The other end of a veth pair, in any network namespace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub far_end: Option<FarEnd>,
}

impl Port {
    /// The interrupts that serve queues.
    pub fn queue_irqs(&self) -> impl Iterator<Item = &Irq> {
        self.irqs.iter().filter(|irq| irq.direction.is_some())
    }

    /// Number of receive queues in use, from the channels if the driver reports them; `None` if not known.
    pub fn receive_queues(&self) -> Option<u32> {
        let channel = |name| self.nic.channels.get(name).copied();
        match (channel("combined"), channel("rx")) {
            (None, None) => self.nic.rx_queues,
            (combined, rx) => Some(combined.unwrap_or(0) + rx.unwrap_or(0)),
        }
    }

    /// Link speed as the driver reports it (bit/s).
    pub fn link_bps(&self) -> Option<f64> {
        self.nic.speed_mbps.map(|mbps| f64::from(mbps) * 1e6)
    }

    /// The speed that limits what the link carries (bit/s). `None` for a virtual link: its driver reports a figure that
    /// limits nothing (veth 10 Gbit/s, tun 10 Mbit/s).
    pub fn carries_bps(&self) -> Option<f64> {
        self.link_bps().filter(|_| self.nic.kind.as_deref().is_none_or(|kind| ["bond", "team"].contains(&kind)))
    }
}

impl Inspection {
    /// Inspects this host, in the network namespace of the calling thread. The counters are read twice, `watch` apart,
    /// or once if `watch` is zero.
    ///
    /// # Errors
    /// The kernel does not report its links.
    pub fn of_this_host(watch: Duration) -> io::Result<Inspection> {
        let root = Path::new("/");
        let nics = nic::ask_all()?;
        let mut inspection = Inspection::read(root, nics);
        inspection.host = Inventory::of_this_host();
        if inspection.host.cpu.numa_nodes.len() > 1 {
            inspection.programs = memory::of_receivers();
        }
        let mut spaces = Spaces::default();
        for port in inspection.ports.iter_mut().filter(|port| port.nic.driver.as_deref() == Some("veth")) {
            port.far_end = spaces.far_end(spaces.own, &port.nic.name);
        }
        match paths::ask(&inspection.ports) {
            Ok(narrow) => inspection.network.narrow_paths = narrow,
            Err(error) => {
                let reason = format!("what the kernel knows of the MTU of paths: {error}");
                inspection.missing.insert("path MTU".into(), reason);
            }
        }
        if !watch.is_zero() {
            thread::sleep(watch);
            inspection.compare(root);
        }
        Ok(inspection)
    }

    /// Inspects the host from which a capture was made.
    ///
    /// # Errors
    /// The directory is not a capture.
    pub fn of_capture(dir: &Path) -> io::Result<Inspection> {
        let mut inspection = Inspection::read(dir, capture::answers(dir)?);
        inspection.network.narrow_paths = capture::paths(dir)?;
        let later = dir.join(capture::LATER);
        if later.is_dir() {
            inspection.compare(&later);
        }
        Ok(inspection)
    }

    /// Joins the kernel's answers with what is below `root`.
    fn read(root: &Path, mut nics: Vec<Nic>) -> Inspection {
        let mut missing = BTreeMap::new();
        let table = interrupts::table(root, &mut missing);
        nics.iter_mut().for_each(|nic| nic::add_sysfs(nic, &root.join("sys")));
        let ports: Vec<Port> = nics
            .into_iter()
            .map(|nic| {
                let irqs = interrupts::of_device(root, &nic, &table);
                let queues = interrupts::queue_paths(&nic, &irqs);
                Port { nic, irqs, queues, far_end: None }
            })
            .collect();
        let names: Vec<String> = ports.iter().map(|port| port.nic.name.clone()).collect();
        Inspection {
            host: Inventory::read(root),
            network: Network::read(root, &mut missing),
            counters: Reading::read(root, &names),
            growth: None,
            ports,
            programs: Vec::new(),
            missing,
        }
    }

    /// Sets the growth of the counters up to a second reading below `root`.
    fn compare(&mut self, root: &Path) {
        self.growth = Some(self.counters.until(&Reading::read(root, &self.names())));
        // A capture of an older version has no second reading of the interrupts.
        let table = interrupts::table(root, &mut BTreeMap::new());
        self.ports.iter_mut().for_each(|port| interrupts::grow(&mut port.irqs, &table));
    }

    fn names(&self) -> Vec<String> {
        self.ports.iter().map(|port| port.nic.name.clone()).collect()
    }

    /// The port with this name.
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.nic.name == name)
    }

    /// Removes all ports but one.
    ///
    /// # Errors
    /// No port has this name; the error is a sentence that lists the existing names.
    pub fn only(&mut self, name: &str) -> Result<(), String> {
        if self.port(name).is_none() {
            return Err(format!("there is no interface {name:?}; there are {}", self.names().join(", ")));
        }
        self.ports.retain(|port| port.nic.name == name);
        Ok(())
    }

    /// The ports that the page describes, without loopback: hardware that is up; without such hardware, all ports that
    /// are up; if no port is up, all ports.
    pub fn main_ports(&self) -> Vec<&Port> {
        if let [only] = &self.ports[..] {
            return vec![only];
        }
        let pick = |wanted: &dyn Fn(&Nic) -> bool| -> Vec<&Port> {
            self.ports.iter().filter(|port| port.nic.name != "lo" && wanted(&port.nic)).collect()
        };
        [pick(&|nic| nic.up && nic.is_physical()), pick(&|nic| nic.up)]
            .into_iter()
            .find(|ports| !ports.is_empty())
            .unwrap_or_default()
    }

    /// The CPUs that the scheduler and interrupts may use: online and not isolated.
    pub fn usable_cpus(&self) -> Vec<u32> {
        let isolated = self.isolated_cpus();
        self.host.cpu.online.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect()
    }

    /// The CPUs that the scheduler does not use (isolated).
    pub fn isolated_cpus(&self) -> Vec<u32> {
        self.host.kernel.isolated_cpus.as_deref().and_then(procfs::cpu_list).unwrap_or_default()
    }

    /// CPUs of a NUMA node.
    pub fn node_cpus(&self, node: u32) -> Vec<u32> {
        self.host.cpu.numa_nodes.get(&node).and_then(|list| procfs::cpu_list(list)).unwrap_or_default()
    }

    /// The CPUs of the core that `cpu` is part of, `cpu` included.
    pub fn core_of(&self, cpu: u32) -> Vec<u32> {
        let group = self.host.cpu.smt_siblings.iter().find(|group| group.contains(&cpu));
        group.cloned().unwrap_or_else(|| vec![cpu])
    }

    /// The value of a sysctl as a number; of a list the last number.
    pub fn sysctl(&self, name: &str) -> Option<u64> {
        self.host.sysctls.get(name)?.split(' ').next_back()?.parse().ok()
    }

    /// Whether the host forwards IPv4 or IPv6 packets.
    pub fn routes(&self) -> bool {
        ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"].iter().any(|name| self.sysctl(name) == Some(1))
    }
}

pub mod scheme {
    //! Describes how the interfaces work, as schemes that `--scheme` accepts: [`of`].

    use super::{Inspection, Port};
    use crate::nic::scheme::AsNapi;
    use netcliff_core::Scheme;
    use serde::{Deserialize, Serialize};

    /// How an interface works, as a scheme that `--scheme` accepts.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct PortScheme {
        /// Name of the interface.
        pub interface: String,
        /// `napi:...` with the NIC's moderation; absent if no scheme describes the interface, with the reason in `why`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scheme: Option<Scheme>,
        /// Settings in force that no scheme can express, or that the driver does not report.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
        /// What the device may do in addition to the scheme, if its driver does not report whether it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub beside: Option<String>,
    }

    /// The schemes of all hardware interfaces.
    pub fn of(inspection: &Inspection) -> Vec<PortScheme> {
        inspection.ports.iter().filter_map(|port| of_port(inspection, port)).collect()
    }

    /// The scheme of an interface; `None` if it is not hardware, so that nothing moderates its interrupts.
    pub(super) fn of_port(inspection: &Inspection, port: &Port) -> Option<PortScheme> {
        let nic = &port.nic;
        if !nic.is_physical() {
            return None;
        }
        let AsNapi { napi, lacks, beside } = nic.napi_scheme(&inspection.host.napi(nic.uses_backlog()));
        let scheme = lacks.is_none().then_some(Scheme::Napi(napi));
        let beside = beside.filter(|_| scheme.is_some());
        Some(PortScheme { interface: nic.name.clone(), scheme, why: lacks, beside })
    }
}
