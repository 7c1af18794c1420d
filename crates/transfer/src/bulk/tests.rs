use netcliff_packets::thread::{Placement, allowed_cpus};
use netcliff_testkit::{Need, has};
use std::io::{Seek, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

mod faults;
mod threads;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Watch that sets a flag when all channels are open.
pub(super) struct Raise(pub Arc<AtomicBool>);

impl Watch for Raise {
    fn opened(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Watch that truncates a file when all channels are open.
struct Shrink(std::fs::File);

impl Watch for Shrink {
    fn opened(&mut self) {
        self.0.rewind().and_then(|()| self.0.set_len(0)).expect("the file is ours");
    }
}

fn tcp() -> Channel {
    Channel::Tcp { address: LOOPBACK, multipath: false }
}

fn udp(path: DatagramPath) -> Channel {
    Channel::Udp { address: LOOPBACK, path }
}

fn settings(channel: Channel, block_bytes: usize) -> Settings {
    Settings { block_bytes, warm_up_s: 0.03, amount: Amount::Seconds(0.25), ..Settings::new(channel) }
}

/// Places the threads of each end on one CPU. Loopback then keeps the order of datagrams: a thread that moves to another
/// CPU leaves datagrams in the backlog of its old CPU.
pub(super) fn in_order(settings: Settings) -> Settings {
    let cpus = allowed_cpus();
    let on = |cpu: Option<&usize>| Placement { cpu: cpu.copied(), ..Placement::default() };
    Settings { near: on(cpus.first()), far: on(cpus.last()), ..settings }
}

fn made(settings: &Settings) -> Transfer {
    run(settings, &mut ()).expect("both ends work")
}

fn only(transfer: &Transfer) -> &Flow {
    let [flow] = &transfer.flows[..] else { panic!("one flow, not {transfer:?}") };
    flow
}

#[test]
fn every_byte_sent_is_received() {
    for channel in
        [tcp(), Channel::Tcp { address: Ipv6Addr::LOCALHOST.into(), multipath: false }, Channel::Unix, Channel::Pipe]
    {
        for block_bytes in [1, 1448, 1 << 20] {
            let transfer = made(&settings(channel.clone(), block_bytes));
            let flow = only(&transfer);
            assert_eq!(transfer.cut_short, None);
            assert!(flow.sender.total_bytes > 0, "{channel:?} {block_bytes}");
            assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes, "{channel:?} {block_bytes}");
        }
    }
}

#[test]
fn the_warm_up_is_not_in_the_window() {
    let transfer = made(&settings(Channel::Unix, 4096));
    for end in [&only(&transfer).sender, &only(&transfer).receiver] {
        let [window] = end.windows[..] else { panic!("one window, not {end:?}") };
        assert!(window.bytes > 0 && window.bytes < end.total_bytes, "{end:?}");
        assert!(window.cpu.wall_s > 0.02, "{end:?}");
        assert!(window.calls > 0 && window.calls <= window.bytes, "{end:?}");
        assert!(window.service_demand_us_per_kib().is_some());
    }
}

#[test]
fn a_small_block_is_one_call_each() {
    let transfer = made(&settings(Channel::Pipe, 1));
    let window = only(&transfer).sender.windows[0];
    assert_eq!(window.calls, window.bytes);
}

#[test]
fn goodput_and_service_demand_follow_from_the_counts() {
    let cpu = netcliff_packets::thread::CpuUse { wall_s: 2.0, user_s: 0.25, system_s: 0.75, ..Default::default() };
    let window = Window { bytes: 1_024_000, calls: 1000, cpu, hardware: None, thread_flows: None, common: None };
    assert_eq!(window.goodput_bps(), Some(4_096_000.0));
    assert_eq!(window.service_demand_us_per_kib(), Some(1000.0));
    assert_eq!(Window { bytes: 0, ..window }.service_demand_us_per_kib(), None);
    let end = End { windows: vec![window, window], ..End::default() };
    let whole = end.whole().expect("two windows");
    assert_eq!((whole.bytes, whole.calls, whole.cpu.wall_s), (2_048_000, 2000, 4.0));
}

#[test]
fn a_flow_that_waited_for_a_cpu_moved_no_more_than_it_did() {
    let window = |wall_s: f64, calls: u64, first: u64, last: u64| {
        let cpu = netcliff_packets::thread::CpuUse { wall_s, user_s: wall_s / 2.0, ..Default::default() };
        let common = Some(Common { length_s: 1.0, first_bytes: first, last_bytes: last });
        Window { bytes: calls * 1000, calls, cpu, hardware: None, thread_flows: None, common }
    };
    let bytes_per_s = |window: Window| window.goodput_bps().expect("a length") / 8.0;
    // Three calls of 0.3 s each: their own duration is exact; the common second starts and ends between calls.
    assert!((bytes_per_s(window(0.9, 3, 1000, 1000)) - 3000.0 / 0.9).abs() < 1e-9);
    // All calls end in the last millisecond: the rate counts the bytes moved in the window plus the bytes of the first
    // call.
    assert!((bytes_per_s(window(0.001, 50, 1000, 1000)) - 51_000.0).abs() < 1e-9);
    // The call in which the second ended took four seconds longer.
    assert!((bytes_per_s(window(5.0, 50, 1000, 1000)) - 49_000.0).abs() < 1e-9);
    assert!((window(0.001, 50, 0, 0).calls_per_s().expect("a length") - 51.0).abs() < 1e-9);
    assert!(
        (window(0.001, 50, 0, 0).busy() - 0.0005).abs() < 1e-12 && (window(5.0, 50, 0, 0).busy() - 0.5).abs() < 1e-12
    );
}

#[test]
fn flows_that_wait_for_a_cpu_add_up_to_what_moved() {
    // Both ends of each flow take turns on one CPU that is too slow for them: some flows get their first turn late,
    // some never.
    let near = netcliff_packets::thread::Placement { cpu: Some(0), ..Default::default() };
    let (flows, amount) = (48, Amount::Seconds(0.1));
    let crowded = Settings { flows, near: near.clone(), far: near, amount, ..settings(tcp(), 64 << 10) };
    let transfer = made(&crowded);
    assert_eq!(transfer.cut_short, None);
    for end in [|flow: &Flow| flow.sender.clone(), |flow: &Flow| flow.receiver.clone()] {
        let ends: Vec<End> = transfer.flows.iter().map(end).collect();
        let windows = || ends.iter().flat_map(|end| &end.windows);
        let told: f64 = windows().filter_map(Window::goodput_bps).sum::<f64>() / 8.0;
        let moved: f64 = ends.iter().map(|end| end.total_bytes as f64).sum();
        let shortest = windows().map(Window::length_s).fold(f64::INFINITY, f64::min);
        assert!(shortest > 0.09 && told > 0.0, "{shortest} {told}");
        assert!(told <= moved / shortest, "{told} B/s told, {moved} B in all");
        let busy: f64 = windows().map(Window::busy).sum();
        assert!(busy <= 1.2, "one CPU: {busy}");
    }
}

#[test]
fn flows_use_cpus_round_robin() {
    let near = netcliff_packets::thread::Placement { cpu: Some(7), ..Default::default() };
    let spread = Settings { near, far_cpus: vec![4, 5, 6], ..settings(tcp(), 4096) };
    let far: Vec<Option<usize>> = (0..5).map(|flow| spread.far_placement(flow).cpu).collect();
    assert_eq!(far, [4, 5, 6, 4, 5].map(Some));
    assert_eq!(spread.near_placement(3).cpu, Some(7), "without a list all are where the placement says");
    // The first CPU of the list exists, the second does not. The settings request it, so the transfer fails.
    let wrong = Settings { flows: 2, far_cpus: vec![0, 100_000], ..settings(tcp(), 4096) };
    let error = run(&wrong, &mut ()).expect_err("no such CPU").to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
}

#[test]
fn options_hold_and_are_told() {
    let mut changed = settings(tcp(), 4096);
    changed.options = SocketOptions {
        no_delay: true,
        congestion: Some("cubic".to_owned()),
        send_buffer_bytes: Some(32 << 10),
        receive_buffer_bytes: Some(32 << 10),
        mss_bytes: Some(1000),
        tos: Some(0x10),
        pacing_bps: None,
        paced_by_sender: false,
        page_aligned: true,
    };
    let transfer = made(&changed);
    let in_force = only(&transfer).in_force.clone().expect("a socket has options");
    assert_eq!(in_force.congestion.as_deref(), Some("cubic"));
    assert_eq!(in_force.no_delay, Some(true));
    assert_eq!((in_force.send_buffer_bytes, in_force.receive_buffer_bytes), (64 << 10, Some(64 << 10)));
    assert!(in_force.mss_bytes.is_some_and(|mss| (900..=1000).contains(&mss)), "{in_force:?}");
}

#[test]
fn a_paced_flow_keeps_to_its_rate() {
    let mut changed = settings(tcp(), 4096);
    changed.options.pacing_bps = Some(80_000_000);
    changed.options.receive_buffer_bytes = Some(64 << 10);
    changed.warm_up_s = 0.2;
    changed.amount = Amount::Seconds(0.4);
    let transfer = made(&changed);
    let bps = only(&transfer).receiver.whole().and_then(|w| w.goodput_bps()).expect("a window");
    // The rate is an upper limit; a first burst may exceed it slightly.
    assert!(bps < 100e6 && bps > 20e6, "{bps}");
}

#[test]
fn flows_go_both_ways_at_once() {
    let mut changed = settings(tcp(), 16 << 10);
    (changed.direction, changed.flows) = (Direction::Both, 2);
    let transfer = made(&changed);
    assert_eq!(transfer.flows.iter().map(|flow| flow.forward).collect::<Vec<_>>(), [true, true, false, false]);
    for flow in &transfer.flows {
        assert!(flow.receiver.total_bytes > 0);
        assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes);
    }
}

#[test]
fn the_kernel_is_asked_in_intervals() {
    let mut changed = settings(tcp(), 16 << 10);
    changed.interval_s = Some(0.01);
    let transfer = made(&changed);
    let samples = &only(&transfer).tcp;
    assert!(samples.len() > 3, "{samples:?}");
    assert!(samples.is_sorted_by(|a, b| a.at_s <= b.at_s && a.bytes_sent <= b.bytes_sent));
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    assert!(last.data_segments > first.data_segments && last.mss_bytes > 500 && last.rtt_s > 0.0, "{last:?}");
    // The kernel sent what the sender counted, apart from buffered data and tail-loss probes.
    let again = last.retransmissions * 65_536;
    assert!(last.bytes_sent <= only(&transfer).sender.total_bytes + again, "{last:?}");
}

#[test]
fn a_number_of_bytes_is_received_in_each_window() {
    let mut changed = settings(tcp(), 10_000);
    (changed.amount, changed.windows, changed.warm_up_s) = (Amount::Bytes(1_000_001), 3, 0.0);
    let transfer = made(&changed);
    let sent: Vec<u64> = only(&transfer).sender.windows.iter().map(|window| window.bytes).collect();
    assert_eq!(sent, [1_010_000; 3]);
    let received = &only(&transfer).receiver;
    assert_eq!((received.windows.len(), received.total_bytes), (3, 3_030_000));
}

#[test]
fn an_acknowledgement_is_inside_the_senders_window() {
    let mut changed = settings(tcp(), 10_000);
    (changed.amount, changed.warm_up_s, changed.acknowledged) = (Amount::Bytes(5_000_000), 0.0, true);
    let transfer = made(&changed);
    assert_eq!(transfer.cut_short, None);
    let flow = only(&transfer);
    let (sent, received) = (flow.sender.windows[0], flow.receiver.windows[0]);
    assert_eq!((sent.bytes, received.bytes), (5_000_000, 5_000_000));
    assert!(sent.cpu.wall_s > 0.0);
}

#[test]
fn every_path_moves_every_byte() {
    // One file is read cold, from a disk: /tmp may be in memory.
    let mut file = tempfile_in(Path::new("/var/tmp"));
    file.1.write_all(&[7; 100_001]).expect("room in /var/tmp");
    let file = file.0;
    for path in [
        SendPath::WriteV,
        SendPath::Splice,
        SendPath::ZeroCopy,
        SendPath::Uring { zero_copy: false },
        SendPath::Uring { zero_copy: true },
        SendPath::SendFile { file: file.clone(), cold: false },
        SendPath::SendFile { file: file.clone(), cold: true },
        SendPath::SendOwnFile { bytes: 100_001, cold: false },
        SendPath::SendOwnFile { bytes: 100_001, cold: true },
    ] {
        let mut changed = settings(tcp(), 16 << 10);
        changed.path = path.clone();
        if matches!(path, SendPath::Uring { .. }) && !has(Need::Uring) {
            continue;
        }
        let transfer = run(&changed, &mut ()).expect("both ends work");
        let flow = only(&transfer);
        assert_eq!(transfer.cut_short, None, "{path:?}");
        assert!(flow.sender.total_bytes > 0 && flow.sender.total_bytes == flow.receiver.total_bytes, "{path:?}");
        if matches!(path, SendPath::ZeroCopy | SendPath::Uring { zero_copy: true }) {
            let done = flow.sender.zero_copy.expect("completions are counted");
            assert!(done.asked > 0 && done.completed == done.asked && done.copied <= done.completed, "{done:?}");
        }
    }
    std::fs::remove_file(file).expect("it was there");
}

#[test]
fn datagrams_are_counted_on_every_path() {
    let ways = [
        (DatagramPath::Single, ReceivePath::Read),
        (DatagramPath::Batch, ReceivePath::Read),
        (DatagramPath::Segmented, ReceivePath::Read),
        (DatagramPath::SegmentedOut, ReceivePath::Read),
        (DatagramPath::SegmentedIn, ReceivePath::Read),
        (DatagramPath::Single, ReceivePath::Truncate),
        (DatagramPath::Batch, ReceivePath::Truncate),
        (DatagramPath::Single, ReceivePath::Uring),
        (DatagramPath::Batch, ReceivePath::Uring),
    ];
    for (path, receive) in ways {
        let mut changed = in_order(Settings { receive, ..settings(udp(path), 1000) });
        changed.options.receive_buffer_bytes = Some(1 << 20);
        if receive == ReceivePath::Uring && !has(Need::Uring) {
            continue;
        }
        let transfer = run(&changed, &mut ()).expect("it was made");
        let flow = only(&transfer);
        let (sent, received) = (flow.sender.datagrams.expect("counted"), flow.receiver.datagrams.expect("counted"));
        assert_eq!(transfer.cut_short, None, "{path:?}");
        assert!(received.moved > 0 && received.moved <= sent.moved, "{path:?} {sent:?} {received:?}");
        assert_eq!((received.duplicates, received.reordered, received.foreign), (0, 0, 0), "{path:?} {receive:?}");
        assert_eq!(flow.receiver.total_bytes, received.moved * 1000, "{path:?}");
        assert_eq!(flow.sender.total_bytes, sent.moved * 1000, "{path:?}");
    }
}

/// Loopback itself drops nothing: each datagram was received, or dropped because the socket was full.
#[test]
fn what_the_receiver_s_socket_had_no_room_for_is_counted() {
    for path in [DatagramPath::Single, DatagramPath::Batch] {
        let mut changed = settings(udp(path), 1000);
        changed.options.receive_buffer_bytes = Some(4096);
        let transfer = made(&changed);
        let flow = only(&transfer);
        let (sent, received) = (flow.sender.datagrams.expect("counted"), flow.receiver.datagrams.expect("counted"));
        let dropped = received.dropped.expect("the kernel counts a socket's drops (SO_MEMINFO, Linux 4.12)");
        assert!(dropped > 0, "{received:?}");
        // The end mark is sent more than once, and may be dropped at the full socket, too.
        let lost = sent.moved - received.moved;
        assert!((lost..lost + 1000).contains(&dropped), "{sent:?} {received:?}");
    }
}

#[test]
fn ways_of_receiving_that_datagrams_do_not_have_are_named() {
    for (path, receive, word) in [
        (DatagramPath::Segmented, ReceivePath::Uring, "recvmmsg"),
        (DatagramPath::Single, ReceivePath::Mapped, "read or uring over UDP"),
        (DatagramPath::SegmentedIn, ReceivePath::Truncate, "UDP_GRO"),
        (DatagramPath::SegmentedIn, ReceivePath::Uring, "recvmmsg"),
    ] {
        let error = run(&Settings { receive, ..settings(udp(path), 1000) }, &mut ()).unwrap_err().to_string();
        assert!(error.contains("receive") && error.contains(word), "{error}");
    }
}

/// An agent runs for long: a receive request that is never cancelled would hold its buffers for ever.
#[test]
fn a_ring_that_is_let_go_takes_its_receive_back() {
    let pair = || std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let (near, far) = pair();
    if !has(Need::Uring) {
        return;
    }
    let mut ring = linux::Multishot::new(far.as_fd(), 100, 10_000_000).expect("a ring");
    // The first wait may return at once because it also submits a request; the second finds no data.
    let outcome = ring.wait(|_| ()).and_then(|()| ring.wait(|_| ()));
    assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    near.send(b"one").expect("there is room");
    let mut seen = Vec::new();
    ring.wait(|datagram| seen.push(datagram.to_vec())).expect("it has come");
    assert_eq!(seen, [b"one"]);
    drop(ring);
    // If the receive request were still active, it would have consumed this datagram.
    near.send(b"two").expect("there is room");
    far.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("a time above 0");
    let mut buffer = [0; 10];
    assert_eq!(far.recv(&mut buffer).expect("it is still there"), 3);
}

#[test]
fn multipath_moves_bytes_or_is_refused_by_name() {
    let channel = Channel::Tcp { address: LOOPBACK, multipath: true };
    match run(&settings(channel, 4096), &mut ()) {
        Ok(transfer) => assert_eq!(only(&transfer).sender.total_bytes, only(&transfer).receiver.total_bytes),
        Err(error) => assert!(error.to_string().contains("Multipath TCP"), "{error}"),
    }
}

fn tempfile() -> (PathBuf, std::fs::File) {
    tempfile_in(&std::env::temp_dir())
}

fn tempfile_in(directory: &Path) -> (PathBuf, std::fs::File) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("netcliff-transfer-{}-{number}", std::process::id()));
    let file = std::fs::File::create_new(&path).expect("a new file in the temporary directory");
    (path, file)
}

