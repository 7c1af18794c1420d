//! Tests of the conclusions from measured figures: merged repeats, contradictions, bottleneck.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{CpuShares, EngineKind, Figure, Finding, Latency, Loss, Outcome, binding};

use super::super::{conclude, contradict};
use super::whole::finding;
use super::*;

fn at(rate_pps: f64, fake: &mut Fake) -> netcliff_trial::bench::Observation {
    fake.observe(&shape(0.4, 1).at(rate_pps), true).unwrap()
}

#[test]
fn void_repeats_are_not_merged() {
    let good = at(100e3, &mut host(1));
    let mut void = at(400e3, &mut host(1));
    void.sides.late = void.sides.lost;
    let merged = conclude::merge(&[good.clone(), void.clone()]).unwrap().into_point(1e5);
    assert_eq!((merged.repeats, merged.sender_kept_up), (1, true));
    assert_eq!(merged.outcome.loss_fraction.unwrap().value, 0.0);
    let only_void = conclude::merge(&[void]).unwrap().into_point(1e5);
    assert!(!only_void.sender_kept_up);
    assert!(conclude::merge(&[]).is_none());
}

fn searched(fake: &mut Fake) -> (Cliffs, Finding) {
    let cliffs = measured(fake, quick(), SEARCHES, 1);
    let mut finding = finding();
    finding.searches = cliffs.summary();
    finding.cliff_pps.wire = cliffs.own().ok();
    (cliffs, finding)
}

/// With few repeats that differ much, Student's interval would begin below 0, but no time, rate or share is negative.
#[test]
fn no_interval_of_an_amount_begins_below_0() {
    let good = at(100e3, &mut host(1));
    let repeat = |p99_s: f64, share: f64| {
        let figure = |value: f64| Some(Figure::exact(value));
        let outcome = Outcome {
            throughput_pps: figure(1e9 * p99_s),
            latency_s: Some(Latency { p99: figure(p99_s), ..Latency::default() }),
            cpu: Some(CpuShares { available: figure(share), ..CpuShares::default() }),
            polls_per_s: figure(1e8 * p99_s),
            ..Outcome::default()
        };
        netcliff_trial::bench::Observation { outcome, ..good.clone() }
    };
    let merged = conclude::merge(&[repeat(30e-6, 0.2), repeat(300e-6, 0.9)]).unwrap().into_point(1e5).outcome;
    let p99 = merged.latency_s.unwrap().p99.unwrap();
    let ends = p99.interval.unwrap();
    // Mean 165 us, half width 12.7 x 135 us.
    assert!((p99.value - 165e-6).abs() < 1e-9 && (ends.high - 1.88e-3).abs() < 1e-5, "{p99:?}");
    let available = merged.cpu.unwrap().available.unwrap().interval.unwrap();
    assert_eq!((ends.low, available.low, available.high), (0.0, 0.0, 1.0));
    for figure in [merged.throughput_pps, merged.polls_per_s] {
        assert_eq!(figure.unwrap().interval.unwrap().low, 0.0, "{figure:?}");
    }
}

#[test]
fn a_sweep_point_on_the_wrong_side_of_the_cliff_is_named_with_its_cause() {
    let (cliffs, finding) = searched(&mut host(1));
    let fits = [at(250e3, &mut host(2)), at(350e3, &mut host(2))];
    assert_eq!(contradict::all(&fits, &cliffs.trials, &finding, &quick(), CAPACITY_PPS), []);
    let weak = [at(250e3, &mut Fake { capacity_pps: 200e3, ..host(2) })];
    let named = contradict::all(&weak, &cliffs.trials, &finding, &quick(), CAPACITY_PPS);
    assert_eq!(named.len(), 1);
    assert!(named[0].load_pps == 250e3 && named[0].loss > 0.1 && named[0].cause.contains("another state"), "{named:?}");
    let strong = [at(400e3, &mut Fake { capacity_pps: 500e3, ..host(2) })];
    assert_eq!(contradict::all(&strong, &cliffs.trials, &finding, &quick(), CAPACITY_PPS).len(), 1);
    let blind = [at(250e3, &mut Fake { capacity_pps: 200e3, tells_pauses: false, ..host(2) })];
    let named = contradict::all(&blind, &cliffs.trials, &finding, &quick(), CAPACITY_PPS);
    assert!(named[0].cause.contains("not measured"), "{named:?}");
}

