//! No parameter in range gives NaN, a negative figure, or shares that do not sum to 1; loss never falls with load.

use netcliff_core::{Engine, EngineFailure, Host, Outcome, Point};
use netcliff_model::{Fidelity, ModelEngine};
use proptest::prelude::*;

const CHEAP: &[&str] = &[
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
];

fn host(places: u64, isr_over_service: f64) -> Host {
    Host {
        ring: places,
        interrupt_s: 1e-6 * isr_over_service,
        protocol_s: 1e-6,
        per_byte_s: 0.0,
        ..Host::pentium4_2530mhz()
    }
}

fn solve(host: &Host, fidelity: Fidelity, scheme: &str, rho: f64, quantiles: bool) -> Outcome {
    let point = Point::poisson(host.clone(), scheme.parse().unwrap(), rho * 1e6);
    let engine = ModelEngine { quantiles, ..ModelEngine::new(fidelity) };
    engine.evaluate(&point).unwrap_or_else(|error| panic!("{scheme} {rho} {}: {error}", host.ring))
}

/// Returns the outcome; `None` if the model refuses the point, always with a reason.
fn answered(host: &Host, scheme: &str, rho: f64) -> Option<Outcome> {
    let point = Point::poisson(host.clone(), scheme.parse().unwrap(), rho * 1e6);
    let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
    match engine.evaluate(&point) {
        Ok(outcome) => Some(outcome),
        Err(EngineFailure::Unsupported(_)) => None,
        Err(other) => panic!("{scheme} {rho} {}: {other}", host.ring),
    }
}

/// Checks every figure of an outcome. The figures are listed from its JSON, so that none can be forgotten.
fn sound(outcome: &Outcome, what: &str) {
    let cpu = outcome.cpu.unwrap();
    let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available];
    let total: f64 = shares.iter().flatten().map(|share| share.value).sum();
    assert!((total - 1.0).abs() < 1e-12, "{what}: shares sum to {total}");
    let latency = outcome.latency_s.unwrap();
    let figures = shares.into_iter().chain([
        outcome.throughput_pps,
        outcome.goodput_bps,
        outcome.loss_fraction,
        outcome.interrupts_per_s,
        outcome.polls_per_s,
        outcome.packets_per_poll,
        outcome.packets_in_system,
        latency.mean,
        latency.p50,
        latency.p999,
    ]);
    for figure in figures.flatten() {
        assert!(figure.value.is_finite() && figure.value >= 0.0, "{what}: {outcome:?}");
    }
    assert!(outcome.loss_fraction.unwrap().value <= 1.0 + 1e-12, "{what}");
}

#[test]
fn corners() {
    for scheme in CHEAP {
        for places in [1, 2, 64, 1024, 1_000_000] {
            for rho in [1e-9, 1e-3, 0.5, 1.0 - 1e-12, 1.0, 1.0 + 1e-12, 2.0, 1e3, 1e6] {
                for isr in if places > 2000 { vec![0.0, 1.0] } else { vec![0.0, 1e-11, 1e-3, 1.0, 1e3] } {
                    for fidelity in [Fidelity::Paper, Fidelity::Exact] {
                        let outcome = solve(&host(places, isr), fidelity, scheme, rho, places <= 64);
                        sound(&outcome, &format!("{scheme} B={places} rho={rho} isr={isr}"));
                    }
                }
            }
        }
    }
}

