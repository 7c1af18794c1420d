//! Generator and sink over a real veth pair: every packet is accounted for.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::common::{Pair, pair_or_skip};
use netcliff_packets::WireError;
use netcliff_packets::error::Refusal;
use netcliff_packets::frame::Header;
use netcliff_packets::generator::{Generator, RateLimits};
use netcliff_packets::run::{WireRun, run, run_with};
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::sink::{Application, Reader, Work};
use netcliff_packets::source::Timing;
use netcliff_packets::thread::Priority;
use netcliff_packets::transmit::{self, Method};
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::key::Token;
use netcliff_remote::load::{Load, LoadKind, LoadRequest, Permission};

const METHODS: [Method; 2] = [Method::PacketBatch, Method::PacketRing { slots: 8192 }];

fn schedule(arrivals: Arrivals, rate_pps: f64) -> Schedule {
    Schedule::new(arrivals, rate_pps, 1, 0).expect("a legal rate")
}

fn measure(pair: &Pair, method: Method, rate_pps: f64, measured_s: f64, work: Work) -> WireRun {
    let mut generator = pair.generator(0, 64);
    generator.method = method;
    let mut sink = pair.sink(1);
    sink.work = work;
    run(
        generator,
        sink,
        schedule(Arrivals::Poisson, rate_pps),
        Timing::measured(measured_s),
        &Arc::default(),
        |_, _| (),
    )
    .expect("the pair works")
}

/// Checks that must hold at any load and on a noisy machine.
fn conserved(run: &WireRun) {
    let accounting = run.accounting;
    assert_eq!(
        accounting.offered,
        accounting.delivered + accounting.refused + accounting.sender + accounting.elsewhere,
        "{accounting:?}"
    );
    assert_eq!(run.sender.frames.total(), run.sender.next_sequence);
    assert_eq!(run.sink.duplicates + run.sink.too_old + run.sink.reordered, 0);
    assert!(run.sink.highest_sequence < Some(run.sender.next_sequence));
    assert_eq!(run.sink.end_to_end.count(), accounting.delivered);
    assert_eq!(run.sink.kernel_to_read.count(), accounting.delivered);
    assert_eq!(accounting.run_unexplained, Some(0), "accepted = read + dropped by the socket: {accounting:?}");
}

#[test]
fn a_light_load_arrives_whole() {
    let Some(pair) = pair_or_skip() else { return };
    for method in METHODS {
        let run = measure(&pair, method, 5_000.0, 0.4, Work::None);
        conserved(&run);
        // The test machine may be busy: loss is allowed, unaccounted packets are not. The Poisson count of the window
        // lies within z = 5 standard deviations of 2000.
        assert!((run.accounting.offered as f64 - 2000.0).abs() < 5.0 * 2000f64.sqrt(), "{:?}", run.accounting);
        assert!(run.accounting.delivered > 0);
    }
}

/// A round trip is longer than the shortest one-way time. The number of answers is at most the number that the sink
/// sent.
#[test]
fn answers_tell_round_trips() {
    let Some(pair) = pair_or_skip() else { return };
    let mut generator = pair.generator(0, 64);
    generator.round_trips = true;
    let mut sink = pair.sink(1);
    sink.answer_each = NonZeroU64::new(20);
    let (timing, schedule) = (Timing::measured(0.4), schedule(Arrivals::Poisson, 5_000.0));
    let run = run(generator.clone(), sink, schedule, timing, &Arc::default(), |_, _| ()).expect("the pair works");
    conserved(&run);
    let times = run.sender.round_trips.as_ref().expect("they were asked for");
    // About a hundred answers in the window, fewer if the machine is busy.
    assert!((10..=run.sink.answers).contains(&times.count()), "{} of {}", times.count(), run.sink.answers);
    let (shortest, way) = (times.quantile_s(0.0), run.sink.end_to_end.quantile_s(0.0));
    assert!(shortest.unwrap() > 0.999 * way.unwrap(), "{shortest:?} there and back, {way:?} there");
    assert!(times.quantile_s(1.0).unwrap() < 1.0, "by one clock");
    generator.method = Method::Socket;
    let refused =
        Generator::prepare(generator, Arc::default()).expect_err("answers would come to its socket").to_string();
    assert!(refused.contains("round_trips") && refused.contains("AF_PACKET"), "{refused}");
}

