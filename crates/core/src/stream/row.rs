//! [`StreamRow`]: figures of a stream at one block size.

use serde::{Deserialize, Serialize};

use super::{ManyRow, ProbeRow, Spread, TcpRow, UdpRow};
use crate::cpus::{CpuRow, ExactRow};
use crate::ledger::TrialLedger;
use crate::repeats::Known;

/// First words of [`StreamRow::limited_by`] if other programs limited the rate.
pub const OTHER_PROGRAMS: &str = "other programs";

/// Figures at one block size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRow {
    /// How the sender wrote blocks.
    pub path: String,
    /// Bytes per write or datagram.
    pub block_bytes: u64,
    /// Number of repeats that were measured completely.
    pub repeats: u32,
    /// Figures of each repeat, in order; a comparison with another run tests these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<StreamSample>,
    /// Precision of the goodput's mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Why repeats are missing; absent: none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// Payload rate by the method's clock (bit/s): median, or mean for methods that report it.
    pub goodput_bps: Option<Spread>,
    /// Payload rate accepted by the sender's kernel, by the sender's clock (bit/s).
    pub sender_bps: Option<Spread>,
    /// Payload rate read by the receiving application, by the receiver's clock (bit/s).
    pub receiver_bps: Option<Spread>,
    /// Arithmetic mean of the goodput (bit/s), for methods that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bps: Option<f64>,
    /// The limit of the rate, as a noun; absent if no observed part was at its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Send calls per second.
    pub sends_per_s: Option<Spread>,
    /// Mean bytes per receive call.
    pub bytes_per_receive: Option<Spread>,
    /// CPU time of the sending threads.
    pub sender_cpu: EndCpu,
    /// CPU time of the receiving threads.
    pub receiver_cpu: EndCpu,
    /// Time of each CPU of the host, by the kernel's ticks.
    pub system: Vec<CpuRow>,
    /// CPU time of the whole host per KiB received (us), by the kernel's ticks, without idle, iowait and steal.
    pub system_us_per_kib: Option<Spread>,
    /// Time of each CPU of the far end's host, by its kernel's ticks; absent if it is this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_system: Vec<CpuRow>,
    /// CPU time of the whole far end's host per KiB received (us), by its kernel's ticks; absent if it is this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_us_per_kib: Option<Spread>,
    /// Exact time of each CPU, by eBPF; absent if eBPF is not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact: Vec<ExactRow>,
    /// Exact time of each CPU of the far end's host, by eBPF; absent if it is this host, or eBPF is not available
    /// there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_exact: Vec<ExactRow>,
    /// Figures that the kernel's TCP reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpRow>,
    /// Datagrams as frames on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpRow>,
    /// Packets and interrupts of the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceRow>,
    /// Counts of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramRow>,
    /// Completions of MSG_ZEROCOPY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<ZeroCopyRow>,
    /// Use of TCP_ZEROCOPY_RECEIVE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<MappedRow>,
    /// How precisely senders of datagrams kept their rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingRow>,
    /// Threads that were placed on the CPU of their flow's packets, in the last repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<FollowedRow>,
    /// Figures of each of several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many: Option<ManyRow>,
    /// Accounting of every datagram of one additional transfer; absent: not measured, or no datagrams were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// Latency of requests during the transfer; absent if they were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeRow>,
}

impl StreamRow {
    /// The limit of the rate, if other programs were the limit.
    pub fn limited_by_others(&self) -> Option<&str> {
        self.limited_by.as_deref().filter(|limit| limit.starts_with(OTHER_PROGRAMS))
    }
}

/// Figures of one repeat; those that could not be measured are absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StreamSample {
    /// Payload rate by the method's clock (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// CPU time of the sending threads divided by elapsed time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cpu: Option<f64>,
    /// CPU time of the receiving threads divided by elapsed time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_cpu: Option<f64>,
    /// CPU time of the sending threads per KiB (us).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_us_per_kib: Option<f64>,
    /// CPU time of the receiving threads per KiB (us).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_us_per_kib: Option<f64>,
    /// [`kernel_share`](super::kernel_share) of the sending threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_kernel_share: Option<f64>,
    /// [`kernel_share`](super::kernel_share) of the receiving threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_kernel_share: Option<f64>,
    /// Sum of the busy shares of the host's CPUs, by the kernel's ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_cpus: Option<f64>,
    /// CPU time of the whole host per KiB received (us), by the kernel's ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_us_per_kib: Option<f64>,
    /// Segments that TCP retransmitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Mean payload of a segment (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_segment: Option<f64>,
    /// Rate of the sent frames on the wire (bit/s), as in [`TcpRow::wire_bps`] and [`UdpRow::wire_bps`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_bps: Option<f64>,
    /// Rate of the delivered datagrams on the wire (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_wire_bps: Option<f64>,
}

