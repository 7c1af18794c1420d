use netcliff_core::Traffic;

use super::*;
use crate::bench::Observation;
use crate::chance::Chance;
use crate::find::fake::{Fake, Random};
use crate::find::tests::{measured as searched, quick, spec};
use crate::trial::TrialSpec;

const CAPACITY_PPS: f64 = 400e3;

/// A host that serves [`CAPACITY_PPS`] on average, with a ring of 1000 packets and no application.
fn computed() -> Computed {
    let host = Host {
        protocol_s: 1.0 / CAPACITY_PPS,
        per_byte_s: 0.0,
        interrupt_s: 0.0,
        ring: 1000,
        application_s: None,
        ..Host::preset("pentium4-2530mhz").expect("a preset")
    };
    let scheme = "ideal".parse().expect("a scheme");
    Computed { host, scheme, traffic: Traffic::poisson(1.0), loss: 1e-4, seed: 3, packets: 100_000 }
}

fn pause(from_s: f64, length_s: f64) -> Span {
    Span { from_s, length_s }
}

fn own(pps: f64) -> Figure {
    Figure::between(pps, 0.99 * pps, 1.01 * pps, 0.95)
}

#[test]
fn the_fluid_is_counted_by_hand() {
    let fluid = Fluid { load_pps: 200e3, served_pps: 400e3, buffer: 1000.0 };
    assert_eq!(fluid.lost(&[], 1.0), 0.0);
    // 5 ms are 1000 packets; 7 ms lose 400; 1 ms later 200 of the full buffer have gone, and 3 ms lose 600 - 200.
    assert!(fluid.lost(&[pause(0.1, 5e-3)], 1.0) < 1e-9);
    assert!((fluid.lost(&[pause(0.1, 7e-3)], 1.0) - 400.0).abs() < 1e-6);
    assert!((fluid.lost(&[pause(0.1, 7e-3), pause(0.108, 3e-3)], 1.0) - 800.0).abs() < 1e-6);
    // Only what lies within the trial counts.
    assert!((fluid.lost(&[pause(-1e-3, 8e-3), pause(0.994, 1.0)], 1.0) - 600.0).abs() < 1e-6);
}

/// Where more than half of the trials are without a pause, the cliff is the host's own, ends included; where all have one of
/// 5 ms, the cliff is the load that fills the ring in it, and a little more.
#[test]
fn the_share_of_the_trials_decides() {
    let goal = Goal { loss_ratio: 1e-4, ..quick() };
    let of = |paused: usize| {
        let trials = (0..40).map(|n| if n < paused { vec![pause(0.1, 5e-3)] } else { Vec::new() }).collect();
        on_paper(&computed(), &own(CAPACITY_PPS), &Measured { trials, trial_s: 0.4 }, &goal).expect("40 trials")
    };
    let few = of(5);
    assert_eq!((few.value, few.interval.unwrap().high), (CAPACITY_PPS, 1.01 * CAPACITY_PPS));
    let all = of(40);
    // 1000 packets + 1e-4 of 0.4 s of the load come in 5 ms.
    let expected = 1000.0 / (5e-3 - 1e-4 * 0.4);
    assert!((all.value / expected - 1.0).abs() < 1e-6, "{} and {expected}", all.value);
    // Around half of them it may be the one or the other.
    let half = of(20).interval.expect("of 40");
    assert!(half.low < 0.6 * CAPACITY_PPS && half.high > CAPACITY_PPS);
}

/// Without a pause simulation gives what it was given; with pauses as on paper but for the queue that is there before one.
#[test]
fn simulation_and_paper_agree() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let stop = AtomicBool::new(false);
    let none = Measured { trials: vec![Vec::new(); 20], trial_s: 0.4 };
    let simulated = |measured: &Measured| in_simulation(&computed(), &own(CAPACITY_PPS), measured, &goal, &stop);
    assert_eq!(simulated(&none).unwrap(), Some(own(CAPACITY_PPS)));
    let mut chance = Chance::new(8);
    let mut trial = |_| -> Vec<Span> {
        let mut at_s = 0.0;
        std::iter::from_fn(|| {
            let from_s = at_s + 30e-3 * chance.exponential();
            at_s = from_s + 4e-3;
            (from_s < 0.4).then(|| pause(from_s, 4e-3))
        })
        .collect()
    };
    let measured = Measured { trials: (0..200).map(&mut trial).collect(), trial_s: 0.4 };
    let paper = on_paper(&computed(), &own(CAPACITY_PPS), &measured, &goal).unwrap();
    let simulated = simulated(&measured).unwrap().unwrap();
    assert!((simulated.value / paper.value - 1.0).abs() < 0.1, "{simulated:?} and {paper:?}");
    assert!(paper.value < 0.8 * CAPACITY_PPS, "{paper:?}");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(in_simulation(&computed(), &own(CAPACITY_PPS), &measured, &goal, &stop).unwrap(), None);
}

/// A fake host with pauses: where half of its trials lose more than the target is predicted from the pauses of its searches' trials.
#[test]
fn what_a_host_with_pauses_shows_is_predicted() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    for pauses in [Random { every_s: 0.05, mean_s: 2e-3 }, Random { every_s: 0.2, mean_s: 4e-3 }] {
        let fake = |seed| Fake { pauses: Some(pauses), ..Fake::new(CAPACITY_PPS, seed) };
        let (mut low, mut high) = (0.1 * CAPACITY_PPS, 1.1 * CAPACITY_PPS);
        for _ in 0..8 {
            let rate_pps = (low * high).sqrt();
            let exceeding = fake(77).exceeding(&TrialSpec { rate_pps, ..spec(0.4, 1) }, goal.loss_ratio, 400);
            if exceeding <= goal.exceed_ratio { low = rate_pps } else { high = rate_pps }
        }
        let mut over: Vec<f64> = (0..9)
            .map(|seed| {
                let mut fake = fake(seed);
                let searched = searched(&mut fake, goal, 5, seed);
                let pauses_of = |seen: &Observation| seen.slots.host_pauses.clone().expect("told");
                let trials = searched.trials.iter().map(|(seen, _)| pauses_of(seen)).collect();
                let measured = Measured { trials, trial_s: goal.final_trial_s };
                let own = Figure::exact(fake.cliff_pps(goal.final_trial_s, goal.loss_ratio));
                on_paper(&computed(), &own, &measured, &goal).expect("trials").value / low
            })
            .collect();
        over.sort_by(f64::total_cmp);
        assert!((over[4] - 1.0).abs() < 0.05, "{pauses:?}: {over:?}");
    }
}

#[test]
fn the_budget_counts_the_pauses_that_were_longer() {
    let measured = Measured { trials: vec![vec![pause(0.1, 4e-3), pause(0.2, 2.9e-3)], vec![]], trial_s: 0.4 };
    let found = budget(&computed(), 380e3, Some(&measured));
    let told: Vec<_> = found.iter().map(|at| (at.share, at.first, at.longer)).collect();
    assert_eq!(told, [(0.5, FullFirst::Ring, Some(0)), (0.9, FullFirst::Ring, Some(1))]);
    assert!((found[1].longest_s - 1000.0 / 342e3).abs() < 1e-12);
    assert_eq!(budget(&computed(), 380e3, None)[0].longer, None);
    // A host that cannot serve the load survives none.
    assert!(budget(&computed(), 1e6, None).is_empty());
}
