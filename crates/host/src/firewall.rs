//! Finds the rule of this host's packet filter that drops an incoming flow.
//!
//! The ruleset is the output of `nft -j list ruleset` (libnftables-json(5)). It contains the rules of iptables-nft, but
//! not the rules of iptables-legacy. A condition that this module does not understand is treated as possibly true.

mod rules;

use std::net::IpAddr;
use std::process::{Command, Stdio};

/// An incoming UDP flow.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    /// Interface by which the flow arrives.
    pub interface: &'a str,
    /// Source address; `None` if not known.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// The rule that drops the flow in the calling thread's network namespace, such as `nft: table inet filter, chain input
/// drops udp dport 9000`. `None` if no rule that nft lists drops it.
///
/// # Errors
/// The ruleset cannot be read; the error is the reason as a phrase.
pub fn dropped_by(flow: &Flow<'_>) -> Result<Option<String>, String> {
    let listed = Command::new("nft").args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output();
    let listed = listed.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the program nft is not installed".to_owned(),
        _ => format!("nft cannot be run: {error}"),
    })?;
    if !listed.status.success() {
        let message = String::from_utf8_lossy(&listed.stderr);
        return Err(format!("nft says {}", message.lines().next().unwrap_or("nothing")));
    }
    let ruleset = serde_json::from_slice(&listed.stdout).map_err(|error| format!("nft's JSON: {error}"))?;
    Ok(rules::dropping(&ruleset, flow))
}
