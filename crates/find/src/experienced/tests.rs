use netcliff_core::Host;
use netcliff_core::finding::Buffer;

use super::*;
use crate::fake::{Fake, Random};
use crate::tests::{measured as searched, quick, shape};
use netcliff_stats as stats;
use netcliff_stats::chance::Chance;
use netcliff_trial::bench::{Observation, Span};

const CAPACITY_PPS: f64 = 400e3;

/// A host that serves [`CAPACITY_PPS`] on average, with a ring of 1000 packets and no application.
fn computed() -> Predictor {
    let host = Host {
        protocol_s: 1.0 / CAPACITY_PPS,
        per_byte_s: 0.0,
        interrupt_s: 0.0,
        ring: 1000,
        application_s: None,
        ..Host::preset("pentium4-2530mhz").expect("a preset")
    };
    Predictor { seed: 3, ..Predictor::of(host, "ideal") }
}

fn pause(from_s: f64, length_s: f64) -> Away {
    Away::Cpu(Span { from_s, length_s })
}

/// Pauses of equal length in 0.4 s, with exponential times between them.
fn random_pauses(chance: &mut Chance, every_s: f64, length_s: f64) -> Vec<Away> {
    let mut at_s = 0.0;
    std::iter::from_fn(|| {
        let from_s = at_s + every_s * chance.exponential();
        at_s = from_s + length_s;
        (from_s < 0.4).then(|| pause(from_s, length_s))
    })
    .collect()
}

fn own(pps: f64) -> Figure {
    Figure::between(pps, 0.99 * pps, 1.01 * pps, 0.95)
}

#[test]
fn pauses_count_as_far_as_they_lie_within_their_trials() {
    let measured = Measured::of(vec![vec![pause(-1e-3, 3e-3), pause(0.399, 15.0)], vec![pause(-2.0, 1.0)]], 0.4);
    let lengths: Vec<f64> = measured.lengths_s().iter().map(|s| (s * 1e6).round()).collect();
    assert_eq!((lengths, measured.trials[1].len()), (vec![2000.0, 1000.0], 0));
    // A pause that begins during another is merged with it, and time taken by another task is not a pause.
    let visit = Away::Application(Span { from_s: 0.2, length_s: 1e-3 });
    let trial = [pause(0.1, 2e-3), pause(0.101, 3e-3), visit];
    let goal = Goal { loss_ratio: 1e-4, ..quick() };
    let simulated = Paused::of(&trial, &computed(), CAPACITY_PPS, &goal, 0.4);
    assert!(simulated.spans_s.len() == 1 && (simulated.spans_s[0].1 - 4e-3).abs() < 1e-9, "{simulated:?}");
}

/// If more than half of the trials are without a pause, the cliff is the host's own cliff, including its interval. If
/// all have a pause of 5 ms, the cliff is the load that fills the ring during the pause, or slightly more.
#[test]
fn the_share_of_the_trials_decides() {
    let goal = Goal { loss_ratio: 1e-4, ..quick() };
    let of = |paused: usize| {
        let trials = (0..40).map(|n| if n < paused { vec![pause(0.1, 5e-3)] } else { Vec::new() }).collect();
        by_model(&computed(), &own(CAPACITY_PPS), &Measured { trials, trial_s: 0.4 }, &goal).expect("40 trials")
    };
    let few = of(5);
    assert_eq!(few.value, CAPACITY_PPS);
    assert!((few.interval.unwrap().high / CAPACITY_PPS - 1.01).abs() < 1e-9, "{few:?}");
    let all = of(40);
    // 1000 packets + 1e-4 of the load's packets in 0.4 s arrive in 5 ms.
    let expected = 1000.0 / (5e-3 - 1e-4 * 0.4);
    assert!((all.value / expected - 1.0).abs() < 1e-6, "{} and {expected}", all.value);
    // With about half of the trials paused, the cliff may be either of the two.
    let half = of(20).interval.expect("of 40");
    assert!(half.low < 0.6 * CAPACITY_PPS && half.high > CAPACITY_PPS);
}

