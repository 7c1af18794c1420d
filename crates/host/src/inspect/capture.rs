//! Writing down what an inspection reads, so that it can be read again elsewhere: [`write()`], [`write_later`],
//! [`answers`], [`write_paths`].
//!
//! A capture is a directory tree of the files that are read, by an explicit list, and [`ANSWERS`]: what the kernel said
//! by netlink. It is anonymised: hardware addresses are replaced, the RSS key is left out, of the command line only
//! parameters that change how packets are handled keep their value, of processes only irqbalance is told, of interrupts
//! and modules only those that the inspection looks at.

use super::{
    NarrowPath,
    counters::STATISTICS,
    network::FILTERS,
    paths::{self, PATHS},
};
use crate::{
    inventory::{SYSCTLS, kernel_configuration},
    nic::{Nic, message_interrupts},
    procfs,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// File of a capture that holds the kernel's netlink answers (a JSON list of interfaces).
pub const ANSWERS: &str = "netlink.json";
/// Directory of a capture that holds the counters once more, read later.
pub const LATER: &str = "later";

/// Files that are copied as they are; `*` stands for one part of a path.
const COPIED: &[&str] = &[
    "proc/loadavg",
    "proc/uptime",
    "proc/meminfo",
    "proc/net/snmp",
    "proc/net/snmp6",
    "proc/net/softnet_stat",
    "proc/self/uid_map",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/version",
    "proc/sys/net/bridge/bridge-nf-call-iptables",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "sys/bus/event_source/devices/cpu/type",
    "sys/bus/event_source/devices/cpu_core/type",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/cpu/cpu*/cache/index*/level",
    "sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list",
    "sys/devices/system/cpu/cpu*/cache/index*/size",
    "sys/devices/system/cpu/cpu*/cache/index*/type",
    "sys/devices/system/cpu/cpu*/topology/physical_package_id",
    "sys/devices/system/cpu/cpu*/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu*/cpuidle/*/disable",
    "sys/devices/system/cpu/cpu0/cpuidle/*/latency",
    "sys/devices/system/cpu/cpu0/cpuidle/*/name",
    "sys/devices/system/cpu/cpufreq/*/scaling_driver",
    "sys/devices/system/cpu/cpufreq/*/scaling_governor",
    "sys/devices/system/cpu/cpufreq/*/scaling_max_freq",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/cpuidle/*",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/nohz_full",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/vulnerabilities/*",
    "sys/devices/system/node/*/cpulist",
    "sys/fs/selinux/enforce",
    "sys/hypervisor/type",
    "sys/kernel/debug/sched/preempt",
    "sys/kernel/security/lsm",
];

/// Files of an interface, below `sys/class/net/NAME`.
const OF_INTERFACE: &[&str] = &[
    "device/current_link_speed",
    "device/current_link_width",
    "device/max_link_speed",
    "device/max_link_width",
    "gro_flush_timeout",
    "napi_defer_hard_irqs",
    "queues/*/rps_cpus",
    "queues/*/rps_flow_cnt",
    "queues/*/xps_cpus",
    "threaded",
];

/// Parameters of the kernel command line that change how packets are handled; others are left out.
const PARAMETERS: &[&str] = &[
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "amd_pstate",
    "iommu",
    "iommu.passthrough",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz",
    "nohz_full",
    "nosmt",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "threadirqs",
    "tsc",
];

/// Writes what an inspection of `root` reads, and the answers, into a new or empty directory. Gives the number of files.
///
/// # Errors
/// When the directory holds something or cannot be written.
pub fn write(root: &Path, nics: &[Nic], dir: &Path) -> io::Result<usize> {
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty; name a directory that does not exist", dir.display());
        return Err(io::Error::other(reason));
    }
    let mut files = Tree { root, dir, count: 0 };
    for pattern in COPIED {
        files.copy(pattern)?;
    }
    for name in SYSCTLS {
        files.copy(&format!("proc/sys/{}", name.replace('.', "/")))?;
    }
    files.system()?;
    for nic in nics {
        files.interface(&nic.name)?;
    }
    files.interrupts(nics)?;
    files.later(nics)?;
    let text = serde_json::to_string_pretty(&anonymous(nics))?;
    files.write(ANSWERS, &(text + "\n"))?;
    Ok(files.count)
}

