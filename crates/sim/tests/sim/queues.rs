//! Hosts with several queues: properties that hold for any layout, and exact values where they are known.

use netcliff_core::{CpuShares, Engine, Figure, Host, Outcome, Point};
use netcliff_sim::{Effort, SimEngine};
use proptest::prelude::*;

fn point(queues: &str, scheme: &str, pps: f64) -> Point {
    let host = Host { queues: Some(queues.parse().unwrap()), ..Host::pentium4_2530mhz() };
    Point::poisson(host, scheme.parse().unwrap(), pps)
}

fn value(figure: Option<Figure>) -> f64 {
    figure.unwrap().value
}

fn busy(cpu: &CpuShares) -> f64 {
    value(cpu.interrupt) + value(cpu.poll) + value(cpu.protocol)
}

/// Checks that the rates of the queues add up to the host's, and that each core's time is counted once.
fn adds_up(found: &Outcome, label: &str) {
    let near =
        |a: f64, b: f64, what: &str| assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-12), "{what} {a} {b}: {label}");
    let parts: Vec<&Outcome> = found.queues.iter().filter_map(|queue| queue.outcome.as_ref()).collect();
    let sum = |pick: fn(&Outcome) -> Option<Figure>| parts.iter().map(|part| value(pick(part))).sum::<f64>();
    near(sum(|o| o.throughput_pps), value(found.throughput_pps), "throughput");
    near(sum(|o| o.offered_pps), value(found.offered_pps), "offered");
    near(sum(|o| o.interrupts_per_s), value(found.interrupts_per_s), "interrupts");
    near(sum(|o| o.packets_in_system), value(found.packets_in_system), "packets in system");
    let all = found.cpu.as_ref().unwrap();
    near(busy(all) + value(all.available), 1.0, "CPU");
    let cores: std::collections::BTreeSet<u32> = found.queues.iter().map(|queue| queue.core).collect();
    for core in cores {
        let own = found.queues.iter().filter(|queue| queue.core == core).filter_map(|queue| queue.outcome.as_ref());
        let shares: Vec<CpuShares> = own.map(|outcome| outcome.cpu.unwrap()).collect();
        if let Some(first) = shares.first() {
            let spent: f64 = shares.iter().map(busy).sum();
            near(spent + value(first.available), 1.0, &format!("CPU of core {core}"));
        }
    }
}

// Each run tests 60 new random layouts. A fault that affects one layout in 20 is then found with a probability of 95 %.
proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_the_queues_do_adds_up(
        scheme in prop::sample::select(vec![
            "ideal", "interrupt", "disable-enable:merged=false", "coalesce:frames=8", "coalesce:usecs=50us,masked=true",
            "napi", "napi:weight=4,budget=6",
        ]),
        on in prop::collection::vec(0_u32..3, 1..5),
        (pps, zipf, transmit, seed) in (20e3..900e3, 0.0..2.0, 0.0..3e-6, 1_u64..1000),
    ) {
        let places: Vec<String> = on.iter().map(ToString::to_string).collect();
        let queues = format!("{}:on={},transmit={transmit}s", on.len(), places.join("/"));
        let mut point = point(&queues, scheme, pps);
        point.host.ring = 64;
        point.traffic.flows = Some(format!("60:zipf={zipf}").parse().unwrap());
        let found = SimEngine::with_packets(seed, 8_000).evaluate(&point).unwrap();
        adds_up(&found, &format!("{point:?}"));
    }
}

/// Without interrupts and with enough room, three queues on one core are one M/M/1, in any order of service.
#[test]
fn ideal_queues_on_one_core_are_one_queue() {
    for (seed, rho, queues) in [(1, 0.5, "3:on=0/0/0"), (2, 0.8, "2:on=0/0,shares=80%/20%"), (3, 0.9, "4:on=2/2/2/2")] {
        let service_rate = Host::pentium4_2530mhz().mu_pps(64.0);
        let point = point(queues, "ideal", rho * service_rate);
        let engine = SimEngine { confidence: 0.99, ..SimEngine::with_packets(seed, 1_000_000) };
        let found = engine.evaluate(&point).unwrap();
        let (mean, left) = (found.latency_s.unwrap().mean.unwrap(), found.cpu.unwrap().available.unwrap());
        assert!(mean.covers(1.0 / (service_rate * (1.0 - rho))), "{queues}: {mean:?}");
        assert!(left.covers(1.0 - rho), "{queues}: {left:?}");
    }
}

/// With deterministic times and rings that are never empty, NAPI serves `weight` packets w of each queue in turn, with
/// one poll of overhead o. Each of two queues therefore gets half of 2 w/(2 w/mu + 2 o), whatever its offered load; a
/// small budget does not change this.
#[test]
fn overloaded_napi_queues_share_their_core_alike() {
    for scheme in ["napi:weight=8", "napi:weight=8,budget=8"] {
        let mut point = point("2:on=0/0,shares=75%/25%", scheme, 1e6);
        point.host.service = "deterministic".parse().unwrap();
        let found = SimEngine::with_packets(1, 200_000).evaluate(&point).unwrap();
        let each = 8.0 / (8.0 * point.host.service_s(64.0) + point.host.poll_s) / 2.0;
        for queue in &found.queues {
            let delivered = value(queue.outcome.as_ref().unwrap().throughput_pps);
            assert!((delivered / each - 1.0).abs() < 2e-3, "{scheme} queue {}: {delivered} {each}", queue.queue);
        }
    }
}