/// The receiver counts what was sent, by every method of receiving. A method that the kernel lacks is named in the
/// error.
#[test]
fn every_way_of_receiving_gets_every_byte() {
    for receive in [ReceivePath::Mapped, ReceivePath::Uring] {
        for (block_bytes, path) in [(100, SendPath::Write), (64 << 10, SendPath::ZeroCopy)] {
            let changed = Settings { receive, path, ..settings(tcp(), block_bytes) };
            if receive == ReceivePath::Uring && !has(Need::Uring) {
                continue;
            }
            let transfer = run(&changed, &mut ()).unwrap_or_else(|why| panic!("{receive:?}: {why}"));
            let (sender, receiver) = (&only(&transfer).sender, &only(&transfer).receiver);
            assert_eq!(transfer.cut_short, None, "{receive:?}");
            assert!(receiver.total_bytes > 0 && receiver.total_bytes == sender.total_bytes, "{receive:?}");
            if let Some(mapped) = receiver.mapped {
                assert_eq!(mapped.mapped_bytes + mapped.copied_bytes, receiver.total_bytes);
            }
            assert_eq!(receiver.mapped.is_some(), receive == ReceivePath::Mapped);
        }
    }
    let pipe = Settings { receive: ReceivePath::Mapped, ..settings(Channel::Pipe, 4096) };
    let error = run(&pipe, &mut ()).expect_err("a pipe has no pages to map").to_string();
    assert!(error.contains("TCP_ZEROCOPY_RECEIVE"), "{error}");
}

