//! A block size of a stream, and each group of its figures.

use serde::{Deserialize, Serialize};

use super::{ManyRow, ProbeRow, Spread, TcpRow, UdpRow};
use crate::cpus::{CpuRow, ExactRow};
use crate::ledger::TrialLedger;
use crate::repeats::Known;

/// One block size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamRow {
    /// How blocks were sent.
    pub path: String,
    /// Bytes of a write or datagram.
    pub block_bytes: u64,
    /// Repeats that were measured to their end.
    pub repeats: u32,
    /// Each repeat by itself, in the order they were made: what a comparison with another run tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<StreamSample>,
    /// How well the mean of goodput is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Why repeats are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// Payload by the method's clock (bit/s): median, or the mean where the method says so.
    pub goodput_bps: Option<Spread>,
    /// Payload by the sender's clock: what the kernel accepted (bit/s).
    pub sender_bps: Option<Spread>,
    /// Payload by the receiver's clock: what the application read (bit/s).
    pub receiver_bps: Option<Spread>,
    /// The arithmetic mean of goodput (bit/s), for methods that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bps: Option<f64>,
    /// What limited the rate, as a noun; absent where nothing that is looked at was at its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Send calls a second.
    pub sends_per_s: Option<Spread>,
    /// Mean bytes a receive call returned.
    pub bytes_per_receive: Option<Spread>,
    /// The sending threads.
    pub sender_cpu: EndCpu,
    /// The receiving threads.
    pub receiver_cpu: EndCpu,
    /// Each CPU of the host, by the kernel's ticks.
    pub system: Vec<CpuRow>,
    /// CPU time of the whole host a KiB received (us), by ticks: idle, iowait and steal left out.
    pub system_us_per_kib: Option<Spread>,
    /// Each CPU of the far end's host, by its kernel's ticks; absent where it is this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_system: Vec<CpuRow>,
    /// CPU time of the far end's host a KiB received (us), likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_us_per_kib: Option<Spread>,
    /// Each CPU, exactly; absent where eBPF is not available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact: Vec<ExactRow>,
    /// Each CPU of the far end's host, exactly; absent where it is this host, or eBPF is not available there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub far_exact: Vec<ExactRow>,
    /// What the kernel's TCP says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpRow>,
    /// What datagrams are on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpRow>,
    /// Counts at the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceRow>,
    /// UDP's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramRow>,
    /// Completions of MSG_ZEROCOPY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<ZeroCopyRow>,
    /// What TCP_ZEROCOPY_RECEIVE did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<MappedRow>,
    /// How well paced senders of datagrams kept to their rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingRow>,
    /// Threads that followed their flow's packets, of the last repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<FollowedRow>,
    /// Each of several agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many: Option<ManyRow>,
    /// Where every datagram of one transfer more went; absent: not measured, or none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// Latency of requests beside it, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeRow>,
}

/// One repeat's figures; absent what could not be measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StreamSample {
    /// Payload by the method's clock (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// CPU time of the sending threads over wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cpu: Option<f64>,
    /// CPU time of the receiving threads over wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_cpu: Option<f64>,
    /// CPU time of the sending threads a KiB (us).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_us_per_kib: Option<f64>,
    /// CPU time of the receiving threads a KiB (us).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_us_per_kib: Option<f64>,
    /// [`kernel_share`](super::kernel_share) of the sending threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_kernel_share: Option<f64>,
    /// [`kernel_share`](super::kernel_share) of the receiving threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_kernel_share: Option<f64>,
    /// CPUs of the host that were busy, by ticks, added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_cpus: Option<f64>,
    /// CPU time of the whole host a KiB received (us), by ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_us_per_kib: Option<f64>,
    /// Segments that TCP retransmitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Payload of a segment (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_segment: Option<f64>,
    /// Rate on the wire of what was sent, as [`TcpRow::wire_bps`] and [`UdpRow::wire_bps`] have it (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire_bps: Option<f64>,
    /// Rate on the wire of the datagrams that were delivered (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_wire_bps: Option<f64>,
}

