//! Per-CPU counters of the kernel: /proc/stat, softnet_stat, /proc/softirqs, /proc/interrupts.

use super::{
    types::{Counters, MeterError},
    util::read_file,
};
use crate::softnet::{self, PerCpu};

/// Counters of one CPU in /proc/stat, in ticks of 1/USER_HZ s. As in the file, guest time is included in user and nice,
/// so that nothing is counted twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

impl Ticks {
    /// Sum of all times since `earlier`, steal included (s).
    pub(crate) fn counted_since_s(&self, earlier: &Self) -> f64 {
        let sum = |t: &Self| [t.user, t.nice, t.system, t.idle, t.iowait, t.irq, t.softirq, t.steal].iter().sum();
        let (before, now): (u64, u64) = (sum(earlier), sum(self));
        now.saturating_sub(before) as f64 / user_hz()
    }
}

/// Counters of one CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub ticks: Ticks,
    pub processed: Option<u64>,
    pub dropped: Option<u64>,
    pub time_squeezes: Option<u64>,
    pub rps_ipis: Option<u64>,
    pub net_rx: Option<u64>,
    pub ipis: Option<u64>,
    pub device_interrupts: Option<u64>,
    pub timer_interrupts: Option<u64>,
}

/// Reads all counters of `cpus`, in their order. Only /proc/stat is required.
pub(crate) fn read(cpus: &[usize]) -> Result<Vec<Counts>, MeterError> {
    // The slowest file is read first and the packet counts last, so that the packet counts are close in time to what
    // the caller reads next.
    let interrupts = softnet::interrupts().unwrap_or_default();
    let stat = read_file("/proc/stat")?;
    let softirqs = softnet::softirqs().unwrap_or_default();
    let softnet = softnet::softnet_stats().unwrap_or_default();
    cpus.iter()
        .map(|&cpu| {
            let mut counts = Counts {
                ticks: ticks(&stat, cpu)?,
                net_rx: sum(&softirqs, cpu, |name| name == "NET_RX"),
                ipis: sum(&interrupts, cpu, |name| matches!(name, "CAL" | "RES")),
                device_interrupts: sum(&interrupts, cpu, |name| name.bytes().all(|b| b.is_ascii_digit())),
                timer_interrupts: sum(&interrupts, cpu, |name| name == "LOC"),
                ..Counts::default()
            };
            if let Some(own) = softnet.iter().find(|own| own.cpu as usize == cpu) {
                counts.processed = Some(own.processed.into());
                counts.dropped = Some(own.dropped.into());
                counts.time_squeezes = Some(own.time_squeeze.into());
                counts.rps_ipis = Some(own.received_rps.into());
            }
            Ok(counts)
        })
        .collect()
}

/// The line `cpuN` of /proc/stat.
pub(crate) fn ticks(stat: &str, cpu: usize) -> Result<Ticks, MeterError> {
    let form = |detail: String| MeterError::Form { file: "/proc/stat".to_owned(), detail };
    let label = format!("cpu{cpu}");
    let line = stat
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(&label))
        .ok_or_else(|| form(format!("no line `{label}`")))?;
    let values: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|value| value.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = values[..] else {
        return Err(form(format!("`{line}` has fewer than eight numbers")));
    };
    Ok(Ticks { user, nice, system, idle, iowait, irq, softirq, steal })
}

/// Sum over the rows with a matching name, for `cpu`; `None` if no row matches.
fn sum(table: &PerCpu, cpu: usize, matches: impl Fn(&str) -> bool) -> Option<u64> {
    let rows = table.rows.keys().filter(|name| matches(name));
    let counts: Vec<u64> = rows.filter_map(|name| table.count(name, cpu as u32)).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Increase from `earlier` to `later`. softnet_stat prints 32 bits and wraps there.
pub(crate) fn increase(earlier: &Counts, later: &Counts) -> Counters {
    let wrap32 = |a: Option<u64>, b: Option<u64>| Some(u64::from((b? as u32).wrapping_sub(a? as u32)));
    let plain = |a: Option<u64>, b: Option<u64>| b?.checked_sub(a?);
    Counters {
        softirqs: plain(earlier.net_rx, later.net_rx),
        ipis: plain(earlier.ipis, later.ipis),
        device_interrupts: plain(earlier.device_interrupts, later.device_interrupts),
        timer_interrupts: plain(earlier.timer_interrupts, later.timer_interrupts),
        softnet_processed: wrap32(earlier.processed, later.processed),
        softnet_dropped: wrap32(earlier.dropped, later.dropped),
        time_squeezes: wrap32(earlier.time_squeezes, later.time_squeezes),
        rps_ipis: wrap32(earlier.rps_ipis, later.rps_ipis),
        ..Counters::default()
    }
}

/// Ticks a second in /proc/stat.
pub(crate) fn user_hz() -> f64 {
    // SAFETY: sysconf takes no pointer and has no preconditions.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if hz > 0 { hz as f64 } else { 100.0 }
}

/// Steal time as a share of `elapsed_s`.
pub(crate) fn steal_share(earlier: &Ticks, later: &Ticks, elapsed_s: f64) -> f64 {
    share(earlier.steal, later.steal, elapsed_s)
}

/// Increase of a tick counter as a share of `elapsed_s`. iowait and idle may decrease slightly (documented by the
/// kernel), which counts as 0.
pub(crate) fn share(earlier: u64, later: u64, elapsed_s: f64) -> f64 {
    later.saturating_sub(earlier) as f64 / user_hz() / elapsed_s
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 20 30 40 50 60 70 80 9 9\ncpu0 1 2 3 4 5 6 7 8 1 1\ncpu1 9 8 7 6 5 4 3 2 1 0\nintr 5\n";

    #[test]
    fn counted_time_is_all_columns() {
        let later = Ticks { user: 1, nice: 2, system: 3, idle: 4, iowait: 5, irq: 6, softirq: 7, steal: 8 };
        assert!((later.counted_since_s(&Ticks::default()) * user_hz() - 36.0).abs() < 1e-9);
        assert_eq!(Ticks::default().counted_since_s(&later), 0.0);
    }

    #[test]
    fn stat_lines() {
        let cpu1 = ticks(STAT, 1).unwrap();
        assert_eq!((cpu1.user, cpu1.nice, cpu1.steal), (9, 8, 2));
        let error = ticks(STAT, 2).unwrap_err().to_string();
        assert!(error.contains("cpu2"), "{error}");
        assert!(ticks("cpu0 1 2 3\n", 0).is_err());
    }

    #[test]
    fn named_rows() {
        let table = "      CPU0  CPU2\n  9:  1  2  IO-APIC  acpi\n 24:  10 20 PCI\nCAL:  5  6  Function call\nERR: 0\n";
        let table = softnet::parse_per_cpu(table).unwrap();
        assert_eq!(sum(&table, 2, |n| n.bytes().all(|b| b.is_ascii_digit())), Some(22));
        assert_eq!(sum(&table, 0, |n| n == "CAL"), Some(5));
        assert_eq!(sum(&table, 1, |n| n == "CAL"), None);
        assert_eq!(sum(&table, 0, |n| n == "RES"), None);
    }

    #[test]
    fn wraps_at_32_bits_where_the_file_does() {
        let at = |processed| Counts { processed: Some(processed), ..Counts::default() };
        assert_eq!(increase(&at(0xffff_fff0), &at(0x10)).softnet_processed, Some(0x20));
    }
}
