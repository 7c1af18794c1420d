//! Answers ARP requests and ICMPv6 neighbour solicitations for the addresses of a tester's ports, so that a router
//! between the ports resolves its neighbours as if they were hosts. Also stores the messages that the router sent.
//!
//! A separate thread with its own packet sockets sends the answers between the frames of a trial, one for each request.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use netcliff_packets::error::WireError;
use netcliff_packets::interface::{self, PACKET_IGNORE_OUTGOING, set_packet_option};

/// ETH_P_IP, ETH_P_ARP and ETH_P_IPV6, linux/if_ether.h.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
/// Protocol numbers of IP.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Types of ICMPv6: solicitation and advertisement of a neighbour.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Longest wait for frames before the stop flag is checked (ms).
const WAIT_MS: u16 = 50;
/// Largest number of different messages stored: a router requests the address of each of many destinations.
const KEPT: usize = 256;

/// A port of the tester, in the calling thread's network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name of the interface.
    pub interface: String,
    /// Hardware address of the port, which the answers contain.
    pub mac: [u8; 6],
    /// VLAN id of the frames. `None`: untagged.
    pub vlan: Option<u16>,
    /// First of the tester's addresses at this port.
    pub first: IpAddr,
    /// Number of consecutive addresses.
    pub count: u32,
}

impl Owner {
    /// Whether `address` belongs to the tester at this port.
    pub fn owns(&self, address: IpAddr) -> bool {
        let distance = match (address, self.first) {
            (IpAddr::V4(address), IpAddr::V4(first)) => u128::from(u32::from(address).wrapping_sub(u32::from(first))),
            (IpAddr::V6(address), IpAddr::V6(first)) => u128::from(address).wrapping_sub(u128::from(first)),
            _ => return false,
        };
        distance < u128::from(self.count)
    }
}

/// A message received at a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// A request for the hardware address of an IP address.
    WhoHas {
        /// Index of the port among the owners.
        port: usize,
        /// The requested address.
        whom: IpAddr,
        /// Address of the sender of the request.
        by: IpAddr,
        /// Whether the address belongs to the tester, so that the request was answered.
        answered: bool,
    },
    /// An ICMP or ICMPv6 message: a packet cannot be delivered.
    Unreachable {
        /// Index of the port among the owners.
        port: usize,
        /// Address of the sender of the message.
        by: IpAddr,
        /// Description of the message.
        why: &'static str,
    },
}

