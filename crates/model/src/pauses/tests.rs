use std::sync::Arc;

use netcliff_core::host::Empirical;
use netcliff_core::{Engine, Point};

use super::*;
use crate::ModelEngine;

fn pauses(mean_s: f64, every_s: f64, times: PauseTimes) -> Pauses {
    Pauses { mean_s, every_s, times }
}

fn near(got: f64, want: f64, within: f64) {
    assert!((got / want - 1.0).abs() < within, "got {got}, expected {want}");
}

/// docs/theory/pauses.md at mu = 500 kpps with a pause each 50 ms: the loss of the chain, and the loss of the fluid
/// model, which is 3, 3 and 9 % lower.
#[test]
fn long_pauses_lose_what_theory_says() {
    for (pps, ring, mean_s, chain, below) in
        [(300e3, 200, 0.5e-3, 2.70e-3, 0.03), (100e3, 100, 0.5e-3, 1.38e-3, 0.03), (300e3, 200, 0.2e-3, 1.56e-4, 0.09)]
    {
        let pauses = pauses(mean_s, 50e-3, PauseTimes::Exponential);
        let fluid = loss(pps, ring, &pauses);
        assert!((1.0 - fluid / chain - below).abs() < 0.006, "{pps} {ring}: {fluid}, {chain}");
        let mut host = Host { protocol_s: 2e-6, per_byte_s: 0.0, ring, ..Host::pentium4_2530mhz() };
        (host.pause_s, host.pause_every_s) = (Some(mean_s), Some(50e-3));
        let point = Point::poisson(host, "ideal".parse().unwrap(), pps);
        let exact = ModelEngine::default().evaluate(&point).unwrap().loss_fraction.unwrap().value;
        // The document prints three digits.
        near(exact, chain, 0.004);
    }
}

/// nu E[(R - K/lambda)+], the loss of a fluid queue by pauses alone, by Simpson's rule over the density of an Erlang
/// length.
#[test]
fn what_lasts_beyond_the_buffer_is_the_integral() {
    for (stages, time) in [(1, 0.3), (1, 4.0), (4, 0.0), (4, 0.5), (4, 2.5), (30, 1.1)] {
        let rate = f64::from(stages);
        let log_factorial: f64 = (1..stages).map(|j| f64::from(j).ln()).sum();
        let density = |r: f64| {
            let power = if stages == 1 { 0.0 } else { (rate - 1.0) * r.ln() };
            (rate * rate.ln() + power - rate * r - log_factorial).exp()
        };
        let (steps, end) = (200_000_u32, 40.0);
        let width = (end - time) / f64::from(steps);
        let at = |n: u32| {
            let r = time + width * f64::from(n);
            (r - time) * if r > 0.0 { density(r) } else { 0.0 }
        };
        let inner: f64 = (1..steps).map(|n| at(n) * if n % 2 == 1 { 4.0 } else { 2.0 }).sum();
        let integral = (at(0) + inner + at(steps)) * width / 3.0;
        near(erlang_beyond(stages, time), integral, 1e-6);
    }
    near(beyond_s(&pauses(1e-3, 1.0, PauseTimes::Exponential), 2e-3), erlang_beyond(1, 2.0) * 1e-3, 1e-12);
}

#[test]
fn the_cliff_is_where_the_loss_is() {
    let (every_s, buffer, target) = (50e-3, 200, 1e-4);
    let nu = |mean_s: f64| 1.0 / (every_s + mean_s);
    let constant = pauses(1e-3, every_s, PauseTimes::Constant);
    near(cliff_pps(target, buffer, &constant).unwrap(), 200.0 / (1e-3 - target / nu(1e-3)), 1e-12);
    let exponential = pauses(1e-3, every_s, PauseTimes::Exponential);
    near(cliff_pps(target, buffer, &exponential).unwrap(), 200.0 / (1e-3 * (nu(1e-3) * 1e-3 / target).ln()), 1e-12);
    let measured = MeasuredTimes::new(vec![(0.2e-3, 8.0), (4e-3, 2.0)]).unwrap();
    let times = PauseTimes::Empirical(Empirical { file: "made".to_owned(), times: Some(Arc::new(measured)) });
    let measured = pauses(0.96e-3, every_s, times);
    for pauses in [&constant, &exponential, &measured, &pauses(1e-3, every_s, PauseTimes::Erlang(7))] {
        let cliff = cliff_pps(target, buffer, pauses).unwrap();
        near(loss(cliff, buffer, pauses), target, 1e-9);
    }
    assert_eq!(cliff_pps(0.5, buffer, &exponential), None);
}

/// Moments of measured lengths follow from their parts: equal lengths are a constant.
#[test]
fn measured_lengths_of_one_kind_are_constant() {
    let measured = MeasuredTimes::new(vec![(2e-4, 3.0)]).unwrap();
    let times = PauseTimes::Empirical(Empirical { file: "made".to_owned(), times: Some(Arc::new(measured)) });
    let service = ServiceTimes { mean_s: 5e-6, squared_mean_s2: 5e-11 };
    let latency = |times| mean_latency_s(1e5, service, &pauses(2e-4, 1e-3, times)).unwrap();
    near(latency(times), latency(PauseTimes::Constant), 1e-12);
    assert!(latency(PauseTimes::Constant) < latency(PauseTimes::Erlang(2)));
    assert!(latency(PauseTimes::Erlang(2)) < latency(PauseTimes::Exponential));
    assert_eq!(mean_latency_s(2e5, service, &pauses(2e-4, 1e-3, PauseTimes::Constant)), None);
}

#[test]
fn the_budget_is_that_of_the_buffer_that_is_full_first() {
    let host = |application_s, socket_buffer| Host {
        protocol_s: 2e-6,
        per_byte_s: 0.0,
        ring: 1000,
        application_s,
        socket_buffer,
        ..Host::pentium4_2530mhz()
    };
    let ring = Budget { longest_s: 10e-3, first: Buffer::Ring };
    assert_eq!(budget(&host(None, 1), 64.0, 100e3), Some(ring));
    assert_eq!(budget(&host(Some(1e-6), 1300), 64.0, 100e3), Some(ring));
    // 100 kpps x 2 us = 0.2: the socket gets 1/0.8 of the packets that arrive in a pause.
    let found = budget(&host(Some(1e-6), 400), 64.0, 100e3).unwrap();
    near(found.longest_s, 0.8 * 400.0 / 100e3, 1e-12);
    assert_eq!(found.first, Buffer::Socket);
    assert_eq!(budget(&host(Some(8.1e-6), 400), 64.0, 100e3), None);
    near(drain_s(100e3, 500e3, 1e-3).unwrap(), 0.25e-3, 1e-12);
    assert_eq!(drain_s(100e3, 100e3, 1e-3), None);
}
