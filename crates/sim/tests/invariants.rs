//! What must hold whatever the scheme, the host and the load: conservation, the CPU's whole, Little's law. Together the
//! properties try 2 400 cases, of 10 replications each.

use std::sync::Arc;

use netcliff_core::capture::{Capture, Captured};
use netcliff_core::{Arrivals, Engine, FrameSizes, Host, Outcome, Point, Scheme, Service, Traffic};
use netcliff_sim::SimEngine;
use proptest::prelude::*;

fn schemes() -> impl Strategy<Value = Scheme> {
    let parse = |text: String| text.parse::<Scheme>().unwrap();
    prop_oneof![
        Just("ideal".to_owned()),
        any::<bool>().prop_map(|drops| format!("interrupt:drops_interrupt={drops}")),
        any::<bool>().prop_map(|merged| format!("disable-enable:merged={merged}")),
        (3..60_u32, 1..9_u32, any::<bool>()).prop_map(|(period, quota, napi)| format!(
            "{}:period={period}us,quota={quota}",
            if napi { "napi-2007" } else { "polling" }
        )),
        (0..60_u32, 0..60_u32, 0..60_u32, any::<bool>(), any::<bool>()).prop_map(|(usecs, packet, gap, masked, drops)| {
            format!("coalesce:usecs={usecs}us,packet_timer={packet}us,min_gap={gap}us,masked={masked},drops_interrupt={drops}")
        }),
        (3..60_u32, 1..9_u32, 2..300_u32).prop_map(|(period, quota, up)| format!(
            "hybrid:period={period}us,quota={quota},up={up}kpps,down={}kpps",
            up - 1
        )),
        (0..5_u32, any::<bool>())
            .prop_map(|(start, eqe)| format!("dim:start={start},profile={}", if eqe { "eqe" } else { "cqe" })),
        (1..100_u32, 1..400_u32, any::<bool>(), any::<bool>()).prop_map(|(weight, budget, backlog, threaded)| format!(
            "napi:weight={weight},budget={budget},backlog={backlog},threaded={threaded}"
        )),
        (1..100_u32, 1..9_u32, 1..60_u32)
            .prop_map(|(weight, defer, flush)| format!("napi:weight={weight},defer_hard_irqs={defer},gro_flush_timeout={flush}us")),
        (2..40_u32, 0..60_u32, any::<bool>(), any::<bool>()).prop_map(|(frames, usecs, masked, drops)| format!(
            "coalesce:frames={frames},usecs={usecs}us,masked={masked},drops_interrupt={drops}"
        )),
    ]
    .prop_map(parse)
}

fn services() -> impl Strategy<Value = Service> {
    prop_oneof![
        Just(Service::Exponential),
        Just(Service::Deterministic),
        (0.1..2.0).prop_map(|cv| Service::Lognormal { cv }),
        (1..5_u32).prop_map(|stages| Service::Erlang { stages }),
        (1.1..4.0).prop_map(|cv| Service::Hyperexponential { cv }),
        proptest::collection::vec((0.0..1e-4, 0.0..9.0), 1..30).prop_map(|times| {
            let times = times.into_iter().chain([(1e-6, 0.1)]).collect();
            Service::from_times("made", times).unwrap()
        }),
    ]
}

prop_compose! {
    /// What few hosts have: a delay of interrupts, a price of bytes, of waiting.
    fn rare_costs()(latency in 0.0..20e-6, per_byte in 0.0..5e-9, protocol in 0.0..3e-6, application in 0.0..3e-6)
    -> (f64, f64, f64, f64) {
        (latency, per_byte, protocol, application)
    }
}

prop_compose! {
    fn hosts()(
        interrupt in 0.0..5e-6, protocol in 0.2e-6..8e-6, mask in 0.0..1e-6, poll in 0.0..2e-6,
        application in proptest::option::of(0.0..5e-6), switch in 0.0..4e-6, wakeup in 0.0..3e-6, drop in 0.0..1.0,
        ring in 1..2000_u64, socket in 1..500_u64, tick in 1e-4..1e-2, service in services(),
        rare in prop_oneof![3 => Just((0.0, 1.0 / 748e6, 0.0, 0.0)), 1 => rare_costs()],
    ) -> Host {
        let (interrupt_latency_s, per_byte_s, cold_protocol_s, cold_application_s) = rare;
        Host {
            interrupt_s: interrupt, protocol_s: protocol, mask_s: mask, poll_s: poll, application_s: application,
            context_switch_s: switch, wakeup_s: wakeup, socket_drop_cost: drop, ring, socket_buffer: socket, tick_s: tick,
            service, interrupt_latency_s, per_byte_s, cold_protocol_s, cold_application_s, ..Host::pentium4_2530mhz()
        }
    }
}

