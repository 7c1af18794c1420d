//! Processors.

use crate::procfs;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Processors, their frequencies and idle states.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Model name.
    pub model: Option<String>,
    /// Family, model and stepping, as `6/143/8`.
    pub signature: Option<String>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Online CPUs.
    pub online: Vec<u32>,
    /// Groups of CPUs that share a core; only groups of two or more.
    pub smt_siblings: Vec<Vec<u32>>,
    /// Whether simultaneous multithreading is in use.
    pub smt_active: Option<bool>,
    /// Number of physical packages.
    pub packages: Option<usize>,
    /// CPUs of each NUMA node.
    pub numa_nodes: BTreeMap<u32, String>,
    /// Frequency governors in use (`performance`, `schedutil`, ...). Empty if the kernel cannot choose the frequency: a
    /// guest, or the firmware chooses.
    pub governors: Vec<String>,
    /// Governor of each frequency policy (`policy0`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy_governors: BTreeMap<String, String>,
    /// Lowest and highest frequency that the kernel may choose under each policy (Hz).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy_frequencies_hz: BTreeMap<String, (u64, u64)>,
    /// Frequency driver.
    pub frequency_driver: Option<String>,
    /// Highest frequency that the kernel may choose (Hz).
    pub frequency_max_hz: Option<u64>,
    /// Whether frequencies above the nominal one (boost, turbo) are allowed.
    pub boost: Option<bool>,
    /// Idle driver (`intel_idle`, `none`, ...).
    pub idle_driver: Option<String>,
    /// Idle governor.
    pub idle_governor: Option<String>,
    /// Idle states of the first online CPU that has any. A state counts as disabled if it is disabled on every CPU.
    pub idle_states: Vec<IdleState>,
    /// Data and unified caches; the one nearest to the CPU first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// Vulnerabilities, each with its mitigation.
    pub mitigations: BTreeMap<String, String>,
}

/// An idle state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// Name, for example `C6`.
    pub name: String,
    /// Time to leave the state (us).
    pub exit_latency_us: Option<u64>,
    /// Whether the state is disabled on all CPUs.
    pub disabled: bool,
    /// CPUs that may enter the state, if it is disabled on others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_on: Vec<u32>,
}

/// The data or unified caches of one level.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Level; 1 is nearest to the CPU.
    pub level: u32,
    /// Size of one cache (bytes).
    pub size_bytes: Option<u64>,
    /// Groups of CPUs that share a cache of this level.
    pub shared: Vec<Vec<u32>>,
}

impl Cpu {
    pub(super) fn read(root: &Path, cpuinfo: &str) -> Cpu {
        let sys = root.join("sys/devices/system/cpu");
        let online = procfs::text(sys.join("online")).and_then(|list| procfs::cpu_list(&list));
        let online = online.unwrap_or_else(|| listed(cpuinfo));
        let policies = sys.join("cpufreq");
        let policy = |name: &str| policies.join("policy0").join(name);
        Cpu {
            // ARM kernels do not print a model name; the implementer and part numbers replace it.
            model: field(cpuinfo, "model name")
                .or_else(|| Some(format!("{} {}", field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?))),
            signature: signature(cpuinfo),
            microcode: field(cpuinfo, "microcode"),
            smt_siblings: smt_siblings(&sys, &online),
            smt_active: procfs::number::<u8>(sys.join("smt/active")).map(|active| active != 0),
            packages: packages(&sys, &online),
            numa_nodes: numa_nodes(root),
            governors: governors(&policies),
            policy_governors: policy_governors(&policies),
            policy_frequencies_hz: policy_frequencies_hz(&policies),
            frequency_driver: procfs::text(policy("scaling_driver")),
            frequency_max_hz: procfs::number::<u64>(policy("scaling_max_freq")).map(|khz| khz * 1000),
            boost: boost(&sys),
            idle_driver: procfs::text(sys.join("cpuidle/current_driver")),
            idle_governor: procfs::text(sys.join("cpuidle/current_governor"))
                .or_else(|| procfs::text(sys.join("cpuidle/current_governor_ro"))),
            idle_states: idle_states(&sys, &online),
            caches: caches(&sys, &online),
            mitigations: mitigations(&sys),
            online,
        }
    }
}

/// The first value of a field of /proc/cpuinfo.
pub(super) fn field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

fn listed(cpuinfo: &str) -> Vec<u32> {
    let numbers = cpuinfo.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "processor").then(|| value.trim().parse().ok())?
    });
    numbers.collect()
}

fn signature(cpuinfo: &str) -> Option<String> {
    let parts = ["cpu family", "model", "stepping"].map(|name| field(cpuinfo, name));
    let parts: Option<Vec<String>> = parts.into_iter().collect();
    parts.map(|parts| parts.join("/"))
}

/// The online CPUs of the host whose files are below `root`: from sysfs, or from procfs if sysfs is absent. Empty if
/// neither reports them.
pub fn online_cpus(root: &Path) -> Vec<u32> {
    let list = procfs::text(root.join("sys/devices/system/cpu/online"));
    let of_procfs = || procfs::text(root.join("proc/cpuinfo")).map(|cpuinfo| processors(&cpuinfo)).unwrap_or_default();
    list.and_then(|list| procfs::cpu_list(&list)).unwrap_or_else(of_procfs)
}

/// The numbers in the lines `processor : N` of /proc/cpuinfo.
fn processors(cpuinfo: &str) -> Vec<u32> {
    let number = |line: &str| line.strip_prefix("processor")?.trim_start().strip_prefix(':')?.trim().parse().ok();
    cpuinfo.lines().filter_map(number).collect()
}

