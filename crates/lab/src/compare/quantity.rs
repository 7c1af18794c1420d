//! The figures that are compared.

use netcliff_core::Dimension;
use netcliff_core::experiment::TransferMeasure;
use serde::Serialize;

/// Whether higher or lower values of a figure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Higher values are better.
    More,
    /// Lower values are better.
    Less,
}

/// Class of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Performance: rates, latencies and burst lengths. Only figures of this class count for `--fail-if-slower`.
    Speed,
    /// Cost: CPU use, and CPU time per unit of work.
    Cost,
}

/// A figure: its name in JSON, its dimension, its class, and whether higher or lower values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantity {
    /// Name of the figure, which states the unit of its values.
    #[serde(rename = "figure")]
    pub name: &'static str,
    /// Dimension of the values, such as seconds or packets per second.
    #[serde(skip)]
    pub dimension: Dimension,
    /// Whether higher or lower values are better.
    pub better: Better,
    /// Class of the figure.
    pub class: Class,
}

pub(super) const fn speed(name: &'static str, dimension: Dimension, better: Better) -> Quantity {
    Quantity { name, dimension, better, class: Class::Speed }
}

pub(super) const fn cost(name: &'static str, dimension: Dimension) -> Quantity {
    Quantity { name, dimension, better: Better::Less, class: Class::Cost }
}

/// The quantity that an experiment of transfers draws. `None` if the figures of every transfer include it anyway.
pub(super) fn drawn(y: TransferMeasure) -> Option<Quantity> {
    match y {
        TransferMeasure::Goodput
        | TransferMeasure::SenderUsPerKib
        | TransferMeasure::ReceiverUsPerKib
        | TransferMeasure::SystemUsPerKib => None,
        TransferMeasure::LinkShare | TransferMeasure::Wire | TransferMeasure::DeliveredWire => {
            Some(speed(y.name(), y.dimension(), Better::More))
        }
        _ => Some(cost(y.name(), y.dimension())),
    }
}

/// Payload (bit/s).
pub const GOODPUT: Quantity = speed("goodput_bps", Dimension::Bps, Better::More);
/// Rate on the wire of the data sent (bit/s).
pub const WIRE: Quantity = speed("wire_bps", Dimension::Bps, Better::More);
/// Rate on the wire of the datagrams delivered (bit/s).
pub const DELIVERED_WIRE: Quantity = speed("delivered_wire_bps", Dimension::Bps, Better::More);
/// CPU time of the whole host per KiB (us).
pub const SYSTEM_US_PER_KIB: Quantity = cost("system_us_per_kib", Dimension::Number);
/// CPU time of the sending threads per KiB (us).
pub const SENDER_US_PER_KIB: Quantity = cost("sender_us_per_kib", Dimension::Number);
/// CPU time of the receiving threads per KiB (us).
pub const RECEIVER_US_PER_KIB: Quantity = cost("receiver_us_per_kib", Dimension::Number);
/// Transactions per second.
pub const RATE: Quantity = speed("rate_per_s", Dimension::PerSecond, Better::More);
/// Median latency (s).
pub const LATENCY_P50: Quantity = speed("latency_p50_s", Dimension::Seconds, Better::Less);
/// 99th percentile of latency (s).
pub const LATENCY_P99: Quantity = speed("latency_p99_s", Dimension::Seconds, Better::Less);
/// Mean latency (s).
pub const LATENCY_MEAN: Quantity = speed("latency_mean_s", Dimension::Seconds, Better::Less);
/// CPU time of the client's threads per transaction (us).
pub const CLIENT_US: Quantity = cost("client_us_per_transaction", Dimension::Number);
/// CPU time of the server's threads per transaction (us).
pub const SERVER_US: Quantity = cost("server_us_per_transaction", Dimension::Number);
/// CPU time of the near end's host per transaction (us).
pub const HOST_US: Quantity = cost("host_us_per_transaction", Dimension::Number);
/// Highest load with loss at or below the target (pps).
pub const CLIFF: Quantity = speed("cliff_pps", Dimension::Pps, Better::More);
/// Highest load at which a service meets its limits of loss and response time (requests/s).
pub const CLIFF_RPS: Quantity = speed("cliff_rps", Dimension::PerSecond, Better::More);
/// CPU time per packet (s).
pub const PER_PACKET: Quantity = cost("per_packet_s", Dimension::Seconds);
/// Share of the CPU time of packets.
pub const SHARE: Quantity = cost("share", Dimension::Share);
/// CPU time of a service's host per request (us).
pub const REQUEST_US: Quantity = cost("request_us", Dimension::Number);
/// Highest delivered load (pps).
pub const PEAK: Quantity = speed("peak_pps", Dimension::Pps, Better::More);
/// Ratio of the load delivered at twice the cliff to the peak.
pub const LIVELOCK: Quantity = speed("livelock", Dimension::Share, Better::More);
/// Packets delivered (pps).
pub const THROUGHPUT: Quantity = speed("throughput_pps", Dimension::Pps, Better::More);
/// Latency of a tagged frame by the kernel's time stamps (s).
pub const LATENCY_TAGGED_KERNEL: Quantity = speed("latency_tagged_kernel_s", Dimension::Seconds, Better::Less);
/// Latency of a tagged frame by the ports' time stamps (s).
pub const LATENCY_TAGGED_HARDWARE: Quantity = speed("latency_tagged_hardware_s", Dimension::Seconds, Better::Less);
/// Latency of a tagged frame by the application's clock (s), as in RFC 2544.
pub const LATENCY_TAGGED: Quantity = speed("latency_tagged_s", Dimension::Seconds, Better::Less);
/// 99.9th percentile of latency (s).
pub const LATENCY_P999: Quantity = speed("latency_p999_s", Dimension::Seconds, Better::Less);
/// Longest burst that is forwarded whole (frames).
pub const BURST: Quantity = speed("burst_frames", Dimension::Number, Better::More);
