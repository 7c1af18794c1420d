//! Least squares on a few columns, without negative coefficients and with less weight for outliers: [`robust`]. A
//! bootstrap repeats it hundreds of times, so it works on sums of products.
//! [`fit_non_negative_robust`](crate::fit_non_negative_robust) is the general version, by QR.

use crate::least_squares::{REWEIGHTED, huber_weights};

/// Largest number of columns.
pub const MOST: usize = 3;
/// A column is independent if at least this share of its squared length is orthogonal to the others. Counts and times
/// agree to a percent at best.
const DEPENDENT: f64 = 1e-5;

/// An observation: its regressors, the observed value, and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Regressors; 0 for columns that are not in use.
    pub x: [f64; MOST],
    /// Observed value.
    pub y: f64,
    /// Weight.
    pub weight: f64,
}

/// A fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FewFit {
    /// One coefficient for each column, at least 0.
    pub coefficients: [f64; MOST],
    /// Weighted sum of squared residuals.
    pub left: f64,
    /// Share of the weighted variance about the mean that the fit explains.
    pub r_squared: f64,
}

impl FewFit {
    fn residual(&self, row: &Row) -> f64 {
        row.y - row.x.iter().zip(&self.coefficients).map(|(x, c)| x * c).sum::<f64>()
    }
}

/// Fits the first `columns` columns without a negative coefficient. It tries every set of columns; of the fits with
/// only positive coefficients, it returns the fit with the smallest residuals. Columns outside its set have the
/// coefficient 0. `None` if there are fewer rows than columns, if the columns are dependent, or if no coefficient can
/// be positive.
pub fn non_negative(rows: &[Row], columns: usize) -> Option<FewFit> {
    if rows.len() < columns {
        return None;
    }
    let (mut gram, mut right) = ([[0.0; MOST]; MOST], [0.0; MOST]);
    for row in rows {
        for (a, products) in gram.iter_mut().enumerate().take(columns) {
            right[a] += row.weight * row.x[a] * row.y;
            products.iter_mut().zip(row.x).take(columns).for_each(|(sum, x)| *sum += row.weight * row.x[a] * x);
        }
    }
    // If all columns together are dependent, the fit of a subset has no meaning.
    solve(&gram, &right, &(0..columns).collect::<Vec<_>>())?;
    let sets = (1u32..1 << columns).map(|set| (0..columns).filter(|column| set >> column & 1 == 1).collect::<Vec<_>>());
    let fits = sets.filter_map(|set| {
        let solved = solve(&gram, &right, &set)?;
        if solved.iter().any(|value| *value <= 0.0) {
            return None;
        }
        let mut fit = FewFit { coefficients: [0.0; MOST], left: 0.0, r_squared: 0.0 };
        set.iter().zip(&solved).for_each(|(column, value)| fit.coefficients[*column] = *value);
        fit.left = rows.iter().map(|row| row.weight * fit.residual(row).powi(2)).sum();
        Some(fit)
    });
    let best = fits.min_by(|a, b| a.left.total_cmp(&b.left))?;
    let weights: f64 = rows.iter().map(|row| row.weight).sum();
    let mean = rows.iter().map(|row| row.weight * row.y).sum::<f64>() / weights;
    let total: f64 = rows.iter().map(|row| row.weight * (row.y - mean).powi(2)).sum();
    Some(FewFit { r_squared: if total > 0.0 { 1.0 - best.left / total } else { 1.0 }, ..best })
}

/// Like [`non_negative`], with less weight for rows with large residuals.
pub fn robust(rows: &[Row], columns: usize) -> Option<FewFit> {
    let mut fit = non_negative(rows, columns)?;
    let mut weighed = rows.to_vec();
    let weight: Vec<f64> = rows.iter().map(|row| row.weight).collect();
    for _ in 0..REWEIGHTED {
        let far: Vec<f64> = rows.iter().map(|row| row.weight.sqrt() * fit.residual(row).abs()).collect();
        let Some(weights) = huber_weights(&weight, &far, f64::MIN_POSITIVE) else { break };
        weighed.iter_mut().zip(weights).for_each(|(own, weight)| own.weight = weight);
        let Some(next) = non_negative(&weighed, columns) else { break };
        let moved = next.coefficients.iter().zip(&fit.coefficients).any(|(a, b)| (a - b).abs() > 1e-4 * b.abs());
        fit = next;
        if !moved {
            break;
        }
    }
    Some(fit)
}

