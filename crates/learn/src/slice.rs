//! Observations of a watch, as plain data.

use netcliff_trial::bench::PollTime;

/// Time slice of a receive CPU, or of a CPU on which the program runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuSlice {
    /// Number of the CPU.
    pub cpu: u32,
    /// Length of the metered time (s).
    pub seconds: f64,
    /// True: times are exact and exclusive (eBPF). False: from the kernel's ticks; `application_s` is then 0, and
    /// `other_s` includes all programs.
    pub exact: bool,
    /// Time in hard interrupts (s).
    pub interrupt_s: f64,
    /// Time in receive softirqs; with ticks in all softirqs (s).
    pub protocol_s: f64,
    /// Time of the watched program (s).
    pub application_s: f64,
    /// Time in other softirqs, including transmission (s).
    pub softirq_other_s: f64,
    /// Time of other tasks (s).
    pub other_s: f64,
    /// Idle time (s).
    pub idle_s: f64,
    /// Time taken by the hypervisor (s).
    pub steal_s: f64,
    /// Packets that protocol processing took from its queues.
    pub packets: f64,
    /// Number of polls.
    pub polls: f64,
    /// Number of interrupts that announce packets.
    pub interrupts: f64,
    /// Number of switches to the program.
    pub wakeups: f64,
    /// Durations of polls, by packets.
    pub poll_times: Vec<PollTime>,
    /// Time in softirqs after the last poll in each of them (s).
    pub tail_s: f64,
    /// True: most packets came through the CPU's backlog.
    pub backlog: bool,
    /// Packets dropped at the backlog.
    pub dropped: f64,
}

impl CpuSlice {
    /// Time that was used, i.e. all but idle time (s).
    pub fn busy_s(&self) -> f64 {
        self.interrupt_s + self.protocol_s + self.application_s + self.softirq_other_s + self.other_s
    }
}

/// Time slice of a thread of the program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ThreadSlice {
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// The CPU on which it ran last.
    pub cpu: u32,
    /// CPU time (s).
    pub ran_s: f64,
    /// True: the thread has a real-time policy, so that other programs yield to it.
    pub is_realtime: bool,
}

/// A time slice of the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slice {
    /// Start of the slice, seconds since the epoch (UTC).
    pub at_unix_s: f64,
    /// Length (s).
    pub seconds: f64,
    /// Packets received by the watched interfaces.
    pub packets: f64,
    /// Bytes of these packets.
    pub bytes: f64,
    /// Packets sent by these interfaces.
    pub sent: f64,
    /// One entry per CPU. If the meter runs only part of the time, some slices have only counts: `seconds` of their
    /// CPUs is 0.
    pub cpus: Vec<CpuSlice>,
    /// Threads of the program that ran during the slice.
    pub threads: Vec<ThreadSlice>,
    /// Packets lost at any place with a counter.
    pub lost: f64,
}

/// Packets received in one short interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// Length of the interval (s).
    pub seconds: f64,
    /// Number of packets.
    pub packets: f64,
}

/// Fill level of a program's socket at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SocketLook {
    /// Bytes waiting divided by the bytes that fit.
    pub share: f64,
    /// Packet rate at that time (packets/s).
    pub packets_per_s: f64,
}

/// Fill levels of one socket over the watch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SocketLooks {
    /// Name of the socket.
    pub name: String,
    /// Memory for packets (bytes, including the kernel's overhead for each).
    pub room_bytes: f64,
    /// The readings of the fill level.
    pub looks: Vec<SocketLook>,
    /// Packets dropped at the socket during the watch.
    pub dropped: f64,
}

/// All observations of a watch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Watch {
    /// Slices, in order.
    pub slices: Vec<Slice>,
    /// Packets in short intervals, without gaps.
    pub counts: Vec<Count>,
    /// Runs of much shorter intervals; each run has no gaps.
    pub fine: Vec<Vec<Count>>,
    /// Sockets of the program.
    pub sockets: Vec<SocketLooks>,
    /// Maximum number of packets in a CPU's backlog, or in the NIC's ring; `None` if unknown.
    pub ring: Option<u64>,
    /// Period of the scheduler's tick (s); `None` if unknown.
    pub tick_s: Option<f64>,
}

