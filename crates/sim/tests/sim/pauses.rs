//! CPU pauses: the simulator against dense chains and closed forms (docs/theory/pauses.md). Exact values must lie
//! within computed 99.9 % intervals; seeds are fixed and named.

use std::sync::Arc;

use netcliff_core::host::{Empirical, MeasuredTimes, PauseTimes};
use netcliff_core::note::{Lack, Note};
use netcliff_core::{Engine, EngineFailure, Figure, Host, Outcome, Point, Service};
use netcliff_sim::{Effort, SimEngine, Simulation};
use netcliff_testkit::Grid;

/// Confidence of each interval. There are some fifty intervals: with other seeds, one of them misses in one run of
/// twenty.
const CONFIDENCE: f64 = 0.999;

fn host(ring: u64, settings: &[&str]) -> Host {
    let mut host = Host { protocol_s: 5.34e-6, per_byte_s: 0.0, ring, ..Host::pentium4_2530mhz() };
    settings.iter().for_each(|setting| host.set(setting).unwrap());
    host
}

fn point(host: Host, scheme: &str, pps: f64) -> Point {
    Point::poisson(host, scheme.parse().unwrap(), pps)
}

fn simulation(point: &Point, seed: u64, effort: Effort) -> Simulation {
    SimEngine { seed, effort, confidence: CONFIDENCE, replications: 40 }.simulate(point).unwrap()
}

fn outcome(point: &Point, seed: u64) -> Outcome {
    let found = simulation(point, seed, Effort::Packets(12_000_000));
    assert!(found.settled, "{:?}", found.outcome.notes);
    found.outcome
}

fn mean_latency(outcome: &Outcome) -> Figure {
    outcome.latency_s.unwrap().mean.unwrap()
}

/// Rate (pps), ring, pauses, and for each scheme: mean latency (us), loss, available CPU.
type Row = (f64, u64, [&'static str; 3], [(&'static str, f64, f64, f64); 3]);

/// The simulator agrees with the nine dense chains; each day tests a quarter of them ([`Grid`]), `make measure` all.
#[test]
fn figures_are_those_of_the_dense_chains() {
    let merged = "disable-enable:merged=true";
    let rows: [Row; 3] = [
        (
            120e3,
            100,
            ["pause=300us", "pause_every=5ms", "pause_times=exponential"],
            [
                ("ideal", 57.73, 4.9192e-3, 0.3057),
                ("interrupt", 339.03, 2.3196e-2, 0.0254),
                (merged, 63.89, 5.0468e-3, 0.2027),
            ],
        ),
        (
            120e3,
            100,
            ["pause=300us", "pause_every=5ms", "pause_times=erlang:4"],
            [
                ("ideal", 49.68, 5.1105e-4, 0.3029),
                ("interrupt", 355.94, 1.8794e-2, 0.0226),
                (merged, 56.01, 5.4382e-4, 0.2008),
            ],
        ),
        (
            60e3,
            50,
            ["pause=1ms", "pause_every=20ms", "pause_times=exponential"],
            [
                ("ideal", 40.03, 2.1303e-2, 0.6388),
                ("interrupt", 50.95, 2.1748e-2, 0.4647),
                (merged, 45.42, 2.1495e-2, 0.5095),
            ],
        ),
    ];
    let chains = rows.into_iter().flat_map(|(pps, ring, pauses, figures)| figures.map(|row| (pps, ring, pauses, row)));
    let grid = Grid::of_today();
    for (nth, (pps, ring, pauses, (scheme, latency_us, loss, available))) in grid.part(chains) {
        let seed = 101 + nth as u64;
        let point = point(host(ring, &pauses), scheme, pps);
        let found = outcome(&point, seed);
        let cpu = found.cpu.unwrap();
        for (name, got, exact) in [
            ("latency", mean_latency(&found), latency_us * 1e-6),
            ("loss", found.loss_fraction.unwrap(), loss),
            ("available", cpu.available.unwrap(), available),
            ("paused", cpu.paused.unwrap(), point.host.pauses().unwrap().share()),
        ] {
            assert!(got.covers(exact), "{grid} {scheme} {pauses:?} seed {seed}: {name} {got:?}, exact {exact}");
            assert!(got.relative_half_width() < 0.6, "{scheme} {pauses:?}: {name} {got:?} says too little");
        }
    }
}

