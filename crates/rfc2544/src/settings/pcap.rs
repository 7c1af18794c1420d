//! A capture as the traffic of `rfc2544`.

use std::sync::Arc;

use netcliff_core::Capture;
use netcliff_packets::replay::{Replay, replayable};
use serde::{Deserialize, Serialize};

use super::FrameSize;

/// A capture whose times, sizes and flows are sent instead of frames of one size at a constant rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pcap {
    /// Name of the file.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal digits; absent if the capture was not read from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Number of packets in the capture.
    pub packets: u64,
    /// Packet rate of the recording (pps).
    pub recorded_pps: f64,
    /// Number of source ports with which the flows of the capture are sent.
    pub source_ports: u32,
    /// How the capture is sent, in one sentence.
    pub sent: String,
    /// The frames to send. `None` in a stored report, which does not contain them.
    #[serde(skip)]
    pub replay: Option<Arc<Replay>>,
}

impl Pcap {
    /// Converts a capture. Frames shorter than `least_bytes` (FCS included), the length of the headers and netcliff's
    /// label, are lengthened to it.
    pub fn of(mut capture: Capture, least_bytes: u32) -> Self {
        let short = capture.packets.iter().filter(|packet| packet.bytes < least_bytes).count();
        capture.packets.iter_mut().for_each(|packet| packet.bytes = packet.bytes.max(least_bytes));
        let (capture, mut sent) = replayable(capture);
        if short > 0 {
            sent += &format!(", {short} frames lengthened to {least_bytes} bytes, which what names each frame needs");
        }
        let replay = Replay::of(&capture);
        Self {
            packets: capture.packets.len() as u64,
            recorded_pps: capture.rate_pps(),
            source_ports: replay.flows(),
            sent,
            replay: Some(Arc::new(replay)),
            file: capture.file,
            sha256: capture.sha256,
        }
    }

    /// The frames of a test with this capture. `None` for a stored report, which does not contain them.
    pub fn frames(&self) -> Option<FrameSize> {
        let replay = self.replay.as_ref()?;
        let (mean_bytes, longest_bytes) = (replay.mean_bytes() as u32, replay.longest_bytes() as u32);
        Some(FrameSize::Capture { mean_bytes, longest_bytes })
    }
}
