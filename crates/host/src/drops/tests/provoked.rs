//! Each kind of drop, provoked between two namespaces: the ledger accounts for every packet.
//!
//! `NETCLIFF_PROVOKED_TRIALS=50` repeats each (bench/drops/run.sh), and prints the counts.

use crate::{
    drops::{
        counters::Counters,
        ledger::{Collector, Ends},
    },
    journal::{HostLock, StateDir},
    testbed::netns::{Side, Testbed, TestbedOptions},
    xdp::{Mode, attach, drop_all},
};
use netcliff_core::ledger::{Ledger, LedgerRow, Place};
use netcliff_testkit::{Need, has, has_namespaces, has_program, skip};
use std::{
    io::Write as _,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const PORT: u16 = 9000;
/// An address beyond the host under test.
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
/// Packets of a trial; the trial that fills the backlog of 1000 sends more.
const FEW: u64 = 200;
const MANY: u64 = 6000;

struct Bed {
    testbed: Testbed,
    collector: Collector,
    _state: tempfile::TempDir,
}

/// Send and receive method of a trial.
#[derive(Clone, Copy)]
struct Trial {
    packets: u64,
    to: Ipv4Addr,
    hops: u32,
    /// Whether checksums are wrong.
    damaged: bool,
    receiver: Receiver,
}

#[derive(Clone, Copy, PartialEq)]
enum Receiver {
    Reads,
    /// Has a small buffer and reads nothing until the sender has ended.
    Waits,
    None,
}

fn bed() -> Option<Bed> {
    if !has(Need::Cpus) || !has_namespaces() || !has(Need::Root) || !has(Need::Ebpf) || !has_program("ip") {
        return None;
    }
    let state = tempfile::tempdir().unwrap();
    let (lock, _) = HostLock::acquire_and_replay(&StateDir::at(state.path()).unwrap()).unwrap();
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    let spaces = [Side::Sender, Side::HostUnderTest].map(|side| testbed.netns_path(side));
    let collector = Collector::new(format!("udp dst port {PORT}").parse().unwrap(), &spaces);
    assert!(collector.is_traced(), "{collector:?}");
    Some(Bed { testbed, collector, _state: state })
}

impl Bed {
    fn run(&self, side: Side, command: &str) {
        let mut words = command.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let done = self.testbed.run_in(side, || command.output()).unwrap().unwrap();
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn nft(&self, rules: &str) {
        let fed = self.testbed.run_in_hut(|| {
            let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
            nft.stdin.take().expect("it is piped").write_all(rules.as_bytes())?;
            nft.wait()
        });
        assert!(fed.unwrap().unwrap().success(), "{rules}");
    }

    fn counters(&self) -> Vec<Counters> {
        [Side::Sender, Side::HostUnderTest].map(|side| self.testbed.run_in(side, Counters::now).unwrap()).into()
    }

    fn trial(&self, trial: Trial) -> Ledger {
        let opened = self.collector.open(self.counters());
        let sockets = |address: &str| UdpSocket::bind((address, 0));
        let sender = self.testbed.run_in_sender(|| sockets("0.0.0.0")).unwrap().unwrap();
        sender.set_ttl(trial.hops).unwrap();
        // Packets that wait at the receiver still count against the send buffer of the sending socket, which would
        // block.
        set_buffer(&sender, 64 << 20);
        let raw = trial.damaged.then(|| self.testbed.run_in_sender(raw_socket).unwrap());
        let receiver = (trial.receiver != Receiver::None)
            .then(|| self.testbed.run_in_hut(|| UdpSocket::bind(("0.0.0.0", PORT))).unwrap().unwrap());
        if trial.receiver == Receiver::Waits {
            nix::sys::socket::setsockopt(receiver.as_ref().unwrap(), nix::sys::socket::sockopt::RcvBuf, &4096).unwrap();
        }
        // The buffer is so large that a receiver that reads late loses nothing.
        if let Some(socket) = receiver.as_ref().filter(|_| trial.receiver == Receiver::Reads) {
            nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::RcvBufForce, &(64 << 20)).unwrap();
        }
        let ended = AtomicBool::new(trial.receiver != Receiver::Waits);
        let delivered = std::thread::scope(|scope| {
            let reader = receiver.as_ref().map(|socket| scope.spawn(|| read_all(socket, &ended)));
            for n in 0..trial.packets {
                match &raw {
                    Some(raw) => send_damaged(raw, self.testbed.endpoint(Side::Sender).ip, trial.to),
                    None => drop(sender.send_to(&n.to_ne_bytes(), (trial.to, PORT)).unwrap()),
                }
            }
            ended.store(true, Ordering::Relaxed);
            reader.map_or(0, |reader| reader.join().unwrap())
        });
        drop(receiver);
        // Waits for packets that are still on the path.
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let ends = Ends { sent: trial.packets, delivered, ..Ends::default() };
            let ledger = self.collector.close(&opened, &self.counters(), ends);
            if ledger.unexplained == 0 || Instant::now() > until {
                return ledger;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn set_buffer(socket: &UdpSocket, bytes: i32) {
    // SAFETY: the pointer is valid for the length that is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as u32,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Reads until nothing has arrived for a while; returns the number of packets.
fn read_all(socket: &UdpSocket, may_begin: &AtomicBool) -> u64 {
    while !may_begin.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 64];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64
}

fn raw_socket() -> OwnedFd {
    // SAFETY: the call takes no pointer; it gives a descriptor that is ours, or a negative number.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW);
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// Sends a datagram with a wrong checksum.
fn send_damaged(socket: &OwnedFd, from: Ipv4Addr, to: Ipv4Addr) {
    let mut packet = [0u8; 36];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&36u16.to_be_bytes());
    (packet[8], packet[9]) = (64, 17);
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    packet[20..22].copy_from_slice(&PORT.to_be_bytes());
    packet[22..24].copy_from_slice(&PORT.to_be_bytes());
    packet[24..26].copy_from_slice(&16u16.to_be_bytes());
    packet[26..28].copy_from_slice(&[0xba, 0xd1]);
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both pointers are valid for the lengths that are given.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    assert_eq!(sent, 36, "{}", std::io::Error::last_os_error());
}

fn trials() -> u32 {
    std::env::var("NETCLIFF_PROVOKED_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Checks that every trial accounts for all packets, and loses some at the expected place for the expected reason.
fn provoke(bed: &Bed, kind: &str, trial: Trial, place: Place, reasons: &[&str]) {
    let (mut done, mut lost, mut shown, mut tracing_ns) = (0, 0, 0, 0);
    // During a whole trial this kernel may run no tracing program, so that no drop is shown.
    while done < trials() || (shown == 0 && done < trials() + 9) {
        done += 1;
        let ledger = bed.trial(trial);
        assert_eq!(ledger.unexplained, 0, "{kind}: {ledger:#?}");
        let expected = |row: &&LedgerRow| row.place == place && reasons.contains(&row.reason.as_str());
        let here: u64 = ledger.dropped.iter().filter(expected).map(|row| row.packets).sum();
        let not_shown = ledger.not_shown_packets();
        let dropped = ledger.dropped_packets();
        assert!(dropped > 0 && here + not_shown == dropped, "{kind}: {ledger:#?}");
        (lost, shown) = (lost + dropped, shown + here);
        tracing_ns += ledger.tracing_ns.unwrap_or(0);
    }
    assert!(shown > 0, "{kind}: no drop was shown to the tracer");
    if trials() > 1 {
        let sent = u64::from(done) * trial.packets;
        let each_ns = tracing_ns / u64::from(done);
        println!(
            "{kind}: {done} trials, {sent} packets sent, {lost} dropped, {} of them not shown, 0 unexplained, {each_ns} ns a drop",
            lost - shown
        );
    }
}

#[test]
fn every_packet_is_accounted_for() {
    let Some(bed) = bed() else { return };
    let host = bed.testbed.endpoint(Side::HostUnderTest).clone();
    let plain = Trial { packets: FEW, to: host.ip, hops: 64, damaged: false, receiver: Receiver::Reads };
    let whole = bed.trial(plain);
    assert_eq!((whole.unexplained, whole.delivered), (0, FEW), "{whole:#?}");

    let waits = Trial { receiver: Receiver::Waits, ..plain };
    provoke(&bed, "socket", waits, Place::Socket, &["SOCKET_RCVBUFF"]);
    provoke(&bed, "no socket", Trial { receiver: Receiver::None, ..plain }, Place::Transport, &["NO_SOCKET"]);
    provoke(&bed, "checksum", Trial { damaged: true, ..plain }, Place::Transport, &["UDP_CSUM"]);

    bed.run(Side::HostUnderTest, "sysctl -qw net.ipv4.ip_forward=1");
    bed.run(Side::Sender, &format!("ip route add {FAR}/32 via {}", host.ip));
    let far = Trial { to: FAR, receiver: Receiver::None, ..plain };
    provoke(&bed, "no route", far, Place::Ip, &["IP_INNOROUTES"]);
    bed.run(Side::HostUnderTest, &format!("ip route add {FAR}/32 via {}", bed.testbed.endpoint(Side::Sender).ip));
    provoke(&bed, "TTL", Trial { hops: 1, ..far }, Place::Ip, &["IP_INHDR"]);

    let program = drop_all().unwrap();
    for (mode, reason) in [(Mode::Generic, "XDP"), (Mode::Native, "XDP drops")] {
        let attached = bed.testbed.run_in_hut(|| attach(&program, host.index, mode)).unwrap();
        provoke(&bed, &format!("XDP {mode:?}"), plain, Place::Xdp, &[reason, "XDP"]);
        drop(attached);
    }

    if has(Need::Tbf) && has_program("tc") {
        bed.run(Side::Sender, "tc qdisc add dev veth0 root tbf rate 2mbit burst 1600 limit 3000");
        provoke(&bed, "qdisc", plain, Place::Qdisc, &["QDISC_DROP", "QDISC_OVERLIMIT"]);
        bed.run(Side::Sender, "tc qdisc del dev veth0 root");
    }
    if !has(Need::Nftables) || !has_program("nft") {
        skip(Need::Nftables, "no netfilter and no full backlog");
        return;
    }
    bed.nft(&format!("table ip t {{ chain c {{ type filter hook input priority 0; udp dport {PORT} numgen inc mod 2 0 drop; }};\n}};\n"));
    provoke(&bed, "netfilter", plain, Place::Netfilter, &["NETFILTER_DROP"]);
    // Enough rules to make the host slower than the sender.
    let rules = (0..6000).map(|port| format!("udp dport {} drop; ", 10_000 + port)).collect::<String>();
    bed.nft(&format!(
        "delete table ip t;\ntable ip t {{ chain c {{ type filter hook prerouting priority 0; {rules} }};\n}};\n"
    ));
    // The sender is bound to CPU 0: on the receiver's CPU it would itself process the received packets.
    let mut first = nix::sched::CpuSet::new();
    first.set(0).unwrap();
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &first).unwrap();
    provoke(&bed, "backlog", Trial { packets: MANY, ..plain }, Place::Backlog, &["CPU_BACKLOG"]);
}
