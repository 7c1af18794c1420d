use netcliff_core::{Host, Traffic};

use super::*;
use crate::batch::Batch;
use crate::clock::Clock;
use crate::engine::{Effort, SimEngine};
use crate::executor::LocalExecutor;
use crate::summary;

fn point(scheme: &str, kpps: f64) -> Point {
    Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), kpps * 1e3)
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (square / (count - 1.0) / count).sqrt())
}

/// Runs a batch of ten replications, like the start of a sequential run.
fn batch(point: &Point, seed: u64, packets_each: u64) -> (Batch, Clock) {
    let engine = SimEngine { seed, effort: Effort::Exactly(10 * packets_each), ..SimEngine::default() };
    engine.sample(point, &LocalExecutor).unwrap()
}

/// Computes how much longer than expected the batch's packets wait in this queue.
fn compare_with(batch: &mut Batch, simpler: &Simpler, clock: Clock, seed: u64) {
    let packets = batch.packets_each;
    for (number, one) in (0..).zip(&mut batch.replications) {
        one.excess = Some(simpler.excess(clock, seed, number, packets, packets * one.warm_up.tenths as u64 / 10));
    }
}

fn latency(point: &Point, batch: &Batch, clock: Clock) -> netcliff_core::Figure {
    summary::outcome(point, batch, clock, 0.95).latency_s.unwrap().mean.unwrap()
}

/// The mean of the queue equals the mean from sums over the states.
#[test]
fn its_mean_is_that_of_m_m_1_b() {
    for ring in [1_u64, 2, 5, 50] {
        for utilisation in [0.1, 0.7, 1.0, 1.3, 4.0] {
            let weight = |n: u64| f64::powi(utilisation, n as i32);
            let sum: f64 = (0..=ring).map(weight).sum();
            let inside = (0..=ring).map(|n| n as f64 * weight(n)).sum::<f64>() / sum;
            let exact = inside / (1.0 - weight(ring) / sum);
            let queue = Queue { utilisation, ring };
            assert!((queue.mean_latency() / exact - 1.0).abs() < 1e-12, "{queue:?}");
            // The quantiles have the probabilities of the states.
            let states: Vec<u64> = (0..10_000).map(|at| queue.inside((f64::from(at) + 0.5) / 1e4)).collect();
            for n in 0..=ring {
                let share = states.iter().filter(|state| **state == n).count() as f64 / 1e4;
                assert!((share - weight(n) / sum).abs() < 1.5e-4, "{n} of {queue:?}: {share}");
            }
        }
    }
    assert_eq!(Queue { utilisation: 0.25, ring: 1 }.mean_latency(), 0.25);
    let (light, full) = (Queue { utilisation: 0.5, ring: 60_000 }, Queue { utilisation: 2.0, ring: 60_000 });
    assert!((light.mean_latency() - 1.0).abs() < 1e-12);
    assert!((full.mean_latency() / (2.0 * 59_999.0) - 1.0).abs() < 1e-9, "{}", full.mean_latency());
}

/// The queue starts in its steady state, so that its packets wait as long as expected in a run of any length.
#[test]
fn its_packets_wait_as_long_as_expected() {
    let point = point("interrupt", 100.0);
    for (gaps, packets, skipped) in [(1.0, 500, 0), (9.0, 2000, 1000), (300.0, 500, 0), (1060.0, 3000, 300)] {
        let clock = Clock::of(&point, packets);
        let simpler = Simpler::of(&point, clock, gaps * clock.ticks(1e-5)).unwrap();
        let each: Vec<f64> = (0..600).map(|n| simpler.excess(clock, 5, n, packets, skipped)).collect();
        let (mean, error) = mean_and_error(&each);
        assert!(mean.abs() < 4.0 * error, "{gaps} gaps: {mean} +- {error}");
    }
}

/// Tests M/M/1/B itself as the scheme, corrected by a faster simpler queue, and by the one that the rule selects. The
/// means of so few packets are too low by 0.4 % with and without a correction, because a host starts empty.
#[test]
fn intervals_hold_the_exact_value() {
    let point = point("ideal", 170.0);
    let exact = Queue { utilisation: 170e3 * point.host.service_s(64.0), ring: point.host.ring }.mean_latency() / 170e3;
    for factor in [0.8, 1.0] {
        let mut found = Vec::new();
        let mut missed = 0;
        for seed in 0..150 {
            let (mut batch, clock) = batch(&point, seed, 60_000);
            let simpler = Simpler::at(&point, clock, factor * batch.mean_latency().unwrap()).unwrap();
            compare_with(&mut batch, &simpler, clock, seed);
            let latency = latency(&point, &batch, clock);
            missed += u32::from(!latency.covers(exact));
            found.push(latency.value / exact - 1.0);
        }
        let (mean, error) = mean_and_error(&found);
        assert!(mean.abs() < 4.0 * error + 0.004, "{factor}: {mean} +- {error}");
        // 5 % of 150 are 7.5, with a standard deviation of 2.7.
        assert!(missed <= 18, "{factor}: {missed} of 150 intervals miss");
    }
}

