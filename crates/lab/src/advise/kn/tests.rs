use statrs::distribution::{Binomial, DiscreteCDF};

use super::*;
use crate::advise::fake::Normals;

const ALPHA: f64 = 0.05;

/// The worst case of the theory: all others are exactly delta worse than the best.
fn slippage(seed: u64, systems: usize, deviation: f64, common: f64) -> (usize, usize) {
    let rule = Rule { systems, first: 10, alpha: ALPHA, delta: 1.0 };
    let mut sample = |system: usize, number: usize| -> Result<Option<f64>, ()> {
        let own = Normals::at(seed, system as u64 + 1, number as u64);
        let shared = Normals::at(seed, 0, number as u64);
        let mean = if system == 2 { 0.0 } else { 1.0 };
        Ok(Some(mean + deviation * (common.sqrt() * shared + (1.0 - common).sqrt() * own)))
    };
    let all: Vec<usize> = (0..systems).collect();
    let selection = rule.select(&all, &mut sample).unwrap();
    assert_eq!(selection.left.len(), 1);
    (selection.left[0], selection.samples)
}

/// P(correct) >= 1 - alpha in the slippage configuration: the number of wrong picks over the macro-replications must
/// not exceed what a probability of alpha would exceed once in a thousand times. Seeds 0 to 1999.
#[test]
fn the_best_is_picked_as_often_as_promised() {
    const TIMES: u64 = 2000;
    let bound = Binomial::new(ALPHA, TIMES).unwrap().inverse_cdf(0.999);
    for (systems, deviation, common) in [(3, 2.0, 0.0), (10, 2.0, 0.0), (10, 3.0, 0.8)] {
        let wrong = (0..TIMES).filter(|seed| slippage(*seed, systems, deviation, common).0 != 2).count() as u64;
        assert!(wrong <= bound, "{wrong} wrong picks of {systems} systems, more than {bound}");
        // The procedure must also err sometimes: one that never errs would take too many samples.
        assert!(wrong > 0, "{systems} systems: no wrong pick in {TIMES}");
    }
}

#[test]
fn common_random_numbers_save_samples() {
    let mean = |common: f64| (0..200).map(|seed| slippage(seed, 5, 3.0, common).1 as f64).sum::<f64>() / 200.0;
    let (apart, together) = (mean(0.0), mean(0.9));
    assert!(together < 0.5 * apart, "{together} against {apart}");
}

#[test]
fn the_constants_are_the_papers() {
    // eta and h^2 by hand: k = 10, n0 = 10, KN's half of alpha 0.05: (0.1/9)^(-2/9) = e^(0.22222 x 4.49981) = 2.71819.
    let rule = Rule { systems: 10, first: 10, alpha: 0.1, delta: 1.0 };
    // t of 9 degrees at 1 - 0.05/2/9 = 0.99722: between the tables' 3.250 (0.995) and 4.297 (0.999).
    let t = rule.subset_t(1, 10);
    assert!((3.5..3.7).contains(&t), "{t}");
    assert!((rule.h_squared() - 18.0 * 0.5 * (2.71819 - 1.0)).abs() < 1e-3, "{}", rule.h_squared());
}

/// The first stage drops a system that is far worse and has a hundred times the noise. KN alone would need thousands of
/// samples for it.
#[test]
fn what_is_far_behind_and_noisy_holds_nothing_up() {
    let rule = Rule { systems: 3, first: 20, alpha: ALPHA, delta: 1.0 };
    let mut sample = |system: usize, number: usize| -> Result<Option<f64>, ()> {
        let (mean, deviation) = [(0.0, 1.0), (2.0, 1.0), (500.0, 100.0)][system];
        Ok(Some(mean + deviation * Normals::at(4, system as u64, number as u64)))
    };
    let selection = rule.select(&[0, 1, 2], &mut sample).unwrap();
    assert_eq!(selection.left, [0]);
    assert!(selection.samples < 60, "{}", selection.samples);
}

#[test]
fn without_noise_the_first_stage_decides() {
    let rule = Rule { systems: 4, first: 5, alpha: 0.01, delta: 0.1 };
    let mut taken = 0;
    let mut sample = |system: usize, _: usize| -> Result<Option<f64>, ()> {
        taken += 1;
        Ok(Some([3.0, 1.0, 1.0, 2.0][system]))
    };
    let selection = rule.select(&[0, 1, 2, 3], &mut sample).unwrap();
    assert_eq!(selection, Selection { left: vec![1], samples: 5 });
    assert_eq!(taken, 20);
}

#[test]
fn a_budget_that_ends_leaves_those_in_contention() {
    let rule = Rule { systems: 3, first: 10, alpha: 0.05, delta: 0.01 };
    let mut sample = |system: usize, number: usize| -> Result<Option<f64>, ()> {
        let mean = [50.0, 0.001, 0.0][system];
        Ok((number < 15).then(|| mean + Normals::at(9, system as u64, number as u64)))
    };
    let mut selection = rule.select(&[0, 1, 2], &mut sample).unwrap();
    selection.left.sort_unstable();
    assert_eq!(selection, Selection { left: vec![1, 2], samples: 15 });
    let broken = rule.select(&[0], &mut |_, _| Err("no such system"));
    assert_eq!(broken, Err("no such system"));
}
