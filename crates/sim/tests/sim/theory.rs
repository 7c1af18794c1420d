//! Simulation against theory: exact values must lie within the computed 99 % intervals. Seeds are fixed and named.

use netcliff_core::{Engine, Host, Outcome, Point, Scheme, Service};
use netcliff_sim::SimEngine;

const CONFIDENCE: f64 = 0.99;

fn simulate(host: &Host, scheme: &str, pps: f64, seed: u64, packets: u64) -> Outcome {
    let scheme: Scheme = scheme.parse().unwrap();
    let point = Point::poisson(host.clone(), scheme, pps);
    let engine = SimEngine { confidence: CONFIDENCE, ..SimEngine::with_packets(seed, packets) };
    engine.evaluate(&point).unwrap()
}

fn paper() -> Host {
    Host::pentium4_2530mhz()
}

/// Mean number and loss of a finite birth-death process.
fn birth_death(rho: f64, slots: i32) -> (f64, f64) {
    let weights: Vec<f64> = (0..=slots).map(|n| rho.powi(n)).collect();
    let total: f64 = weights.iter().sum();
    let mean = weights.iter().enumerate().map(|(n, w)| n as f64 * w).sum::<f64>() / total;
    (mean, weights[slots as usize] / total)
}

#[test]
fn m_m_1_b_number_loss_and_latency() {
    let mut host = paper();
    for (seed, rho, slots) in [(1, 0.5, 8), (2, 0.9, 20), (3, 1.0, 10), (4, 1.5, 5), (5, 0.8, 1024)] {
        host.ring = slots;
        let lambda = rho * host.mu_pps(64.0);
        let (number, loss) = birth_death(rho, slots as i32);
        let outcome = simulate(&host, "ideal", lambda, seed, 2_000_000);
        let got = outcome.packets_in_system.unwrap();
        assert!(got.covers(number), "rho {rho} B {slots}: N {got:?}, exact {number}");
        let got = outcome.loss_fraction.unwrap();
        assert!(loss < 1e-9 || got.covers(loss), "rho {rho} B {slots}: loss {got:?}, exact {loss}");
        let latency = number / (lambda * (1.0 - loss));
        let got = outcome.latency_s.unwrap().mean.unwrap();
        assert!(got.covers(latency), "rho {rho} B {slots}: latency {got:?}, exact {latency}");
        let got = outcome.throughput_pps.unwrap();
        assert!(got.covers(lambda * (1.0 - loss)), "rho {rho} B {slots}: throughput {got:?}");
    }
}

/// Mean of M/D/1 (Pollaczek and Khinchine), and the median of M/M/1's latency: ln 2 / (mu - lambda).
#[test]
fn m_d_1_mean_and_m_m_1_quantiles() {
    let mut host = paper();
    let service = host.service_s(64.0);
    let lambda = 0.7 / service;
    let outcome = simulate(&host, "ideal", lambda, 6, 2_000_000);
    let latency = outcome.latency_s.unwrap();
    let rate = 1.0 / service - lambda;
    for (got, share) in [(latency.p50, 0.5), (latency.p90, 0.9), (latency.p99, 0.99), (latency.p999, 0.999)] {
        let exact = -(1.0_f64 - share).ln() / rate;
        assert!(got.unwrap().covers(exact), "quantile {share}: {got:?}, exact {exact}");
    }
    host.service = Service::Deterministic;
    let exact = service * (1.0 + 0.7 / (2.0 * 0.3));
    let got = simulate(&host, "ideal", lambda, 7, 2_000_000).latency_s.unwrap().mean.unwrap();
    assert!(got.covers(exact), "{got:?}, exact {exact}");
}

/// docs/theory/chains.md: exact E[T] of the interrupt scheme at 10, 50, 100 and 120 kpps, to four digits.
#[test]
fn interrupt_latency_is_the_exact_chain() {
    for (seed, kpps, micros) in [(11, 10.0, 9.81), (12, 50.0, 14.73), (13, 100.0, 41.46), (14, 120.0, 158.3)] {
        let outcome = simulate(&paper(), "interrupt", kpps * 1e3, seed, 4_000_000);
        let got = outcome.latency_s.unwrap().mean.unwrap().scaled(1e6);
        let ends = got.interval.unwrap();
        let printed = 0.0005 * micros;
        assert!(ends.low - printed <= micros && micros <= ends.high + printed, "{kpps} kpps: {got:?}, exact {micros}");
    }
}

/// Capacity of the exact chain: sigma = rho + lambda/(lambda+r) = 1.
#[test]
fn interrupt_cpu_available_is_one_minus_sigma() {
    let host = paper();
    let (mu, r) = (host.mu_pps(64.0), 1.0 / host.interrupt_s);
    for (seed, lambda) in [(15, 30e3), (16, 90e3)] {
        let exact = 1.0 - lambda / mu - lambda / (lambda + r);
        let got = simulate(&host, "interrupt", lambda, seed, 1_000_000).cpu.unwrap().available.unwrap();
        assert!(got.covers(exact), "{lambda}: {got:?}, exact {exact}");
    }
}

