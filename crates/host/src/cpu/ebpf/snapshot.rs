//! Counters of the programs as plain data, and their differences.

use super::Overhead;
use crate::cpu::types::{Counters, PollCell, PollKind, PollTable, Shares};
use std::ops::Sub;

/// What a CPU is doing, in the order of `enum class` in bpf/cpu.bpf.c (a test compares them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Class {
    /// Unknown: before the first transition.
    Unknown,
    /// The idle task.
    Idle,
    /// Any other task.
    TaskOther,
    /// A watched task.
    TaskWatched,
    /// ksoftirqd, outside softirqs.
    TaskKsoftirqd,
    /// A thread of threaded NAPI or of the threaded backlog.
    TaskNapi,
    /// NET_RX softirq.
    SoftNetRx,
    /// NET_TX softirq.
    SoftNetTx,
    /// Any other softirq.
    SoftOther,
    /// Handlers of a device's interrupts.
    HardDevice,
    /// Function call IPIs, by which RPS wakes another CPU.
    HardCall,
    /// Reschedule IPIs.
    HardResched,
    /// The local timer.
    HardTimer,
    /// IRQ work and platform IPIs.
    HardOther,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Self; 14] = [
        Self::Unknown,
        Self::Idle,
        Self::TaskOther,
        Self::TaskWatched,
        Self::TaskKsoftirqd,
        Self::TaskNapi,
        Self::SoftNetRx,
        Self::SoftNetTx,
        Self::SoftOther,
        Self::HardDevice,
        Self::HardCall,
        Self::HardResched,
        Self::HardTimer,
        Self::HardOther,
    ];
}

/// Number of class slots in the programs' arrays.
pub(super) const CLASSES: usize = 16;
/// Number of cells per kind in the table of polls.
pub(super) const CELLS: usize = 68;

/// One cell of the table of polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCell {
    pub(super) count: u64,
    pub(super) packets: u64,
    pub(super) ns: u64,
    pub(super) ns_squared: u64,
}

/// All counters of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    pub(super) ns: [u64; CLASSES],
    pub(super) entries: [u64; CLASSES],
    /// Device interrupts, by the class that they interrupted.
    pub(super) device_hits: [u64; CLASSES],
    pub(super) rx_origin: [u64; 3],
    pub(super) polls: [u64; 3],
    pub(super) packets: [u64; 3],
    /// [empty polls, full polls, backlog polls, backlog packets].
    pub(super) kinds: [u64; 4],
    /// Runs of watched tasks that began after the CPU was idle.
    pub(super) wakes: u64,
    pub(super) tail_ns: u64,
    /// [polls whose first packet a driver passed to GRO, total time until that packet (ns)].
    pub(super) looks: [u64; 2],
    /// Of the polls in `looks`: [polls with a device interrupt before their first packet, time until that packet (ns),
    /// interrupts in that time].
    pub(super) hit_looks: [u64; 3],
    pub(super) cells: Vec<RawCell>,
}

/// Counters of one CPU at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSnapshot {
    /// The CPU.
    pub cpu: usize,
    /// CLOCK_MONOTONIC (ns).
    pub at_ns: u64,
    /// The counters, including the running class up to `at_ns`.
    pub figures: Figures,
}

/// Counters of all measured CPUs; each CPU was read at its own `at_ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// In the order of the specification.
    pub cpus: Vec<CpuSnapshot>,
}

/// Activity of one CPU between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuInterval {
    /// The CPU.
    pub cpu: usize,
    /// Elapsed time (ns).
    pub elapsed_ns: u64,
    /// The increase of each counter.
    pub figures: Figures,
}

/// The difference of two snapshots of one meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// In the order of the specification.
    pub cpus: Vec<CpuInterval>,
}

impl Sub for &Snapshot {
    type Output = Interval;

    /// Later minus earlier. Both must be from the same meter, as CPUs are matched by position.
    fn sub(self, earlier: &Snapshot) -> Interval {
        let cpus = self.cpus.iter().zip(&earlier.cpus);
        Interval {
            cpus: cpus
                .map(|(b, a)| CpuInterval {
                    cpu: b.cpu,
                    elapsed_ns: b.at_ns.saturating_sub(a.at_ns),
                    figures: &b.figures - &a.figures,
                })
                .collect(),
        }
    }
}

fn minus<const N: usize>(later: &[u64; N], earlier: &[u64; N]) -> [u64; N] {
    // The subtraction wraps: if an interrupt overtook an update, the time of a class may be smaller by nanoseconds in
    // the later reading.
    std::array::from_fn(|i| later[i].wrapping_sub(earlier[i]))
}

impl Sub for &Figures {
    type Output = Figures;

    fn sub(self, earlier: &Figures) -> Figures {
        let cells = self.cells.iter().zip(&earlier.cells);
        Figures {
            ns: minus(&self.ns, &earlier.ns).map(|ns| if (ns as i64) < 0 { 0 } else { ns }),
            entries: minus(&self.entries, &earlier.entries),
            device_hits: minus(&self.device_hits, &earlier.device_hits),
            rx_origin: minus(&self.rx_origin, &earlier.rx_origin),
            polls: minus(&self.polls, &earlier.polls),
            packets: minus(&self.packets, &earlier.packets),
            kinds: minus(&self.kinds, &earlier.kinds),
            wakes: self.wakes.wrapping_sub(earlier.wakes),
            tail_ns: self.tail_ns.wrapping_sub(earlier.tail_ns),
            looks: minus(&self.looks, &earlier.looks),
            hit_looks: minus(&self.hit_looks, &earlier.hit_looks),
            cells: cells
                .map(|(b, a)| RawCell {
                    count: b.count.wrapping_sub(a.count),
                    packets: b.packets.wrapping_sub(a.packets),
                    ns: b.ns.wrapping_sub(a.ns),
                    ns_squared: b.ns_squared.wrapping_sub(a.ns_squared),
                })
                .collect(),
        }
    }
}

