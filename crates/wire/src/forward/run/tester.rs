//! What sends, takes in and stamps.

use netcliff_host::nic::ethtool::{self, TimeStamps};
use serde::{Deserialize, Serialize};

use super::super::port::{ReceiveBy, Receiving, SendBy, Sending};

/// How frames are to be handed over and taken in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct By {
    /// The sender.
    pub send: SendBy,
    /// The receiver.
    pub receive: ReceiveBy,
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
    /// Who could put times on the frames of each port, the sink's first.
    pub stamps: Vec<PortStamps>,
}

/// Who could put times on a port's frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStamps {
    /// The port.
    pub interface: String,
    /// What it offers; None: the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<TimeStamps>,
}

impl PortStamps {
    /// Asks for an interface in the calling thread's network namespace.
    pub(super) fn of(interface: &str) -> Self {
        Self { interface: interface.to_owned(), offered: ethtool::time_stamps(interface).ok() }
    }
}