/// Adds the counters as they are now to a capture, so that what grows can be told.
///
/// # Errors
/// When the capture cannot be written.
pub fn write_later(root: &Path, nics: &[Nic], dir: &Path) -> io::Result<usize> {
    let dir = dir.join(LATER);
    let mut files = Tree { root, dir: &dir, count: 0 };
    for file in ["proc/uptime", "proc/net/softnet_stat", "proc/net/snmp", "proc/net/snmp6"] {
        files.copy(file)?;
    }
    files.later(nics)?;
    Ok(files.count)
}

/// The netlink answers of a capture.
///
/// # Errors
/// When there are none, or they are of another form.
pub fn answers(dir: &Path) -> io::Result<Vec<Nic>> {
    let path = dir.join(ANSWERS);
    let text = fs::read_to_string(&path).map_err(|error| explained(&path, &error))?;
    serde_json::from_str(&text).map_err(|error| explained(&path, &error))
}

/// Adds what the kernel knows of the MTU of paths to a capture, with other destinations. Nothing is written where nothing is
/// known.
///
/// # Errors
/// When the capture cannot be written.
pub fn write_paths(narrow: &[NarrowPath], dir: &Path) -> io::Result<usize> {
    if narrow.is_empty() {
        return Ok(0);
    }
    let text = serde_json::to_string_pretty(&paths::anonymous(narrow))?;
    fs::write(dir.join(PATHS), text + "\n").map(|()| 1)
}

/// The narrow paths of a capture; none in one that has no such file.
///
/// # Errors
/// When the file is of another form.
pub(super) fn paths(dir: &Path) -> io::Result<Vec<NarrowPath>> {
    let path = dir.join(PATHS);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| explained(&path, &error)),
        Err(_) => Ok(Vec::new()),
    }
}

fn explained(path: &Path, reason: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "{}: {reason}; name a directory that `netcliff inspect --capture DIR` wrote",
        path.display()
    ))
}

/// A capture being written.
struct Tree<'a> {
    root: &'a Path,
    dir: &'a Path,
    count: usize,
}

impl Tree<'_> {
    fn write(&mut self, file: &str, text: &str) -> io::Result<()> {
        let path = self.dir.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
        self.count += 1;
        Ok(())
    }

    /// What is absent, or not shown to this user, is absent in the capture.
    fn copy(&mut self, pattern: &str) -> io::Result<()> {
        for file in matches(self.root, pattern) {
            if let Ok(text) = fs::read_to_string(self.root.join(&file)) {
                self.write(&file, &text)?;
            }
        }
        Ok(())
    }

    fn edited(&mut self, file: &str, edit: impl Fn(&str) -> String) -> io::Result<()> {
        match fs::read_to_string(self.root.join(file)) {
            Ok(text) => self.write(file, &edit(&text)),
            Err(_) => Ok(()),
        }
    }

    fn system(&mut self) -> io::Result<()> {
        self.edited("proc/cmdline", command_line)?;
        self.edited("proc/cpuinfo", first_processor)?;
        self.edited("proc/stat", |text| lines(text, |line| line.starts_with("cpu ")))?;
        self.edited("proc/self/status", |text| lines(text, |line| line.starts_with("Uid:")))?;
        self.edited("proc/modules", |text| {
            lines(text, |line| FILTERS.iter().any(|name| line.split(' ').next() == Some(name)))
        })?;
        for file in ["proc/net/ip_tables_names", "proc/net/ip6_tables_names"] {
            if self.root.join(file).exists() {
                self.write(file, "")?;
            }
        }
        let release = procfs::text(self.root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        let wanted = |line: &str| line.starts_with("CONFIG_HZ=") || line.starts_with("CONFIG_PREEMPT");
        let configuration = lines(&kernel_configuration(self.root, Some(&release)), wanted);
        if !configuration.is_empty() {
            self.write(&format!("boot/config-{release}"), &configuration)?;
        }
        if self.root.join("sys/kernel/btf/vmlinux").exists() {
            self.write("sys/kernel/btf/vmlinux", "")?;
        }
        for file in matches(self.root, "proc/*/comm") {
            if procfs::text(self.root.join(&file)).as_deref() == Some("irqbalance") {
                self.write(&file, "irqbalance\n")?;
            }
        }
        Ok(())
    }

    fn interface(&mut self, name: &str) -> io::Result<()> {
        let here = format!("sys/class/net/{name}");
        for file in OF_INTERFACE {
            self.copy(&format!("{here}/{file}"))?;
        }
        // A queue without XPS refuses to be read, and is a queue all the same.
        for (queue, path) in procfs::numbered(self.root.join(&here).join("queues"), "tx-") {
            if procfs::text(path.join("xps_cpus")).is_none() {
                self.write(&format!("{here}/queues/tx-{queue}/xps_cpus"), "")?;
            }
        }
        let device = self.root.join(&here).join("device");
        let node = [device.join("numa_node"), device.join("../numa_node")].into_iter().find_map(procfs::text);
        if let Some(node) = node {
            self.write(&format!("{here}/device/numa_node"), &(node + "\n"))?;
        }
        // Only the name of the driver is read, so the link may lead nowhere.
        if let Ok(driver) = fs::read_link(device.join("driver"))
            && let Some(driver) = driver.file_name()
        {
            fs::create_dir_all(self.dir.join(&here).join("device"))?;
            symlink(Path::new("../drivers").join(driver), self.dir.join(&here).join("device/driver"))?;
            self.count += 1;
        }
        Ok(())
    }

    fn interrupts(&mut self, nics: &[Nic]) -> io::Result<()> {
        let mut wanted = BTreeSet::new();
        for nic in nics {
            let here = format!("sys/class/net/{}", nic.name);
            let listed = message_interrupts(&self.root.join(&here).join("device"));
            for (irq, _) in procfs::numbered(listed, "") {
                self.write(&format!("{here}/device/msi_irqs/{irq}"), "msix\n")?;
                wanted.insert(irq.to_string());
            }
        }
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        self.edited("proc/interrupts", |text| {
            lines(text, |line| {
                let row = line.split(':').next().unwrap_or_default().trim();
                let other = row.parse::<u32>().is_ok();
                !other || wanted.contains(row) || names.iter().any(|name| line.contains(name))
            })
        })?;
        for irq in wanted {
            self.copy(&format!("proc/irq/{irq}/smp_affinity_list"))?;
            self.copy(&format!("proc/irq/{irq}/effective_affinity_list"))?;
        }
        Ok(())
    }

    fn later(&mut self, nics: &[Nic]) -> io::Result<()> {
        for nic in nics {
            for counter in STATISTICS {
                self.copy(&format!("sys/class/net/{}/statistics/{counter}", nic.name))?;
            }
        }
        Ok(())
    }
}

