//! Small dense matrices of Markov chains. Diagonals are never stored: they are minus the sum of a state's other rates,
//! computed anew at every step (Grassmann, Taksar, Heyman 1985; Alfa, Xue, Ye 2002), so that nothing is subtracted.

/// If the total rate out of a set of states is below this, it counts as 0: dividing by it would overflow.
const NEVER: f64 = 1e-150;

/// A square matrix of non-negative rates, row by row; its diagonal is ignored by every function here.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of rows and columns.
    pub order: usize,
    /// Entries, row by row.
    pub entries: Vec<f64>,
}

impl Matrix {
    /// All zeros.
    pub fn zero(order: usize) -> Self {
        Self { order, entries: vec![0.0; order * order] }
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.entries[i * self.order..(i + 1) * self.order]
    }

    /// Row `i`, mutable.
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.entries[i * self.order..(i + 1) * self.order]
    }

    /// Entry (i, j).
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.entries[i * self.order + j]
    }

    /// Adds to entry (i, j).
    pub fn add(&mut self, i: usize, j: usize, rate: f64) {
        self.entries[i * self.order + j] += rate;
    }

    /// The row vector `left` x self.
    pub fn left_product(&self, left: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.order];
        for (i, &factor) in left.iter().enumerate().filter(|(_, factor)| **factor != 0.0) {
            add_scaled(&mut product, self.row(i), factor);
        }
        product
    }

    /// Largest difference between two entries, relative to the sum of their row.
    pub fn relative_distance(&self, other: &Self) -> f64 {
        let distance = |i: usize| {
            let total: f64 = self.row(i).iter().sum();
            let most = self.row(i).iter().zip(other.row(i)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            if most == 0.0 { 0.0 } else { most / total }
        };
        (0..self.order).map(distance).fold(0.0, f64::max)
    }

    /// Expected times in the states: the inverse of (D - self), where the diagonal D makes row i of (D - self) sum to
    /// `leaving[i]`.
    ///
    /// `leaving[i]` is the rate from state i out of the set. Every entry has a relative accuracy of the order of order
    /// x machine epsilon, for any rates. Takes 2 order^3 operations.
    pub fn expected_times(mut self, mut leaving: Vec<f64>) -> Self {
        let order = self.order;
        let mut pivots = vec![0.0; order];
        for k in 0..order {
            let (head, rest) = self.entries.split_at_mut((k + 1) * order);
            let pivot_row = &head[k * order + k + 1..];
            pivots[k] = leaving[k] + pivot_row.iter().sum::<f64>();
            for i in k + 1..order {
                let row = &mut rest[(i - k - 1) * order..(i - k) * order];
                if row[k] == 0.0 {
                    continue;
                }
                row[k] /= pivots[k];
                let factor = row[k];
                add_scaled(&mut row[k + 1..], pivot_row, factor);
                leaving[i] += factor * leaving[k];
            }
        }
        self.back_substituted(&pivots)
    }

    /// Computes (pivots - upper)^-1 (1 - lower)^-1 from the factors that elimination stored in place.
    fn back_substituted(self, pivots: &[f64]) -> Self {
        let order = self.order;
        let mut inverse = Self::zero(order);
        for i in 0..order {
            let (done, rest) = inverse.entries.split_at_mut(i * order);
            rest[i] = 1.0;
            for k in 0..i {
                let factor = self.at(i, k);
                if factor != 0.0 {
                    add_scaled(&mut rest[..=k], &done[k * order..=k * order + k], factor);
                }
            }
        }
        for k in (0..order).rev() {
            let (head, done) = inverse.entries.split_at_mut((k + 1) * order);
            let row = &mut head[k * order..];
            for j in k + 1..order {
                let factor = self.at(k, j);
                if factor != 0.0 {
                    add_scaled(row, &done[(j - k - 1) * order..(j - k) * order], factor);
                }
            }
            row.iter_mut().for_each(|entry| *entry /= pivots[k]);
        }
        inverse
    }

    /// The stationary vector, with sum 1, of the chain with these off-diagonal rates (GTH). The chain must have one
    /// recurrent class; states outside it get 0.
    pub fn stationary(mut self) -> Vec<f64> {
        let order = self.order;
        let mut pivots = vec![0.0; order];
        let mut root = 0;
        let leaves = |matrix: &Self, k: usize| -> f64 {
            matrix.row(k).iter().enumerate().filter(|(j, _)| *j != k).map(|(_, rate)| rate).sum()
        };
        let least: Vec<f64> = (0..order).map(|k| NEVER * leaves(&self, k)).collect();
        for k in (1..order).rev() {
            pivots[k] = self.row(k)[..k].iter().sum();
            if pivots[k] < least[k] {
                pivots[k] = 0.0;
            }
            if pivots[k] == 0.0 {
                if (0..k).any(|i| self.at(i, k) > 0.0) {
                    // State k is entered from below but never left downwards: the states below are transient.
                    root = k;
                    break;
                }
                continue;
            }
            let (rest, tail) = self.entries.split_at_mut(k * order);
            for i in 0..k {
                let row = &mut rest[i * order..(i + 1) * order];
                let factor = row[k] / pivots[k];
                if factor != 0.0 {
                    add_scaled(&mut row[..k], &tail[..k], factor);
                }
            }
        }
        let mut vector = vec![0.0; order];
        vector[root] = 1.0;
        for k in root + 1..order {
            let inflow: f64 = (root..k).map(|i| vector[i] * self.at(i, k)).sum();
            vector[k] = if pivots[k] == 0.0 { 0.0 } else { inflow / pivots[k] };
            if vector[k] > 1e100 {
                vector.iter_mut().for_each(|v| *v *= 1e-100);
            }
        }
        let total: f64 = vector.iter().sum();
        vector.iter_mut().for_each(|v| *v /= total);
        vector
    }
}

/// target += factor x source.
pub fn add_scaled(target: &mut [f64], source: &[f64], factor: f64) {
    for (t, s) in target.iter_mut().zip(source) {
        *t += factor * s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_times_invert() {
        let matrix = Matrix { order: 3, entries: vec![0.0, 1.0, 2.0, 0.5, 0.0, 0.0, 3.0, 1.0, 0.0] };
        let leaving = vec![0.1, 0.0, 2.0];
        let times = matrix.clone().expected_times(leaving.clone());
        for (i, leaves) in leaving.iter().enumerate() {
            let out: f64 = leaves + (0..3).filter(|j| *j != i).map(|j| matrix.at(i, j)).sum::<f64>();
            for j in 0..3 {
                let product: f64 = out * times.at(i, j)
                    - (0..3).filter(|k| *k != i).map(|k| matrix.at(i, k) * times.at(k, j)).sum::<f64>();
                assert!((product - f64::from(i == j)).abs() < 1e-13, "{i} {j} {product}");
            }
        }
    }

    #[test]
    fn ways_out_near_zero_do_not_overflow() {
        // State 0 is left at once; states 1 and 2 alternate and extremely rarely reach state 0.
        let matrix = Matrix { order: 3, entries: vec![0.0, 1e24, 0.0, 1e-310, 0.0, 1.0, 0.0, 3.0, 0.0] };
        let vector = matrix.stationary();
        assert!((vector[1] - 0.75).abs() < 1e-15 && (vector[2] - 0.25).abs() < 1e-15, "{vector:?}");
    }

    #[test]
    fn stationary_of_a_cycle() {
        let cycle = Matrix { order: 3, entries: vec![0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 4.0, 0.0, 0.0] };
        let vector = cycle.stationary();
        for (got, want) in vector.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]) {
            assert!((got - want).abs() < 1e-15);
        }
    }
}
