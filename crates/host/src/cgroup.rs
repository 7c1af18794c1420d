//! CPU quotas of cgroups: [`Quota`], of version 2 (`cpu.max`) and of version 1's cpu controller (`cpu.cfs_quota_us`).
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files"; Documentation/scheduler/sched-bwc.rst.

use crate::procfs::{number, text};
use netcliff_core::watch::QuotaMoment;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Mount points of version 2: alone, and next to version 1.
const UNIFIED: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
/// Mount points of version 1's cpu controller.
const CPU: [&str; 2] = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];

/// A cgroup with a CPU controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// Path below the mount point, beginning with a slash.
    name: String,
    folder: PathBuf,
    /// File with the group's CPU time in version 1 (ns); `None` in version 2, where `cpu.stat` has the time.
    account: Option<PathBuf>,
}

/// A running process: (process ID, start time in ticks since boot).
pub(crate) type Running = (u32, u64);

/// A CPU quota, and counts since the cgroup was created.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quota {
    /// Quota (CPUs).
    limit: f64,
    used_ns: u64,
    periods: u64,
    throttled: u64,
}

/// The cgroups that may limit a process's CPU time, with all groups above them that can be read.
pub(crate) fn groups(root: &Path, process: &str) -> Vec<Group> {
    let Some(table) = text(root.join("proc").join(process).join("cgroup")) else { return Vec::new() };
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let version_2 = controllers.is_empty();
        let mounts = match controllers {
            "" => UNIFIED,
            list if list.split(',').any(|name| name == "cpu") => CPU,
            _ => return None,
        };
        let mounts = mounts.into_iter().map(|mount| root.join(mount));
        let mount = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
        // A container's path may be that of the host, while its mount begins at the container.
        let path = Path::new(path.trim_start_matches('/'));
        let path = if mount.join(path).is_dir() { path } else { Path::new("") };
        let group = |path: &Path| Group {
            name: format!("/{}", path.display()),
            folder: mount.join(path),
            account: (!version_2).then(|| mount.with_file_name("cpuacct").join(path).join("cpuacct.usage")),
        };
        Some(path.ancestors().map(group).collect::<Vec<Group>>())
    };
    table.lines().filter_map(of).flatten().collect()
}

/// Number of times that the CPU quota of a process's cgroups, or of a group above them, was exhausted, summed over
/// these groups. `None` if none of the groups can be read.
pub(crate) fn throttled(root: &Path, process: &str) -> Option<u64> {
    let counts = groups(root, process).into_iter().filter_map(|group| field(&group.stat()?, "nr_throttled"));
    counts.reduce(|a, b| a + b)
}

impl Group {
    fn stat(&self) -> Option<String> {
        text(self.folder.join("cpu.stat"))
    }

    /// The group's quota; `None` if it has none.
    fn quota(&self) -> Option<Quota> {
        let limit = if self.account.is_none() {
            let text = text(self.folder.join("cpu.max"))?;
            let mut words = text.split_ascii_whitespace().map(str::parse::<f64>);
            // The word `max` means no limit.
            words.next()?.ok()? / words.next()?.ok()?
        } else {
            let quota_us: i64 = number(self.folder.join("cpu.cfs_quota_us"))?;
            let period_us: i64 = number(self.folder.join("cpu.cfs_period_us"))?;
            if quota_us <= 0 || period_us <= 0 {
                return None;
            }
            quota_us as f64 / period_us as f64
        };
        let stat = self.stat()?;
        let count = |name| field(&stat, name);
        let used_ns = match &self.account {
            Some(account) => number(account)?,
            None => count("usage_usec")?.saturating_mul(1000),
        };
        Some(Quota { limit, used_ns, periods: count("nr_periods")?, throttled: count("nr_throttled")? })
    }
}

/// The number after a name, in a table of names and numbers.
fn field(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Quotas of all running programs, by cgroup.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    groups: BTreeMap<Running, Arc<[Group]>>,
    counted: BTreeMap<Group, Quota>,
}

