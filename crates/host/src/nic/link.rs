//! Speed and duplex of a device's link: supported and offered modes, and setting them.

use super::{
    Nic,
    numbered::{LINKMODES_SET, Numbered},
};
use crate::rtnl::explained;
use crate::system::NetlinkSocket;
use netlink_bindings::ethtool::Request;
use serde::{Deserialize, Serialize};
use std::{fmt, io, str::FromStr};

/// DUPLEX_HALF and DUPLEX_FULL, linux/ethtool.h.
const DUPLEX: [&str; 2] = ["half", "full"];

/// A speed with a duplex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkMode {
    /// Speed (Mbit/s).
    pub speed_mbps: u32,
    /// Whether the link is half duplex.
    pub half_duplex: bool,
}

impl LinkMode {
    /// Parses the kernel's name of a mode, such as `100baseT/Half`; `None` for a name without speed (`Autoneg`, `TP`,
    /// `Pause`).
    pub fn of(name: &str) -> Option<Self> {
        let (speed, rest) = name.split_once("base")?;
        let half_duplex = match rest.rsplit_once('/')?.1 {
            "Half" => true,
            "Full" => false,
            _ => return None,
        };
        Some(Self { speed_mbps: speed.parse().ok()?, half_duplex })
    }
}

impl fmt::Display for LinkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s {} duplex", self.speed_mbps, DUPLEX[usize::from(!self.half_duplex)])
    }
}

/// How speed and duplex of a link are determined. As text: `auto` followed by the kernel's names of the offered modes,
/// or `100 half`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSetting {
    /// Negotiated with the far end, from the offered modes: the kernel's names, including those of ports and pause.
    Negotiated(Vec<String>),
    /// Set by hand.
    Forced(LinkMode),
}

impl LinkSetting {
    /// Returns a setting that offers only the link modes with this speed and duplex, and every offered name that is not
    /// a speed (ports, pause).
    pub fn offering_only(mode: LinkMode, supported: &[String], offered: &[String]) -> Self {
        let others = offered.iter().filter(|name| LinkMode::of(name).is_none());
        let this = supported.iter().filter(|name| LinkMode::of(name) == Some(mode));
        Self::Negotiated(others.chain(this).cloned().collect())
    }
}

impl fmt::Display for LinkSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negotiated(offers) => write!(f, "auto {}", offers.join(",")),
            Self::Forced(mode) => write!(f, "{} {}", mode.speed_mbps, DUPLEX[usize::from(!mode.half_duplex)]),
        }
    }
}

impl FromStr for LinkSetting {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let bad = || {
            let reason =
                format!("link {text:?}: expected auto with link modes, or a speed and half or full: \"100 half\"");
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        };
        let (first, second) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if first == "auto" {
            let offers = second.split(',').filter(|name| !name.is_empty());
            return Ok(Self::Negotiated(offers.map(str::to_owned).collect()));
        }
        let half_duplex = match DUPLEX.iter().position(|name| *name == second) {
            Some(duplex) => duplex == 0,
            None => return Err(bad()),
        };
        Ok(Self::Forced(LinkMode { speed_mbps: first.parse().map_err(|_| bad())?, half_duplex }))
    }
}

impl Nic {
    /// Speed and duplex in use; `None` while the link is down.
    pub fn link_mode(&self) -> Option<LinkMode> {
        let half_duplex = self.duplex.as_deref()? == DUPLEX[0];
        Some(LinkMode { speed_mbps: self.speed_mbps?, half_duplex })
    }

    /// How speed and duplex are determined; `None` if the driver does not report it, or the link is set by hand and
    /// down.
    pub fn link_setting(&self) -> Option<LinkSetting> {
        if self.autoneg? {
            return Some(LinkSetting::Negotiated(self.link_offered.clone()));
        }
        self.link_mode().map(LinkSetting::Forced)
    }
}

/// Sets speed and duplex of an interface's link in the thread's namespace, negotiated or by hand. The link goes down
/// for some seconds.
///
/// # Errors
/// The driver does not support setting it, or refuses this value.
pub fn set_link(interface: &str, setting: &LinkSetting) -> io::Result<()> {
    let mut request = Request::new().op_linkmodes_set_do();
    {
        let attributes = request.encode().nested_header().push_dev_name_bytes(interface.as_bytes()).end_nested();
        match setting {
            LinkSetting::Forced(mode) => {
                drop(attributes.push_autoneg(0).push_speed(mode.speed_mbps).push_duplex(u8::from(!mode.half_duplex)))
            }
            LinkSetting::Negotiated(offers) => {
                // Without a mask the list replaces all offered modes.
                let mut bits = attributes.push_autoneg(1).nested_ours().push_nomask(()).nested_bits();
                for name in offers {
                    bits = bits.nested_bit().push_name_bytes(name.as_bytes()).end_nested();
                }
            }
        }
    }
    let mut socket = NetlinkSocket::new();
    let request = Numbered::new(request, LINKMODES_SET);
    let mut replies = socket.request(&request)?;
    while let Some(reply) = replies.recv() {
        reply.map_err(explained)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(speed_mbps: u32, half_duplex: bool) -> LinkMode {
        LinkMode { speed_mbps, half_duplex }
    }

    #[test]
    fn names_of_modes() {
        assert_eq!(LinkMode::of("100baseT/Half"), Some(mode(100, true)));
        assert_eq!(LinkMode::of("25000baseCR/Full"), Some(mode(25_000, false)));
        for other in ["Autoneg", "TP", "Pause", "Backplane", "base", "xbaseT/Full", "10baseT"] {
            assert_eq!(LinkMode::of(other), None, "{other}");
        }
        assert_eq!(mode(10, true).to_string(), "10 Mbit/s half duplex");
    }

    #[test]
    fn settings_as_text() {
        let offers = ["Autoneg", "TP", "100baseT/Half", "100baseT/Full"].map(str::to_owned);
        for (setting, text) in [
            (LinkSetting::Negotiated(offers[..3].to_vec()), "auto Autoneg,TP,100baseT/Half"),
            (LinkSetting::Negotiated(Vec::new()), "auto "),
            (LinkSetting::Forced(mode(10, true)), "10 half"),
            (LinkSetting::Forced(mode(100, false)), "100 full"),
        ] {
            assert_eq!(setting.to_string(), text);
            assert_eq!(text.parse::<LinkSetting>().unwrap(), setting);
        }
        for bad in ["", "100", "fast half", "100 both", "-1 half"] {
            let error = bad.parse::<LinkSetting>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("100 half"), "{error}");
        }
        let only = LinkSetting::offering_only(mode(100, true), &offers, &offers);
        assert_eq!(only.to_string(), "auto Autoneg,TP,100baseT/Half");
    }
}