/// With equal trials, the choice of trials adds no uncertainty; only the interval of the own cliff remains. The
/// interval of the cliff with pauses is at least as wide as the part that the own cliff causes: with an own cliff a
/// tenth higher, the same pause leaves a shorter queue.
#[test]
fn the_own_cliff_s_interval_is_in_that_with_pauses() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let mut chance = Chance::new(8);
    let trials = vec![random_pauses(&mut chance, 30e-3, 4e-3); 40];
    let measured = Measured { trials, trial_s: 0.4 };
    let of = |own: &Figure| by_model(&computed(), own, &measured, &goal).expect("trials");
    let (at_own, low, high) = (of(&Figure::exact(4e5)), of(&Figure::exact(3.6e5)), of(&Figure::exact(4.4e5)));
    assert!(low.value < 0.99 * at_own.value && high.value > 1.01 * at_own.value, "{low:?} {at_own:?} {high:?}");
    let found = of(&Figure::between(4e5, 3.6e5, 4.4e5, 0.9));
    let ends = found.interval.expect("of 40 trials");
    assert_eq!((found.value, ends.confidence), (at_own.value, 0.9));
    assert!((ends.low / low.value - 1.0).abs() < 1e-6 && (ends.high / high.value - 1.0).abs() < 1e-6, "{ends:?}");
    let stop = AtomicBool::new(false);
    let wide = Figure::between(4e5, 3.6e5, 4.4e5, 0.9);
    let simulated = in_simulation(&computed(), &wide, &measured, &goal, &stop).unwrap().unwrap();
    let reach = (simulated.interval.unwrap().high / simulated.value, high.value / at_own.value);
    assert!(reach.0 > reach.1 - 1e-6 && reach.0 < 1.1, "{reach:?}");
}

/// Without pauses, the simulation returns the own cliff unchanged; with pauses it agrees with the model within a tenth.
/// The difference is due to the queue that exists before a pause.
#[test]
fn simulation_and_paper_agree() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let stop = AtomicBool::new(false);
    let none = Measured { trials: vec![Vec::new(); 20], trial_s: 0.4 };
    let simulated = |measured: &Measured| in_simulation(&computed(), &own(CAPACITY_PPS), measured, &goal, &stop);
    assert_eq!(simulated(&none).unwrap(), Some(own(CAPACITY_PPS)));
    let mut chance = Chance::new(8);
    let mut trial = |_| random_pauses(&mut chance, 30e-3, 4e-3);
    let measured = Measured { trials: (0..200).map(&mut trial).collect(), trial_s: 0.4 };
    let paper = by_model(&computed(), &own(CAPACITY_PPS), &measured, &goal).unwrap();
    let simulated = simulated(&measured).unwrap().unwrap();
    assert!((simulated.value / paper.value - 1.0).abs() < 0.1, "{simulated:?} and {paper:?}");
    assert!(paper.value < 0.8 * CAPACITY_PPS, "{paper:?}");
    stop.store(true, Ordering::Relaxed);
    assert_eq!(in_simulation(&computed(), &own(CAPACITY_PPS), &measured, &goal, &stop).unwrap(), None);
}

/// With an application, packets that arrived during a pause wait in the socket, not in the ring: two consecutive pauses
/// do not add up in the ring.
#[test]
fn with_an_application_simulation_and_paper_agree() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let stop = AtomicBool::new(false);
    let each_s = 0.5 / CAPACITY_PPS;
    let host = Host { protocol_s: each_s, application_s: Some(each_s), socket_buffer: 2500, ..computed().host };
    let computed = Predictor { host, ..computed() };
    let mut chance = Chance::new(9);
    let mut trial = |_| random_pauses(&mut chance, 12e-3, 2.2e-3);
    let measured = Measured::of((0..200).map(&mut trial).collect(), 0.4);
    let own = own(0.98 * CAPACITY_PPS);
    let paper = by_model(&computed, &own, &measured, &goal).unwrap();
    let simulated = in_simulation(&computed, &own, &measured, &goal, &stop).unwrap().unwrap();
    assert!((simulated.value / paper.value - 1.0).abs() < 0.1, "{simulated:?} and {paper:?}");
    assert!(paper.value < 0.95 * own.value, "{paper:?}");
    // Two pauses of 700 packets each, 5 ms apart: the ring is empty in between.
    let fluid = Fluid::of(&computed, CAPACITY_PPS, 350e3);
    let lost: f64 = fluid.lost(&[pause(0.1, 2e-3), pause(0.107, 2e-3)], 0.4).iter().sum();
    assert!(lost < 1e-6, "{lost}");
}

