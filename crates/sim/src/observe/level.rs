//! [`Level`]: time spent at each number of packets, by part of the run.

use crate::machine::SEGMENTS;

/// A number of packets that changes over time.
#[derive(Debug, Default)]
pub(super) struct Level {
    present: usize,
    since: u64,
    /// Ticks by part of the run, then by number of packets. The last part is after the end.
    times: [Vec<u64>; SEGMENTS + 1],
}

impl Level {
    /// Number of packets present.
    pub(super) fn present(&self) -> u64 {
        self.present as u64
    }

    /// Changes the number at `at` [ticks]. The time before belongs to `segment`.
    pub(super) fn change(&mut self, at: u64, segment: usize, change: i64) {
        let times = &mut self.times[segment];
        if times.len() <= self.present {
            times.resize(self.present + 1, 0);
        }
        times[self.present] += at - self.since;
        self.since = at;
        self.present = self.present.saturating_add_signed(change as isize);
    }

    /// Ticks by number of packets, without the first `warm` tenths and the time after the end.
    pub(super) fn times(&self, warm: usize) -> Vec<u64> {
        let mut sum: Vec<u64> = Vec::new();
        for times in &self.times[warm..SEGMENTS] {
            if sum.len() < times.len() {
                sum.resize(times.len(), 0);
            }
            sum.iter_mut().zip(times).for_each(|(sum, ticks)| *sum += ticks);
        }
        sum
    }
}
