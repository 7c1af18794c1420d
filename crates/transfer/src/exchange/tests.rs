//! Real transactions on loopback, within this process and through an agent.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::near::{Near, Target, run};
use super::report::{OneWay, Report};
use super::*;
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::thread::Placement;
use netcliff_remote::control::Limits;
use netcliff_remote::control::agent::{Agent, Event, Settings as AgentSettings};
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::{Proven, Purpose, Token};

mod cpus;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn settings(transport: Transport) -> Settings {
    Settings { transport, warm_up_s: 0.05, time_s: 0.3, timeout_s: 0.5, ..Settings::default() }
}

fn near<'a>(targets: Vec<Target>, token: Token, stop: &'a AtomicBool) -> Near<'a> {
    Near {
        targets,
        token,
        placement: Placement::default(),
        path: "loopback".into(),
        same_clock: true,
        same_host: true,
        stop,
        intervals: None,
        others: None,
        gone: None,
    }
}

fn targets(settings: &Settings, ports: &[u16]) -> Vec<Target> {
    let port = |flow: usize| ports[flow % ports.len()];
    (0..settings.flows as usize).map(|flow| Target::Address(SocketAddr::new(LOOPBACK, port(flow)))).collect()
}

/// Runs both ends in this process.
fn both(settings: &Settings) -> Report {
    let token = Token::new().expect("random bytes");
    let stop = AtomicBool::new(false);
    let (mut server, targets) = if settings.transport == Transport::Unix {
        let pairs: Vec<_> = (0..settings.flows).map(|_| UnixStream::pair().expect("a pair")).collect();
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let server = Server::over(settings, theirs, &Placement::default()).expect("it serves");
        (server, ours.into_iter().map(Target::Pair).collect())
    } else {
        let server = Server::listen(settings, LOOPBACK, token, &Placement::default()).expect("it listens");
        let targets = targets(settings, server.ports());
        (server, targets)
    };
    run(settings, near(targets, token, &stop), &mut || Some(server.count()), None).expect("it runs")
}

/// Checks what every complete run must have.
fn sound(report: &Report, about: &str) {
    assert_eq!(report.partial, None, "{about}");
    assert!(report.transactions > 0, "{about}");
    let latency = report.latency.as_ref().expect("transactions have latencies");
    assert_eq!(latency.summary.count, report.transactions, "{about}");
    assert_eq!(latency.counts_ns.iter().map(|(_, count)| count).sum::<u64>(), report.transactions, "{about}");
    assert!(latency.summary.min_s > 0.0 && latency.summary.p50_s <= latency.summary.p99_s, "{about}");
    let flows: f64 = report.flow_rates_per_s.iter().sum();
    assert!((flows / report.rate_per_s - 1.0).abs() < 1e-9, "{about}");
    let client = report.cost.client_threads.expect("transactions cost time");
    assert!(client.cpus > 0.0 && client.us_per_transaction > 0.0, "{about}");
}

#[test]
fn closed_loops_over_every_transport() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Unix] {
        for (flows, depth) in [(1, 1), (3, 4)] {
            let report = both(&Settings { flows, depth, ..settings(transport) });
            let about = format!("{transport:?} {flows} x {depth}");
            sound(&report, &about);
            assert_eq!(report.flow_rates_per_s.len(), flows as usize, "{about}");
            assert!(report.cost.server_threads.is_some_and(|cost| cost.us_per_transaction > 0.0), "{about}");
            let OneWay::Delays { forth, back } = &report.one_way else { panic!("{about}: one clock") };
            let total = report.latency.as_ref().expect("sound").summary.mean_s;
            let ways = forth.summary.mean_s + back.summary.mean_s;
            assert!(ways <= total * 1.01, "{about}: {ways} s on the way of {total} s");
        }
    }
}

#[test]
fn sizes_that_do_not_divide_what_is_read() {
    for (request_bytes, response_bytes) in [(1, 1), (70_001, 3), (5, 100_003)] {
        let report = both(&Settings { request_bytes, response_bytes, depth: 3, ..settings(Transport::Tcp) });
        sound(&report, &format!("{request_bytes} B, {response_bytes} B"));
        let delays = matches!(report.one_way, OneWay::Delays { .. });
        assert_eq!(delays, response_bytes >= STAMPED_BYTES, "{request_bytes} B, {response_bytes} B");
    }
}

