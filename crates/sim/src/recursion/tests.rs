use netcliff_core::{FrameSizes, Host, Service, Traffic};

use super::*;
use crate::replicate::by_events;
use crate::tally::SEGMENTS;

fn agree(point: &Point, packets: u64) {
    let clock = Clock::new(point.rate_pps().unwrap(), packets);
    let recursion = run(point, clock, 5, 2, packets).unwrap();
    let events = by_events(point, clock, 5, 2, packets);
    let label = format!("{} {:?} {:?} {}, {packets} packets", point.scheme, point.host, point.traffic, point.load);
    for (number, (recursion, events)) in recursion.marks.iter().zip(&events.marks).enumerate() {
        assert_eq!(recursion, events, "mark {number} (recursion, events) of {label}");
    }
    assert_eq!((recursion.segments.len(), recursion.marks.len()), (SEGMENTS, events.marks.len()), "{label}");
    assert!(recursion.segments == events.segments, "latencies of {label}");
}

/// Compares recursion and event-driven machine over rings, services, arrivals and loads. With a hundred packets, counts
/// are recorded at each packet.
fn agree_everywhere(schemes: &[&str]) {
    agree_with(schemes, |_, _| {});
}

/// Like [`agree_everywhere`]; `more` also changes the host, depending on the number of the comparison.
fn agree_with(schemes: &[&str], more: impl Fn(usize, &mut Host)) {
    let services = [
        Service::Exponential,
        Service::Deterministic,
        Service::Erlang { stages: 2 },
        Service::Hyperexponential { cv: 1.8 },
        Service::from_times("made", vec![(0.5e-6, 1.0), (1e-6, 7.0), (9e-6, 0.5)]).unwrap(),
    ];
    let mut turn = 0;
    for scheme in schemes {
        for ring in [1, 2, 7, 300, 1024] {
            for arrivals in ["poisson", "constant", "batch:size=5", "mmpp", "onoff:rule=superpose"] {
                for kpps in [50.0, 120.0, 180.0, 1000.0] {
                    turn += 1;
                    let service = services[turn % services.len()].clone();
                    // Times in whole microseconds and constant arrivals cause many simultaneous events.
                    let (interrupt_s, protocol_s) = if turn % 3 == 0 { (2e-6, 4e-6) } else { (3.73e-6, 5.34e-6) };
                    let plain = Host::pentium4_2530mhz();
                    let mut host = Host { ring, service, interrupt_s, protocol_s, ..plain };
                    let mut traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
                    if ring == 7 {
                        traffic.size = FrameSizes::Imix;
                        host.per_byte_s = 1e-9;
                    }
                    more(turn, &mut host);
                    let point = Point { traffic, ..Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3) };
                    for packets in [100, 1, 2_500] {
                        agree(&point, packets);
                    }
                    if turn % 20 == 0 {
                        agree(&point, 40_000);
                    }
                }
            }
        }
    }
}

#[test]
fn ideal_agrees_with_events() {
    agree_everywhere(&["ideal"]);
}

#[test]
fn interrupts_agree_with_events() {
    agree_everywhere(&["interrupt:drops_interrupt=true", "interrupt:drops_interrupt=false"]);
}

/// Sets all costs to whole microseconds or to zero, in addition to the usual times.
fn polled_and_masked(turn: usize, host: &mut Host) {
    let [none, one, two] = [0.0, 1e-6, 2e-6];
    (host.poll_s, host.mask_s, host.interrupt_latency_s) = match turn % 7 {
        0 | 1 => (one, two, none),
        2 => (none, none, two),
        3 => (two, none, one),
        4 => (none, one, none),
        _ => (host.poll_s, host.mask_s, host.interrupt_latency_s),
    };
    if turn.is_multiple_of(11) {
        host.interrupt_s = 0.0;
    }
}

#[test]
fn disable_enable_agrees_with_events() {
    agree_with(&["disable-enable:merged=true", "disable-enable:merged=false"], polled_and_masked);
}

#[test]
fn napi_2007_agrees_with_events() {
    let schemes = [
        "napi-2007:period=20us,quota=3",
        "napi-2007:period=7us,quota=1",
        "napi-2007:period=300us,quota=64",
        "napi-2007:period=20us,quota=3,remember=true",
        "napi-2007:period=7us,quota=2,remember=true",
    ];
    agree_with(&schemes, polled_and_masked);
}

#[test]
fn polling_agrees_with_events() {
    let schemes = [
        "polling:period=20us,quota=3",
        "polling:period=7us,quota=1",
        "polling:period=300us,quota=64",
        "polling:period=5us,quota=2",
    ];
    agree_with(&schemes, polled_and_masked);
}

/// With rare packets, whole seconds of polls are skipped. Constant overheads that are multiples of the period end at
/// the instant of a tick.
#[test]
fn polling_agrees_where_packets_are_rare() {
    for (scheme, pps) in [("polling:period=20us,quota=3", 20.0), ("polling:period=2us,quota=1", 150.0)] {
        for service in [Service::Exponential, Service::Deterministic] {
            for poll_s in [0.0, 1e-6, 1.59e-6] {
                let host = Host { service: service.clone(), poll_s, ..Host::pentium4_2530mhz() };
                let point = Point::poisson(host, scheme.parse().unwrap(), pps);
                agree(&point, 1000);
            }
        }
    }
}

#[test]
fn napi_agrees_with_events() {
    agree_with(&["napi", "napi:weight=1", "napi:weight=3,ksoftirqd=true", "napi:budget=1,weight=8"], polled_and_masked);
}

