//! What each offload changes, in one table.

use netcliff_core::Offload;

/// The longest frame with MTU 9000 (bytes with header and FCS).
pub const JUMBO_FRAME_BYTES: f64 = 9018.0;
/// The longest frame with MTU 1500.
const LONGEST_BYTES: f64 = 1518.0;
/// Most bytes that the stack handles as one segment (GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h).
const SEGMENT_BYTES: f64 = 65_536.0;

/// How one offload changes the cost of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The offload.
    pub offload: Offload,
    /// Passes of the CPU over every byte for checksums: software reads each byte once, half of a copy's work.
    pub checksum_passes: Option<f64>,
    /// Passes for copies: one copy is one pass.
    pub copy_passes: Option<f64>,
    /// Share of the per-packet cost that every frame still costs when the rest is paid once a segment of 64 KiB: driver
    /// and merging. An assumption; calibrate to replace it.
    pub frame_share: Option<f64>,
    /// Frames of the longest length become this long (bytes).
    pub longest_bytes: Option<f64>,
    /// In words, for the table.
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

/// The cost modifiers. Without any: one copy and a software checksum, every frame a packet of its own.
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

/// A frame's work with a set of offloads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Frame with FCS (bytes).
    pub frame_bytes: f64,
    /// Full per-packet costs a frame pays.
    pub packets_per_frame: f64,
    checksum_passes: f64,
    copy_passes: f64,
}

impl Load {
    /// The work of a frame of this length.
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

    /// Frames that the stack handles as one segment at the most.
    pub fn frames_per_segment(&self) -> f64 {
        frames_per_segment(self.frame_bytes)
    }

    /// Passes of the CPU over a byte, as a multiple of a host's per-byte cost, which is one copy with the NIC summing
    /// (what calibration on today's hosts finds).
    pub fn passes(&self) -> f64 {
        self.copy_passes + self.checksum_passes
    }

    /// Times a byte crosses memory: written by the NIC, read and written by each copy, read by a checksum, read by the
    /// application.
    pub fn crossings(&self, copies: u32) -> f64 {
        let copied = if self.copy_passes > 0.0 { 2.0 * f64::from(copies) } else { 0.0 };
        2.0 + copied + if self.checksum_passes > 0.0 { 1.0 } else { 0.0 }
    }
}

fn frames_per_segment(frame_bytes: f64) -> f64 {
    (SEGMENT_BYTES / frame_bytes).floor().max(1.0)
}
