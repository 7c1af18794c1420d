//! [`Load`]: how much is offered.

use crate::error::ParseError;
use crate::units;

/// How much is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Packets per second.
    Pps(f64),
    /// Bits of frames (FCS included, preamble and gap not) per second.
    Bps(f64),
    /// Share of the link's line rate, preamble and gap included.
    LineShare(f64),
}

impl std::str::FromStr for Load {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // "100M" may be Mpps or, as iperf3 has it, Mbit/s; no link is loaded by kbit/s.
        let load = if text.trim().ends_with("pps") || text.trim().ends_with('k') {
            units::parse_pps(text).map(Self::Pps)
        } else if text.trim().ends_with('%') {
            units::parse_share(text).map(Self::LineShare)
        } else {
            units::parse_bps(text).map(Self::Bps)
        };
        let accepted =
            "expected a rate above zero such as \"100kpps\" (or \"100k\"), \"300Mbit/s\" or \"40%\" of line rate";
        match load {
            Ok(load) if load.amount() > 0.0 => Ok(load),
            _ => Err(ParseError::new("rate", text, accepted)),
        }
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&match self {
            Self::Pps(pps) => units::print_pps(*pps),
            Self::Bps(bps) => units::print_bps(*bps),
            Self::LineShare(share) => units::print_share(*share),
        })
    }
}

crate::units::serde_as_text!(Load);

impl Load {
    /// The bare number, in the load's own unit.
    pub fn amount(&self) -> f64 {
        match self {
            Self::Pps(amount) | Self::Bps(amount) | Self::LineShare(amount) => *amount,
        }
    }
}