/// Adds an application that keeps up or does not, with a large or small socket, and wake-up and switch times.
fn with_application(turn: usize, host: &mut Host) {
    polled_and_masked(turn, host);
    host.interrupt_latency_s = 0.0;
    host.application_s = Some([2e-6, 0.4e-6, 1e-6, 20e-6, 0.0][turn % 5]);
    host.socket_buffer = [256, 1, 3, 40][turn / 3 % 4];
    host.context_switch_s = [0.0, 1.5e-6, 2e-6][turn % 3];
    host.wakeup_s = [0.0, 0.7e-6][turn / 2 % 2];
    host.socket_drop_cost = [1.0, 0.3][turn / 5 % 2];
    host.tick_s = [1e-3, 4e-3, 1e-4][turn / 7 % 3];
}

#[test]
fn an_application_behind_a_backlog_agrees_with_events() {
    let schemes = ["napi:backlog", "napi:backlog,weight=1", "napi:backlog,weight=3,ksoftirqd=true"];
    agree_with(&schemes, with_application);
}

#[test]
fn an_application_behind_a_device_agrees_with_events() {
    let schemes = ["napi", "napi:weight=1", "napi:weight=3,ksoftirqd=true", "napi:budget=2,weight=8"];
    agree_with(&schemes, with_application);
}

/// Adds pauses for a tenth of the time: shorter than a packet's service, as long as the smaller rings can buffer, and
/// longer.
fn paused(turn: usize, host: &mut Host) {
    polled_and_masked(turn, host);
    host.interrupt_s = if turn.is_multiple_of(11) { 1e-6 } else { host.interrupt_s };
    host.interrupt_latency_s = 0.0;
    let (pause_s, times) =
        [(2e-6, "constant"), (50e-6, "exponential"), (1e-3, "erlang:4"), (300e-6, "constant")][turn % 4];
    (host.pause_s, host.pause_every_s, host.pause_times) =
        (Some(pause_s), Some(9.0 * pause_s), Some(times.parse().unwrap()));
}

#[test]
fn ideal_agrees_with_events_with_pauses() {
    agree_with(&["ideal"], paused);
}

#[test]
fn disable_enable_agrees_with_events_with_pauses() {
    agree_with(&["disable-enable:merged=true", "disable-enable:merged=false"], paused);
}

#[test]
fn napi_agrees_with_events_with_pauses() {
    agree_with(&["napi", "napi:weight=1", "napi:weight=3,ksoftirqd=true", "napi:budget=1,weight=8"], paused);
}

#[test]
fn coalescing_agrees_with_events() {
    agree_everywhere(&[
        "coalesce:frames=8",
        "coalesce:usecs=50us,drops_interrupt=true",
        "coalesce:frames=8,usecs=50us",
        "coalesce:packet_timer=20us,usecs=60us,drops_interrupt=true",
        "coalesce:frames=1,min_gap=40us",
        "coalesce:frames=3,packet_timer=7us,min_gap=25us",
        "coalesce:usecs=50us,free_timer=true",
        "coalesce:usecs=20us,free_timer=true,frames=4,min_gap=15us,drops_interrupt=true",
    ]);
}

#[test]
fn what_needs_events_is_left_to_them() {
    let answers = |scheme: &str, host| {
        let point = Point::poisson(host, scheme.parse().unwrap(), 1e5);
        run(&point, Clock::new(1e5, 100), 1, 0, 100).is_some()
    };
    let plain = Host::pentium4_2530mhz();
    let with_application = Host { application_s: Some(1e-6), ..plain.clone() };
    for host in [
        Host { cold_application_s: 1e-6, ..with_application.clone() },
        Host { cold_protocol_s: 1e-6, ..with_application.clone() },
        Host { interrupt_latency_s: 1e-6, ..with_application.clone() },
        Host { socket_buffer: 1 << 20, ..with_application.clone() },
        Host { pause_s: Some(1e-4), pause_every_s: Some(1e-3), ..with_application.clone() },
    ] {
        assert!(!answers("napi:backlog", host));
    }
    assert!(answers("napi:backlog", with_application.clone()));
    for scheme in ["ideal", "interrupt", "coalesce:frames=8", "disable-enable", "napi", "napi-2007"] {
        assert!(answers(scheme, plain.clone()));
        assert_eq!(answers(scheme, with_application.clone()), scheme == "napi", "{scheme}");
        assert!(!answers(scheme, Host { ring: 1 << 20, ..plain.clone() }));
    }
    let away = Host { pause_s: Some(1e-4), pause_every_s: Some(1e-3), ..plain.clone() };
    for (scheme, expected) in [("ideal", true), ("napi", true), ("interrupt", false), ("napi-2007", false)] {
        assert_eq!(answers(scheme, away.clone()), expected, "{scheme}");
    }
    assert!(!answers("napi", Host { interrupt_latency_s: 1e-6, ..away.clone() }));
    assert!(!answers("disable-enable", Host { interrupt_s: 0.0, ..away }));
    let some_zero = Service::from_times("made", vec![(0.0, 1.0), (1e-6, 1.0)]).unwrap();
    assert!(!answers("interrupt", Host { service: some_zero, ..plain.clone() }));
    for scheme in [
        "coalesce:frames=8,masked=true",
        "hybrid",
        "dim",
        "napi:backlog",
        "napi:threaded=true",
        "napi:gro_normal_batch=8",
        "napi:rx_usecs=20us",
        "napi:defer_hard_irqs=2,gro_flush_timeout=20us",
        "napi:busy_poll=true",
    ] {
        assert!(!answers(scheme, plain.clone()), "{scheme}");
    }
}
