//! Compares generated filters with tcpdump's on the same packets: by the evaluator in Rust and by the eBPF programs.

use netcliff_core::filter::{Filter, NO_PORT, WORDS, Word};
use netcliff_testkit::has_program;
use std::{fs, path::Path, process::Command};

/// Number of generated filters; `NETCLIFF_FILTERS=2000` tries more.
const FILTERS: u32 = 250;
const SEED: u64 = 50;

/// Random numbers by xorshift64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

const FOUR: [[u8; 4]; 3] = [[10, 0, 0, 1], [10, 1, 2, 3], [192, 168, 0, 9]];
const SIX: [&str; 3] = ["2001:db8::1", "2001:db8:1::2", "fe80::9"];
const PORTS: [u16; 4] = [53, 443, 5201, 40000];

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), rest].concat()
}

fn ports(protocol: u8, n: usize, length: usize) -> Vec<u8> {
    let [source, destination] = [PORTS[n % 4], PORTS[(n / 2) % 4]].map(u16::to_be_bytes);
    let head = if protocol == 6 { 20 } else { 8 };
    let mut bytes = vec![0; head + length];
    bytes[..2].copy_from_slice(&source);
    bytes[2..4].copy_from_slice(&destination);
    if protocol == 6 {
        bytes[12] = 0x50;
    }
    bytes
}

/// Frames of all kinds that a filter distinguishes, each of a different length.
fn packets() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut number = 0;
    for protocol in [6u8, 17, 132, 1, 2, 47, 50, 0, 44] {
        // Unfragmented, a first fragment, a later fragment, and with IP options.
        for (fragment, words) in [(0u16, 5u8), (0x2000, 5), (0x2010, 5), (0, 7)] {
            number += 1;
            let (source, destination) = (FOUR[number % 3], FOUR[(number / 3) % 3]);
            let payload = ports(protocol, number, number);
            let mut head = vec![0; usize::from(words) * 4];
            head[0] = 0x40 | words;
            let length = (payload.len() + head.len()) as u16;
            head[2..4].copy_from_slice(&length.to_be_bytes());
            head[6..8].copy_from_slice(&fragment.to_be_bytes());
            (head[8], head[9]) = (64, protocol);
            head[12..16].copy_from_slice(&source);
            head[16..20].copy_from_slice(&destination);
            frames.push(ethernet(0x0800, &[head, payload].concat()));
        }
    }
    for protocol in [6u8, 17, 132, 58, 44, 0, 50] {
        // Unfragmented, a first fragment, and a later fragment.
        for fragment in [None, Some(0u16), Some(0x10)] {
            number += 1;
            let [source, destination] =
                [SIX[number % 3], SIX[(number / 3) % 3]].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap());
            let mut payload = ports(protocol, number, number);
            let mut next = protocol;
            if let Some(offset) = fragment {
                let mut header = vec![protocol, 0, 0, 0, 0, 0, 0, 1];
                header[2..4].copy_from_slice(&(offset << 3 | 1).to_be_bytes());
                payload.splice(0..0, header);
                next = 44;
            }
            let mut head = vec![0x60, 0, 0, 0, 0, 0, next, 64];
            head[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
            head.extend(source.octets());
            head.extend(destination.octets());
            frames.push(ethernet(0x86dd, &[head, payload].concat()));
        }
    }
    for kind in [0x0806u16, 0x8035] {
        for n in 0..3 {
            number += 1;
            let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
            arp.extend([2, 0, 0, 0, 0, 1]);
            arp.extend(FOUR[n]);
            arp.extend([0; 6]);
            arp.extend(FOUR[(n + 1) % 3]);
            arp.resize(46 + number, 0);
            frames.push(ethernet(kind, &arp));
        }
    }
    frames.push(ethernet(0x88cc, &vec![0; 100 + number]));
    frames
}

/// The words of bpf/skb.h.
fn words(frame: &[u8]) -> [u32; WORDS] {
    let mut w = [0; WORDS];
    let mut put = |word: Word, value: u32| w[word as usize] = value;
    let kind = u32::from(u16::from_be_bytes([frame[12], frame[13]]));
    put(Word::EtherType, kind);
    put(Word::SourcePort, NO_PORT);
    put(Word::DestinationPort, NO_PORT);
    put(Word::Length, frame.len() as u32);
    let ip = &frame[14..];
    let word = |at: usize| u32::from_be_bytes(*ip[at..].first_chunk().unwrap());
    let (protocol, inner, next) = match kind {
        0x0800 => {
            put(Word::Version, 4);
            put(Word::Source, word(12));
            put(Word::Destination, word(16));
            let first = word(4) & 0x1fff == 0;
            (ip[9], ip[9], first.then(|| &ip[usize::from(ip[0] & 15) * 4..]))
        }
        0x86dd => {
            put(Word::Version, 6);
            for n in 0..4 {
                w[Word::Source as usize + n] = word(8 + 4 * n);
                w[Word::Destination as usize + n] = word(24 + 4 * n);
            }
            (ip[6], if ip[6] == 44 { ip[40] } else { ip[6] }, Some(&ip[40..]))
        }
        0x0806 | 0x8035 => {
            put(Word::Version, 5);
            put(Word::Source, word(14));
            put(Word::Destination, word(24));
            return w;
        }
        _ => return w,
    };
    w[Word::Protocol as usize] = protocol.into();
    w[Word::Inner as usize] = inner.into();
    if let Some(next) = next.filter(|_| [6, 17, 132].contains(&protocol)) {
        w[Word::SourcePort as usize] = u16::from_be_bytes([next[0], next[1]]).into();
        w[Word::DestinationPort as usize] = u16::from_be_bytes([next[2], next[3]]).into();
    }
    w
}