/// Solves the normal equations of some columns by Cholesky's method, with columns scaled to unit length. `None` if they
/// are dependent.
fn solve(gram: &[[f64; MOST]; MOST], right: &[f64; MOST], set: &[usize]) -> Option<Vec<f64>> {
    let n = set.len();
    let scale: Vec<f64> = set.iter().map(|&column| gram[column][column].sqrt()).collect();
    if scale.iter().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
        return None;
    }
    let mut lower = [[0.0; MOST]; MOST];
    for i in 0..n {
        for j in 0..=i {
            let own = gram[set[i]][set[j]] / scale[i] / scale[j];
            let rest = own - (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
            if i == j {
                if rest < DEPENDENT {
                    return None;
                }
                lower[i][i] = rest.sqrt();
            } else {
                lower[i][j] = rest / lower[j][j];
            }
        }
    }
    let mut forward = [0.0; MOST];
    for i in 0..n {
        let before: f64 = (0..i).map(|k| lower[i][k] * forward[k]).sum();
        forward[i] = (right[set[i]] / scale[i] - before) / lower[i][i];
    }
    let mut solved = vec![0.0; n];
    for i in (0..n).rev() {
        let behind: f64 = (i + 1..n).map(|k| lower[k][i] * solved[k]).sum();
        solved[i] = (forward[i] - behind) / lower[i][i];
    }
    Some(solved.iter().zip(&scale).map(|(value, scale)| value / scale).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: impl Fn(f64) -> ([f64; MOST], f64)) -> Vec<Row> {
        (1..=20)
            .map(|n| {
                let (x, y) = of(f64::from(n));
                Row { x, y, weight: 1.0 }
            })
            .collect()
    }

    #[test]
    fn a_plane_is_found_and_an_outlier_hardly_moves_it() {
        let of = |n: f64| ([n, (5.0 * n).sin() + 2.0, 1.0], 3.0 * n + 0.5 * ((5.0 * n).sin() + 2.0) + 7.0);
        let found = non_negative(&rows(of), 3).unwrap();
        for (found, truth) in found.coefficients.iter().zip([3.0, 0.5, 7.0]) {
            assert!((found - truth).abs() < 1e-6, "{found} {truth}");
        }
        let mut spoilt = rows(|n| ([n, 1.0, 0.0], 3.0 * n + 7.0 + 0.01 * (9.0 * n).sin()));
        spoilt[9].y += 1000.0;
        let (plain, robust) = (non_negative(&spoilt, 2).unwrap(), robust(&spoilt, 2).unwrap());
        assert!((plain.coefficients[1] - 7.0).abs() > 10.0 && (robust.coefficients[1] - 7.0).abs() < 0.1, "{robust:?}");
        assert!((robust.coefficients[0] - 3.0).abs() < 0.01, "{robust:?}");
    }

    #[test]
    fn what_would_be_negative_is_zero_and_dependent_columns_are_refused() {
        let found = non_negative(&rows(|n| ([n, 1.0, 0.0], 3.0 * n - 2.0)), 2).unwrap();
        assert!(found.coefficients[1] == 0.0 && found.coefficients[0] > 2.5, "{found:?}");
        assert_eq!(non_negative(&rows(|n| ([n, 2.0 * n, 0.0], n)), 2), None);
        assert_eq!(non_negative(&rows(|n| ([n, 1.0, 0.0], -n)), 2), None);
        assert_eq!(non_negative(&rows(|n| ([n, 1.0, 0.0], n))[..1], 2), None);
    }
}
