//! Settings of a device that an experiment varies: offloads, interrupt coalescing and flow control.

use serde::{Deserialize, Serialize};

/// An offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Feature {
    /// Receive checksums.
    RxChecksum,
    /// Transmit checksums.
    TxChecksum,
    /// Scatter-gather.
    Sg,
    /// TCP segmentation offload.
    Tso,
    /// Generic segmentation offload.
    Gso,
    /// Generic receive offload.
    Gro,
    /// Large receive offload.
    Lro,
}

impl Feature {
    /// The kernel's names for it, of which a device has some.
    pub fn kernel_names(self) -> &'static [&'static str] {
        match self {
            Self::RxChecksum => &["rx-checksum"],
            Self::TxChecksum => &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"],
            Self::Sg => &["tx-scatter-gather"],
            Self::Tso => &["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"],
            Self::Gso => &["tx-generic-segmentation"],
            Self::Gro => &["rx-gro"],
            Self::Lro => &["rx-lro"],
        }
    }
}

/// A parameter of interrupt coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coalesce {
    /// Longest delay of a receive interrupt (us).
    RxUsecs,
    /// Frames after which a receive interrupt comes at the latest.
    RxFrames,
    /// Longest delay of a transmit interrupt (us).
    TxUsecs,
    /// Frames after which a transmit interrupt comes at the latest.
    TxFrames,
    /// Whether the driver itself chooses delay and frames for reception.
    AdaptiveRx,
    /// Whether the driver itself chooses delay and frames for transmission.
    AdaptiveTx,
}

impl Coalesce {
    /// The parameters of reception, then the parameters of transmission. The adaptive switch is first in each.
    pub const DIRECTIONS: [[Self; 3]; 2] =
        [[Self::AdaptiveRx, Self::RxUsecs, Self::RxFrames], [Self::AdaptiveTx, Self::TxUsecs, Self::TxFrames]];

    /// The kernel's name for it, as ethtool prints it.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::RxUsecs => "rx-usecs",
            Self::RxFrames => "rx-frames",
            Self::TxUsecs => "tx-usecs",
            Self::TxFrames => "tx-frames",
            Self::AdaptiveRx => "adaptive-rx",
            Self::AdaptiveTx => "adaptive-tx",
        }
    }

    /// True for an adaptive switch, which is on or off.
    pub fn is_adaptive(self) -> bool {
        Self::DIRECTIONS.iter().any(|[switch, ..]| *switch == self)
    }

    /// The adaptive switch for the same direction.
    pub fn adaptive(self) -> Self {
        let switch = |[switch, time, frames]: [Self; 3]| [switch, time, frames].contains(&self).then_some(switch);
        Self::DIRECTIONS.into_iter().find_map(switch).unwrap_or(self)
    }

    /// All parameters in the order in which they must be set: an adaptive switch before the values that it would
    /// override.
    pub fn in_order() -> impl Iterator<Item = Self> {
        let switches = Self::DIRECTIONS.into_iter().map(|[switch, ..]| switch);
        switches.chain(Self::DIRECTIONS.into_iter().flat_map(|[_, time, frames]| [time, frames]))
    }
}

/// A switch of flow control (IEEE 802.3, annex 31B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pause {
    /// Flow control as both ends negotiate it.
    Autoneg,
    /// The device stops sending when it receives pause frames.
    Receive,
    /// The device sends pause frames when its buffer is nearly full.
    Transmit,
}

impl Pause {
    /// All switches, in the order in which they are set.
    pub const ALL: [Self; 3] = [Self::Autoneg, Self::Receive, Self::Transmit];

    /// The kernel's name for it, as `ethtool -A` prints it.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::Autoneg => "autoneg",
            Self::Receive => "rx",
            Self::Transmit => "tx",
        }
    }

    /// Its key in experiment files, which contains the word pause.
    pub fn key(self) -> &'static str {
        match self {
            Self::Autoneg => "pause-autoneg",
            Self::Receive => "pause-rx",
            Self::Transmit => "pause-tx",
        }
    }
}
