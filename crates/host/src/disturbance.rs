//! Disturbances of a measurement that appear in counters and settings: throttling, changed CPU frequency, interrupts
//! moved to other CPUs, packets dropped before a socket, exhausted cgroup quotas.
//!
//! [`Disturbances::since`] compares two readings, before and after, and describes each disturbance in a sentence.
//! Values that this machine does not report are left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::inventory::process_named;
use crate::procfs::{number, numbered, text, titled};
use crate::softnet;

/// Relative difference of a CPU's frequency between readings above which it counts as scaled.
const FREQUENCY_SHARE: f64 = 0.05;

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disturbances {
    /// Number of thermal throttlings, by CPU.
    throttled: BTreeMap<u32, u64>,
    /// Number of times that the cgroup's CPU quota was exhausted.
    quota: Option<u64>,
    /// Lowest and highest observed frequency (kHz), by CPU.
    frequency_khz: BTreeMap<u32, (u64, u64)>,
    governor: Option<String>,
    /// CPUs that an interrupt may use, by interrupt number.
    interrupts: BTreeMap<u32, String>,
    /// Packets dropped at full backlogs.
    full_backlogs: Option<u64>,
    /// Number of times that TCP reached the memory pressure of `net.ipv4.tcp_mem`.
    tcp_pressures: Option<u64>,
    /// True if irqbalance runs.
    balanced: bool,
}

impl Disturbances {
    /// Reads the values of this host.
    pub fn of_this_host() -> Self {
        Self::read(Path::new("/"))
    }

    /// Reads only the frequencies, which takes less time than all values.
    pub fn frequencies_of_this_host() -> Self {
        Self { frequency_khz: frequencies(&cpus(Path::new("/"))), ..Self::default() }
    }

    /// Reads the values below `root`: `/`, or a directory with the same structure.
    pub fn read(root: &Path) -> Self {
        let cpus = cpus(root);
        let throttle = |(cpu, path): &(u32, PathBuf)| {
            let counts = ["core_throttle_count", "package_throttle_count"];
            let sum = counts.iter().filter_map(|name| number::<u64>(path.join("thermal_throttle").join(name)));
            Some((*cpu, sum.reduce(|a, b| a + b)?))
        };
        let irqs = numbered(root.join("proc/irq"), "");
        let affinity = |(number, path): (u32, PathBuf)| Some((number, text(path.join("smp_affinity_list"))?));
        Self {
            throttled: cpus.iter().filter_map(throttle).collect(),
            quota: cgroup::throttled(root, "self"),
            frequency_khz: frequencies(&cpus),
            governor: cpus.iter().find_map(|(_, path)| text(path.join("cpufreq/scaling_governor"))),
            interrupts: irqs.into_iter().filter_map(affinity).collect(),
            full_backlogs: full_backlogs(root),
            tcp_pressures: titled(
                &text(root.join("proc/net/netstat")).unwrap_or_default(),
                "TcpExt:",
                "TCPMemoryPressures",
            ),
            balanced: process_named(root, "irqbalance").is_some(),
        }
    }

    /// Includes the frequencies of a later reading, so that changes in between are noticed.
    pub fn widen(&mut self, later: &Self) {
        for (cpu, (low, high)) in &later.frequency_khz {
            let held = self.frequency_khz.entry(*cpu).or_insert((*low, *high));
            *held = (held.0.min(*low), held.1.max(*high));
        }
    }

    /// Disturbances from `before` to this reading, one sentence each.
    pub fn since(&self, before: &Self) -> Vec<String> {
        let mut said = Vec::new();
        for (cpu, count) in &self.throttled {
            let more = count.saturating_sub(before.throttled.get(cpu).copied().unwrap_or(*count));
            if more > 0 {
                said.push(format!("CPU {cpu} was throttled {more} times for its temperature: it ran slower then"));
            }
        }
        if let (Some(from), Some(to)) = (before.quota, self.quota)
            && to > from
        {
            let more = to - from;
            said.push(format!(
                "the CPU quota of this cgroup was used up {more} times: its threads had to wait (cpu.max)"
            ));
        }
        said.extend(self.scaled(before));
        said.extend(self.moved(before));
        if let (Some(from), Some(to)) = (before.full_backlogs, self.full_backlogs)
            && to > from
        {
            let more = to - from;
            said.push(format!("{more} packets found a full backlog (net.core.netdev_max_backlog) and were dropped"));
        }
        if let (Some(from), Some(to)) = (before.tcp_pressures, self.tcp_pressures)
            && to > from
        {
            let more = to - from;
            said.push(format!(
                "TCP ran short of memory {more} times (net.ipv4.tcp_mem): it drops what it cannot queue and waits for its \
                 timers; fewer flows, or smaller buffers (SO_SNDBUF, SO_RCVBUF), need less"
            ));
        }
        said
    }