/// Latency E[C] + lambda E[C^2]/(2 (1 - lambda E[C])) + a E[R^2]/(2 E[R]), for pause lengths that have no chain:
/// constant and measured ones.
#[test]
fn constant_and_measured_lengths_have_the_latency_of_completion_times() {
    let lengths = MeasuredTimes::new(vec![(20e-6, 9.0), (0.0, 3.0), (700e-6, 1.0)]).unwrap();
    let squared_s2 = (9.0 * 20e-6_f64.powi(2) + 700e-6_f64.powi(2)) / 13.0;
    let measured = PauseTimes::Empirical(Empirical { file: "made".to_owned(), times: Some(Arc::new(lengths)) });
    let base = host(100_000, &["service=deterministic", "pause_every=1ms"]);
    let constant = Host { pause_s: Some(1e-4), pause_times: Some(PauseTimes::Constant), ..base.clone() };
    let measured = Host { pause_times: Some(measured), ..base };
    let (service_s, pps, every_s) = (constant.service_s(64.0), 100e3, 1e-3);
    assert_eq!(constant.service, Service::Deterministic);
    for (seed, host, squared_length_s2) in [(201, constant, 1e-8), (202, measured, squared_s2)] {
        let pauses = host.pauses().unwrap();
        let longer = 1.0 + pauses.mean_s / every_s;
        let completion_s = service_s * longer;
        let squared_completion_s2 = completion_s * completion_s + service_s * squared_length_s2 / every_s;
        let waits_s = pps * squared_completion_s2 / (2.0 * (1.0 - pps * completion_s));
        let exact = completion_s + waits_s + pauses.share() * squared_length_s2 / (2.0 * pauses.mean_s);
        let got = mean_latency(&outcome(&point(host, "ideal", pps), seed));
        assert!(got.covers(exact) && got.relative_half_width() < 0.2, "seed {seed}: {got:?}, exact {exact}");
    }
}

/// 80 000 arrivals in forty replications are 0.8 s in total, with forty expected pauses, one per replication. The
/// replications are made longer until each has twenty; if that is not allowed, a note says so.
#[test]
fn replications_hold_enough_pauses() {
    let rare = point(host(100, &["pause=300us", "pause_every=20ms"]), "ideal", 100e3);
    let found = simulation(&rare, 301, Effort::Packets(80_000));
    let pauses_each = found.packets as f64 / found.replications as f64 / 100e3 * rare.host.pauses().unwrap().per_s();
    assert!(found.settled && pauses_each > 20.0, "{pauses_each} pauses in each");
    let short = simulation(&rare, 301, Effort::Exactly(800_000));
    let said = |note: &Note| matches!(note, Note::TooShort(Lack::Pauses(_), ..));
    assert!(!short.settled && short.outcome.notes.iter().any(said), "{:?}", short.outcome.notes);
}

/// Queues that share a core and queues on separate cores lose the same share of their CPU time to pauses.
#[test]
fn queues_lose_the_same_share_of_their_cores() {
    for queues in ["queues=4", "queues=4:on=0/0/1/1"] {
        let shared = host(256, &["pause=200us", "pause_every=2ms", queues]);
        let taken = shared.pauses().unwrap().share();
        let found = outcome(&point(shared, "disable-enable:merged=false", 160e3), 401);
        assert!(found.cpu.unwrap().paused.unwrap().covers(taken), "{queues}: {:?}", found.cpu);
    }
}

#[test]
fn lengths_that_were_not_read_are_refused() {
    let unread = host(100, &["pause_every=1ms", "pause_times=empirical:lengths.txt"]);
    let refused = SimEngine::default().evaluate(&point(unread, "ideal", 1e5)).unwrap_err();
    assert!(matches!(&refused, EngineFailure::Unsupported(why) if why.reason.contains("lengths.txt")), "{refused}");
}
