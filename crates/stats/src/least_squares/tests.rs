use super::*;
use proptest::prelude::*;

#[test]
fn a_negative_coefficient_is_dropped_and_the_rest_refitted() {
    // y = 2 a - b exactly. Without b, the best non-negative fit uses only a.
    let rows = vec![vec![1.0, 0.5], vec![2.0, 0.1], vec![3.0, 0.9], vec![4.0, 0.2]];
    let y: Vec<f64> = rows.iter().map(|r| 2.0 * r[0] - r[1]).collect();
    let fit = fit_non_negative(&rows, &y, &[1.0; 4]).unwrap();
    assert_eq!(fit.coefficients[1], Figure::exact(0.0));
    assert!(fit.coefficients[0].value > 1.5 && fit.coefficients[0].value < 2.0);
}

#[test]
fn columns_that_cannot_be_told_apart_are_refused() {
    let rows = vec![vec![1.0, 2.0], vec![2.0, 4.0], vec![3.0, 6.0]];
    assert_eq!(fit_non_negative(&rows, &[1.0, 2.0, 3.0], &[1.0; 3]), None);
    assert_eq!(fit_non_negative(&rows[..1], &[1.0], &[1.0]), None);
    assert_eq!(fit_non_negative(&[], &[], &[]), None);
}

proptest! {
    #[test]
    fn exact_data_give_their_coefficients_back(
        truth in prop::collection::vec(0.1..10.0f64, 3),
        cells in prop::collection::vec(0.1..100.0f64, 36),
    ) {
        let rows: Vec<Vec<f64>> = cells.chunks(3).map(<[f64]>::to_vec).collect();
        let y: Vec<f64> = rows.iter().map(|row| row.iter().zip(&truth).map(|(a, b)| a * b).sum()).collect();
        let fit = fit_non_negative(&rows, &y, &vec![1.0; rows.len()]).unwrap();
        for (figure, truth) in fit.coefficients.iter().zip(&truth) {
            prop_assert!((figure.value - truth).abs() < 1e-6 * truth, "{} {}", figure.value, truth);
        }
        prop_assert!(fit.r_squared > 1.0 - 1e-9);
    }
}

/// Weighted sum of squared residuals of the coefficients.
fn squares(rows: &[Vec<f64>], y: &[f64], weight: &[f64], x: &[f64]) -> f64 {
    let predicted = |row: &Vec<f64>| row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
    rows.iter().zip(y).zip(weight).map(|((row, y), w)| w * (y - predicted(row)).powi(2)).sum()
}

/// The best fit, by trying every set of columns.
fn best(rows: &[Vec<f64>], y: &[f64], weight: &[f64]) -> f64 {
    let columns = rows[0].len();
    let problem = Problem::new(rows, y, weight).unwrap();
    let sets = (1..1usize << columns).map(|set| (0..columns).filter(|k| set & 1 << k != 0).collect::<Vec<_>>());
    let of = |set: Vec<usize>| {
        let line = problem.solve(&set)?;
        let mut x = vec![0.0; columns];
        set.iter().zip(&line.coefficients).for_each(|(&k, value)| x[k] = value / problem.scale[k]);
        x.iter().all(|value| *value >= 0.0).then(|| squares(rows, y, weight, &x))
    };
    sets.filter_map(of).fold(squares(rows, y, weight, &vec![0.0; columns]), f64::min)
}

/// Dropping the most negative coefficient for good gives a worse fit here: column 0 is dropped because of column 1,
/// which is dropped next.
#[test]
fn a_column_that_was_dropped_enters_again() {
    let rows = [[-1.0, -0.5, 0.5], [0.0, -1.0, -0.5], [1.0, 0.5, -1.0], [0.5, 1.0, 0.5]].map(Vec::from);
    let weight = [1.0; 4];
    for step in 0..400 {
        let angle = f64::from(step) * 0.37;
        let y = [angle.sin(), (1.7 * angle).cos(), (0.3 * angle).sin(), (2.3 * angle).cos()];
        let expected = best(&rows, &y, &weight);
        let x = fit_non_negative(&rows, &y, &weight)
            .map_or(vec![0.0; 3], |fit| fit.coefficients.iter().map(|figure| figure.value).collect());
        let found = squares(&rows, &y, &weight, &x);
        assert!(found <= expected + 1e-9, "step {step}: {found} instead of {expected}");
    }
}

