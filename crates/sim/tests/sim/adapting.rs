//! `freebsd-polling` and `soft-timers`, at points where their figures are known.

use netcliff_core::{Engine, Figure, Host, Outcome, Point, Service};
use netcliff_sim::{Effort, SimEngine};

fn simulate(host: Host, scheme: &str, pps: f64) -> Outcome {
    simulate_long(host, scheme, pps, 400_000)
}

fn simulate_long(host: Host, scheme: &str, pps: f64, packets: u64) -> Outcome {
    let point = Point::poisson(host, scheme.parse().expect("a scheme"), pps);
    let engine = SimEngine { seed: 5, effort: Effort::Exactly(packets), ..SimEngine::default() };
    engine.evaluate(&point).expect("a supported point")
}

fn value(figure: Option<Figure>) -> f64 {
    figure.expect("a figure").value
}

fn host() -> Host {
    Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() }
}

/// In overload the quota settles where a cycle takes the share of time that the kernel is allowed. The rest of the CPU
/// is left for applications, except for the poll's overhead and a percent of rounding; the throughput is the kernel's
/// share divided by a packet's time. Settling takes a hundred periods and more.
#[test]
fn freebsd_leaves_the_share_that_it_is_told() {
    for percent in [20, 50, 80] {
        let scheme = format!("freebsd-polling:period=1ms,burst_max=1000,user_frac={percent}%");
        let found = simulate_long(host(), &scheme, 400e3, 4_000_000);
        let cpu = found.cpu.expect("shares");
        let (left, poll) = (value(cpu.available), value(cpu.poll));
        assert!((left + poll - f64::from(percent) / 100.0).abs() < 0.015, "{percent}: {left} and {poll}");
        let delivered = (1.0 - left - poll) / host().service_s(64.0);
        assert!((value(found.throughput_pps) / delivered - 1.0).abs() < 1e-3, "{percent}");
    }
    // Here the maximum number of packets per cycle is the limit: 100 of 5.34 us each millisecond.
    let bound = simulate_long(host(), "freebsd-polling:period=1ms,burst_max=100,user_frac=20%", 400e3, 4_000_000);
    assert!((value(bound.throughput_pps) / 100e3 - 1.0).abs() < 2e-3, "{:?}", bound.throughput_pps);
}

/// At low load each packet waits for a tick, half a period on average, and each tick costs its overhead.
#[test]
fn freebsd_waits_half_a_period_at_low_load() {
    let found = simulate(host(), "freebsd-polling:period=1ms", 100.0);
    let latency = value(found.latency_s.expect("latencies").mean);
    assert!((latency / (0.5e-3 + 1.59e-6 + 5.34e-6) - 1.0).abs() < 0.03, "{latency}");
    assert!((value(found.cpu.expect("shares").poll) / 1.59e-3 - 1.0).abs() < 1e-3);
}

/// If no trigger state has to be awaited, polls occur once per period, at the stated share of the hardware timer's
/// overhead. Otherwise they are later by the mean wait for a trigger state, at most until the hardware timer.
#[test]
fn soft_timers_poll_at_a_period_and_a_trigger() {
    let polls = |scheme: &str| {
        let found = simulate(host(), scheme, 100.0);
        (
            value(found.polls_per_s),
            value(found.cpu.expect("shares").poll),
            value(found.latency_s.expect("latencies").mean),
        )
    };
    let near = |found: f64, wanted: f64, what: &str| {
        assert!((found / wanted - 1.0).abs() < 0.02, "{what}: {found}, not {wanted}")
    };
    let (per_s, share, latency_s) = polls("soft-timers:period=20us,trigger=0s,cost=10%");
    near(per_s, 50e3, "polls");
    near(share, 50e3 * 0.159e-6, "overhead");
    near(latency_s, 10e-6 + 5.34e-6 + 0.159e-6, "latency");
    let (per_s, share, _) = polls("soft-timers:period=20us,trigger=10us,cost=10%");
    near(per_s, 1.0 / 30e-6, "polls with a trigger");
    near(share, 0.159e-6 / 30e-6, "overhead with a trigger");
    // A poll after min(20 us + an exponential time of mean 1 s, 40 us): nearly always by the hardware timer.
    let (per_s, share, _) = polls("soft-timers:period=20us,trigger=1s,backup=40us,cost=10%");
    near(per_s, 25e3, "polls of the hardware timer");
    near(share, 25e3 * 1.59e-6, "overhead of the hardware timer");
}

/// In overload a poll that is due follows directly on the previous one: Q packets and one overhead of a soft poll each.
#[test]
fn soft_timers_never_leave_a_due_poll_waiting_behind_work() {
    let found = simulate(host(), "soft-timers:period=10us,quota=3,trigger=5us,cost=10%", 400e3);
    let cycle_s = 3.0 * host().service_s(64.0) + 0.159e-6;
    assert!((value(found.throughput_pps) * cycle_s / 3.0 - 1.0).abs() < 1e-3, "{:?}", found.throughput_pps);
    assert!(value(found.cpu.expect("shares").available) < 1e-3);
}

/// All offered packets are delivered or lost, and CPU shares sum to 1.
#[test]
fn shares_and_packets_add_up() {
    for scheme in [
        "freebsd-polling",
        "freebsd-polling:period=50us,user_frac=10%",
        "soft-timers",
        "soft-timers:quota=20,trigger=40us",
    ] {
        for pps in [20e3, 140e3, 300e3] {
            let found = simulate(Host::pentium4_2530mhz(), scheme, pps);
            let (offered, lost) = (value(found.offered_pps), value(found.loss_fraction));
            let throughput = value(found.throughput_pps);
            assert!(
                (throughput / (offered * (1.0 - lost)) - 1.0).abs() < 0.02,
                "{scheme} {pps}: {throughput} {offered} {lost}"
            );
            let cpu = found.cpu.expect("shares");
            let sum: f64 =
                [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available].map(value).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9 && value(cpu.interrupt) == 0.0, "{scheme} {pps}: {sum}");
        }
    }
}
