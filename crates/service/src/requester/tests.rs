//! Tests of the requester with services of known behaviour, on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;
use crate::request::RequestSpec;

/// Behaviour of a test service at its n-th request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    Answers,
    /// Answers with an error of its protocol.
    Errs,
    Nothing,
    /// Answers after this time, and serves no other request until then.
    Takes(Duration),
}

/// A UDP service that returns each datagram, unless `behave` says otherwise, until the test program ends.
fn udp(behave: impl Fn(usize) -> Does + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        let mut count = 0;
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            match behave(count) {
                Does::Nothing => {}
                Does::Takes(time) => {
                    std::thread::sleep(time);
                    drop(socket.send_to(&buffer[..length], from));
                }
                _ => drop(socket.send_to(&buffer[..length], from)),
            }
            count += 1;
        }
    });
    address
}

/// An HTTP service with one thread per connection, which it closes after `most` answers.
fn http(most: usize, behave: impl Fn(usize) -> Does + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (behave, count, accepted) = (Arc::new(behave), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let (behave, count) = (Arc::clone(&behave), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = [0; 4096];
                for answer in 1..=most {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut buffer[..1]) {
                            Ok(1) => head.push(buffer[0]),
                            _ => return,
                        }
                    }
                    let what = behave(count.fetch_add(1, Ordering::Relaxed));
                    if let Does::Takes(time) = what {
                        std::thread::sleep(time);
                    }
                    let code = if what == Does::Errs { "500 Oh" } else { "200 OK" };
                    let closes = if answer == most { "Connection: close\r\n" } else { "" };
                    if what != Does::Nothing {
                        let text = format!("HTTP/1.1 {code}\r\nContent-Length: 2\r\n{closes}\r\nhi");
                        drop(stream.write_all(text.as_bytes()));
                    }
                }
            });
        }
    });
    (address, accepted)
}

/// A requester with a long timeout, because on a busy machine other programs may use the CPUs for a second. A trial
/// ends as soon as all requests are answered, so only missing answers take this time.
fn requester(to: SocketAddr, spec: &str, by: Option<&str>) -> Requester {
    let spec: RequestSpec = spec.parse().unwrap();
    let workload = Workload::read(&spec, None, by.map(|by| by.parse().unwrap()), to.port(), &to.to_string()).unwrap();
    Requester {
        to,
        workload: Arc::new(workload),
        connections: 4,
        depth: 1,
        new_connections: false,
        tls: None,
        timeout_ns: 3_000_000_000,
        netns: None,
        cpu: netcliff_packets::thread::allowed_cpus()[0],
        stop: Arc::default(),
    }
}

/// The counts of a trial as text, without histograms.
fn shown(report: &Report) -> String {
    let Counts { requests, answers, wrong_answers, late_answers, .. } = report.counts;
    format!("requests {requests} answers {answers} wrong {wrong_answers} late {late_answers} {:?}", report.failure)
}

fn load(rate_rps: f64) -> Load {
    Load { rate_rps, arrivals: Some(Arrivals::Constant), warm_up_s: 0.05, window_s: 0.4, seed: 1 }
}

/// Repeats a trial until one is `undisturbed`: on a busy machine requester or service may get no CPU for half a second.
fn repeated(requester: &Requester, load: &Load, undisturbed: impl Fn(&Report) -> bool) -> Report {
    let trial = || Some(requester.trial(load).unwrap().whole()).filter(&undisturbed);
    netcliff_testkit::retried(5, "disturbed trials", trial)
}

/// A trial whose requests were all sent. A requester that gets no CPU at the end of the window does not send the
/// requests that are due then.
fn whole(requester: &Requester, load: &Load) -> Report {
    repeated(requester, load, |report| report.offered == report.counts.requests)
}