#[test]
fn a_read_brings_what_the_low_water_mark_demands_and_no_byte_is_lost() {
    let marked = Settings { low_water_bytes: Some(32 << 10), ..settings(tcp(), 64) };
    let transfer = made(&marked);
    let (sender, receiver) = (&only(&transfer).sender, &only(&transfer).receiver);
    assert_eq!(receiver.total_bytes, sender.total_bytes);
    let read_bytes = receiver.windows[0].bytes as f64 / receiver.windows[0].calls as f64;
    assert!(read_bytes >= 32_768.0, "{read_bytes} bytes a read");
    // The last bytes are fewer than the low-water mark: the end of the stream wakes their receiver.
    let counted = Settings { amount: Amount::Bytes(100_000), warm_up_s: 0.0, ..marked.clone() };
    assert!(only(&made(&counted)).receiver.total_bytes >= 100_000);
    for refused in [
        Settings { channel: Channel::Unix, ..marked.clone() },
        Settings { receive: ReceivePath::Uring, ..marked.clone() },
        Settings { low_water_bytes: Some(0), ..marked },
    ] {
        let error = run(&refused, &mut ()).unwrap_err().to_string();
        assert!(error.contains("low_water_bytes"), "{error}");
    }
}

#[test]
fn a_ring_hands_over_many_blocks_a_call() {
    let changed = Settings { path: SendPath::Uring { zero_copy: false }, ..settings(tcp(), 64) };
    if !has(Need::Uring) {
        return;
    }
    let transfer = run(&changed, &mut ()).expect("both ends work");
    let window = only(&transfer).sender.whole().expect("a window");
    assert!(window.bytes / window.calls > 64 * 8, "{window:?}");
}

