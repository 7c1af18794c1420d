//! Where packets that did not reach the application were counted last.

use netcliff_host::firewall::{self, Flow};
use netcliff_host::nic::losses::{Cause, Losses};
use netcliff_host::nic::neighbour::Received;
use netcliff_host::softnet::{IpDrops, UdpCounters};
use netcliff_packets::frame::Ports;

use super::Between;

/// Share of the lost packets by which a counter must have increased to be named.
const SHARE: f64 = 0.5;

/// Counters before the packets were sent.
pub(super) struct Before {
    received: Option<Received>,
    losses: Losses,
    udp: UdpCounters,
    ip: IpDrops,
}

impl Before {
    pub(super) fn now(link: &Between) -> Self {
        Self {
            received: link.received(),
            losses: link.losses(),
            udp: UdpCounters::read_of(link.own.address.is_ipv6()).unwrap_or_default(),
            ip: IpDrops::read().unwrap_or_default(),
        }
    }

    /// Describes where most of the packets that were sent since then, and did not arrive, were last counted.
    pub(super) fn where_lost(&self, link: &Between, (sent, arrived): (u64, u64), ports: Ports) -> String {
        let interface = link.interface();
        let now = Self::now(link);
        let missing = sent.saturating_sub(arrived);
        let many = |packets: u64| packets as f64 >= SHARE * missing as f64;
        let lost = now.losses.since(&self.losses);
        let by_xdp = lost.packets(Cause::Xdp);
        let received = now.received.zip(self.received).map(|(now, then)| now.packets.saturating_sub(then.packets));
        if many(by_xdp) {
            return format!("an XDP program of {interface} dropped {by_xdp} (`ip link show {interface}`)");
        }
        match received {
            Some(received) if !many(received.saturating_sub(arrived)) => {
                return format!(
                    "{interface} received {received} packets in that time, so they were lost before it: is it the right link?"
                );
            }
            None => return "the kernel does not report what the interface received".to_owned(),
            Some(_) => {}
        }
        let ip = now.ip.since(&self.ip);
        let udp = now.udp.since(&self.udp);
        // IPv6 has no reverse path filter but a rule of nft.
        let (rp_filter, legacy) = match link.own.address.is_ipv6() {
            true => ("rules of ip6tables-legacy".to_owned(), "ip6tables-legacy"),
            false => (format!("net.ipv4.conf.{interface}.rp_filter"), "iptables-legacy"),
        };
        let of_many = [
            (ip.reverse_path, format!("reverse path filtering refused the source address ({rp_filter})")),
            (
                ip.martian,
                "the kernel took the source address for an impossible one (IpExt InAddrErrors, martian)".to_owned(),
            ),
            (
                udp.rcvbuf_errors,
                "the application's socket was full: other programs kept it from reading (Udp RcvbufErrors)".to_owned(),
            ),
            (udp.in_csum_errors, "their UDP checksum was wrong (Udp InCsumErrors)".to_owned()),
        ];
        if let Some((packets, why)) = of_many.into_iter().find(|(packets, _)| many(*packets)) {
            return format!("{interface} received them, and {why}: {packets}");
        }
        let flow = Flow {
            interface,
            source: None,
            destination: link.own.address,
            source_port: ports.source,
            destination_port: ports.destination,
        };
        match firewall::dropped_by(&flow) {
            Ok(Some(rule)) => rule,
            Ok(None) => format!(
                "{interface} received them, and no rule that nft lists drops them: look for rules of {legacy}, an XDP \
                 program (`ip link show {interface}`), or a filter of tc (`tc filter show dev {interface} ingress`)"
            ),
            Err(why) => format!(
                "{interface} received them, so this host drops them, and whether by a rule is unknown: {why}; look at `nft list \
                 ruleset`, an XDP program (`ip link show {interface}`), and {rp_filter}"
            ),
        }
    }
}
