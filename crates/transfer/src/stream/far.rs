//! Where the far end of a stream is, and what this end requests from it.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::bulk::{self, Agent, Channel, Settings, Transfer};
use netcliff_host::nic::path::is_own;
use netcliff_host::{fingerprint, inventory::Inventory};
use netcliff_packets::WireError;
use netcliff_remote::control::client::Session;
use netcliff_remote::ground::FarGround;

use crate::hosts::Fingerprints;
use netcliff_trial::stand::{Place, both};

/// Where the far end is.
#[derive(Debug)]
pub enum Far<'a> {
    /// In this process.
    Here,
    /// In an agent, which applies the placement of the template's far end, except for its namespace.
    Agent {
        /// The session with the agent.
        session: &'a mut Session,
        /// Address that the data go to.
        address: IpAddr,
    },
    /// In several agents, which start together.
    Agents(&'a mut [Agent]),
}

impl Far<'_> {
    /// Whether one kernel measures the CPU time of both ends.
    pub(super) fn is_this_host(&self) -> bool {
        match self {
            Self::Here => true,
            Self::Agent { session, .. } => session.shares_clock(),
            Self::Agents(agents) => agents.iter().all(|agent| agent.session.shares_clock()),
        }
    }

    /// Facts of the hosts that explain differences to another run.
    pub(super) fn fingerprints(&mut self) -> Fingerprints {
        match self {
            Self::Here => Fingerprints::here(fingerprint::of_host(&Inventory::of_this_host(), &[])),
            Self::Agent { session, address } => Fingerprints::with_agent(session, *address),
            Self::Agents(agents) => Fingerprints::with_agents(agents),
        }
    }

    /// The parts of this host's network that a transfer depends on.
    pub(super) fn places(&self, settings: &Settings) -> Vec<Place> {
        let address = match (&settings.channel, self) {
            (Channel::Unix | Channel::Pipe, _) => return Vec::new(),
            (_, Self::Agent { address, .. }) => *address,
            (_, Self::Agents(agents)) => {
                let place = |agent: &Agent| {
                    let netns = settings.near.netns.clone();
                    netns.map_or_else(|| Place::towards(agent.address), Place::whole)
                };
                return agents.iter().map(place).collect();
            }
            (Channel::Tcp { address, .. } | Channel::Udp { address, .. }, Self::Here) => *address,
        };
        let of = |netns: &Option<PathBuf>| netns.clone().map_or_else(|| Place::towards(address), Place::whole);
        match self {
            Self::Here => vec![of(&settings.near.netns), of(&settings.far.netns)],
            Self::Agent { .. } | Self::Agents(_) => vec![of(&settings.near.netns)],
        }
    }

    /// Starts to watch the far end's host for changes. `None` if it is this host, and with several agents.
    pub(super) fn watch(&mut self) -> Option<FarGround> {
        match self {
            Self::Here | Self::Agents(_) => None,
            Self::Agent { session, address } => Some(FarGround::on(session, *address)),
        }
    }

    /// Describes what changed on this host (`here`) and at the far end since the watch began. `None` if nothing
    /// changed.
    pub(super) fn changed(&mut self, there: Option<&FarGround>, here: Option<String>) -> Option<String> {
        let far = match (self, there) {
            (Self::Agent { session, .. }, Some(watched)) => watched.changed(session, here.as_deref()),
            _ => None,
        };
        both(here, far)
    }

    /// Whether the far end counts at its own devices. Those are not read from here.
    pub(super) fn counts_devices(&self) -> bool {
        matches!(self, Self::Agent { address, .. } if !is_own(*address))
    }

    pub(super) fn transfer(&mut self, settings: &Settings, watch: &mut dyn bulk::Watch) -> Result<Transfer, WireError> {
        match self {
            Self::Here => bulk::run(settings, watch),
            Self::Agent { session, address } => bulk::run_with(settings, session, *address, watch),
            Self::Agents(agents) => bulk::run_many(settings, agents, watch),
        }
    }
}
