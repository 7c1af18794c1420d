//! Points at which an independent simulator, written from docs/theory alone, found errors of the model. Expected values
//! are the simulator's results from about 1e7 packets, to four digits; results of dense chains are compared to 1e-6.

use netcliff_core::note::Note;
use netcliff_core::{Engine, EngineFailure, Host, Outcome, Point, Traffic};
use netcliff_model::ModelEngine;

fn point(scheme: &str, rate: &str, set: &[&str]) -> Point {
    let mut host = Host::pentium4_2530mhz();
    set.iter().for_each(|assignment| host.set(assignment).unwrap());
    let traffic = Traffic { link_bps: 1e12, ..Traffic::default() };
    Point { host, scheme: scheme.parse().unwrap(), traffic, load: rate.parse().unwrap() }
}

fn answer(point: &Point) -> Result<Outcome, EngineFailure> {
    ModelEngine::default().evaluate(point)
}

fn predict(scheme: &str, rate: &str, set: &[&str]) -> Outcome {
    answer(&point(scheme, rate, set)).unwrap_or_else(|error| panic!("{scheme} {rate} {set:?}: {error}"))
}

/// [throughput (pps), loss, mean latency (s)].
fn figures(outcome: &Outcome) -> [f64; 3] {
    [
        outcome.throughput_pps.unwrap().value,
        outcome.loss_fraction.unwrap().value,
        outcome.latency_s.unwrap().mean.unwrap().value,
    ]
}

fn near(found: f64, want: f64, relative: f64, what: &str) {
    assert!((found / want - 1.0).abs() <= relative, "{what}: {found}, not {want}");
}

/// At these points figures once were NaN.
#[test]
fn saturation_has_figures() {
    let [throughput, loss, latency] = figures(&predict("dim", "400kpps", &[]));
    near(throughput, 187_422.0, 1e-3, "dim throughput");
    near(loss, 0.531, 2e-3, "dim loss");
    near(latency, 5.46e-3, 2e-3, "dim latency");
    for (scheme, pps) in [("polling", 140.2e3), ("hybrid", 140.2e3)] {
        let [throughput, ..] = figures(&predict(scheme, "18Mpps", &["ring=64"]));
        near(throughput, pps, 2e-3, scheme);
    }
    // The ring is always full: a period is a poll with its overhead and three services, then a wait for the next tick.
    let [throughput, ..] = figures(&predict("napi-2007:period=20us,quota=3", "18Mpps", &["ring=64"]));
    near(throughput, 3.0 / (20e-6 * mean_ticks_of_a_poll()), 1e-6, "napi-2007");
}

/// Mean number of ticks until the end of an exponential overhead and three exponential services: sum of P(longer than k
/// ticks), with the overhead integrated by Simpson's rule.
fn mean_ticks_of_a_poll() -> f64 {
    let host = Host::pentium4_2530mhz();
    let (overhead_s, service_s) = (host.poll_s, host.service_s(64.0));
    let services_above = |t: f64| {
        let x = t.max(0.0) / service_s;
        (-x).exp() * (1.0 + x + 0.5 * x * x)
    };
    let above = |t: f64| {
        let (steps, end) = (20_000, 60.0 * overhead_s);
        let step = end / f64::from(steps);
        let at = |n: i32| {
            let overhead = f64::from(n) * step;
            (-overhead / overhead_s).exp() / overhead_s * services_above(t - overhead)
        };
        let inner: f64 = (1..steps).map(|n| if n % 2 == 1 { 4.0 * at(n) } else { 2.0 * at(n) }).sum();
        step / 3.0 * (at(0) + inner + at(steps))
    };
    1.0 + (1..60).map(|k| above(f64::from(k) * 20e-6)).sum::<f64>()
}

/// A cycle may serve more packets than the ring holds, because some packets arrive while it runs.
#[test]
fn a_quota_above_the_ring() {
    let set = ["per_byte=0s", "protocol=1.4us", "poll=1.7us", "ring=4"];
    let outcome = predict("polling:period=31us,quota=8", "235503pps", &set);
    let [throughput, loss, latency] = figures(&outcome);
    near(throughput, 154.1e3, 1e-3, "throughput");
    near(loss, 0.346, 2e-3, "loss");
    near(latency, 15.76e-6, 1e-3, "latency");
    // A quota that no cycle reaches has no effect; neither has a larger quota.
    let more = figures(&predict("polling:period=31us,quota=26", "235503pps", &set));
    let most = figures(&predict("polling:period=31us,quota=30", "235503pps", &set));
    (0..3).for_each(|n| near(more[n], most[n], 1e-5, "quota=30"));
}

/// With `drops_interrupt` a dropped packet restarts the packet timer.
#[test]
fn a_packet_timer_that_drops_restart() {
    let scheme = "coalesce:packet_timer=30us,masked=true,drops_interrupt=true";
    let [throughput, loss, _] = figures(&predict(scheme, "100kpps", &["ring=16"]));
    near(throughput, 70.7e3, 1e-3, "throughput");
    near(loss, 0.293, 2e-3, "loss");
    // With one place in the ring, a cycle consists of 1/lambda, gaps up to the first one above P, ISR and service, with
    // one packet per cycle.
    let [throughput, ..] = figures(&predict(scheme, "100kpps", &["ring=1"]));
    let host = Host::pentium4_2530mhz();
    let cycle_s = 10e-6 * 3_f64.exp() + host.mask_s + host.interrupt_s + host.service_s(64.0);
    near(throughput, 1.0 / cycle_s, 1e-9, "one place");
    // A gap that long never occurs: the model returns an error, instead of 1e85 s.
    let error = answer(&point(scheme, "8Mpps", &["ring=16"])).unwrap_err().to_string();
    assert!(error.contains("30us") && error.contains("8Mpps"), "{error}");
}

