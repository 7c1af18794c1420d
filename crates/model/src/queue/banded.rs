//! Stationary vectors of banded chains without subtraction: states 0..n, jumps of at most `down` down and `up` up.
//!
//! States are eliminated from the top (GTH), with n x up x down operations. If rows repeat over a long range,
//! elimination converges and the rest of the range is skipped.

use std::collections::VecDeque;

/// A banded chain, whose rows are computed on demand.
pub struct Banded<'a> {
    /// Number of states.
    pub states: usize,
    /// Longest jump down.
    pub down: usize,
    /// Longest jump up.
    pub up: usize,
    /// Range of states whose rows, relative to the state, equal the row of the state `period` below: `first..end`.
    pub alike: std::ops::Range<usize>,
    /// Period with which the rows in `alike` repeat; at least 1.
    pub period: usize,
    /// Rates (or probabilities) from a state to state - down ..= state + up; those outside 0..states must be 0.
    pub row: &'a mut dyn FnMut(usize) -> Vec<f64>,
}

/// Elimination has converged when no rate changes by more than this share of its row.
const CONVERGED: f64 = 1e-15;
/// Memory limit for eliminated columns (bytes): 1 GiB.
const COLUMNS_BYTES: usize = 1 << 30;

/// A range of eliminated states, from `lowest` up to the state before the previous entry's range. Stores the rates into
/// each state from the `up` states below, divided by the state's own rate down. The entries of `inflows` repeat over
/// the range.
struct Eliminated {
    lowest: usize,
    inflows: Vec<Vec<f64>>,
}

impl Eliminated {
    fn inflow(&self, state: usize) -> &[f64] {
        &self.inflows[(state - self.lowest) % self.inflows.len()]
    }
}

/// Detects convergence of elimination. Stores the rows and inflows of the latest period, and the number of consecutive
/// states that equal the states one period before.
struct Settling {
    latest: VecDeque<(Vec<f64>, Vec<f64>)>,
    period: usize,
    close: usize,
}

impl Settling {
    fn new(period: usize) -> Self {
        Self { latest: VecDeque::new(), period, close: 0 }
    }

    /// Returns true once all rows of a period equal the rows of the period above.
    fn note(&mut self, row: Vec<f64>, inflow: &[f64]) -> bool {
        let before = (self.latest.len() == self.period).then(|| self.latest.pop_back()).flatten();
        let is_close = before.is_some_and(|(above, into)| close(&above, &row) && close(&into, inflow));
        self.close = if is_close { self.close + 1 } else { 0 };
        self.latest.push_front((row, inflow.to_vec()));
        self.close >= self.period
    }

    /// Returns the inflows of the latest state and of the states above it, up to one period.
    fn inflows(&self) -> Vec<Vec<f64>> {
        self.latest.iter().map(|(_, inflow)| inflow.clone()).collect()
    }
}

impl Banded<'_> {
    /// Returns the stationary vector, not normalised, with a largest entry of about 1; `None` if it does not fit into
    /// memory. State 0 must be reachable from all states.
    pub fn stationary(mut self) -> Option<Vec<f64>> {
        let (eliminated, floor) = self.eliminate()?;
        Some(self.vector(eliminated, floor))
    }

    /// Eliminates the states from the top down. Also returns the state below which the chain never goes (0 in general);
    /// `None` if memory does not suffice.
    fn eliminate(&mut self) -> Option<(Vec<Eliminated>, usize)> {
        let Self { states, down, up, .. } = *self;
        let kept = COLUMNS_BYTES / (8 * up.max(1));
        let mut eliminated: Vec<Eliminated> = Vec::new();
        // window[d]: row of state - d, after elimination of all states above `state`.
        let mut window: VecDeque<Vec<f64>> = (0..=up.min(states - 1)).map(|d| (self.row)(states - 1 - d)).collect();
        let mut settling = Settling::new(self.period);
        let mut state = states - 1;
        while state > 0 {
            let row = window.pop_front()?;
            let leaving: f64 = row[..down].iter().sum();
            if leaving < NEVER {
                return Some((eliminated, state));
            }
            let mut inflow = vec![0.0; window.len()];
            for (d, below) in window.iter_mut().enumerate().map(|(i, below)| (i + 1, below)) {
                let factor = below[down + d] / leaving;
                inflow[d - 1] = factor;
                if factor != 0.0 {
                    below[d..d + down].iter_mut().zip(&row[..down]).for_each(|(sum, rate)| *sum += factor * rate);
                }
            }
            let settled = settling.note(row[..down].to_vec(), &inflow);
            // Skip only if all rows of the window (the `up` states below) are equal before and after, so that the
            // window needs no change.
            let skipped = if settled && self.alike.contains(&state) {
                state.saturating_sub(self.alike.start + up) / self.period * self.period
            } else {
                0
            };
            let lowest = state - skipped;
            let inflows = if skipped > 0 { settling.inflows() } else { vec![inflow] };
            eliminated.push(Eliminated { lowest, inflows });
            if eliminated.len() > kept {
                return None;
            }
            state = lowest - 1;
            if window.len() == up && up <= state {
                window.push_back((self.row)(state - up));
            }
        }
        Some((eliminated, 0))
    }

    fn vector(&self, mut eliminated: Vec<Eliminated>, floor: usize) -> Vec<f64> {
        let mut vector = vec![0.0; self.states];
        vector[floor] = 1.0;
        // The lowest state whose weight is not negligible.
        let mut lowest = floor;
        for state in floor + 1..self.states {
            while eliminated.len() > 1 && eliminated[eliminated.len() - 2].lowest <= state {
                eliminated.pop();
            }
            let Some(step) = eliminated.last() else { break };
            let below = vector[..state].iter().rev();
            vector[state] = step.inflow(state).iter().zip(below).map(|(rate, weight)| rate * weight).sum();
            if vector[state] > LARGE {
                let factor = 1.0 / vector[state];
                vector[lowest..=state].iter_mut().for_each(|weight| {
                    *weight *= factor;
                    if *weight < NOTHING {
                        *weight = 0.0;
                    }
                });
                lowest += vector[lowest..=state].iter().position(|weight| *weight > 0.0).unwrap_or(0);
            }
        }
        vector
    }
}

