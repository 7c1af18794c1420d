//! The fallback where namespaces are forbidden: sender and receiver on 127.0.0.1.

use crate::inventory::Limitation;
use std::net::Ipv4Addr;

/// Sender and receiver in one network stack. Nothing is changed on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loopback;

impl Loopback {
    /// Where the sender sends from.
    pub const SENDER: Ipv4Addr = Ipv4Addr::LOCALHOST;
    /// Where the receiver listens.
    pub const HOST_UNDER_TEST: Ipv4Addr = Ipv4Addr::LOCALHOST;

    /// How this testbed limits results.
    pub fn limits(&self) -> Vec<Limitation> {
        vec![Limitation::Loopback]
    }
}