impl Quotas {
    /// Reads the CPU quotas of these processes' cgroups. The list of groups of a process that is known from `before` is
    /// not read again.
    pub(crate) fn now(root: &Path, processes: impl Iterator<Item = Running>, before: Option<&Quotas>) -> Self {
        let known = |process: &Running| before.and_then(|quotas| quotas.groups.get(process)).cloned();
        let of = |process: Running| {
            let groups = known(&process).unwrap_or_else(|| groups(root, &process.0.to_string()).into());
            (process, groups)
        };
        let groups: BTreeMap<Running, Arc<[Group]>> = processes.map(of).collect();
        let distinct: BTreeSet<&Group> = groups.values().flat_map(|groups| groups.iter()).collect();
        let counted = distinct.into_iter().filter_map(|group| Some((group.clone(), group.quota()?))).collect();
        Self { groups, counted }
    }

    /// CPU use of each group with a quota between this reading and a later one (`seconds` later), the group closest to
    /// its limit first. Groups that used no CPU time are omitted.
    pub(crate) fn until(&self, later: &Self, seconds: f64) -> Vec<QuotaMoment> {
        let of = |(group, now): (&Group, &Quota)| {
            let then = self.counted.get(group)?;
            let used = now.used_ns.checked_sub(then.used_ns)? as f64 / 1e9 / seconds;
            let periods = now.periods.saturating_sub(then.periods);
            let throttled = now.throttled.saturating_sub(then.throttled);
            let throttled = if periods == 0 { 0.0 } else { throttled as f64 / periods as f64 };
            (used > 0.0).then(|| QuotaMoment { group: group.name.clone(), cpus: now.limit, used, throttled })
        };
        let mut quotas: Vec<QuotaMoment> = later.counted.iter().filter_map(of).collect();
        quotas.sort_by(|a, b| b.share().total_cmp(&a.share()));
        quotas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::lay as write;

    fn read(root: &Path, before: Option<&Quotas>) -> Quotas {
        Quotas::now(root, [(7, 1), (8, 1)].into_iter(), before)
    }

    /// A pod's quota limits its container. Groups without a quota, and groups that did not run, are omitted.
    #[test]
    fn the_limit_of_a_group_above_counts() {
        let dir = tempfile::tempdir().expect("room");
        let root = dir.path();
        write(root, "proc/7/cgroup", "0::/pod/box\n");
        write(root, "proc/8/cgroup", "0::/idle\n");
        write(root, "sys/fs/cgroup/cgroup.procs", "");
        for (group, max) in [("pod", "50000 100000"), ("pod/box", "max 100000"), ("idle", "10000 100000")] {
            write(root, &format!("sys/fs/cgroup/{group}/cpu.max"), max);
            write(
                root,
                &format!("sys/fs/cgroup/{group}/cpu.stat"),
                "usage_usec 100\nuser_usec 60\nnr_periods 10\nnr_throttled 2\n",
            );
        }
        let before = read(root, None);
        write(root, "sys/fs/cgroup/pod/cpu.stat", "usage_usec 800100\nnr_periods 30\nnr_throttled 17\n");
        let quotas = before.until(&read(root, Some(&before)), 2.0);
        let pod = QuotaMoment { group: "/pod".into(), cpus: 0.5, used: 0.4, throttled: 0.75 };
        assert_eq!(quotas, std::slice::from_ref(&pod));
        assert!((pod.share() - 0.8).abs() < 1e-9, "{}", pod.share());
        assert_eq!(throttled(root, "7"), Some(19));
    }

    /// Version 1 counts CPU time in another hierarchy than the quota. In a container the path is the host's, and the
    /// mount starts at the container.
    #[test]
    fn version_1_and_containers() {
        let dir = tempfile::tempdir().expect("room");
        let root = dir.path();
        write(root, "proc/7/cgroup", "3:cpuacct,cpu:/docker/abc\n2:memory:/x\n0::/\n");
        for (file, text) in [
            ("cpu/cgroup.procs", ""),
            ("cpu/cpu.cfs_quota_us", "200000"),
            ("cpu/cpu.cfs_period_us", "100000"),
            ("cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
            ("cpuacct/cpuacct.usage", "0"),
        ] {
            write(root, &format!("sys/fs/cgroup/{file}"), text);
        }
        let before = read(root, None);
        write(root, "sys/fs/cgroup/cpuacct/cpuacct.usage", "1000000000");
        let quotas = before.until(&read(root, Some(&before)), 1.0);
        assert_eq!(quotas, [QuotaMoment { group: "/".into(), cpus: 2.0, used: 1.0, throttled: 0.0 }]);
        write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
        assert_eq!(before.until(&read(root, Some(&before)), 1.0), []);
    }
}
