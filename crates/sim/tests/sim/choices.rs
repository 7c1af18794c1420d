//! One test for each modelling choice of docs/theory/choices.md, which fails if the choice changes. Times are constant
//! where that shows the choice best.

use netcliff_core::{Arrivals, Engine, Figure, Host, Outcome, Point, Scheme, Service, Traffic};
use netcliff_sim::{Effort, SimEngine};

/// A host with large constant costs (interrupt 10 us, mask 2 us, poll 5 us, protocol 4 us), so that each of them is
/// visible in the results.
fn host(settings: &[&str]) -> Host {
    let mut host = Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() };
    let common =
        ["interrupt=10us", "mask=2us", "poll=5us", "protocol=4us", "per_byte=0s", "wakeup=0s", "context_switch=3us"];
    common.iter().chain(settings).for_each(|setting| host.set(setting).expect("a setting"));
    host
}

fn simulate(host: Host, scheme: &str, pps: f64) -> Outcome {
    simulate_arrivals(host, scheme, Arrivals::Poisson, pps)
}

fn simulate_arrivals(host: Host, scheme: &str, arrivals: Arrivals, pps: f64) -> Outcome {
    let traffic = Traffic { arrivals, ..Traffic::default() };
    let point = Point { traffic, ..Point::poisson(host, scheme.parse().expect("a scheme"), pps) };
    let engine = SimEngine { seed: 5, effort: Effort::Exactly(200_000), ..SimEngine::default() };
    engine.evaluate(&point).expect("a supported point")
}

fn value(figure: Option<Figure>) -> f64 {
    figure.expect("a figure").value
}

#[track_caller]
fn near(found: Option<Figure>, expected: f64, relative: f64) {
    assert!((value(found) / expected - 1.0).abs() < relative, "{found:?}, not {expected}");
}

/// A load so low that at most one packet in a thousand arrives during the work for another packet.
const RARE_PPS: f64 = 100.0;

/// The median of one exponential stage is ln 2 of its mean, 2.77 us; the median of two stages of 2 us each would be
/// 3.36 us.
#[test]
fn mask_and_interrupt_are_one_stage() {
    let host = Host { service: Service::Exponential, ..host(&["interrupt=2us", "mask=2us", "protocol=1ns"]) };
    for scheme in ["disable-enable", "napi-2007", "coalesce:masked=true"] {
        let found = simulate(host.clone(), scheme, RARE_PPS);
        near(found.latency_s.expect("latencies").p50, 4e-6 * std::f64::consts::LN_2, 0.03);
    }
}

#[test]
fn only_napi_pays_to_unmask() {
    for (scheme, poll_s) in [("napi", 5e-6 + 2e-6), ("disable-enable", 0.0), ("coalesce:masked=true", 0.0)] {
        let cpu = simulate(host(&[]), scheme, RARE_PPS).cpu.expect("shares");
        near(cpu.interrupt, RARE_PPS * 12e-6, 0.03);
        let poll = value(cpu.poll);
        assert!((poll - RARE_PPS * poll_s).abs() <= 0.03 * RARE_PPS * 7e-6, "{scheme}: {poll}");
    }
}

#[test]
fn the_first_poll_of_napi_2007_costs_nothing() {
    let found = simulate(host(&[]), "napi-2007:period=100us,quota=3", RARE_PPS);
    assert!(value(found.cpu.expect("shares").poll) < 1e-9);
    near(found.polls_per_s, RARE_PPS, 0.03);
}

/// A packet arrives each microsecond, so that one waits at the end of every gap. A handler takes 10 us, and the gap of
/// 50 us begins at its end: handlers start every 60 us, not every 50 us.
#[test]
fn the_gap_runs_from_the_end_of_the_handler() {
    let found = simulate(host(&["protocol=100ns"]), "coalesce:frames=1,min_gap=50us", 1e6);
    near(found.interrupts_per_s, 1.0 / 60e-6, 1e-3);
}

