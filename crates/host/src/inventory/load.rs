//! What else runs on the host.

use crate::procfs;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// What else runs on the host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Load average over 1, 5 and 15 minutes (runnable tasks).
    pub average: Option<[f64; 3]>,
    /// Share of the CPU time since boot that the hypervisor gave to other guests (0..1).
    pub steal_share: Option<f64>,
    /// Time since boot (s).
    pub uptime_s: Option<f64>,
    /// Process id of irqbalance; `None` if it does not run.
    pub irqbalance_pid: Option<u32>,
    /// Other running services that change packet settings or use the CPUs of the packet path: name and process id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, u32>,
}

/// Names of service processes (the kernel stores 15 bytes of a name), and how each disturbs measurements.
const SERVICES: [(&str, &str); 21] = [
    ("tuned", "sets governor, sysctls and devices by its profile"),
    ("power-profiles-", "sets the governor by its profile"),
    ("auto-cpufreq", "sets governor and turbo by the load"),
    ("cpufreqd", "sets the governor by the load"),
    ("tlp", "saves power of devices"),
    ("laptop_mode", "saves power of devices"),
    ("thermald", "lowers the frequency as the package warms"),
    ("numad", "moves programs and their memory between nodes"),
    ("ksmtuned", "has the kernel scan memory for equal pages"),
    ("auditd", "has system calls reported"),
    ("Xorg", "draws"),
    ("Xwayland", "draws"),
    ("gnome-shell", "draws"),
    ("kwin_wayland", "draws"),
    ("packagekitd", "looks for updates"),
    ("unattended-upgr", "installs updates"),
    ("updatedb", "reads all directories"),
    ("updatedb.plocat", "reads all directories"),
    ("tracker-miner-f", "reads files to index them"),
    ("baloo_file", "reads files to index them"),
    ("clamd", "reads files to scan them"),
];

/// How a service with this process name disturbs measurements; `None` if it is not known to do so.
pub(crate) fn disturbs(name: &str) -> Option<&'static str> {
    SERVICES.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}

/// Share of the CPUs that runnable tasks may use before a run; above it a warning is given. The two busiest threads of
/// a run need one CPU each, so on two CPUs one other busy program is too much. `cat /proc/loadavg` shows the number.
const BUSY: f64 = 0.5;

impl Load {
    /// The load of this host.
    pub fn of_this_host() -> Load {
        Self::read(Path::new("/"))
    }

    /// A warning before a measurement whose trials may be void (not counted) because of this load; `None` if most
    /// CPUs are idle or the load is not known.
    pub fn warning(&self, cpus: usize) -> Option<String> {
        let [minute, ..] = self.average?;
        let named = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
        (minute > BUSY * cpus as f64).then(|| {
            format!(
                "load average {minute:.1} on {named}, programs that ended in the last minute included: while other programs run, trials may be void \
                 (they do not count); if top shows busy programs now, press Ctrl-C, end them and start again"
            )
        })
    }

    pub(super) fn read(root: &Path) -> Load {
        let stat = procfs::whole(root.join("proc/stat"));
        Load {
            average: procfs::text(root.join("proc/loadavg")).and_then(|text| averages(&text)),
            steal_share: steal_share(&stat),
            uptime_s: procfs::text(root.join("proc/uptime"))
                .and_then(|text| text.split_whitespace().next()?.parse().ok()),
            irqbalance_pid: process_named(root, "irqbalance"),
            services: services(root),
        }
    }
}

fn services(root: &Path) -> BTreeMap<String, u32> {
    let proc = root.join("proc");
    let pids = procfs::names(&proc).into_iter().filter_map(|entry| entry.parse::<u32>().ok());
    let named = pids.filter_map(|pid| Some((procfs::text(proc.join(pid.to_string()).join("comm"))?, pid)));
    let mut found = BTreeMap::new();
    named.filter(|(name, _)| disturbs(name).is_some()).for_each(|(name, pid)| {
        let first = found.entry(name).or_insert(pid);
        *first = pid.min(*first);
    });
    found
}

fn averages(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Share of stolen time since boot, from the first line of /proc/stat: user nice system idle iowait irq softirq steal.
/// Guest time, which follows, is already included in user. `None` if the line does not have all these columns.
fn steal_share(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let total: u64 = ticks.iter().sum();
    let steal = *ticks.get(7)?;
    (total > 0).then(|| steal as f64 / total as f64)
}

pub(crate) fn process_named(root: &Path, name: &str) -> Option<u32> {
    let proc = root.join("proc");
    let pids = procfs::names(&proc);
    let mut pids = pids.iter().filter_map(|entry| entry.parse::<u32>().ok());
    pids.find(|pid| procfs::text(proc.join(pid.to_string()).join("comm")).as_deref() == Some(name))
}