#[test]
fn paced_datagrams_keep_to_their_rate_and_say_how_well() {
    for path in [DatagramPath::Single, DatagramPath::Batch] {
        let mut changed = settings(udp(path), 1000);
        changed.options.pacing_bps = Some(16_000_000);
        changed.amount = Amount::Seconds(0.5);
        let transfer = made(&changed);
        let pacing = only(&transfer).sender.pacing.expect("it was paced");
        assert_eq!(pacing.asked_bps, 16e6);
        // The sender never exceeds the requested rate; it sends less only by the time that it reports as given up.
        assert!(pacing.sent_bps <= 16.1e6, "{path:?} {pacing:?}");
        assert!(pacing.late_mean_s <= pacing.late_max_s, "{pacing:?}");
    }
}

#[test]
fn a_stream_paced_by_its_sender_keeps_to_its_rate_and_says_how_well() {
    let mut changed = settings(tcp(), 4096);
    changed.options = SocketOptions { pacing_bps: Some(50_000_000), paced_by_sender: true, ..SocketOptions::default() };
    let transfer = made(&changed);
    let pacing = only(&transfer).sender.pacing.expect("it was paced");
    assert!(pacing.asked_bps == 50e6 && pacing.sent_bps <= 50.5e6, "{pacing:?}");
    // On a busy machine the sender may fall behind; then it reports that.
    assert!(pacing.sent_bps > 45e6 || pacing.given_up_s > 0.0, "{pacing:?}");
    let received = only(&transfer).receiver.windows[0].goodput_bps().expect("a window");
    assert!(received < 60e6, "{received}");
}

