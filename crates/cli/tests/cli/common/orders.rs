//! Requests of a client at the limits of what an agent accepts, drawn from a named seed, and a client that carries them
//! out as far as possible.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use netcliff_remote::control::Limits;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::{Key, Proven, Purpose, Token};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// A request to an agent: the name of a test, and its settings.
pub type AgentRequest = (&'static str, Value);

/// Draws `count` requests. The same seed gives the same list.
pub fn orders(seed: u8, count: usize) -> Vec<AgentRequest> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let draw = prop_oneof![3 => transfer(), 1 => rr()];
    (0..count).map(|_| draw.new_tree(&mut runner).expect("nothing is filtered").current()).collect()
}

/// Draws mostly usual values, so that a request with many settings is sometimes accepted.
fn mostly<T: std::fmt::Debug + 'static>(
    usual: impl Strategy<Value = T> + 'static,
    edge: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![25 => usual, 1 => edge]
}

/// Sizes of a block or a read (bytes).
fn block() -> impl Strategy<Value = u64> {
    mostly(
        prop_oneof![2 => (3_u32..15, 0_u64..3).prop_map(|(bits, more)| (1 << bits) + more), 1 => (15_u32..24).prop_map(|bits| 1 << bits)],
        size(),
    )
}

/// A number of any size: most around the powers of two.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0_u32..26, -1_i64..2).prop_map(|(bits, more)| (1_u64 << bits).saturating_add_signed(more)),
        1 => (26_u32..64, -1_i64..2).prop_map(|(bits, more)| (1_u64 << bits).saturating_add_signed(more)),
        1 => Just(u64::from(u32::MAX)),
        1 => Just(u64::MAX),
        1 => Just(0),
    ]
}

/// Usually a number from 1 to `most`, sometimes any number.
fn few(most: u64) -> impl Strategy<Value = u64> {
    mostly(1..=most, size())
}

fn seconds() -> impl Strategy<Value = f64> {
    mostly(0.001..0.3, prop::sample::select(vec![0.0, 60.0, 86_400.0, 1e300, -1.0, 1e-320]))
}

fn one_of(values: Vec<Value>) -> impl Strategy<Value = Value> {
    prop::sample::select(values)
}

fn transfer() -> impl Strategy<Value = AgentRequest> {
    let what = (
        one_of(vec![
            json!("tcp"),
            json!("multipath"),
            json!({ "udp": "single" }),
            json!({ "udp": "batch" }),
            json!({ "udp": "segmented" }),
        ]),
        mostly(
            one_of(vec![
                json!("write"),
                json!("write-v"),
                json!("splice"),
                json!("zero-copy"),
                json!({ "uring": { "zero_copy": false } }),
                json!({ "uring": { "zero_copy": true } }),
                json!({ "send-own-file": { "bytes": 1 << 20, "cold": false } }),
            ]),
            prop_oneof![
                size().prop_map(|bytes| json!({ "send-own-file": { "bytes": bytes, "cold": false } })),
                Just(json!({ "send-file": { "file": "/etc/passwd", "cold": false } })),
            ],
        ),
        one_of(vec![json!("send"), json!("receive"), json!("both")]),
        one_of(vec![json!("read"), json!("read"), json!("mapped"), json!("uring")]),
        prop_oneof![2 => seconds().prop_map(|s| json!({ "seconds": s })), 1 => mostly(1_u64..1 << 30, size()).prop_map(|bytes| json!({ "bytes": bytes }))],
        options(),
    );
    let sizes = (few(100), block(), block(), prop_oneof![2 => few(20), 1 => size()]);
    let rest = (
        seconds(),
        prop::option::of(seconds()),
        mostly(0.2..1.0, seconds()),
        mostly(prop::collection::vec(Just(0), 0..3), prop::collection::vec(0_u64..4, 900..1200)),
        prop::option::weighted(0.3, few(8)),
        (prop::bool::weighted(0.05), any::<bool>(), prop::bool::weighted(0.05), prop::option::weighted(0.05, size())),
    );
    (what, sizes, rest).prop_map(|(what, (flows, block, read, windows), rest)| {
        let (carrier, path, direction, receive, amount, options) = what;
        let (warm_up_s, interval_s, stall_s, cpus, threads, (meter, devices, acknowledged, low_water)) = rest;
        let mut order = json!({
            "carrier": carrier, "path": path, "options": options, "direction": direction, "flows": flows, "block_bytes": block,
            "read_bytes": read, "receive": receive, "warm_up_s": warm_up_s, "amount": amount, "windows": windows,
            "acknowledged": acknowledged, "interval_s": interval_s, "stall_s": stall_s, "cpu": null, "cpus": cpus, "meter": meter,
            "devices": devices,
        });
        if let Some(threads) = threads {
            order["threads"] = json!(threads);
        }
        if let Some(bytes) = low_water {
            order["low_water_bytes"] = json!(bytes);
        }
        ("transfer", order)
    })
}

