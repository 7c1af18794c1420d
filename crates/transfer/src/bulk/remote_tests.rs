//! The far end runs in an agent of this process, on loopback.

use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::far_end_request::FarEndRequest;
use super::tests::{Raise, in_order};
use super::*;
use netcliff_packets::error::ControlError;
use netcliff_packets::error::Refusal;
use netcliff_remote::FarCpu;
use netcliff_remote::control::Limits;
use netcliff_remote::control::agent::{Agent as Listener, Event, Settings as AgentSettings};
use netcliff_remote::control::client::Session;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::key::Token;

mod many;
mod threads;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Peer {
    address: String,
    stop: Arc<AtomicBool>,
    agent: Option<JoinHandle<Result<(), ControlError>>>,
}

impl Peer {
    fn new() -> Self {
        Self::of(Arc::new(TransferKind::default()))
    }

    fn of(kind: Arc<dyn Kind>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let settings = AgentSettings {
            key: None,
            limits: Limits::default(),
            kinds: vec![kind],
            services: Vec::new(),
            version: "0".into(),
            stop: Arc::clone(&stop),
        };
        let log = Arc::new(|_: &Event<'_>| ());
        let agent = Listener::bind(&[SocketAddr::new(LOOPBACK, 0)], settings, log).expect("loopback");
        let address = agent.addresses().expect("it listens")[0].to_string();
        Self { address, stop, agent: Some(std::thread::spawn(move || agent.run())) }
    }

    fn session(&self) -> Session {
        Session::connect(&self.address, None, "0", Limits::default()).expect("it listens")
    }

    fn made(&self, settings: &Settings) -> Transfer {
        run_with(settings, &mut self.session(), LOOPBACK, &mut ()).expect("both ends work")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(agent) = self.agent.take() {
            agent.join().expect("it does not panic").expect("it ends well");
        }
    }
}

fn settings(channel: Channel) -> Settings {
    Settings { block_bytes: 10_000, warm_up_s: 0.05, amount: Amount::Seconds(0.25), ..Settings::new(channel) }
}

fn tcp() -> Channel {
    Channel::Tcp { address: LOOPBACK, multipath: false }
}

fn udp(path: DatagramPath) -> Channel {
    Channel::Udp { address: LOOPBACK, path }
}

#[test]
fn every_byte_arrives_in_each_direction_and_both_ends_have_their_window() {
    let peer = Peer::new();
    let mut session = peer.session();
    for direction in [Direction::Send, Direction::Receive, Direction::Both] {
        let asked = Settings { direction, flows: 2, ..settings(tcp()) };
        let transfer = run_with(&asked, &mut session, LOOPBACK, &mut ()).expect("both ends work");
        assert_eq!(transfer.cut_short, None, "{direction:?}");
        let expected: &[bool] = match direction {
            Direction::Send => &[true, true],
            Direction::Receive => &[false, false],
            Direction::Both => &[true, true, false, false],
        };
        assert_eq!(transfer.flows.iter().map(|flow| flow.forward).collect::<Vec<_>>(), expected);
        for flow in &transfer.flows {
            assert!(flow.sender.total_bytes > 0);
            assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes, "{direction:?}");
            assert_eq!((flow.sender.windows.len(), flow.receiver.windows.len()), (1, 1));
            assert!(flow.tcp.len() >= 2, "the sender's kernel was asked wherever it is: {direction:?}");
            assert!(flow.in_force.as_ref().is_some_and(|held| held.receive_buffer_bytes.is_some()));
        }
        assert!(transfer.far.is_some_and(|far| !far.ticks.is_empty() && far.refused == 0));
    }
}

/// An agent of an old version without features.
struct Older;

impl Kind for Older {
    fn name(&self) -> &'static str {
        TransferKind::NAME
    }

    fn start(&self, settings: &serde_json::Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let unknown = ["meter", "devices", "cpus", "threads"].iter().find(|key| settings.get(key).is_some());
        assert_eq!(unknown, None, "it would refuse a key it does not know: {settings}");
        TransferKind::default().start(settings, context)
    }
}

