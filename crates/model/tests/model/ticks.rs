//! Chains between deterministic ticks, at points where they reduce to known results. They are also compared with the
//! simulator (`model_against_sim` of netcliff-lab).

use netcliff_core::{Engine, Host, Outcome, Point};
use netcliff_model::ModelEngine;
use proptest::prelude::*;

fn host(ring: u64) -> Host {
    Host { ring, interrupt_s: 2e-6, protocol_s: 1e-6, per_byte_s: 0.0, mask_s: 0.3e-6, ..Host::pentium4_2530mhz() }
}

fn solve(host: &Host, scheme: &str, pps: f64) -> Outcome {
    let point = Point::poisson(host.clone(), scheme.parse().unwrap(), pps);
    ModelEngine::default().without_quantiles().evaluate(&point).unwrap()
}

fn figures(outcome: &Outcome) -> [f64; 6] {
    let cpu = outcome.cpu.unwrap();
    [
        outcome.throughput_pps.unwrap().value,
        outcome.loss_fraction.unwrap().value,
        outcome.latency_s.unwrap().mean.unwrap().value,
        cpu.interrupt.unwrap().value,
        cpu.protocol.unwrap().value,
        cpu.available.unwrap().value,
    ]
}

fn agree(a: &Outcome, b: &Outcome, relative: f64, what: &str) {
    for (a, b) in figures(a).iter().zip(figures(b)) {
        assert!((a - b).abs() <= relative * b.abs() + 1e-13, "{what}: {a} against {b}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// With a long T_poll and a quota that a busy period cannot reach, no poll waits for a tick (n services in a row
    /// need n arrivals during them). At low load this is disable-enable.
    #[test]
    fn napi_2007_that_never_uses_its_quota_up(ring in 1..8_u64, load in 1e-3..0.05_f64, period in 2.0..40.0_f64) {
        let host = host(ring);
        let napi = solve(&host, &format!("napi-2007:period={period}us,quota=24"), load * 1e6);
        let plain = solve(&host, "disable-enable:merged=false", load * 1e6);
        agree(&napi, &plain, 1e-9, "napi-2007");
        let remembering = solve(&host, &format!("napi-2007:period={period}us,quota=24,remember=true"), load * 1e6);
        agree(&remembering, &plain, 1e-9, "napi-2007 that remembers");
    }

    /// With any ring and load, shares are between 0 and 1, and packets are conserved.
    #[test]
    fn shares_and_packets_add_up(
        ring in 1..40_u64,
        load in 0.02..4.0_f64,
        period in 5.0..30.0_f64,
        quota in 1..6_u64,
        napi: bool,
        remember: bool,
    ) {
        let name = if napi { "napi-2007" } else { "polling" };
        let more = if napi && remember { ",remember=true" } else { "" };
        let outcome = solve(&host(ring), &format!("{name}:period={period}us,quota={quota}{more}"), load * 1e6);
        let [throughput, loss, latency, interrupt, protocol, available] = figures(&outcome);
        let poll = outcome.cpu.unwrap().poll.unwrap().value;
        prop_assert!((interrupt + poll + protocol + available - 1.0).abs() < 1e-12);
        prop_assert!((throughput / (load * 1e6 * (1.0 - loss)) - 1.0).abs() < 1e-9, "{throughput} {loss}");
        prop_assert!((1e-6..1.0).contains(&latency));
        if !napi {
            // Each tick costs its overhead, whatever the load.
            prop_assert!((poll / (1.59 / period) - 1.0).abs() < 1e-9, "{poll}");
            prop_assert!(throughput <= quota as f64 / period * 1e6 * (1.0 + 1e-9));
        }
    }
}

/// With ticks that cost nothing, polling approaches ideal as the period shrinks; the wait for a tick is half a period.
#[test]
fn polling_at_once_is_ideal() {
    let host = Host { poll_s: 0.0, ..host(12) };
    for pps in [100e3, 700e3, 2e6] {
        let ideal = figures(&solve(&host, "ideal", pps));
        let slow = figures(&solve(&host, "polling:period=0.04us,quota=8", pps));
        let fast = figures(&solve(&host, "polling:period=0.02us,quota=8", pps));
        for i in [0, 4, 5] {
            assert!((fast[i] - ideal[i]).abs() < 0.02 * ideal[i], "{pps} {i}: {} {}", fast[i], ideal[i]);
        }
        // Half the period halves the remaining difference.
        let (far, near) = (slow[2] - ideal[2], fast[2] - ideal[2]);
        assert!(near.abs() < 0.02 * ideal[2] && (near / far - 0.5).abs() < 0.03, "{pps}: {far} {near}");
    }
}

/// The limit at low load is T_poll/2 + 1/mu for an overhead o of constant length (packets that arrive during it wait
/// less); an exponential overhead adds its variance / T_poll.
#[test]
fn polling_at_low_load() {
    let latency = figures(&solve(&host(64), "polling:period=20us,quota=3", 1.0))[2];
    let want = 10e-6 + 1.59e-6 * 1.59e-6 / 20e-6 + 1e-6;
    assert!((latency / want - 1.0).abs() < 1e-4, "{latency} {want}");
}
