//! A paced sender over paths that refuse, drop and delay: it never exceeds its rate, sends each datagram once, and
//! accounts for every one. The packets are counted at the sending device and its qdisc, outside of the program.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use crate::wire::common::{Pair, pair_or_skip};
use crate::wire::forward::direction;
use netcliff_packets::port::SendBy;
use netcliff_packets::run::run as run_frames;
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::sink::Work;
use netcliff_packets::source::Timing;
use netcliff_packets::thread::Placement;
use netcliff_packets::transmit::Method;
use netcliff_rfc2544::tester::Trial;
use netcliff_rfc2544::tester::run::{Methods, Remote};
use netcliff_testkit::{Need, has};
use netcliff_transfer::bulk::{Amount, Channel, DatagramPath, Datagrams, Settings, SocketOptions, run};

/// Time that a late sender may make up for (s), as in `transfer::pace`.
const CATCH_UP_S: f64 = 200e-6;
/// Largest number of other packets: the kernel's own on a new pair (neighbour and router discovery), and those that
/// open a flow.
const OTHERS: u64 = 30;

/// A path between the ends of a pair, and how datagrams are sent over it.
#[derive(Debug)]
struct Path {
    /// The qdisc of the sending device.
    qdisc: Option<String>,
    sender_mtu: u32,
    receiver_mtu: u32,
    send_buffer_bytes: Option<u32>,
    path: DatagramPath,
    block_bytes: usize,
    rate_bps: u64,
    flows: u32,
    threads: Option<u32>,
}

impl Path {
    fn plain(path: DatagramPath) -> Self {
        Self {
            qdisc: None,
            sender_mtu: 1500,
            receiver_mtu: 1500,
            send_buffer_bytes: None,
            path,
            block_bytes: 1470,
            rate_bps: 30_000_000,
            flows: 1,
            threads: None,
        }
    }

    /// A random path for a seed.
    fn random(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let paths = [DatagramPath::Single, DatagramPath::Batch, DatagramPath::SegmentedOut];
        let flows = 1 + below(3) as u32;
        let qdisc = match below(4) {
            0 => None,
            1 => Some(format!("pfifo limit {}", 1 + below(20))),
            _ => {
                let (rate, burst, limit) = (1 + below(40), 4_000 + below(30_000), 2_000 + below(60_000));
                Some(format!("tbf rate {rate}mbit burst {burst} limit {limit}"))
            }
        };
        Self {
            qdisc,
            sender_mtu: 1500,
            receiver_mtu: [1500, 1500, 1400, 600][below(4) as usize],
            send_buffer_bytes: [None, None, Some(4_608), Some(40_000)][below(4) as usize],
            path: paths[below(3) as usize],
            block_bytes: 64 + below(1_409) as usize,
            rate_bps: 1_000_000 * (1 + below(60)),
            flows,
            threads: (below(2) == 0).then_some(1).filter(|_| flows > 1),
        }
    }

    /// Sends over the path for a tenth of a second and checks the packets that left.
    fn holds(&self, pair: &Pair) -> Datagrams {
        self.lay(pair);
        let before = counted(pair);
        let began = Instant::now();
        let transfer = run(&self.settings(pair), &mut ()).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        let took_s = began.elapsed().as_secs_f64();
        let wire = counted(pair) - before;
        assert_eq!(transfer.cut_short, None, "{self:?}");
        let mut sent = Datagrams::default();
        for flow in &transfer.flows {
            let (of_flow, received) = (flow.sender.datagrams.expect("UDP"), flow.receiver.datagrams.expect("UDP"));
            assert!(received.moved + of_flow.never_left() <= of_flow.moved, "{self:?}: {of_flow:?} {received:?}");
            sent.moved += of_flow.moved;
            sent.refused += of_flow.refused;
            sent.buffer_full += of_flow.buffer_full;
            sent.too_long += of_flow.too_long;
        }
        let message = (self.path.segments(self.block_bytes) * self.block_bytes) as f64;
        let per_flow = self.rate_bps as f64 / 8.0 * (took_s + CATCH_UP_S) + 2.0 * message;
        let most = (per_flow * f64::from(self.flows) / self.block_bytes as f64) as u64;
        assert!(sent.moved <= most, "{self:?}: {} offered where at most {most} were due", sent.moved);
        assert!(
            wire <= sent.moved + OTHERS,
            "{self:?}: {wire} packets at the device, {} datagrams: {sent:?}",
            sent.moved
        );
        sent
    }

    fn lay(&self, pair: &Pair) {
        pair.inside("a", "tc qdisc del dev v0 root 2>/dev/null; true");
        pair.inside("a", &format!("ip link set v0 mtu {}", self.sender_mtu));
        pair.inside("b", &format!("ip link set v1 mtu {}", self.receiver_mtu));
        if let Some(qdisc) = &self.qdisc {
            pair.inside("a", &format!("tc qdisc add dev v0 root {qdisc}"));
        }
    }

