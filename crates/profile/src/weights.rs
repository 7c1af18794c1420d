//! Stores samples as they arrive, and converts them to CPU time: [`Lattice`], [`Heap`], [`in_ns`].
//!
//! The CPU clock (a software event of perf) counts all time of a CPU, busy or idle. It takes its samples in a timer
//! interrupt, which waits while interrupts are disabled. The CPU's own counter of cycles takes samples by an interrupt
//! that does not wait, but it stops when the CPU halts, and the length of a cycle changes with the frequency. On a
//! machine with both, the clock determines the amount of time, and the cycles determine where it was spent.

use std::collections::HashMap;

use netcliff_host::perf::{Mode, Sample};

/// A sample counts as late if it is taken this long after its timer was due (ns): the time of a few packets. The kernel
/// disables interrupts for at most a few microseconds.
const LATE_NS: u64 = 10_000;

/// Times at which the CPU clock's timer was due, derived from its samples. They determine the time for which each
/// sample counts.
///
/// If a timer is due while a virtual CPU is halted, the sample is taken when the CPU wakes up, i.e. late. If a sample
/// counted for the time since the previous one, a late sample would take part of the next sample's time, and most late
/// samples are idle. The kernel advances a late timer by whole periods (`perf_swevent_hrtimer` in
/// kernel/events/core.c), so that the due times are equally spaced (a lattice), and can be derived from the samples
/// that were taken on time.
#[derive(Debug, Clone)]
pub struct Lattice {
    period_ns: u64,
    /// The previous period (ns), and the time until which it applied (ns).
    before: (u64, u64),
    /// Latest time by CPU at which the timer was due (ns).
    due: HashMap<usize, u64>,
    started_ns: u64,
    longest: u64,
    samples: u64,
    late: u64,
}

impl Lattice {
    /// Makes the lattice of a timer of `period_ns` from `now_ns` on. A sample counts for at most `longest` periods.
    pub fn new(period_ns: u64, longest: u64, now_ns: u64) -> Self {
        Self {
            period_ns,
            before: (period_ns, now_ns),
            due: HashMap::new(),
            started_ns: now_ns,
            longest,
            samples: 0,
            late: 0,
        }
    }

    /// Changes the period from `now_ns` on; the kernel starts a new period at that time.
    pub fn redraw(&mut self, period_ns: u64, now_ns: u64) {
        self.before = (self.period_ns, now_ns);
        self.period_ns = period_ns;
    }

    /// Returns the time (ns) for which the sample at `now_ns` counts.
    pub fn stands_for(&mut self, cpu: usize, now_ns: u64) -> f64 {
        let (old_ns, redrawn_ns) = self.before;
        let last = *self.due.get(&cpu).unwrap_or(&self.started_ns);
        let (period, from) = if now_ns < redrawn_ns { (old_ns, last) } else { (self.period_ns, last.max(redrawn_ns)) };
        let periods = (now_ns.saturating_sub(from) / period).max(1);
        let due = (from + periods * period).min(now_ns);
        self.due.insert(cpu, due);
        self.samples += 1;
        self.late += u64::from(now_ns - due > LATE_NS);
        // This includes the time since the last sample during which the old period applied.
        ((from - last) + periods * period).min(self.longest * period) as f64
    }

    /// Returns the share of samples taken more than 10 us after their timer was due; 0 if there are no samples.
    pub fn late(&self) -> f64 {
        self.late as f64 / self.samples.max(1) as f64
    }
}

/// The event that took a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The CPU clock.
    Clock,
    /// The CPU's own cycles.
    Cycles,
}

/// The properties that samples of one place have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Event.
    pub source: Source,
    /// CPU.
    pub cpu: usize,
    /// Process.
    pub pid: u32,
    /// Kind of code that ran: a program, the kernel or a guest.
    pub mode: Mode,
    /// The kernel's stack.
    pub stack: Vec<u64>,
}

