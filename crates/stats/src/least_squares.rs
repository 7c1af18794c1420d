//! Least squares by QR, with and without the condition that no coefficient is negative.

use super::{CONFIDENCE, student};
use nalgebra::{DMatrix, DVector};
use netcliff_core::Figure;

/// Columns of unit length count as linearly dependent if one is at most this far from the space of the previous ones.
/// Measured times and counts agree to 1e-4 at best; the rounding errors of `f64` are 1e-16.
const DEPENDENT: f64 = 1e-6;

/// Largest number of columns for which the search may go through every set of columns.
const MOST_COLUMNS: usize = 10;
/// Residuals beyond this many standard deviations get less weight. If all are normal, the fit has 95 % of the
/// efficiency of least squares.
const HUBER: f64 = 1.345;
/// Number of iterations of the weights. After that, the coefficients of calibrations change by less than 0.1 %.
pub(crate) const REWEIGHTED: u32 = 10;

/// A fitted linear relation without intercept: y = sum of coefficient x column.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// One figure for each column, with its Student interval; exactly zero if only the condition prevents a negative
    /// value.
    pub coefficients: Vec<Figure>,
    /// Share of the weighted variance of y about its mean that the fit explains.
    pub r_squared: f64,
}

/// Least-squares coefficients without a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// One coefficient per column.
    pub coefficients: Vec<f64>,
    /// The diagonal of the inverse of X'X. Multiplied by the variance of an observation, it gives the variance of each
    /// coefficient.
    pub variances: Vec<f64>,
}

/// Weighted least squares with non-negative coefficients. `rows[i]` are the regressors of `y[i]`, and `weight[i]` its
/// weight. `None` if there are fewer rows than columns, if the columns are linearly dependent, or if no coefficient can
/// be positive.
///
/// Lawson and Hanson, "Solving Least Squares Problems" (1974), algorithm NNLS (23.10): columns enter one by one and
/// leave if their coefficient would be negative. A column that left enters again if that improves the fit. The result
/// is the best fit.
pub fn fit_non_negative(rows: &[Vec<f64>], y: &[f64], weight: &[f64]) -> Option<Fit> {
    let problem = Problem::new(rows, y, weight)?;
    let columns = problem.scale.len();
    problem.solve(&(0..columns).collect::<Vec<_>>())?;
    let mut active: Vec<usize> = Vec::new();
    let mut x = vec![0.0; columns];
    // Each iteration reduces the sum of squares with another set of columns, so no set occurs twice (page 162). With
    // nearly dependent columns, rounding can make a set occur twice, and then for ever. Otherwise there are at most as
    // many iterations as sets.
    for _ in 0..1u32 << columns.min(MOST_COLUMNS) {
        let Some(enters) = problem.steepest(&active, &x) else { break };
        active.push(enters);
        loop {
            let solved = problem.solve(&active)?.coefficients;
            let at = |place: usize| x[active[place]];
            // The largest step towards the new coefficients with which all stay above 0.
            let leaves = (0..active.len()).filter(|&k| solved[k] <= 0.0).map(|k| (k, at(k) / (at(k) - solved[k])));
            let Some((first, share)) = leaves.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                active.iter().zip(&solved).for_each(|(&column, value)| x[column] = *value);
                break;
            };
            active.iter().zip(&solved).for_each(|(&column, value)| x[column] += share * (value - x[column]));
            // The first coefficient that reaches 0 is set to exactly 0, whatever rounding would leave.
            x[active[first]] = 0.0;
            // A column that enters at 0 and would become negative does so by rounding. Without it, nothing changes.
            let stays = |column: &usize| x[*column] > 0.0;
            let (kept, left): (Vec<usize>, Vec<usize>) = active.iter().partition(|column| stays(column));
            left.iter().for_each(|&column| x[column] = 0.0);
            active = kept;
            if left.contains(&enters) && share == 0.0 {
                return problem.describe(&active, y, weight);
            }
        }
    }
    problem.describe(&active, y, weight)
}

/// Like [`fit_non_negative`], but outliers get less weight (Huber's weights, "Robust Statistics" (1981), section 7.8),
/// so that a few trials at another speed of the machine do not distort the fit. `None` in the same cases.
pub fn fit_non_negative_robust(rows: &[Vec<f64>], y: &[f64], weight: &[f64]) -> Option<Fit> {
    let mut weights = weight.to_vec();
    let mut fit = fit_non_negative(rows, y, &weights)?;
    for _ in 0..REWEIGHTED {
        let fitted = |row: &[f64]| -> f64 { row.iter().zip(&fit.coefficients).map(|(x, c)| x * c.value).sum() };
        let far: Vec<f64> =
            rows.iter().zip(y).zip(weight).map(|((row, y), w)| w.sqrt() * (y - fitted(row)).abs()).collect();
        let Some(next) = huber_weights(weight, &far, f64::EPSILON) else { break };
        weights = next;
        fit = fit_non_negative(rows, y, &weights)?;
    }
    Some(fit)
}

