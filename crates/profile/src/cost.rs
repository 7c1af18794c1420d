//! Measures the cost of a sample: [`Timers`] records the kernel's timer interrupts for a short time and selects those
//! in which a sample was taken.
//!
//! The tracepoints irq_vectors:local_timer_entry and local_timer_exit are inside the interrupt. The measured cost
//! therefore lacks the CPU's own entry and exit (in a guest most of a microsecond), and includes the tracepoints' own
//! cost (some hundred nanoseconds).

use std::collections::BTreeMap;
use std::io;

use netcliff_host::perf::{Event, Every, Fields, Record, Sampler, tracepoint};

/// Minimum number of samples for a mean.
const FEWEST: usize = 50;
/// Interrupts longer than this multiple of the median are ignored, because a hypervisor paused the CPU during them.
const PAUSED: f64 = 10.0;

/// Recording of the two tracepoints.
#[derive(Debug)]
pub struct Timers {
    entries: Sampler,
    exits: Sampler,
}

impl Timers {
    /// Starts to record on these CPUs.
    ///
    /// # Errors
    /// The kernel has no such tracepoints (only x86 has them), or the permission is missing.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let open = |name: &str| {
            let number = tracepoint::number(&format!("irq_vectors/local_timer_{name}"))?;
            Sampler::open(Event::Tracepoint(number), Every::Events(1), cpus, Fields::default())
        };
        let timers = Self { entries: open("entry")?, exits: open("exit")? };
        timers.entries.start()?;
        timers.exits.start()?;
        Ok(timers)
    }

    /// Ends the recording. Returns the mean length (s) of the interrupts in which one of `samples` was taken; a sample
    /// is a CPU and a time (ns). `None` if there are too few.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn finish(mut self, samples: &[(usize, u64)]) -> io::Result<Option<f64>> {
        self.entries.stop()?;
        self.exits.stop()?;
        let times = |sampler: &mut Sampler| {
            let mut times = BTreeMap::<usize, Vec<u64>>::new();
            sampler.drain(|cpu, record| {
                if let Record::Sample(sample) = record {
                    times.entry(cpu).or_default().push(sample.time_ns);
                }
            });
            times
        };
        Ok(mean_s(&times(&mut self.entries), &times(&mut self.exits), samples))
    }
}

/// Mean length (s) of the intervals that contain a sample, from an entry to the next exit on the same CPU.
fn mean_s(
    entries: &BTreeMap<usize, Vec<u64>>,
    exits: &BTreeMap<usize, Vec<u64>>,
    samples: &[(usize, u64)],
) -> Option<f64> {
    let length = |&(cpu, time): &(usize, u64)| {
        let (entries, exits) = (entries.get(&cpu)?, exits.get(&cpu)?);
        let entry = *entries.get(entries.partition_point(|entry| *entry <= time).checked_sub(1)?)?;
        let exit = *exits.get(exits.partition_point(|exit| *exit < time))?;
        // Another entry before the exit means that an event was lost.
        let lost = entries.get(entries.partition_point(|next| *next <= time)).is_some_and(|next| *next < exit);
        (!lost).then(|| (exit - entry) as f64 * 1e-9)
    };
    let mut lengths: Vec<f64> = samples.iter().filter_map(length).collect();
    lengths.sort_by(f64::total_cmp);
    let usual_s = *lengths.get(lengths.len() / 2)?;
    lengths.retain(|length_s| *length_s < PAUSED * usual_s);
    (lengths.len() >= FEWEST).then(|| lengths.iter().sum::<f64>() / lengths.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_with_a_sample_are_its_cost() {
        // An interrupt every millisecond of 3 us, or 5 us if it contains a sample; the exit of one of the latter is
        // lost.
        let mut entries: Vec<u64> = (0..200u64).map(|at| at * 1_000_000).collect();
        let exits: Vec<u64> = (0..200u64)
            .filter(|at| *at != 4)
            .map(|at| at * 1_000_000 + if at % 2 == 0 { 5000 } else { 3000 })
            .collect();
        let samples: Vec<(usize, u64)> = (0..100u64).map(|at| (3, at * 2_000_000 + 1000)).collect();
        let on = |times: &[u64]| BTreeMap::from([(3, times.to_vec())]);
        let mean = mean_s(&on(&entries), &on(&exits), &samples).expect("enough");
        assert!((mean - 5e-6).abs() < 1e-9, "{mean}");
        assert_eq!(mean_s(&on(&entries), &on(&exits), &samples[..10]), None);
        entries.clear();
        assert_eq!(mean_s(&on(&entries), &on(&exits), &samples), None);
    }
}
