use proptest::prelude::*;

use super::*;
use crate::chance::Chance;

/// Student (1908): additional hours of sleep under two drugs.
const SLEEP: [[f64; 10]; 2] =
    [[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]];

fn of(values: &[f64]) -> Estimate {
    Estimate::of(values).expect("at least two numbers")
}

#[test]
fn welch_gives_the_published_values() {
    // R: t.test(extra ~ group, data = sleep): t = -1.8608, df = 17.776, p-value = 0.07939.
    let [a, b] = SLEEP.map(|values| of(&values));
    let found = contrast(&a, &b, 1.0);
    assert!((found.difference / found.error - 1.8608).abs() < 5e-5);
    assert!((found.degrees - 17.776).abs() < 5e-4);
    assert!((p_same(&a, &b) - 0.07939).abs() < 5e-6);
    assert!((p_at_most(&a, &b, 1.0) - 0.07939 / 2.0).abs() < 5e-6);
    assert!((p_at_least(&a, &b, 1.0) - (1.0 - 0.07939 / 2.0)).abs() < 5e-6);
}

/// Student's density, integrated by Simpson's rule over x = tan(u).
fn naive_two_sided(t: f64, degrees: f64) -> f64 {
    let density = |u: f64| {
        let x = u.tan();
        (1.0 + x * x / degrees).powf(-(degrees + 1.0) / 2.0) * (1.0 + x * x)
    };
    let simpson = |from: f64, to: f64| {
        let n = 20_000;
        let step = (to - from) / f64::from(n);
        let inner: f64 = (1..n).map(|k| density(from + f64::from(k) * step) * if k % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (density(from) + inner + density(to)) * step / 3.0
    };
    let end = std::f64::consts::FRAC_PI_2 - 1e-9;
    simpson(t.abs().atan(), end) / simpson(0.0, end)
}

fn repeats() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(90.0..110.0f64, 2..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn p_is_the_integral_of_the_density(a in repeats(), b in repeats()) {
        let (a, b) = (of(&a), of(&b));
        prop_assume!(a.error > 1e-3 && b.error > 1e-3);
        let found = contrast(&a, &b, 1.0);
        prop_assert!((p_same(&a, &b) - naive_two_sided(found.difference / found.error, found.degrees)).abs() < 1e-6);
        prop_assert!((p_same(&a, &b) - p_same(&b, &a)).abs() < 1e-12);
        prop_assert!((p_at_least(&a, &b, 0.9) + p_at_most(&a, &b, 0.9) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_ratios_of_the_interval_are_those_the_test_keeps(a in repeats(), b in repeats()) {
        let (a, b) = (of(&a), of(&b));
        prop_assume!(a.error > 1e-3 && a.error < 5.0 && b.error < 5.0);
        if let Some(change) = relative_change(&a, &b, 0.95) {
            let ends = change.interval.expect("sampled");
            for end in [ends.low, ends.high] {
                let at = contrast(&a, &b, 1.0 + end);
                let t = quantile(at.degrees, 0.95).expect("a quantile");
                prop_assert!((at.difference.abs() / at.error - t).abs() < 1e-6 * t);
            }
            prop_assert!(ends.low <= change.value && change.value <= ends.high);
            let p = p_same(&a, &b);
            prop_assume!((p - 0.05).abs() > 1e-6);
            prop_assert_eq!(ends.low < 0.0 && 0.0 < ends.high, p > 0.05, "the verdict is the interval's");
        }
    }

    #[test]
    fn holm_is_what_its_definition_says(p in proptest::collection::vec(0.0..1.0f64, 1..12), level in 0.001..0.5f64) {
        // Step down: reject the smallest p as long as it is at most level/(number left).
        let mut left: Vec<usize> = (0..p.len()).collect();
        let mut rejected = vec![false; p.len()];
        while let Some(&least) = left.iter().min_by(|&&x, &&y| p[x].total_cmp(&p[y])) {
            if p[least] * left.len() as f64 > level {
                break;
            }
            rejected[least] = true;
            left.retain(|index| *index != least);
        }
        let adjusted = holm(&p);
        for (index, value) in adjusted.iter().enumerate() {
            prop_assert_eq!(*value <= level, rejected[index]);
            prop_assert!(*value >= p[index]);
        }
    }
}

#[test]
fn computed_values_differ_or_they_do_not() {
    let (one, two) = (Estimate::exact(1.0), Estimate::exact(2.0));
    assert_eq!((p_same(&one, &one), p_same(&one, &two)), (1.0, 0.0));
    assert_eq!(relative_change(&one, &two, 0.95), Some(Figure::exact(1.0)));
    assert_eq!(relative_change(&Estimate::exact(0.0), &two, 0.95), None);
    assert_eq!(Estimate::of(&[1.0]), None);
    assert_eq!(one.figure(0.95), Figure::exact(1.0));
    assert!((quantile(f64::INFINITY, 0.95).expect("a quantile") - 1.959_964).abs() < 1e-6);
    assert!((quantile(4.0, 0.95).expect("a quantile") - 2.776_445).abs() < 1e-5);
}

#[test]
fn an_interval_gives_its_standard_error_back() {
    let values = SLEEP[0];
    let whole = of(&values);
    let again = Estimate::of_figure(&super::super::mean(&values).expect("values"), Some(10)).expect("an interval");
    assert!((again.error - whole.error).abs() < 1e-9 && again.degrees == whole.degrees);
    // If an interval was cut off at 0, its upper half gives the error.
    let values = [30e-6, 300e-6];
    let mean = super::super::mean(&values).expect("values");
    let ends = mean.interval.expect("of two");
    let cut = Figure::between(mean.value, 0.0, ends.high, ends.confidence);
    assert!(ends.low < 0.0);
    let again = Estimate::of_figure(&cut, Some(2)).expect("an interval");
    assert!((again.error - of(&values).error).abs() < 1e-12, "{again:?}");
}

/// Share of runs of 10 points with 5 repeats per side in which at least one point is reported as different, or as
/// slower, although both sides have the same distribution.
fn false_alarms(seed: u64, draw: fn(&mut Chance) -> f64) -> (f64, f64) {
    const RUNS: u32 = 4000;
    let mut random = Chance::new(seed);
    let (mut different, mut slower) = (0, 0);
    for _ in 0..RUNS {
        let mut side = || -> Vec<Estimate> {
            (0..10).map(|_| of(&[0; 5].map(|_| 100.0 * (1.0 + 0.03 * draw(&mut random))))).collect()
        };
        let (a, b) = (side(), side());
        let p: Vec<f64> = a.iter().zip(&b).map(|(a, b)| p_same(a, b)).collect();
        let bar: Vec<f64> = a.iter().zip(&b).map(|(a, b)| p_at_least(a, b, 0.999)).collect();
        different += u32::from(holm(&p).iter().any(|p| *p < 0.05));
        slower += u32::from(holm(&bar).iter().any(|p| *p < 0.05));
    }
    (f64::from(different) / f64::from(RUNS), f64::from(slower) / f64::from(RUNS))
}

#[test]
fn a_run_against_its_like_raises_an_alarm_in_at_most_one_of_twenty() {
    // 4000 runs: the observed share of a test at exactly 5 % is below 5 % + 3.1 standard errors = 6.07 %, except once
    // in a thousand times.
    let most = 0.05 + 3.1 * (0.05 * 0.95 / 4000f64).sqrt();
    let normal = |random: &mut Chance| random.normal();
    let skewed = |random: &mut Chance| -random.uniform().ln() - 1.0;
    // One repeat in twenty is disturbed and loses a quarter.
    let disturbed = |random: &mut Chance| random.normal() - if random.uniform() < 0.05 { 8.0 } else { 0.0 };
    for (name, seed, draw) in
        [("normal", 1, normal as fn(&mut Chance) -> f64), ("skewed", 2, skewed), ("disturbed", 3, disturbed)]
    {
        let (different, slower) = false_alarms(seed, draw);
        assert!(different < most, "{name}: {different}");
        assert!(slower < most, "{name}, slower by 0.1 %: {slower}");
    }
}

#[test]
fn a_real_loss_is_found() {
    // A decrease of 12 % with a spread of 2 %, 5 repeats, among 10 points: more than 70 % of the runs detect that it
    // exceeds 5 %.
    let mut random = Chance::new(4);
    let mut found = 0;
    for _ in 0..500 {
        let mut side = |mean: f64| of(&[0; 5].map(|_| mean * (1.0 + 0.02 * random.normal())));
        let mut p: Vec<f64> = (0..9).map(|_| p_at_least(&side(100.0), &side(100.0), 0.95)).collect();
        p.push(p_at_least(&side(100.0), &side(88.0), 0.95));
        found += u32::from(holm(&p)[9] < 0.05);
    }
    assert!(found > 350, "{found} of 500");
}

#[test]
fn bounds_that_are_apart_are_an_error_that_repeats_do_not_average_out() {
    let lowers = [100.0, 104.0, 96.0];
    let exact: Vec<(f64, Option<f64>)> = lowers.iter().map(|lower| (*lower, None)).collect();
    assert_eq!(Estimate::of_bounds(&exact), Estimate::of(&lowers));
    assert_eq!(Estimate::of_bounds(&exact[..1]), None);
    // Any number of searches with bounds 6 apart has the error of these bounds: sqrt(36 / 12).
    for searches in [2, 50] {
        let found = Estimate::of_bounds(&vec![(90.0, Some(96.0)); searches]).expect("two or more");
        assert!((found.error - 3f64.sqrt()).abs() < 1e-12 && found.mean == 90.0, "{found:?}");
    }
    let both: Vec<(f64, Option<f64>)> = lowers.iter().map(|lower| (*lower, Some(lower + 6.0))).collect();
    let (found, of) = (Estimate::of_bounds(&both).expect("three"), Estimate::of(&lowers).expect("three"));
    assert!((found.error.powi(2) - of.error.powi(2) - 3.0).abs() < 1e-9, "{found:?}");
}

/// Devices that differ by less than a search resolves are not reported as different more often than the level allows.
/// Each has a fixed throughput anywhere between the bounds of its searches, which are all equal.
#[test]
fn searches_on_one_lattice_seldom_raise_a_false_alarm() {
    let width = 10.0;
    let (mut alarms, mut cases) = (0, 0);
    for a in 0..100 {
        for shift in 0..100 {
            // b is 0.1 % faster than a. Both lie anywhere within 20 steps of the grid of loads.
            let a_pps = 1000.0 + f64::from(a) * 2.0 + f64::from(shift) * 0.02;
            let of = |pps: f64| {
                let lower = (pps / width).floor() * width;
                Estimate::of_bounds(&[(lower, Some(lower + width)); 5]).expect("five searches")
            };
            let (a, b) = (of(a_pps), of(1.001 * a_pps));
            // "b is slower or faster by more than half a width" is false in every case.
            alarms += u32::from(p_at_least(&b, &a, 1.0 - 0.5 * width / b.mean) < 0.05);
            cases += 1;
        }
    }
    assert!(f64::from(alarms) <= 0.05 * f64::from(cases), "{alarms} of {cases}");
}