/// Weights above this are scaled down. One step multiplies them by up to 1/[`NEVER`] and adds as many terms as the band
/// is wide; the sum must stay below the largest double.
const LARGE: f64 = 1e8;
/// Values below this become 0, because denormal numbers are slow and do not vanish by themselves.
const NOTHING: f64 = 1e-300;
/// Probability that counts as zero.
const NEVER: f64 = 1e-290;

fn close(a: &[f64], b: &[f64]) -> bool {
    let total: f64 = b.iter().sum();
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() <= CONVERGED * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In extreme overload the top is never left and has all weight.
    #[test]
    fn a_state_that_is_never_left() {
        for floor in [1, 3, 9] {
            let down = |state: usize| if state == floor { 0.0 } else { f64::from(state > 0) };
            let mut row = |state: usize| vec![down(state), 0.0, if state < 9 { 0.5 } else { 0.0 }];
            let chain = Banded { states: 10, down: 1, up: 1, alike: 1..1, period: 1, row: &mut row };
            let vector = chain.stationary().unwrap();
            assert!(vector[..floor].iter().all(|weight| *weight == 0.0) && vector[floor] == 1.0, "{vector:?}");
            assert!(vector[floor..].windows(2).all(|pair| (pair[1] / pair[0] - 0.5).abs() < 1e-12), "{vector:?}");
        }
    }

    /// A birth-death chain is a band of width one.
    #[test]
    fn birth_death() {
        for (states, ratio) in [(2, 0.5), (500, 0.5), (500, 1.0), (2000, 1.7)] {
            let mut row = |state: usize| vec![f64::from(state > 0), 0.0, if state + 1 < states { ratio } else { 0.0 }];
            let chain = Banded { states, down: 1, up: 1, alike: 1..states - 1, period: 1, row: &mut row };
            let vector = chain.stationary().unwrap();
            let (last, before) = (vector[states - 1], vector[states - 2]);
            assert!((last / before - ratio).abs() < 1e-12, "{states} {ratio}");
            let total: f64 = vector.iter().sum();
            let want = if ratio == 1.0 {
                1.0 / states as f64
            } else {
                f64::exp((states as f64 - 1.0) * f64::ln(ratio)) * (1.0 - ratio) / (1.0 - ratio.powi(states as i32))
            };
            if want.is_finite() && want > 0.0 {
                assert!((last / total / want - 1.0).abs() < 1e-10, "{states} {ratio} {} {want}", last / total);
            }
        }
    }

    /// Rows that repeat every few states: skipping after convergence does not change the result.
    #[test]
    fn rows_that_repeat() {
        for (period, drift) in [(1, 0.9), (2, 0.9), (2, 1.1), (3, 0.97), (5, 1.02)] {
            let (states, down, up) = (1500, 4, 7);
            let rate = |state: usize, to: usize| {
                let phase = (state % period) as f64;
                match to < state {
                    true => 1.0 + 0.3 * phase + 0.1 * (state - to) as f64,
                    false => drift * (0.4 + 0.1 * phase) * 0.9_f64.powi((to - state) as i32),
                }
            };
            let vector = |alike: std::ops::Range<usize>| {
                let mut row = |state: usize| -> Vec<f64> {
                    let to = |place: usize| (state + place).checked_sub(down).filter(|to| *to < states && *to != state);
                    (0..=down + up).map(|place| to(place).map_or(0.0, |to| rate(state, to))).collect()
                };
                let vector = Banded { states, down, up, alike, period, row: &mut row }.stationary().unwrap();
                let total: f64 = vector.iter().sum();
                vector.into_iter().map(|weight| weight / total).collect::<Vec<_>>()
            };
            let (whole, skipped) = (vector(0..0), vector(down..states - up));
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-11 * a + 1e-290;
            assert!(whole.iter().zip(&skipped).all(near), "{period} {drift}");
        }
    }
}