#[test]
fn corners_of_the_rest() {
    for scheme in [
        "coalesce:frames=1,masked=true",
        "coalesce:usecs=50us,masked=true",
        "coalesce:frames=8",
        "coalesce:usecs=50us",
        "coalesce:packet_timer=20us,masked=true",
        "coalesce:frames=8,usecs=50us",
        "coalesce:min_gap=250us",
    ] {
        for places in [8, 64, 1024] {
            for rho in [1e-9, 1e-3, 0.5, 1.0, 2.0, 1e3, 1e6] {
                // A point without an answer has a reason; up to twice saturation, all schemes here have an answer.
                if let Some(outcome) = answered(&host(places, 1.0), scheme, rho) {
                    sound(&outcome, &format!("{scheme} B={places} rho={rho}"));
                } else {
                    assert!(
                        rho > 2.0 || scheme.contains("usecs") || scheme.contains("gap"),
                        "{scheme} B={places} rho={rho}"
                    );
                }
            }
        }
    }
    for service in ["deterministic", "erlang:stages=3", "lognormal:cv=0.7"] {
        for scheme in ["ideal", "disable-enable:merged=false"] {
            for places in [1, 8, 1024] {
                for rho in [1e-9, 0.5, 1.0, 2.0, 1e3, 1e6] {
                    let host = Host { service: service.parse().unwrap(), ..host(places, 1.0) };
                    let outcome = solve(&host, Fidelity::Exact, scheme, rho, false);
                    sound(&outcome, &format!("{scheme} {service} B={places} rho={rho}"));
                }
            }
        }
    }
    let host = Host { service: "deterministic".parse().unwrap(), poll_s: 1e-6, ..host(100, 1.0) };
    let mut last = 0.0;
    for rho in [1e-6, 0.1, 0.5, 0.6, 0.7, 1.0, 3.0, 10.0] {
        let outcome = solve(&host, Fidelity::Exact, "polling:period=20us,quota=12", rho, false);
        sound(&outcome, &format!("polling {rho}"));
        let loss = outcome.loss_fraction.unwrap().value;
        assert!(loss >= last);
        last = loss;
    }
}

#[test]
fn corners_of_napi() {
    for places in [1, 2, 64, 1024, 1_000_000] {
        for rho in [1e-9, 0.5, 2.0, 1e3, 1e6] {
            for weight in [1, 4] {
                let outcome =
                    solve(&host(places, 1.0), Fidelity::Exact, &format!("napi:weight={weight}"), rho, places <= 64);
                sound(&outcome, &format!("napi {weight} B={places} rho={rho}"));
            }
        }
    }
}

// Each run tests new random hosts, each at 60 loads: a fault that affects one host in 20 is found with a probability of
// 95 %.
proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Interrupts take up to one service time. With longer interrupts the loss can fall as the load grows, because a
    /// longer busy period saves an interrupt (disable-enable, B = 3, s = 107 services; the referee agrees).
    #[test]
    fn loss_rises_with_load(scheme in prop::sample::select(CHEAP), places in 1..2000_u64, isr in -5.0..0.0_f64) {
        let host = host(places, isr.exp());
        let mut last = 0.0;
        for step in -20..40 {
            let rho = (f64::from(step) * 0.2).exp();
            let outcome = solve(&host, Fidelity::Exact, scheme, rho, false);
            sound(&outcome, scheme);
            let loss = outcome.loss_fraction.unwrap().value;
            prop_assert!(loss >= last * (1.0 - 1e-12), "{scheme} {places} rho {rho}: {loss} after {last}");
            last = loss;
        }
    }

    #[test]
    fn latency_means_are_littles(scheme in prop::sample::select(CHEAP), places in 1..64_u64, load in -3.0..3.0_f64) {
        let outcome = solve(&host(places, 0.7), Fidelity::Exact, scheme, load.exp(), true);
        let latency = outcome.latency_s.unwrap();
        if let (Some(p50), Some(p999)) = (latency.p50, latency.p999) {
            prop_assert!(p50.value < p999.value);
            prop_assert!(latency.mean.unwrap().value < p999.value);
        }
    }
}

/// The same point gives the same bits, because sums over the places of lib/dim's walk have a fixed order.
#[test]
fn the_same_question_has_the_same_bits() {
    for (scheme, rho) in [("dim", 0.3), ("dim:profile=cqe,start=1", 0.6), ("dim:start=4", 0.95), ("napi", 0.8)] {
        let host = Host { application_s: None, ..Host::pentium4_2530mhz() };
        let answers: Vec<String> = (0..6)
            .map(|_| {
                let point = Point::poisson(host.clone(), scheme.parse().unwrap(), rho * 2e5);
                format!("{:?}", ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).unwrap())
            })
            .collect();
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{scheme} at {rho}: {answers:#?}");
    }
}
