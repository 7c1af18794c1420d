use netcliff_core::{Arrivals, Engine, Host, Outcome, Point, Scheme, Service, Traffic};

use crate::SimEngine;

/// Runs a host whose costs are so small that the gap alone decides.
fn outcome(scheme: &str, pps: f64) -> Outcome {
    let mut host = Host::pentium4_2530mhz();
    (host.interrupt_s, host.interrupt_latency_s, host.protocol_s, host.per_byte_s) = (1e-8, 0.0, 1e-7, 0.0);
    (host.mask_s, host.poll_s, host.application_s) = (0.0, 1e-8, None);
    SimEngine::with_packets(1, 100_000).evaluate(&constant(host, scheme, pps)).expect("it is simulated")
}

fn constant(host: Host, scheme: &str, pps: f64) -> Point {
    let traffic = Traffic { arrivals: Arrivals::Constant, ..Traffic::default() };
    Point { traffic, ..Point::poisson(host, Scheme::of_record(scheme).expect("a scheme"), pps) }
}

fn near(outcome: &Outcome, interrupts_per_s: f64, packets_per_poll: f64) {
    let of = |figure: Option<netcliff_core::Figure>| figure.expect("it is counted").value;
    let (interrupts, packets) = (of(outcome.interrupts_per_s), of(outcome.packets_per_poll));
    assert!((interrupts / interrupts_per_s - 1.0).abs() < 0.02, "{interrupts} for {interrupts_per_s} interrupts/s");
    assert!((packets / packets_per_poll - 1.0).abs() < 0.02, "{packets} for {packets_per_poll} packets a poll");
}

/// A packet every 20 us, a gap of 90 us. `Each`: one interrupt per gap. `Direct`: two interrupts per gap. The interrupt
/// that waited for the gap's end announces the packets that have arrived; then the unmasking interrupts for packets
/// that the polls have already taken, which starts the next gap.
#[test]
fn an_interrupt_that_waited_starts_no_gap() {
    near(&outcome("napi:min_gap=90us", 50e3), 1.0 / 90e-6, 4.5);
    let direct = outcome("napi:min_gap=90us,gap=direct", 50e3);
    let interrupts = direct.interrupts_per_s.expect("they are counted").value;
    assert!((1.9..2.1).contains(&(interrupts * 90e-6)), "{interrupts}: two in a gap");
}

/// With rare packets, the end of each gap raises one more interrupt, which finds no packets. With frequent packets,
/// this interrupt announces the packets that arrived during the gap.
#[test]
fn the_end_of_a_gap_interrupts_in_any_case() {
    near(&outcome("napi:min_gap=51.2us,gap=echo", 1e3), 2e3, 0.5);
    near(&outcome("napi:min_gap=128us,gap=direct", 1e3), 2e3, 0.5);
    near(&outcome("napi:min_gap=128us", 1e3), 1e3, 1.0);
    // Two interrupts per 60 us: the interrupt of the packet at 0, and the interrupt at the end of its gap at 51.2 us;
    // the packet at 60 us is the next.
    near(&outcome("napi:min_gap=51.2us,gap=echo", 100e3), 2.0 / 60e-6, 3.0);
}

/// Rare packets: one interrupt each. Four packets at once: the first one interrupts. The NIC remembers the others and
/// interrupts when the driver unmasks, after the poll that took them; the next poll finds no packets.
#[test]
fn what_is_remembered_interrupts_for_packets_that_polls_have_taken() {
    near(&outcome("napi:gap=latched", 1e3), 1e3, 1.0);
    near(&outcome("napi:gap=reopened", 1e3), 1e3, 1.0);
    let mut host = Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() };
    (host.interrupt_latency_s, host.application_s) = (0.0, None);
    let traffic = Traffic { arrivals: Arrivals::Batch { size: 4 }, ..Traffic::default() };
    let remembered =
        ["napi:gap=latched", "napi:gap=latched,min_gap=50us", "napi:gap=reopened"].map(|scheme| (scheme, 200.0, 2.0));
    for (scheme, interrupts_per_s, packets_per_poll) in remembered.into_iter().chain([("napi", 100.0, 4.0)]) {
        let point = Point { traffic: traffic.clone(), ..constant(host.clone(), scheme, 400.0) };
        let seen = SimEngine::with_packets(1, 100_000).evaluate(&point).expect("it is simulated");
        near(&seen, interrupts_per_s, packets_per_poll);
    }
}

/// After an interrupt for remembered packets, the next packet interrupts even if NAPI polls, and NAPI then polls once
/// more. With a packet every 30 us, and 46 us from an interrupt to the end of its poll: one interrupt per two packets
/// without remembering, two in 93 us with it.
#[test]
fn the_interrupt_stays_unmasked_after_one_for_what_was_remembered() {
    let mut host = Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() };
    (host.interrupt_s, host.interrupt_latency_s, host.mask_s) = (10e-6, 0.0, 0.0);
    (host.protocol_s, host.per_byte_s, host.poll_s, host.application_s) = (1e-6, 0.0, 35e-6, None);
    let interrupts = |scheme: &str| {
        let point = constant(host.clone(), scheme, 33e3);
        let outcome = SimEngine::with_packets(1, 100_000).evaluate(&point).expect("it is simulated");
        outcome.interrupts_per_s.expect("they are counted").value
    };
    let (each, reopened) = (interrupts("napi"), interrupts("napi:gap=reopened"));
    assert!(reopened > 1.2 * each, "{reopened} {each}");
}

