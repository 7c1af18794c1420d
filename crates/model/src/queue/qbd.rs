//! Finite, level-dependent quasi-birth-death processes: levels 0..=top with the same phases each, and jumps of at most
//! one level.
//!
//! Block reduction from one end: U_top = local(top); R_n = up(n-1) (-U_n)^-1; U_(n-1) = local(n-1) + R_n down(n); pi_n
//! = pi_(n-1) R_n (docs/theory/chains.md). Diagonals are minus the rates out of a state (GTH), so that nothing is
//! subtracted. Within a run of equal levels the reduction stops once R has converged. It starts at the end from which
//! the process drifts away, so that the vector shrinks while it is built.

use super::matrix::Matrix;

/// A jump: (from phase, to phase, rate).
pub type Jump = (usize, usize, f64);

/// Jumps from one level: up, within it, and down. Jumps from a phase to itself are ignored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Blocks {
    /// To the level above.
    pub up: Vec<Jump>,
    /// Within the level.
    pub local: Vec<Jump>,
    /// To the level below.
    pub down: Vec<Jump>,
}

/// The process, as runs of equal levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Qbd {
    phases: usize,
    top: usize,
    /// (first level, blocks), ascending from level 0.
    runs: Vec<(usize, Blocks)>,
}

/// The stationary distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Stationary {
    phases: usize,
    /// P(level, phase), level by level.
    probabilities: Vec<f64>,
}

/// Error: the process is too large for memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a chain of {levels} levels x {phases} phases that does not settle within {kept} levels is too large")]
pub struct TooLarge {
    /// Levels of the process.
    pub levels: usize,
    /// Phases per level.
    pub phases: usize,
    /// Number of levels that would fit.
    pub kept: usize,
}

/// Memory limit for rate matrices (bytes): 256 MiB.
const MATRICES_BYTES: usize = 1 << 28;
/// Largest number of probabilities stored: 512 MiB.
const PROBABILITIES: usize = 1 << 26;
/// R has converged when no entry changes by more than this share of its row's sum. A test relative to the entry would
/// never end for phases that have practically no weight.
const CONVERGED: f64 = 4e-16;

impl Qbd {
    /// `runs`: (first level, blocks), ascending from level 0. The top level must have no jumps up, level 0 none down.
    /// There must be one recurrent class.
    pub fn new(phases: usize, top: usize, runs: Vec<(usize, Blocks)>) -> Self {
        Self { phases, top, runs }
    }

    fn run(&self, level: usize) -> usize {
        self.runs.iter().rposition(|(first, _)| *first <= level).unwrap_or(0)
    }

    fn blocks(&self, level: usize) -> &Blocks {
        &self.runs[self.run(level)].1
    }

    /// The same process with levels counted from the top.
    fn reversed(&self) -> Self {
        let ends = self.runs.iter().skip(1).map(|(first, _)| *first).chain([self.top + 1]);
        let mut runs: Vec<(usize, Blocks)> = self
            .runs
            .iter()
            .zip(ends)
            .filter(|((first, _), end)| first < end)
            .map(|((_, blocks), end)| {
                let Blocks { up, local, down } = blocks.clone();
                (self.top + 1 - end, Blocks { up: down, local, down: up })
            })
            .collect();
        runs.reverse();
        Self { phases: self.phases, top: self.top, runs }
    }

    /// True if the process drifts upwards in the longest run of levels.
    fn drifts_up(&self) -> bool {
        let ends = self.runs.iter().skip(1).map(|(first, _)| *first).chain([self.top + 1]);
        let longest = self.runs.iter().zip(ends).max_by_key(|((first, _), end)| end.saturating_sub(*first));
        let Some(((_, blocks), _)) = longest else { return false };
        let mut flat = Matrix::zero(self.phases);
        for (from, to, rate) in blocks.up.iter().chain(&blocks.local).chain(&blocks.down) {
            if from != to {
                flat.add(*from, *to, *rate);
            }
        }
        let phase = flat.stationary();
        let drift = |jumps: &[Jump]| jumps.iter().map(|(from, _, rate)| phase[*from] * rate).sum::<f64>();
        drift(&blocks.up) > drift(&blocks.down)
    }

    /// Solves for the stationary distribution.
    pub fn stationary(&self) -> Result<Stationary, TooLarge> {
        if !self.drifts_up() {
            return self.solve();
        }
        let mut solution = self.reversed().solve()?;
        let phases = self.phases;
        let levels = solution.probabilities.len() / phases;
        for level in 0..levels / 2 {
            let (low, high) = solution.probabilities.split_at_mut((levels - 1 - level) * phases);
            low[level * phases..(level + 1) * phases].swap_with_slice(&mut high[..phases]);
        }
        Ok(solution)
    }

