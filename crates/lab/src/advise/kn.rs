//! Procedure KN (S.-H. Kim, B. L. Nelson, "A fully sequential procedure for indifference-zone selection in simulation",
//! ACM TOMACS 11(3), 2001): picks the system with the smallest mean.
//!
//! If the best mean is better than all others by at least delta, the procedure picks that system with a probability of
//! at least `1 - alpha`. Otherwise, it picks a system within delta of the best with that probability. The samples of a
//! system are independent and normal. Samples with the same number may depend on each other across systems (common
//! random numbers). This makes the procedure fast, because only the variances of differences count. The constant c of
//! the paper is 1, the authors' choice.
//!
//! Systems that are far from the best and vary much would delay the procedure. Therefore half of alpha is used for
//! subset selection, as in B. L. Nelson, J. Swann, D. Goldsman, W. Song, "Simple procedures for selecting the best
//! simulated system when the number of alternatives is large", Operations Research 49(6), 2001: a system is dropped if
//! the mean of another system is better by more than t S_il/sqrt(n). The authors do this once, after the first stage.
//! This module does it each time the number of samples has doubled, the n-th time with t at
//! `1 - (alpha/2)/(2^n (k - 1))`, so that the error of all looks together is at most alpha/2 (Bonferroni). KN uses the
//! other half of alpha.

use netcliff_stats::student_at;

/// Parameters of the procedure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// k: number of systems that share the error. With a number larger than that of the compared systems, the error is
    /// smaller than alpha.
    pub systems: usize,
    /// n0: number of samples of each system at the start, at least 2.
    pub first: usize,
    /// Largest probability of a wrong selection.
    pub alpha: f64,
    /// Indifference zone, in the unit of the samples, above 0.
    pub delta: f64,
}

/// Result of the procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The systems left: a single one if the procedure decided.
    pub left: Vec<usize>,
    /// Number of samples taken of each of these systems.
    pub samples: usize,
}

impl Rule {
    /// h^2 = 2 c eta (n0 - 1), eta = ((2 alpha'/(k - 1))^(-2/(n0 - 1)) - 1)/2, alpha' = alpha/2.
    fn h_squared(&self) -> f64 {
        let freedom = (self.first - 1) as f64;
        let each = self.alpha / (self.systems.max(2) - 1) as f64;
        // For an error above 1, eta would be negative, and the procedure would stop at once with a random pick.
        let eta = 0.5 * (each.min(1.0).powf(-2.0 / freedom) - 1.0);
        2.0 * eta * freedom
    }

    /// One-sided t at 1 - (alpha/2)/(2^look (k - 1)), for look number `look` (from 1) at `samples` samples.
    fn subset_t(&self, look: i32, samples: usize) -> f64 {
        // The two-sided quantile leaves half of 1 - confidence on each side.
        let outside = self.alpha / 2f64.powi(look) / (self.systems.max(2) - 1) as f64;
        student_at(samples - 1, 1.0 - outside)
    }

    /// Takes samples by `sample(system, number)`, with numbers from 0, until one system is left. If `sample` returns
    /// `None`, the procedure ends without a decision.
    ///
    /// # Errors
    /// The first error of `sample`.
    pub fn select<E>(
        &self,
        systems: &[usize],
        sample: &mut impl FnMut(usize, usize) -> Result<Option<f64>, E>,
    ) -> Result<Selection, E> {
        let mut race = Race { rule: *self, left: systems.to_vec(), rows: Vec::new() };
        for system in systems {
            let mut row = Vec::with_capacity(self.first);
            for number in 0..self.first {
                match sample(*system, number)? {
                    Some(value) => row.push(value),
                    None => return Ok(Selection { left: systems.to_vec(), samples: number }),
                }
            }
            race.rows.push(Row { sum: row.iter().sum(), values: row });
        }
        race.run(sample)
    }
}

/// A system still in the race.
struct Row {
    values: Vec<f64>,
    sum: f64,
}

struct Race {
    rule: Rule,
    left: Vec<usize>,
    rows: Vec<Row>,
}

impl Race {
    fn run<E>(mut self, sample: &mut impl FnMut(usize, usize) -> Result<Option<f64>, E>) -> Result<Selection, E> {
        let (h_squared, delta, first) = (self.rule.h_squared(), self.rule.delta, self.rule.first);
        // h^2 S_il^2/delta^2 for each pair at the start. N_il is its integer part.
        let reach: Vec<Vec<f64>> = self
            .rows
            .iter()
            .map(|one| self.rows.iter().map(|other| h_squared * spread(one, other, first) / (delta * delta)).collect())
            .collect();
        let longest = reach.iter().flatten().copied().fold(0.0, f64::max).floor() as usize;
        let mut places: Vec<usize> = (0..self.rows.len()).collect();
        let (mut samples, mut look) = (first, 1);
        loop {
            if samples == first << (look - 1) {
                places = self.subset(&places, self.rule.subset_t(look, samples));
                look += 1;
            }
            places = self.survivors(&places, &reach, samples);
            if places.len() <= 1 || samples > longest {
                let mut left = self.by_mean(&places);
                left.truncate(1);
                return Ok(Selection { left, samples });
            }
            for place in &places {
                match sample(self.left[*place], samples)? {
                    Some(value) => self.rows[*place].add(value),
                    None => {
                        return Ok(Selection { left: places.iter().map(|place| self.left[*place]).collect(), samples });
                    }
                }
            }
            samples += 1;
        }
    }

    /// The systems that, by the samples so far, no other system beats significantly.
    fn subset(&self, places: &[usize], t: f64) -> Vec<usize> {
        let beaten = |one: usize, other: usize| {
            let (one, other) = (&self.rows[one], &self.rows[other]);
            let count = one.values.len();
            one.sum - other.sum > t * (spread(one, other, count) * count as f64).sqrt()
        };
        places.iter().copied().filter(|one| !places.iter().any(|other| beaten(*one, *other))).collect()
    }

    /// The systems whose mean is not worse than another's by more than W_il(r) = max(0, delta/(2r) (h^2 S_il^2/delta^2
    /// - r)).
    fn survivors(&self, places: &[usize], reach: &[Vec<f64>], samples: usize) -> Vec<usize> {
        let r = samples as f64;
        let beaten = |one: usize, other: usize| {
            let width = (self.rule.delta / (2.0 * r) * (reach[one][other] - r)).max(0.0);
            self.rows[one].sum / r > self.rows[other].sum / r + width
        };
        places.iter().copied().filter(|one| !places.iter().any(|other| beaten(*one, *other))).collect()
    }

    fn by_mean(&self, places: &[usize]) -> Vec<usize> {
        let mut order = places.to_vec();
        order.sort_by(|a, b| self.rows[*a].sum.total_cmp(&self.rows[*b].sum));
        order.into_iter().map(|place| self.left[place]).collect()
    }
}

impl Row {
    fn add(&mut self, value: f64) {
        self.values.push(value);
        self.sum += value;
    }
}

/// S_il^2: variance of the differences of the first `count` samples.
fn spread(one: &Row, other: &Row, count: usize) -> f64 {
    let differences: Vec<f64> = one.values.iter().zip(&other.values).take(count).map(|(a, b)| a - b).collect();
    let mean = differences.iter().sum::<f64>() / count as f64;
    differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>() / (count as f64 - 1.0)
}

#[cfg(test)]
mod tests;