/// docs/theory/host.md: at 1 Mpps the throughput is 39.6 kpps if dropped packets interrupt, 116.4 kpps if not; exactly
/// lambda (1 - p_B) of docs/theory/chains.md.
#[test]
fn livelock_is_seen_when_drops_interrupt() {
    let host = paper();
    let (mu, r, lambda) = (host.mu_pps(64.0), 1.0 / host.interrupt_s, 1e6);
    let (rho, slots) = (lambda / mu, host.ring as i32);
    let sigma: f64 = rho + lambda / (lambda + r);
    for (seed, scheme, kappa, printed) in [
        (17, "interrupt:drops_interrupt=true", rho + lambda / r * (1.0 + rho), 39.6e3),
        (18, "interrupt:drops_interrupt=false", rho + lambda / r, 116.4e3),
    ] {
        let below: f64 = (0..slots).map(|k| sigma.powi(-k)).sum();
        let exact = lambda * (1.0 - kappa / (kappa + below));
        assert!((exact / printed - 1.0).abs() < 2e-3, "{scheme}: {exact}");
        let got = simulate(&host, scheme, lambda, seed, 4_000_000).throughput_pps.unwrap();
        assert!(got.covers(exact), "{scheme}: {got:?}, exact {exact}");
    }
}

/// docs/theory/chains.md: available CPU of the merged chain at 10, 50, 100 and 150 kpps, to four digits.
#[test]
fn disable_enable_cpu_available() {
    for (seed, kpps, exact) in [(21, 10.0, 0.9082), (22, 50.0, 0.6050), (23, 100.0, 0.3275), (24, 150.0, 0.1217)] {
        let outcome = simulate(&paper(), "disable-enable:merged=true", kpps * 1e3, seed, 2_000_000);
        let got = outcome.cpu.unwrap().available.unwrap();
        let ends = got.interval.unwrap();
        assert!(ends.low - 5e-5 <= exact && exact <= ends.high + 5e-5, "{kpps} kpps: {got:?}, exact {exact}");
    }
}

/// docs/theory/chains.md: at 100 kpps with m + s = 4.23 us, 17.28 us merged against 15.69 us in two stages.
#[test]
fn disable_enable_latency_merged_and_in_two_stages() {
    let host = Host { protocol_s: 5.34e-6, per_byte_s: 0.0, ..paper() };
    for (seed, scheme, micros) in
        [(25, "disable-enable:merged=true", 17.28), (26, "disable-enable:merged=false", 15.69)]
    {
        let got = simulate(&host, scheme, 100e3, seed, 4_000_000).latency_s.unwrap().mean.unwrap().scaled(1e6);
        let ends = got.interval.unwrap();
        assert!(ends.low - 0.005 <= micros && micros <= ends.high + 0.005, "{scheme}: {got:?}, exact {micros}");
    }
}

/// With a long queue and polls that use their whole weight Q, the capacity of NAPI is Q/(Q/mu + o), at any load above
/// it.
#[test]
fn napi_capacity_is_weight_over_poll_time() {
    let host = paper();
    for (seed, backlog) in [(27, false), (28, true)] {
        let outcome = simulate(&host, &format!("napi:weight=16,backlog={backlog}"), 400e3, seed, 1_000_000);
        let exact = 16.0 / (16.0 * host.service_s(64.0) + host.poll_s);
        let got = outcome.throughput_pps.unwrap();
        assert!(got.covers(exact), "backlog {backlog}: {got:?}, exact {exact}");
        // Every poll takes 16 packets. In each replication, the first and the last of the 2500 or more polls may be cut
        // by the ends of the window.
        let per_poll = outcome.packets_per_poll.unwrap();
        assert!((per_poll.value - 16.0).abs() < 16.0 / 2_500.0, "{per_poll:?}");
        assert!(outcome.interrupts_per_s.unwrap().value < 10.0);
    }
}

/// Polling with T = 20 us and Q = 3 in overload: 150.0 kpps with constant times. With exponential times 140.02 kpps and
/// 0.1724 of the CPU left, by a recursion over 1.5e6 saturated cycles that was written separately (its error: 0.1 kpps,
/// 0.001). The limit at low load is T/2 + 1/mu.
#[test]
fn polling_at_overload_and_at_rest() {
    let mut host = Host { protocol_s: 5.34e-6, per_byte_s: 0.0, ..paper() };
    let scheme = "polling:period=20us,quota=3";
    let exponential = simulate(&host, scheme, 400e3, 31, 2_000_000);
    let ends = exponential.throughput_pps.unwrap().interval.unwrap();
    assert!(ends.low - 100.0 < 140.02e3 && 140.02e3 < ends.high + 100.0, "{ends:?}");
    let ends = exponential.cpu.unwrap().available.unwrap().interval.unwrap();
    assert!(ends.low - 1e-3 < 0.1724 && 0.1724 < ends.high + 1e-3, "{ends:?}");
    host.service = Service::Deterministic;
    let got = simulate(&host, scheme, 400e3, 32, 1_000_000).throughput_pps.unwrap();
    assert!((got.value / 150e3 - 1.0).abs() < 1e-4, "{got:?}");
    let got = simulate(&host, scheme, 100.0, 33, 200_000).latency_s.unwrap().mean.unwrap();
    assert!(got.covers(10e-6 + 5.34e-6), "{got:?}");
}

