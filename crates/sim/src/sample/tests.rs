use netcliff_core::Host;
use netcliff_core::note::Note;

use super::*;
use crate::engine::Simulation;

fn point(scheme: &str, load: f64) -> Point {
    let host = Host::pentium4_2530mhz();
    let pps = load * host.mu_pps(64.0);
    Point::poisson(host, scheme.parse().unwrap(), pps)
}

fn precise(figures: &str, relative: f64, packets_at_most: u64) -> SimEngine {
    let effort = Effort::Precision { relative, packets_at_most, figures: figures.parse().unwrap() };
    SimEngine { effort, ..SimEngine::default() }
}

/// Number of intervals that miss the exact mean. Of a hundred 95 % intervals of M/M/1's mean latency, 5 are expected to
/// miss; more than 13 have a probability of one in 3000.
fn misses(engine: &SimEngine, load: f64) -> usize {
    let point = point("ideal", load);
    let exact = 1.0 / (point.host.mu_pps(64.0) * (1.0 - load));
    let covers = |seed| {
        let found = SimEngine { seed, ..engine.clone() }.simulate(&point).unwrap().outcome;
        found.latency_s.unwrap().mean.unwrap().covers(exact)
    };
    (0..100).filter(|seed| !covers(*seed)).count()
}

/// A run that stops when its interval is narrow must not miss too often: with short replications, 18 of 100 intervals
/// missed.
#[test]
fn intervals_of_a_sequential_run_hold_the_exact_value() {
    let missed = misses(&precise("latency", 0.05, 50_000_000), 0.8);
    assert!(missed <= 13, "{missed} of 100");
}

/// The cut of the warm-up must not bias many short replications: with a separate cut for each, 37 of 100 intervals
/// missed.
#[test]
fn intervals_of_many_short_replications_hold_the_exact_value() {
    let missed = misses(&SimEngine { replications: 50, ..SimEngine::with_packets(0, 1_000_000) }, 0.8);
    assert!(missed <= 13, "{missed} of 100");
}

#[test]
fn every_figure_asked_for_is_reached_and_a_tail_costs_more_than_a_mean() {
    let point = point("interrupt", 0.4);
    let reached = |figures: &str| -> Simulation {
        let simulation = precise(figures, 0.02, 50_000_000).simulate(&point).unwrap();
        let precision = simulation.outcome.precision.clone().unwrap();
        assert!(simulation.precise && precision.reached, "{figures}: {precision:?}");
        assert!(precision.figures.iter().all(|one| one.reached && one.half_width.unwrap() <= 0.02 / 1.02));
        assert_eq!((precision.packets, precision.replications), (simulation.packets, simulation.replications));
        assert!(simulation.replications >= 10);
        simulation
    };
    let all = reached("throughput,latency,p999,cpu,interrupts");
    assert_eq!(all.outcome.precision.as_ref().unwrap().figures.len(), 9, "five of the CPU, and no application");
    assert!(all.packets > reached("throughput").packets);
}

/// Replications that are only slightly too short are made longer as well, which uses 200 000 of the allowed packets.
#[test]
fn what_is_a_little_too_short_is_simulated_longer() {
    for (scheme, kpps) in [
        ("coalesce:usecs=50us,drops_interrupt=true", 220.0),
        ("napi-2007:period=20us,quota=3", 300.0),
        ("disable-enable:merged=true", 230.0),
        ("ideal", 230.0),
    ] {
        let point = Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), kpps * 1e3);
        let simulation = precise("throughput,latency,cpu", 0.01, 20_000_000).simulate(&point).unwrap();
        assert!(simulation.precise, "{scheme} at {kpps} kpps: {:?}", simulation.outcome.notes);
    }
}

#[test]
fn what_cannot_be_reached_is_told_with_what_was() {
    let simulation = precise("latency,p99,cpu", 0.001, 400_000).simulate(&point("interrupt", 0.5)).unwrap();
    let precision = simulation.outcome.precision.unwrap();
    assert!(!simulation.precise && !precision.reached);
    // If a longer run no longer fits the budget, the rest goes to more replications.
    assert!((200_000..=400_000).contains(&precision.packets), "{}", precision.packets);
    let note = simulation.outcome.notes.iter().find(|note| matches!(note, Note::Imprecise(..)));
    let note = note.expect("a note").to_string();
    assert!(note.contains("0.1%") && note.contains("mean latency ±") && note.contains("99th percentile"), "{note}");
    assert!(simulation.outcome.latency_s.unwrap().mean.unwrap().interval.is_some(), "it reports what it has");
}

#[cfg(feature = "parallel")]
#[test]
fn results_are_the_same_on_any_number_of_threads() {
    let on = |threads: usize, engine: &SimEngine, scheme: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let point = point(scheme, 0.6);
        pool.install(|| {
            let simulation = engine.simulate(&point).unwrap();
            let wanted = crate::Wanted { distributions: true, histogram: true, slice_s: Some(1e-2) };
            let detail = engine.simulate_in_detail(&point, wanted).unwrap().1;
            let pairs = SimEngine::with_packets(3, 50_000).compare(&point, &self::point("ideal", 0.6), |_| ()).unwrap();
            let text = serde_json::to_string(&(simulation.outcome, detail, pairs)).unwrap();
            (text, simulation.latency_ns)
        })
    };
    for engine in [SimEngine::with_packets(3, 200_000), precise("latency,p99,cpu", 0.05, 4_000_000)] {
        for scheme in ["ideal", "napi"] {
            let one = on(1, &engine, scheme);
            assert_eq!(one, on(2, &engine, scheme), "{scheme}");
            assert_eq!(one, on(7, &engine, scheme), "{scheme}");
        }
    }
}
