//! Methods of sending, receiving and stamping frames.

use netcliff_host::nic::ethtool::{self, TimeStamps};
use serde::{Deserialize, Serialize};

use super::super::stamps::Stamps;
use netcliff_packets::error::WireError;
use netcliff_packets::port::{ReceiveBy, Receiving, SendBy, Sending};

/// The requested methods of sending, receiving and stamping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Methods {
    /// Method of sending.
    pub send: SendBy,
    /// Method of receiving.
    pub receive: ReceiveBy,
    /// Clock that stamps the tagged frames.
    pub stamps: Stamps,
}

impl Methods {
    /// Refuses timestamps with XDP: an XDP program takes frames before the kernel or a packet socket stamps them.
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

/// The methods of sending, receiving and stamping in use. They are those of the first direction; the others have the
/// same.
#[derive(Debug, Clone, PartialEq)]
pub struct Tester {
    /// Method of sending.
    pub sending: Sending,
    /// Why the sender does not use AF_XDP although that was tried. `None` otherwise.
    pub not_sent_by_xdp: Option<String>,
    /// Method of receiving.
    pub receiving: Receiving,
    /// Why the receiver does not use AF_XDP although that was tried. `None` otherwise.
    pub not_received_by_xdp: Option<String>,
    /// Why the programs for live frames are not in use although that was tried. `None` otherwise.
    pub not_live: Option<String>,
    /// Clock that stamps the tagged frames.
    pub stamps: Stamps,
    /// The timestamps that each port offers, the sink's port first.
    pub ports: Vec<PortStamps>,
}

/// The timestamps that a port offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStamps {
    /// Name of the interface.
    pub interface: String,
    /// The timestamps offered. `None` if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<TimeStamps>,
}

impl PortStamps {
    /// The stamps that an interface in the calling thread's network namespace offers.
    pub fn of(interface: &str) -> Self {
        Self { interface: interface.to_owned(), offered: ethtool::time_stamps(interface).ok() }
    }
}
