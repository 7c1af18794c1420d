//! What else runs on the host.

use crate::procfs;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What else runs on the host.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Load average over 1, 5 and 15 minutes (runnable tasks).
    pub average: Option<[f64; 3]>,
    /// Share of all CPU time since boot that the hypervisor gave to others (0..1).
    pub steal_share: Option<f64>,
    /// Time since boot (s).
    pub uptime_s: Option<f64>,
    /// Pid of irqbalance, when it runs.
    pub irqbalance_pid: Option<u32>,
}

/// Share of the CPUs that runnable tasks may take before a measurement is said to be disturbed in advance: a run's two busiest threads need
/// a CPU each, so that on two CPUs one other busy program is one too many. `cat /proc/loadavg` repeats the reading.
const BUSY: f64 = 0.5;

impl Load {
    /// That of this host.
    pub fn of_this_host() -> Load {
        Self::read(Path::new("/"))
    }

    /// What to say before a measurement whose trials this load will make void; None: most CPUs are idle, or the load is not known.
    pub fn warning(&self, cpus: usize) -> Option<String> {
        let [minute, ..] = self.average?;
        let named = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
        (minute > BUSY * cpus as f64).then(|| {
            format!(
                "load average {minute:.1} on {named}: other programs used the CPUs in the last minute; while they do, trials will be void: \
                 end them first (top shows them)"
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
        }
    }
}

fn averages(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Of the first line of /proc/stat: user nice system idle iowait irq softirq steal. Guest time, which
/// follows, is already in user.
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
