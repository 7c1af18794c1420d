//! The figures that THEORY.md marks [checked].

use netcliff_core::{Engine, Host, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};

fn solve_on(host: Host, fidelity: Fidelity, scheme: &str, pps: f64) -> Outcome {
    let point = Point { host, scheme: scheme.parse().unwrap(), traffic: Traffic::poisson(pps) };
    ModelEngine::new(fidelity).evaluate(&point).unwrap()
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.latency_s.unwrap().mean.unwrap().value * 1e6
}

fn near(got: f64, want: f64, half_digit: f64) {
    assert!((got - want).abs() <= half_digit, "got {got}, THEORY says {want}");
}

/// The preset at 1/mu = 5.34 us, as THEORY rounds it (5.25 us + 64 / 748 MB/s = 5.3356 us).
fn rounded() -> Host {
    Host { protocol_s: 5.34e-6, per_byte_s: 0.0, ..Host::pentium4_2530mhz() }
}

#[test]
fn interrupt_latency_paper_and_exact() {
    for (pps, paper, exact) in [(10e3, 9.59, 9.81), (50e3, 13.00, 14.73), (100e3, 31.21, 41.46), (120e3, 110.5, 158.3)]
    {
        let host = Host { ring: 1_000_000, ..rounded() };
        near(mean_us(&solve_on(host.clone(), Fidelity::Paper, "interrupt:drops_interrupt=true", pps)), paper, 0.06);
        near(mean_us(&solve_on(host, Fidelity::Exact, "interrupt:drops_interrupt=true", pps)), exact, 0.06);
    }
}

#[test]
fn interrupt_overload_floor() {
    for (drops, kpps) in [(true, 39.6), (false, 116.4)] {
        let got = solve_on(rounded(), Fidelity::Exact, &format!("interrupt:drops_interrupt={drops}"), 1e6);
        near(got.throughput_pps.unwrap().value / 1e3, kpps, 0.05);
    }
}

#[test]
fn disable_enable_available_and_latency() {
    for (pps, available) in [(10e3, 0.9082), (50e3, 0.6050), (100e3, 0.3275), (150e3, 0.1217)] {
        for merged in [true, false] {
            let outcome = solve_on(rounded(), Fidelity::Exact, &format!("disable-enable:merged={merged}"), pps);
            near(outcome.cpu.unwrap().available.unwrap().value, available, 6e-5);
        }
    }
    near(mean_us(&solve_on(rounded(), Fidelity::Exact, "disable-enable:merged=true", 100e3)), 17.28, 0.006);
    near(mean_us(&solve_on(rounded(), Fidelity::Exact, "disable-enable:merged=false", 100e3)), 15.69, 0.006);
}

#[test]
fn napi_without_quota_is_disable_enable_with_a_poll() {
    let host = rounded();
    let scheme: Scheme = "napi:weight=256".parse().unwrap();
    let point = Point { host, scheme, traffic: Traffic::poisson(100e3) };
    let outcome = ModelEngine::default().evaluate(&point).unwrap();
    let cpu = outcome.cpu.unwrap();
    // An interrupt a completion; idle follows if nothing comes while m unmasks: with k completions a second
    // k (2 m + s + o) + rho + V = 1 and V = k/(lambda (1 + lambda m)).
    let completions = 100e3 * (1.0 + 100e3 * 0.5e-6);
    near(cpu.available.unwrap().value, (1.0 - 0.534) / (1.0 + completions * 6.32e-6), 1e-9);
    near(outcome.interrupts_per_s.unwrap().value, completions * cpu.available.unwrap().value, 1e-5);
}

/// Cliffs of the paper's unmasked coalescing: no loss just below, loss just above.
#[test]
fn unmasked_coalescing_cliffs() {
    let host = Host { ring: 100_000, ..Host::pentium4_2530mhz() };
    for (frames, kpps) in [(1, 127.1), (2, 147.0), (4, 162.6), (8, 173.3), (16, 179.7)] {
        let loss = |share: f64| {
            let outcome =
                solve_on(host.clone(), Fidelity::Paper, &format!("coalesce:frames={frames}"), kpps * 1e3 * share);
            outcome.loss_fraction.unwrap().value
        };
        assert!(loss(0.998) < 1e-6 && loss(1.002) > 1e-4, "tau = {frames}: {} {}", loss(0.998), loss(1.002));
    }
}

#[test]
fn masked_coalescing_latency() {
    for (scheme, us) in [
        ("coalesce:frames=8,masked=true", 48.6),
        ("coalesce:usecs=50us,masked=true", 42.7),
        ("coalesce:frames=8,usecs=50us,masked=true", 40.1),
    ] {
        near(mean_us(&solve_on(Host { mask_s: 0.0, ..rounded() }, Fidelity::Exact, scheme, 100e3)), us, 0.06);
    }
}

/// With Q = 3 and deterministic times at overload: 150.0 kpps, Q/T_poll.
#[test]
fn polling_overload_and_low_load() {
    let host = Host { service: netcliff_core::Service::Deterministic, ..rounded() };
    let overload = solve_on(host.clone(), Fidelity::Exact, "polling:period=20us,quota=3", 400e3);
    near(overload.throughput_pps.unwrap().value / 1e3, 150.0, 0.001);
    let low = solve_on(host.clone(), Fidelity::Exact, "polling:period=20us,quota=3", 10.0);
    near(mean_us(&low), 15.34, 0.1);
    let paper = solve_on(rounded(), Fidelity::Paper, "polling:period=20us,quota=3", 10.0);
    near(mean_us(&paper), 15.34, 0.01);
}