/// A thread that was placed on the CPU where the kernel processes its flow's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FollowedRow {
    /// Number of its flow, from 1.
    pub flow: usize,
    /// `sender` or `receiver`.
    pub end: String,
    /// The CPU that processed the flow's packets (SO_INCOMING_CPU).
    pub incoming_cpu: usize,
    /// NAPI instance of its receive queue; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The CPU that the thread was placed on.
    pub cpu: usize,
}

/// CPU time of the threads at one end, by getrusage; softirqs that ran for them elsewhere do not count.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndCpu {
    /// CPU time divided by elapsed time, summed over the threads.
    pub busy: Option<Spread>,
    /// CPU time per KiB (us).
    pub us_per_kib: Option<Spread>,
    /// [`kernel_share`](super::kernel_share).
    pub kernel_share: Option<f64>,
    /// CPU cycles per byte, by the CPU's counters for these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_byte: Option<Spread>,
    /// Instructions per byte, by the CPU's counters for these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_byte: Option<Spread>,
}

/// Packets of the devices of both ends and interrupts of this host's CPUs; a far end on another host counts its own. A
/// device counts packets as the stack passes them to it: with TSO or GSO one packet may become many frames.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceRow {
    /// Packets sent per second.
    pub packets_per_s: Option<Spread>,
    /// Mean bytes per packet sent.
    pub bytes_per_packet: Option<Spread>,
    /// Packets received per second by the devices of the receiving end; over loopback this includes acknowledgements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<Spread>,
    /// Mean bytes per packet received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_received: Option<Spread>,
    /// Mean bytes per packet that the IP layer of the receiving end got, after GRO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_ip_packet: Option<Spread>,
    /// NET_RX softirqs per second, sum of all CPUs.
    pub softirqs_per_s: Option<Spread>,
    /// Device interrupts per second, sum of all CPUs.
    pub interrupts_per_s: Option<Spread>,
    /// Packets received per NET_RX softirq, over all CPUs of the receiving host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_softirq: Option<Spread>,
    /// Packets received per interrupt of the receiving end's devices; absent for loopback and veth, which have no
    /// interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_interrupt: Option<Spread>,
    /// Packets dropped by the devices of the receiving end, in all repeats.
    pub dropped: u64,
}

/// Counts of datagrams over all repeats and flows, warm-up included, by the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatagramRow {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, duplicates not counted.
    pub received: u64,
    /// Datagrams sent but not received.
    pub lost: u64,
    /// Duplicates received.
    pub duplicates: u64,
    /// Datagrams received after one that was sent later.
    pub reordered: u64,
    /// Lost datagrams that the sending host's queue or device refused (ENOBUFS).
    pub refused: u64,
    /// Lost datagrams that were not accepted because the sender's socket was full when they were due.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub buffer_full: u64,
    /// Lost datagrams that the sending host refused because they were too long for the path.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_long: u64,
    /// Lost datagrams that the sending host refused because it had no route or neighbour.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub no_route: u64,
    /// Lost datagrams that a firewall or policy of the sending host refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// ICMP messages that reported port or host as unreachable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable: u64,
    /// Lost datagrams that were dropped because the receiver's socket was full; absent if its kernel does not report
    /// this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

impl DatagramRow {
    /// (place, number) of lost datagrams, without places that lost none; those lost at an unknown place come last.
    pub fn places(&self) -> Vec<(&'static str, u64)> {
        let known = [
            ("refused by this end's queue or device", self.refused),
            ("refused by the sender's full socket buffer", self.buffer_full),
            ("longer than the path takes", self.too_long),
            ("without a route or neighbour", self.no_route),
            ("refused by the sender's firewall", self.denied),
            ("in the receiver's socket, which was full", self.dropped.unwrap_or(0)),
        ];
        let rest = self.lost.saturating_sub(known.iter().map(|(_, count)| count).sum());
        known.into_iter().chain([("in the network", rest)]).filter(|(_, count)| *count > 0).collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Use of MSG_ZEROCOPY over all repeats and flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZeroCopyRow {
    /// Send calls with the flag.
    pub asked: u64,
    /// Send calls that were completed.
    pub completed: u64,
    /// Completed calls for which the kernel copied the data after all.
    pub copied: u64,
}

/// Use of TCP_ZEROCOPY_RECEIVE over all repeats and flows, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappedRow {
    /// Bytes whose pages were mapped.
    pub mapped_bytes: u64,
    /// Bytes that were copied because they did not fill whole pages.
    pub copied_bytes: u64,
}

/// Precision of the senders' own pacing: one value per repeat and flow, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacingRow {
    /// Requested payload rate of each flow (bit/s).
    pub asked_bps: f64,
    /// Achieved rate divided by the requested one, minus 1.
    pub rate_error: Option<Spread>,
    /// Mean delay of a send after its due time (s).
    pub late_mean_s: Option<Spread>,
    /// Longest delay (s).
    pub late_max_s: Option<Spread>,
    /// Total of delays that were not caught up, because that would have taken a burst (s).
    pub given_up_s: f64,
}