/// Reduces `weight` for residuals (of size `far`) beyond [`HUBER`] standard deviations. `None` if their spread is at
/// most `least`: the fit is exact.
pub(crate) fn huber_weights(weight: &[f64], far: &[f64], least: f64) -> Option<Vec<f64>> {
    // The standard deviation of normal residuals, from their median size.
    let spread = 1.4826 * super::median(far)?.value;
    let weigh = |(weight, far): (&f64, &f64)| weight * (HUBER * spread / far.max(f64::MIN_POSITIVE)).min(1.0);
    (spread > least).then(|| weight.iter().zip(far).map(weigh).collect())
}

/// Least squares of `y` on the columns of `rows`. `None` if there are fewer rows than columns, or if the columns are
/// linearly dependent.
pub fn least_squares(rows: &[Vec<f64>], y: &[f64]) -> Option<Line> {
    let problem = Problem::new(rows, y, &vec![1.0; rows.len()])?;
    let line = problem.solve(&(0..problem.scale.len()).collect::<Vec<_>>())?;
    let unscaled =
        |values: &[f64], power: i32| values.iter().zip(&problem.scale).map(|(v, s)| v / s.powi(power)).collect();
    Some(Line { coefficients: unscaled(&line.coefficients, 1), variances: unscaled(&line.variances, 2) })
}

/// Rows multiplied by the square root of their weight, with columns scaled to unit length, because costs and counts
/// have very different units.
struct Problem {
    matrix: DMatrix<f64>,
    right: DVector<f64>,
    scale: Vec<f64>,
}

impl Problem {
    fn new(rows: &[Vec<f64>], y: &[f64], weight: &[f64]) -> Option<Self> {
        let columns = rows.first()?.len();
        if rows.len() < columns {
            return None;
        }
        let mut matrix = DMatrix::from_fn(rows.len(), columns, |i, j| weight[i].sqrt() * rows[i][j]);
        let scale: Vec<f64> = matrix.column_iter().map(|column| column.norm()).collect();
        if scale.iter().any(|s| *s <= 0.0 || !s.is_finite()) {
            return None;
        }
        matrix.column_iter_mut().zip(&scale).for_each(|(mut column, s)| column /= *s);
        let right = DVector::from_fn(rows.len(), |i, _| weight[i].sqrt() * y[i]);
        right.iter().all(|value| value.is_finite()).then_some(Self { matrix, right, scale })
    }

    /// Least squares on the `active` columns, in scaled units. `None` if they are linearly dependent.
    fn solve(&self, active: &[usize]) -> Option<Line> {
        let (q, r) = self.matrix.select_columns(active).qr().unpack();
        if r.diagonal().iter().any(|length| length.abs() < DEPENDENT) {
            return None;
        }
        let coefficients = r.solve_upper_triangular(&q.tr_mul(&self.right))?;
        // (X'X)^-1 = R^-1 R^-T.
        let inverse = r.solve_upper_triangular(&DMatrix::identity(active.len(), active.len()))?;
        let variances = inverse.row_iter().map(|row| row.norm_squared()).collect();
        Some(Line { coefficients: coefficients.iter().copied().collect(), variances })
    }

    /// The column outside `active` along which the sum of squares falls fastest. `None` if it falls along no column.
    fn steepest(&self, active: &[usize], x: &[f64]) -> Option<usize> {
        let residual = &self.right - &self.matrix * DVector::from_column_slice(x);
        let slopes = self.matrix.tr_mul(&residual);
        // Columns have unit length, so a slope is a share of the residual's length. Below this share it is rounding.
        let least = 1e-12 * self.right.norm();
        let falls = (0..x.len()).filter(|column| !active.contains(column) && slopes[*column] > least);
        falls.max_by(|a, b| slopes[*a].total_cmp(&slopes[*b]))
    }

    /// The fit on these columns. `None` without columns.
    fn describe(&self, active: &[usize], y: &[f64], weight: &[f64]) -> Option<Fit> {
        if active.is_empty() {
            return None;
        }
        let line = self.solve(active)?;
        let fitted = self.matrix.select_columns(active) * DVector::from_column_slice(&line.coefficients);
        let residual = (&self.right - fitted).norm_squared();
        let mean = y.iter().zip(weight).map(|(y, w)| y * w).sum::<f64>() / weight.iter().sum::<f64>();
        let total: f64 = y.iter().zip(weight).map(|(y, w)| w * (y - mean).powi(2)).sum();
        let degrees = y.len() - active.len();
        let variance = if degrees > 0 { residual / degrees as f64 } else { 0.0 };
        let mut coefficients = vec![Figure::exact(0.0); self.scale.len()];
        for (place, &column) in active.iter().enumerate() {
            let value = line.coefficients[place] / self.scale[column];
            let half = student(degrees) * (variance * line.variances[place]).sqrt() / self.scale[column];
            coefficients[column] =
                if degrees > 0 { Figure::sampled(value, half, CONFIDENCE) } else { Figure::exact(value) };
        }
        Some(Fit { coefficients, r_squared: if total > 0.0 { 1.0 - residual / total } else { 1.0 } })
    }
}

#[cfg(test)]
mod tests;
