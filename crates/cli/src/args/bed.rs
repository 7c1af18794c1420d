//! Testbeds by name, and the interfaces of one in namespaces.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use netcliff_core::Choice;
use netcliff_host::device::MTU_BYTES;
use netcliff_host::testbed::netns;
use netcliff_host::testbed::vm::Model;
use netcliff_transfer::guest::GuestLink;
use netcliff_trial::rig::{LinkOptions, Place};

use super::numbers::whole;
use crate::output;

/// Names of the testbeds in a guest, one for each NIC of [`Model::ALL`].
const GUESTS: [&str; 5] = ["vm:e1000", "vm:e1000e", "vm:igb", "vm:virtio-net", "vm:vmxnet3"];

/// Where the traffic goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Testbed {
    /// Both ends on this host
    Here(Place),
    /// To a guest with this NIC
    Vm(Model),
}

impl Testbed {
    /// Reads `best`, `netns`, `loopback` or `vm:DRIVER`.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        let here = Place::CHOICES.iter().map(|(_, name, _)| PossibleValue::new(*name));
        let guests = GUESTS.map(PossibleValue::new);
        PossibleValuesParser::new(here.chain(guests)).try_map(|name| {
            let model = name.strip_prefix("vm:").map(|model| model.parse().map(Self::Vm));
            // The parser above accepts only these names.
            model.unwrap_or_else(|| Ok(Self::Here(Place::named(&name).unwrap_or_default())))
        })
    }

    /// The NIC of the guest. `None` if the testbed is not a guest.
    pub fn model(self) -> Option<Model> {
        match self {
            Self::Vm(model) => Some(model),
            Self::Here(_) => None,
        }
    }

    /// The place on this host. `None` if the testbed is a guest.
    pub fn here(self) -> Option<Place> {
        match self {
            Self::Here(place) => Some(place),
            Self::Vm(_) => None,
        }
    }
}

/// How the veth pair between the namespaces is set.
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// Transmit offloads of both ends (checksum, scatter/gather, TSO, GSO) [default: as the kernel makes them, on]
    #[arg(long, value_enum, help_heading = "Testbed link", hide_short_help = true)]
    pub offloads: Option<Switch>,
    /// MTU of both ends, 68 to 65535 bytes [default: of stream 1500, Ethernet's, on which goodput depends; of rr 9000,
    /// so that most messages are one packet]
    #[arg(long, value_name = "BYTES", value_parser = whole::<68, 65_535>, allow_negative_numbers = true, help_heading = "Testbed link", hide_short_help = true)]
    pub mtu: Option<u32>,
    /// How the receiving end's veth receives
    #[arg(long, value_enum, default_value_t = Reception::Backlog, help_heading = "Testbed link", hide_short_help = true)]
    pub reception: Reception,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Ways of reception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reception {
    /// Without GRO, steered to the receiver's CPU by RPS
    Backlog,
    /// GRO and veth's NAPI, in the softirq of the CPU that sends; TCP segmentation of the sender's veth is off
    Napi,
    /// GRO and a NAPI thread on the receiver's CPU; TCP segmentation of the sender's veth is off
    ThreadedNapi,
}

impl LinkArgs {
    /// The options in the form that the link of a guest needs.
    pub fn of_guest(&self) -> GuestLink {
        GuestLink { mtu_bytes: self.mtu, offloads: self.offloads.map(|switch| switch == Switch::On) }
    }

    /// Refuses options that the link of a guest does not have.
    pub fn refuse_of_guest(&self, ipv6: bool) -> anyhow::Result<()> {
        if self.reception != Reception::Backlog {
            return Err(output::usage(
                "--reception is for the veth of a testbed: a guest's driver receives by NAPI; leave it out, or give --testbed netns",
            ));
        }
        if ipv6 {
            return Err(output::usage("--ipv6: a guest has IPv4 only; leave it out, or give --testbed netns"));
        }
        match self.mtu.filter(|mtu| !MTU_BYTES.contains(mtu)) {
            Some(mtu) => {
                let (least, most) = (MTU_BYTES.start(), MTU_BYTES.end());
                Err(output::usage(format!("--mtu {mtu} with --testbed vm: expected {least} to {most} bytes")))
            }
            None => Ok(()),
        }
    }

    /// Refuses options of a link if there is no link (`has_none`), because they would be ignored.
    pub fn refuse_without(&self, has_none: bool) -> anyhow::Result<()> {
        let given = [
            ("--offloads", self.offloads.is_some()),
            ("--mtu", self.mtu.is_some()),
            ("--reception", self.reception != Reception::Backlog),
        ];
        match given.into_iter().find(|(_, given)| *given && has_none) {
            None => Ok(()),
            Some((option, _)) => {
                let remedy = "TCP or UDP with --testbed netns has one";
                Err(output::usage(format!(
                    "{option} is for the link of a testbed, and this run has no such link: {remedy}"
                )))
            }
        }
    }

    /// Refuses an MTU at which the kernel removes IPv6 from the device: below 1280 bytes.
    pub fn refuse_with_ipv6(&self) -> anyhow::Result<()> {
        match self.mtu.filter(|mtu| *mtu < netns::IPV6_MIN_MTU) {
            Some(mtu) => {
                let least = netns::IPV6_MIN_MTU;
                Err(output::usage(format!("--mtu {mtu} with --ipv6: expected {least} to 65535 bytes")))
            }
            None => Ok(()),
        }
    }

    /// The options in the form that the testbed needs. `mtu_bytes` is the MTU if the user gave none.
    pub fn options(&self, mtu_bytes: Option<u32>, ipv6: bool) -> LinkOptions {
        LinkOptions {
            ipv6,
            mtu_bytes: self.mtu.or(mtu_bytes),
            offloads: self.offloads.map(|switch| switch == Switch::On),
            reception: match self.reception {
                Reception::Backlog => netns::Reception::Backlog,
                Reception::Napi => netns::Reception::Napi,
                Reception::ThreadedNapi => netns::Reception::ThreadedNapi,
            },
            steer_sender: self.reception == Reception::Backlog,
            without_rps: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nic_of_a_guest_is_offered() {
        assert_eq!(GUESTS.map(str::to_owned), Model::ALL.map(|model| format!("vm:{model}")));
    }
}