/// A capture of a hundred packets or more, in bursts, read around.
fn captures() -> impl Strategy<Value = Arrivals> {
    let packet = (prop_oneof![Just(0), 100..100_000_u64], 64..1519_u32);
    proptest::collection::vec(packet, 2..300).prop_map(|packets| {
        let mut packets: Vec<Captured> =
            packets.into_iter().map(|(gap_ns, bytes)| Captured { gap_ns, bytes }).collect();
        packets[0].gap_ns += 1000;
        let capture = Some(Arc::new(Capture { file: "made".to_owned(), packets, flows: Vec::new(), sha256: None }));
        Arrivals::Trace { file: "made".to_owned(), speed: None, capture }
    })
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let parse = |text: &str| text.parse::<Arrivals>().unwrap();
    prop_oneof![
        3 => Just(Arrivals::Poisson),
        1 => Just(Arrivals::Constant),
        1 => (1..20_u32).prop_map(|size| Arrivals::Batch { size }),
        1 => Just(parse("mmpp")),
        1 => Just(parse("onoff:sources=200,rule=superpose")),
        1 => (0.05..0.95).prop_map(|keep| Arrivals::Thinned { keep, of: Box::new(Arrivals::Batch { size: 5 }) }),
        1 => captures(),
    ]
}

prop_compose! {
    fn points()(host in hosts(), scheme in schemes(), exponent in 3.0..6.5, arrivals in arrivals(), imix in any::<bool>())
    -> Point {
        let size = match &arrivals {
            Arrivals::Trace { capture, .. } if !imix => FrameSizes::Trace(capture.clone()),
            _ if imix => FrameSizes::Imix,
            _ => FrameSizes::Fixed(64),
        };
        let traffic = Traffic { arrivals, size, ..Traffic::poisson(10.0_f64.powf(exponent)) };
        roomy(Point { host, scheme, traffic })
    }
}

/// The point with a ring that holds as many frames as its scheme counts.
fn roomy(point: Point) -> Point {
    let frames = if let Scheme::Coalesce(coalesce) = &point.scheme { coalesce.frames.unwrap_or(1) } else { 1 };
    let ring = point.host.ring.max(frames);
    Point { host: Host { ring, ..point.host }, ..point }
}

/// Arrivals of a replication.
const PACKETS_EACH: u64 = 500;

fn evaluate(point: &Point, seed: u64) -> Outcome {
    SimEngine::with_packets(seed, 10 * PACKETS_EACH).evaluate(point).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Offered = delivered + dropped + inside is asserted at every mark of every replication in debug builds; here the
    /// figures that come of it.
    #[test]
    fn shares_add_up_and_rates_agree(point in points(), seed in any::<u64>()) {
        let outcome = evaluate(&point, seed);
        let cpu = outcome.cpu.unwrap();
        let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available].map(|f| f.unwrap().value);
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
        prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        let loss = outcome.loss.unwrap();
        let by_place = loss.ring.unwrap().value + loss.socket.map_or(0.0, |f| f.value);
        prop_assert!((outcome.loss_fraction.unwrap().value - by_place).abs() < 1e-12);
        let latency = outcome.latency_s.unwrap_or_default();
        if let (Some(p50), Some(p999), Some(max)) = (latency.p50, latency.p999, latency.max) {
            prop_assert!(p50.value <= p999.value && p999.value <= max.value);
        }
    }

    /// N = throughput x latency over ring and protocol. The integral of N and the packets' own times differ only by the
    /// ages of those inside when the count starts and ends: at most a ring of them over at least half of the run.
    #[test]
    fn littles_law_holds(point in points(), ring in 1..40_u64, seed in any::<u64>()) {
        let point = roomy(Point { host: Host { application_s: None, ring, ..point.host }, ..point });
        let ring = point.host.ring;
        let outcome = evaluate(&point, seed);
        let Some(latency) = outcome.latency_s else { return Ok(()) };
        let number = outcome.packets_in_system.unwrap().value;
        let expected = outcome.throughput_pps.unwrap().value * latency.mean.unwrap().value;
        let elapsed_s = PACKETS_EACH as f64 / 2.0 / outcome.offered_pps.unwrap().value;
        let ages = 2.0 * (ring + 1) as f64 * latency.max.unwrap().value / elapsed_s;
        prop_assert!((number - expected).abs() <= ages, "N {number}, lambda T {expected}, ages {ages}");
    }
}

/// The same seed gives the same figures whatever the threads; another seed gives others.
#[test]
fn a_seed_is_an_outcome() {
    let point = Point {
        host: Host { application_s: Some(1e-6), ..Host::pentium4_2530mhz() },
        scheme: "napi:backlog".parse().unwrap(),
        traffic: Traffic::poisson(120e3),
    };
    let first = evaluate(&point, 42);
    assert_eq!(first, evaluate(&point, 42));
    assert_ne!(first, evaluate(&point, 43));
}