#[test]
fn a_host_that_differs_from_trial_to_trial_is_said_to() {
    let (cliffs, finding) = searched(&mut Fake { soft: 0.05, ..host(1) });
    let lower_pps = finding.searches.as_ref().unwrap().own.lower_pps.unwrap();
    let weak = [at(0.99 * lower_pps, &mut Fake { capacity_pps: 0.9 * lower_pps, ..host(2) })];
    let named = contradict::all(&weak, &cliffs.trials, &finding, &quick(), CAPACITY_PPS);
    assert!(named[0].cause.contains("from trial to trial"), "{named:?}");
}

#[test]
fn a_pause_that_the_host_s_own_reading_leaves_out_is_no_contradiction() {
    let (cliffs, finding) = searched(&mut host(1));
    let mut paused = at(200e3, &mut host(1));
    paused.slots.slots[5].lost = 2000;
    paused.sides.lost = 2000;
    paused.slots.host_pauses = Some(vec![Span { from_s: 0.051, length_s: 8e-3 }]);
    assert_eq!(contradict::all(&[paused.clone()], &cliffs.trials, &finding, &quick(), CAPACITY_PPS), []);
    paused.slots.host_pauses = Some(Vec::new());
    assert_eq!(contradict::all(&[paused], &cliffs.trials, &finding, &quick(), CAPACITY_PPS).len(), 1);
}

fn losing(ring: f64, socket: f64, available: f64) -> Finding {
    let share = |value: f64| Some(Figure::exact(value));
    let mut finding = finding();
    finding.cliff_pps.wire = Some(Figure::between(300e3, 295e3, 305e3, 0.95));
    finding.sweep = vec![SweepPoint {
        engine: EngineKind::Wire,
        load_pps: 330e3,
        repeats: 1,
        sender_kept_up: true,
        outcome: Outcome {
            throughput_pps: share(300e3),
            loss_fraction: share(ring + socket),
            loss: Some(Loss { ring: share(ring), socket: share(socket), sender: share(0.0) }),
            cpu: Some(CpuShares {
                protocol: share(0.6 * (1.0 - available)),
                application: share(0.4 * (1.0 - available)),
                available: share(available),
                ..CpuShares::default()
            }),
            ..Outcome::default()
        },
    }];
    finding
}

#[test]
fn what_binds_follows_from_where_the_loss_was_and_what_the_cpu_had_left() {
    let said = binding::sentence(&losing(0.01, 0.08, 0.0)).unwrap();
    assert!(
        said.starts_with("The CPU is full") && said.contains("89 % of the loss at this load is in the socket buffer"),
        "{said}"
    );
    assert!(said.contains("Protocol processing takes 60 % of the CPU, the application 40 %"), "{said}");
    let said = binding::sentence(&losing(0.05, 0.0, 0.3)).unwrap();
    assert!(
        said.starts_with("The CPU is not full past the cliff")
            && said.contains("backlog or ring")
            && said.contains("429 kpps"),
        "{said}"
    );
    // A share that is printed as 0 % is no CPU time that is left.
    let said = binding::sentence(&losing(0.05, 0.0, 0.004)).unwrap();
    assert!(said.starts_with("The CPU is full past the cliff: at 330 kpps it is 0 % idle"), "{said}");
    // Without a measured cliff the simulation is used, and the text says so.
    for (engine, begins) in [
        (EngineKind::Sim, "Simulated, not measured. The CPU is full"),
        (EngineKind::Model, "By the model, not measured. The CPU is full"),
    ] {
        let mut computed = losing(0.01, 0.08, 0.0);
        let cliff = computed.cliff_pps.wire.take();
        computed.cliff_pps.set(engine, cliff);
        computed.sweep.iter_mut().for_each(|point| point.engine = engine);
        let said = binding::sentence(&computed).unwrap();
        assert!(said.starts_with(begins), "{said}");
    }
    let mut nothing = losing(0.05, 0.0, 0.3);
    nothing.sweep.clear();
    assert_eq!(binding::sentence(&nothing), None);
}