/// One interrupt at 0, and one at the end of its gap at 71.2 us for the packets that have arrived by then. The next
/// interrupt is not before 91.2 us. Rare packets behave as without the delay.
#[test]
fn a_late_gap_ends_later_and_the_next_interrupt_rests_as_long() {
    near(&outcome("napi:min_gap=51.2us,gap=echo,gap_late=20us", 1e3), 2e3, 0.5);
    near(&outcome("napi:min_gap=51.2us,gap=echo,gap_late=20us", 500e3), 2.0 / 91.2e-6, 22.8);
    near(&outcome("napi:min_gap=51.2us,gap=echo,gap_late=0s", 100e3), 2.0 / 60e-6, 3.0);
}

/// Writing the unmask register takes so long (1 ms) that the packets that arrive during it fill the ring. The ring then
/// accepts no later packet whose interrupt could announce them, so that these packets must cause an interrupt.
#[test]
fn packets_that_come_while_the_driver_unmasks_interrupt() {
    let mut host = Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() };
    (host.interrupt_s, host.interrupt_latency_s, host.protocol_s, host.per_byte_s) = (1e-8, 0.0, 1e-7, 0.0);
    (host.mask_s, host.poll_s, host.application_s, host.ring) = (1e-3, 1e-8, None, 8);
    let point = constant(host, "napi:min_gap=51.2us,gap=echo", 20e3);
    let outcome = SimEngine::with_packets(1, 100_000).evaluate(&point).expect("it is simulated");
    // One millisecond to unmask, one for the interrupt and one for the interrupt at the gap's end; in this time the
    // ring accepts eight of sixty packets.
    let delivered_pps = outcome.throughput_pps.expect("it is told").value;
    assert!((delivered_pps / (8.0 / 3e-3) - 1.0).abs() < 0.05, "{delivered_pps}");
}

/// A packet every 2 us exceeds the host's capacity, so that NAPI polls all the time. One interrupt per gap finds NAPI
/// polling, and it has the cost of an interrupt during polling.
#[test]
fn an_interrupt_that_finds_polling_has_a_cost_of_its_own() {
    let mut host = Host::pentium4_2530mhz();
    (host.interrupt_s, host.interrupt_latency_s, host.interrupt_polling_s) = (40e-6, 0.0, Some(2e-6));
    (host.protocol_s, host.per_byte_s, host.application_s) = (4e-6, 0.0, None);
    let shares = |host: &Host| {
        let point = constant(host.clone(), "napi:min_gap=50us,gap=echo", 500e3);
        let outcome = SimEngine::with_packets(1, 100_000).evaluate(&point);
        let outcome = outcome.expect("it is simulated");
        let cpu = outcome.cpu.expect("it is split");
        (outcome.interrupts_per_s.expect("they are counted").value, cpu.interrupt.expect("it is told").value)
    };
    let (interrupts_per_s, share) = shares(&host);
    assert!(interrupts_per_s > 15e3, "{interrupts_per_s}");
    assert!((share / (interrupts_per_s * 2e-6) - 1.0).abs() < 0.05, "{share} of the CPU for {interrupts_per_s}/s");
    host.interrupt_polling_s = None;
    assert!(shares(&host).1 > 0.6, "as any other: {:?}", shares(&host));
}

/// A packet every millisecond, whose interrupt costs 20 us, 15 us of them charged to the application that it
/// interrupts. An application that works 0.5 ms per packet sleeps when the next packet arrives and pays nothing; an
/// application that works 1.2 ms is interrupted by each packet.
#[test]
fn what_an_interrupt_takes_when_the_application_goes_on_is_paid_by_one_that_was_hit() {
    let mut host = Host { service: Service::Deterministic, ..Host::pentium4_2530mhz() };
    (host.interrupt_s, host.mask_s, host.interrupt_resume_s) = (20e-6, 0.0, Some(15e-6));
    let shares = |application_s: f64| {
        let host = Host { application_s: Some(application_s), context_switch_s: 0.0, wakeup_s: 0.0, ..host.clone() };
        let outcome =
            SimEngine::with_packets(1, 20_000).evaluate(&constant(host, "napi", 1e3)).expect("it is simulated");
        let (cpu, delivered_pps) =
            (outcome.cpu.expect("it is split"), outcome.throughput_pps.expect("it is told").value);
        let share = |figure: Option<netcliff_core::Figure>| figure.expect("it is told").value;
        (share(cpu.interrupt), share(cpu.application) - delivered_pps * application_s)
    };
    let near = |(interrupt, beside): (f64, f64), expected: f64| {
        assert!((interrupt - 5e-3).abs() < 2e-4, "{interrupt} of the CPU in handlers");
        assert!((beside - expected).abs() < 1e-3, "{beside} of the CPU beside packets, not {expected}");
    };
    near(shares(0.5e-3), 0.0);
    near(shares(1.2e-3), 15e-3);
}