/// Samples by place.
#[derive(Debug, Default)]
pub struct Heap {
    /// By place: number of samples, and number of events by slice (nanoseconds or cycles).
    pub places: HashMap<Key, (u64, Vec<f64>)>,
    /// Samples that the kernel lost.
    pub lost: u64,
    /// Number of samples by the CPU clock.
    pub samples: u64,
}

impl Heap {
    /// Adds a sample to a slice; it counts for `events` events.
    pub fn add(&mut self, source: Source, cpu: usize, slice: usize, sample: Sample, events: f64) {
        let key = Key { source, cpu, pid: sample.pid, mode: sample.mode, stack: sample.stack };
        let (samples, by_slice) = self.places.entry(key).or_default();
        if by_slice.len() <= slice {
            by_slice.resize(slice + 1, 0.0);
        }
        *samples += 1;
        by_slice[slice] += events;
        self.samples += u64::from(source == Source::Clock);
    }
}

/// Samples of one place as CPU time.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Process.
    pub pid: u32,
    /// Kind of code that ran: a program, the kernel or a guest.
    pub mode: Mode,
    /// The kernel's stack.
    pub stack: Vec<u64>,
    /// CPU time by slice (ns).
    pub ns: Vec<f64>,
    /// Samples.
    pub samples: u64,
}

/// Converts all samples to CPU time over `slices`. Also returns whether cycles were used to divide time. `idles`
/// returns whether a place is idle time of its CPU.
///
/// If a CPU has samples of cycles outside the idle task, the clock's samples determine its idle and busy time by slice,
/// and cycles divide the busy time among the places. Otherwise only the clock's samples are used.
pub fn in_ns(heap: Heap, slices: usize, idles: impl Fn(&Key) -> bool) -> (Vec<Timed>, bool) {
    let mut busy = HashMap::<(Source, usize), Vec<f64>>::new();
    for (key, (_, by_slice)) in heap.places.iter().filter(|(key, _)| !idles(key)) {
        let sums = busy.entry((key.source, key.cpu)).or_insert_with(|| vec![0.0; slices]);
        sums.iter_mut().zip(by_slice).for_each(|(sum, events)| *sum += events);
    }
    let total = |sums: Option<&Vec<f64>>| sums.map_or(0.0, |sums| sums.iter().sum::<f64>());
    let mut by_cycles = false;
    let mut timed = Vec::new();
    for (key, (samples, mut ns)) in heap.places {
        ns.resize(slices, 0.0);
        let cycles = busy.get(&(Source::Cycles, key.cpu));
        let has_cycles = total(cycles) > 0.0;
        match key.source {
            Source::Clock if has_cycles && !idles(&key) => continue,
            Source::Clock => {}
            Source::Cycles if idles(&key) => continue,
            Source::Cycles => {
                by_cycles = true;
                let clock = busy.get(&(Source::Clock, key.cpu));
                for (at, ns) in ns.iter_mut().enumerate() {
                    let of = |sums: Option<&Vec<f64>>| sums.and_then(|sums| sums.get(at)).copied().unwrap_or(0.0);
                    // If clock or cycles have no event in a slice, a cycle has the mean length over the whole window.
                    let (time, events) = (of(clock), of(cycles));
                    let length = if time > 0.0 && events > 0.0 { time / events } else { total(clock) / total(cycles) };
                    *ns *= length;
                }
            }
        }
        timed.push(Timed { pid: key.pid, mode: key.mode, stack: key.stack, ns, samples });
    }
    // Equal places on several CPUs remain in the order of the map.
    timed.sort_by(|a, b| (a.pid, a.mode, &a.stack).cmp(&(b.pid, b.mode, &b.stack)));
    (timed, by_cycles)
}

#[cfg(test)]
mod tests {
    use netcliff_core::math::SplitMix64;

    use super::*;

    fn sample(pid: u32, stack: &[u64]) -> Sample {
        Sample { pid, tid: pid, time_ns: 0, mode: Mode::Kernel, period: 1, stack: stack.to_vec(), raw: Vec::new() }
    }

    fn time_of(timed: &[Timed], stack: &[u64]) -> f64 {
        timed.iter().filter(|one| one.stack == stack).flat_map(|one| &one.ns).sum()
    }