/// y = 1 + 2 t: the variances of the coefficients, as multiples of the variance of an observation, equal the textbook
/// formulas.
#[test]
fn a_line_has_the_textbook_variances() {
    let times: Vec<f64> = (0..10).map(f64::from).collect();
    let rows: Vec<Vec<f64>> = times.iter().map(|t| vec![1.0, *t]).collect();
    let y: Vec<f64> = times.iter().map(|t| 1.0 + 2.0 * t).collect();
    let line = least_squares(&rows, &y).unwrap();
    assert!((line.coefficients[0] - 1.0).abs() < 1e-12 && (line.coefficients[1] - 2.0).abs() < 1e-12);
    // 1/n + mean^2/Sxx and 1/Sxx, Sxx = 82.5.
    assert!((line.variances[0] - (0.1 + 4.5f64.powi(2) / 82.5)).abs() < 1e-12);
    assert!((line.variances[1] - 1.0 / 82.5).abs() < 1e-12);
}

/// Times of twenty trials with two costs and noise of 1 %. Three of the trials ran at half the speed.
#[test]
fn a_few_slow_trials_do_not_bend_the_robust_fit() {
    let rows: Vec<Vec<f64>> = (0..20).map(|i| vec![1e3 * f64::from(i + 1), 2e4 / f64::from(i + 1)]).collect();
    let noise = |i: usize| 1.0 + 0.01 * (1.3 * i as f64).sin();
    let slow = |i: usize| if [3, 11, 17].contains(&i) { 2.0 } else { 1.0 };
    let y: Vec<f64> =
        rows.iter().enumerate().map(|(i, row)| noise(i) * slow(i) * (8.0 * row[0] + 50.0 * row[1])).collect();
    let weight: Vec<f64> = y.iter().map(|y| y.powi(-2)).collect();
    let off = |fit: Fit| {
        let [a, b] = [fit.coefficients[0].value / 8.0, fit.coefficients[1].value / 50.0];
        (a - 1.0).abs().max((b - 1.0).abs())
    };
    let robust = off(fit_non_negative_robust(&rows, &y, &weight).unwrap());
    let plain = off(fit_non_negative(&rows, &y, &weight).unwrap());
    assert!(robust < 0.01 && plain > 0.05, "{robust} and {plain}");
    // Without noise, all weights are equal.
    let exact: Vec<f64> = rows.iter().map(|row| 8.0 * row[0] + 50.0 * row[1]).collect();
    assert!(off(fit_non_negative_robust(&rows, &exact, &weight).unwrap()) < 1e-9);
}

/// Columns that differ by a thousandth to a millionth, like the numbers of packets and of polls if nearly every poll
/// has one packet. Some are fitted, some are refused as dependent. The number of iterations is limited; without the
/// limit, rare inputs would never end.
#[test]
fn nearly_dependent_columns_come_to_an_end() {
    let mut chance = crate::chance::Chance::new(5);
    let mut fitted = 0;
    for apart in [1e-3, 1e-4, 1e-5, 3e-6, 1e-6] {
        for _ in 0..2000 {
            let mut near = |value: f64| value * (1.0 + apart * (chance.uniform() - 0.5));
            let rows: Vec<Vec<f64>> =
                (1..24).map(|i| [near(f64::from(i)), near(f64::from(i)), near(f64::from(i))].to_vec()).collect();
            let y: Vec<f64> = rows.iter().map(|row| near(row[0])).collect();
            let weight: Vec<f64> = y.iter().map(|y| y.powi(-2)).collect();
            let Some(fit) = fit_non_negative(&rows, &y, &weight) else { continue };
            fitted += 1;
            assert!(fit.coefficients.iter().all(|figure| figure.value >= 0.0), "{fit:?}");
        }
    }
    assert!(fitted > 5000, "{fitted}");
}

proptest! {
    #[test]
    fn no_set_of_columns_fits_better(
        cells in prop::collection::vec(-1.0..1.0f64, 24),
        y in prop::collection::vec(-1.0..1.0f64, 8),
        weight in prop::collection::vec(0.1..10.0f64, 8),
    ) {
        let rows: Vec<Vec<f64>> = cells.chunks(3).map(<[f64]>::to_vec).collect();
        let x = fit_non_negative(&rows, &y, &weight)
            .map_or(vec![0.0; 3], |fit| fit.coefficients.iter().map(|figure| figure.value).collect());
        prop_assert!(x.iter().all(|value| *value >= 0.0));
        let (found, expected) = (squares(&rows, &y, &weight, &x), best(&rows, &y, &weight));
        prop_assert!(found <= expected + 1e-9, "{found} instead of {expected}");
    }
}