#[test]
fn the_far_hosts_exact_meter_is_asked_for_and_answers_or_says_why_not() {
    let asked = Settings { far_meter: true, far_devices: true, ..settings(tcp()) };
    let far = Peer::new().made(&asked).far.expect("it answered");
    assert!(far.devices.expect("they were asked for").softirqs.is_some_and(|count| count > 0), "{:?}", far.devices);
    match far.cpu.expect("it was asked for") {
        FarCpu::Exact(splits) => {
            assert!(splits.len() >= far.ticks.len() && splits.iter().all(|split| split.polls.is_none()));
            // The meter covers the agent's own windows, like its ticks.
            assert!(splits.iter().all(|split| (0.2..0.5).contains(&split.elapsed_s)), "{splits:?}");
            let softirq: f64 = splits.iter().filter_map(|split| split.shares.protocol).sum();
            assert!(softirq > 0.0, "loopback is received by softirqs: {splits:?}");
        }
        FarCpu::NotAvailable(why) => assert!(why.len() > 10, "{why}"),
    }
    let far = Peer::of(Arc::new(Older)).made(&asked).far.expect("it answered");
    let why = far.cpu.expect("it was asked for").refusal().expect("an older agent has none");
    assert!(why.contains("not available") && why.contains("same version on both hosts"), "{why}");
    assert_eq!(far.devices, None);
    let far = Peer::new().made(&settings(tcp())).far.expect("it answered");
    assert_eq!((far.cpu, far.devices), (None, None), "they were not asked for");
}

#[test]
fn datagrams_of_every_path_go_both_ways_and_the_end_is_heard() {
    let peer = Peer::new();
    for path in [DatagramPath::Single, DatagramPath::Batch, DatagramPath::Segmented] {
        let mut asked = in_order(Settings { direction: Direction::Both, block_bytes: 1000, ..settings(udp(path)) });
        asked.options.receive_buffer_bytes = Some(1 << 20);
        let begin = Instant::now();
        let transfer = peer.made(&asked);
        assert_eq!(transfer.cut_short, None, "{path:?}");
        assert!(begin.elapsed().as_secs_f64() < asked.stall_s, "{path:?}: the end mark was heard");
        for flow in &transfer.flows {
            let (sent, got) = (flow.sender.datagrams.expect("counted"), flow.receiver.datagrams.expect("counted"));
            assert!(got.moved > 0 && got.moved <= sent.moved, "{path:?} {sent:?} {got:?}");
            assert_eq!((got.duplicates, got.reordered), (0, 0), "{path:?}");
        }
    }
}

#[test]
fn a_datagram_as_long_as_a_token_is_no_token() {
    let asked =
        Settings { direction: Direction::Both, block_bytes: Token::PROOF_BYTES, ..settings(udp(DatagramPath::Single)) };
    let transfer = Peer::new().made(&in_order(asked));
    assert_eq!(transfer.cut_short, None);
    for flow in &transfer.flows {
        let got = flow.receiver.datagrams.expect("counted");
        assert!(got.moved > 0 && got.reordered == 0, "{got:?}");
    }
}

#[test]
fn windows_of_bytes_and_the_acknowledgement_hold_between_ends() {
    let peer = Peer::new();
    let bytes = Settings { amount: Amount::Bytes(1_000_001), warm_up_s: 0.0, ..settings(tcp()) };
    let windows = Settings { windows: 3, direction: Direction::Receive, ..bytes.clone() };
    let transfer = peer.made(&windows);
    assert_eq!(transfer.cut_short, None);
    let sent: Vec<u64> = transfer.flows[0].sender.windows.iter().map(|window| window.bytes).collect();
    assert_eq!((sent, transfer.flows[0].receiver.total_bytes), (vec![1_010_000; 3], 3_030_000));
    let acked = peer.made(&Settings { acknowledged: true, ..bytes });
    assert_eq!(acked.cut_short, None);
    let flow = &acked.flows[0];
    assert_eq!((flow.sender.windows[0].bytes, flow.receiver.windows[0].bytes), (1_010_000, 1_010_000));
}

#[test]
fn windows_of_bytes_after_a_warm_up_are_the_receivers() {
    let peer = Peer::new();
    for direction in [Direction::Send, Direction::Receive] {
        // Enough bytes that the sender's warm-up ends before the data do, also on a busy machine.
        let bytes = Settings { amount: Amount::Bytes(20_000_000), windows: 3, direction, ..settings(tcp()) };
        let transfer = peer.made(&bytes);
        assert_eq!(transfer.cut_short, None, "{direction:?}");
        let windows = &transfer.flows[0].receiver.windows;
        assert_eq!(windows.len(), 3, "{direction:?}");
        assert!(windows.iter().all(|window| window.bytes >= 20_000_000), "{windows:?}");
        assert!(!transfer.flows[0].sender.windows.is_empty());
    }
}