#[test]
fn answers_of_many_under_way_find_their_requests() {
    let requester = requester(udp(|_| Does::Answers), "udp:00000000aabb", Some("0:4"));
    requester.ask_once(false).unwrap();
    // All requests of a trial fit into one socket's buffer, so that none is dropped while a thread waits for a CPU.
    let quick = |report: &Report| report.counts.times.quantile_s(0.5).unwrap() < 0.05;
    let report = repeated(&requester, &load(400.0), |report| report.offered == report.counts.requests && quick(report));
    assert_eq!(
        (report.counts.requests, report.counts.answers, report.counts.unanswered()),
        (160, 160, 0),
        "{}",
        shown(&report)
    );
    assert!(quick(&report), "{}", shown(&report));
    assert!(
        report.failure.is_none() && report.missed == 0 && report.busy > 0.0 && report.busy < 1.0,
        "{}",
        shown(&report)
    );
}

#[test]
fn what_is_not_answered_is_lost() {
    let every_fifth = |n: usize| if n.is_multiple_of(5) { Does::Nothing } else { Does::Answers };
    let requester = Requester { timeout_ns: 1_000_000_000, ..requester(udp(every_fifth), "udp:00000000", Some("0:4")) };
    let report = whole(&requester, &load(500.0));
    assert_eq!(
        (report.counts.requests, report.counts.unanswered(), report.counts.wrong_answers),
        (200, 40, 0),
        "{}",
        shown(&report)
    );
    // Datagrams without a number: a port whose answer is missing is replaced by another port.
    let without = Requester {
        connections: 40,
        timeout_ns: 100_000_000,
        workload: super::tests::requester(requester.to, "udp:00", None).workload,
        ..requester
    };
    let report = repeated(&without, &load(1000.0), |report| report.counts.unanswered() == 80);
    assert_eq!(report.counts.unanswered(), 80, "{}", shown(&report));
    assert!(report.opened >= 120, "{}", report.opened);
}

/// A service that stops for 60 ms at every 200th request. Response times are measured from when requests were due, so
/// all requests due during a stop are slow, although only one request is outstanding per connection.
#[test]
fn requests_that_wait_for_a_slow_one_count_as_slow() {
    let stands = Arc::new(std::sync::Mutex::new(()));
    let first = AtomicUsize::new(0);
    let (to, _) = http(usize::MAX, move |_| {
        let _held = stands.lock().unwrap();
        if first.fetch_add(1, Ordering::Relaxed) % 200 == 100 {
            std::thread::sleep(Duration::from_millis(60));
        }
        Does::Answers
    });
    let requester = requester(to, "http:/", None);
    let report = whole(&requester, &load(1000.0));
    // Of the 400 requests, 60 are due in each stop; they wait for the end of the stop, from 60 ms down to 0.
    let slow = report.counts.slower_than(0.02);
    assert_eq!((report.counts.requests, report.counts.answers), (400, 400));
    // At least half of the 60 requests of one stop are slower than 20 ms; on a busy machine there are more.
    assert!(slow >= 30, "{slow}");
}

#[test]
fn errors_are_counted_apart_and_closed_connections_are_opened_again() {
    let (to, accepted) = http(10, |n| if n.is_multiple_of(4) { Does::Errs } else { Does::Answers });
    let requester = requester(to, "http:/", None);
    // There is no warm-up, because a busy service might count the last requests of a warm-up after the first requests
    // of the window.
    let report = whole(&requester, &Load { warm_up_s: 0.0, ..load(1000.0) });
    assert_eq!((report.counts.wrong_answers, report.counts.answers), (100, 300), "{}", shown(&report));
    assert!(accepted.load(Ordering::Relaxed) >= 40 && report.failure.is_none(), "{}", shown(&report));
}

#[test]
fn a_connection_for_each_request() {
    let (to, accepted) = http(usize::MAX, |_| Does::Answers);
    let requester = Requester { new_connections: true, connections: 16, ..requester(to, "http:/", None) };
    let report = whole(&requester, &load(500.0));
    assert_eq!((report.counts.requests, report.counts.answers), (200, 200), "{}", shown(&report));
    assert!(accepted.load(Ordering::Relaxed) >= 200);
}

/// The port is not HTTP's: the protocol follows from the capture.
#[test]
fn requests_of_a_captured_connection_are_answered() {
    let (to, accepted) = http(usize::MAX, |_| Does::Answers);
    let get = b"GET /own HTTP/1.1\r\nHost: own\r\nConnection: close\r\n\r\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), crate::request::tests::tcp_pcap(to.port(), &[(100, get), (200, get), (400, get)]))
        .unwrap();
    let requester = requester(to, &format!("pcap:{}", file.path().display()), None);
    requester.ask_once(false).unwrap();
    let report = whole(&requester, &Load { arrivals: None, ..load(500.0) });
    assert!(report.counts.requests > 150 && report.counts.answers == report.counts.requests, "{}", shown(&report));
    assert!(accepted.load(Ordering::Relaxed) <= 5 + 4 * 5, "connections stay open");
}