/// Pauses occur in bursts, and two of three trials have none, so the median trial has none, by simulation and by the
/// model. If other tasks run in all trials, simulation and model still agree, and the cliff falls by less than 30 %,
/// because softirqs and socket bridge the time that the tasks take.
#[test]
fn a_minority_of_disturbed_trials_leaves_the_cliff_in_simulation() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let each_s = 0.5 / CAPACITY_PPS;
    let host = Host { protocol_s: each_s, application_s: Some(each_s), socket_buffer: 8000, ..computed().host };
    let read = Predictor { host, ..computed() };
    let bout = |number: usize, away: fn(Span) -> Away| -> Vec<Away> {
        (1..8).map(|n| away(Span { from_s: 0.05 * n as f64 + 1e-3 * (number % 7) as f64, length_s: 8e-3 })).collect()
    };
    let (stop, own) = (AtomicBool::new(false), own(0.98 * CAPACITY_PPS));
    let cliffs = |trials: Vec<Vec<Away>>| {
        let measured = Measured::of(trials, 0.4);
        let simulated = in_simulation(&read, &own, &measured, &goal, &stop).unwrap().expect("not stopped");
        (by_model(&read, &own, &measured, &goal).expect("trials"), simulated)
    };
    let in_bouts = |n| if n % 3 == 0 { bout(n, Away::Cpu) } else { Vec::new() };
    let (paper, simulated) = cliffs((0..48).map(in_bouts).collect());
    assert_eq!((paper.value, simulated.value), (own.value, own.value));
    let (paper, simulated) = cliffs((0..48).map(|n| bout(n, Away::Application)).collect());
    assert!((simulated.value / paper.value - 1.0).abs() < 0.01, "{simulated:?} and {paper:?}");
    assert!(paper.value > 0.7 * own.value, "{paper:?}");
}

/// On a fake host with pauses, the model predicts from the pauses of the searches' trials the load at which half of the
/// host's trials lose more than the target.
#[test]
fn what_a_host_with_pauses_shows_is_predicted() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    for pauses in [Random { every_s: 0.05, mean_s: 2e-3 }, Random { every_s: 0.2, mean_s: 4e-3 }] {
        let fake = |seed| Fake { pauses: Some(pauses), ..Fake::new(CAPACITY_PPS, seed) };
        let (mut low, mut high) = (0.1 * CAPACITY_PPS, 1.1 * CAPACITY_PPS);
        for _ in 0..8 {
            let rate_pps = (low * high).sqrt();
            let exceeding = fake(77).exceeding(&shape(0.4, 1).at(rate_pps), goal.loss_ratio, 400);
            if exceeding <= goal.exceed_ratio { low = rate_pps } else { high = rate_pps }
        }
        let over: Vec<f64> = (0..25)
            .map(|seed| {
                let mut fake = fake(seed);
                let searched = searched(&mut fake, goal, 5, seed);
                let pauses_of = |seen: &Observation| -> Vec<Away> {
                    seen.slots.host_pauses.iter().flatten().copied().map(Away::Cpu).collect()
                };
                let trials = searched.trials.iter().map(|(seen, _)| pauses_of(seen)).collect();
                let measured = Measured::of(trials, goal.final_trial_s);
                let own = Figure::exact(fake.cliff_pps(goal.final_trial_s, goal.loss_ratio));
                by_model(&computed(), &own, &measured, &goal).expect("trials").value / low
            })
            .collect();
        // Each run has five searches and random pauses, so runs differ by up to a fifth. The interval of the median
        // over the runs must overlap 0.95 to 1.05 of the true value: the quantile of so few trials itself has an error
        // of 5 %.
        let median = stats::median(&over).expect("25 runs");
        let open = median.interval.expect("of 25");
        assert!(open.low < 1.05 && open.high > 0.95, "{pauses:?}: {median:?} of {over:?}");
    }
}

