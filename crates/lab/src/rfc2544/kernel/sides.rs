//! The tester's two sides and the frames between them.

use std::path::PathBuf;

use netcliff_host::testbed::forward::Forwarding;
use netcliff_wire::forward::run::Port;
use netcliff_wire::forward::{Direction, Profile, Sweep};
use netcliff_wire::transmit::mac_address;

use super::{DeviceError, Kernel, Place};
use crate::rfc2544::settings::FrameSize;

/// UDP ports of the first flow, and how many of each a sweep goes through before it takes another address.
const PORTS: (u16, u16) = (10_000, 20_000);
const PORTS_EACH: u32 = 256;

impl Kernel {
    /// Who sends what to whom.
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
                    sweep: sweep(self.settings.flows),
                    sizes: frame.sizes(),
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
        // A bridge forwards by the address of the far port; a router is addressed itself.
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

/// A port with what frames need to know.
struct Side {
    port: Port,
    mac: [u8; 6],
    next_mac: [u8; 6],
    ipv4: std::net::Ipv4Addr,
    ipv6: std::net::Ipv6Addr,
}

/// So many flows: source ports first, then source and destination addresses in step, as a receiver's hash sees them.
fn sweep(flows: u32) -> Sweep {
    let ports = (1..=flows.min(PORTS_EACH)).rev().find(|ports| flows.is_multiple_of(*ports)).unwrap_or(1);
    Sweep { source_ports: ports as u16, sources: flows / ports, ..Sweep::default() }
}
