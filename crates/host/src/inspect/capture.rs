//! Records the files that an inspection reads, so that they can be inspected on another machine: [`write()`],
//! [`write_later`], [`answers`], [`write_paths`].
//!
//! A capture is a directory tree of the files in an explicit list, and [`ANSWERS`]: the kernel's netlink answers. It is
//! anonymised. Hardware addresses are replaced; the RSS key and the addresses in flow rules are removed. Of the kernel
//! command line only parameters that change packet handling keep their values. Of the processes only services that
//! disturb measurements are recorded, and of interrupts and modules only those that the inspection uses.

mod tree;

use super::{
    NarrowPath,
    paths::{self, PATHS},
};
use crate::{files, inventory::SYSCTLS, nic::Nic, setting::is_interface_name};
use netcliff_core::quote::in_short;
use std::{collections::BTreeMap, fs, io, path::Path};
use tree::Tree;

/// File of a capture that holds the kernel's netlink answers (a JSON list of interfaces).
pub const ANSWERS: &str = "netlink.json";
/// Directory of a capture with the counters of a second, later reading.
pub const LATER: &str = "later";

/// Files that are copied unchanged; `*` stands for one component of a path.
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
    "sys/devices/system/cpu/cpufreq/*/scaling_min_freq",
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

/// Writes the files that an inspection of `root` reads, and the netlink answers, into a new or empty directory. Returns
/// the number of files.
///
/// # Errors
/// The directory is not empty or cannot be written.
pub fn write(root: &Path, nics: &[Nic], dir: &Path) -> io::Result<usize> {
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let reason = format!("{} is not empty; name a directory that does not exist", dir.display());
        return Err(io::Error::other(reason));
    }
    let mut files = Tree::new(root, dir);
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
    // A PCI function's configuration space is binary and not copied; the hints read from it are stored here.
    let hinted = |nic: &Nic| Nic { tph: crate::nic::hints(&root.join("sys"), &nic.name).or(nic.tph), ..nic.clone() };
    let nics: Vec<Nic> = nics.iter().map(hinted).collect();
    let text = serde_json::to_string_pretty(&anonymous(&nics))?;
    files.write(ANSWERS, &(text + "\n"))?;
    Ok(files.count)
}

/// Adds a second reading of the counters to a capture, so that their growth can be reported.
///
/// # Errors
/// The capture cannot be written.
pub fn write_later(root: &Path, nics: &[Nic], dir: &Path) -> io::Result<usize> {
    let dir = dir.join(LATER);
    let mut files = Tree::new(root, &dir);
    for file in ["proc/uptime", "proc/net/softnet_stat", "proc/net/snmp", "proc/net/snmp6"] {
        files.copy(file)?;
    }
    files.interrupts(nics)?;
    files.later(nics)?;
    Ok(files.count)
}

/// Reads the netlink answers of a capture.
///
/// # Errors
/// The file does not exist or has another format.
pub fn answers(dir: &Path) -> io::Result<Vec<Nic>> {
    let path = dir.join(ANSWERS);
    let text = files::text(&path, files::MOST_BYTES).map_err(|error| explained(&path, &error))?;
    let nics: Vec<Nic> = serde_json::from_str(&text).map_err(|error| explained(&path, &error))?;
    match nics.iter().find(|nic| !is_interface_name(&nic.name)) {
        Some(nic) => Err(explained(&path, &format!("{:?} is no name of an interface", in_short(&nic.name)))),
        None => Ok(nics),
    }
}

/// Adds the path MTUs that the kernel knows to a capture, with made-up destinations. Writes no file if the kernel knows
/// no path MTU.
///
/// # Errors
/// The capture cannot be written.
pub fn write_paths(narrow: &[NarrowPath], dir: &Path) -> io::Result<usize> {
    if narrow.is_empty() {
        return Ok(0);
    }
    let text = serde_json::to_string_pretty(&paths::anonymous(narrow))?;
    fs::write(dir.join(PATHS), text + "\n").map(|()| 1)
}

/// Reads from a capture the paths whose MTU is smaller than the MTU of their interface; empty if the capture has no
/// such file.
///
/// # Errors
/// The file has another format.
pub(super) fn paths(dir: &Path) -> io::Result<Vec<NarrowPath>> {
    let path = dir.join(PATHS);
    match files::text(&path, files::MOST_BYTES) {
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

/// Replaces each address in a flow rule by `...`.
fn without_addresses(rule: &str) -> String {
    let mut words: Vec<&str> = rule.split(' ').collect();
    for at in 1..words.len() {
        if matches!(words[at - 1], "src-ip" | "dst-ip") {
            words[at] = "...";
        }
    }
    words.join(" ")
}

/// Replaces the interfaces' hardware addresses by made-up ones (equal addresses stay equal), and removes the RSS keys.
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
        nic.flow_rules.iter_mut().for_each(|rule| rule.rule = without_addresses(&rule.rule));
        nic
    });
    anonymous.collect()
}