/// Existing paths below `root` that a pattern stands for, relative to it.
fn matches(root: &Path, pattern: &str) -> Vec<String> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.split('/') {
        let fits = |name: &str| match part.split_once('*') {
            Some((head, tail)) => name.starts_with(head) && name.ends_with(tail),
            None => name == part,
        };
        found = found
            .iter()
            .flat_map(|dir| {
                let names = if part.contains('*') { procfs::names(root.join(dir)) } else { vec![part.to_owned()] };
                names.into_iter().filter(|name| fits(name)).map(|name| dir.join(name)).collect::<Vec<_>>()
            })
            .filter(|path| root.join(path).exists())
            .collect();
    }
    found.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| keep(line)).map(|line| format!("{line}\n")).collect()
}

fn command_line(text: &str) -> String {
    let known = |word: &&str| PARAMETERS.contains(&word.split('=').next().unwrap_or_default());
    text.split_whitespace().filter(known).collect::<Vec<_>>().join(" ") + "\n"
}

/// The first processor whole, without a serial number; of the others that they are there.
fn first_processor(text: &str) -> String {
    let mut blocks = text.split("\n\n");
    let first = lines(blocks.next().unwrap_or_default(), |line| !line.to_lowercase().starts_with("serial"));
    let others = blocks.map(|block| lines(block, |line| line.starts_with("processor")));
    [first].into_iter().chain(others.filter(|block| !block.is_empty())).collect::<Vec<_>>().join("\n")
}

/// Interfaces with hardware addresses of their own making, equal ones staying equal, and without RSS keys.
fn anonymous(nics: &[Nic]) -> Vec<Nic> {
    let mut addresses: BTreeMap<String, String> = BTreeMap::new();
    let mut replace = |mac: &String| {
        let next = addresses.len() + 1;
        let new = || format!("02:00:00:00:{:02x}:{:02x}", next / 256 % 256, next % 256);
        addresses.entry(mac.clone()).or_insert_with(new).clone()
    };
    let anonymous = nics.iter().map(|nic| {
        let mut nic = nic.clone();
        nic.mac = nic.mac.as_ref().map(&mut replace);
        if let Some(rss) = &mut nic.rss {
            rss.key = None;
        }
        nic
    });
    anonymous.collect()
}