#[test]
fn an_agent_sends_a_file_of_its_own_by_sendfile() {
    let peer = Peer::new();
    let path = SendPath::SendOwnFile { bytes: 300_001, cold: false };
    let transfer = peer.made(&Settings { path, direction: Direction::Both, ..settings(tcp()) });
    assert_eq!(transfer.cut_short, None);
    let fingerprint = transfer.far.as_ref().and_then(|far| far.fingerprint.as_ref()).expect("the agent's host has one");
    assert!(fingerprint.facts.contains_key("kernel.release"), "{fingerprint:?}");
    for flow in &transfer.flows {
        // The file was sent several times without a gap at its end.
        assert!(flow.sender.total_bytes > 300_001, "{flow:?}");
        assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes);
    }
}

#[test]
fn what_an_agent_does_not_do_is_named() {
    let peer = Peer::new();
    let refused = |change: fn(&mut Settings)| {
        let mut asked = settings(tcp());
        change(&mut asked);
        run_with(&asked, &mut peer.session(), LOOPBACK, &mut ()).expect_err("refused").to_string()
    };
    assert!(refused(|s| s.stall_s = 61.0).contains("stall_s is 61: expected at most 60 seconds"));
    assert!(refused(|s| (s.flows, s.block_bytes) = (1024, 16 << 20)).contains("memory for buffers"));
    assert!(refused(|s| s.flows = 2000).contains("flows is 2000: expected at most 1024"));
    let counted = |s: &mut Settings| (s.channel, s.amount) = (udp(DatagramPath::Single), Amount::Bytes(10_000));
    assert!(refused(counted).contains("warm_up_s is 0.05: expected 0 for a number of bytes over UDP"));
    assert!(refused(|s| s.channel = Channel::Pipe).contains("between two hosts"));
    let file = |s: &mut Settings| {
        s.path = SendPath::SendFile { file: "/etc/shadow".into(), cold: false };
        s.direction = Direction::Receive;
    };
    assert!(refused(file).contains("opens no files"));
    let large = |s: &mut Settings| {
        s.path = SendPath::SendOwnFile { bytes: 1 << 30, cold: false };
        (s.direction, s.flows) = (Direction::Receive, 2);
    };
    assert!(refused(large).contains("temporary files is 2147483648"));
    assert!(refused(|s| s.far.cpu = Some(100_000)).contains("the far end: cpu is 100000"));
    assert!(refused(|s| s.far_cpus = vec![100_000]).contains("the far end: cpu is 100000"));
    assert!(refused(|s| s.far_cpus = vec![0; 1025]).contains("cpus is 1025"));
    let older = Peer::of(Arc::new(Older));
    let spread = Settings { far_cpus: vec![0, 1], ..settings(tcp()) };
    let said =
        run_with(&spread, &mut older.session(), LOOPBACK, &mut ()).expect_err("it would not be done").to_string();
    assert!(said.contains("does not offer cpu-lists"), "{said}");
    let pigeon = refused(|s| s.options.congestion = Some("carrier-pigeon".into()));
    assert!(pigeon.contains("carrier-pigeon"), "{pigeon}");
}

#[test]
fn an_agent_checks_what_it_is_sent_by_other_means() {
    let peer = Peer::new();
    let good = serde_json::to_value(FarEndRequest::of(&settings(tcp())).expect("in range")).expect("text");
    let refused = |key: &str, value: serde_json::Value| {
        let mut changed = good.clone();
        changed[key] = value;
        let mut session = peer.session();
        session.start(TransferKind::NAME, &changed).expect_err("refused").to_string()
    };
    for (key, value, told) in [
        ("flows", 0.into(), "flows is 0"),
        ("flows", u32::MAX.into(), "at most 1024"),
        ("block_bytes", 0.into(), "block_bytes is 0"),
        ("block_bytes", (1_u64 << 40).into(), "1 to 16777216 bytes"),
        ("stall_s", 1e9.into(), "at most 60"),
        ("warm_up_s", (-1.0).into(), "warm_up_s is -1"),
        ("path", serde_json::json!({ "send-file": { "file": "/etc/shadow", "cold": false } }), "opens no files"),
        ("carrier", "pigeon".into(), "pigeon"),
        ("windows", u32::MAX.into(), "at most 16384 of all flows together"),
        ("block_bytes", u64::MAX.into(), "1 to 16777216 bytes"),
        ("read_bytes", 0.into(), "1 to 16777216 bytes"),
        ("surprise", 1.into(), "unknown field"),
    ] {
        let said = refused(key, value);
        assert!(said.contains(told), "{key}: {said}");
    }
}

