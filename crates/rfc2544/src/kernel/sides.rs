//! The two sides of the tester, and the frames between them.

use std::path::PathBuf;

use crate::tester::Direction;
use crate::tester::Profile;
use crate::tester::Sweep;
use crate::tester::run::Port;
use netcliff_host::testbed::forward::Forwarding;
use netcliff_packets::interface::mac_address;

use super::{DeviceError, Kernel, Place};
use crate::settings::{FrameSize, Settings};

/// UDP source and destination port of the first flow.
pub(super) const PORTS: (u16, u16) = (10_000, 20_000);
/// Largest number of source ports in a sweep.
const PORTS_EACH: u32 = 256;

impl Kernel {
    /// The directions of the frames, with the addresses of both sides.
    pub(super) fn directions(&self, frame: FrameSize) -> Result<Vec<Direction>, DeviceError> {
        let ports = self.ports()?;
        let one = |from: usize, to: usize| {
            let (here, there) = (&ports[from], &ports[to]);
            let (source, destination) = if self.settings.ipv6 {
                (here.ipv6.into(), there.ipv6.into())
            } else {
                (here.ipv4.into(), there.ipv4.into())
            };
            Direction {
                from: here.port.clone(),
                to: there.port.clone(),
                profile: Profile {
                    source_mac: here.mac,
                    destination_mac: here.next_mac,
                    vlan: self.settings.vlan,
                    source,
                    destination,
                    ports: PORTS,
                    sweep: sweep(&self.settings),
                    sizes: frame.sizes(),
                    replay: self.settings.pcap.as_ref().and_then(|pcap| pcap.replay.clone()),
                },
            }
        };
        let mut directions = vec![one(0, 1)];
        if self.settings.both_ways {
            directions.push(one(1, 0));
        }
        Ok(directions)
    }

    fn ports(&self) -> Result<[Side; 2], DeviceError> {
        let ipv4 = |n: u8| [198, 18 + n, 0, 2].into();
        let ipv6 = |n: u16| std::net::Ipv6Addr::new(0x2001, 2, 0, n, 0, 0, 0, 2);
        if let Place::Ports { tx, rx, device_mac, .. } = &self.place {
            let (tx_mac, rx_mac) = (mac_address(tx)?, mac_address(rx)?);
            let port = |interface: &String| Port { netns: None, interface: interface.clone() };
            let side = |n: u8, interface, mac, other: [u8; 6]| Side {
                port: port(interface),
                mac,
                next_mac: device_mac.unwrap_or(other),
                ipv4: ipv4(n),
                ipv6: ipv6(n.into()),
            };
            return Ok([side(0, tx, tx_mac, rx_mac), side(1, rx, rx_mac, tx_mac)]);
        }
        let Some(bed) = &self.bed else { return Err(DeviceError::Stopped) };
        // A bridge forwards by the hardware address of the far port; a router receives frames at its own address.
        let bridged = bed.options().forwarding == Forwarding::Bridge;
        let side = |n: usize| {
            let (side, other) = (&bed.sides()[n], &bed.sides()[1 - n]);
            let path: PathBuf = bed.netns_path(n);
            Side {
                port: Port { netns: Some(path), interface: side.interface.clone() },
                mac: side.mac,
                next_mac: if bridged { other.unheard_mac() } else { side.router_mac },
                ipv4: side.ipv4,
                ipv6: side.ipv6,
            }
        };
        Ok([side(0), side(1)])
    }
}

/// A port, with the addresses for its frames.
struct Side {
    port: Port,
    mac: [u8; 6],
    next_mac: [u8; 6],
    ipv4: std::net::Ipv4Addr,
    ipv6: std::net::Ipv6Addr,
}

/// Spreads the flows over the configured destinations. The flows to each destination differ in their source ports; if
/// these are too few, also in their source addresses.
fn sweep(settings: &Settings) -> Sweep {
    if let Some(pcap) = &settings.pcap {
        return Sweep { source_ports: pcap.source_ports as u16, ..Sweep::default() };
    }
    let Settings { flows, destinations, destination_ports, .. } = *settings;
    let to_each = flows / (destinations * destination_ports);
    let ports = (1..=to_each.min(PORTS_EACH)).rev().find(|ports| to_each.is_multiple_of(*ports)).unwrap_or(1);
    Sweep {
        sources: to_each / ports,
        destinations,
        source_ports: ports as u16,
        destination_ports: destination_ports as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_is_one_stream_over_what_was_asked_for() {
        for (flows, destinations, destination_ports, expected) in [
            (1, 1, 1, [1, 1, 1, 1]),
            (1000, 1, 1, [4, 1, 250, 1]),
            (1000, 100, 1, [1, 100, 10, 1]),
            (60_000, 200, 3, [1, 200, 100, 3]),
            (7, 7, 1, [1, 7, 1, 1]),
        ] {
            let settings = Settings { flows, destinations, destination_ports, ..Settings::default() };
            settings.check().unwrap();
            let of = sweep(&settings);
            assert_eq!(
                [of.sources, of.destinations, of.source_ports.into(), of.destination_ports.into()],
                expected,
                "{flows}"
            );
            assert_eq!(of.streams(), u64::from(flows));
        }
        let odd = Settings { flows: 10, destinations: 3, ..Settings::default() };
        assert!(odd.check().unwrap_err().to_string().contains("flows = 10: a multiple of 3 destinations"));
    }
}