impl Figures {
    /// Time in a class (ns).
    pub fn ns(&self, class: Class) -> u64 {
        self.ns[class as usize]
    }

    /// How often a class was entered.
    pub fn entries(&self, class: Class) -> u64 {
        self.entries[class as usize]
    }

    fn entries_of(&self, classes: &[Class]) -> u64 {
        classes.iter().map(|class| self.entries(*class)).sum()
    }

    fn switches(&self) -> u64 {
        use Class::*;
        self.entries_of(&[Idle, TaskOther, TaskWatched, TaskKsoftirqd, TaskNapi])
    }

    fn softirqs(&self) -> u64 {
        use Class::*;
        self.entries_of(&[SoftNetRx, SoftNetTx, SoftOther])
    }

    fn interrupts(&self) -> u64 {
        use Class::*;
        self.entries_of(&[HardDevice, HardCall, HardResched, HardTimer, HardOther])
    }

    /// Number of runs of the programs.
    pub fn events(&self) -> u64 {
        self.switches() + 2 * self.softirqs() + 2 * self.interrupts() + self.polls.iter().sum::<u64>()
    }

    /// CPU time of the programs (ns), from the cost of each kind of event.
    pub fn overhead_ns(&self, cost: &Overhead) -> f64 {
        self.switches() as f64 * cost.switch_ns
            + self.softirqs() as f64 * cost.softirq_ns
            + self.interrupts() as f64 * cost.interrupt_ns
            + self.polls.iter().sum::<u64>() as f64 * cost.poll_ns
    }

    /// Poll durations by packets.
    pub fn poll_table(&self) -> PollTable {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let ([looks, look_ns], [hit_looks, hit_look_ns, look_hits]) = (self.looks, self.hit_looks);
        let mut table = PollTable {
            cells: Vec::new(),
            tail_s: seconds(self.tail_ns),
            looks,
            look_s: seconds(look_ns),
            hit_looks,
            hit_look_s: seconds(hit_look_ns),
            look_hits,
            hit_application: self.device_hits[Class::TaskWatched as usize],
            hit_softirqs: self.device_hits[Class::SoftNetRx as usize],
        };
        for (kind, row) in PollKind::ALL.into_iter().zip(self.cells.chunks(CELLS)) {
            for (index, cell) in row.iter().enumerate().filter(|(_, cell)| cell.count > 0) {
                let (work_low, work_high) = cell_bounds(index as u32);
                table.cells.push(PollCell {
                    kind,
                    work_low,
                    work_high,
                    polls: cell.count,
                    packets: cell.packets,
                    total_s: cell.ns as f64 * 1e-9,
                    total_squared_s2: cell.ns_squared as f64 * 1e-18,
                });
            }
        }
        table
    }
}

/// Fewest and most packets of the polls in a cell, `None` for no upper limit; the inverse of `cell_of` in
/// bpf/cpu.bpf.c.
fn cell_bounds(index: u32) -> (u32, Option<u32>) {
    match index {
        0..=64 => (index, Some(index)),
        65 => (65, Some(127)),
        66 => (128, Some(255)),
        _ => (256, None),
    }
}

impl CpuInterval {
    /// Share of a class in the elapsed time.
    pub fn share(&self, class: Class) -> f64 {
        self.figures.ns(class) as f64 / self.elapsed_ns.max(1) as f64
    }

    fn share_of(&self, classes: &[Class]) -> Option<f64> {
        Some(classes.iter().map(|class| self.share(*class)).sum())
    }

    /// All shares except steal, which the programs cannot see.
    pub fn shares(&self) -> Shares {
        use Class::*;
        Shares {
            interrupt: self.share_of(&[HardDevice, HardCall, HardResched, HardTimer, HardOther]),
            device_interrupt: self.share_of(&[HardDevice]),
            protocol: self.share_of(&[SoftNetRx, TaskNapi]),
            transmit: self.share_of(&[SoftNetTx]),
            softirq_other: self.share_of(&[SoftOther]),
            application: self.share_of(&[TaskWatched]),
            ksoftirqd: self.share_of(&[TaskKsoftirqd]),
            other: self.share_of(&[TaskOther]),
            idle: self.share_of(&[Idle]),
            unaccounted: self.share_of(&[Unknown]),
            steal: None,
            available: self.share_of(&[Idle]),
        }
    }

    /// The counters of `kernel`, with the event counts of the eBPF programs in place of the kernel's.
    pub fn counters(&self, kernel: Counters) -> Counters {
        let f = &self.figures;
        Counters {
            polls: Some(f.polls.iter().sum()),
            packets: Some(f.packets.iter().sum()),
            empty_polls: Some(f.kinds[0]),
            full_polls: Some(f.kinds[1]),
            backlog_polls: Some(f.kinds[2]),
            backlog_packets: Some(f.kinds[3]),
            softirqs: Some(f.entries(Class::SoftNetRx)),
            softirqs_from_irq: Some(f.rx_origin[0]),
            softirqs_from_ksoftirqd: Some(f.rx_origin[1]),
            softirqs_from_process: Some(f.rx_origin[2]),
            ipis: Some(f.entries_of(&[Class::HardCall, Class::HardResched])),
            device_interrupts: Some(f.entries(Class::HardDevice)),
            timer_interrupts: Some(f.entries(Class::HardTimer)),
            application_switches: Some(f.entries(Class::TaskWatched)),
            application_wakes: Some(f.wakes),
            ksoftirqd_switches: Some(f.entries(Class::TaskKsoftirqd)),
            ..kernel
        }
    }
}
