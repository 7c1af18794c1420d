//! Flow control and transmit completions: their effects on throughput, loss and each other.

use netcliff_core::{Engine, Figure, Host, Outcome, Point};
use netcliff_sim::{Effort, SimEngine};

fn outcome(scheme: &str, kpps: f64, settings: &[&str]) -> Outcome {
    with_effort(Effort::Packets(200_000), scheme, kpps, settings)
}

/// Returns the outcome for tests of rates and shares only. If a latency were requested, replications beyond saturation
/// would be up to 64 times as long.
fn rates(scheme: &str, kpps: f64, settings: &[&str]) -> Outcome {
    with_effort(Effort::Exactly(200_000), scheme, kpps, settings)
}

fn with_effort(effort: Effort, scheme: &str, kpps: f64, settings: &[&str]) -> Outcome {
    let mut host = Host::pentium4_2530mhz();
    settings.iter().for_each(|setting| host.set(setting).unwrap());
    let point = Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3);
    SimEngine { seed: 7, effort, ..SimEngine::default() }.evaluate(&point).unwrap()
}

fn of(figure: Option<Figure>) -> f64 {
    figure.unwrap().value
}

fn kpps(outcome: &Outcome) -> f64 {
    of(outcome.throughput_pps) / 1e3
}

/// At 300 kpps, `interrupt` is in livelock. Pause frames prevent the ring from overflowing, which leaves the CPU to
/// packets: about the saturation throughput of 116 kpps of a host without interrupts for dropped packets. All losses
/// are at the sender.
#[test]
fn a_pause_ends_the_livelock_and_moves_the_loss_to_the_sender() {
    let without = outcome("interrupt", 300.0, &[]);
    let with = outcome("interrupt", 300.0, &["xoff=900", "xon=100"]);
    assert!(kpps(&without) < 105.0 && kpps(&with) > 110.0, "{} {}", kpps(&without), kpps(&with));
    let (loss, all) = (with.loss.unwrap(), of(with.loss_fraction));
    assert_eq!((of(loss.ring), of(loss.sender)), (0.0, all));
    assert!((1.0 - all - kpps(&with) / 300.0).abs() < 0.02, "{all}");
    assert!(without.loss.unwrap().sender.is_none());
}

/// `ideal` far below saturation: the ring of 1024 is never half full, and flow control only adds its own figures.
#[test]
fn a_pause_that_never_comes_changes_nothing() {
    let (without, with) = (outcome("ideal", 80.0, &[]), outcome("ideal", 80.0, &["xoff=1000"]));
    assert_eq!(without.latency_s, with.latency_s);
    assert_eq!(without.packets_in_system, with.packets_in_system);
    assert_eq!(of(with.loss.unwrap().sender), 0.0);
}

/// The time in the sender's queue counts as latency: in overload the queue of 1000 packets is full, and packets wait in
/// the queue and in the ring.
#[test]
fn latency_counts_the_wait_at_the_sender() {
    let with = outcome("ideal", 300.0, &["xoff=100", "xon=99", "sender_queue=1000"]);
    let expected = (1000.0 + 99.5) / of(with.throughput_pps);
    let mean = of(with.latency_s.unwrap().mean);
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
    assert!((of(with.packets_in_system) - 99.5).abs() < 1.0, "{:?}", with.packets_in_system);
}

/// Completions that are processed after received packets starve beyond the receive cliff (187 kpps), but not below it.
/// Completions processed before received packets keep their rate, and reception loses the time that they take.
#[test]
fn completions_starve_or_are_served_by_priority() {
    // A small transmit ring, which fills early in the run.
    let settings = |priority| ["transmit=4us", "transmit_load=50kpps", "transmit_ring=100", priority];
    let sent = |outcome: &Outcome| of(outcome.transmitted.unwrap().completed_pps) / 1e3;
    for scheme in ["ideal", "napi", "disable-enable", "polling"] {
        let before = outcome(scheme, 300.0, &settings("transmit_priority=before"));
        let after = outcome(scheme, 300.0, &settings("transmit_priority=after"));
        assert!((sent(&before) - 50.0).abs() < 1.5, "{scheme} {}", sent(&before));
        if scheme == "polling" {
            // With three packets per tick, time remains for completions.
            continue;
        }
        assert!(sent(&after) < 1.0, "{scheme} {}", sent(&after));
        assert!(of(after.transmitted.unwrap().refused_fraction) > 0.9);
        // 50 kpps x 4 us = 0.2 of the CPU.
        assert!((kpps(&before) / kpps(&after) - 0.8).abs() < 0.02, "{scheme} {} {}", kpps(&before), kpps(&after));
        let calm = outcome(scheme, 50.0, &settings("transmit_priority=after"));
        assert!((sent(&calm) - 50.0).abs() < 1.5 && kpps(&calm) > 49.0, "{scheme}");
    }
}

