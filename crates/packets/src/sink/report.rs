//! What a sink measured.

use serde::Serialize;

use super::Reader;
use crate::generator::Window;
use crate::latency::Latency;
use crate::thread::CpuUse;

/// Results of a sink. "In the window" refers to the *intended* send time, so that these counts refer to the same
/// packets as [`crate::generator::SenderReport::window_offered`].
#[derive(Debug, Clone, Serialize)]
pub struct SinkReport {
    /// The measured window, by the first generator's clock. `None` if no window was set; then no packet counts as in
    /// the window.
    pub window: Option<Window>,
    /// Time at which each generator's first packet was read [ns of `CLOCK_MONOTONIC`].
    pub firsts_ns: Vec<Option<u64>>,
    /// Packets in the window read at least once.
    pub window_delivered: u64,
    /// Packets in the window read at least once, by slots of [`crate::generator::SLOT_NS`] of their intended send time.
    pub slots: Vec<u64>,
    /// All packets of the run read at least once, warm-up and drain included.
    pub delivered: u64,
    /// Copies of packets that were already read.
    pub duplicates: u64,
    /// Packets (counted in `delivered`) that came after one with a higher sequence number.
    pub reordered: u64,
    /// Packets so late that they may be duplicates. They count neither in `delivered` nor in `duplicates`.
    pub too_old: u64,
    /// Packets that belong to other runs.
    pub foreign: u64,
    /// Highest sequence number read.
    pub highest_sequence: Option<u64>,
    /// Packets that the socket dropped over the whole run because its buffer was full. `None` if the kernel does not
    /// report them.
    pub socket_drops: Option<u64>,
    /// Socket drops between the first packet read of the window and the first packet after it.
    pub window_socket_drops: Option<u64>,
    /// Intended send time to application read, in the window.
    pub end_to_end: Latency,
    /// Kernel receive timestamp to application read, in the window; empty without timestamps.
    pub kernel_to_read: Latency,
    /// Intended send time to kernel receive timestamp, in the window; empty without timestamps.
    pub send_to_kernel: Latency,
    /// Smallest difference between the intended send time and the kernel's receive timestamp (without timestamps: the
    /// read) \[ns\]. On one host it is the shortest latency of a packet. On two hosts it also includes the difference
    /// between their clocks: how far this host's clock is ahead of the sender's.
    pub clock_ahead_ns: Option<i64>,
    /// Whether the kernel stamps before the RPS backlog. `None` if not known.
    pub stamped_before_backlog: Option<bool>,
    /// CPU time of the sink's thread from the first packet read of the window to the first packet after it, or to the
    /// end. Its voluntary switches are the number of reads that blocked, i.e. of wake-ups. `None` if no packet of the
    /// window came.
    pub cpu: Option<CpuUse>,
    /// Time of the first read in the window [ns of `CLOCK_MONOTONIC`].
    pub first_read_ns: Option<u64>,
    /// Time of the last read in the window [ns of `CLOCK_MONOTONIC`].
    pub last_read_ns: Option<u64>,
    /// Time that the application's work on one packet took without interruption \[s\]. `None` if not known.
    pub undisturbed_work_s: Option<f64>,
    /// Number of read calls that returned packets, over the whole run.
    pub reads: u64,
    /// Number of answers sent, over the whole run.
    pub answers: u64,
    /// How packets were read.
    pub reader: Reader,
    /// The receive buffer in effect, as the kernel counts it \[bytes\].
    pub receive_buffer_bytes: Option<u64>,
}

impl SinkReport {
    /// Adds the report of a sink of the same run that read other flows.
    pub fn add(&mut self, other: &Self) {
        self.window = self.window.or(other.window);
        for (own, theirs) in self.firsts_ns.iter_mut().zip(&other.firsts_ns) {
            *own = earlier(*own, *theirs);
        }
        self.window_delivered += other.window_delivered;
        self.slots.resize(self.slots.len().max(other.slots.len()), 0);
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, theirs)| *own += theirs);
        self.delivered += other.delivered;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.too_old += other.too_old;
        self.foreign += other.foreign;
        self.highest_sequence = self.highest_sequence.max(other.highest_sequence);
        let both = |own: Option<u64>, theirs: Option<u64>| Some(own? + theirs?);
        self.socket_drops = both(self.socket_drops, other.socket_drops);
        self.window_socket_drops = both(self.window_socket_drops, other.window_socket_drops);
        self.end_to_end.merge(&other.end_to_end);
        self.kernel_to_read.merge(&other.kernel_to_read);
        self.send_to_kernel.merge(&other.send_to_kernel);
        self.clock_ahead_ns = match (self.clock_ahead_ns, other.clock_ahead_ns) {
            (Some(own), Some(theirs)) => Some(own.min(theirs)),
            (own, theirs) => own.or(theirs),
        };
        self.cpu = match (self.cpu, other.cpu) {
            (Some(own), Some(theirs)) => Some(own.beside(&theirs)),
            (own, theirs) => own.or(theirs),
        };
        self.first_read_ns = earlier(self.first_read_ns, other.first_read_ns);
        self.last_read_ns = self.last_read_ns.max(other.last_read_ns);
        self.reads += other.reads;
        self.answers += other.answers;
    }

    /// Number of reads in the window that blocked, so that the thread had to be woken.
    pub fn wakeups(&self) -> Option<u64> {
        self.cpu.map(|cpu| cpu.voluntary_switches)
    }

    /// Number of the window's packets that were not read, of `offered` packets sent.
    pub fn window_lost(&self, offered: u64) -> u64 {
        offered.saturating_sub(self.window_delivered)
    }
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}