/// A packet each microsecond: one waits at the end of every gap. For a NIC under NAPI the gap includes the interrupt's
/// own 12 us; `coalesce` has the paper's gap, which does not.
#[test]
fn the_gap_of_a_nic_before_napi_runs_from_the_assertion() {
    let found = simulate(host(&["protocol=100ns"]), "napi:min_gap=50us", 1e6);
    near(found.interrupts_per_s, 1.0 / 50e-6, 1e-3);
}

/// A packet every 20.1 us. The first one interrupts after 30 us and is polled with the next two until 59 us (12 us for
/// the interrupt, 5 for the poll, 4 for each packet); unmasking lasts until 61 us. The timer of the packet of 60.3 us,
/// which arrives during unmasking, starts at 61 us and interrupts at 91 us. The packet of 120.6 us interrupts at 152 us
/// in the same way. The packet of 180.9 us arrives before the ring is empty and is polled; the pattern then repeats
/// from the packet of 201 us. If timers started at the arrival, every third packet would interrupt.
#[test]
fn what_came_while_masked_is_timed_from_the_unmasking() {
    let found = simulate_arrivals(host(&[]), "napi:rx_usecs=30us", Arrivals::Constant, 1.0 / 20.1e-6);
    near(found.interrupts_per_s, 3.0 / 201e-6, 1e-3);
}

/// Every second frame interrupts; the frame before it has waited for one mean gap.
#[test]
fn an_unannounced_frame_waits() {
    let found = simulate(host(&[]), "coalesce:frames=2", RARE_PPS);
    near(found.latency_s.expect("latencies").mean, 0.5 / RARE_PPS, 0.03);
}

/// At idle: one poll per tick. In overload with a large quota: one poll per hundred packets, however many ticks occur
/// during the cycle.
#[test]
fn polls_are_cycles() {
    near(simulate(host(&[]), "polling:period=20us,quota=3", RARE_PPS).polls_per_s, 1.0 / 20e-6, 1e-3);
    let found = simulate(host(&[]), "polling:period=20us,quota=100", 1e6);
    near(found.polls_per_s, value(found.throughput_pps) / 100.0, 0.01);
}

#[test]
fn the_napi_thread_pays_the_switch() {
    for (scheme, poll_s) in [("napi:threaded=true", 5e-6 + 2e-6 + 3e-6), ("napi", 5e-6 + 2e-6)] {
        near(simulate(host(&[]), scheme, RARE_PPS).cpu.expect("shares").poll, RARE_PPS * poll_s, 0.03);
    }
}

/// A packet each 40 us, five per busy period. The first takes 30 us for its interrupt, 5 for the poll and 4 of
/// protocol. The second arrives during the 20 us of unmasking and interrupts at their end, until 89 us. In an older
/// kernel, ksoftirqd does the next round, so that the application gets the first packet at 92 us and the others at 192
/// to 195 us. A newer kernel polls until no packet arrives during a poll, and the application gets all five at 188 to
/// 192 us.
#[test]
fn an_older_kernel_leaves_what_is_scheduled_again_to_the_next_round() {
    for (scheme, taken_us) in
        [("napi:ksoftirqd=true", [92.0, 192.0, 193.0, 194.0, 195.0]), ("napi", [188.0, 189.0, 190.0, 191.0, 192.0])]
    {
        let host = host(&["mask=20us", "application=1us"]);
        let found = simulate_arrivals(host, scheme, Arrivals::Constant, 25e3);
        let waited_us: f64 =
            taken_us.iter().zip([0.0, 40.0, 80.0, 120.0, 160.0]).map(|(taken, came)| taken - came).sum();
        near(found.latency_s.expect("latencies").mean, 1e-6 * waited_us / 5.0, 1e-4);
    }
}

#[test]
fn latency_ends_when_the_packet_is_taken() {
    for scheme in ["disable-enable", "coalesce:masked=true"] {
        let latency = simulate(host(&["application=30us"]), scheme, RARE_PPS).latency_s.expect("latencies");
        let taken = 12e-6 + 4e-6 + 3e-6;
        near(latency.mean, taken, 0.02);
        near(latency.done_mean, taken + 30e-6, 0.02);
    }
}