/// Quantiles over unequal queues are quantiles of the mixture of their distributions. The expected median, 0.27769 ms,
/// was computed by a separate script from the four chains, with the Erlang tails of the packets that an arrival finds.
/// (The simulator's 0.260 ms is less accurate: the second queue, 2.8 % beyond saturation, is correlated over about 3600
/// services.)
#[test]
fn unequal_queues() {
    let set = [
        "queues=4:shares=40%/30%/20%/10%",
        "protocol=7.018us",
        "per_byte=0s",
        "interrupt=2.185us",
        "mask=0.608us",
        "ring=60",
    ];
    let outcome = predict("disable-enable:merged=true", "488443pps", &set);
    near(outcome.latency_s.unwrap().p50.unwrap().value, 0.27769e-3, 1e-4, "p50");
    assert!(outcome.notes.iter().all(|note| !matches!(note, Note::Interpolated)), "{:?}", outcome.notes);
    // Ideal queues with enough space: exponential times, so that P(T > t) is a sum of two exponentials.
    let outcome =
        predict("ideal", "100kpps", &["queues=2:shares=80%/20%", "protocol=10us", "per_byte=0s", "ring=4000"]);
    let median = outcome.latency_s.unwrap().p50.unwrap().value;
    let above = 0.8 * (-(100e3 - 80e3) * median).exp() + 0.2 * (-(100e3 - 20e3) * median).exp();
    near(above, 0.5, 1e-6, "P(T > median)");
}

/// If only the mean of the frame sizes is used, no quantiles are given, because they would be wrong.
#[test]
fn mixed_sizes_by_their_mean_have_no_quantiles() {
    let mut asked = point("interrupt", "50kpps", &["per_byte=10ns"]);
    asked.traffic.size = "imix".parse().unwrap();
    let outcome = answer(&asked).unwrap();
    let latency = outcome.latency_s.unwrap();
    assert!(latency.mean.is_some() && latency.p50.is_none() && latency.p999.is_none());
    assert!(outcome.notes.iter().any(|note| matches!(note, Note::MeanSizeOnly(longer) if *longer > 0.0)));
    assert_eq!(outcome.cpu_method.as_deref(), Some("approximate"));
}

/// Rings of a million packets are answered quickly, or refused before the computation begins.
#[test]
fn large_rings_take_no_time() {
    for (scheme, rate, ring) in [
        ("disable-enable", "13Mpps", "ring=100000"),
        ("disable-enable", "13Mpps", "ring=1000000"),
        ("disable-enable:merged=true", "13Mpps", "ring=1000000"),
        ("disable-enable", "187265pps", "ring=1000000"),
        ("interrupt", "13Mpps", "ring=16777216"),
        ("ideal", "187265pps", "ring=16777216"),
        ("coalesce:usecs=50us,masked=true", "13Mpps", "ring=1000000"),
        ("napi", "10kpps", "ring=1000000"),
        ("polling", "10kpps", "ring=16777216"),
        ("dim", "10kpps", "ring=16777216"),
    ] {
        let started = std::time::Instant::now();
        if let Err(error) = answer(&point(scheme, rate, &[ring])) {
            assert!(matches!(error, EngineFailure::Unsupported(_)), "{error}");
        }
        // One second each in a release build on an idle machine; this is a slow build on a busy one.
        let seconds = started.elapsed().as_secs_f64();
        assert!(seconds < 30.0, "{scheme} {rate} {ring}: {seconds} s");
    }
}

/// Hosts and traffic out of range are refused before the computation begins, with the accepted range in the message.
#[test]
fn what_lies_outside_is_refused() {
    for (rate, set, parts) in [
        ("10kpps", "ring=18446744073709551615", ["ring = 18446744073709551615", "16777216"]),
        ("10kpps", "ring=100000000", ["ring = 100000000", "16777216"]),
        ("10kpps", "interrupt=1e308s", ["interrupt = 1e308 s", "1e6 s"]),
        ("1e-320pps", "ring=8", ["rate = 1e-320 pps", "1e-6 pps"]),
        ("1e308%", "ring=8", ["rate = ", "1e13 pps"]),
        ("1e308pps", "ring=8", ["rate = 1e308 pps", "1e13 pps"]),
    ] {
        for scheme in ["napi", "interrupt"] {
            let error = answer(&point(scheme, rate, &[set])).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)) && error.len() < 200, "{rate} {set}: {error}");
        }
    }
}

/// Only exact answers are called "exact".
#[test]
fn approximations_are_not_called_exact() {
    for (scheme, set, method) in [
        ("interrupt", "ring=64", "exact"),
        ("disable-enable", "ring=64", "exact"),
        ("napi", "ring=64", "exact"),
        ("polling", "ring=64", "exact"),
        ("dim", "ring=64", "approximate"),
        ("coalesce:packet_timer=20us,masked=true", "ring=64", "exact"),
        ("coalesce:frames=4", "ring=64", "exact"),
        ("napi:backlog=true", "ring=64", "approximate"),
        ("napi:weight=300", "ring=64", "approximate"),
        ("interrupt", "interrupt_latency=5us", "approximate"),
        ("dim", "application=2us", "approximate"),
    ] {
        let outcome = predict(scheme, "50kpps", &[set]);
        assert_eq!(outcome.cpu_method.as_deref(), Some(method), "{scheme} {set}");
    }
}
