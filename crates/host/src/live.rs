//! A tester that consists of two eBPF programs (bpf/live.bpf.c). One makes the frames of a trial, which the kernel
//! redirects to a port (BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18). The other counts and drops the
//! frames where they arrive.
//!
//! A trial is one system call. Before the first and after the last frame the kernel changes its dispatcher of XDP
//! programs and waits for grace periods of RCU (5 to 30 ms). [`Stopper`] ends a trial early.
//!
//! Frames leave in batches. A batch leaves when its last frame is due, so that no frame is early; its first frame is
//! late by the length of the batch. The port counts the frames that left and the frames that the far end's ring refused
//! ([`PortCounts`]).

#[cfg_attr(have_bpf, path = "live/kernel.rs")]
#[cfg_attr(not(have_bpf), path = "live/absent.rs")]
mod programs;

use std::io;

pub use programs::{Live, Stopper};

use crate::rtnl::Rtnl;

/// Most frames of a trial: an eBPF map has a bit for each, set when the frame has arrived.
pub const MOST_FRAMES: u64 = 1 << 27;
/// Longest frame without FCS (bytes). The frame, its headroom and the kernel's own data fit one page.
pub const LONGEST: usize = 3_300;
/// Largest total size of a stream's headers (bytes): Ethernet, a tag, IPv4, UDP.
pub const PREFIX_BYTES: usize = 48;

/// The frames that the programs make and count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// A frame without FCS. The program overwrites its headers and its label (the trial's tag, the stream, the sequence
    /// number, the time and a checksum, bpf/live.bpf.c).
    pub template: Vec<u8>,
    /// Bytes before the label, including a VLAN tag.
    pub prefix_bytes: usize,
    /// Bytes of the VLAN tag; 0 without a tag.
    pub tag_bytes: usize,
    /// Headers of each stream, `prefix_bytes` each. Frames belong to the streams in turn.
    pub prefixes: Vec<Vec<u8>>,
}

/// A trial to be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Marks the trial's frames.
    pub tag: u16,
    /// Number of frames.
    pub frames: u64,
    /// Time between two frames \[ns\].
    pub gap_ns: f64,
    /// Frames that leave together.
    pub batch: u32,
    /// Time after which no further batch begins \[ns\]. It counts from the program's first run, when the first frame is
    /// due.
    pub most_ns: u64,
    /// Index of the port that sends, in the network namespace of the thread that sends.
    pub port: u32,
    /// Whether the counting program measures the latency of each frame, which costs one reading of the clock per frame.
    pub measures: bool,
    /// Number of the frame whose latency is recorded; `None` if no latency of a single frame is recorded.
    pub tagged: Option<u64>,
}

/// Progress of a trial, and how its batches left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames handed to the port.
    pub frames: u64,
    /// Whether the trial ended before all frames had left: after [`Trial::most_ns`], or by a [`Stopper`].
    pub over: bool,
    /// Times at which the first and the last batch left [ns of `CLOCK_MONOTONIC`]; 0: no batch left.
    pub span_ns: [u64; 2],
    /// Number of batches by their delay after the time at which their last frame was due: (ns, number).
    pub beyond: Vec<(u64, u64)>,
    /// Number of batches by the absolute difference between the time since the previous batch and [`Trial::gap_ns`]:
    /// (ns, number). It is the error of one frame's gap, that of a batch's first frame to the last frame of the previous
    /// batch; the other frames of a batch leave without a gap.
    pub apart: Vec<(u64, u64)>,
}

/// Counts of the counting program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Different frames of the trial, intact.
    pub frames: u64,
    /// Frames that had arrived before.
    pub duplicates: u64,
    /// Frames that arrived after a later one of their stream.
    pub reordered: u64,
    /// Frames of the trial that were modified on the path.
    pub corrupt: u64,
    /// Frames without the trial's tag, which the program passes on to the kernel. Frames too short for a label are
    /// passed on without being counted.
    pub foreign: u64,
    /// Number of frames by latency: (ns, number). Empty unless the latency is measured.
    pub latency: Vec<(u64, u64)>,
    /// Latency of the tagged frame \[ns\]; `None` if it did not arrive or no frame was tagged.
    pub tagged_ns: Option<u64>,
}

/// Counters of a port since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that left. A veth counts them when the far end takes them out of its ring.
    pub left: u64,
    /// Frames that were refused.
    pub refused: u64,
}

impl PortCounts {
    /// Reads the counters of an interface in the thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel does not report them.
    pub fn of(interface: &str) -> io::Result<Self> {
        let stats = Rtnl::new().link(interface)?.stats;
        let stats = stats.ok_or_else(|| io::Error::other(format!("the kernel reports no counters of {interface}")))?;
        Ok(Self { left: stats.tx_packets, refused: stats.tx_dropped })
    }

    /// Returns the increase since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { left: self.left.saturating_sub(before.left), refused: self.refused.saturating_sub(before.refused) }
    }
}

/// Middle of a cell of the programs' histograms \[ns\]: eight cells per power of two.
#[cfg_attr(not(have_bpf), allow(dead_code, reason = "the tables are the programs'"))]
fn middle_ns(cell: usize) -> u64 {
    if cell < 16 {
        return cell as u64;
    }
    let shift = cell / 8 - 1;
    let low = (8 + cell as u64 % 8) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The function `cell` of bpf/live.bpf.c, translated to Rust.
    fn cell(ns: u64) -> usize {
        if ns < 16 {
            return ns as usize;
        }
        let power = ns.ilog2();
        ((power - 2) * 8) as usize + (ns >> (power - 3) & 7) as usize
    }

    #[test]
    fn a_cell_stands_for_what_is_counted_in_it() {
        for ns in (0..200).chain([999, 20_000, 1_000_000, 123_456_789, 60_000_000_000]) {
            let middle = middle_ns(cell(ns));
            assert!(middle.abs_diff(ns) * 15 <= ns, "{ns}: {middle}");
            assert_eq!(cell(middle), cell(ns), "{ns}");
        }
    }
}