/// The load is twice the service's capacity: requests wait in the requester, and are given up after the timeout.
#[test]
fn overload_is_seen_by_connections_too() {
    let busy = std::sync::Mutex::new(());
    let (to, _) = http(usize::MAX, move |_| {
        let _held = busy.lock().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        Does::Answers
    });
    let requester = Requester { timeout_ns: 100_000_000, ..requester(to, "http:/", None) };
    let report = requester.trial(&load(1000.0)).unwrap().whole();
    assert!(report.counts.requests == 400 && report.counts.answers < 330, "{}", shown(&report));
    assert!(report.counts.late_answers + report.counts.unanswered() > 70, "{}", shown(&report));
    assert!(report.void().is_none() || report.late > 0);
}

#[test]
fn a_requester_that_falls_behind_makes_a_trial_void() {
    let requester = requester(udp(|_| Does::Answers), "udp:00000000", Some("0:4"));
    let report = requester.trial(&Load { window_s: 0.2, ..load(2e7) }).unwrap();
    assert!(report.void().is_some_and(|void| void.why == VoidReason::SenderTooSlow), "{}", report.in_time);
}

/// A search continues below the rate that a slow requester reached. If a trial is void for another reason, the requester
/// reached the load.
#[test]
fn a_void_trial_gives_the_search_the_rate_that_was_reached() {
    let trial = SearchTrial { load_pps: 500.0, duration_s: 0.2, sent: 100, lost: 3 };
    let counts = |requests| Counts { requests, ..Counts::default() };
    let report = |requests, excluded, in_time, offered| Report {
        counts: counts(requests),
        excluded,
        in_time,
        offered,
        late: 100 - in_time,
        window_s: 0.2,
        ..Report::default()
    };
    let void = |reached_pps, why| Answer::Void { reached_pps, why };
    assert_eq!(report(100, 0, 100, 100).answer(trial), Answer::Valid(trial));
    let behind = Report { saturated: true, ..report(100, 0, 10, 40) };
    assert_eq!(behind.answer(trial), void(200.0, VoidReason::SenderTooSlow), "40 requests in 0.2 s");
    assert_eq!(report(40, 60, 100, 100).answer(trial), void(500.0, VoidReason::SenderUneven));
    let missed = Report { missed: 1, ..report(100, 0, 100, 100) };
    assert_eq!(missed.answer(trial), void(500.0, VoidReason::SinkTooSlow));
}

/// A datagram that is too short for a number precedes the answer: each datagram is parsed separately.
#[test]
fn an_answer_stands_for_itself_after_a_stray_datagram() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            drop(socket.send_to(&[0xff], from));
            drop(socket.send_to(&buffer[..length], from));
        }
    });
    requester(to, "udp:00000000", Some("0:4")).ask_once(false).unwrap();
}

#[test]
fn nobody_there_is_an_error_with_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let http = requester(free, "http:/", None);
    let once = http.ask_once(false).unwrap_err().to_string();
    assert!(once.contains(&free.to_string()) && once.contains("refused"), "{once}");
    let error = http.trial(&load(100.0)).unwrap_err().to_string();
    assert!(error.contains(&free.to_string()) && error.contains("refused"), "{error}");
    let (wrong, _) = self::http(usize::MAX, |_| Does::Errs);
    let error = requester(wrong, "http:/", None).ask_once(false).unwrap_err().to_string();
    assert!(error.contains("not as http does") && error.contains("500"), "{error}");
}

/// Only one request is slow, but those behind it wait: late answers are counted separately from missing answers.
#[test]
fn late_answers_are_told_from_missing_ones() {
    let slow = |n: usize| if n == 50 { Does::Takes(Duration::from_millis(250)) } else { Does::Answers };
    let requester = Requester { timeout_ns: 100_000_000, ..requester(udp(slow), "udp:00000000", Some("0:4")) };
    let report = requester.trial(&load(500.0)).unwrap().whole();
    assert!(report.counts.late_answers > 50 && report.counts.unanswered() < 5, "{}", shown(&report));
}

