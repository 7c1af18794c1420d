//! Describes this host, from procfs and sysfs below a root directory (`/` or a captured tree).

mod cpu;
mod kernel;
mod limits;
mod load;

mod hypervisor {
    //! Finds the hypervisor below this guest.

    use super::cpu;
    use crate::procfs;
    use std::path::Path;

    /// Name of the hypervisor if only the CPU flag shows that there is one.
    const UNNAMED: &str = "unnamed hypervisor";

    /// Name of the hypervisor, from the kernel's file of Xen or from the machine's vendor; [`UNNAMED`] if only the CPU
    /// flag shows that there is one. `None` if nothing shows a hypervisor.
    pub(super) fn read(root: &Path, cpuinfo: &str) -> Option<String> {
        let flagged =
            cpu::field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
        let xen = procfs::text(root.join("sys/hypervisor/type"));
        if !flagged && xen.is_none() {
            return None;
        }
        let dmi = |name: &str| procfs::text(root.join("sys/class/dmi/id").join(name));
        let made_by: Vec<String> = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect();
        let dmi = (!made_by.is_empty()).then(|| made_by.join(" "));
        Some(xen.or(dmi).unwrap_or_else(|| UNNAMED.to_owned()))
    }

    /// Replaces a missing name by the one that CPUID of this processor reports (`KVMKVMKVM`).
    pub(super) fn named_by_processor(hypervisor: Option<String>) -> Option<String> {
        match hypervisor {
            Some(name) if name == UNNAMED => Some(signature().unwrap_or(name)),
            other => other,
        }
    }

    /// The vendor string in CPUID's hypervisor leaf, Documentation/virt/kvm/x86/cpuid.rst.
    #[cfg(target_arch = "x86_64")]
    fn signature() -> Option<String> {
        const HYPERVISOR_LEAF: u32 = 0x4000_0000;
        // SAFETY: every x86_64 processor has the instruction; for a leaf that it lacks it returns other numbers.
        #[allow(unused_unsafe, reason = "the intrinsic is safe from Rust 1.94 on, unsafe before")]
        let leaf = unsafe { std::arch::x86_64::__cpuid(HYPERVISOR_LEAF) };
        let words = [leaf.ebx, leaf.ecx, leaf.edx];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8(bytes).ok()?;
        let text = text.trim();
        (!text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic() || letter == ' '))
            .then(|| text.to_owned())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn signature() -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests;

pub use cpu::{Cache, Cpu, IdleState, online_cpus};
pub use kernel::Kernel;
pub(crate) use kernel::configuration as kernel_configuration;
pub use limits::{Limitation, lasting, tells_load};
pub use load::Load;
pub(crate) use load::{disturbs, process_named};

use crate::{procfs, softnet};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// Sysctls that affect the receive path, by dotted name.
pub const SYSCTLS: &[&str] = &[
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "kernel.unprivileged_bpf_disabled",
    "net.core.bpf_jit_enable",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.dev_weight_rx_bias",
    "net.core.dev_weight_tx_bias",
    "net.core.flow_limit_cpu_bitmap",
    "net.core.gro_normal_batch",
    "net.core.high_order_alloc_disable",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.netdev_tstamp_prequeue",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.skb_defer_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.ip_early_demux",
    "net.ipv4.ip_forward",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_early_demux",
    "net.ipv4.udp_mem",
    "net.ipv4.udp_rmem_min",
    "net.ipv6.conf.all.forwarding",
];

/// A host's hardware, kernel, settings and load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inventory {
    /// Processors, their frequencies and idle states.
    pub cpu: Cpu,
    /// The kernel and how it was started.
    pub kernel: Kernel,
    /// Name of the hypervisor; `None` if the host is not a virtual machine.
    pub hypervisor: Option<String>,
    /// Main memory (bytes).
    pub memory_total_bytes: Option<u64>,
    /// Memory available without swapping (bytes).
    pub memory_available_bytes: Option<u64>,
    /// The values of those [`SYSCTLS`] that this kernel has.
    pub sysctls: BTreeMap<String, String>,
    /// What else ran when the inventory was read.
    pub load: Load,
    /// Counters of the receive path since boot, one entry per CPU.
    pub softnet: Vec<softnet::SoftnetStat>,
    /// Whether the process runs as the host's root.
    pub root: bool,
    /// Whether hardware performance counters are available.
    pub perf_counters: bool,
}

impl Inventory {
    /// Reads the files below `root`; what is absent there is absent in the result.
    pub fn read(root: &Path) -> Inventory {
        let memory = procfs::whole(root.join("proc/meminfo"));
        let cpuinfo = procfs::whole(root.join("proc/cpuinfo"));
        let softnet = procfs::whole(root.join("proc/net/softnet_stat"));
        Inventory {
            cpu: Cpu::read(root, &cpuinfo),
            kernel: Kernel::read(root),
            hypervisor: hypervisor::read(root, &cpuinfo),
            memory_total_bytes: kibibytes(&memory, "MemTotal"),
            memory_available_bytes: kibibytes(&memory, "MemAvailable"),
            sysctls: sysctls(root),
            load: Load::read(root),
            softnet: softnet::parse_softnet(&softnet).unwrap_or_default(),
            root: is_root(root),
            perf_counters: root.join("sys/bus/event_source/devices/cpu/type").exists()
                || root.join("sys/bus/event_source/devices/cpu_core/type").exists(),
        }
    }

    /// This host: [`Inventory::read`] of `/`. If no file names the hypervisor, CPUID is read.
    pub fn of_this_host() -> Inventory {
        let mut host = Inventory::read(Path::new("/"));
        host.hypervisor = hypervisor::named_by_processor(host.hypervisor);
        host
    }

    /// Properties of this host that limit the meaning of its measurements.
    pub fn limits(&self) -> Vec<Limitation> {
        limits::of(self)
    }
}

/// A value of /proc/meminfo (`Name:   123 kB`) in bytes.
fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The values of those [`SYSCTLS`] that the kernel shows in the calling thread's network namespace.
pub(crate) fn sysctls(root: &Path) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let text = procfs::text(root.join("proc/sys").join(name.replace('.', "/")))?;
        // In the kernel's answer tabs separate the numbers of a list.
        Some(((*name).to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

fn is_root(root: &Path) -> bool {
    let status = procfs::whole(root.join("proc/self/status"));
    let map = procfs::text(root.join("proc/self/uid_map")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    effective == Some("0") && map.split_whitespace().eq(["0", "0", "4294967295"])
}
