use netcliff_core::{Host, Point, Scheme, Traffic};

use crate::clock::Clock;
use crate::machine::{Machine, Records, Watch};
use crate::schemes;

/// A watch that requires each arrival to be handled at its time.
struct Seeing;

impl Watch for Seeing {}

fn records<W: Watch>(point: &Point, packets: u64, watch: W) -> Records {
    let clock = Clock::of(point, packets);
    let mut machine = Machine::new(point, clock, 3, 1, packets, watch);
    schemes::run(point, clock, &mut machine);
    machine.finish().0
}

/// Handling arrivals late gives the same recorded counts and the same latencies. Tested with every scheme; with rings
/// that are full, nearly full and hardly used; with few and many recordings; with and without applications, pauses and
/// several frame sizes.
#[test]
fn what_is_looked_at_late_is_what_came() {
    let schemes = [
        "ideal",
        "interrupt",
        "disable-enable",
        "disable-enable:merged=true",
        "polling:period=20us,quota=3",
        "napi-2007:period=20us,quota=3",
        "coalesce:frames=8,usecs=50us,masked=true",
        "hybrid:up=60kpps,down=40kpps",
        "dim",
        "napi",
        "napi:weight=8,threaded=true",
        "napi:backlog=true",
        "napi:ksoftirqd=true",
        "napi:rx_usecs=50us,rx_frames=8",
        "napi:min_gap=128us,gap=direct",
        "napi:min_gap=128us,gap=echo",
        "napi:min_gap=128us,gap=latched",
        "napi:gap=reopened",
        "napi:defer_hard_irqs=2,gro_flush_timeout=50us",
        "napi:busy_poll=true",
    ];
    let more: [&[&str]; 4] =
        [&[], &["application=2us"], &["pause_every=2ms", "pause=100us"], &["interrupt_latency=5us", "poll=0us"]];
    let (mut compared, mut lost) = (0, 0);
    for scheme in schemes {
        for settings in more {
            for (ring, arrivals, kpps, packets) in [
                (1, "poisson", 90.0, 2000),
                (7, "batch:size=5", 120.0, 20_000),
                (40, "constant", 200.0, 500),
                (300, "poisson", 150.0, 20_000),
                (1024, "poisson", 170.0, 60_000),
            ] {
                let mut host = Host { ring, ..Host::pentium4_2530mhz() };
                if settings.iter().any(|setting| host.set(setting).is_err()) {
                    panic!("{settings:?}");
                }
                let traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
                let point = Point::poisson(host, Scheme::of_record(scheme).unwrap(), kpps * 1e3);
                let point = Point { traffic, ..point };
                if schemes::supports(&point.host, &point.scheme).is_err() {
                    continue;
                }
                let (late, seen) = (records(&point, packets, ()), records(&point, packets, Seeing));
                let label = format!("{scheme} {settings:?} ring {ring}, {arrivals} at {kpps} kpps");
                assert!(late.marks == seen.marks, "marks of {label}");
                assert!(late.segments == seen.segments, "latencies of {label}");
                compared += 1;
                lost += seen.marks.last().unwrap().lost();
            }
        }
    }
    assert!(compared > 300 && lost > 1000, "{compared} {lost}");
}