#[test]
fn a_connection_for_each_transaction() {
    let report = both(&Settings { connect_each: true, flows: 2, ..settings(Transport::Tcp) });
    sound(&report, "connect, request, response");
    let plain = both(&settings(Transport::Tcp));
    let median = |report: &Report| report.latency.as_ref().expect("sound").summary.p50_s;
    assert!(median(&report) > median(&plain), "making a connection takes time");
}

#[test]
fn spinning_ends_answer_too() {
    let report = both(&Settings { receive: Receive::Spin, ..settings(Transport::Udp) });
    assert!(report.transactions > 0 && report.partial.is_none(), "{report:?}");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    for (transport, arrivals) in [(Transport::Tcp, Arrivals::Constant), (Transport::Udp, Arrivals::Poisson)] {
        let asked = Settings { rate_per_s: Some(2000.0), arrivals, flows: 2, time_s: 1.0, ..settings(transport) };
        let report = both(&asked);
        sound(&report, "open loop");
        // 2000 requests are due in a second. For Poisson the standard deviation is 45; the tolerance is five of these.
        assert!(report.asked().abs_diff(2000) < 230, "{} asked", report.asked());
        assert!(report.lateness.is_some());
    }
}

/// The answering end pauses: an open loop must show the pause in the latencies, a closed loop hides it.
#[test]
fn a_pause_is_seen_by_every_request_that_was_due_in_it() {
    const PAUSE: Duration = Duration::from_millis(200);
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    let server = thread::spawn(move || {
        let (mut buffer, mut begin) = ([0; 64], None);
        while theirs.read_exact(&mut buffer).is_ok() {
            let since = *begin.get_or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_millis(300) && begin.is_some() {
                thread::sleep(PAUSE);
                begin = Some(Instant::now() + Duration::from_secs(60));
            }
            if theirs.write_all(&buffer).is_err() {
                return;
            }
        }
    });
    let stop = AtomicBool::new(false);
    let asked = Settings {
        rate_per_s: Some(500.0),
        arrivals: Arrivals::Constant,
        time_s: 0.8,
        timeout_s: 1.0,
        ..settings(Transport::Unix)
    };
    let token = Token::new().expect("random bytes");
    let report = run(&asked, near(vec![Target::Pair(ours)], token, &stop), &mut || None, None).expect("it runs");
    server.join().expect("no panic");
    let latency = report.latency.expect("answers").latency();
    // Of 400 requests, the 100 that were due in the pause waited for the rest of it: 0 to 200 ms, uniformly.
    let slow = 1.0 - latency.histogram().count_between(0, 50_000_000) as f64 / latency.count() as f64;
    assert!((0.12..0.40).contains(&slow), "{slow} of the requests waited 50 ms or more; 75 of 400 should have");
    assert!(latency.quantile_s(1.0).expect("answers") >= 0.19);
}

#[test]
fn lost_datagrams_are_counted_and_the_test_goes_on() {
    let socket = UdpSocket::bind((LOOPBACK, 0)).expect("a port");
    let address = socket.local_addr().expect("bound");
    let token = Token::new().expect("random bytes");
    let server = thread::spawn(move || {
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        let (mut buffer, mut seen) = ([0; 2048], 0u64);
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            seen += 1;
            if let Some(of) = token.proven(Purpose::Join, &buffer[..bytes]) {
                socket.send_to(&token.proof(Purpose::Answer, of), from).expect("loopback");
            } else if seen % 10 != 0 {
                // Every tenth request gets no answer.
                socket.send_to(&buffer[..bytes], from).expect("loopback");
            }
        }
    });
    let stop = AtomicBool::new(false);
    let asked = Settings { timeout_s: 0.02, ..settings(Transport::Udp) };
    let report = run(&asked, near(vec![Target::Address(address)], token, &stop), &mut || None, None).expect("it runs");
    server.join().expect("no panic");
    assert_eq!(report.partial, None);
    assert!(report.timeouts > 0 && report.transactions > 8 * report.timeouts, "{report:?}");
    assert!(report.transactions < 10 * (report.timeouts + 1), "{report:?}");
}

