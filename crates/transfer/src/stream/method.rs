//! The measuring methods of the 2003 study of TCP implementations (its section 5.4), by name, and netcliff's own
//! method.

use std::fmt;
use std::str::FromStr;

use crate::bulk::{Amount, Channel, Direction, Settings};

use super::StreamOptions;

/// How a stream is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Bounded by time. The warm-up on the same connection is discarded. Both ends measure; the receiver's counts are
    /// reported.
    #[default]
    Default,
    /// 64 KiB blocks. The server sends a number of bytes after a warm-up on a separate connection. The receiver's clock
    /// counts.
    Lmbench2,
    /// The server sends. Warm-up and all repeats use one connection. The receiver's clock counts; the mean is reported.
    Lmbench3,
    /// The client sends a number of bytes without a warm-up. The sender's clock counts.
    Ttcp,
    /// Like ttcp, but the time includes a byte with which the receiver acknowledges the end.
    Acked,
}

/// Number of blocks in a repeat by default.
const BLOCKS: u64 = 256 << 10;
/// Largest number of bytes in a repeat by default.
const MOST_BYTES: u64 = 1 << 30;
/// Default block of the methods of the study (bytes).
pub const LMBENCH2_BLOCK_BYTES: usize = 64 << 10;
/// Default block of a stream (bytes): the best of a sweep over veth with cubic on a quiet machine. Goodput was 34.0
/// Gbit/s at 64 KiB, 41.2 at 128 KiB, 49.3 at this size, 48.1 at 2 MiB and 41.6 at 4 MiB (`netcliff stream --testbed
/// netns --congestion cubic --block 8KiB..4MiB`).
const STREAM_BLOCK_BYTES: usize = 1 << 20;
/// Default blocks of datagrams over IPv4 and IPv6 (bytes): the payload of a full frame with an MTU of 1500.
const DATAGRAM_BLOCK_BYTES: (usize, usize) = (1472, 1452);

impl Method {
    /// All methods.
    pub const ALL: [Self; 5] = [Self::Default, Self::Lmbench2, Self::Lmbench3, Self::Ttcp, Self::Acked];

    /// The method's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Lmbench2 => "lmbench2",
            Self::Lmbench3 => "lmbench3",
            Self::Ttcp => "ttcp",
            Self::Acked => "acked",
        }
    }

    /// The sending end, if the method fixes it.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Default => None,
            Self::Lmbench2 | Self::Lmbench3 => Some(Direction::Receive),
            Self::Ttcp | Self::Acked => Some(Direction::Send),
        }
    }

    /// The block size (bytes) if the user chose none.
    pub fn default_block_bytes(self, channel: &Channel) -> usize {
        match channel {
            Channel::Udp { address, .. } if address.is_ipv6() => DATAGRAM_BLOCK_BYTES.1,
            Channel::Udp { .. } => DATAGRAM_BLOCK_BYTES.0,
            _ if self == Self::Default => STREAM_BLOCK_BYTES,
            _ => LMBENCH2_BLOCK_BYTES,
        }
    }

    /// The end whose clock counts.
    pub fn clock(self) -> &'static str {
        match self {
            Self::Default | Self::Lmbench2 | Self::Lmbench3 => "receiver",
            Self::Ttcp | Self::Acked => "sender",
        }
    }

    /// Whether the tool that the method is named after cannot set TCP_NODELAY.
    pub fn forbids_no_delay(self) -> bool {
        matches!(self, Self::Lmbench2 | Self::Lmbench3)
    }

    /// Whether the tool that the method is named after reports the arithmetic mean.
    pub fn is_mean(self) -> bool {
        self == Self::Lmbench3
    }

    /// Number of transfers of a configuration. `lmbench3` has all its repeats in one transfer.
    pub(super) fn rounds(self, repeats: u32) -> u32 {
        if self == Self::Lmbench3 { 1 } else { repeats }
    }

    /// True if blocks begin on a page, as those of lmbench2 and of the study's own program do.
    fn is_page_aligned(self) -> bool {
        matches!(self, Self::Lmbench2 | Self::Acked)
    }

    /// The transfer to measure, and the warm-up transfer before it, if any.
    pub(super) fn settings(self, options: &StreamOptions, template: Settings) -> (Option<Settings>, Settings) {
        let blocks = BLOCKS * template.block_bytes as u64;
        let bytes = Amount::Bytes(options.bytes.unwrap_or(blocks.min(MOST_BYTES)));
        let warm_up_s = options.warm_up_s.unwrap_or(match self {
            Self::Default => 0.5,
            Self::Lmbench2 | Self::Lmbench3 => 5.0,
            Self::Ttcp | Self::Acked => 0.0,
        });
        let direction = self.direction().unwrap_or(template.direction);
        let mut measured = Settings { direction, warm_up_s: 0.0, amount: bytes, ..template };
        measured.options.page_aligned |= self.is_page_aligned();
        match self {
            Self::Default => {
                let amount = options.bytes.map_or(Amount::Seconds(options.time_s), Amount::Bytes);
                (None, Settings { warm_up_s, amount, ..measured })
            }
            Self::Lmbench2 => {
                let warm_up = Settings { amount: Amount::Seconds(warm_up_s), ..measured.clone() };
                ((warm_up_s > 0.0).then_some(warm_up), measured)
            }
            Self::Lmbench3 => (None, Settings { warm_up_s, windows: options.repeats.least, ..measured }),
            Self::Ttcp => (None, measured),
            Self::Acked => (None, Settings { acknowledged: true, ..measured }),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|method| method.name() == text).ok_or(format!("expected one of {names}"))
    }
}