    fn scaled(&self, before: &Self) -> Option<String> {
        let mut all = before.clone();
        all.widen(self);
        let (cpu, (low, high)) = all
            .frequency_khz
            .iter()
            .max_by(|a, b| share(a.1).total_cmp(&share(b.1)))
            .filter(|(_, ends)| share(ends) > FREQUENCY_SHARE)?;
        let governor = self.governor.as_deref().unwrap_or("unknown");
        let mhz = |khz: &u64| khz / 1000;
        Some(format!(
            "the frequency of CPU {cpu} was between {} and {} MHz (governor {governor}): figures differ by how busy the host was \
             before; the governor performance holds it",
            mhz(low),
            mhz(high)
        ))
    }

    fn moved(&self, before: &Self) -> Option<String> {
        let other = |(number, cpus): (&u32, &String)| {
            let from = before.interrupts.get(number)?;
            (from != cpus).then(|| format!("{number} from CPU {from} to {cpus}"))
        };
        let moved: Vec<String> = self.interrupts.iter().filter_map(other).collect();
        let by =
            if self.balanced || before.balanced { "irqbalance runs: stop it for the measurement" } else { "by what?" };
        (!moved.is_empty()).then(|| format!("interrupts were moved during the run ({}): {by}", moved.join(", ")))
    }
}

fn cpus(root: &Path) -> Vec<(u32, PathBuf)> {
    numbered(root.join("sys/devices/system/cpu"), "cpu")
}

/// Present frequency of each CPU, as (lowest, highest).
fn frequencies(cpus: &[(u32, PathBuf)]) -> BTreeMap<u32, (u64, u64)> {
    let frequency = |(cpu, path): &(u32, PathBuf)| {
        let khz: u64 = number(path.join("cpufreq/scaling_cur_freq"))?;
        Some((*cpu, (khz, khz)))
    };
    cpus.iter().filter_map(frequency).collect()
}

/// Relative difference of two frequencies: highest / lowest - 1; 0 if the lowest is 0.
fn share((low, high): &(u64, u64)) -> f64 {
    if *low == 0 { 0.0 } else { *high as f64 / *low as f64 - 1.0 }
}

/// Packets dropped at full backlogs, summed over all CPUs.
fn full_backlogs(root: &Path) -> Option<u64> {
    let rows = softnet::parse_softnet(&text(root.join("proc/net/softnet_stat"))?).ok()?;
    Some(rows.iter().map(|row| u64::from(row.dropped)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::lay as write;

    fn host(root: &Path) {
        write(root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
        write(root, "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "1\n");
        write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
        write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n");
        write(root, "proc/irq/24/smp_affinity_list", "0\n");
        write(root, "proc/self/cgroup", "1:cpu:/\n0::/box\n");
        write(root, "sys/fs/cgroup/cgroup.procs", "");
        write(root, "sys/fs/cgroup/box/cpu.stat", "nr_periods 9\nnr_throttled 2\n");
        write(
            root,
            "proc/net/softnet_stat",
            "0000000a 00000001 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
        );
        write(root, "proc/77/comm", "irqbalance\n");
        write(
            root,
            "proc/net/netstat",
            "TcpExt: SyncookiesSent TCPMemoryPressures\nTcpExt: 0 4\nIpExt: In\nIpExt: 1\n",
        );
    }

    #[test]
    fn each_disturbance_is_a_sentence() {
        let dir = tempfile::tempdir().expect("room");
        let root = dir.path();
        host(root);
        let before = Disturbances::read(root);
        assert_eq!(Disturbances::read(root).since(&before), Vec::<String>::new(), "nothing happened");
        write(root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n");
        write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
        write(root, "proc/irq/24/smp_affinity_list", "1\n");
        write(root, "sys/fs/cgroup/box/cpu.stat", "nr_periods 20\nnr_throttled 5\n");
        write(
            root,
            "proc/net/softnet_stat",
            "0000000a 00000011 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
        );
        write(
            root,
            "proc/net/netstat",
            "TcpExt: SyncookiesSent TCPMemoryPressures\nTcpExt: 0 7\nIpExt: In\nIpExt: 1\n",
        );
        let said = Disturbances::read(root).since(&before);
        for words in [
            ["CPU 0", "throttled 4 times"],
            ["quota", "3 times"],
            ["2000 and 3000 MHz", "schedutil"],
            ["24 from CPU 0 to 1", "irqbalance runs"],
            ["16 packets", "backlog"],
            ["short of memory 3 times", "tcp_mem"],
        ] {
            assert!(said.iter().any(|line| words.iter().all(|word| line.contains(word))), "{words:?}: {said:?}");
        }
        assert_eq!(said.len(), 6, "{said:?}");
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_disturbances() {
        let dir = tempfile::tempdir().expect("room");
        let empty = Disturbances::read(dir.path());
        assert_eq!((empty.since(&empty), &empty), (Vec::new(), &Disturbances::default()));
    }

    #[test]
    fn a_frequency_in_between_counts() {
        let of = |khz| Disturbances { frequency_khz: [(1, (khz, khz))].into(), ..Disturbances::default() };
        let mut before = of(2_000_000);
        before.widen(&of(2_500_000));
        assert_eq!(of(2_000_000).since(&before).len(), 1);
    }
}
