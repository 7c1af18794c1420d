//! The hosts of both ends of a measurement: facts that explain differences to another run.

use std::net::IpAddr;

use crate::bulk::Agent;
use netcliff_core::Fingerprint;
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::has_made_up_speed;
use netcliff_remote::control::client::Session;
use netcliff_remote::fingerprint::far_fingerprint;

use netcliff_trial::rig::Rig;

/// A thread or CPU is full, and limits the rate, if it is busy for more than this share of the time.
pub const BUSY: f64 = 0.97;
/// Largest share of steal time without a warning.
pub(crate) const STEAL: f64 = 0.01;

/// The fingerprints of both ends' hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprints {
    /// The near end's host.
    pub near: Fingerprint,
    /// Fingerprint of the far end's host. `None` if it is this host, or is not known.
    pub far: Option<Fingerprint>,
    /// Why the fingerprint of another far host is not known, as a sentence.
    pub not_had: Option<String>,
}

impl Fingerprints {
    /// Returns the fingerprints of two ends on one host, whose fingerprint is `near`.
    pub fn here(near: Fingerprint) -> Self {
        Self { near, ..Self::default() }
    }

    /// Fingerprint with both ends in a testbed. If the testbed's interfaces cannot be read, it has only the facts of
    /// the host.
    pub fn of_rig(rig: &Rig) -> Self {
        let host = Inventory::of_this_host();
        Self::here(rig.fingerprint(&host).unwrap_or_else(|_| fingerprint::of_host(&host, &[])))
    }

    /// Fingerprints with the far end in an agent whose data address is `address`. Each includes the device that the
    /// data pass.
    pub fn with_agent(session: &mut Session, address: IpAddr) -> Self {
        let near = fingerprint::towards(&Inventory::of_this_host(), address);
        if session.shares_clock() {
            return Self::here(near);
        }
        match far_fingerprint(session, address) {
            Ok(far) => Self { near, far: Some(far), not_had: None },
            Err(why) => {
                let not_had = format!("the fingerprint of the far end's host: not available: {why}");
                Self { near, far: None, not_had: Some(not_had) }
            }
        }
    }

    /// Fingerprint of this host, with the device towards the first of several agents. The agents' fingerprints are not
    /// stored.
    pub fn with_agents(agents: &[Agent]) -> Self {
        let inventory = Inventory::of_this_host();
        let near = match agents.first() {
            Some(agent) => fingerprint::towards(&inventory, agent.address),
            None => fingerprint::of_host(&inventory, &[]),
        };
        let elsewhere = agents.iter().any(|agent| !agent.session.shares_clock());
        let not_had = "the fingerprints of the agents' hosts: of several agents they are not kept".to_owned();
        Self { near, far: None, not_had: elsewhere.then_some(not_had) }
    }

    /// Rate of the near end's device (bit/s). `None` if it is not known or the device has no physical link.
    pub fn link_bps(&self) -> Option<f64> {
        if self.near.facts.get("nic.path.driver").is_some_and(|driver| has_made_up_speed(driver)) {
            return None;
        }
        let mbps: f64 = self.near.facts.get("nic.path.speed_mbps")?.parse().ok()?;
        Some(mbps * 1e6).filter(|bps| *bps > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Fingerprint {
        Fingerprint { facts: pairs.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect() }
    }

    #[test]
    fn the_links_rate_is_that_of_the_device_on_the_path() {
        let of = |pairs| Fingerprints::here(facts(pairs)).link_bps();
        assert_eq!(of(&[("nic.path.speed_mbps", "25000")]), Some(25e9));
        assert_eq!(of(&[("nic.eth0.speed_mbps", "25000")]), None);
        assert_eq!(of(&[("nic.path.speed_mbps", "0")]), None);
        for (driver, bps) in [("ixgbe", Some(1e10)), ("veth", None), ("virtio_net", None)] {
            let facts = facts(&[("nic.path.driver", driver), ("nic.path.speed_mbps", "10000")]);
            assert_eq!(Fingerprints::here(facts).link_bps(), bps, "{driver}");
        }
    }
}
