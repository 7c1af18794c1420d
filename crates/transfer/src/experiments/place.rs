//! Where an experiment's transfers run: in a testbed of this host, or to an agent.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bulk::{Channel, Direction, Settings};
use netcliff_core::experiment::{Key, Lack, Setting};
use netcliff_core::stream::StreamReport;
use netcliff_host::testbed::netns::{Side, Testbed};
use netcliff_packets::WireError;
use netcliff_remote::control::client::Session;

use crate::guest::GuestHost;
use crate::hosts::Fingerprints;
use crate::stream::{self, Far, StreamOptions};
use netcliff_trial::rig::Rig;

/// Where the two ends are.
#[derive(Debug)]
pub enum Place<'a> {
    /// Both ends on this host, each on its own CPU. In namespaces, the link's settings can be varied.
    Testbed(&'a Rig),
    /// The near end in this process, the far end in an agent.
    Agent {
        /// The session with the agent.
        session: &'a mut Session,
        /// Address that the data go to.
        address: IpAddr,
        /// This host's device, if its settings and those of the agent's device are to be varied.
        device: Option<String>,
        /// The guest in which the agent runs, if it is a guest of this host.
        guest: Option<GuestHost<'a>>,
        /// Flag that ends the run early; the results so far are returned.
        stop: Arc<AtomicBool>,
    },
}

impl<'a> Place<'a> {
    /// The testbed's namespaces, whose link can be set. `None` on loopback and with an agent.
    pub(super) fn testbed(&self) -> Option<&'a Testbed> {
        match self {
            Self::Testbed(rig) => rig.testbed(),
            Self::Agent { .. } => None,
        }
    }

    /// The rig. `None` if the far end is in an agent.
    pub(super) fn rig(&self) -> Option<&'a Rig> {
        match self {
            Self::Testbed(rig) => Some(rig),
            Self::Agent { .. } => None,
        }
    }

    /// Why the settings of a device cannot be varied here, for places without a testbed.
    pub(super) fn unchanged(&self) -> &'static str {
        match self {
            Self::Testbed(_) => "the loopback device is not changed: it is the whole host's",
            Self::Agent { .. } => {
                "it needs the testbed netns (without --to and --ssh), or --devices IF here and an agent with --allow-settings"
            }
        }
    }

    pub(super) fn stop(&self) -> &Arc<AtomicBool> {
        match self {
            Self::Testbed(rig) => &rig.stop,
            Self::Agent { stop, .. } => stop,
        }
    }

    pub(super) fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Testbed(rig) => ("testbed", rig.describe()),
            Self::Agent { session, address, guest: Some(guest), .. } => {
                let version = &session.hello.version;
                let host = guest.vm.describe();
                let devices = "settings of its device changed, MTU and rate of its wire, too";
                ("far end", format!("{host}, data to {address} (netcliff {version}); {devices}"))
            }
            Self::Agent { session, address, device, .. } => {
                let host = if session.shares_clock() { "on this host" } else { "on another host" };
                let version = &session.hello.version;
                let devices = match device {
                    None => "devices as they are".to_owned(),
                    Some(near) => format!("settings of {near} here and of the agent's device changed, then set back"),
                };
                ("far end", format!("an agent {host}, data to {address} (netcliff {version}); {devices}"))
            }
        }
    }

    pub(super) fn is_netns(&self) -> bool {
        self.testbed().is_some()
    }

    /// Whether the agent is gone. Always false without an agent.
    pub(super) fn far_is_gone(&self) -> bool {
        match self {
            Self::Testbed(_) => false,
            Self::Agent { session, .. } => session.gone().load(Ordering::Relaxed),
        }
    }

    /// What limits all results. Called before the run, which loads the host itself.
    pub(super) fn limits(&self) -> Vec<String> {
        match self {
            Self::Testbed(rig) => rig.limits.clone(),
            Self::Agent { guest, .. } => {
                let of_guest = guest.iter().flat_map(|guest| guest.limits).cloned();
                of_guest.chain(stream::limits_of_this_host()).collect()
            }
        }
    }

    /// Facts of the hosts that explain differences to another run. Called before the run changes anything.
    pub(super) fn fingerprints(&mut self) -> Fingerprints {
        match self {
            Self::Testbed(rig) => Fingerprints::of_rig(rig),
            Self::Agent { session, address, .. } => Fingerprints::with_agent(session, *address),
        }
    }

    /// Why a setting of the transfer is not available between these ends. `None` if it is available.
    pub(super) fn refuses(&self, setting: &Setting) -> Option<Lack> {
        let Setting::Ipv6(ipv6) = setting else { return None };
        match self {
            Self::Testbed(rig) if rig.ends(*ipv6).is_some() => None,
            Self::Testbed(_) => Some(Lack::Other("ip 6: the testbed was made without IPv6".to_owned())),
            Self::Agent { address, .. } if address.is_ipv6() == *ipv6 => None,
            Self::Agent { .. } => {
                let why = "the address of the agent (--to) is of the other version, for the whole run";
                Some(Lack::Setting(Key::Ip, why.to_owned()))
            }
        }
    }

    /// A transfer with address and namespaces set. `ipv6` selects the testbed's address; an agent has its own.
    pub(super) fn template(&self, ipv6: bool) -> Settings {
        let address = match self {
            Self::Testbed(rig) => rig.ends(ipv6).map_or_else(|| rig.host_address(), |(_, host)| host),
            Self::Agent { address, .. } => *address,
        };
        let mut template = Settings::new(Channel::Tcp { address, multipath: false });
        match self {
            Self::Testbed(rig) => {
                (template.near.netns, template.far.netns) = (rig.netns(Side::Sender), rig.netns(Side::HostUnderTest));
            }
            Self::Agent { guest: Some(guest), .. } => {
                (template.near.netns, template.near.cpu) = (Some(guest.vm.netns()), guest.vm.near_cpu());
                // The only CPU of the guest.
                template.far.cpu = Some(0);
            }
            Self::Agent { .. } => {}
        }
        template
    }

    /// Describes the guest. `None` if the far host is not a guest.
    pub(super) fn guest(&self) -> Option<String> {
        match self {
            Self::Agent { guest, .. } => guest.map(|guest| guest.vm.describe()),
            Self::Testbed(_) => None,
        }
    }

    /// Pins the sending end to the rig's sender CPU and the receiving end to its host CPU, whichever of the two
    /// connects.
    pub(super) fn pin(&self, template: &mut Settings, direction: Option<Direction>) {
        let Self::Testbed(rig) = self else { return };
        let (sender, receiver) = (Some(rig.sender_cpu as usize), Some(rig.host_cpu as usize));
        let far_sends = direction == Some(Direction::Receive);
        (template.near.cpu, template.far.cpu) = if far_sends { (receiver, sender) } else { (sender, receiver) };
    }

    /// Runs a transfer.
    pub(super) fn transfer(&mut self, options: &StreamOptions) -> Result<StreamReport, WireError> {
        match self {
            Self::Testbed(_) => stream::run_as_part(options, &mut Far::Here),
            Self::Agent { session, address, .. } => {
                stream::run_as_part(options, &mut Far::Agent { session, address: *address })
            }
        }
    }
}