#[test]
fn a_far_end_that_dies_leaves_what_was_measured() {
    let token = Token::new().expect("random bytes");
    let stop = AtomicBool::new(false);
    let asked = Settings { time_s: 30.0, flows: 2, ..settings(Transport::Tcp) };
    let server = Server::listen(&asked, LOOPBACK, token, &Placement::default()).expect("it listens");
    let to = targets(&asked, server.ports());
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        drop(server);
    });
    let begin = Instant::now();
    let report = run(&asked, near(to, token, &stop), &mut || None, None).expect("what was measured is kept");
    killer.join().expect("no panic");
    assert!(begin.elapsed() < Duration::from_secs(5), "it does not wait for the end of its 30 s");
    assert!(report.transactions > 0);
    let why = report.partial.expect("it is marked");
    // If a request was not read, the kernel ends the connection by a reset.
    assert!(why.contains("2 of 2 flows ended early") && (why.contains("closed") || why.contains("reset")), "{why}");
}

#[test]
fn a_stopped_test_keeps_what_was_measured() {
    let asked = Settings { time_s: 30.0, ..settings(Transport::Udp) };
    let token = Token::new().expect("random bytes");
    let mut server = Server::listen(&asked, LOOPBACK, token, &Placement::default()).expect("it listens");
    let stop = Arc::<AtomicBool>::default();
    let theirs = Arc::clone(&stop);
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(400));
        theirs.store(true, Ordering::Relaxed);
    });
    let near = near(targets(&asked, server.ports()), token, &stop);
    let report = run(&asked, near, &mut || Some(server.count()), None).expect("it runs");
    stopper.join().expect("no panic");
    assert_eq!(report.partial.as_deref(), Some("it was stopped"));
    assert!(report.transactions > 0 && (0.1..2.0).contains(&report.window_s), "{report:?}");
}

#[test]
fn unauthenticated_connections_are_refused() {
    let token = Token::new().expect("random bytes");
    let stop = AtomicBool::new(false);
    for transport in [Transport::Tcp, Transport::Udp] {
        let asked = settings(transport);
        let server = Server::listen(&asked, LOOPBACK, token, &Placement::default()).expect("it listens");
        let address = SocketAddr::new(LOOPBACK, server.ports()[0]);
        let mut silent = Vec::new();
        if transport == Transport::Tcp {
            // One connection sends a wrong proof; forty send nothing and stay open.
            let mut liar = TcpStream::connect(address).expect("it listens");
            liar.write_all(&[b'x'; 64]).expect("loopback");
            silent.push(liar);
            silent.extend((0..20).map(|_| TcpStream::connect(address).expect("it listens")));
        } else {
            let liar = UdpSocket::bind((LOOPBACK, 0)).expect("a port");
            (0..50).for_each(|_| _ = liar.send_to(&[b'x'; 16], address).expect("loopback"));
        }
        let server = Mutex::new(server);
        let mut count = || Some(server.lock().expect("not poisoned").count());
        let report = run(&asked, near(targets(&asked, &[address.port()]), token, &stop), &mut count, None);
        let report = report.expect("the right client is let in");
        sound(&report, "beside unauthenticated connections");
        assert!(report.refused >= 1, "{transport:?}: {}", report.refused);
    }
}

/// A silent connection does not block an acceptor, even if each transaction has its own connection.
#[test]
fn silent_connections_hold_no_acceptor() {
    let token = Token::new().expect("random bytes");
    let stop = AtomicBool::new(false);
    let asked = Settings { connect_each: true, ..settings(Transport::Tcp) };
    let server = Server::listen(&asked, LOOPBACK, token, &Placement::default()).expect("it listens");
    let address = SocketAddr::new(LOOPBACK, server.ports()[0]);
    // If each silent connection blocked an acceptor for 100 ms, they would take the whole test.
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let server = Mutex::new(server);
    let mut count = || Some(server.lock().expect("not poisoned").count());
    let report = run(&asked, near(targets(&asked, &[address.port()]), token, &stop), &mut count, None);
    let report = report.expect("the right client is let in");
    sound(&report, "beside silent connections");
    assert!(report.transactions > 20, "{}", report.transactions);
    drop(silent);
}

