//! [`Waits`]: how long the service's threads waited for a CPU that other programs used, as counted by the scheduler.

use std::collections::BTreeMap;
use std::fs;

use netcliff_host::process::{ProcessId, Scheduled, numbers, scheduled};

/// Times that each thread of a service has run, and has waited for a CPU while ready to run, since the thread started;
/// and the CPU time of the kernel's receiving threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waits {
    /// (time running, time ready but waiting for a CPU) of each thread (s), by thread ID.
    threads: BTreeMap<u32, (f64, f64)>,
    /// CPU time of the kernel's threads that receive packets (s). They work for the service, so waiting for them does
    /// not count as waiting for other programs.
    softirqs_s: f64,
}

impl Waits {
    /// Reads the present values. `softirq_threads`: see [`softirq_threads`].
    pub fn of(processes: &[ProcessId], softirq_threads: &[u32]) -> Self {
        let seconds = |of: Scheduled| (of.ran_ns as f64 * 1e-9, of.waited_ns as f64 * 1e-9);
        let read = move |pid: u32, tid: u32| scheduled(pid, tid).map(seconds);
        let of = |process: &ProcessId| {
            let pid = process.pid;
            let threads = numbers(&format!("/proc/{pid}/task")).into_iter();
            threads.filter_map(move |tid| Some((tid, read(pid, tid)?)))
        };
        let ran = softirq_threads.iter().filter_map(|pid| read(*pid, *pid)).map(|(ran_s, _)| ran_s);
        Self { threads: processes.iter().flat_map(of).collect(), softirqs_s: ran.sum() }
    }

    /// Time (s) between this reading and `later` in which a thread waited for a CPU that other programs used: the
    /// largest value of all threads. All time in which softirq threads or other threads of the service ran is
    /// subtracted, so the value may be too low, but not too high.
    pub fn others_until(&self, later: &Self) -> f64 {
        let grown = |tid: &u32, (ran_s, waited_s): &(f64, f64)| {
            let (ran_before_s, waited_before_s) = self.threads.get(tid).copied().unwrap_or_default();
            (ran_s - ran_before_s, waited_s - waited_before_s)
        };
        let grown: Vec<(f64, f64)> = later.threads.iter().map(|(tid, now)| grown(tid, now)).collect();
        let ran_s: f64 = grown.iter().map(|(ran_s, _)| ran_s).sum();
        let softirqs_s = later.softirqs_s - self.softirqs_s;
        let foreign = grown.iter().map(|(own_s, waited_s)| waited_s - softirqs_s - (ran_s - own_s));
        foreign.fold(0.0, f64::max)
    }
}

/// Thread IDs of the kernel's threads that receive packets: ksoftirqd/N of these CPUs, and threads that poll a device
/// or a backlog. `None` if a ksoftirqd is not visible, as in a container: waiting for it then cannot be distinguished
/// from waiting for other programs.
pub fn softirq_threads(cpus: &[u32]) -> Option<Vec<u32>> {
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let named: Vec<(u32, String)> = numbers("/proc").into_iter().filter_map(|pid| Some((pid, name(pid)?))).collect();
    let thread_of = |cpu: &u32| {
        let wanted = format!("ksoftirqd/{cpu}");
        named.iter().find_map(|(pid, name)| (name.trim() == wanted).then_some(*pid))
    };
    let polls = |name: &str| name.starts_with("napi/") || name.starts_with("backlog_napi/");
    let mut all = cpus.iter().map(thread_of).collect::<Option<Vec<u32>>>()?;
    all.extend(named.iter().filter(|(_, name)| polls(name)).map(|(pid, _)| *pid));
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_softirqs_and_own_threads_ran_is_no_disturbance() {
        let waits = |all: &[(u32, f64, f64)], softirqs_s: f64| Waits {
            threads: all.iter().map(|(tid, ran_s, waited_s)| (*tid, (*ran_s, *waited_s))).collect(),
            softirqs_s,
        };
        let before = waits(&[(1, 5.0, 2.0), (2, 1.0, 0.0)], 3.0);
        // Thread 1 waited 0.4 s: 0.1 s for ksoftirqd, 0.05 s for thread 2, and the rest for other programs.
        let later = waits(&[(1, 5.5, 2.4), (2, 1.05, 0.1)], 3.1);
        assert!((before.others_until(&later) - 0.25).abs() < 1e-9);
        let quiet = waits(&[(1, 5.9, 2.1), (2, 1.0, 0.0), (7, 0.02, 0.1)], 3.1);
        assert_eq!(before.others_until(&quiet), 0.0, "a thread that is new waited for thread 1");
    }

    #[test]
    fn this_process_has_waits_of_its_own() {
        let me = [ProcessId::current().unwrap()];
        let waits = Waits::of(&me, &[]);
        assert!(waits.threads.values().any(|(ran_s, _)| *ran_s > 0.0), "{waits:?}");
        assert_eq!(softirq_threads(&[1 << 20]), None);
    }
}
