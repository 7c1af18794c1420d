//! What a watch saw, as plain data.

use netcliff_trial::bench::PollTime;

/// A receive CPU, or one that the program runs on, in a slice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuSlice {
    /// Number.
    pub cpu: u32,
    /// Length (s).
    pub seconds: f64,
    /// True: times are of eBPF programs, exact and exclusive; false: of the kernel's ticks, where `application_s` is 0 and `other_s` has all
    /// programs.
    pub exact: bool,
    /// Time in hard interrupts (s).
    pub interrupt_s: f64,
    /// Time in receive softirqs; by ticks in all softirqs (s).
    pub protocol_s: f64,
    /// Time of the program (s).
    pub application_s: f64,
    /// Time in other softirqs, transmission included (s).
    pub softirq_other_s: f64,
    /// Time of other tasks (s).
    pub other_s: f64,
    /// Time with nothing to do (s).
    pub idle_s: f64,
    /// Taken by the hypervisor (s).
    pub steal_s: f64,
    /// Packets that protocol processing took.
    pub packets: f64,
    /// Polls.
    pub polls: f64,
    /// Interrupts that announce packets.
    pub interrupts: f64,
    /// Switches to the program.
    pub wakeups: f64,
    /// How long polls took, by packets.
    pub poll_times: Vec<PollTime>,
    /// Time in softirqs after their last poll (s).
    pub tail_s: f64,
    /// True: most packets came through the CPU's backlog.
    pub backlog: bool,
    /// Dropped at the backlog.
    pub dropped: f64,
}

impl CpuSlice {
    /// All time that was used (s).
    pub fn busy_s(&self) -> f64 {
        self.interrupt_s + self.protocol_s + self.application_s + self.softirq_other_s + self.other_s
    }
}

/// A thread of the program in a slice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ThreadSlice {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The CPU that it ran on last.
    pub cpu: u32,
    /// CPU time (s).
    pub ran_s: f64,
    /// True: it has a real-time policy, and other programs give way to it.
    pub is_realtime: bool,
}

/// A slice of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slice {
    /// Its start, seconds since the epoch (UTC).
    pub at_unix_s: f64,
    /// Length (s).
    pub seconds: f64,
    /// Received by the watched interfaces.
    pub packets: f64,
    /// Bytes of these.
    pub bytes: f64,
    /// Sent by them.
    pub sent: f64,
    /// By CPU. Without a meter that runs all the time some slices have counts alone: `seconds` of their CPUs is 0.
    pub cpus: Vec<CpuSlice>,
    /// The program's threads that ran.
    pub threads: Vec<ThreadSlice>,
    /// Packets lost anywhere that is counted.
    pub lost: f64,
}

/// Packets received in one interval of the fast counting.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// Length (s).
    pub seconds: f64,
    /// Packets.
    pub packets: f64,
}

/// A look at a socket of the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SocketLook {
    /// What waited over the room for it.
    pub share: f64,
    /// Packets/s at that time.
    pub packets_per_s: f64,
}

/// Looks at one socket.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SocketLooks {
    /// Its name.
    pub name: String,
    /// Room for packets (bytes, with what the kernel adds to each).
    pub room_bytes: f64,
    /// The looks.
    pub looks: Vec<SocketLook>,
    /// Lost there during the watch.
    pub dropped: f64,
}

/// Everything that a watch saw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Watch {
    /// Slices, in order.
    pub slices: Vec<Slice>,
    /// Packets in short intervals, without a gap.
    pub counts: Vec<Count>,
    /// Runs of much shorter intervals, each without a gap.
    pub fine: Vec<Vec<Count>>,
    /// Sockets of the program.
    pub sockets: Vec<SocketLooks>,
    /// Packets that a CPU's backlog, or the NIC's ring, holds; `None`: not known.
    pub ring: Option<u64>,
    /// Period of the scheduler's tick (s); `None`: not known.
    pub tick_s: Option<f64>,
}

/// The slices with the CPU time of other tasks left out where the program is a real-time one: they give way to it, as they do to softirqs.
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

/// Share of its median by which a slice's foreign time is beyond it when something else disturbed it, in median deviations, and at least this share of the time.
const FAR: f64 = 6.0;
const LEAST: f64 = 0.03;
/// Share of the time that the hypervisor took from which a slice is disturbed.
const STOLEN: f64 = 0.1;

/// The slices of a CPU with exact or ticked times, each with whether something else disturbed it: other tasks took much more than they mostly do, or the
/// hypervisor took the CPU.
pub fn of_cpu(slices: &[Slice], cpu: u32) -> Vec<(&CpuSlice, bool)> {
    let own: Vec<&CpuSlice> =
        slices.iter().flat_map(|slice| slice.cpus.iter().filter(|one| one.cpu == cpu && one.seconds > 0.0)).collect();
    // By ticks the program is among the others: its time grows with the load.
    let foreign = |one: &CpuSlice| if one.exact { one.other_s / one.seconds } else { 0.0 };
    let mut shares: Vec<f64> = own.iter().map(|one| foreign(one)).collect();
    let median = middle(&mut shares);
    let mut away: Vec<f64> = shares.iter().map(|share| (share - median).abs()).collect();
    let limit = median + (FAR * middle(&mut away)).max(LEAST);
    let flagged: Vec<(&CpuSlice, bool)> =
        own.into_iter().map(|one| (one, foreign(one) > limit || one.steal_s > STOLEN * one.seconds)).collect();
    // Where most are disturbed there is no quiet host to learn from: then all count.
    let most = 2 * flagged.iter().filter(|(_, disturbed)| *disturbed).count() > flagged.len();
    flagged.into_iter().map(|(slice, disturbed)| (slice, disturbed && !most)).collect()
}

/// Share of the time of these CPUs that the hypervisor took, the highest of them.
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

/// The median, 0 of nothing; sorts.
pub(crate) fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of twenty slices in one of which another task had a third of the CPU, and in one the hypervisor, these two are disturbed.
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
