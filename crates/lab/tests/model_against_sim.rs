//! The exact models against the simulator: 6 schemes x 4 loads x 3 ring sizes = 72 points, 3 figures each, every
//! seed fixed. A 99 % interval misses the truth once in a hundred times; how many misses all points together may
//! have is a binomial bound.

use netcliff_core::{Engine, Figure, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::{Effort, SimEngine};

const SCHEMES: [&str; 6] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
    "napi:weight=8",
];
const LOADS_PPS: [f64; 4] = [20e3, 70e3, 110e3, 220e3];
const RINGS: [u64; 3] = [4, 32, 256];
const CONFIDENCE: f64 = 0.99;
/// Misses that a correct pair of engines exceeds less than once in 10 000 runs: the smallest k with
/// P(Binomial(216, 0.01) > k) < 1e-4, computed below.
const RARE: f64 = 1e-4;

fn point(scheme: &str, load_pps: f64, ring: u64) -> Point {
    // The chain of NAPI has no cost for unmasking, so the register write is left out.
    let host = Host { ring, mask_s: if scheme.starts_with("napi") { 0.0 } else { 0.5e-6 }, ..Host::pentium4_2530mhz() };
    let scheme: Scheme = scheme.parse().expect("a scheme");
    Point { host, scheme, traffic: Traffic { rate: Load::Pps(load_pps), ..Traffic::poisson(load_pps) } }
}

fn figures(outcome: &Outcome) -> [(&'static str, Figure); 3] {
    [
        ("throughput", outcome.throughput_pps.expect("throughput")),
        ("mean latency", outcome.latency_s.and_then(|latency| latency.mean).expect("latency")),
        ("CPU available", outcome.cpu.and_then(|cpu| cpu.available).expect("CPU available")),
    ]
}

/// The smallest number of misses whose exceedance is rarer than [`RARE`].
fn bound(trials: u32) -> u32 {
    let miss = 1.0 - CONFIDENCE;
    let mut term = (1.0 - miss).powi(trials as i32);
    let mut below = term;
    for misses in 0..trials {
        if 1.0 - below < RARE {
            return misses;
        }
        term *= f64::from(trials - misses) / f64::from(misses + 1) * miss / (1.0 - miss);
        below += term;
    }
    trials
}

#[test]
fn theory_lies_within_the_simulations_intervals() {
    let model = ModelEngine::new(Fidelity::Exact).without_quantiles();
    let (mut compared, mut missed) = (0, Vec::new());
    for (a, scheme) in SCHEMES.iter().enumerate() {
        for (b, load_pps) in LOADS_PPS.iter().enumerate() {
            for (c, ring) in RINGS.iter().enumerate() {
                let seed = 10_000 + 100 * a as u64 + 10 * b as u64 + c as u64;
                let sim = SimEngine {
                    seed,
                    effort: Effort::Packets(300_000),
                    confidence: CONFIDENCE,
                    ..SimEngine::default()
                };
                let point = point(scheme, *load_pps, *ring);
                let truth = figures(&model.evaluate(&point).expect("the model answers"));
                let found = figures(&sim.evaluate(&point).expect("the simulator answers"));
                for ((name, truth), (_, found)) in truth.iter().zip(&found) {
                    compared += 1;
                    if !found.covers(truth.value) {
                        missed
                            .push(format!("{scheme} {load_pps} pps B={ring} seed {seed} {name}: {truth:?} {found:?}"));
                    }
                }
            }
        }
    }
    assert_eq!(compared, 216);
    let bound = bound(compared);
    assert!(
        missed.len() as u32 <= bound,
        "{} of {compared} missed, bound {bound}:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

#[test]
fn the_bound_is_the_binomials() {
    assert_eq!(bound(216), 9);
}