/// A thread that was placed by where the kernel handles its flow's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FollowedRow {
    /// Its flow, from 1.
    pub flow: usize,
    /// `sender` or `receiver`.
    pub end: String,
    /// The CPU that handled the flow's packets (SO_INCOMING_CPU).
    pub incoming_cpu: usize,
    /// The NAPI of its receive queue, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The thread's CPU.
    pub cpu: usize,
}

/// One end's threads, by getrusage: without softirqs that ran for them elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndCpu {
    /// CPU time over wall time, all threads together.
    pub busy: Option<Spread>,
    /// CPU time a KiB (us).
    pub us_per_kib: Option<Spread>,
    /// [`kernel_share`](super::kernel_share).
    pub kernel_share: Option<f64>,
    /// CPU cycles a byte, by the CPU's own counters of these threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_byte: Option<Spread>,
    /// Instructions a byte, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_byte: Option<Spread>,
}

/// Counts of both sides' devices, a far end's own by itself, and of this host's CPUs. A device counts what the stack hands it:
/// with TSO or GSO one packet may become many frames.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceRow {
    /// Packets sent (1/s).
    pub packets_per_s: Option<Spread>,
    /// Mean bytes of one.
    pub bytes_per_packet: Option<Spread>,
    /// Packets received at the receiving side's devices (1/s); over loopback acknowledgements too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_per_s: Option<Spread>,
    /// Mean bytes of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_received: Option<Spread>,
    /// Mean bytes of a packet that the receiving side's IP was handed: after GRO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_ip_packet: Option<Spread>,
    /// NET_RX softirqs of all CPUs (1/s).
    pub softirqs_per_s: Option<Spread>,
    /// Device interrupts of all CPUs (1/s).
    pub interrupts_per_s: Option<Spread>,
    /// Packets received for each NET_RX softirq of all CPUs of the receiving side's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_softirq: Option<Spread>,
    /// Packets received for each interrupt of the receiving side's devices; absent over loopback and veth, which have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_interrupt: Option<Spread>,
    /// Packets the receiving side's devices dropped, in all repeats.
    pub dropped: u64,
}

/// Datagrams of all repeats and flows, warm-up included, as the receiver saw them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatagramRow {
    /// Sent.
    pub sent: u64,
    /// Received, each once.
    pub received: u64,
    /// Sent and not received.
    pub lost: u64,
    /// Received again.
    pub duplicates: u64,
    /// Received after one that was sent later.
    pub reordered: u64,
    /// Of those lost, refused by the sending host's queue or device (ENOBUFS).
    pub refused: u64,
    /// Of those lost, refused since the sender's socket was full when they were due.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub buffer_full: u64,
    /// Of those lost, refused by the sending host as longer than the path takes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_long: u64,
    /// Of those lost, refused by the sending host for want of a route or a neighbour.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub no_route: u64,
    /// Of those lost, refused by a firewall or a policy of the sending host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// ICMP messages that said that port or host was unreachable.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable: u64,
    /// Of those lost, what arrived and found no room in the receiver's socket; absent where its kernel does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

impl DatagramRow {
    /// Where the lost ones were lost: place and number, those without a known place last; places without a loss are left out.
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
        known.into_iter().chain([("on the way", rest)]).filter(|(_, count)| *count > 0).collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// MSG_ZEROCOPY in all repeats and flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZeroCopyRow {
    /// Calls that asked for it.
    pub asked: u64,
    /// Calls that were completed.
    pub completed: u64,
    /// Of these, calls the kernel turned back into copies.
    pub copied: u64,
}

/// TCP_ZEROCOPY_RECEIVE in all repeats and flows, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappedRow {
    /// Bytes whose pages were mapped.
    pub mapped_bytes: u64,
    /// Bytes that were copied after all, because they did not fill pages of their own.
    pub copied_bytes: u64,
}

/// Pacing by the senders themselves: a value a repeat and flow, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacingRow {
    /// Payload of each flow asked for (bit/s).
    pub asked_bps: f64,
    /// Rate over the one asked for, less 1.
    pub rate_error: Option<Spread>,
    /// Mean time a send left after it was due (s).
    pub late_mean_s: Option<Spread>,
    /// The longest (s).
    pub late_max_s: Option<Spread>,
    /// Time given up because it could only have been made up for by a burst, in all (s).
    pub given_up_s: f64,
}