#[test]
fn an_overload_is_accounted_for() {
    let Some(pair) = pair_or_skip() else { return };
    for method in METHODS {
        // 20 us of work per packet: at most 50 kpps of the offered 200 kpps are read.
        let run = measure(&pair, method, 200_000.0, 0.3, Work::CpuTime(20e-6));
        conserved(&run);
        assert!(run.delivered_pps() < Some(60_000.0), "{:?}", run.delivered_pps());
        assert!(run.loss_fraction() > Some(0.5));
        assert!(run.accounting.run_socket_drops.is_some_and(|drops| drops > 0) || run.accounting.refused > 0);
    }
}

#[test]
fn a_rate_beyond_the_sender_is_never_a_receiver_limit() {
    let Some(pair) = pair_or_skip() else { return };
    for method in METHODS {
        let run = measure(&pair, method, 50e6, 0.1, Work::None);
        assert!(!run.sender.kept_up, "{method:?}");
        assert!(run.sender.behind_s > 0.0);
        assert!(run.sender.achieved_pps < Some(20e6));
        conserved(&run);
    }
}

#[test]
fn big_frames_and_batches_pass_with_right_checksums() {
    let Some(pair) = pair_or_skip() else { return };
    for method in METHODS {
        for frame_bytes in [65, 1518] {
            let mut generator = pair.generator(0, frame_bytes);
            generator.method = method;
            let mut sink = pair.sink(1);
            sink.reader = Reader::Recvmmsg { batch: 16 };
            let schedule = schedule(Arrivals::Constant, 2_000.0);
            let run = run(generator, sink, schedule, Timing::measured(0.1), &Arc::default(), |_, _| ())
                .expect("the pair works");
            conserved(&run);
            assert_eq!(run.accounting.offered, 200, "constant arrivals");
            // A wrong checksum would lose every frame.
            assert!(run.accounting.delivered > 0, "{method:?} {frame_bytes}");
        }
    }
}

#[test]
fn a_sink_that_dies_stops_the_generator_and_keeps_both_sides() {
    struct Fragile(u32);
    impl Application for Fragile {
        fn handle(&mut self, _: &[u8]) {
            self.0 += 1;
            if self.0 == 500 {
                // `resume_unwind` bypasses the panic hook, which would spend seconds on a backtrace.
                std::panic::resume_unwind(Box::new("the application broke"));
            }
        }
    }
    let Some(pair) = pair_or_skip() else { return };
    let failure = run_with(
        pair.generator(0, 64),
        pair.sink(1),
        Box::new(Fragile(0)),
        schedule(Arrivals::Poisson, 5_000.0),
        Timing::measured(20.0),
        &Arc::default(),
        |_, _| (),
    )
    .expect_err("the sink dies");
    assert!(failure.to_string().contains("the sink thread died"), "{failure}");
    assert!(failure.sink.is_some_and(|sink| sink.delivered == 500));
    let sender = failure.sender.expect("it was running");
    assert!(sender.stopped && sender.frames.total() >= 500, "{sender:?}");
}

#[test]
fn an_interface_that_goes_down_is_told_from_a_full_receiver() {
    let Some(pair) = pair_or_skip() else { return };
    pair.set_receiver("down");
    let outcome = run(
        pair.generator(0, 64),
        pair.sink(1),
        schedule(Arrivals::Poisson, 1_000.0),
        Timing::measured(0.1),
        &Arc::default(),
        |_, _| (),
    );
    let failure = outcome.expect_err("no carrier");
    assert!(matches!(failure.reason, WireError::NoCarrier { .. }), "{failure}");
}

#[test]
fn refused_frames_are_offered_once() {
    let Some(pair) = pair_or_skip() else { return };
    for method in METHODS {
        let config = pair.generator(0, 64);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                config.placement.enter().expect("the namespace exists");
                let mut ring = transmit::open(method, "v0", &config.frame, 32).expect("the pair works");
                let mut offer = |frames: u64| {
                    for sequence in 0..frames {
                        assert!(ring.stage(&Header { sequence, intended_ns: 0 }));
                    }
                    ring.kick().expect("the interface exists")
                };
                let before = offer(10);
                pair.set_receiver("down");
                let down = [offer(32), offer(1)];
                pair.set_receiver("up");
                (before, down, offer(32))
            });
            let (before, down, after) = sender.join().expect("no assertion failed");
            assert_eq!((before.accepted, before.total()), (10, 10), "{method:?}");
            assert_eq!(down.map(|kick| kick.refused), [32, 1], "{method:?}");
            assert_eq!((after.accepted, after.total()), (32, 32), "none of the refused comes again: {method:?}");
        });
    }
}