/// Counts the time of other tasks as idle (in slices with exact times) if the program is a real-time one, because other
/// tasks yield to it, as they do to softirqs. Otherwise returns the slices unchanged.
pub fn without_what_gives_way(slices: &[Slice]) -> Vec<Slice> {
    let ran = |realtime: bool| -> f64 {
        let threads = slices.iter().flat_map(|slice| &slice.threads);
        threads.filter(|thread| thread.is_realtime == realtime).map(|thread| thread.ran_s).sum()
    };
    let mut slices = slices.to_vec();
    if ran(true) > ran(false) {
        for cpu in slices.iter_mut().flat_map(|slice| &mut slice.cpus).filter(|cpu| cpu.exact) {
            (cpu.idle_s, cpu.other_s) = (cpu.idle_s + cpu.other_s, 0.0);
        }
    }
    slices
}

/// A slice counts as disturbed if the other tasks' time exceeds its median by this number of median deviations, and by
/// [`LEAST`].
const FAR: f64 = 6.0;
/// Minimum difference for a disturbed slice, as a share of the time.
const LEAST: f64 = 0.03;
/// A slice counts as disturbed if the hypervisor took more than this share of the time.
const STOLEN: f64 = 0.1;

/// Returns (slice, whether it was disturbed) of a CPU with exact or ticked times. Disturbed means that other tasks used
/// much more time than usual, or that the hypervisor took the CPU away.
pub fn of_cpu(slices: &[Slice], cpu: u32) -> Vec<(&CpuSlice, bool)> {
    let own: Vec<&CpuSlice> =
        slices.iter().flat_map(|slice| slice.cpus.iter().filter(|one| one.cpu == cpu && one.seconds > 0.0)).collect();
    // With ticks, other tasks' time includes the program, whose time grows with the load.
    let foreign = |one: &CpuSlice| if one.exact { one.other_s / one.seconds } else { 0.0 };
    let mut shares: Vec<f64> = own.iter().map(|one| foreign(one)).collect();
    let median = middle(&mut shares);
    let mut away: Vec<f64> = shares.iter().map(|share| (share - median).abs()).collect();
    let limit = median + (FAR * middle(&mut away)).max(LEAST);
    let flagged: Vec<(&CpuSlice, bool)> =
        own.into_iter().map(|one| (one, foreign(one) > limit || one.steal_s > STOLEN * one.seconds)).collect();
    // If most slices are disturbed, the host is never quiet: then none counts as disturbed.
    let most = 2 * flagged.iter().filter(|(_, disturbed)| *disturbed).count() > flagged.len();
    flagged.into_iter().map(|(slice, disturbed)| (slice, disturbed && !most)).collect()
}

/// Share of the time that the hypervisor took, on the CPU with the largest share.
pub fn stolen(slices: &[Slice]) -> f64 {
    let mut sums = std::collections::BTreeMap::<u32, (f64, f64)>::new();
    for slice in slices {
        for cpu in &slice.cpus {
            let sum = sums.entry(cpu.cpu).or_default();
            (sum.0, sum.1) = (sum.0 + cpu.steal_s, sum.1 + slice.seconds);
        }
    }
    sums.values().map(|(steal_s, seconds)| steal_s / seconds.max(1e-9)).fold(0.0, f64::max)
}

/// The median, 0 without values. Sorts the values.
pub(crate) fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one of twenty slices another task used a third of the CPU, in another slice the hypervisor took it: these two
    /// are disturbed.
    #[test]
    fn a_slice_that_others_disturbed_is_recognised() {
        let slice = |n: usize| {
            let own = CpuSlice {
                cpu: 1,
                seconds: 1.0,
                exact: true,
                other_s: if n == 7 { 0.33 } else { 0.01 + 0.0005 * n as f64 },
                steal_s: if n == 9 { 0.2 } else { 0.0 },
                ..CpuSlice::default()
            };
            let other = CpuSlice { cpu: 0, seconds: 1.0, ..own.clone() };
            let unmetered = CpuSlice { cpu: 1, ..CpuSlice::default() };
            Slice { cpus: vec![other, if n == 3 { unmetered } else { own }], ..Slice::default() }
        };
        let slices: Vec<Slice> = (0..20).map(slice).collect();
        let own = of_cpu(&slices, 1);
        let disturbed: Vec<usize> = (0..own.len()).filter(|at| own[*at].1).collect();
        assert_eq!((own.len(), disturbed), (19, vec![6, 8]), "one has counts alone");
        assert!(of_cpu(&slices, 5).is_empty());
    }
}
