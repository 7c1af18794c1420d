//! Figures of a transfer's repeat that can be drawn.

use crate::error::ParseError;
use crate::outcome::Dimension;
use crate::stream::StreamSample;

/// A figure of a repeat, by its key in experiment files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferMeasure {
    /// Payload rate, by the method's own clock (bit/s).
    #[default]
    Goodput,
    /// Payload rate as a share of the highest that the link can carry.
    LinkShare,
    /// Rate of the sent frames on the wire (bit/s).
    Wire,
    /// Rate of the delivered datagrams on the wire (bit/s).
    DeliveredWire,
    /// Kernel-mode CPU time of the sender's threads, as a share of the elapsed time, by the formula of the 2003 study
    /// (docs/theory/README.md).
    SenderKernelShare,
    /// Kernel-mode CPU time of the receiver's threads, as a share of the elapsed time.
    ReceiverKernelShare,
    /// Number of busy CPUs of the host, on average.
    SystemCpus,
    /// CPU use of the sender's threads.
    SenderCpu,
    /// CPU use of the receiver's threads.
    ReceiverCpu,
    /// CPU time of the sender's threads per KiB (us).
    SenderUsPerKib,
    /// CPU time of the receiver's threads per KiB (us).
    ReceiverUsPerKib,
    /// CPU time of the whole host per KiB received (us).
    SystemUsPerKib,
}

impl TransferMeasure {
    /// All figures.
    pub const ALL: [Self; 12] = [
        Self::Goodput,
        Self::LinkShare,
        Self::Wire,
        Self::DeliveredWire,
        Self::SenderKernelShare,
        Self::ReceiverKernelShare,
        Self::SystemCpus,
        Self::SenderCpu,
        Self::ReceiverCpu,
        Self::SenderUsPerKib,
        Self::ReceiverUsPerKib,
        Self::SystemUsPerKib,
    ];

    /// The name in files and JSON, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_bps",
            Self::LinkShare => "link_share",
            Self::Wire => "wire_bps",
            Self::DeliveredWire => "delivered_wire_bps",
            Self::SenderKernelShare => "sender_kernel_share",
            Self::ReceiverKernelShare => "receiver_kernel_share",
            Self::SystemCpus => "system_cpus",
            Self::SenderCpu => "sender_cpu",
            Self::ReceiverCpu => "receiver_cpu",
            Self::SenderUsPerKib => "sender_us_per_kib",
            Self::ReceiverUsPerKib => "receiver_us_per_kib",
            Self::SystemUsPerKib => "system_us_per_kib",
        }
    }

    /// The name on an axis.
    pub fn label(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::LinkShare => "goodput, of what the link can carry",
            Self::Wire => "rate on the wire",
            Self::DeliveredWire => "rate on the wire, delivered",
            Self::SenderKernelShare => "sender in kernel mode",
            Self::ReceiverKernelShare => "receiver in kernel mode",
            Self::SystemCpus => "busy CPUs",
            Self::SenderCpu => "sender's CPU",
            Self::ReceiverCpu => "receiver's CPU",
            Self::SenderUsPerKib => "sender us/KiB",
            Self::ReceiverUsPerKib => "receiver us/KiB",
            Self::SystemUsPerKib => "host us/KiB",
        }
    }

    /// Its dimension.
    pub fn dimension(self) -> Dimension {
        match self {
            Self::Goodput | Self::Wire | Self::DeliveredWire => Dimension::Bps,
            Self::LinkShare
            | Self::SenderKernelShare
            | Self::ReceiverKernelShare
            | Self::SenderCpu
            | Self::ReceiverCpu => Dimension::Share,
            Self::SystemCpus | Self::SenderUsPerKib | Self::ReceiverUsPerKib | Self::SystemUsPerKib => {
                Dimension::Number
            }
        }
    }

    /// The figure of one repeat; `carries_bps` is the highest payload rate of the link (bit/s), if known. None if the
    /// repeat does not have it.
    pub fn of(self, sample: &StreamSample, carries_bps: Option<f64>) -> Option<f64> {
        match self {
            Self::Goodput => sample.goodput_bps,
            Self::LinkShare => Some(sample.goodput_bps? / carries_bps?),
            Self::Wire => sample.wire_bps,
            Self::DeliveredWire => sample.delivered_wire_bps,
            Self::SenderKernelShare => sample.sender_kernel_share,
            Self::ReceiverKernelShare => sample.receiver_kernel_share,
            Self::SystemCpus => sample.system_cpus,
            Self::SenderCpu => sample.sender_cpu,
            Self::ReceiverCpu => sample.receiver_cpu,
            Self::SenderUsPerKib => sample.sender_us_per_kib,
            Self::ReceiverUsPerKib => sample.receiver_us_per_kib,
            Self::SystemUsPerKib => sample.system_us_per_kib,
        }
    }
}

impl std::str::FromStr for TransferMeasure {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|measure| measure.name() == text);
        found.ok_or_else(|| ParseError::new("figure", text, format!("expected one of {}", names())))
    }
}

impl std::fmt::Display for TransferMeasure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

crate::units::serde_as_text!(TransferMeasure);
