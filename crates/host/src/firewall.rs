//! Which rule of this host's packet filter drops a flow that comes in, as far as the ruleset tells.
//!
//! The ruleset is what `nft -j list ruleset` prints (libnftables-json(5)). Rules of iptables-nft are among it, those of iptables-legacy are
//! not. A condition that is not understood may hold.

mod rules;

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// A UDP flow that comes in.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    /// The interface that it comes in by.
    pub interface: &'a str,
    /// Where it comes from.
    pub source: Option<Ipv4Addr>,
    /// Where it goes.
    pub destination: Ipv4Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// What drops the flow in the calling thread's network namespace, such as `nft: table inet filter, chain input drops udp dport 9000`; None:
/// nothing that nft lists.
///
/// # Errors
/// The ruleset cannot be read; why, as a phrase.
pub fn dropped_by(flow: &Flow<'_>) -> Result<Option<String>, String> {
    let listed = Command::new("nft").args(["-j", "list", "ruleset"]).stdin(Stdio::null()).output();
    let listed = listed.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the program nft is not installed".to_owned(),
        _ => format!("nft cannot be run: {error}"),
    })?;
    if !listed.status.success() {
        let told = String::from_utf8_lossy(&listed.stderr);
        return Err(format!("nft says {}", told.lines().next().unwrap_or("nothing")));
    }
    let ruleset = serde_json::from_slice(&listed.stdout).map_err(|error| format!("nft's JSON: {error}"))?;
    Ok(rules::dropping(&ruleset, flow))
}