fn options() -> impl Strategy<Value = Value> {
    let small = || prop::option::weighted(0.1, size().prop_map(|size| size.min(u64::from(u32::MAX))));
    (any::<bool>(), small(), small(), small(), prop::option::weighted(0.3, size()), any::<bool>()).prop_map(
        |(no_delay, send, receive, mss, pacing, by_sender)| {
            json!({
                "no_delay": no_delay, "congestion": null, "send_buffer_bytes": send, "receive_buffer_bytes": receive, "mss_bytes": mss,
                "tos": null, "pacing_bps": pacing, "paced_by_sender": by_sender,
            })
        },
    )
}

fn rr() -> impl Strategy<Value = AgentRequest> {
    let what = (
        mostly(one_of(vec![json!("tcp"), json!("udp")]), Just(json!("unix"))),
        prop::bool::weighted(0.3),
        block(),
        block(),
        few(64),
        mostly(Just(1), few(4096)),
    );
    let rest = (
        prop::option::weighted(0.2, seconds()),
        seconds(),
        seconds(),
        seconds(),
        one_of(vec![json!("block"), json!("block"), json!("block"), json!({ "kernel-poll": 50 })]),
        prop::bool::weighted(0.05),
    );
    (what, rest).prop_map(|((transport, connect_each, request, response, flows, depth), rest)| {
        let (rate_per_s, warm_up_s, time_s, timeout_s, receive, far_meter) = rest;
        let order = json!({
            "transport": transport, "connect_each": connect_each, "request_bytes": request, "response_bytes": response, "flows": flows,
            "depth": depth, "rate_per_s": rate_per_s, "arrivals": "poisson", "seed": 1, "warm_up_s": warm_up_s, "time_s": time_s,
            "timeout_s": timeout_s, "receive": receive, "client_cpu": null, "server_cpu": null, "far_meter": far_meter,
        });
        ("rr", order)
    })
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The agent refused the request with a message.
    Refused,
    /// The request was carried out until it was stopped, or until its end.
    Done,
}

/// A session with the key.
pub fn session(address: &str, key: &Key) -> Session {
    Session::connect(address, Some(key), env!("CARGO_PKG_VERSION"), Limits::default()).expect("the agent is there")
}

/// Starts a test, connects its flows, transfers data for a short time, and stops the test.
pub fn carry_out(session: &mut Session, ip: IpAddr, (kind, settings): &AgentRequest) -> RequestOutcome {
    let Ok(ready) = session.start(kind, settings) else { return RequestOutcome::Refused };
    let flows = settings["flows"].as_u64().unwrap_or(0) * if settings["direction"] == "both" { 2 } else { 1 };
    let datagrams = settings["transport"] == "udp" || settings["carrier"].get("udp").is_some();
    let ports = ready.ports.iter().cycle();
    let tcp: Vec<TcpStream> = (0..flows as u32)
        .zip(ports.clone())
        .filter_map(|(flow, port)| {
            (!datagrams).then(|| stream(SocketAddr::new(ip, *port), &ready.token, flow)).flatten()
        })
        .collect();
    let udp: Vec<UdpSocket> = (0..flows as u32)
        .zip(ports)
        .filter_map(|(flow, port)| datagrams.then(|| socket(SocketAddr::new(ip, *port), &ready.token, flow)).flatten())
        .collect();
    let until = Instant::now() + Duration::from_millis(100);
    let mut buffer = vec![0; 64 << 10];
    while Instant::now() < until {
        for mut stream in &tcp {
            exhaust(stream.read(&mut buffer));
            exhaust(stream.write(&buffer[..4096]));
        }
        for socket in &udp {
            exhaust(socket.recv(&mut buffer));
            exhaust(socket.send(&buffer[..100]));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop((tcp, udp));
    // The test may have ended already. That is no error here.
    let _ = session.stop();
    RequestOutcome::Done
}

/// Ignores the outcome, because the agent is under test.
fn exhaust(outcome: std::io::Result<usize>) {
    let _: Result<usize, ErrorKind> = outcome.map_err(|error| error.kind());
}

/// A data connection that proves its token and does not block.
pub fn stream(address: SocketAddr, token: &Token, flow: u32) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.write_all(&token.proof(Purpose::Join, Proven { flow, number: 0 })).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

fn socket(address: SocketAddr, token: &Token, flow: u32) -> Option<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(address.ip(), 0)).ok()?;
    socket.connect(address).ok()?;
    socket.send(&token.proof(Purpose::Join, Proven { flow, number: 0 })).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}