#[test]
fn unauthenticated_connections_are_refused_and_the_transfer_goes_on() {
    let peer = Peer::new();
    let mut session = peer.session();
    let asked = settings(tcp());
    let ready = session.start(TransferKind::NAME, &FarEndRequest::of(&asked).expect("in range")).expect("it listens");
    let target = SocketAddr::new(LOOPBACK, ready.ports[0]);
    let mut other = TcpStream::connect(target).expect("it listens");
    other.write_all(&[0; Token::PROOF_BYTES]).expect("it takes bytes");
    assert_eq!(other.read(&mut [0]).unwrap_or(0), 0, "it is refused");
    let _silent = TcpStream::connect(target).expect("it listens");
    let mut known = TcpStream::connect(target).expect("it listens");
    known.write_all(&admit::greeting(&ready.token, 0)).expect("it takes bytes");
    known.read_exact(&mut [0]).expect("all have come");
    known.write_all(&[0; 1000]).expect("it takes bytes");
    drop(known);
    let last = session.last(Duration::from_secs(10)).expect("it is there").expect("it ends by itself");
    let report: far::FarReport = serde_json::from_value(last.report).expect("a report");
    assert_eq!(report.played.expect("it worked").sides[0].end.total_bytes, 1000);
    assert_eq!(report.refused, 1);
}

#[test]
fn a_near_end_that_never_comes_is_given_up_in_its_time() {
    let peer = Peer::new();
    let mut session = peer.session();
    let asked = Settings { stall_s: 0.3, ..settings(tcp()) };
    let begin = Instant::now();
    session.start(TransferKind::NAME, &FarEndRequest::of(&asked).expect("in range")).expect("it listens");
    let last = session.last(Duration::from_secs(10)).expect("it is there").expect("it ends by itself");
    assert!(begin.elapsed() < Duration::from_secs(3));
    let report: far::FarReport = serde_json::from_value(last.report).expect("a report");
    assert!(
        report.failed.map(|why| why.to_string()).is_some_and(|why| why.contains("flow 1") && why.contains("in time"))
    );
}

#[test]
fn one_that_is_stopped_keeps_what_both_ends_counted() {
    let peer = Peer::new();
    for direction in [Direction::Send, Direction::Receive] {
        let stop = Arc::<AtomicBool>::default();
        let asked =
            Settings { direction, amount: Amount::Seconds(600.0), stop: Some(Arc::clone(&stop)), ..settings(tcp()) };
        let begin = Instant::now();
        let transfer = run_with(&asked, &mut peer.session(), LOOPBACK, &mut Raise(stop)).expect("kept");
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(transfer.cut_short.as_deref(), Some("stopped on request"));
        assert!(transfer.flows[0].sender.total_bytes > 0 && transfer.flows[0].receiver.total_bytes > 0);
    }
}

#[test]
fn a_far_end_that_goes_is_told_and_what_was_counted_here_is_kept() {
    for channel in [tcp(), udp(DatagramPath::Single)] {
        let peer = Peer::new();
        let mut session = peer.session();
        let asked = Settings { block_bytes: 1000, amount: Amount::Seconds(600.0), ..settings(channel.clone()) };
        let begin = Instant::now();
        let transfer =
            run_with(&asked, &mut session, LOOPBACK, &mut Raise(Arc::clone(&peer.stop))).expect("what was counted");
        assert!(begin.elapsed() < Duration::from_secs(8), "{channel:?}");
        let why = transfer.cut_short.expect("it was cut short");
        assert!(why.contains("far end"), "{channel:?}: {why}");
        assert!(transfer.flows[0].sender.total_bytes > 0, "{channel:?}");
    }
}

mod reports {
    //! The report of a sending far end arrives complete, also with many flows and intervals.

    use super::*;

    #[test]
    fn the_report_of_many_flows_in_short_intervals_is_no_message_too_long() {
        let settings = Settings {
            direction: Direction::Receive,
            flows: 96,
            threads: Some(2),
            block_bytes: 16 << 10,
            interval_s: Some(0.001),
            warm_up_s: 0.05,
            amount: Amount::Seconds(1.5),
            ..Settings::new(Channel::Tcp { address: LOOPBACK, multipath: false })
        };
        let made = Peer::new().made(&settings);
        assert_eq!(made.cut_short, None);
        // More samples than fit into a message of 1 MiB (an earlier limit), and no more than are stored.
        let samples: usize = made.flows.iter().map(|flow| flow.tcp.len()).sum();
        assert!((1000..=8192 + 96).contains(&samples), "{samples}");
        assert!(made.flows.iter().all(|flow| flow.tcp.len() > 2), "{:?}", made.flows[0].tcp.len());
    }
}