fn smt_siblings(sys: &Path, online: &[u32]) -> Vec<Vec<u32>> {
    let groups: BTreeSet<Vec<u32>> = online
        .iter()
        .filter_map(|cpu| {
            let file = sys.join(format!("cpu{cpu}/topology/thread_siblings_list"));
            procfs::cpu_list(&procfs::text(file)?)
        })
        .filter(|group| group.len() > 1)
        .collect();
    groups.into_iter().collect()
}

fn packages(sys: &Path, online: &[u32]) -> Option<usize> {
    let ids: BTreeSet<String> = online
        .iter()
        .filter_map(|cpu| procfs::text(sys.join(format!("cpu{cpu}/topology/physical_package_id"))))
        .collect();
    (!ids.is_empty()).then_some(ids.len())
}

fn numa_nodes(root: &Path) -> BTreeMap<u32, String> {
    let dir = root.join("sys/devices/system/node");
    let numbered = |name: &String| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        Some((node, procfs::text(dir.join(name).join("cpulist")).unwrap_or_default()))
    };
    procfs::names(&dir).iter().filter_map(numbered).collect()
}

fn policy_governors(policies: &Path) -> BTreeMap<String, String> {
    let governor = |policy: String| {
        let governor = procfs::text(policies.join(&policy).join("scaling_governor"))?;
        Some((policy, governor))
    };
    procfs::names(policies).into_iter().filter_map(governor).collect()
}

fn policy_frequencies_hz(policies: &Path) -> BTreeMap<String, (u64, u64)> {
    let range = |policy: String| {
        let hz = |name| procfs::number::<u64>(policies.join(&policy).join(name))?.checked_mul(1000);
        let range = (hz("scaling_min_freq")?, hz("scaling_max_freq")?);
        Some((policy, range))
    };
    procfs::names(policies).into_iter().filter_map(range).collect()
}

fn governors(policies: &Path) -> Vec<String> {
    let found: BTreeSet<String> = policy_governors(policies).into_values().collect();
    found.into_iter().collect()
}

fn boost(sys: &Path) -> Option<bool> {
    let no_turbo = procfs::number::<u8>(sys.join("intel_pstate/no_turbo")).map(|off| off == 0);
    no_turbo.or_else(|| procfs::number::<u8>(sys.join("cpufreq/boost")).map(|on| on != 0))
}

fn idle_states(sys: &Path, online: &[u32]) -> Vec<IdleState> {
    let dir_of = |cpu: u32| sys.join(format!("cpu{cpu}/cpuidle"));
    // A capture of an older netcliff has the idle states of CPU 0 only; and a host may run without CPU 0.
    let Some(dir) = [0].iter().chain(online).map(|cpu| dir_of(*cpu)).find(|dir| !procfs::names(dir).is_empty()) else {
        return Vec::new();
    };
    let mut states: Vec<(u32, IdleState)> = procfs::names(&dir)
        .iter()
        .filter_map(|entry| {
            let number = entry.strip_prefix("state")?.parse().ok()?;
            let file = |name: &str| dir.join(entry).join(name);
            let disabled = |dir: &Path| procfs::number::<u8>(dir.join(entry).join("disable")).map(|off| off != 0);
            let by_cpu: Vec<(u32, bool)> =
                online.iter().filter_map(|cpu| Some((*cpu, disabled(&dir_of(*cpu))?))).collect();
            let off = if by_cpu.is_empty() { disabled(&dir) == Some(true) } else { by_cpu.iter().all(|(_, off)| *off) };
            let on: Vec<u32> = by_cpu.iter().filter(|(_, off)| !off).map(|(cpu, _)| *cpu).collect();
            let state = IdleState {
                name: procfs::text(file("name"))?,
                exit_latency_us: procfs::number(file("latency")),
                disabled: off,
                only_on: if on.len() == by_cpu.len() { Vec::new() } else { on },
            };
            Some((number, state))
        })
        .collect();
    states.sort_by_key(|(number, _)| *number);
    states.into_iter().map(|(_, state)| state).collect()
}

fn caches(sys: &Path, online: &[u32]) -> Vec<Cache> {
    let mut levels: BTreeMap<u32, (Option<u64>, BTreeSet<Vec<u32>>)> = BTreeMap::new();
    for cpu in online {
        for (_, index) in procfs::numbered(sys.join(format!("cpu{cpu}/cache")), "index") {
            let (Some(level), Some(kind)) = (procfs::number(index.join("level")), procfs::text(index.join("type")))
            else {
                continue;
            };
            if kind == "Instruction" {
                continue;
            }
            let size = procfs::text(index.join("size")).and_then(|size| kibibytes(&size));
            let level = levels.entry(level).or_insert((size, BTreeSet::new()));
            let shared = procfs::text(index.join("shared_cpu_list")).and_then(|list| procfs::cpu_list(&list));
            level.1.extend(shared);
        }
    }
    let cache = |(level, (size_bytes, shared)): (u32, (_, BTreeSet<_>))| Cache {
        level,
        size_bytes,
        shared: shared.into_iter().collect(),
    };
    levels.into_iter().map(cache).collect()
}

/// Converts a size such as `2048K` to bytes.
fn kibibytes(size: &str) -> Option<u64> {
    size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

fn mitigations(sys: &Path) -> BTreeMap<String, String> {
    let dir = sys.join("vulnerabilities");
    let read = |name: String| Some((name.clone(), procfs::text(dir.join(name))?));
    procfs::names(&dir).into_iter().filter_map(read).collect()
}
