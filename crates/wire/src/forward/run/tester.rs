//! How frames are sent, received and stamped.

use netcliff_host::nic::ethtool::{self, TimeStamps};
use serde::{Deserialize, Serialize};

use super::super::port::{ReceiveBy, Receiving, SendBy, Sending};
use super::super::stamps::Stamps;
use crate::error::WireError;

/// Requested ways to send, receive and stamp frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct By {
    /// The sender.
    pub send: SendBy,
    /// The receiver.
    pub receive: ReceiveBy,
    /// Whose clock tagged frames are stamped by.
    pub stamps: Stamps,
}

impl By {
    /// An XDP program takes frames before the kernel or a packet socket sees their stamps.
    pub(super) fn checked(self) -> Result<Self, WireError> {
        match (self.stamps, self.receive) {
            (Stamps::Application, _) => Ok(self),
            (_, ReceiveBy::Auto | ReceiveBy::Packet) => Ok(Self { receive: ReceiveBy::Packet, ..self }),
            (stamps, _) => {
                let accepted =
                    format!("packet or auto with --stamps {stamps}: what AF_XDP takes in has no such stamps");
                Err(WireError::setting("--receive-by", "AF_XDP", accepted))
            }
        }
    }
}

/// How frames are sent, taken in and stamped. Of the first direction; the others are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Tester {
    /// What sends.
    pub sending: Sending,
    /// Why that is not AF_XDP although it was to be tried.
    pub not_sent_by_xdp: Option<String>,
    /// What takes in.
    pub receiving: Receiving,
    /// Why that is not AF_XDP although it was to be tried.
    pub not_received_by_xdp: Option<String>,
    /// Whose clock tagged frames are stamped by.
    pub stamps: Stamps,
    /// The stamps that each port offers, the sink's first.
    pub ports: Vec<PortStamps>,
}

/// Who could put times on a port's frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStamps {
    /// The port.
    pub interface: String,
    /// What it offers; None: the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<TimeStamps>,
}

impl PortStamps {
    /// The stamps that an interface in the calling thread's network namespace offers.
    pub fn of(interface: &str) -> Self {
        Self { interface: interface.to_owned(), offered: ethtool::time_stamps(interface).ok() }
    }
}