fn capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for (n, frame) in frames.iter().enumerate() {
        for word in [1 + n as u32, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

/// Numbers of the frames that tcpdump prints; `None` if it refuses the filter.
fn by_tcpdump(file: &Path, filter: &str) -> Option<Vec<usize>> {
    let done = Command::new("tcpdump").args(["-tt", "-n", "-q", "-r"]).arg(file).arg(filter).output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    if error.contains("rejects all packets") {
        return Some(Vec::new());
    }
    done.status.success().then(|| {
        let text = String::from_utf8_lossy(&done.stdout);
        // A frame's first line begins with its time, which is its number here.
        let number = |line: &str| line.split_once('.')?.0.parse::<usize>().ok().map(|second| second - 1);
        text.lines().filter_map(number).collect()
    })
}

fn primitive(draw: &mut Draw) -> String {
    let way = draw.of(&["", "", "src ", "dst ", "src or dst ", "src and dst "]);
    let four = draw.of(&["10.0.0.1", "10.1.2.3", "192.168.0.9", "10.9.9.9"]);
    let six = draw.of(&["2001:db8::1", "2001:db8:1::2", "fe80::9"]);
    match draw.below(16) {
        0 => format!("{way}host {four}"),
        1 => format!("{way}host {six}"),
        2 => format!(
            "{way}net {}",
            draw.of(&[
                "10",
                "10.1",
                "192.168.0.0/16",
                "0.0.0.0/0",
                "10.0.0.0/010",
                "10.0.0.0 mask 255.0.0.0",
                "10.0.0.1 mask 255.0.0.255"
            ])
        ),
        3 => format!("{way}net {}", draw.of(&["2001:db8::/32", "fe80::/10", "::/0", "2001:db8::1"])),
        4 => format!(
            "{}{way}port {}",
            draw.of(&["", "tcp ", "udp ", "sctp "]),
            draw.of(&["53", "443", "065", "0x1bb", "5201"])
        ),
        5 => format!("{way}portrange {}", draw.of(&["50-500", "500-50", "0-65535", "053-060", "443"])),
        6 => format!("{way}port ({} or {})", draw.of(&["53", "443"]), draw.of(&["5201", "not 443"])),
        7 => draw
            .of(&["ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "esp", "ah"])
            .to_owned(),
        8 | 9 => format!(
            "{}proto {}",
            draw.of(&["", "ip ", "ip6 "]),
            draw.of(&["0", "6", "17", "44", "\\udp", "050", "0x11", "47", "58"])
        ),
        10 => format!("{} {}", draw.of(&["less", "greater"]), draw.of(&["60", "0100", "0x50", "100", "120"])),
        11 => format!("{} {way}host {}", draw.of(&["ip", "arp", "rarp"]), four),
        12 => format!("ip6 {way}host {six}"),
        13 => format!("{way}host ({four} or {six})"),
        14 => format!(
            "{} {}",
            draw.of(&["ip host", "ip6 host", "ip port", "tcp host", "arp net"]),
            draw.of(&["::1", "10.0.0.1", "53"])
        ),
        _ => format!("{way}port {} or {}", draw.of(&["53", "443"]), draw.of(&["5201", "40000"])),
    }
}

fn expression(draw: &mut Draw, depth: u32) -> String {
    let not = draw.of(&["", "", "", "not "]);
    if depth == 0 || draw.below(3) == 0 {
        return format!("{not}{}", primitive(draw));
    }
    let (one, other) = (expression(draw, depth - 1), expression(draw, depth - 1));
    format!("{not}({one}) {} ({other})", draw.of(&["and", "or"]))
}

fn filters() -> Vec<String> {
    let count = std::env::var("NETCLIFF_FILTERS").ok().and_then(|text| text.parse().ok()).unwrap_or(FILTERS);
    let mut draw = Draw(SEED);
    (0..count).map(|n| expression(&mut draw, n % 3)).collect()
}

/// If netcliff and tcpdump both accept a filter, it selects the same packets in both. netcliff accepts every filter
/// that tcpdump accepts, unless it needs too many steps.
#[test]
fn generated_filters_mean_what_they_mean_in_tcpdump() {
    if !has_program("tcpdump") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("packets.pcap");
    let frames = packets();
    capture(&file, &frames);
    let headers: Vec<_> = frames.iter().map(|frame| words(frame)).collect();
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    for text in filters() {
        let theirs = by_tcpdump(&file, &text);
        let ours = text.parse::<Filter>();
        match (theirs, ours) {
            (Some(theirs), Ok(filter)) => {
                let ours: Vec<usize> = (0..headers.len()).filter(|n| filter.accepts(&headers[*n])).collect();
                if theirs == ours {
                    equal += 1
                } else {
                    wrong.push(format!("{text}: tcpdump {theirs:?}, ours {ours:?}"))
                }
            }
            (Some(_), Err(error)) if error.reason.contains("comparisons") => {}
            (Some(_), Err(error)) => wrong.push(format!("{text}: refused, {error}")),
            (None, Ok(_)) => wrong.push(format!("{text}: tcpdump refuses it")),
            (None, Err(_)) => refused += 1,
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ, {equal} equal, {refused} refused by both:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(equal > 150 && refused > 5, "{equal} {refused}");
}

/// The eBPF programs accept the packets that the evaluator accepts: frames that an XDP program drops are counted by
/// filter.
#[cfg(have_bpf)]
#[test]
fn the_kernel_accepts_what_the_evaluator_accepts() {
    use crate::drops::{Ask, Tracer};
    use crate::journal::{HostLock, StateDir};
    use crate::testbed::netns::{Side, Testbed, TestbedOptions};
    use crate::xdp::{Mode, attach, drop_all};
    use netcliff_testkit::{Need, has, has_namespaces};
    use std::os::{fd::AsRawFd as _, unix::fs::MetadataExt as _};

    if !has(Need::Root) || !has(Need::Ebpf) || !has_namespaces() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (lock, _) = HostLock::acquire_and_replay(&StateDir::at(state.path()).unwrap()).unwrap();
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    let host = testbed.endpoint(Side::HostUnderTest).clone();
    let program = drop_all().unwrap();
    let attached = testbed.run_in_hut(|| attach(&program, host.index, Mode::Generic)).unwrap();
    let space = fs::metadata(testbed.netns_path(Side::HostUnderTest)).unwrap().ino();
    let frames = packets();
    let headers: Vec<_> = frames.iter().map(|frame| words(frame)).collect();
    let index = testbed.endpoint(Side::Sender).index as i32;
    let socket = testbed
        .run_in_sender(|| {
            nix::sys::socket::socket(
                nix::sys::socket::AddressFamily::Packet,
                nix::sys::socket::SockType::Raw,
                nix::sys::socket::SockFlag::SOCK_CLOEXEC,
                None,
            )
        })
        .unwrap()
        .unwrap();
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let mut tried = 0;
    for text in filters().into_iter().take(60) {
        let Ok(filter) = text.parse::<Filter>() else { continue };
        let accepted: Vec<usize> = (0..headers.len()).filter(|n| filter.accepts(&headers[*n])).collect();
        let ask = Ask { filter: Some(filter), spaces: vec![space], ..Ask::default() };
        // The verifier gives up if a signal is pending, such as one that freezes a build.
        let start = || {
            Tracer::start(&ask).ok().or_else(|| {
                std::thread::sleep(std::time::Duration::from_millis(200));
                None
            })
        };
        let tracer = (0..50).find_map(|_| start()).expect("the kernel takes the program");
        let before = tracer.read().unwrap();
        for frame in &frames {
            // SAFETY: both pointers are valid for the lengths that are given.
            let sent = unsafe {
                libc::sendto(
                    socket.as_raw_fd(),
                    frame.as_ptr().cast(),
                    frame.len(),
                    0,
                    (&raw const address).cast(),
                    size_of_val(&address) as u32,
                )
            };
            // A frame that the far end's XDP program drops at once is reported to the sender as "no buffer space".
            let refused = sent < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
            assert!(sent == frame.len() as isize || refused, "{}", std::io::Error::last_os_error());
        }
        let lengths: usize = accepted.iter().map(|n| frames[*n].len()).sum();
        let mut seen = (0, 0);
        for _ in 0..50 {
            let grown = before.until(&tracer.read().unwrap());
            seen = grown.sites.values().fold((0, 0), |sum, one| (sum.0 + one.drops, sum.1 + one.bytes));
            if seen.0 as usize >= accepted.len() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // With or without the link-layer header, depending on the program's place.
        let bytes = [lengths, lengths - 14 * accepted.len()].map(|bytes| bytes as u64);
        assert!(
            seen.0 as usize == accepted.len() && bytes.contains(&seen.1),
            "{text}: {seen:?} of {accepted:?}, {bytes:?}"
        );
        tried += 1;
    }
    assert!(tried > 40, "{tried}");
    drop(attached);
}