/// The correction has mean 0 under each scheme, and explains most of the variance of the mean latency.
#[test]
fn it_moves_no_mean_and_narrows_it() {
    for (scheme, kpps, left) in [
        ("interrupt", 120.0, 0.75),
        ("disable-enable:merged=true", 175.0, 0.4),
        ("coalesce:frames=8,drops_interrupt=true", 165.0, 0.65),
        ("coalesce:usecs=50us,drops_interrupt=true", 165.0, 0.8),
        ("polling:period=20us,quota=3", 130.0, 0.9),
        ("napi-2007:period=20us,quota=3", 100.0, 0.85),
        ("napi", 160.0, 0.35),
    ] {
        let point = point(scheme, kpps);
        let (mut plain, mut surplus, mut excess) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..60 {
            let (mut batch, clock) = batch(&point, seed, 40_000);
            let mean = batch.mean_latency().unwrap();
            plain.push(mean * clock.seconds(1.0));
            surplus.push(latency(&point, &batch, clock).value);
            compare_with(&mut batch, &Simpler::of(&point, clock, mean).unwrap(), clock, seed);
            assert!(batch.controls().is_some());
            excess.push(latency(&point, &batch, clock).value);
        }
        let taken: Vec<f64> = plain.iter().zip(&excess).map(|(plain, excess)| plain - excess).collect();
        let (mean, error) = mean_and_error(&taken);
        assert!(mean.abs() < 4.0 * error, "{scheme}: {mean} +- {error}");
        let [before, after] = [&surplus, &excess].map(|found| mean_and_error(found).1);
        println!("{scheme}: {mean:.3e} +- {error:.3e} s taken off; spread {:.3} of that by surplus", after / before);
        assert!(after < left * before, "{scheme}: {after} of {before}");
    }
}

/// Compares whole sequential runs with a run of a tenth of their interval: at least as many of their 95 % intervals
/// contain the exact value, and as many estimates are within 3 %, as with the surplus of work as control
/// (docs/theory/statistics.md).
#[test]
#[ignore = "half a minute"]
fn sequential_runs_reach_what_they_claim() {
    let (mut missed, mut beyond) = (0, 0);
    for (scheme, kpps) in [
        ("interrupt", 115.0),
        ("disable-enable:merged=true", 170.0),
        ("coalesce:frames=8,drops_interrupt=true", 160.0),
        ("coalesce:usecs=50us,drops_interrupt=true", 160.0),
        ("polling:period=20us,quota=3", 125.0),
        ("napi-2007:period=20us,quota=3", 90.0),
        ("napi", 150.0),
    ] {
        let point = point(scheme, kpps);
        let precise = |seed, relative| {
            let figures = "latency".parse().unwrap();
            let effort = Effort::Precision { relative, packets_at_most: 4_000_000_000, figures };
            let simulation = SimEngine { seed, effort, ..SimEngine::default() }.simulate(&point).unwrap();
            assert!(simulation.precise, "{scheme}: {:?}", simulation.outcome.notes);
            (simulation.outcome.latency_s.unwrap().mean.unwrap(), simulation.packets)
        };
        let truth = precise(1000, 0.003).0.value;
        let found: Vec<_> = (0..100).map(|seed| precise(seed, 0.03)).collect();
        let of = |failed: &dyn Fn(&netcliff_core::Figure) -> bool| found.iter().filter(|one| failed(&one.0)).count();
        let (misses, far) = (of(&|one| !one.covers(truth)), of(&|one| (one.value / truth - 1.0).abs() > 0.03));
        let packets = found.iter().map(|one| one.1).sum::<u64>() as f64 / 1e8;
        println!("{scheme} at {kpps} kpps: {misses} of 100 miss, {far} beyond 3 %, {packets:.2} M packets each");
        missed += misses;
        beyond += far;
    }
    assert!(missed <= 84 && beyond <= 35, "{missed} of 700 intervals miss, {beyond} estimates lie beyond 3 %");
}

#[test]
fn what_has_no_exact_mean_has_none() {
    let clock = Clock::new(1e5, 1000);
    let with = |scheme: &str, setting: &str, traffic: Traffic| {
        let mut host = Host::pentium4_2530mhz();
        host.set(setting).unwrap();
        let point = Point { traffic, ..Point::poisson(host, scheme.parse().unwrap(), 1e5) };
        Simpler::of(&point, clock, 1000.0).is_some()
    };
    assert!(with("napi", "ring=64", Traffic::default()));
    assert!(!with("ideal", "ring=64", Traffic::default()), "the scheme itself");
    for setting in ["service=deterministic", "application=2us"] {
        assert!(!with("napi", setting, Traffic::default()), "{setting}");
    }
    let mixed = Traffic { size: "imix".parse().unwrap(), ..Traffic::default() };
    assert!(with("napi", "per_byte=0s", mixed.clone()) && !with("napi", "per_byte=1ns", mixed));
}
