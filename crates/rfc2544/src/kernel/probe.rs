//! Single frames between two ports before the first trial: they show whether the device forwards at all, and if not,
//! why.

use std::net::IpAddr;

use crate::tester::Direction;
use crate::tester::Trial as WireTrial;
use crate::tester::neighbours::{Heard, Neighbours, Owner};
use netcliff_core::quote::shell;

use super::{DeviceError, FLAT_OUT_PPS, FLAT_OUT_S, Kernel, Place};

/// Number of frames that are tried, one after the other. The first makes a router resolve its neighbour.
const TRIES: u32 = 3;
/// Longest wait for a frame (s). A router repeats its neighbour request after a second.
const WAIT_S: f64 = 1.2;

impl Kernel {
    /// Starts to answer neighbour requests for the addresses of both ports. `None` in namespaces.
    pub(super) fn answer_neighbours(&self) -> Result<Option<Neighbours>, DeviceError> {
        if !matches!(self.place, Place::Ports { .. }) {
            return Ok(None);
        }
        let Some(frame) = self.settings.frames.first() else { return Ok(None) };
        let directions = self.directions(*frame)?;
        let there = &directions[0];
        let of = |from_tx: bool| {
            let (port, first) =
                if from_tx { (&there.from, there.profile.source) } else { (&there.to, there.profile.destination) };
            let sweep = there.profile.sweep;
            // Frames of the opposite direction have the same sweep, with sources and destinations exchanged.
            let count = sweep.sources.max(sweep.destinations);
            let mac = netcliff_packets::interface::mac_address(&port.interface)?;
            let vlan = there.profile.vlan;
            Ok::<_, DeviceError>(Owner { interface: port.interface.clone(), mac, vlan, first, count })
        };
        Ok(Some(Neighbours::start(vec![of(true)?, of(false)?])?))
    }

    /// Sends single frames until one has come through in each direction.
    ///
    /// # Errors
    /// No frame came through: the likely causes, and what the device reported.
    pub(super) fn probe(&mut self, directions: &[Direction]) -> Result<(), DeviceError> {
        if self.neighbours.is_none() || std::mem::replace(&mut self.probed, true) {
            return Ok(());
        }
        let trial = WireTrial {
            load_pps: FLAT_OUT_PPS,
            duration_s: FLAT_OUT_S,
            settle_s: WAIT_S,
            max_burst: 1,
            tagged_at_s: None,
            burst: Some(1),
            most_lost: None,
        };
        let (mut through, mut sent) = (vec![false; directions.len()], vec![0; directions.len()]);
        for _ in 0..TRIES {
            // A missing port is not a fault of the device. The first trial fails too, and its error is reported.
            let Ok(report) = self.run(trial) else { return Ok(()) };
            for (at, direction) in report.directions.iter().enumerate() {
                through[at] |= direction.arrived.frames > 0;
                sent[at] += direction.sent;
            }
            if through.iter().all(|through| *through) {
                if let Some(neighbours) = &self.neighbours {
                    neighbours.probed();
                }
                return Ok(());
            }
        }
        let heard = self.neighbours.as_ref().map(Neighbours::heard).unwrap_or_default();
        let blocked = through.iter().position(|through| !through).unwrap_or(0);
        // Not a single frame left, so the sender is the cause; a trial reports that.
        if sent[blocked] == 0 {
            return Ok(());
        }
        let mac_given = matches!(&self.place, Place::Ports { device_mac: Some(_), .. });
        Err(DeviceError::NothingThrough { why: why(&directions[blocked], blocked, mac_given, &heard) })
    }
}

