//! [`Level`]: how long how many packets were there, by part of the run.

use crate::machine::SEGMENTS;

/// A number of packets over time.
#[derive(Debug, Default)]
pub(super) struct Level {
    present: usize,
    since: u64,
    /// Ticks by part of the run, then by packets; the last part is what follows the end.
    times: [Vec<u64>; SEGMENTS + 1],
}

impl Level {
    /// Packets present.
    pub(super) fn present(&self) -> u64 {
        self.present as u64
    }

    /// The number changes at `at` [ticks]; the time before belongs to `segment`.
    pub(super) fn change(&mut self, at: u64, segment: usize, change: i64) {
        let times = &mut self.times[segment];
        if times.len() <= self.present {
            times.resize(self.present + 1, 0);
        }
        times[self.present] += at - self.since;
        self.since = at;
        self.present = self.present.saturating_add_signed(change as isize);
    }

    /// Ticks by packets, without the first `warm` tenths and what follows the end.
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