/// Answers requests until it is dropped.
#[derive(Debug)]
pub struct Neighbours {
    heard: Arc<Mutex<BTreeSet<Heard>>>,
    stop: Arc<AtomicBool>,
    probing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbours {
    /// Starts to answer for these ports. Until [`Self::probed`] is called, the thread also reads messages that a packet
    /// cannot be delivered.
    pub fn start(owners: Vec<Owner>) -> Result<Self, WireError> {
        let mut sockets = Vec::new();
        for (port, owner) in owners.iter().enumerate() {
            if owner.first.is_ipv4() {
                sockets.push(Socket::open(port, &owner.interface, ARP, None)?);
                sockets.push(Socket::open(port, &owner.interface, IPV4, Some((23, ICMP)))?);
            } else {
                sockets.push(Socket::open(port, &owner.interface, IPV6, Some((20, ICMPV6)))?);
            }
        }
        let (heard, stop, probing) =
            (Arc::default(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let worker = Worker {
            owners,
            sockets,
            heard: Arc::clone(&heard),
            stop: Arc::clone(&stop),
            probing: Arc::clone(&probing),
        };
        let thread = std::thread::Builder::new().name("netcliff-arp".into()).spawn(move || worker.work());
        let thread = thread.map_err(|error| WireError::system("start the thread that answers ARP", error))?;
        Ok(Self { heard, stop, probing, thread: Some(thread) })
    }

    /// The messages received so far, each once.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Stops reading messages other than requests that need answers, so that the frames of a trial pass fewer filters.
    pub fn probed(&self) {
        self.probing.store(false, Ordering::Relaxed);
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A packet socket for one protocol at a port.
#[derive(Debug)]
struct Socket {
    port: usize,
    protocol: u16,
    fd: OwnedFd,
}

impl Socket {
    /// Opens a socket at an interface. `only`: offset and value of a byte that received frames must have.
    fn open(port: usize, interface: &str, protocol: u16, only: Option<(u32, u8)>) -> Result<Self, WireError> {
        let (fd, index) = interface::unbound_socket(interface)?;
        set_packet_option(&fd, PACKET_IGNORE_OUTGOING, &1i32, "ignore what is sent")?;
        if let Some((at, value)) = only {
            filter(&fd, at, value)?;
        }
        if protocol == IPV6 {
            hear_multicast(&fd, index)?;
        }
        interface::bind(&fd, interface, index, protocol)?;
        Ok(Self { port, protocol, fd })
    }
}

/// Attaches a filter that passes frames with `value` in the byte at offset `at`.
fn filter(fd: &OwnedFd, at: u32, value: u8) -> Result<(), WireError> {
    /// SO_ATTACH_FILTER, asm-generic/socket.h.
    const ATTACH_FILTER: libc::c_int = 26;
    /// `struct sock_filter` of linux/filter.h.
    #[repr(C)]
    struct Instruction {
        code: u16,
        jump_true: u8,
        jump_false: u8,
        k: u32,
    }
    /// `struct sock_fprog` of linux/filter.h.
    #[repr(C)]
    struct Program {
        length: u16,
        filter: *const Instruction,
    }
    let line = |code, jump_false, k| Instruction { code, jump_true: 0, jump_false, k };
    // ldb [at]; jeq value; ret all; ret 0.
    let lines = [line(0x30, 0, at), line(0x15, 1, value.into()), line(0x06, 0, u32::MAX), line(0x06, 0, 0)];
    let program = Program { length: lines.len() as u16, filter: lines.as_ptr() };
    // SAFETY: the pointer and length describe `program`, whose instructions the kernel only reads; both outlive the
    // call.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<Program>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(WireError::last_os("filter what a router asks")) } else { Ok(()) }
}

/// Neighbour solicitations go to multicast addresses, so the port receives all multicast frames while the socket is
/// open.
fn hear_multicast(fd: &OwnedFd, index: u32) -> Result<(), WireError> {
    /// PACKET_ADD_MEMBERSHIP and PACKET_MR_ALLMULTI, linux/if_packet.h.
    const ADD_MEMBERSHIP: libc::c_int = 1;
    const ALL_MULTICAST: u16 = 2;
    /// `struct packet_mreq` of linux/if_packet.h.
    #[repr(C)]
    struct Membership {
        index: i32,
        kind: u16,
        length: u16,
        address: [u8; 8],
    }
    let membership = Membership { index: index as i32, kind: ALL_MULTICAST, length: 0, address: [0; 8] };
    set_packet_option(fd, ADD_MEMBERSHIP, &membership, "hear neighbour solicitations")
}

/// The state of the answering thread.
struct Worker {
    owners: Vec<Owner>,
    sockets: Vec<Socket>,
    heard: Arc<Mutex<BTreeSet<Heard>>>,
    stop: Arc<AtomicBool>,
    probing: Arc<AtomicBool>,
}

impl Worker {
    fn work(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.probing.load(Ordering::Relaxed) {
                self.sockets.retain(|socket| socket.protocol != IPV4);
            }
            let mut waits: Vec<PollFd<'_>> =
                self.sockets.iter().map(|socket| PollFd::new(socket.fd.as_fd(), PollFlags::POLLIN)).collect();
            if poll(&mut waits, PollTimeout::from(WAIT_MS)).is_err() {
                continue;
            }
            let ready: Vec<bool> = waits.iter().map(|wait| wait.any().unwrap_or(false)).collect();
            for (socket, _) in self.sockets.iter().zip(ready).filter(|(_, ready)| *ready) {
                self.read(socket);
            }
        }
    }

    /// Reads one frame. An error of a port that is down or gone is ignored: the rings of the trial report it.
    fn read(&self, socket: &Socket) {
        let mut bytes = [0u8; 256];
        // SAFETY: the pointer and length describe `bytes`, which outlives the call.
        let got =
            unsafe { libc::recv(socket.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
        let Some(frame) = usize::try_from(got).ok().and_then(|length| bytes.get(..length)) else { return };
        let Some((heard, answer)) = read(socket.port, &self.owners[socket.port], frame) else { return };
        if let Some(answer) = answer {
            // SAFETY: the pointer and length describe `answer`, which outlives the call. If sending fails, the router
            // repeats its request.
            let _ =
                unsafe { libc::send(socket.fd.as_raw_fd(), answer.as_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) };
        }
        let mut all = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < KEPT {
            all.insert(heard);
        }
    }
}

/// Parses a frame whose VLAN tag the kernel has removed. Returns the message and the frame that answers it, or `None`
/// for any other frame.
fn read(port: usize, owner: &Owner, frame: &[u8]) -> Option<(Heard, Option<Vec<u8>>)> {
    match u16::from_be_bytes(at(frame, 12)?) {
        ARP => asked(port, owner, frame),
        IPV4 => unreachable(port, frame),
        IPV6 if frame.get(54) == Some(&SOLICITATION) => solicited(port, owner, frame),
        IPV6 if frame.get(54) == Some(&1) => {
            let why = match frame.get(55)? {
                0 => "no route to the destination",
                1 => "administratively prohibited, as by a firewall",
                3 => "address unreachable",
                _ => "destination unreachable",
            };
            Some((Heard::Unreachable { port, by: Ipv6Addr::from(at(frame, 22)?).into(), why }, None))
        }
        _ => None,
    }
}

fn at<const N: usize>(frame: &[u8], from: usize) -> Option<[u8; N]> {
    frame.get(from..)?.first_chunk().copied()
}

/// Parses an ARP request (RFC 826). A request for the sender's own address is an announcement and gets no answer.
fn asked(port: usize, owner: &Owner, frame: &[u8]) -> Option<(Heard, Option<Vec<u8>>)> {
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    if at(frame, 14)? != REQUEST {
        return None;
    }
    let (asker, by): ([u8; 6], [u8; 4]) = (at(frame, 22)?, at(frame, 28)?);
    let whom: [u8; 4] = at(frame, 38)?;
    if by == whom {
        return None;
    }
    let answered = owner.owns(Ipv4Addr::from(whom).into());
    let answer = answered.then(|| {
        let mut answer = ethernet(owner, asker, ARP);
        answer.extend([0, 1, 8, 0, 6, 4, 0, 2]);
        answer.extend(owner.mac);
        answer.extend(whom);
        answer.extend(asker);
        answer.extend(by);
        answer
    });
    let (whom, by) = (Ipv4Addr::from(whom).into(), Ipv4Addr::from(by).into());
    Some((Heard::WhoHas { port, whom, by, answered }, answer))
}

/// Parses a neighbour solicitation (RFC 4861).
fn solicited(port: usize, owner: &Owner, frame: &[u8]) -> Option<(Heard, Option<Vec<u8>>)> {
    let asker: [u8; 6] = at(frame, 6)?;
    let (by, whom): ([u8; 16], [u8; 16]) = (at(frame, 22)?, at(frame, 62)?);
    // A source address of zero means duplicate address detection: the host checks whether the address is free.
    let answered = by != [0; 16] && owner.owns(Ipv6Addr::from(whom).into());
    let answer = answered.then(|| {
        let mut message = vec![ADVERTISEMENT, 0, 0, 0];
        // Flags: router no, solicited, override.
        message.extend([0x60, 0, 0, 0]);
        message.extend(whom);
        message.extend([2, 1]);
        message.extend(owner.mac);
        let pseudo = [&whom[..], &by[..], &(message.len() as u32).to_be_bytes(), &[0, 0, 0, ICMPV6], &message].concat();
        let sum = pseudo.as_chunks::<2>().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
        message[2..4].copy_from_slice(&(!netcliff_packets::frame::fold(sum)).to_be_bytes());
        let mut answer = ethernet(owner, asker, IPV6);
        answer.extend([0x60, 0, 0, 0]);
        answer.extend((message.len() as u16).to_be_bytes());
        answer.extend([ICMPV6, 255]);
        answer.extend(whom);
        answer.extend(by);
        answer.extend(message);
        answer
    });
    let (whom, by) = (Ipv6Addr::from(whom).into(), Ipv6Addr::from(by).into());
    Some((Heard::WhoHas { port, whom, by, answered }, answer))
}

/// Parses ICMP destination unreachable (RFC 792).
fn unreachable(port: usize, frame: &[u8]) -> Option<(Heard, Option<Vec<u8>>)> {
    let header = 4 * usize::from(frame.get(14)? & 0xf);
    if frame.get(14 + header) != Some(&3) {
        return None;
    }
    let why = match frame.get(15 + header)? {
        0 | 6 | 11 => "network unreachable: no route",
        1 | 7 | 12 => "host unreachable",
        3 => "port unreachable: the packet was taken for the router's own",
        9 | 10 | 13 => "administratively prohibited, as by a firewall",
        _ => "destination unreachable",
    };
    Some((Heard::Unreachable { port, by: Ipv4Addr::from(at(frame, 26)?).into(), why }, None))
}

/// The Ethernet header of an answer.
fn ethernet(owner: &Owner, to: [u8; 6], protocol: u16) -> Vec<u8> {
    let mut frame = [to, owner.mac].concat();
    if let Some(vlan) = owner.vlan {
        frame.extend(0x8100u16.to_be_bytes());
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(protocol.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(first: &str, count: u32) -> Owner {
        let (interface, mac) = ("p0".to_owned(), [2, 0, 0, 0, 0, 9]);
        Owner { interface, mac, vlan: None, first: first.parse().expect("an address"), count }
    }

    fn request(whom: [u8; 4], by: [u8; 4]) -> Vec<u8> {
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1], &by, &[0; 6], &whom]
            .concat()
    }

    #[test]
    fn only_who_has_for_the_testers_addresses_is_answered() {
        let owner = owner("198.19.0.2", 3);
        let (router, cases) = ([198, 19, 0, 1], [(2, true), (4, true), (5, false)]);
        for (last, ours) in cases {
            let frame = request([198, 19, 0, last], router);
            let (heard, answer) = read(1, &owner, &frame).expect("a question");
            let whom = Ipv4Addr::new(198, 19, 0, last).into();
            assert_eq!(heard, Heard::WhoHas { port: 1, whom, by: Ipv4Addr::from(router).into(), answered: ours });
            assert_eq!(answer.is_some(), ours, "198.19.0.{last}");
        }
        // A request for the sender's own address is an announcement.
        assert_eq!(read(1, &owner, &request(router, router)), None);
        let (_, answer) = read(1, &owner, &request([198, 19, 0, 3], router)).expect("a question");
        let expected = [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 9, 198, 19, 0, 3][..],
            &[2, 0, 0, 0, 0, 1, 198, 19, 0, 1],
        ];
        assert_eq!(answer, Some(expected.concat()));
        // On a VLAN, the answer has the tag that the kernel removed from the request.
        let tagged = Owner { vlan: Some(7), ..owner };
        let (_, answer) = read(1, &tagged, &request([198, 19, 0, 3], router)).expect("a question");
        assert_eq!(answer.map(|answer| answer[12..18].to_vec()), Some(vec![0x81, 0, 0, 7, 8, 6]));
    }

    #[test]
    fn a_solicitation_is_answered_with_a_right_checksum() {
        let owner = owner("2001:2:0:1::2", 1);
        let (by, whom): (Ipv6Addr, Ipv6Addr) = ("fe80::1".parse().unwrap(), "2001:2:0:1::2".parse().unwrap());
        let mut frame =
            [&[0x33, 0x33, 0xff, 0, 0, 2][..], &[2, 0, 0, 0, 0, 1], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 24]].concat();
        frame.extend([58, 255]);
        frame.extend(by.octets());
        frame.extend([0xff; 16]);
        frame.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(whom.octets());
        let (heard, answer) = read(0, &owner, &frame).expect("a question");
        assert_eq!(heard, Heard::WhoHas { port: 0, whom: whom.into(), by: by.into(), answered: true });
        let answer = answer.expect("it is ours");
        let packet = etherparse::PacketHeaders::from_ethernet_slice(&answer).expect("a packet");
        let Some(etherparse::TransportHeader::Icmpv6(icmp)) = packet.transport else { panic!("{packet:?}") };
        let payload = packet.payload.slice();
        let checksum = icmp.icmp_type.calc_checksum(whom.octets(), by.octets(), payload);
        assert_eq!(checksum, Ok(icmp.checksum));
        assert!(payload.ends_with(&[2, 1, 2, 0, 0, 0, 0, 9]), "{payload:?}");
        // A source address of zero: a host checks whether the address is free.
        frame[22..38].fill(0);
        assert_eq!(read(0, &owner, &frame).map(|(_, answer)| answer.is_some()), Some(false));
    }

    #[test]
    fn what_is_cut_short_is_of_no_interest() {
        let owner = owner("198.19.0.2", 1);
        let frame = request([198, 19, 0, 2], [198, 19, 0, 1]);
        for length in 0..frame.len() {
            assert_eq!(read(0, &owner, &frame[..length]), None, "{length}");
        }
    }
}
