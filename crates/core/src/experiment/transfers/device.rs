//! What of a device is varied: offloads, interrupt coalescing and flow control.

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
    /// The kernel's names for it; a device has some of them.
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

/// A figure or a switch of interrupt coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coalesce {
    /// Delay of a receive interrupt by time (us).
    RxUsecs,
    /// The same by frames.
    RxFrames,
    /// Delay of a transmit interrupt by time (us).
    TxUsecs,
    /// The same by frames.
    TxFrames,
    /// Whether the driver chooses the two of reception by itself.
    AdaptiveRx,
    /// Whether it chooses those of transmission.
    AdaptiveTx,
}

impl Coalesce {
    /// The list from which all others are made: those of reception and of transmission, the switch first.
    pub const DIRECTIONS: [[Self; 3]; 2] =
        [[Self::AdaptiveRx, Self::RxUsecs, Self::RxFrames], [Self::AdaptiveTx, Self::TxUsecs, Self::TxFrames]];

    /// The kernel's name for it, as ethtool has it.
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

    /// True of a switch, which is on or off.
    pub fn is_adaptive(self) -> bool {
        Self::DIRECTIONS.iter().any(|[switch, ..]| *switch == self)
    }

    /// The switch of its direction.
    pub fn adaptive(self) -> Self {
        let switch = |[switch, time, frames]: [Self; 3]| [switch, time, frames].contains(&self).then_some(switch);
        Self::DIRECTIONS.into_iter().find_map(switch).unwrap_or(self)
    }

    /// All of them in the order in which they are set: the switches come before what they would overrule.
    pub fn in_order() -> impl Iterator<Item = Self> {
        let switches = Self::DIRECTIONS.into_iter().map(|[switch, ..]| switch);
        switches.chain(Self::DIRECTIONS.into_iter().flat_map(|[_, time, frames]| [time, frames]))
    }
}

/// A switch of flow control (IEEE 802.3, annex 31B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pause {
    /// Flow control is as both ends negotiate.
    Autoneg,
    /// Pause frames that arrive are obeyed.
    Receive,
    /// Pause frames are sent while the device has no room.
    Transmit,
}

impl Pause {
    /// All of them, in the order in which they are set.
    pub const ALL: [Self; 3] = [Self::Autoneg, Self::Receive, Self::Transmit];

    /// The kernel's name for it, as `ethtool -A` has it.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::Autoneg => "autoneg",
            Self::Receive => "rx",
            Self::Transmit => "tx",
        }
    }

    /// The name as a key, which has to say of what it is.
    pub fn key(self) -> &'static str {
        match self {
            Self::Autoneg => "pause-autoneg",
            Self::Receive => "pause-rx",
            Self::Transmit => "pause-tx",
        }
    }
}