    fn solve(&self) -> Result<Stationary, TooLarge> {
        let kept = (MATRICES_BYTES / (8 * self.phases * self.phases)).max(2);
        let too_large = || TooLarge { levels: self.top + 1, phases: self.phases, kept };
        if (self.top + 1).saturating_mul(self.phases) > PROBABILITIES {
            return Err(too_large());
        }
        // Entries (first level, R); each is valid up to the level before the previous entry's first level.
        let mut rates: Vec<(usize, Matrix)> = Vec::new();
        let mut returning = Matrix::zero(self.phases);
        let mut level = self.top;
        while level > 0 {
            let rate = self.rate(level, returning);
            let settled = rates.last().is_some_and(|(_, above): &(usize, Matrix)| {
                self.run(level) == self.run(level + 1)
                    && self.run(level - 1) == self.run(level)
                    && rate.relative_distance(above) <= CONVERGED
            });
            returning = down_product(&rate, &self.blocks(level).down);
            // R of the run's lowest level depends on the run below, so that it is computed separately.
            let lowest = if settled { self.runs[self.run(level)].0 + 1 } else { level };
            rates.push((lowest, rate));
            if rates.len() > kept {
                return Err(too_large());
            }
            level = lowest - 1;
        }
        Ok(self.vector(&mut rates, returning))
    }

    /// Computes R of `level`; `returning`: rates of returns from the level above, treated as local jumps.
    fn rate(&self, level: usize, returning: Matrix) -> Matrix {
        let blocks = self.blocks(level);
        let mut local = returning;
        for (from, to, rate) in &blocks.local {
            local.add(*from, *to, *rate);
        }
        for phase in 0..self.phases {
            local.row_mut(phase)[phase] = 0.0;
        }
        let mut leaving = vec![0.0; self.phases];
        for (from, _, rate) in &blocks.down {
            leaving[*from] += rate;
        }
        let times = local.expected_times(leaving);
        let mut rates = Matrix::zero(self.phases);
        for (from, to, rate) in &self.blocks(level - 1).up {
            let row = times.row(*to);
            rates.row_mut(*from).iter_mut().zip(row).for_each(|(sum, time)| *sum += rate * time);
        }
        rates
    }

    fn vector(&self, rates: &mut Vec<(usize, Matrix)>, returning: Matrix) -> Stationary {
        let phases = self.phases;
        let mut bottom = returning;
        for (from, to, rate) in &self.blocks(0).local {
            bottom.add(*from, *to, *rate);
        }
        for phase in 0..phases {
            bottom.row_mut(phase)[phase] = 0.0;
        }
        let mut probabilities = bottom.stationary();
        probabilities.reserve(self.top * phases);
        let mut current = probabilities.clone();
        for level in 1..=self.top {
            while rates.len() > 1 && rates[rates.len() - 2].0 <= level {
                rates.pop();
            }
            current = match rates.last() {
                Some((_, rate)) if current.iter().any(|p| *p > 0.0) => rate.left_product(&current),
                _ => vec![0.0; phases],
            };
            probabilities.extend_from_slice(&current);
            if current.iter().any(|p| *p > 1e200) {
                probabilities.iter_mut().chain(&mut current).for_each(|p| *p *= 1e-200);
            }
        }
        Stationary::normalised(phases, probabilities)
    }
}

/// rate x (jumps down as a matrix).
fn down_product(rate: &Matrix, down: &[Jump]) -> Matrix {
    let mut product = Matrix::zero(rate.order);
    for i in 0..rate.order {
        let row = rate.row(i);
        let out = product.row_mut(i);
        for (from, to, jump) in down {
            out[*to] += row[*from] * jump;
        }
    }
    product
}

impl Stationary {
    /// Weights level by level, scaled to sum 1.
    pub fn normalised(phases: usize, mut probabilities: Vec<f64>) -> Self {
        let total: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|p| *p /= total);
        Self { phases, probabilities }
    }

    /// Number of levels, top + 1.
    pub fn levels(&self) -> usize {
        self.probabilities.len() / self.phases
    }

    /// P(level, phase) for each phase.
    pub fn level(&self, level: usize) -> &[f64] {
        &self.probabilities[level * self.phases..(level + 1) * self.phases]
    }

    /// P(level).
    pub fn level_probability(&self, level: usize) -> f64 {
        self.level(level).iter().sum()
    }

    /// P(phase) over the levels from `from` upwards.
    pub fn phase_probability(&self, phase: usize, from: usize) -> f64 {
        (from..self.levels()).map(|level| self.level(level)[phase]).sum()
    }

    /// Mean level.
    pub fn mean_level(&self) -> f64 {
        (0..self.levels()).map(|level| level as f64 * self.level_probability(level)).sum()
    }
}
