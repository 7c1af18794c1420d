//! CPU time of the whole host from /proc/stat, CPU by CPU.

use netcliff_core::cpus::CpuRow;
use serde::{Deserialize, Serialize};

use super::kernel_counts::{self, Ticks};
use super::types::MeterError;
use super::util::{online_cpus, read_file};

/// A reading of /proc/stat; the difference of two gives shares.
#[derive(Debug, Clone)]
pub struct SystemStamp {
    cpus: Vec<(usize, Ticks)>,
}

/// Time of one CPU between two readings, as shares (0 to 1) of the time counted on it. Guest time is included in user
/// and nice, and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemShares {
    /// The CPU.
    pub cpu: usize,
    /// Time counted (s), steal included.
    pub counted_s: f64,
    /// User mode.
    pub user: f64,
    /// User mode of niced tasks.
    pub nice: f64,
    /// Kernel mode.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Softirqs.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle, including waiting for disks.
    pub idle: f64,
}

impl SystemShares {
    /// Share in use: all but idle and steal.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Time in use (s).
    pub fn used_s(&self) -> f64 {
        self.busy() * self.counted_s
    }

    /// The shares as a row.
    pub fn row(&self) -> CpuRow {
        let Self { cpu, counted_s: _, user, nice, system, irq, softirq, steal, idle } = *self;
        CpuRow { cpu, user, nice, system, irq, softirq, steal, idle }
    }
}

impl SystemStamp {
    /// Reads all online CPUs.
    ///
    /// # Errors
    /// /proc/stat cannot be read or has another form.
    pub fn now() -> Result<Self, MeterError> {
        let stat = read_file("/proc/stat")?;
        let read = |cpu| Ok((cpu, kernel_counts::ticks(&stat, cpu)?));
        Ok(Self { cpus: online_cpus().into_iter().map(read).collect::<Result<_, MeterError>>()? })
    }

    /// Time of each CPU since boot by mode (s); niced time is in `user`, waiting for disks in `idle`.
    pub fn seconds(&self) -> Vec<(u32, [(&'static str, f64); 6])> {
        let of = |ticks: &Ticks| {
            let seconds = |ticks: u64| kernel_counts::share(0, ticks, 1.0);
            [
                ("user", seconds(ticks.user + ticks.nice)),
                ("system", seconds(ticks.system)),
                ("irq", seconds(ticks.irq)),
                ("softirq", seconds(ticks.softirq)),
                ("steal", seconds(ticks.steal)),
                ("idle", seconds(ticks.idle + ticks.iowait)),
            ]
        };
        self.cpus.iter().map(|(cpu, ticks)| (u32::try_from(*cpu).unwrap_or(u32::MAX), of(ticks))).collect()
    }

    /// Shares of each CPU that is in both readings; CPUs without any ticks in between are left out.
    pub fn until(&self, later: &Self) -> Vec<SystemShares> {
        let pairs = self.cpus.iter().filter_map(|(cpu, from)| {
            let (_, to) = later.cpus.iter().find(|(other, _)| other == cpu)?;
            Some((*cpu, from, to))
        });
        pairs.filter_map(|(cpu, from, to)| shares(cpu, from, to)).collect()
    }
}

fn shares(cpu: usize, from: &Ticks, to: &Ticks) -> Option<SystemShares> {
    let counted_s = to.counted_since_s(from);
    if counted_s <= 0.0 {
        return None;
    }
    let share = |from, to| kernel_counts::share(from, to, counted_s);
    Some(SystemShares {
        cpu,
        counted_s,
        user: share(from.user, to.user),
        nice: share(from.nice, to.nice),
        system: share(from.system, to.system),
        irq: share(from.irq, to.irq),
        softirq: share(from.softirq, to.softirq),
        steal: share(from.steal, to.steal),
        idle: share(from.idle + from.iowait, to.idle + to.iowait),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_counted() {
        let to = Ticks { user: 10, nice: 5, system: 20, idle: 40, iowait: 5, irq: 1, softirq: 9, steal: 10 };
        let split = shares(3, &Ticks::default(), &to).expect("ticks were counted");
        assert_eq!((split.cpu, split.user, split.idle), (3, 0.1, 0.45));
        let sum = split.user + split.nice + split.system + split.irq + split.softirq + split.steal + split.idle;
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let row = split.row();
        assert_eq!((row.cpu, row.nice, row.softirq, row.steal), (3, 0.05, 0.09, 0.1));
        assert!((row.busy() - 0.45).abs() < 1e-9, "{row:?}");
        assert!((split.used_s() - 45.0 / kernel_counts::user_hz()).abs() < 1e-9);
        assert_eq!(shares(3, &to, &to), None);
    }

    #[test]
    fn this_host_counts_its_time() {
        let from = SystemStamp::now().expect("/proc/stat can be read");
        std::thread::sleep(std::time::Duration::from_millis(150));
        let split = from.until(&SystemStamp::now().expect("/proc/stat can be read"));
        assert!(!split.is_empty() && split.iter().all(|cpu| cpu.counted_s > 0.0), "{split:?}");
    }
}