    /// A CPU that works during a third of each millisecond, at its end or anywhere, and whose timer is up to 0.3 ms
    /// late while the CPU is idle.
    #[test]
    fn late_samples_of_idleness_take_no_time_from_work() {
        let mut chance = SplitMix64(5);
        for redrawn in [false, true] {
            let (mut lattice, mut busy, mut all) = (Lattice::new(1_000_000, 4, 0), 0.0, 0.0);
            let (mut due, mut period) = (0, 1_000_000);
            while due < 20_000_000_000 {
                due += period;
                let works = chance.uniform() < 1.0 / 3.0;
                let late = if works { 0 } else { (300_000.0 * chance.uniform()) as u64 };
                let time = lattice.stands_for(0, due + late);
                all += time;
                busy += if works { time } else { 0.0 };
                if redrawn && chance.uniform() < 0.01 {
                    period = (1e6 * (0.7 + 0.6 * chance.uniform())) as u64;
                    due += late + 1000;
                    lattice.redraw(period, due);
                }
            }
            // The limit is three standard deviations of 20 000 samples.
            assert!((busy / all - 1.0 / 3.0).abs() < 0.01, "{redrawn} {}", busy / all);
            assert!((all / due as f64 - 1.0).abs() < 0.002, "{redrawn} {all} {due}");
        }
    }

    #[test]
    fn a_timer_that_comes_periods_late_stands_for_them_up_to_the_longest() {
        let mut lattice = Lattice::new(1000, 4, 0);
        let times = [1000, 2010, 4300, 5000, 15_000, 16_000];
        assert_eq!(times.map(|time| lattice.stands_for(0, time)), [1000.0, 1000.0, 2000.0, 1000.0, 4000.0, 1000.0]);
        assert_eq!(lattice.late(), 0.0);
        let mut lattice = Lattice::new(1_000_000, 4, 0);
        for time in [1_000_000, 2_009_000, 3_011_000, 4_500_000] {
            lattice.stands_for(0, time);
        }
        assert_eq!(lattice.late(), 0.5);
    }

    const IDLE: u64 = 1;

    #[test]
    fn the_clock_alone_is_time() {
        let mut heap = Heap::default();
        for slice in [0, 0, 1] {
            heap.add(Source::Clock, 0, slice, sample(7, &[5]), 1e6);
        }
        heap.add(Source::Clock, 0, 1, sample(0, &[IDLE]), 1e6);
        assert_eq!(heap.samples, 4);
        let (timed, by_cycles) = in_ns(heap, 2, |key| key.stack == [IDLE]);
        assert!(!by_cycles);
        assert_eq!((time_of(&timed, &[5]), time_of(&timed, &[IDLE])), (3e6, 1e6));
    }

    /// According to the clock, CPU 0 worked 3 of 4 ms, all of it at the function that enables interrupts (9). According
    /// to cycles, a third of this time was at 5 and two thirds at 6. CPU 1 has no samples of cycles.
    #[test]
    fn cycles_divide_the_time_that_the_clock_measured() {
        let mut heap = Heap::default();
        for _ in 0..3 {
            heap.add(Source::Clock, 0, 0, sample(7, &[9]), 1e6);
        }
        heap.add(Source::Clock, 0, 0, sample(0, &[IDLE]), 1e6);
        heap.add(Source::Cycles, 0, 0, sample(7, &[5]), 2000.0);
        heap.add(Source::Cycles, 0, 0, sample(7, &[6]), 4000.0);
        heap.add(Source::Cycles, 0, 0, sample(0, &[IDLE]), 100.0);
        heap.add(Source::Clock, 1, 0, sample(7, &[8]), 1e6);
        let (timed, by_cycles) = in_ns(heap, 1, |key| key.stack == [IDLE]);
        assert!(by_cycles);
        assert_eq!((time_of(&timed, &[5]), time_of(&timed, &[6])), (1e6, 2e6));
        assert_eq!((time_of(&timed, &[9]), time_of(&timed, &[IDLE]), time_of(&timed, &[8])), (0.0, 1e6, 1e6));
    }
}
