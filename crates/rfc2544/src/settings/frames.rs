//! Which frames are sent.

use std::fmt;
use std::str::FromStr;

use crate::tester::frame::IMIX;
use netcliff_core::ParseError;
use serde::{Deserialize, Serialize};

use super::JUMBO_BYTES;

/// Which frames a test sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub enum FrameSize {
    /// Frames of a single size (bytes, FCS included).
    Fixed(u32),
    /// Simple IMIX: frames of 64, 594 and 1518 bytes (FCS included) in the ratio 7:4:1.
    Imix,
    /// Simple IMIX with this size (bytes, FCS included) instead of 64, which is too short for the headers with IPv6 or
    /// a VLAN tag.
    ImixFrom(u32),
    /// The frames of a capture (`--pcap`).
    Capture {
        /// Mean frame size, rounded (bytes, FCS included).
        mean_bytes: u32,
        /// Largest frame size (bytes, FCS included).
        longest_bytes: u32,
    },
}

impl FrameSize {
    /// Frame sizes in the order of sending (bytes, FCS included). For a capture: the mean and the longest.
    pub fn sizes(self) -> Vec<usize> {
        match self {
            Self::Fixed(bytes) => vec![bytes as usize],
            Self::Imix => IMIX.to_vec(),
            Self::Capture { mean_bytes, longest_bytes } => vec![mean_bytes as usize, longest_bytes as usize],
            Self::ImixFrom(least) => IMIX.map(|bytes| bytes.max(least as usize)).to_vec(),
        }
    }

    /// Mean size (bytes, FCS included).
    pub fn mean_bytes(self) -> f64 {
        if let Self::Capture { mean_bytes, .. } = self {
            return f64::from(mean_bytes);
        }
        let sizes = self.sizes();
        sizes.iter().sum::<usize>() as f64 / sizes.len() as f64
    }

    /// Returns IMIX with smallest frames of at least `least` bytes (FCS included), so that the headers fit. Other frame
    /// sizes are returned unchanged.
    #[must_use]
    pub fn with_room_for(self, least: usize) -> Self {
        match self {
            Self::Imix if least > IMIX[0] => Self::ImixFrom(least as u32),
            other => other,
        }
    }

    /// Frame rate of a line of `line_bps` (bit/s), with preamble and gap (pps).
    pub fn line_pps(self, line_bps: f64) -> f64 {
        line_bps / (8.0 * (self.mean_bytes() + 20.0))
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}B"),
            Self::Imix => f.write_str("imix"),
            Self::ImixFrom(least) => write!(f, "imix-{least}"),
            Self::Capture { mean_bytes, longest_bytes } => write!(f, "pcap-{mean_bytes}-{longest_bytes}"),
        }
    }
}

impl FromStr for FrameSize {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || {
            let accepted = "expected bytes with FCS, 64 to 9018, such as \"64\", \"jumbo\" or \"imix\"";
            ParseError::new("frame size", text, accepted)
        };
        match text.trim() {
            "imix" => Ok(Self::Imix),
            "jumbo" => Ok(Self::Fixed(JUMBO_BYTES)),
            capture if capture.starts_with("pcap-") => {
                let sizes = capture["pcap-".len()..].split_once('-');
                let sizes = sizes.and_then(|(mean, longest)| Some((mean.parse().ok()?, longest.parse().ok()?)));
                let (mean_bytes, longest_bytes) = sizes.ok_or_else(bad)?;
                if !(64..=longest_bytes).contains(&mean_bytes) || longest_bytes > JUMBO_BYTES {
                    return Err(bad());
                }
                Ok(Self::Capture { mean_bytes, longest_bytes })
            }
            // The printed form, such as `imix-84`. The smallest size must not exceed the next larger size of the mix.
            number if number.starts_with("imix-") => match number["imix-".len()..].parse() {
                Ok(least) if (65..=IMIX[1] as u32).contains(&least) => Ok(Self::ImixFrom(least)),
                _ => Err(bad()),
            },
            number => {
                let bytes: u32 = number.strip_suffix('B').unwrap_or(number).parse().map_err(|_| bad())?;
                if (64..=JUMBO_BYTES).contains(&bytes) { Ok(Self::Fixed(bytes)) } else { Err(bad()) }
            }
        }
    }
}

impl From<FrameSize> for String {
    fn from(size: FrameSize) -> Self {
        size.to_string()
    }
}

impl TryFrom<String> for FrameSize {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}