/// Little's law, N = X W, with W until the end of the application's work. No packet is lost here. The arrivals are half
/// of a Poisson process, so that no control variate is used: its correction would make the mean latency differ from the
/// mean of the packets counted.
#[test]
fn littles_law_holds_for_all_that_is_in_the_host() {
    for scheme in ["napi", "disable-enable", "napi:threaded=true", "interrupt"] {
        let host = Host { application_s: Some(3e-6), context_switch_s: 1e-6, ..Host::pentium4_2530mhz() };
        let arrivals = Arrivals::Thinned { keep: 0.5, of: Box::new(Arrivals::Poisson) };
        let found = simulate_arrivals(host, scheme, arrivals, 70e3);
        assert_eq!(value(found.loss_fraction), 0.0, "{scheme}");
        let product = value(found.throughput_pps) * value(found.latency_s.expect("latencies").done_mean);
        near(found.packets_in_system, product, 2e-3);
    }
}

#[test]
fn defaults_of_drops_interrupt() {
    assert_eq!("interrupt".parse(), Ok(Scheme::Interrupt { drops_interrupt: true }));
    let Ok(Scheme::Coalesce(coalesce)) = "coalesce".parse() else { panic!("coalescing") };
    assert!(!coalesce.drops_interrupt);
}

/// Beyond the cliff, the application only gets the CPU time between ten polls whenever it asks for a packet, whatever
/// the packet budget is.
#[test]
fn the_budget_of_one_device_changes_nothing() {
    let of = |scheme: &str| {
        let host = Host { application_s: Some(2e-6), socket_buffer: 16, ring: 64, ..Host::pentium4_2530mhz() };
        value(simulate(host, scheme, 300e3).throughput_pps)
    };
    let (usual, least) = (of("napi"), of("napi:budget=1,budget_time=1us"));
    assert!((100.0..400.0).contains(&usual), "{usual}");
    assert!((least / usual - 1.0).abs() < 0.02, "{least} and {usual}");
}

/// A packet each 100 us, 50 us from its interrupt to the first look of the poll, 60 us of protocol work. If packets are
/// passed on at once, the next look at the ring finds the packet that arrived since, and there is one interrupt per
/// two packets. If packets are collected first, their work follows the last look: a cycle of n packets takes 50 + 60 n
/// us, in which n packets arrive: 1.25 packets per interrupt.
#[test]
fn what_comes_while_gathered_packets_are_handed_on_interrupts() {
    let slow = host(&["interrupt=40us", "mask=0us", "poll=10us", "protocol=60us"]);
    for (scheme, interrupts_per_s) in
        [("napi", 5e3), ("napi:gro_normal_batch=8", 8e3), ("napi:weight=10,gro_normal_batch=10", 8e3)]
    {
        let found = simulate_arrivals(slow.clone(), scheme, Arrivals::Constant, 10e3);
        near(Some(found.interrupts_per_s.expect("they are counted")), interrupts_per_s, 1e-3);
        near(found.throughput_pps, 10e3, 1e-3);
    }
}

/// Constant arrivals whose distance is a multiple of the timer's period always fall into the same point of the period.
/// A packet at x after a tick waits until the end of the tick's overhead, 5 us - x, or of the next tick's, 25 us - x:
/// 10 us on average over the period, plus 4 us for its own work. A single replication differs from this by 5.8 us.
#[test]
fn the_timer_begins_anywhere_in_its_period() {
    let found = simulate_arrivals(host(&[]), "polling:period=20us,quota=3", Arrivals::Constant, 10e3);
    let mean = found.latency_s.expect("latencies").mean.expect("a mean");
    let (low, high) = mean.interval.map(|interval| (interval.low, interval.high)).expect("an interval");
    assert!(low < 14e-6 && 14e-6 < high && high - low > 2e-6, "{mean:?}");
}