/// Bytes that are discarded without a copy are counted too.
#[test]
fn a_stream_is_taken_without_a_copy() {
    let transfer = made(&Settings { receive: ReceivePath::Truncate, ..settings(tcp(), 10_000) });
    let flow = only(&transfer);
    assert!(flow.sender.total_bytes > 0);
    assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes);
    let error = run(&Settings { receive: ReceivePath::Truncate, ..settings(Channel::Unix, 1000) }, &mut ());
    assert!(error.unwrap_err().to_string().contains("TCP or UDP"));
}

/// Both ends use kernel TLS if this kernel has it; otherwise the error names what is missing.
#[test]
fn the_kernel_does_tls_or_says_why_not() {
    let both = Settings { path: SendPath::Ktls, receive: ReceivePath::Ktls, ..settings(tcp(), 10_000) };
    match run(&both, &mut ()) {
        Ok(transfer) => {
            let flow = only(&transfer);
            assert_eq!(transfer.cut_short, None);
            assert!(flow.sender.total_bytes > 0);
            assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes);
        }
        Err(error) => {
            let told = error.to_string();
            assert!(told.contains("modprobe tls") && told.contains("CONFIG_TLS"), "{told}");
        }
    }
    for one in
        [Settings { receive: ReceivePath::Read, ..both.clone() }, Settings { path: SendPath::Write, ..both.clone() }]
    {
        assert!(run(&one, &mut ()).unwrap_err().to_string().contains("both ends do TLS or none"));
    }
    let datagrams = Settings { channel: udp(DatagramPath::Single), ..both };
    assert!(run(&datagrams, &mut ()).unwrap_err().to_string().contains("path"));
}