    fn settings(&self, pair: &Pair) -> Settings {
        let place = |end| Placement { netns: Some(pair.netns(end)), ..Placement::default() };
        let address = "10.199.7.2".parse().expect("an address");
        Settings {
            options: SocketOptions {
                pacing_bps: Some(self.rate_bps),
                send_buffer_bytes: self.send_buffer_bytes,
                ..SocketOptions::default()
            },
            flows: self.flows,
            threads: self.threads,
            block_bytes: self.block_bytes,
            warm_up_s: 0.0,
            amount: Amount::Seconds(0.1),
            near: place("a"),
            far: place("b"),
            ..Settings::new(Channel::Udp { address, path: self.path })
        }
    }
}

/// Number of packets passed to the sending device: those that it sent or dropped, and those that its qdisc dropped.
fn counted(pair: &Pair) -> u64 {
    let text = pair.inside(
        "a",
        "cat /sys/class/net/v0/statistics/tx_packets /sys/class/net/v0/statistics/tx_dropped; \
         tc -s qdisc show dev v0 | grep -o 'dropped [0-9]*' | cut -d' ' -f2",
    );
    text.split_whitespace().map(|number| number.parse::<u64>().expect("a count")).sum()
}

#[test]
fn a_datagram_that_a_shaper_refuses_is_offered_once_and_lost() {
    if !has(Need::Tbf) {
        return;
    }
    let Some(pair) = pair_or_skip() else { return };
    for path in [DatagramPath::Single, DatagramPath::Batch] {
        let shaped = Path { qdisc: Some("tbf rate 10mbit burst 4000 limit 8000".to_owned()), ..Path::plain(path) };
        let sent = shaped.holds(&pair);
        // The shaper passes 10 of 30 Mbit/s, so two thirds of the datagrams find the queue full. On a busy machine the
        // sender may be late and offer less.
        assert!(sent.refused * 4 > sent.moved, "{sent:?}");
    }
}

#[test]
fn a_datagram_longer_than_the_far_device_takes_is_offered_once_and_lost() {
    let Some(pair) = pair_or_skip() else { return };
    let unequal = Path { receiver_mtu: 1450, block_bytes: 1472, ..Path::plain(DatagramPath::Single) };
    let sent = unequal.holds(&pair);
    // The first datagrams wait for the neighbour's address and are dropped after their calls returned.
    assert!(sent.moved > 20 && sent.refused + 5 > sent.moved, "{sent:?}");
}

#[test]
fn a_full_socket_loses_what_is_due() {
    if !has(Need::Tbf) {
        return;
    }
    let Some(pair) = pair_or_skip() else { return };
    let slow = Some("tbf rate 1mbit burst 4000 limit 1000000".to_owned());
    let small = Path { qdisc: slow, send_buffer_bytes: Some(4_608), ..Path::plain(DatagramPath::Single) };
    let sent = small.holds(&pair);
    assert!(sent.buffer_full * 2 > sent.moved, "{sent:?}");
}

/// `NETCLIFF_PATHS=200` tests more paths.
#[test]
fn no_path_makes_a_sender_exceed_its_rate() {
    if !has(Need::Tbf) {
        return;
    }
    let Some(pair) = pair_or_skip() else { return };
    let paths = std::env::var("NETCLIFF_PATHS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for seed in 1..=paths {
        Path::random(seed).holds(&pair);
    }
}

/// The generator of `find`, replays and loads of agents: each frame of the schedule is handed over once.
/// `NETCLIFF_PATHS=200` tests more paths.
#[test]
fn no_path_makes_the_generator_exceed_its_rate() {
    if !has(Need::Tbf) {
        return;
    }
    let Some(pair) = pair_or_skip() else { return };
    let paths = std::env::var("NETCLIFF_PATHS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for seed in 1..=paths {
        let path = Path::random(seed);
        path.lay(&pair);
        let methods = [Method::PacketBatch, Method::default(), Method::Socket, Method::Xdp { zero_copy: None }];
        let mut generator = pair.generator(0, path.block_bytes.max(64) + 46);
        generator.method = methods[seed as usize % methods.len()];
        let mut sink = pair.sink(1);
        sink.work = if seed % 3 == 0 { Work::CpuTime(200e-6) } else { Work::None };
        // The path loses packets at the qdisc, the far device's MTU, or the far backlog and socket.
        let (rate_pps, timing) = (path.rate_bps as f64 / 1_000.0, Timing::measured(0.1));
        let schedule = Schedule::new(Arrivals::Constant, rate_pps, seed, 0).expect("a legal rate");
        let before = counted(&pair);
        let run = run_frames(generator, sink, schedule, timing, &Arc::default(), |_, _| ())
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let (wire, frames) = (counted(&pair) - before, run.sender.frames);
        let due = (rate_pps * (timing.warmup_s + timing.measured_s + timing.cooldown_s)).ceil() as u64 + 1;
        assert!(run.sender.next_sequence <= due, "{path:?}: {} frames where {due} were due", run.sender.next_sequence);
        assert_eq!(frames.total(), run.sender.next_sequence, "{path:?}: {frames:?}");
        assert!(wire <= due + OTHERS, "{path:?}: {wire} packets at the device where {due} were due: {frames:?}");
        let account = run.accounting;
        let sum = account.delivered + account.refused + account.sender + account.elsewhere;
        assert_eq!(account.offered, sum, "{path:?}: {account:?}");
    }
}

