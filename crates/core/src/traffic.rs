//! [`Traffic`]: arrival process, frame sizes and flows, without a load (docs/theory/statistics.md: captures, heavy
//! tails). [`Load`]: the offered load.

mod arrivals;
mod sizes;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::capture::Capture;
use crate::error::Invalid;
use crate::params::Choice;
use crate::queues::Flows;
use crate::units;

pub use arrivals::{Arrivals, OnOff};
pub use load::Load;
pub use sizes::{FRAME_RANGE_BYTES, FrameSizes};

/// Preamble, start delimiter and minimum gap that each frame adds on the wire (bytes).
pub const WIRE_OVERHEAD_BYTES: f64 = 20.0;
/// Frame check sequence: part of a frame's size, but not of the sizes that Linux counts (bytes).
pub const FCS_BYTES: f64 = 4.0;

/// Default of the link speed (bit/s).
pub const USUAL_LINK_BPS: f64 = 1e9;

/// Distribution of the gaps between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename = "Arrivals", rename_all = "lowercase")]
pub enum Gaps {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
}

impl Choice for Gaps {
    const CHOICES: &'static [(Self, &'static str, &'static str)] =
        &[(Self::Poisson, "poisson", "Exponential gaps"), (Self::Constant, "constant", "Equal gaps")];
}

impl From<Gaps> for Arrivals {
    fn from(gaps: Gaps) -> Self {
        match gaps {
            Gaps::Poisson => Self::Poisson,
            Gaps::Constant => Self::Constant,
        }
    }
}

/// The packets that a host receives over a link: arrival process, frame sizes and flows. Their rate is the [`Load`].
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The arrival process.
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included.
    pub size: FrameSizes,
    /// Link speed (bit/s). It limits the load if the user gives it, and is the base of ON/OFF sources and of loads
    /// given as shares of the line rate.
    pub link_bps: f64,
    /// Flows of the packets, by which a host with several queues distributes them. `None`: very many flows, so that
    /// each queue gets its share of the indirection table.
    pub flows: Option<Flows>,
}

/// Poisson arrivals of 64-byte frames over 1 Gbit/s.
impl Default for Traffic {
    fn default() -> Self {
        Self { arrivals: Arrivals::Poisson, size: FrameSizes::Fixed(64), link_bps: USUAL_LINK_BPS, flows: None }
    }
}

impl Traffic {
    /// lambda: packets per second at `load`; `None` if the file of frame sizes, which it needs, has not been read.
    pub fn rate_pps(&self, load: Load) -> Option<f64> {
        match load {
            Load::Pps(pps) => Some(pps),
            Load::Bps(bps) => Some(bps / (8.0 * self.size.mean_bytes()?)),
            Load::LineShare(share) => Some(share * self.line_rate_pps()?),
        }
    }

    /// Line rate for these frames (pps): link speed / (8 x (frame + preamble + gap)). `None` if the file of frame sizes
    /// has not been read.
    pub fn line_rate_pps(&self) -> Option<f64> {
        Some(self.link_bps / (8.0 * (self.size.mean_bytes()? + WIRE_OVERHEAD_BYTES)))
    }

    /// Refuses a load that the link cannot carry: each frame occupies its own bytes, preamble and gap.
    ///
    /// `named`: true if the user gave the link speed. The default link speed limits only loads given as shares of it.
    pub fn fits_link(&self, load: Load, named: bool) -> Result<(), Invalid> {
        let (Some(pps), Some(line_pps)) = (self.rate_pps(load), self.line_rate_pps()) else { return Ok(()) };
        // A load at the line rate, rounded to few digits, counts as within it.
        if pps <= line_pps * 1.001 || !(named || matches!(load, Load::LineShare(_))) {
            return Ok(());
        }
        let bytes = self.size.mean_bytes().unwrap_or(0.0);
        let (link, most) = (units::print_bps(self.link_bps), units::print_pps(line_pps.floor()));
        let frames_bps = units::print_bps((line_pps * 8.0 * bytes).floor());
        Err(Invalid::new(
            "rate",
            load,
            format!(
                "a link of {link} carries at most {most} of {bytes:.0} B frames, {frames_bps} without preamble and gap (20 B a \
                 frame); give a lower rate or a faster --link"
            ),
        ))
    }

    /// The captures that arrivals and flows were read from.
    pub fn captures(&self) -> impl Iterator<Item = &Capture> {
        let arrivals = match &self.arrivals {
            Arrivals::Trace { capture, .. } => capture.as_deref(),
            _ => None,
        };
        let flows = match &self.flows {
            Some(Flows::Capture { capture, .. }) => capture.as_deref(),
            _ => None,
        };
        arrivals.into_iter().chain(flows)
    }

    /// Notes of the captures that this traffic is from, each with the name of its file.
    pub fn capture_notes(&self) -> Vec<String> {
        let sizes = match &self.size {
            FrameSizes::Captured(of) => Some((&of.file, &of.notes)),
            _ => None,
        };
        let all = self.captures().map(|capture| (&capture.file, &capture.notes)).chain(sizes);
        let mut notes: Vec<String> = all
            .flat_map(|(file, notes)| {
                let name = file.rsplit('/').next().unwrap_or_default();
                notes.iter().map(move |note| format!("{name}: {note}"))
            })
            .collect();
        notes.sort();
        notes.dedup();
        notes
    }

    /// Checks every number against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.size.validate()?;
        if !(bounds::SLOWEST_BPS..=bounds::FASTEST_BPS).contains(&self.link_bps) {
            let link = format!("{:e} bit/s", self.link_bps);
            return Err(Invalid::new("link", link, "must be from 1bit/s to 10000Tbit/s"));
        }
        if let Some(flows) = &self.flows {
            flows.validate()?;
        }
        self.arrivals.validate()
    }

    /// Checks that `load` is in range for this traffic, which must be valid.
    pub fn validate_load(&self, load: Load) -> Result<(), Invalid> {
        match self.rate_pps(load) {
            Some(pps) => bounds::rate("rate", pps, load),
            // Frame sizes have not been read: only the load's own number can be checked.
            None if load.amount().is_finite() && load.amount() > 0.0 => Ok(()),
            None => Err(Invalid::new("rate", load, "must be above 0")),
        }
    }

    /// Checks that `load` is in range and, see [`Self::fits_link`], that the link can carry it.
    pub fn admits(&self, load: Load, link_named: bool) -> Result<(), Invalid> {
        self.validate_load(load)?;
        self.fits_link(load, link_named)
    }
}

mod load {
    //! [`Load`]: the offered load.

    use crate::error::ParseError;
    use crate::units;

    /// Offered load.
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
            // "100M" is ambiguous: Mpps, or Mbit/s as in iperf3. "k" is not, as no load is in kbit/s.
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
        /// The load's number, in its own unit.
        pub fn amount(&self) -> f64 {
            match self {
                Self::Pps(amount) | Self::Bps(amount) | Self::LineShare(amount) => *amount,
            }
        }
    }
}