/// A proof that was seen on the wire admits no second connection.
#[test]
fn a_proof_is_good_for_one_connection() {
    let token = Token::new().expect("random bytes");
    let asked = Settings { flows: 2, ..settings(Transport::Tcp) };
    let mut server = Server::listen(&asked, LOOPBACK, token, &Placement::default()).expect("it listens");
    let address = SocketAddr::new(LOOPBACK, server.ports()[0]);
    let answered = |flow: u32, number: u64| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        stream.write_all(&token.proof(Purpose::Join, Proven { flow, number })).expect("loopback");
        stream.write_all(&vec![0; asked.request_bytes]).expect("loopback");
        let mut answer = vec![0; asked.response_bytes];
        (std::io::Read::read_exact(&mut stream, &mut answer).is_ok(), stream)
    };
    let (first, _first) = answered(0, 0);
    let (again, _again) = answered(0, 0);
    let (other, _other) = answered(1, 0);
    let (beyond, _beyond) = answered(2, 0);
    assert_eq!([first, again, other, beyond], [true, false, true, false]);
    assert_eq!(server.count().refused, 2);
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |change: fn(&mut Settings)| {
        let mut changed = settings(Transport::Tcp);
        change(&mut changed);
        changed.check().expect_err("out of range").to_string()
    };
    assert!(refused(|s| s.request_bytes = 0).contains("request is 0: expected 1 to 1048576 bytes"));
    assert!(refused(|s| s.response_bytes = 1 << 40).contains("response is 1099511627776"));
    assert!(refused(|s| (s.transport, s.request_bytes) = (Transport::Udp, 4)).contains("8 to 65507 bytes"));
    assert!(refused(|s| s.flows = 0).contains("flows is 0: expected 1 to 256"));
    assert!(refused(|s| s.depth = 5000).contains("depth is 5000"));
    assert!(refused(|s| s.time_s = f64::NAN).contains("time is NaN"));
    assert!(refused(|s| s.timeout_s = 0.0).contains("timeout is 0"));
    assert!(refused(|s| s.rate_per_s = Some(-1.0)).contains("rate is -1"));
    assert!(refused(|s| (s.rate_per_s, s.depth) = (Some(1.0), 2)).contains("no depth"));
    assert!(refused(|s| (s.connect_each, s.transport) = (true, Transport::Udp)).contains("for TCP"));
}

#[test]
fn a_cpu_that_does_not_exist_is_named() {
    let placement = Placement { cpu: Some(100_000), ..Placement::default() };
    let token = Token::new().expect("random bytes");
    let error = Server::listen(&settings(Transport::Tcp), LOOPBACK, token, &placement).unwrap_err().to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
}