#[test]
fn stopping_keeps_what_was_measured() {
    let Some(pair) = pair_or_skip() else { return };
    let stop = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&stop);
    let run = run(
        pair.generator(0, 64),
        pair.sink(1),
        schedule(Arrivals::Poisson, 5_000.0),
        Timing { warmup_s: 0.0, ..Timing::measured(30.0) },
        &stop,
        move |sent, _| {
            if sent > 1000 {
                flag.store(true, Ordering::Relaxed);
            }
        },
    )
    .expect("stopping is no failure");
    assert!(run.sender.stopped);
    assert!(run.accounting.offered > 1000 && run.accounting.offered < 100_000);
    assert!(run.measured_s < 20.0, "the window ends with the run: {}", run.measured_s);
    conserved(&run);
}

/// First two clients, then six, request loads from one agent at once. The agent refuses loads beyond its rate. The far
/// end of the wire counts the packets of all clients together.
#[test]
fn all_clients_of_an_agent_keep_its_rate_together() {
    const MOST_PPS: f64 = 20e3;
    const SECONDS: f64 = 1.0;
    let Some(pair) = pair_or_skip() else { return };
    let limits = RateLimits::of(Some(MOST_PPS));
    let kind =
        LoadKind { permission: Permission::Any, netns: Some(pair.netns("a")), limits, priority: Priority::default() };
    let start = |load: Load| {
        let request = LoadRequest {
            destination: "10.199.7.2:9000".parse().expect("an address"),
            destination_mac: None,
            interface: None,
            source_port: 1024,
            more_flows: Vec::new(),
            vlan: None,
            method: None,
            most_pps: None,
            frame_bytes: 64,
            run_id: 1,
            max_burst: 32,
            cpu: None,
            by_control_link: false,
            round_trips: false,
            load,
        };
        let settings = serde_json::to_value(&request).expect("plain data");
        kind.start(&settings, &Context { local: None, token: Token::new().expect("random bytes"), settings: true })
    };
    let paced = |rate_pps: f64| {
        start(Load::Paced { arrivals: Arrivals::Poisson, rate_pps, seed: 1, timing: Timing::measured(SECONDS) })
    };
    let flat_out = || start(Load::FlatOut { seconds: SECONDS });
    // Runs the loads like an agent's session, until all have ended. Returns the frames on the wire, and what the
    // generators report.
    let watched = |mut loads: Vec<Box<dyn FarEnd>>| {
        let (before, begun) = (pair.received(), std::time::Instant::now());
        while loads.iter_mut().any(|load| !load.finished()) {
            assert!(begun.elapsed().as_secs() < 20);
            for load in &mut loads {
                load.report().expect("it is there");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let sent: u64 = loads.into_iter().map(|load| load.stop()["sent"].as_u64().expect("a count")).sum();
        (pair.received() - before, sent)
    };
    let refused_after = |first: Vec<Result<Box<dyn FarEnd>, Refusal>>, next: Result<Box<dyn FarEnd>, Refusal>| {
        let refused = next.err().expect("all is in use").to_string();
        assert!(refused.contains("0pps is left of the 20kpps") && refused.contains("--max-rate"), "{refused}");
        first.into_iter().map(|load| load.expect("it fits")).collect::<Vec<_>>()
    };
    let two = refused_after(vec![flat_out()], flat_out());
    let (arrived, sent) = watched(two);
    // Lead and grace time of a load of one second last some 10 ms; other frames on the link are few.
    let most = (MOST_PPS * (SECONDS + 0.1 + 0.05)) as u64;
    assert!((1_000..most).contains(&sent) && arrived <= sent + 50, "{sent} sent, {arrived} arrived");

    let begun = std::time::Instant::now();
    let six: Vec<_> = (0..4).map(|_| paced(5e3)).collect();
    let six = refused_after(six, paced(5e3));
    assert!(paced(5e3).is_err(), "the sixth as the fifth");
    let (arrived, sent) = watched(six);
    let most = (MOST_PPS * (begun.elapsed().as_secs_f64() + 0.1)) as u64;
    assert!((1_000..most).contains(&sent) && arrived <= sent + 50, "{sent} sent, {arrived} arrived");
    assert!(paced(20e3).is_ok(), "what has ended is free again");
}
