//! Effects of the offloads, in one table.

use netcliff_core::Offload;

/// The longest frame with MTU 9000 (bytes with header and FCS).
pub const JUMBO_FRAME_BYTES: f64 = 9018.0;
/// The longest frame with MTU 1500.
const LONGEST_BYTES: f64 = 1518.0;
/// Largest segment that the stack handles (bytes; GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h).
const SEGMENT_BYTES: f64 = 65_536.0;

/// How one offload changes the cost of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The offload.
    pub offload: Offload,
    /// Checksum passes of the CPU over every byte, in copies: software reads each byte once, half the work of a copy.
    /// `None` if the offload does not change them.
    pub checksum_passes: Option<f64>,
    /// Copy passes of the CPU over every byte, one per copy. `None` if the offload does not change them.
    pub copy_passes: Option<f64>,
    /// Share of the per-packet cost that remains for each frame (driver and merging) if the rest is paid once per
    /// segment of 64 KiB. An assumption, until a calibration replaces it. `None` if the offload does not change it.
    pub frame_share: Option<f64>,
    /// New length of the longest frames (bytes); `None` if the offload does not change it.
    pub longest_bytes: Option<f64>,
    /// Description of the effect, for the table.
    pub says: &'static str,
}

const NOTHING: Effect = Effect {
    offload: Offload::Checksum,
    checksum_passes: None,
    copy_passes: None,
    frame_share: None,
    longest_bytes: None,
    says: "",
};

/// Effect of each offload. Without offloads each byte is copied once and checksummed in software, and every frame is a
/// packet.
pub const EFFECTS: [Effect; 5] = [
    Effect {
        offload: Offload::Checksum,
        checksum_passes: Some(0.0),
        says: "the NIC sums: 0 instead of 0.5 passes over every byte, one memory crossing less",
        ..NOTHING
    },
    Effect {
        offload: Offload::Tso,
        frame_share: Some(0.1),
        says: "sender: the stack is paid once per 64 KiB, the descriptor (10 % of a packet) once per frame",
        ..NOTHING
    },
    Effect {
        offload: Offload::Gro,
        frame_share: Some(0.25),
        says: "receiver: the stack is paid once per 64 KiB, driver and merging (25 % of a packet) once per frame",
        ..NOTHING
    },
    Effect {
        offload: Offload::Jumbo,
        longest_bytes: Some(JUMBO_FRAME_BYTES),
        says: "frames of 1518 bytes and more become frames of 9018",
        ..NOTHING
    },
    Effect {
        offload: Offload::ZeroCopy,
        copy_passes: Some(0.0),
        says: "no copy: 0 instead of 1 pass over every byte, two memory crossings a copy less",
        ..NOTHING
    },
];

/// Work that one frame causes under a set of offloads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Frame with FCS (bytes).
    pub frame_bytes: f64,
    /// Number of full per-packet costs per frame.
    pub packets_per_frame: f64,
    checksum_passes: f64,
    copy_passes: f64,
}

impl Load {
    /// Computes the work of a frame of this length (bytes).
    pub fn new(frame_bytes: f64, offloads: &[Offload]) -> Self {
        let effects = || EFFECTS.iter().filter(|effect| offloads.contains(&effect.offload));
        let lowest =
            |pick: fn(&Effect) -> Option<f64>, without: f64| effects().filter_map(pick).fold(without, f64::min);
        let longest = effects().filter_map(|effect| effect.longest_bytes).fold(0.0, f64::max);
        let frame_bytes = if frame_bytes >= LONGEST_BYTES { frame_bytes.max(longest) } else { frame_bytes };
        let frame_share = lowest(|effect| effect.frame_share, 1.0);
        Self {
            frame_bytes,
            packets_per_frame: frame_share + (1.0 - frame_share) / frames_per_segment(frame_bytes),
            checksum_passes: lowest(|effect| effect.checksum_passes, 0.5),
            copy_passes: lowest(|effect| effect.copy_passes, 1.0),
        }
    }

    /// Maximum number of frames that the stack handles as one segment.
    pub fn frames_per_segment(&self) -> f64 {
        frames_per_segment(self.frame_bytes)
    }

    /// CPU passes over each byte, as a multiple of the host's per-byte cost. That cost means one copy with checksums by
    /// the NIC, as calibration finds on today's hosts.
    pub fn passes(&self) -> f64 {
        self.copy_passes + self.checksum_passes
    }

    /// Number of times a byte crosses memory: written by the NIC, read and written by each copy, read by a checksum,
    /// and read by the application.
    pub fn crossings(&self, copies: u32) -> f64 {
        let copied = if self.copy_passes > 0.0 { 2.0 * f64::from(copies) } else { 0.0 };
        2.0 + copied + if self.checksum_passes > 0.0 { 1.0 } else { 0.0 }
    }
}

fn frames_per_segment(frame_bytes: f64) -> f64 {
    (SEGMENT_BYTES / frame_bytes).floor().max(1.0)
}
