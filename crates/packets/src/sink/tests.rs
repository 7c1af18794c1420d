use std::time::Instant;

use super::*;
use crate::frame::Header;

const RUN: u32 = 42;

fn config() -> SinkConfig {
    SinkConfig::new("127.0.0.1:0".parse().expect("an address"), RUN)
}

fn always(intended_ns: u64) -> Window {
    Window { from_ns: intended_ns, to_ns: u64::MAX }
}

/// Sends packets with these sequence numbers, all with the intended send time of now.
fn send(to: SocketAddr, sequences: &[u64]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for &sequence in sequences {
        let header = Header { sequence, intended_ns: clock::monotonic_ns() };
        socket.send_to(&header.to_bytes(RUN), to).expect("loopback");
    }
}

#[test]
fn counts_each_kind_of_packet_with_each_reader() {
    for reader in [Reader::Recvmsg, Reader::Recvmmsg { batch: 4 }, Reader::BusyPoll] {
        let sink = Sink::spawn(SinkConfig { reader, ..config() }, Arc::default()).expect("loopback");
        sink.measure(always(clock::monotonic_ns()));
        send(sink.address(), &[0, 1, 3, 2, 3, 7]);
        let foreign = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        foreign.send_to(b"hello", sink.address()).expect("loopback");
        let report = sink.finish(2.0).expect("it lives");
        assert_eq!(report.delivered, 5, "{reader:?}");
        assert_eq!(report.window_delivered, 5);
        assert_eq!((report.duplicates, report.reordered, report.foreign), (1, 1, 1));
        assert_eq!(report.highest_sequence, Some(7));
        assert_eq!(report.window_lost(8), 3);
        assert_eq!(report.socket_drops, Some(0));
        assert_eq!(report.end_to_end.count(), 5);
        assert_eq!(report.kernel_to_read.count(), 5);
        let parts = report.send_to_kernel.histogram().mean() + report.kernel_to_read.histogram().mean();
        let whole = report.end_to_end.histogram().mean();
        // The tolerance covers two roundings to three digits and the error of the offset between the clocks.
        assert!((parts - whole).abs() < 0.01 * whole + 2000.0, "{parts} {whole}");
        assert!(report.cpu.is_some_and(|cpu| cpu.wall_s > 0.0));
    }
}

#[test]
fn only_the_window_is_measured() {
    let sink = Sink::spawn(config(), Arc::default()).expect("loopback");
    let from_ns = clock::monotonic_ns() + 30_000_000;
    sink.measure(always(from_ns));
    send(sink.address(), &[0, 1, 2]);
    std::thread::sleep(std::time::Duration::from_millis(40));
    send(sink.address(), &[3, 4]);
    let report = sink.finish(2.0).expect("it lives");
    assert_eq!((report.delivered, report.window_delivered), (5, 2));
}

#[test]
fn a_small_buffer_drops_and_says_so() {
    struct Slow;
    impl Application for Slow {
        fn handle(&mut self, _: &[u8]) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    let small = SinkConfig { receive_buffer_bytes: Some(4096), ..config() };
    let sink = Sink::spawn_with(small, Box::new(Slow), Arc::default()).expect("loopback");
    sink.measure(always(clock::monotonic_ns()));
    send(sink.address(), &(0..100).collect::<Vec<_>>());
    let report = sink.finish(5.0).expect("it lives");
    let drops = report.socket_drops.expect("Linux tells");
    assert!(drops > 0, "{report:?}");
    assert_eq!(report.delivered + drops, 100, "every packet has its place");
    assert!(report.receive_buffer_bytes.is_some_and(|bytes| bytes >= 4096));
}

#[test]
fn a_dead_application_leaves_what_was_measured() {
    struct Fragile(u32);
    impl Application for Fragile {
        fn handle(&mut self, _: &[u8]) {
            self.0 += 1;
            if self.0 == 3 {
                // `resume_unwind` bypasses the panic hook, which would spend seconds on a backtrace.
                std::panic::resume_unwind(Box::new("the application broke"));
            }
        }
    }
    let sink = Sink::spawn_with(config(), Box::new(Fragile(0)), Arc::default()).expect("loopback");
    sink.measure(always(clock::monotonic_ns()));
    send(sink.address(), &[0, 1, 2, 3, 4]);
    let begin = Instant::now();
    while !sink.is_finished() && begin.elapsed().as_secs() < 5 {
        std::thread::yield_now();
    }
    assert!(sink.is_finished(), "the caller can see it");
    let failure = sink.finish(1.0).expect_err("it died");
    assert!(failure.to_string().contains("the application broke"), "{failure}");
    assert_eq!(failure.measured.map(|m| m.window_delivered), Some(3));
}

#[test]
fn the_stop_flag_ends_a_blocked_sink() {
    let stop = Arc::<AtomicBool>::default();
    let sink = Sink::spawn(config(), Arc::clone(&stop)).expect("loopback");
    stop.store(true, Ordering::Relaxed);
    let begin = Instant::now();
    let report = sink.finish(60.0).expect("it lives");
    assert!(begin.elapsed().as_secs() < 10);
    assert_eq!((report.delivered, report.cpu), (0, None));
}

#[test]
fn a_port_in_use_and_a_foreign_address_are_named() {
    let first = Sink::spawn(config(), Arc::default()).expect("loopback");
    let taken = SinkConfig { bind: first.address(), ..config() };
    let error = Sink::spawn(taken, Arc::default()).expect_err("taken").to_string();
    assert!(error.contains("choose another"), "{error}");
    let elsewhere = SinkConfig { bind: "192.0.2.1:0".parse().expect("an address"), ..config() };
    let error = Sink::spawn(elsewhere, Arc::default()).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1") && error.contains("not configured"), "{error}");
    first.finish(0.0).expect("it lives");
}

#[test]
fn generators_are_told_apart_and_sinks_add_up() {
    let both = || SinkConfig { more_runs: vec![RUN + 1], ..config() };
    let sinks = [both(), both()].map(|config| Sink::spawn(config, Arc::default()).expect("loopback"));
    let now = clock::monotonic_ns();
    // The second generator's clock is an hour ahead.
    let hour_ns = 3_600_000_000_000;
    for sink in &sinks {
        let later = Window { from_ns: now + hour_ns, to_ns: now + 2 * hour_ns };
        sink.measure_each(vec![always(now), later]);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for (place, run, sequence, ahead_ns) in [
        (0, RUN, 0, 0),
        (1, RUN, 1, 0),
        (0, RUN + 1, 0, hour_ns),
        (1, RUN + 1, 1, hour_ns),
        (1, RUN + 1, 1, hour_ns),
        (0, RUN + 2, 0, 0),
        // This packet precedes its generator's window.
        (0, RUN + 1, 2, 0),
    ] {
        let header = Header { sequence, intended_ns: clock::monotonic_ns() + ahead_ns };
        socket.send_to(&header.to_bytes(run), sinks[place].address()).expect("loopback");
    }
    let reports = sinks.map(|sink| sink.finish(2.0).expect("it lives"));
    let mut all = reports[0].clone();
    all.add(&reports[1]);
    assert_eq!((all.delivered, all.window_delivered, all.foreign, all.duplicates), (5, 4, 1, 1));
    assert_eq!(all.slots.iter().sum::<u64>(), 4);
    assert!(all.firsts_ns.iter().all(Option::is_some) && all.firsts_ns.len() == 2);
    let ahead_ns = all.clock_ahead_ns.expect("by the first one's clock");
    assert!(ahead_ns.unsigned_abs() < hour_ns / 2, "{ahead_ns}");
    assert_eq!(all.socket_drops, Some(0));
}
