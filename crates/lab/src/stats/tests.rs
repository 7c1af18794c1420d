use super::*;
use proptest::prelude::*;

#[test]
fn student_quantiles_are_the_tables() {
    for (degrees, quantile) in [(1, 12.706), (4, 2.776), (9, 2.262), (30, 2.042)] {
        assert!((student(degrees) - quantile).abs() < 1e-3);
    }
}

#[test]
fn a_median_carries_the_confidence_its_order_statistics_have() {
    let five = median(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
    assert_eq!(five.value, 3.0);
    let interval = five.interval.unwrap();
    assert_eq!((interval.low, interval.high, interval.confidence), (1.0, 5.0, 0.9375));
    // With 9 values the second and the eighth cover the median at 96.09 %.
    let nine = median(&(1..=9).map(f64::from).collect::<Vec<_>>()).unwrap().interval.unwrap();
    assert_eq!((nine.low, nine.high), (2.0, 8.0));
    assert!((nine.confidence - 0.9609).abs() < 1e-4);
    assert_eq!(median(&[]), None);
}

#[test]
fn one_repeat_has_no_interval() {
    assert_eq!(mean(&[2.0]), Some(Figure::exact(2.0)));
    assert_eq!(mean(&[]), None);
    let figure = mean(&[1.0, 2.0, 3.0]).unwrap();
    assert!((figure.interval.unwrap().high - (2.0 + 4.3027 / 3f64.sqrt())).abs() < 1e-3);
}

#[test]
fn a_negative_coefficient_is_dropped_and_the_rest_refitted() {
    // y = 2 a - b exactly; without b the best non-negative fit is in a alone.
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

/// Of the median both give the same; of another quantile the interval covers it as often as it says.
#[test]
fn quantiles_of_values_are_covered() {
    let values: Vec<f64> = (0..19).map(|n| f64::from(n * 7 % 19)).collect();
    let [own, of_median] = [quantile_at(&values, 0.5), median(&values)].map(Option::unwrap);
    assert_eq!((own.value, own.interval.map(|i| i.low)), (of_median.value, of_median.interval.map(|i| i.low)));
    assert!((own.interval.unwrap().confidence - of_median.interval.unwrap().confidence).abs() < 1e-9);
    assert_eq!(quantile_at(&[3.0], 0.3), Some(Figure::exact(3.0)));
    assert_eq!(quantile_at(&[], 0.3), None);
    let mut chance = crate::chance::Chance::new(4);
    let stated = quantile_at(&[0.0; 40], 0.2).unwrap().interval.unwrap().confidence;
    let covered = (0..2000).filter(|_| {
        let values: Vec<f64> = (0..40).map(|_| chance.uniform()).collect();
        quantile_at(&values, 0.2).unwrap().covers(0.2)
    });
    let covered = covered.count() as f64 / 2000.0;
    // Four standard deviations of a share of 2000.
    assert!(stated >= CONFIDENCE && (covered - stated).abs() < 0.02, "{covered} of {stated}");
}