#[test]
fn the_budget_counts_the_pauses_that_were_longer() {
    let measured = Measured { trials: vec![vec![pause(0.1, 4e-3), pause(0.2, 2.9e-3)], vec![]], trial_s: 0.4 };
    let found = budget(&computed(), 380e3, Some(&measured));
    let told: Vec<_> = found.iter().map(|at| (at.share, at.first, at.longer)).collect();
    assert_eq!(told, [(0.5, Buffer::Ring, Some(0)), (0.9, Buffer::Ring, Some(1))]);
    assert!((found[1].longest_s - 1000.0 / 342e3).abs() < 1e-12);
    assert_eq!(budget(&computed(), 380e3, None)[0].longer, None);
    // If the host cannot serve the load, no pause is without loss.
    assert!(budget(&computed(), 1e6, None).is_empty());
}

/// With a full socket a packet costs a quarter more. If in each trial another task runs until the socket is full, the
/// own cliff is the load at which the socket becomes empty again; without other tasks it is the undisturbed cliff. If
/// packets cost the same with a full socket, the own cliff falls by less than 3 %.
#[test]
fn what_a_disturbance_leaves_behind_lowers_the_own_cliff() {
    let goal = Goal { loss_ratio: 1e-3, ..quick() };
    let each_s = 0.5 / CAPACITY_PPS;
    let host = Host { protocol_s: each_s, application_s: Some(each_s), socket_buffer: 2000, ..computed().host };
    let warm = Predictor { host: host.clone(), ..computed() };
    let cold = Predictor { host: Host { cold_application_s: 0.5 * each_s, ..host }, ..computed() };
    let visited = vec![Away::Application(Span { from_s: 0.02, length_s: 8e-3 })];
    let of = |trials: Vec<Vec<Away>>, computed: &Predictor| {
        let measured = Measured { trials, trial_s: 0.4 };
        left_behind(computed, CAPACITY_PPS, &measured, &goal, CAPACITY_PPS).expect("trials")
    };
    assert_eq!(of(vec![Vec::new(); 20], &cold), 1.0);
    let lowered = of(vec![visited.clone(); 20], &cold);
    assert!((0.78..0.9).contains(&lowered), "{lowered}, 0.8 where it just empties");
    let kept = of(vec![visited; 20], &warm);
    assert!(kept > 0.97, "{kept}");
    // If pauses take most of each trial, there is no result.
    let away = vec![vec![pause(0.0, 0.3)]; 5];
    assert_eq!(left_behind(&cold, CAPACITY_PPS, &Measured { trials: away, trial_s: 0.4 }, &goal, 1e9), None);
    let cliff = moved(Figure::between(100.0, 95.0, 110.0, 0.95), 0.9);
    assert_eq!((cliff.value, cliff.interval.map(|ends| (ends.low, ends.high))), (90.0, Some((90.0, 110.0))));
}

/// The after-effects of disturbances may reduce the own cliff below the cliff with pauses, which was computed from the
/// undisturbed cliff. The cliff with pauses is then limited to the own cliff.
#[test]
fn pauses_never_raise_a_cliff() {
    let own = Figure::between(58.9e3, 58.9e3, 65.1e3, 0.95);
    let found = at_most(Figure::between(62.0e3, 60.0e3, 66.0e3, 0.96), Some(own));
    assert_eq!(found, Figure::between(58.9e3, 58.9e3, 65.1e3, 0.96));
    let lower = Figure::between(40e3, 30e3, 65e3, 0.96);
    assert_eq!(at_most(lower, Some(own)), lower);
    assert_eq!(at_most(Figure::exact(62e3), Some(Figure::exact(60e3))), Figure::exact(60e3));
    assert_eq!(at_most(lower, None), lower);
}