/// The interrupts of a busy queue starve its neighbour on the same core, but no queue on another core: receive livelock
/// spreads only over a shared core.
#[test]
fn livelock_spreads_over_a_shared_core_only() {
    let quiet_delivers = |queues: &str, scheme: &str| {
        let found = SimEngine::with_packets(5, 100_000).evaluate(&point(queues, scheme, 800e3)).unwrap();
        let quiet = found.queues[1].outcome.as_ref().unwrap();
        value(quiet.throughput_pps) / value(quiet.offered_pps)
    };
    let livelocking = "interrupt:drops_interrupt=true";
    assert!(quiet_delivers("2:shares=95%/5%", livelocking) > 0.99);
    assert!(quiet_delivers("2:on=0/0,shares=95%/5%", livelocking) < 0.9);
    assert!(quiet_delivers("2:on=0/0,shares=95%/5%", "napi") > 0.99);
}

/// Symmetric queues have equal results: each queue's 99.9 % interval contains the mean of all.
#[test]
fn symmetric_queues_get_the_same() {
    let engine = SimEngine { confidence: 0.999, ..SimEngine::with_packets(9, 400_000) };
    for queues in ["4", "4:on=0/0/1/1", "4:on=0/0/0/0"] {
        let found = engine.evaluate(&point(queues, "napi", 150e3)).unwrap();
        let mean = value(found.latency_s.unwrap().mean);
        for queue in &found.queues {
            let own = queue.outcome.as_ref().unwrap().latency_s.unwrap().mean.unwrap();
            assert!(own.covers(mean), "{queues} queue {}: {own:?} {mean}", queue.queue);
        }
    }
}

/// The result depends on the seed, not on the number of threads. A note says whether a precision was not reached.
#[cfg(feature = "parallel")]
#[test]
fn any_number_of_threads_gives_the_same() {
    let on = |threads: usize, engine: &SimEngine| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let point = point("5:on=0/0/1/1/2,transmit=1us", "napi:weight=8", 300e3);
        pool.install(|| engine.evaluate(&point).unwrap())
    };
    let fixed = SimEngine::with_packets(3, 50_000);
    let effort = Effort::Precision {
        relative: 0.05,
        packets_at_most: 2_000_000,
        figures: netcliff_core::outcome::Aims::default(),
    };
    assert_eq!(on(1, &fixed), on(3, &fixed));
    let precise = SimEngine { effort, ..fixed };
    let one = on(1, &precise);
    assert_eq!(one, on(3, &precise));
    let parts = one.queues.iter().filter_map(|queue| queue.outcome.as_ref()?.precision.as_ref());
    let reached: Vec<bool> = parts.map(|precision| precision.reached).collect();
    let is_noted = one.notes.iter().any(|note| note.to_string().contains("was not reached"));
    assert!(!reached.is_empty() && is_noted == reached.contains(&false), "{reached:?} {:?}", one.notes);
}

/// Interrupts spread over the cores that pairing uses: no work is counted twice, and a light load passes completely.
/// With equal numbers of vectors per core, the cliff equals the cliff of pairing, except for the completions' own
/// interrupts.
#[test]
fn spread_over_the_cores_of_pairing() {
    let engine = SimEngine::with_packets(5, 100_000);
    let at = |queues: &str, pps: f64| engine.evaluate(&point(queues, "napi", pps)).unwrap();
    let spread = |pps: f64| at("4:map=spread,on=0/1/2/3,transmit=4us", pps);
    let light = spread(100e3);
    assert!(value(light.loss_fraction) == 0.0, "{:?}", light.loss_fraction);
    assert!((value(light.throughput_pps) / 100e3 - 1.0).abs() < 0.02, "{:?}", light.throughput_pps);
    let cores: std::collections::BTreeSet<u32> = light.queues.iter().map(|queue| queue.core).collect();
    assert_eq!((cores.len(), light.queues.len()), (4, 8));
    let cpu = light.cpu.as_ref().unwrap();
    assert!((busy(cpu) + value(cpu.available) - 1.0).abs() < 1e-9, "{cpu:?}");
    // 100 kpps of 5.34 + 4 us on four cores, plus the interrupts.
    assert!((value(cpu.protocol) - 0.2335).abs() < 0.005, "{cpu:?}");
    let most = |queues: &str| value(at(queues, 900e3).throughput_pps);
    let (paired, apart) = (most("4:transmit=4us"), most("4:map=spread,on=0/1/2/3,transmit=4us"));
    assert!(apart < 1.05 * paired && apart > 0.5 * paired, "{paired} {apart}");
}