/// A worker ends at the configured distance from the CPU of its packets, and reports both CPUs.
#[test]
fn a_worker_follows_its_packets() {
    let transfer = made(&Settings { far_rx: Some(1), near_rx: Some(0), ..settings(tcp(), 10_000) });
    let flow = only(&transfer);
    let cpus = netcliff_packets::thread::allowed_cpus();
    let followed = flow.receiver.followed.expect("data came in on some CPU");
    assert!(cpus.contains(&followed.cpu), "{followed:?}");
    assert_eq!(cpus.len() > 1, followed.cpu != followed.incoming_cpu, "{followed:?} of {cpus:?}");
    let sender = flow.sender.followed.expect("acknowledgements came in on some CPU");
    assert_eq!(sender.cpu, sender.incoming_cpu);
}

mod emptying {
    //! Data under way after the windows do not count, and the ends wait only a bounded time for them.

    use std::time::{Duration, Instant};

    use super::*;

    /// The kernel paces the connection at 1 Mbit/s, so that a block of 1 MiB takes 8 s.
    fn slow() -> Settings {
        let mut settings = settings(tcp(), 1 << 20);
        settings.options.pacing_bps = Some(1_000_000);
        settings.stall_s = 20.0;
        settings
    }

    #[test]
    fn buffers_are_not_emptied_for_ever() {
        for threads in [None, Some(1)] {
            let (mut settings, begin) = (slow(), Instant::now());
            (settings.flows, settings.threads) = (2, threads);
            let transfer = made(&settings);
            assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
            assert_eq!(transfer.cut_short, None);
            // Bytes that had not arrived by then do not count as received.
            let left = |flow: &Flow| flow.sender.total_bytes > flow.receiver.total_bytes;
            assert!(transfer.flows.iter().all(left), "{transfer:?}");
        }
    }

