//! [`Capture`]: packets recorded on a link, with their times, lengths and flows.

#[cfg(feature = "pcap")]
mod opening;
#[cfg(feature = "pcap")]
pub mod reading;
#[cfg(feature = "pcap")]
mod streams;

use std::net::SocketAddr;

#[cfg(feature = "pcap")]
pub use streams::{CapturedStream, CapturedStreams};

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// Time since the previous packet (ns). The first packet has the mean of all other gaps, so that the capture can be
    /// replayed in a loop.
    pub gap_ns: u64,
    /// Frame, FCS included (bytes).
    pub bytes: u32,
    /// Index of the packet's flow in [`Capture::flows`]. None: no IP address, or too many flows in the file.
    pub flow: Option<u32>,
}

/// Packets of one source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFlow {
    /// Source address and port; port 0 if the protocol has no ports.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Packets.
    pub packets: u64,
}

/// A recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capture {
    /// Name of the file or stream it was read from.
    pub file: String,
    /// The packets by rising time: at least two, not all at the same time.
    pub packets: Vec<Captured>,
    /// The flows, most packets first. Packets without an IP address belong to none.
    pub flows: Vec<CapturedFlow>,
    /// SHA-256 of the file, in hexadecimal digits; None if it was not read from one.
    pub sha256: Option<String>,
    /// Packets and parts of the file that were left out or changed when it was read, one sentence each.
    pub notes: Vec<String>,
}

/// MTU that is assumed if the name of a capture gives none (bytes).
pub const USUAL_MTU: u32 = 1500;

/// Splits an MTU (bytes) from the end of a capture's name, as in `cap.pcap,mtu=9000`; returns the name without it, and
/// the MTU or [`USUAL_MTU`]. `None` if the MTU is not a number from 256 to 65535.
pub fn named(name: &str) -> Option<(&str, u32)> {
    match name.rsplit_once(",mtu=") {
        None => Some((name, USUAL_MTU)),
        Some((file, mtu)) => Some((file, mtu.parse().ok().filter(|mtu| (256..=65_535).contains(mtu))?)),
    }
}

/// True if the name has the ending of a capture (`.pcap`, `.pcapng`, `.cap`, `.dmp`, `.ntar`), with or without the
/// ending of a compressed file and an MTU.
pub fn is_name(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let file = text.rsplit_once(",mtu=").map_or(text.as_str(), |(file, _)| file);
    let file = [".gz", ".zst"].iter().find_map(|packed| file.strip_suffix(packed)).unwrap_or(file);
    [".pcap", ".pcapng", ".cap", ".dmp", ".ntar"].iter().any(|end| file.ends_with(end))
}

impl Capture {
    /// Mean packet rate of the recording (pps).
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
