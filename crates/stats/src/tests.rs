use super::*;

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

/// For the median, both functions agree. For another quantile, the interval has its stated coverage.
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
    // 0.02 is four standard deviations of a share over 2000 repetitions.
    assert!(stated >= CONFIDENCE && (covered - stated).abs() < 0.02, "{covered} of {stated}");
}

/// The jackknife's interval of a ratio has its stated coverage, also if divisors differ between slices.
#[test]
fn ratios_of_sums_are_covered() {
    let mut chance = crate::chance::Chance::new(5);
    let covered = (0..2000).filter(|_| {
        let under: Vec<f64> = (0..20).map(|_| 50.0 + 100.0 * chance.uniform()).collect();
        let over: Vec<f64> = under.iter().map(|n| 3.0 * n + 5.0 * chance.normal()).collect();
        ratio(&over, &under).unwrap().covers(3.0)
    });
    let covered = covered.count() as f64 / 2000.0;
    // 0.02 is four standard deviations of a share over 2000 repetitions.
    assert!((covered - CONFIDENCE).abs() < 0.02, "{covered}");
    assert_eq!(ratio(&[1.0, 2.0], &[2.0, 4.0]), Some(Figure::exact(0.5)));
    assert_eq!(ratio(&[1.0, 2.0], &[0.0, 0.0]), None);
    assert_eq!(ratio(&[], &[]), None);
}

/// Garwood's table at 95 %.
#[test]
fn counts_have_the_interval_of_their_mean() {
    for (count, low, high) in [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390), (100, 81.36, 121.63)] {
        let interval = poisson(count);
        assert!((interval.low - low).abs() < 0.01 && (interval.high - high).abs() < 0.01, "{count} {interval:?}");
    }
}