/// Live frames bypass the qdisc. A path loses them at the MTU, at the far ring, or because the far end is down.
/// `NETCLIFF_PATHS=200` tests more paths.
#[test]
fn no_path_makes_live_frames_exceed_their_rate() {
    if !has(Need::Tbf) || !has(Need::AfXdp) {
        return;
    }
    let Some(pair) = pair_or_skip() else { return };
    let paths = std::env::var("NETCLIFF_PATHS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    for seed in 1..=paths {
        let path = Path::random(seed);
        path.lay(&pair);
        let direction = direction(&pair, &[path.block_bytes.max(64) + 46]);
        let by = Methods { send: SendBy::Live, ..Methods::default() };
        let mut remote =
            Remote::start(vec![direction], by, 32, Placement::default(), Arc::default()).expect("it opens");
        if let Some(why) = &remote.tester().not_live {
            netcliff_testkit::skip(Need::AfXdp, why);
            return;
        }
        let load_pps = path.rate_bps as f64 / 100.0;
        let before = counted(&pair);
        let report = remote
            .run(Trial {
                load_pps,
                duration_s: 0.1,
                settle_s: 0.05,
                max_burst: 32,
                tagged_at_s: None,
                burst: None,
                most_lost: None,
            })
            .unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let (wire, one) = (counted(&pair) - before, &report.directions[0]);
        let due = (load_pps * 0.1).ceil() as u64 + 1;
        assert!(one.sent <= due && one.sent > 0, "{path:?}: {} frames where {due} were due", one.sent);
        assert!(wire <= due + OTHERS, "{path:?}: {wire} packets at the device where {due} were due: {one:?}");
        assert_eq!(one.kicked.total(), one.sent, "{path:?}: {one:?}");
        // All frames that the port accepted arrive: nothing lies between a veth's ring and the program that counts.
        assert_eq!(one.arrived.frames, one.kicked.accepted, "{path:?}: {one:?}");
        assert_eq!((one.arrived.corrupt, one.arrived.duplicates, one.arrived.reordered), (0, 0, 0), "{path:?}");
        // The last batch does not leave before the time of its last frame.
        let whole_s = (one.sent - u64::from(one.batch.expect("batches"))) as f64 / load_pps;
        assert!(one.sending_s >= 0.99 * whole_s - 1e-6, "{path:?}: {} frames in {} s", one.sent, one.sending_s);
    }
}

#[test]
fn a_peer_that_is_gone_is_no_reason_to_send_more() {
    let Some(pair) = pair_or_skip() else { return };
    // The far end goes down during the transfer, and nothing answers any more.
    let lost = Path::plain(DatagramPath::Single);
    lost.lay(&pair);
    let before = counted(&pair);
    let began = Instant::now();
    let settings = Settings { amount: Amount::Seconds(0.4), stall_s: 1.0, ..lost.settings(&pair) };
    let transfer = std::thread::scope(|scope| {
        let sending = scope.spawn(|| run(&settings, &mut ()));
        std::thread::sleep(std::time::Duration::from_millis(150));
        pair.inside("b", "ip link set v1 down");
        sending.join().expect("no panic")
    });
    let most = (30e6 / 8.0 * (began.elapsed().as_secs_f64() + CATCH_UP_S) / 1470.0) as u64 + 2;
    let wire = counted(&pair) - before;
    assert!(wire <= most + OTHERS, "{wire} packets where {most} were due");
    let sent = transfer.expect("what was sent is kept").flows[0].sender.datagrams.expect("UDP");
    assert!(sent.moved <= most, "{sent:?}");
}

impl Pair {
    /// Runs a shell command in the namespace of an end. Returns its standard output.
    fn inside(&self, end: &str, line: &str) -> String {
        let netns = self.netns(end);
        let name = netns.file_name().expect("a name");
        let output =
            Command::new("ip").args(["netns", "exec"]).arg(name).args(["sh", "-c", line]).output().expect("ip runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
