//! Model and simulator compared at random points on hosts whose CPU is taken away. The seed is fixed. The exact values
//! must be within simultaneous 99 % intervals (Bonferroni over all comparisons).

use netcliff_core::host::PauseTimes;
use netcliff_core::{Engine, Figure, Host, Outcome, Point};
use netcliff_model::ModelEngine;
use netcliff_sim::{Effort, SimEngine};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const SEED: u64 = 20_261_123;
const POINTS: u32 = 60;
const FIGURES: f64 = 4.0;
/// Share of time below which a state may be missing in a simulation of 400 000 packets.
const RAREST: f64 = 1e-6;
/// Confidence of each interval, so that all intervals together have 99 %.
const CONFIDENCE: f64 = 1.0 - 0.01 / (POINTS as f64 * FIGURES);

const SCHEMES: [&str; 7] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
    "napi:weight=4",
    "napi:weight=64",
];

/// Numbers from `low` to `high`, whose logarithm is uniformly distributed.
fn log(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low.ln()..high.ln()).prop_map(f64::exp)
}

prop_compose! {
    /// Points with pauses as long as a few to some hundred services, at loads of 0.1 to 1.5 times the CPU's capacity.
    fn points()(
        protocol_s in log(1e-6, 8e-6), interrupt_s in log(0.2e-6, 5e-6), latency_s in log(0.5e-6, 20e-6),
        mask_s in log(0.1e-6, 1e-6), poll_s in log(0.1e-6, 2e-6), ring in 2..150_u64, pause_s in log(10e-6, 1e-3),
        every_s in log(0.2e-3, 10e-3), load in log(0.1, 1.5), scheme in prop::sample::select(&SCHEMES[..]),
        stages in prop::sample::select(vec![1_u32, 2, 5]),
    ) -> Point {
        let stages = if scheme == "napi:weight=64" { 1 } else { stages };
        let host = Host {
            protocol_s, interrupt_s, mask_s, poll_s, ring, per_byte_s: 0.0,
            interrupt_latency_s: if scheme.starts_with("napi") { latency_s } else { 0.0 },
            pause_s: Some(pause_s), pause_every_s: Some(every_s), pause_times: Some(PauseTimes::Erlang(stages)),
            ..Host::pentium4_2530mhz()
        };
        let pps = load * host.up_share() / (host.protocol_s + host.interrupt_s);
        Point::poisson(host, scheme.parse().expect("a scheme"), pps)
    }
}

/// A figure of an outcome.
type Of = fn(&Outcome) -> Option<Figure>;

fn compare(point: &Point, seed: u64) -> Vec<String> {
    let model = ModelEngine::default().evaluate(point).expect("a chain");
    assert_eq!(model.cpu_method.as_deref(), Some("exact"), "{point:?}");
    let effort = Effort::Packets(400_000);
    let sim = SimEngine { seed, effort, confidence: CONFIDENCE, replications: 20 };
    let found = sim.simulate(point).expect("a simulation").outcome;
    let figures: [(&str, Of); FIGURES as usize] = [
        ("throughput", |o| o.throughput_pps),
        ("mean latency", |o| o.latency_s?.mean),
        ("available", |o| o.cpu?.available),
        ("interrupts", |o| o.interrupts_per_s),
    ];
    let mut missed = Vec::new();
    for (name, of) in figures {
        let (exact, sampled) = (of(&model).expect("the model has it").value, of(&found).expect("the simulator has it"));
        let unseen = sampled.value == 0.0 && exact < RAREST;
        if sampled.interval.is_some() && !unseen && !sampled.covers(exact) {
            missed.push(format!("{name} {exact} {sampled:?} of {} {:?}", point.scheme, point.host));
        }
        assert!(sampled.interval.is_some() || !found.notes.is_empty(), "{name} without an interval or a reason");
    }
    missed
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: POINTS, rng_seed: RngSeed::Fixed(SEED), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default()
    })]

    #[test]
    fn random_pauses_agree(point in points(), seed in any::<u64>()) {
        let missed = compare(&point, seed);
        prop_assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}