/// docs/theory/chains.md, masked coalescing at 100 kpps: latencies of 48.6, 42.7 and 40.1 us by count, timer and both
/// (three digits).
#[test]
fn masked_coalescing_latency() {
    let host = Host { protocol_s: 5.34e-6, per_byte_s: 0.0, mask_s: 0.0, ..paper() };
    for (seed, scheme, micros) in [
        (34, "coalesce:frames=8,masked=true", 48.6),
        (35, "coalesce:usecs=50us,masked=true", 42.7),
        (36, "coalesce:frames=8,usecs=50us,masked=true", 40.1),
    ] {
        let got = simulate(&host, scheme, 100e3, seed, 4_000_000).latency_s.unwrap().mean.unwrap().scaled(1e6);
        let ends = got.interval.unwrap();
        assert!(ends.low - 0.05 <= micros && micros <= ends.high + 0.05, "{scheme}: {got:?}, exact {micros}");
    }
}

/// Unmasked coalescing: interrupts/s = lambda r/(lambda + tau_e r), with tau_e by count, timers and gap; and the
/// resulting available CPU.
#[test]
fn unmasked_coalescing_interrupt_rates() {
    let host = paper();
    let (lambda, s) = (100e3, host.interrupt_s);
    for (seed, scheme, packets) in [
        (37, "coalesce:frames=1", 1.0),
        (38, "coalesce:frames=4", 4.0),
        (39, "coalesce:usecs=50us", 1.0 + lambda * 50e-6),
        (40, "coalesce:min_gap=30us", lambda * 30e-6 + (-lambda * 30e-6_f64).exp()),
        (41, "coalesce:packet_timer=15us", (lambda * 15e-6_f64).exp()),
    ] {
        let outcome = simulate(&host, scheme, lambda, seed, 2_000_000);
        let exact = lambda / (packets + lambda * s);
        let got = outcome.interrupts_per_s.unwrap();
        assert!(got.covers(exact), "{scheme}: {got:?}, exact {exact}");
        let available = 1.0 - lambda * host.service_s(64.0) - exact * s;
        let got = outcome.cpu.unwrap().available.unwrap();
        assert!(got.covers(available), "{scheme}: {got:?}, exact {available}");
    }
}

/// The hybrid equals disable-enable below its switching rate and polling above it.
#[test]
fn hybrid_is_its_parts() {
    let available = |scheme: &str, pps| simulate(&paper(), scheme, pps, 42, 400_000).cpu.unwrap().available.unwrap();
    for (part, pps) in [("disable-enable", 60e3), ("polling", 400e3)] {
        let (part, hybrid) = (available(part, pps), available("hybrid", pps));
        let half = |figure: netcliff_core::Figure| figure.interval.map_or(0.0, |ends| (ends.high - ends.low) / 2.0);
        assert!((part.value - hybrid.value).abs() < half(part) + half(hybrid), "{pps}: {part:?} {hybrid:?}");
    }
}

/// Dynamic moderation moves to long timers if they cost no throughput, which gives fewer interrupts than its first
/// profile.
#[test]
fn dim_saves_interrupts() {
    let rate = |scheme: &str| simulate(&paper(), scheme, 100e3, 43, 400_000).interrupts_per_s.unwrap().value;
    let (fixed, adaptive) = (rate("coalesce:frames=256,usecs=8us,masked=true"), rate("dim"));
    assert!(adaptive < 0.9 * fixed, "dim {adaptive}, its start {fixed}");
}

/// Deferred hard interrupts with a long flush timeout let the timer start all polls: one timer interrupt per period
/// while packets arrive.
#[test]
fn deferred_interrupts_poll_by_timer() {
    let host = Host { service: Service::Deterministic, mask_s: 0.0, ..paper() };
    let outcome = simulate(&host, "napi:defer_hard_irqs=2,gro_flush_timeout=100us", 50e3, 44, 400_000);
    // One period consists of the timer, its interrupt, the poll, and 5.x packets at 50 kpps: (100 + s + o) / (1 - rho)
    // us.
    let period_s = (100e-6 + host.interrupt_s + host.poll_s) / (1.0 - 50e3 * host.service_s(64.0));
    let got = outcome.interrupts_per_s.unwrap();
    assert!((got.value * period_s - 1.0).abs() < 0.01, "{got:?}, {}", 1.0 / period_s);
    assert!(outcome.latency_s.unwrap().mean.unwrap().value > 50e-6);
}