    /// TCP_INFO of each flow is sampled, even while its sender is in a call that lasts for the whole window.
    #[test]
    fn every_flow_is_asked_while_its_sender_waits() {
        let transfer = made(&Settings { flows: 3, interval_s: Some(0.05), ..slow() });
        for flow in &transfer.flows {
            // Sampling in the sender's own thread would give one sample, after the call. A busy host may skip some.
            assert!((2..=7).contains(&flow.tcp.len()), "{:?}", flow.tcp);
            assert!(flow.tcp[0].at_s < 0.2 && flow.tcp.iter().all(|told| told.at_s < 0.5), "{:?}", flow.tcp);
        }
    }
}

mod live {
    //! Interim reports of a running transfer.

    use super::*;

    /// Watch that stores all intervals.
    struct Heard(Vec<Interval>);

    impl Watch for Heard {
        fn interval(&self) -> Option<Duration> {
            Some(Duration::from_millis(50))
        }

        fn passed(&mut self, interval: &Interval) {
            self.0.push(*interval);
        }
    }

    /// The intervals cover the windows without gaps, and contain at most the bytes that were moved, both with one
    /// thread per flow and with shared threads.
    #[test]
    fn intervals_cover_the_windows() {
        for (channel, flows, threads) in [(tcp(), 1, None), (tcp(), 4, Some(2)), (udp(DatagramPath::Batch), 1, None)] {
            let asked = Settings { flows, threads, amount: Amount::Seconds(0.4), ..settings(channel, 1400) };
            let mut heard = Heard(Vec::new());
            let transfer = run(&asked, &mut heard).expect("both ends work");
            let total = |end: fn(&Flow) -> &End| transfer.flows.iter().map(|flow| end(flow).total_bytes).sum::<u64>();
            let heard = heard.0;
            assert!((2..=10).contains(&heard.len()), "{heard:?}");
            assert!(heard[0].from_s == 0.0 && heard.windows(2).all(|pair| pair[0].to_s == pair[1].from_s), "{heard:?}");
            assert!(heard.last().is_some_and(|last| last.to_s >= 0.38), "{heard:?}");
            let sum = |count: fn(&Interval) -> Option<u64>| heard.iter().filter_map(count).sum::<u64>();
            let (sent, received) = (sum(|interval| interval.sent_bytes), sum(|interval| interval.received_bytes));
            assert!(sent > 0 && sent <= total(|flow| &flow.sender), "{heard:?}");
            assert!(received > 0 && received <= total(|flow| &flow.receiver), "{heard:?}");
            let tcp = matches!(asked.channel, Channel::Tcp { .. });
            assert_eq!(heard.last().and_then(|last| last.retransmissions).is_some(), tcp, "{heard:?}");
            assert_eq!(heard.last().and_then(|last| last.rtt_s).is_some(), tcp, "{heard:?}");
        }
    }
}
