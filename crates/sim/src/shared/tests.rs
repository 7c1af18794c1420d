use netcliff_core::{Host, Point, Traffic};

use super::{replicate, supports};
use crate::clock::Clock;
use crate::machine::Machine;
use crate::schemes;
use crate::tally::Account;

const SCHEMES: [&str; 11] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=false",
    "coalesce:frames=4",
    "coalesce:usecs=30us,masked=true",
    "coalesce:frames=6,usecs=40us,packet_timer=20us,min_gap=50us,drops_interrupt=true",
    "napi",
    "napi:weight=3,budget=10",
    "napi:weight=8,budget_time=20us",
    "napi:weight=8,defer_hard_irqs=2,gro_flush_timeout=30us",
];

fn point(scheme: &str, pps: f64, arrivals: &str, ring: u64) -> Point {
    let host = Host { ring, interrupt_latency_s: 2e-6, tick_s: 1e-4, ..Host::pentium4_2530mhz() };
    let traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
    Point { traffic, ..Point::poisson(host, scheme.parse().unwrap(), pps) }
}

/// A core with a single queue gives the same recorded counts, to the tick, as the machine of one queue.
#[test]
fn one_queue_agrees_with_the_machine_tick_for_tick() {
    let mut compared = 0;
    for scheme in SCHEMES {
        for (pps, arrivals, ring) in
            [(40e3, "poisson", 1024), (120e3, "poisson", 20), (300e3, "poisson", 64), (150e3, "batch:size=5", 16)]
        {
            for seed in [1, 2] {
                let point = point(scheme, pps, arrivals, ring);
                let packets = 4000;
                let clock = Clock::new(pps, packets);
                let shared = replicate(&[(seed, &point)], clock, 0, packets);
                let mut machine = Machine::new(&point, clock, seed, 0, packets, ());
                schemes::run(&point, clock, &mut machine);
                let (own, ()) = machine.finish();
                for (mark, (shared, own)) in shared[0].marks.iter().zip(&own.marks).enumerate() {
                    assert_eq!(shared, own, "mark {mark} of {scheme} {pps} {arrivals} seed {seed}");
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, SCHEMES.len() * 8);
}

/// Each queue accounts for every packet, all queues have the same clock, and the core's time is counted once.
#[test]
fn queues_on_one_core_conserve_packets_and_time() {
    for scheme in SCHEMES {
        for (queues, pps) in [(2, 50e3), (3, 60e3), (5, 60e3)] {
            let points: Vec<Point> =
                (0..queues).map(|n| point(scheme, pps * (1.0 + f64::from(n)) / 2.0, "poisson", 32)).collect();
            let seeded: Vec<(u64, &Point)> = (10..).zip(&points).collect();
            let packets = 5000;
            let records = replicate(&seeded, Clock::new(pps * f64::from(queues), packets), 3, packets);
            let last: Vec<_> = records.iter().map(|records| *records.marks.last().unwrap()).collect();
            assert_eq!(last.iter().map(|counts| counts.offered).sum::<u64>(), packets, "{scheme}");
            let busy: u64 =
                last.iter().map(|counts| counts.cpu[..Account::Available as usize].iter().sum::<u64>()).sum();
            for counts in &last {
                assert_eq!(counts.at, busy + counts.cpu[Account::Available as usize], "{scheme} {queues}");
                assert_eq!(counts.offered, counts.delivered + counts.dropped_ring + counts.inside_ring, "{scheme}");
                assert!(counts.delivered > 0, "{scheme} {queues}");
            }
        }
    }
}

#[test]
fn what_cannot_share_a_core_is_declined() {
    let supports = |point: &Point| supports(&point.host, &point.scheme, &point.traffic);
    for (scheme, part) in
        [("napi:threaded=true", "softirq context"), ("polling", "choose one of them"), ("dim", "choose one of them")]
    {
        let refusal = supports(&point(scheme, 1e3, "poisson", 8)).unwrap_err().to_string();
        assert!(refusal.contains(part), "{refusal}");
    }
    assert!(supports(&point("napi", 1e3, "constant", 8)).unwrap_err().to_string().contains("Poisson arrivals only"));
    let mut with_application = point("napi", 1e3, "poisson", 8);
    with_application.host.application_s = Some(1e-6);
    assert!(supports(&with_application).unwrap_err().to_string().contains("application=none"));
}