/// Describes the three likely causes, with the evidence for or against each. `from` is the index of the sending port (0
/// or 1).
fn why(direction: &Direction, from: usize, mac_given: bool, heard: &[Heard]) -> String {
    let (tx, rx) = (&direction.from.interface, &direction.to.interface);
    let (source, destination) = (direction.profile.source, direction.profile.destination);
    let to = 1 - from;
    let mac: Vec<String> = direction.profile.destination_mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let mac = mac.join(":");
    let mut said: Vec<String> = Vec::new();
    let (mut resolved, mut other) = (false, None);
    for one in heard {
        match one {
            Heard::WhoHas { port, whom, by, answered } if *port == to => {
                resolved |= *answered && *whom == destination;
                other = other.or((!answered).then_some((*whom, *by)));
            }
            Heard::WhoHas { .. } => {}
            Heard::Unreachable { port, by, why } => {
                said.push(format!("{by} answered at {}: {why}", if *port == from { tx } else { rx }));
            }
        }
    }
    let neighbour = match (resolved, other) {
        (true, _) => format!("resolved: the device asked at {rx} who-has {destination} and was answered"),
        (false, Some((whom, by))) => format!(
            "{by} asked at {rx} who-has {whom}, which is no address of this test and got no answer: its route to {destination} leads elsewhere"
        ),
        (false, None) => format!(
            "nobody asked at {rx} who-has {destination}: the packet did not get so far, or the device has a wrong static entry"
        ),
    };
    let prefix = |address: IpAddr| match address {
        IpAddr::V4(address) => format!("{}.{}.0.0/16", address.octets()[0], address.octets()[1]),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    };
    let family = if destination.is_ipv4() { "net.ipv4.ip_forward" } else { "net.ipv6.conf.all.forwarding" };
    let own = if mac_given {
        format!("hardware address {mac} (--device-mac)")
    } else {
        format!(
            "hardware address {mac}, {rx}'s own, as for a bridge or a cable; a router drops those: give --device-mac MAC of its port at {}",
            shell(tx)
        )
    };
    let said = if said.is_empty() { String::new() } else { format!("\nThe device said: {}", said.join("; ")) };
    format!(
        "no frame came through from {tx} to {rx}: {TRIES} single frames from {source} to {destination} were sent to {own}{said}\n\
         1. neighbour: {neighbour}\n\
         2. route: on the device `ip route get {destination}` must name its port at {rx}; it needs routes to {} and {}\n\
         3. forwarding off, or a firewall: on the device `sysctl {family}` must be 1, `nft list ruleset` must let UDP pass; `netcliff drops` \
         there names the reason",
        prefix(source),
        prefix(destination)
    )
}

#[cfg(test)]
mod tests {
    use crate::tester::Profile;
    use crate::tester::Sweep;
    use crate::tester::run::Port;

    use super::*;

    /// Each cause is named with its evidence.
    #[test]
    fn the_causes_are_named_with_what_was_heard() {
        let port = |name: &str| Port { netns: None, interface: name.to_owned() };
        let profile = Profile {
            source_mac: [2; 6],
            destination_mac: [2, 0, 0, 0, 10, 1],
            vlan: None,
            source: [198, 18, 0, 2].into(),
            destination: [198, 19, 0, 2].into(),
            ports: (1, 1),
            sweep: Sweep::default(),
            sizes: vec![64],
            replay: None,
        };
        let direction = Direction { from: port("ta"), to: port("tb"), profile };
        let (router, ours) = (IpAddr::from([198, 19, 0, 1]), direction.profile.destination);
        let silent = why(&direction, 0, true, &[]);
        for needed in [
            "from ta to tb",
            "nobody asked at tb who-has 198.19.0.2",
            "198.19.0.0/16",
            "ip_forward",
            "02:00:00:00:0a:01",
        ] {
            assert!(silent.contains(needed), "{needed}: {silent}");
        }
        assert!(!silent.contains("give --device-mac"), "{silent}");
        let asked = |whom, answered| Heard::WhoHas { port: 1, whom, by: router, answered };
        assert!(why(&direction, 0, true, &[asked(ours, true)]).contains("resolved: the device asked at tb"));
        let elsewhere = why(&direction, 0, false, &[asked([198, 19, 0, 77].into(), false)]);
        assert!(elsewhere.contains("who-has 198.19.0.77") && elsewhere.contains("give --device-mac"), "{elsewhere}");
        let unreachable = Heard::Unreachable { port: 0, by: router, why: "network unreachable: no route" };
        assert!(why(&direction, 0, true, &[unreachable]).contains("198.19.0.1 answered at ta: network unreachable"));
    }
}