/// Completions that are processed before packets and take the whole CPU starve reception.
#[test]
fn reception_starves_behind_completions() {
    let rate = ["transmit=4us", "transmit_load=260kpps", "transmit_priority=before"];
    assert!(kpps(&outcome("ideal", 50.0, &rate)) < 1.0);
    // Linux polls at most 128 completions, then up to 64 packets: 64 x 5.34 us of every 128 x 4 + 64 x 5.34 + 1.59 us.
    let napi = kpps(&outcome("napi", 300.0, &rate));
    let expected = 64.0 / (128.0 * 4.0 + 64.0 * 5.3356 + 1.59) * 1e3;
    assert!((napi / expected - 1.0).abs() < 0.02, "{napi} {expected}");
}

/// Completions with their own interrupts are always processed, whether reception is masked, polled or overloaded. Rare
/// completions cost an interrupt each: 50 kpps x (3.73 + 4) us of the CPU. Enough of them starve reception under every
/// scheme.
#[test]
fn completions_that_interrupt_starve_and_are_not_starved() {
    let settings = |load| ["transmit=4us", load, "transmit_ring=100", "transmit_priority=interrupt"];
    for scheme in ["ideal", "interrupt", "disable-enable", "polling", "napi", "coalesce:frames=8,masked=true"] {
        let beyond = rates(scheme, 300.0, &settings("transmit_load=50kpps"));
        let sent = of(beyond.transmitted.unwrap().completed_pps) / 1e3;
        assert!((sent - 50.0).abs() < 1.5, "{scheme} {sent}");
        let starved = rates(scheme, 100.0, &settings("transmit_load=400kpps"));
        assert!(kpps(&starved) < 1.0, "{scheme} {}", kpps(&starved));
    }
    let ideal = outcome("ideal", 20.0, &settings("transmit_load=20kpps"));
    let interrupts = of(ideal.cpu.unwrap().interrupt);
    // About every tenth completion is due while another one is handled, and needs no further interrupt.
    assert!((0.85..1.0).contains(&(interrupts / (20e3 * 7.73e-6))), "{interrupts}");
    assert!(of(ideal.interrupts_per_s) < 20.1e3 && kpps(&ideal) > 19.0);
}

/// M/D/1 with two classes of equal deterministic cost 1 and head-of-line priority: mean waits W/(1 - rho_1) and W/((1 -
/// rho_1)(1 - rho)), W = rho/2 (Cobham 1954).
#[test]
fn waits_are_those_of_a_priority_queue() {
    let settings = |order| {
        [
            "service=deterministic",
            "protocol=5us",
            "per_byte=0ns",
            "transmit=5us",
            "transmit_load=60kpps",
            order,
            "ring=100000",
        ]
    };
    // 60 kpps of each, 5 us each: rho_1 = 0.3, rho = 0.6.
    let (first, second) = (0.3 * 5e-6 / 0.7, 0.3 * 5e-6 / (0.7 * 0.4));
    for (order, received, sent) in
        [("transmit_priority=before", second, first), ("transmit_priority=after", first, second)]
    {
        let found = outcome("ideal", 60.0, &settings(order));
        let waits = [of(found.latency_s.unwrap().mean) - 5e-6, of(found.transmitted.unwrap().waiting_s) - 5e-6];
        for (wait, expected) in waits.into_iter().zip([received, sent]) {
            assert!((wait / expected - 1.0).abs() < 0.04, "{order}: {wait} {expected}");
        }
    }
}

/// Delivered packets are forwarded: there are as many completions as packets, or half as many.
#[test]
fn a_share_of_what_is_delivered_is_sent() {
    for (load, share) in [("100%", 1.0), ("50%", 0.5)] {
        let found = outcome("napi", 60.0, &["transmit=2us", &format!("transmit_load={load}")]);
        let sent = of(found.transmitted.unwrap().completed_pps) / 1e3;
        assert!((sent / (share * kpps(&found)) - 1.0).abs() < 0.002, "{sent} {}", kpps(&found));
    }
}

/// An application that polls the device itself. With deferred interrupts there are no interrupts at all: the
/// application gets the whole CPU, and packets do not wait for interrupts, wake-ups or switches.
#[test]
fn busy_polling_needs_no_interrupts() {
    let host = ["application=4us", "context_switch=2us", "wakeup=1us", "socket_buffer=256"];
    let polled = "napi:busy_poll=true,defer_hard_irqs=2,gro_flush_timeout=200us,irq_suspend_timeout=20ms";
    for kpps in [20.0, 60.0] {
        let found = outcome(polled, kpps, &host);
        assert!(of(found.interrupts_per_s) < 100.0, "{kpps}: {:?}", found.interrupts_per_s);
        assert!(of(found.cpu.unwrap().available) < 0.01);
    }
    let mean = |outcome: &Outcome| of(outcome.latency_s.unwrap().mean);
    let (with, without) = (outcome(polled, 20.0, &host), outcome("napi", 20.0, &host));
    assert!(mean(&with) < 0.8 * mean(&without), "{} {}", mean(&with), mean(&without));
    assert!(of(without.interrupts_per_s) > 15e3);
}

/// Without deferred interrupts, every packet that arrives while the application works interrupts it.
#[test]
fn busy_polling_alone_is_interrupted_at_work() {
    let found = outcome("napi:busy_poll=true", 60.0, &["application=4us"]);
    assert!(of(found.interrupts_per_s) > 5e3, "{:?}", found.interrupts_per_s);
}
