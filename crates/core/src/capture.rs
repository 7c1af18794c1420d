//! [`Capture`]: packets recorded on a link: when they came, how long they were, which flows they belonged to.

#[cfg(feature = "pcap")]
mod opening;
#[cfg(feature = "pcap")]
pub mod reading;

use std::net::SocketAddr;

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// Since the packet before it (ns); the first packet's is the mean of the others, so that a capture can be read around.
    pub gap_ns: u64,
    /// Frame, FCS included (bytes).
    pub bytes: u32,
    /// Its flow's place in [`Capture::flows`]; None without an IP address, or of a flow beyond those that are told apart.
    pub flow: Option<u32>,
}

/// Packets of one source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFlow {
    /// Source address and port; port 0 without ports.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Packets.
    pub packets: u64,
}

/// A recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capture {
    /// Where it was read from.
    pub file: String,
    /// The packets, in the order of their times; at least two, over more than no time.
    pub packets: Vec<Captured>,
    /// The flows, the heaviest first; packets without an IP address are in none.
    pub flows: Vec<CapturedFlow>,
    /// SHA-256 of the file, in hexadecimal digits; None if it was not read from one.
    pub sha256: Option<String>,
    /// What of the file was left out or counted otherwise, a sentence each.
    pub notes: Vec<String>,
}

/// The largest IP packet of a link where a capture's name gives none (bytes).
pub const USUAL_MTU: u32 = 1500;

/// The MTU (bytes) that a capture's name ends with, and the name before it: `cap.pcap,mtu=9000`; `None` for an MTU that cannot be.
pub fn named(name: &str) -> Option<(&str, u32)> {
    match name.rsplit_once(",mtu=") {
        None => Some((name, USUAL_MTU)),
        Some((file, mtu)) => Some((file, mtu.parse().ok().filter(|mtu| (256..=65_535).contains(mtu))?)),
    }
}

/// True for a text that names a capture by its ending: `.pcap`, `.pcapng`, `.cap`, packed or not, with an MTU or not.
pub fn is_name(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let file = text.rsplit_once(",mtu=").map_or(text.as_str(), |(file, _)| file);
    let file = [".gz", ".zst"].iter().find_map(|packed| file.strip_suffix(packed)).unwrap_or(file);
    [".pcap", ".pcapng", ".cap", ".dmp", ".ntar"].iter().any(|end| file.ends_with(end))
}

impl Capture {
    /// Packets a second as recorded.
    pub fn rate_pps(&self) -> f64 {
        let nanoseconds: u64 = self.packets.iter().map(|packet| packet.gap_ns).sum();
        self.packets.len() as f64 / (nanoseconds as f64 * 1e-9)
    }

    /// (bytes, packets) of each frame size that occurs, by size.
    pub fn sizes(&self) -> Vec<(u32, f64)> {
        let mut counts = std::collections::BTreeMap::new();
        self.packets.iter().for_each(|packet| *counts.entry(packet.bytes).or_insert(0.0) += 1.0);
        counts.into_iter().collect()
    }
}
