//! Samples as they come, and as CPU time: [`Heap`], [`in_ns`].
//!
//! The CPU clock knows how long a CPU worked, idle or not, but takes its samples by a timer, which waits until interrupts are enabled. The
//! cycles of the CPU's own counter come by an interrupt that does not wait, but stop when the CPU halts, and change their length with its
//! frequency. Where a machine has both, the clock says how long and cycles say where.

use std::collections::HashMap;

use netcliff_host::perf::{Mode, Sample};

/// Which event took a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The CPU clock.
    Clock,
    /// The CPU's own cycles.
    Cycles,
}

/// What samples of one place have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Event.
    pub source: Source,
    /// CPU.
    pub cpu: usize,
    /// Process.
    pub pid: u32,
    /// What ran.
    pub mode: Mode,
    /// The kernel's stack.
    pub stack: Vec<u64>,
}

/// Samples by place.
#[derive(Debug, Default)]
pub struct Heap {
    /// Samples, and events by slice: nanoseconds or cycles.
    pub places: HashMap<Key, (u64, Vec<f64>)>,
    /// Samples that the kernel could not hand over.
    pub lost: u64,
    /// Samples of the CPU clock.
    pub samples: u64,
}

impl Heap {
    /// Adds a sample of a slice that stands for `events`.
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

/// Samples of one place in CPU time (ns) by slice.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Process.
    pub pid: u32,
    /// What ran.
    pub mode: Mode,
    /// The kernel's stack.
    pub stack: Vec<u64>,
    /// CPU time (ns).
    pub ns: Vec<f64>,
    /// Samples.
    pub samples: u64,
}

/// All samples as CPU time over `slices`. `idles` says of a place whether its CPU has nothing to do. On CPUs with samples of cycles outside idleness
/// the clock's samples give the time by slice, idle and not, and cycles divide what is not idle; on the others the clock's samples are all.
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
                    // A slice in which one of them saw nothing has the length of a cycle in the whole window.
                    let (time, events) = (of(clock), of(cycles));
                    let length = if time > 0.0 && events > 0.0 { time / events } else { total(clock) / total(cycles) };
                    *ns *= length;
                }
            }
        }
        timed.push(Timed { pid: key.pid, mode: key.mode, stack: key.stack, ns, samples });
    }
    // Of equal places on several CPUs the order is the map's.
    timed.sort_by(|a, b| (a.pid, a.mode, &a.stack).cmp(&(b.pid, b.mode, &b.stack)));
    (timed, by_cycles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32, stack: &[u64]) -> Sample {
        Sample { pid, tid: pid, time_ns: 0, mode: Mode::Kernel, period: 1, stack: stack.to_vec(), raw: Vec::new() }
    }

    fn time_of(timed: &[Timed], stack: &[u64]) -> f64 {
        timed.iter().filter(|one| one.stack == stack).flat_map(|one| &one.ns).sum()
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

    /// CPU 0 worked 3 of 4 ms by the clock, which saw all of it at the function that enables interrupts (9); cycles saw a third of it at 5 and two
    /// thirds at 6. CPU 1 has no cycles.
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
