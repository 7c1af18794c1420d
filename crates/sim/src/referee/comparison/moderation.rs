//! NAPI behind a NIC with interrupt moderation.

use netcliff_core::{Arrivals, Host, Point, Service, Traffic};

use super::applications::applications;
use super::pauses::pauses;
use super::sides::{busy, busy_napi, flow_control, linux, transmissions};
use super::{Rng, compare, many_with};
use crate::random::{BLOCK, Purpose, Stream};
use crate::tally::Counts;

/// A random subset of the moderation keys, including timers that always or never end before the count is reached.
fn moderated(rng: &mut Rng, napi: String) -> String {
    let mut text = napi;
    let scale = 10.0_f64.powf(3.0 * rng.roll());
    let mut timed = false;
    for key in ["rx_usecs", "packet_timer", "min_gap"] {
        if rng.roll() < 0.5 {
            let nanoseconds = if rng.roll() < 0.1 { 0 } else { rng.up_to((scale * 200.0) as u64) };
            timed |= key != "min_gap" && nanoseconds > 0;
            text += &format!(",{key}={nanoseconds}ns");
        }
    }
    let frames = if timed { rng.up_to(20) } else { 1 };
    if rng.roll() < 0.5 { text + &format!(",rx_frames={frames}") } else { text }
}

/// Packets per interrupt.
fn gathered(counts: &Counts) -> f64 {
    counts.processed as f64 / counts.interrupts.max(1) as f64
}

#[test]
fn moderated_napi_agrees_packet_for_packet() {
    let runs = many_with(
        1500,
        |rng| {
            let napi = linux(rng, false);
            moderated(rng, napi)
        },
        |_, _| {},
    );
    let share = |of: &dyn Fn(&Counts) -> bool| runs.iter().filter(|one| of(one)).count() as f64 / runs.len() as f64;
    assert!(share(&|counts| gathered(counts) > 5.0) > 0.1, "many packets an interrupt");
    assert!(share(&|counts| gathered(counts) < 1.5) > 0.1, "a packet an interrupt");
    assert!(share(&|counts| counts.dropped_ring > 0) > 0.1, "losses");
}

#[test]
fn moderated_busy_polling_agrees_packet_for_packet() {
    many_with(
        500,
        |rng| {
            let napi = busy_napi(rng);
            moderated(rng, napi)
        },
        busy,
    );
}

/// Moderation together with every other feature that has its own events.
#[test]
fn moderation_beside_everything_else_agrees_packet_for_packet() {
    let each: [fn(&mut Rng, &mut Host); 4] = [transmissions, flow_control, pauses, applications];
    many_with(
        1200,
        |rng| {
            let napi = linux(rng, false);
            moderated(rng, napi)
        },
        |rng, host| {
            for more in each {
                if rng.roll() < 0.6 {
                    more(rng, host);
                }
            }
        },
    );
}

/// Arrivals, constant times, timers and the gap are multiples of 1 us, so that they often end simultaneously.
#[test]
fn simultaneous_events_of_moderated_napi_agree() {
    for seed in 0..400 {
        let mut rng = Rng(Stream::new(seed, Purpose::Size, 98), [0.0; BLOCK], BLOCK);
        let mut key = |key: &str| {
            let microseconds = rng.up_to(30);
            if rng.roll() < 0.6 { format!(",{key}={microseconds}us") } else { String::new() }
        };
        let scheme = ["rx_usecs", "packet_timer", "min_gap"].map(&mut key).concat();
        let frames = if scheme.contains("rx_usecs") { format!(",rx_frames={}", rng.up_to(6)) } else { String::new() };
        let mut time_s = || (rng.up_to(4) - 1) as f64 * 1e-6;
        let mut host = Host {
            interrupt_s: time_s(),
            interrupt_latency_s: time_s(),
            mask_s: time_s(),
            poll_s: time_s(),
            protocol_s: 1e-6 + time_s(),
            per_byte_s: 0.0,
            service: Service::Deterministic,
            ..Host::pentium4_2530mhz()
        };
        host.ring = rng.up_to(20).max(6);
        if rng.roll() < 0.3 {
            transmissions(&mut rng, &mut host);
            host.transmit_s = Some(1e-6);
        }
        let traffic = Traffic { arrivals: Arrivals::Constant, ..Traffic::default() };
        let scheme = format!("napi:weight=4{scheme}{frames}").parse().unwrap();
        let point = Point { traffic, ..Point::poisson(host, scheme, 1e6 / rng.up_to(12) as f64) };
        point.scheme.validate(&point.host).unwrap();
        compare(500, &point, seed);
    }
}