/// Two clients use one agent at once; a third test has settings that the agent refuses.
#[test]
fn through_an_agent() {
    let agent_settings = AgentSettings {
        key: None,
        limits: Limits::default(),
        kinds: vec![Arc::new(RrKind)],
        services: Vec::new(),
        version: "0".into(),
        stop: Arc::default(),
    };
    let stop_agent = Arc::clone(&agent_settings.stop);
    let log = Arc::new(|_: &Event<'_>| ());
    let agent = Agent::bind(&[SocketAddr::new(LOOPBACK, 0)], agent_settings, log).expect("loopback");
    let address = agent.addresses().expect("it listens")[0].to_string();
    let agent = thread::spawn(move || agent.run());
    let client = |asked: Settings| {
        let address = address.clone();
        thread::spawn(move || {
            let mut session = Session::connect(&address, None, "0", Limits::default()).expect("it listens");
            let ready = session.start(RrKind::NAME, &asked).map_err(|e| e.to_string())?;
            let (stop, gone) = (AtomicBool::new(false), session.gone());
            let near = Near { gone: Some(gone), ..near(targets(&asked, &ready.ports), ready.token, &stop) };
            let mut far = || session.report().ok().and_then(|report| serde_json::from_value(report).ok());
            let report = run(&asked, near, &mut far, None).expect("it runs");
            let last = session.stop().expect("it is there");
            assert_eq!(last.partial, None);
            Ok::<_, String>(report)
        })
    };
    let running = [
        client(settings(Transport::Tcp)),
        client(Settings { flows: 3, ..settings(Transport::Udp) }),
        client(Settings { connect_each: true, ..settings(Transport::Tcp) }),
        client(Settings { far_meter: true, ..settings(Transport::Tcp) }),
    ];
    let refused = client(Settings { request_bytes: 0, ..settings(Transport::Tcp) });
    for client in running {
        let report = client.join().expect("no panic").expect("accepted");
        sound(&report, "through an agent");
        assert!(report.cost.server_threads.is_some());
    }
    // The near end is made to believe that the agent is another host, so that the agent's meter counts.
    let elsewhere = |asked: &Settings| {
        let mut session = Session::connect(&address, None, "0", Limits::default()).expect("it listens");
        assert!(session.offers(netcliff_remote::control::CPU_METER));
        let ready = session.start(RrKind::NAME, asked).expect("accepted");
        let stop = AtomicBool::new(false);
        let near = Near { same_host: false, ..near(targets(asked, &ready.ports), ready.token, &stop) };
        let mut far = || session.report().ok().and_then(|report| serde_json::from_value(report).ok());
        run(asked, near, &mut far, None).expect("it runs")
    };
    let report = elsewhere(&Settings { far_meter: true, ..settings(Transport::Tcp) });
    let told = report.notes.iter().any(|note| note.contains("far end's host: not available"));
    let exact = report.cost.server_exact.as_ref();
    assert!(exact.is_some() != told, "one of the two: {report:?}");
    assert!(exact.is_none_or(|cost| cost.method == "ebpf" && cost.busy_cpus > 0.0 && !cost.split.is_empty()));
    assert!(report.cost.server_host.is_some_and(|cost| cost.method == "procfs"));
    let counted = report.cost.client_threads.is_some_and(|cost| cost.cycles_per_transaction.is_some());
    assert_eq!(counted, !report.notes.iter().any(|note| note.contains("cycles and instructions: not available")));
    let error = refused.join().expect("no panic").expect_err("no request");
    assert!(error.contains("request is 0"), "{error}");
    stop_agent.store(true, Ordering::Relaxed);
    agent.join().expect("no panic").expect("it ends cleanly");
}

mod live {
    //! Interim reports of a running test.

    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::exchange::{Interval, Intervals};

    /// The intervals cover the window without gaps, and their transactions are those of the window.
    #[test]
    fn intervals_cover_the_window() {
        for (flows, rate_per_s) in [(2, None), (1, Some(500.0))] {
            let settings = Settings { flows, rate_per_s, time_s: 0.4, ..settings(Transport::Tcp) };
            let stop = AtomicBool::new(false);
            let token = Token::new().expect("random");
            let listening = Server::listen(&settings, LOOPBACK, token, &Placement::default());
            let mut server = listening.expect("it listens");
            let heard = Mutex::new(Vec::<Interval>::new());
            let passed = |interval| heard.lock().expect("no panic").push(interval);
            let intervals = Some(Intervals { every: Duration::from_millis(50), passed: &passed });
            let near = Near { intervals, ..near(targets(&settings, server.ports()), token, &stop) };
            let report = run(&settings, near, &mut || Some(server.count()), None).expect("it runs");
            let heard = heard.into_inner().expect("no panic");
            assert!((2..=9).contains(&heard.len()), "{heard:?}");
            assert!(heard[0].from_s == 0.0 && heard.windows(2).all(|pair| pair[0].to_s == pair[1].from_s), "{heard:?}");
            assert!(heard.last().is_some_and(|last| last.to_s > 0.37), "{heard:?}");
            let all: u64 = heard.iter().map(|interval| interval.transactions).sum();
            // Transactions that end in the last moments or, with an open loop, after the window, are only in the final
            // report.
            assert!(all > 0 && all <= report.transactions, "{all} of {}: {heard:?}", report.transactions);
            let longest = report.latency.as_ref().expect("transactions").summary.max_s;
            assert!(
                heard.iter().filter_map(|interval| interval.max_s).all(|max_s| max_s <= longest * 1.01),
                "{heard:?}"
            );
        }
    }
}
