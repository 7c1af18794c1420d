//! [`times`]: share of time in which a host with the hybrid scheme polls, decided by a measured rate.
//!
//! A sample is the rate of 64 packets leaving protocol processing. The moving average x of the samples switches to
//! polling above `up`, and back below `down`. The chain is (running part, x) at the end of each sample: x on a grid;
//! samples are lognormal around the running part's throughput and independent.

use crate::queue::banded::Banded;
use netcliff_core::math;

/// Packets per sample, as in the simulator.
pub const WINDOW: f64 = 64.0;
/// Range of a sample's noise: from -SPREAD to SPREAD standard deviations, in steps of 1/PER_DEVIATION.
const SPREAD: i32 = 8;
const PER_DEVIATION: i32 = 2;
/// Maximum number of cells of the grid.
const MOST_CELLS: usize = 600;
/// Size of a cell, relative to the change of x by one standard deviation of a sample.
const CELL: f64 = 0.25;

/// One of the two parts, as the rate meter sees it.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Packets that leave protocol processing (pps).
    pub throughput_pps: f64,
    /// Relative standard deviation of the time of a sample.
    pub deviation: f64,
}

/// Switching rates, and the weight of a new sample.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Rate above which polling starts (pps).
    pub up_pps: f64,
    /// Rate below which polling ends (pps).
    pub down_pps: f64,
    /// Weight of a new sample.
    pub weight: f64,
}

/// Results of the chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Share of time spent polling.
    pub polling: f64,
    /// Switches to polling (1/s).
    pub switches_per_s: f64,
}

struct Grid<'a> {
    parts: &'a [Part; 2],
    rule: Rule,
    low: f64,
    step: f64,
    cells: usize,
    /// (standard deviations, weight) of the possible noise of a sample.
    noise: Vec<(f64, f64)>,
}

impl Grid<'_> {
    /// Possible states after the next sample, from (part, cell): (part, cell, probability).
    fn jumps(&self, part: usize, cell: usize) -> Vec<(usize, usize, f64)> {
        let Part { throughput_pps, deviation } = self.parts[part];
        let x = self.low + cell as f64 * self.step;
        let mut jumps = Vec::with_capacity(2 * self.noise.len());
        for (z, weight) in &self.noise {
            // 1/T for a lognormal time T with mean 1/throughput.
            let sample = throughput_pps * math::exp(0.5 * deviation * deviation + deviation * z);
            let after = x + self.rule.weight * (sample - x);
            let place = ((after - self.low) / self.step).clamp(0.0, (self.cells - 1) as f64);
            // Divide between the two neighbouring cells so that the mean is the value.
            let below = (place as usize).min(self.cells - 2);
            let share = place - below as f64;
            for (cell, probability) in [(below, 1.0 - share), (below + 1, share)] {
                let rate = self.low + cell as f64 * self.step;
                let next = match part {
                    0 if rate > self.rule.up_pps => 1,
                    1 if rate < self.rule.down_pps => 0,
                    same => same,
                };
                jumps.push((next, cell, probability * weight));
            }
        }
        jumps
    }
}

/// Computes the long-run shares of time; `parts` are disable-enable and polling. A host begins with disable-enable.
pub fn times(parts: &[Part; 2], rule: Rule) -> Times {
    let ends = |part: &Part| {
        // The range of x: nine standard deviations of the distribution of x.
        let own = part.deviation * (rule.weight / (2.0 - rule.weight)).sqrt();
        let middle = part.throughput_pps * math::exp(part.deviation * part.deviation);
        (middle * (1.0 - 9.0 * own).max(0.0), middle * (1.0 + 9.0 * own))
    };
    let [quiet, busy] = parts.each_ref().map(ends);
    if quiet.1 < rule.up_pps {
        return Times { polling: 0.0, switches_per_s: 0.0 };
    }
    if busy.0 > rule.down_pps {
        return Times { polling: 1.0, switches_per_s: 0.0 };
    }
    let (low, high) = (quiet.0.min(busy.0), quiet.1.max(busy.1));
    let widest = parts.iter().map(|part| part.throughput_pps * part.deviation).fold(f64::INFINITY, f64::min);
    let step = (CELL * rule.weight * widest).max((high - low) / MOST_CELLS as f64);
    let cells = 2 + ((high - low) / step) as usize;
    let levels = (-SPREAD * PER_DEVIATION..=SPREAD * PER_DEVIATION).map(|n| f64::from(n) / f64::from(PER_DEVIATION));
    let mut noise: Vec<(f64, f64)> = levels.map(|z| (z, math::exp(-0.5 * z * z))).collect();
    let total: f64 = noise.iter().map(|(_, weight)| weight).sum();
    noise.iter_mut().for_each(|(_, weight)| *weight /= total);
    let grid = Grid { parts, rule, low, step, cells, noise };
    let rows: Vec<Vec<(usize, usize, f64)>> = (0..2 * cells).map(|state| grid.jumps(state % 2, state / 2)).collect();
    let target = |(part, cell, _): &(usize, usize, f64)| 2 * cell + part;
    let reach = |sign: isize| {
        let furthest = rows
            .iter()
            .enumerate()
            .flat_map(|(state, row)| row.iter().map(move |jump| sign * (target(jump) as isize - state as isize)));
        furthest.max().unwrap_or(1).max(1) as usize
    };
    let (up, down) = (reach(1), reach(-1));
    let mut row = |state: usize| {
        let mut band = vec![0.0; down + up + 1];
        rows[state].iter().for_each(|jump| band[down + target(jump) - state] += jump.2);
        band
    };
    let states = 2 * cells;
    let Some(weights) = (Banded { states, down, up, alike: 0..0, period: 1, row: &mut row }).stationary() else {
        return Times { polling: 0.5, switches_per_s: 0.0 };
    };
    let sample_s = parts.each_ref().map(|part| WINDOW / part.throughput_pps);
    let (mut time_s, mut switches) = ([0.0; 2], 0.0);
    for (state, weight) in weights.iter().enumerate() {
        time_s[state % 2] += weight * sample_s[state % 2];
        if state % 2 == 0 {
            switches += rows[state].iter().filter(|jump| jump.0 == 1).map(|jump| weight * jump.2).sum::<f64>();
        }
    }
    let total_s = time_s[0] + time_s[1];
    Times { polling: time_s[1] / total_s, switches_per_s: switches / total_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With throughputs far from the switching rates it is certain which part runs; between them the noise decides.
    #[test]
    fn the_rate_decides() {
        let parts =
            |quiet: f64, busy: f64| [quiet, busy].map(|throughput_pps| Part { throughput_pps, deviation: 1.0 / 8.0 });
        let rule = Rule { up_pps: 127e3, down_pps: 114e3, weight: 0.1 };
        let polling = |quiet: f64, busy: f64| times(&parts(quiet, busy), rule).polling;
        assert_eq!(polling(60e3, 60e3), 0.0);
        assert_eq!(polling(187e3, 180e3), 1.0);
        assert!(polling(110e3, 110e3) < 0.05 && polling(132e3, 132e3) > 0.95);
        // Alternating: 2 samples at 187 kpps, then 4 at 80 kpps.
        let Times { polling, switches_per_s } = times(&parts(187e3, 80e3), rule);
        assert!((0.75..0.9).contains(&polling), "{polling}");
        assert!((200.0..320.0).contains(&switches_per_s), "{switches_per_s}");
    }
}
