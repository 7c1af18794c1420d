//! Several applications on one CPU: turns, losses at each socket, and a livelock that affects all.

use netcliff_core::{ApplicationOutcome, Engine, Figure, Host, Loss, Outcome, Point};
use netcliff_sim::SimEngine;

fn outcome(scheme: &str, kpps: f64, settings: &[&str]) -> Outcome {
    let mut host = Host::pentium4_2530mhz();
    settings.iter().for_each(|setting| host.set(setting).unwrap());
    let point = Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3);
    SimEngine::with_packets(7, 300_000).evaluate(&point).unwrap()
}

fn of(figure: Option<Figure>) -> f64 {
    figure.unwrap().value
}

fn kpps(one: &ApplicationOutcome) -> f64 {
    of(one.throughput_pps) / 1e3
}

fn near(found: f64, expected: f64, within: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= within, "{what}: {found}, expected {expected}");
}

#[test]
fn one_of_several_is_the_only_one() {
    let with = outcome("napi", 120.0, &["application=3us", "applications=1", "context_switch=1us", "wakeup=1us"]);
    let without = outcome("napi", 120.0, &["application=3us", "context_switch=1us", "wakeup=1us"]);
    assert_eq!(with, without);
    assert!(with.applications.is_empty());
}

/// The results of the applications add up to the results of the host.
#[test]
fn applications_add_up() {
    for scheme in ["interrupt", "napi", "polling", "coalesce:frames=8"] {
        let settings = ["application=8us", "applications=3:shares=60%/30%/10%,buffers=64/16/4", "context_switch=1us"];
        let found = outcome(scheme, 90.0, &settings);
        let sum = |pick: fn(&ApplicationOutcome) -> Option<Figure>| {
            found.applications.iter().map(|one| of(pick(one))).sum::<f64>()
        };
        near(sum(|one| one.offered_pps), of(found.offered_pps), 1e-9, scheme);
        near(sum(|one| one.throughput_pps), of(found.throughput_pps), 1e-9, scheme);
        near(sum(|one| one.goodput_bps), of(found.goodput_bps), 1e-9, scheme);
        near(sum(|one| one.cpu), of(found.cpu.unwrap().application), 1e-9, scheme);
        // Losses are shares of the packets delivered or lost.
        let lost_pps = |loss: Option<Loss>, delivered: Option<Figure>| {
            let (ring, socket) = (of(loss.unwrap().ring), of(loss.unwrap().socket));
            socket * of(delivered) / (1.0 - ring - socket)
        };
        let lost: f64 = found.applications.iter().map(|one| lost_pps(one.loss, one.throughput_pps)).sum();
        near(lost, lost_pps(found.loss, found.throughput_pps), 1e-9, scheme);
        near(of(found.applications[0].offered_pps), 54e3, 0.02, scheme);
    }
}

/// Overloaded applications share the CPU that protocol work leaves equally, whatever their load and their cost per
/// packet: 1 - 50 kpps x 5.34 us = 0.733 of the CPU.
#[test]
fn overloaded_applications_get_the_same_time() {
    let settings = [
        "application=1us",
        "applications=3:shares=50%/30%/20%,times=40us/80us/160us",
        "tick=1ms",
        "service=deterministic",
    ];
    let found = outcome("ideal", 50.0, &settings);
    for (one, time_s) in found.applications.iter().zip([40e-6, 80e-6, 160e-6]) {
        near(of(one.cpu), (1.0 - 50e3 * 5.3356e-6) / 3.0, 0.02, "CPU");
        near(of(one.throughput_pps), of(one.cpu) / time_s, 0.01, "throughput");
    }
}

/// Next to an application that always runs, a fast application reads everything if its socket can take the packets that
/// arrive while the other one runs (at most two ticks of 1 ms at 10 kpps: 20 packets). With a shorter socket it loses
/// packets.
#[test]
fn a_short_socket_loses_packets_in_the_others_turn() {
    let quick = |buffer: u64| {
        let settings = format!("applications=2:shares=20%/80%,times=1us/100us,buffers={buffer}/100");
        let found = outcome("ideal", 50.0, &["application=1us", &settings, "tick=1ms"]);
        of(found.applications[0].loss.unwrap().socket)
    };
    assert!(quick(200) < 1e-3, "{}", quick(200));
    assert!(quick(5) > 0.2, "{}", quick(5));
}

/// The livelock affects every application: far beyond its cliff, `interrupt` leaves almost no CPU time to them, and
/// neither does `napi`, whose softirqs preempt them. With a NAPI thread, they get their turns.
#[test]
fn livelock_is_felt_by_all() {
    let settings = ["application=4us", "applications=4", "context_switch=1us", "tick=1ms"];
    let (calm, beyond) = (outcome("interrupt", 60.0, &settings), outcome("interrupt", 400.0, &settings));
    for (calm, beyond) in calm.applications.iter().zip(&beyond.applications) {
        near(kpps(calm), 15.0, 0.03, "calm");
        assert!(kpps(beyond) < 0.3, "{}", kpps(beyond));
    }
    // Softirqs that run in an application's own system calls starve it as well. The NAPI thread waits for its turn like
    // an application.
    let softirq = outcome("napi", 400.0, &settings);
    assert!(softirq.applications.iter().all(|one| kpps(one) < 0.3), "{softirq:?}");
    let threaded = outcome("napi:threaded=true", 400.0, &settings);
    let each: Vec<f64> = threaded.applications.iter().map(kpps).collect();
    assert!(each.iter().all(|one| *one > 15.0), "{each:?}");
}

/// Switches between applications that compete for the CPU cost their configured time: one switch per turn of 2 ms; a
/// switch of half a turn takes a third of the time.
#[test]
fn a_turn_begins_with_a_switch() {
    let time_read = |switch: &str| {
        let settings = ["application=100us", "applications=2", "tick=2ms", "service=deterministic", switch];
        let found = outcome("ideal", 40.0, &settings);
        found.applications.iter().map(|one| of(one.throughput_pps) * 100e-6).sum::<f64>()
    };
    let left = 1.0 - 40e3 * 5.3356e-6;
    near(time_read("context_switch=0s"), left, 0.01, "without switches");
    // A turn of 2 ms contains 2 ms x left of the applications' time, of which 0.3 ms are the switch.
    near(time_read("context_switch=300us"), left - 0.3 / 2.0, 0.02, "with switches");
}
