//! What devices and the IP layer of both ends count.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use netcliff_wire::thread::Placement;
use netcliff_wire::transfer::{Channel, Direction};

use super::{Far, StreamOptions};

/// What a network namespace has counted: its devices added up, and what its IP layer was handed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets dropped on the way in or out.
    pub dropped: u64,
    /// Packets IP received (v4 and v6), after GRO put some together.
    pub ip_packets: u64,
    /// Their bytes.
    pub ip_bytes: u64,
}

impl DeviceCounts {
    /// The increase since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let of = |count: fn(&Self) -> u64| count(self).saturating_sub(count(earlier));
        Self {
            tx_packets: of(|c| c.tx_packets),
            tx_bytes: of(|c| c.tx_bytes),
            rx_packets: of(|c| c.rx_packets),
            rx_bytes: of(|c| c.rx_bytes),
            dropped: of(|c| c.dropped),
            ip_packets: of(|c| c.ip_packets),
            ip_bytes: of(|c| c.ip_bytes),
        }
    }

    /// Adds the table of /proc/net/dev: the loopback device only, or all others.
    pub(super) fn add_devices(&mut self, table: &str, loopback: bool) {
        for line in table.lines() {
            let Some((name, columns)) = line.split_once(':') else { continue };
            if (name.trim() == "lo") != loopback {
                continue;
            }
            let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
            if let [rx_bytes, rx_packets, _, rx_dropped, _, _, _, _, tx_bytes, tx_packets, _, tx_dropped, ..] =
                columns[..]
            {
                self.rx_packets += rx_packets;
                self.rx_bytes += rx_bytes;
                self.tx_packets += tx_packets;
                self.tx_bytes += tx_bytes;
                self.dropped += rx_dropped + tx_dropped;
            }
        }
    }

    /// Adds IPv4's counts of /proc/net/snmp and /proc/net/netstat, and IPv6's of /proc/net/snmp6 where there are any.
    pub(super) fn add_ip(&mut self, snmp: &str, netstat: &str, snmp6: &str) {
        let v6 = |name: &str| {
            let line = snmp6.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.ip_packets += titled(snmp, "Ip:", "InReceives").unwrap_or(0) + v6("Ip6InReceives ");
        self.ip_bytes += titled(netstat, "IpExt:", "InOctets").unwrap_or(0) + v6("Ip6InOctets ");
    }
}

/// A figure of a table whose columns are named in the line above.
fn titled(table: &str, row: &str, column: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(row));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_ascii_whitespace().position(|name| name == column)?;
    values.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// A network namespace whose counts are read.
#[derive(Debug, Clone)]
struct Place {
    netns: Option<PathBuf>,
    loopback: bool,
}

impl Place {
    fn read(&self) -> Option<DeviceCounts> {
        let placement = Placement { netns: self.netns.clone(), ..Placement::default() };
        std::thread::scope(|scope| {
            let read = scope.spawn(move || {
                placement.enter().ok()?;
                let table = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
                let mut counts = DeviceCounts::default();
                counts.add_devices(&table("dev").ok()?, self.loopback);
                // A kernel without IPv6 has no snmp6.
                counts.add_ip(&table("snmp").ok()?, &table("netstat").ok()?, &table("snmp6").unwrap_or_default());
                Some(counts)
            });
            read.join().ok().flatten()
        })
    }
}

/// Where devices are counted.
#[derive(Debug, Clone)]
pub(super) struct Devices {
    sending: Option<Place>,
    receiving: Option<Place>,
}

/// The counts of both sides; None where a side is another host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sides {
    /// The sender's.
    pub sending: Option<DeviceCounts>,
    /// The receiver's.
    pub receiving: Option<DeviceCounts>,
    /// The receiver's packets arrive by interrupts of this host: not over loopback or between namespaces.
    pub interrupts: bool,
}

impl Devices {
    /// None where no device is involved, or traffic goes both ways.
    pub(super) fn of(options: &StreamOptions, far: &Far<'_>) -> Option<Self> {
        let address = match (&options.template.channel, far) {
            (Channel::Unix | Channel::Pipe, _) => return None,
            (_, Far::Agent { address, .. }) => *address,
            (Channel::Tcp { address, .. } | Channel::Udp { address, .. }, Far::Here) => *address,
        };
        let (near, far_netns) = (&options.template.near.netns, &options.template.far.netns);
        // To an address of its own a namespace always speaks through lo.
        let loopback = match far {
            Far::Here => address.is_loopback() || near == far_netns,
            Far::Agent { .. } => is_own(address),
        };
        let place = |netns: &Option<PathBuf>| Place { netns: netns.clone(), loopback };
        let there = match far {
            Far::Agent { .. } if !loopback => None,
            _ => Some(place(far_netns)),
        };
        let here = Some(place(near));
        match options.method.direction().unwrap_or(options.template.direction) {
            Direction::Send => Some(Self { sending: here, receiving: there }),
            Direction::Receive => Some(Self { sending: there, receiving: here }),
            Direction::Both => None,
        }
    }

    pub(super) fn read(&self) -> Sides {
        let of = |place: &Option<Place>| place.as_ref().and_then(Place::read);
        let interrupts = self.receiving.as_ref().is_some_and(|place| !place.loopback && place.netns.is_none());
        Sides { sending: of(&self.sending), receiving: of(&self.receiving), interrupts }
    }
}

impl Sides {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let of = |now: Option<DeviceCounts>, then: Option<DeviceCounts>| Some(now?.since(&then?));
        Self {
            sending: of(self.sending, earlier.sending),
            receiving: of(self.receiving, earlier.receiving),
            interrupts: self.interrupts,
        }
    }
}

/// True for an address of this host: the kernel would speak to it from itself.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv6() { [0_u16; 8].into() } else { [0; 4].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0));
    // Connecting a UDP socket sends nothing.
    let local = socket.and_then(|socket| {
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    address.is_loopback() || local.is_ok_and(|local| local.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 10 1 0 2 0 0 0 0 20 3 0 0 0 0 0 0\n  v0: 7 6 0 1 0 0 0 0 500 5 0 1 0 0 0 0\n";
        let read = |loopback| {
            let mut counts = DeviceCounts::default();
            counts.add_devices(table, loopback);
            counts
        };
        let lo = DeviceCounts { tx_packets: 3, tx_bytes: 20, rx_packets: 1, rx_bytes: 10, dropped: 2, ..read(true) };
        assert_eq!((read(true), read(true).ip_packets), (lo, 0));
        let veth = read(false);
        assert_eq!((veth.tx_packets, veth.tx_bytes, veth.rx_packets, veth.rx_bytes), (5, 500, 6, 7));
        assert_eq!(veth.since(&DeviceCounts { tx_packets: 4, ..DeviceCounts::default() }).tx_packets, 1);
    }

    #[test]
    fn ip_is_counted_by_the_name_of_the_column() {
        let snmp = "Ip: Forwarding InReceives OutRequests\nIp: 1 70 5\nTcp: InReceives\nTcp: 9\n";
        let netstat = "TcpExt: A\nTcpExt: 1\nIpExt: InNoRoutes InOctets\nIpExt: 0 7000\n";
        let mut counts = DeviceCounts::default();
        counts.add_ip(snmp, netstat, "Ip6InReceives      \t3\nIp6InOctets   \t30\n");
        assert_eq!((counts.ip_packets, counts.ip_bytes), (73, 7030));
    }

    #[test]
    fn this_host_knows_its_own_addresses() {
        assert!(is_own([127, 0, 0, 1].into()));
        // TEST-NET-1: no host has it.
        assert!(!is_own([192, 0, 2, 1].into()));
    }
}