/// An HTTPS service with a certificate for service.test. It answers each request, and closes a connection after its
/// first `most` answers.
fn https(most: usize) -> SocketAddr {
    https_by(most, rustls::ALL_VERSIONS)
}

fn https_by(most: usize, versions: &[&'static rustls::SupportedProtocolVersion]) -> SocketAddr {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let pem = include_bytes!("tls/test.pem");
    let certificate = CertificateDer::from_pem_slice(pem).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let mut session = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::Stream::new(&mut session, &mut stream);
                for answer in 1..=most {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut byte) {
                            Ok(1) => head.push(byte[0]),
                            _ => return,
                        }
                    }
                    let closes = if answer == most { "Connection: close\r\n" } else { "" };
                    // The answer is sent as two records, the second one long.
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n{closes}\r\n");
                    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&[b'x'; 20_000])).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn encrypted_connections_are_asked_as_others_are() {
    let insecure = tls::Wanted { insecure: true, ..tls::Wanted::default() };
    let with = |to: SocketAddr, wanted: &tls::Wanted| {
        let tls = Some(tls::Client::new(wanted, crate::protocol::Protocol::Http, to.ip()).unwrap());
        Requester { tls, ..requester(to, "https:/", None) }
    };
    let kept = with(https(usize::MAX), &insecure);
    kept.ask_once(false).unwrap();
    let report = whole(&kept, &load(200.0));
    assert_eq!((report.counts.requests, report.counts.answers, report.opened), (80, 80, 4), "{}", shown(&report));
    let closed = whole(&with(https(10), &insecure), &load(200.0));
    assert!(closed.counts.answers == 80 && closed.opened >= 8, "{} opened {}", shown(&closed), closed.opened);
    // The handshake of TLS 1.2 takes two round trips.
    let older = with(https_by(usize::MAX, &[&rustls::version::TLS12]), &insecure);
    older.ask_once(false).unwrap();
    assert_eq!(whole(&older, &load(200.0)).counts.answers, 80);
    let fresh = Requester { new_connections: true, ..with(https(usize::MAX), &insecure) };
    let report = whole(&fresh, &load(100.0));
    assert!(report.counts.answers == 40 && report.opened >= 40, "{} opened {}", shown(&report), report.opened);
}

#[test]
fn certificates_are_checked() {
    let to = https(usize::MAX);
    let ask = |to: SocketAddr, wanted: &tls::Wanted| {
        let tls = Some(tls::Client::new(wanted, crate::protocol::Protocol::Http, to.ip())?);
        Requester { tls, ..requester(to, "https:/", None) }.ask_once(false).map_err(|error| error.to_string())
    };
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/requester/tls/test.pem");
    let by = |file: &str| tls::Wanted { ca_file: Some(file.into()), ..tls::Wanted::default() };
    ask(to, &by(own)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no certificate").unwrap();
    let error = ask(to, &by(file.path().to_str().unwrap())).unwrap_err();
    assert!(error.contains("--cacert") && error.contains("no certificate"), "{error}");
    // The second file has no end.
    for file in ["/nowhere/ca.pem", "/dev/zero"] {
        let error = ask(to, &by(file)).unwrap_err();
        assert!(error.contains(&format!("--cacert {file}: ")), "{error}");
    }
    let named = tls::Wanted { server_name: Some("not a name".to_owned()), ..by(own) };
    assert!(ask(to, &named).unwrap_err().contains("--server-name not a name"));
    if let Err(error) = ask(to, &tls::Wanted::default()) {
        assert!(error.contains("--insecure"), "{error}");
    } else {
        panic!("trusted by the system");
    }
    // A service without TLS.
    let (plain, _) = http(usize::MAX, |_| Does::Answers);
    let insecure = tls::Wanted { insecure: true, ..tls::Wanted::default() };
    let error = ask(plain, &insecure).unwrap_err();
    assert!(error.contains("TLS") || error.contains("did not answer"), "{error}");
}
