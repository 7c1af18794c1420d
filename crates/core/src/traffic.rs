//! [`Traffic`]: arrivals x frame sizes x offered load (THEORY section 4).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};
use crate::queues::Flows;
use crate::units;

/// Preamble, start delimiter and minimum gap that each frame adds on the wire (bytes).
pub const WIRE_OVERHEAD_BYTES: f64 = 20.0;
/// Smallest and largest frame accepted, FCS included (bytes).
pub const FRAME_RANGE_BYTES: std::ops::RangeInclusive<u32> = 64..=65_535;

/// The arrival process.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Poisson batches of a fixed size.
    Batch {
        /// Packets a batch.
        size: u32,
    },
    /// Two-state Markov-modulated Poisson.
    Mmpp {
        /// Rate in the busy state over the mean rate.
        peak: f64,
        /// Share of time in the busy state.
        busy: f64,
        /// Mean stay in the busy state (s).
        stay_s: f64,
    },
    /// Aggregated Pareto ON/OFF sources at link speed.
    OnOff(OnOff),
    /// Each packet of another process kept with this probability, independently of the others: what RSS leaves of it for
    /// a queue. The offered load is that of the packets kept.
    Thinned {
        /// Probability that a packet is kept.
        keep: f64,
        /// The process they come from.
        of: Box<Arrivals>,
    },
    /// Arrivals from a capture file, read around and around or once, stretched or pressed to the offered load.
    Trace {
        /// pcap or pcapng file.
        file: String,
        /// Times as fast as recorded, where no load is given.
        speed: Option<f64>,
        /// Read once from its start to its end, instead of around and around.
        once: bool,
        /// What it holds; None while it has not been read.
        capture: Option<Arc<Capture>>,
    },
}

/// N aggregated Pareto ON/OFF sources (seed 002 section 5.1).
#[derive(Debug, Clone, PartialEq)]
pub struct OnOff {
    /// N.
    pub sources: u32,
    /// Shape of ON periods.
    pub alpha_on: f64,
    /// Shape of OFF periods.
    pub alpha_off: f64,
    /// Shortest ON period (s).
    pub min_on_s: f64,
    /// True: sources add up freely; false: they share one link.
    pub superpose: bool,
    /// Longest period drawn, if any (s).
    pub cutoff_s: Option<f64>,
}

impl Default for OnOff {
    fn default() -> Self {
        Self { sources: 8, alpha_on: 1.3, alpha_off: 1.5, min_on_s: 512e-9, superpose: false, cutoff_s: None }
    }
}

impl std::str::FromStr for Arrivals {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(rest) = text.strip_prefix("trace:") {
            return trace_of(rest);
        }
        if let Some(rest) = text.strip_prefix("thinned:") {
            let form =
                || ParseError::new("arrivals", text, "expected thinned:SHARE:ARRIVALS, such as thinned:25%:constant");
            let (keep, of) = rest.split_once(':').ok_or_else(form)?;
            return Ok(Self::Thinned { keep: units::parse_share(keep)?, of: Box::new(of.parse()?) });
        }
        let (name, mut params) = Params::split("arrivals", text)?;
        let arrivals = match name {
            "poisson" => Self::Poisson,
            "constant" => Self::Constant,
            "batch" => Self::Batch { size: params.count_u32("size")?.unwrap_or(8) },
            "mmpp" => Self::Mmpp {
                peak: params.number("peak")?.unwrap_or(4.0),
                busy: params.number("busy")?.unwrap_or(0.1),
                stay_s: params.time_s("stay")?.unwrap_or(1e-3),
            },
            "onoff" => Self::OnOff(on_off(&mut params)?),
            _ => {
                return Err(ParseError::new(
                    "arrivals",
                    text,
                    "expected poisson, constant, batch:size=8, mmpp:peak=4,busy=10%,stay=1ms, onoff:sources=8 or trace:FILE",
                ));
            }
        };
        params.finish()?;
        Ok(arrivals)
    }
}

/// Reads `FILE`, `FILE,speed=2`, `FILE,once` or both: the file's name may hold commas itself.
fn trace_of(text: &str) -> Result<Arrivals, ParseError> {
    let (mut file, mut speed, mut once) = (text, None, false);
    loop {
        if let (false, Some(name)) = (once, file.strip_suffix(",once")) {
            (file, once) = (name, true);
        } else if let (None, Some((name, text))) = (speed, file.rsplit_once(",speed=")) {
            (file, speed) = (name, Some(speed_of(text)?));
        } else {
            return Ok(Arrivals::Trace { file: file.to_owned(), speed, once, capture: None });
        }
    }
}

fn speed_of(text: &str) -> Result<f64, ParseError> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| ParseError::new("trace speed", text, "expected a factor above 0, such as 2 for twice as fast"))
}

fn on_off(params: &mut Params<'_>) -> Result<OnOff, ParseError> {
    let default = OnOff::default();
    Ok(OnOff {
        sources: params.count_u32("sources")?.unwrap_or(default.sources),
        alpha_on: params.number("alpha_on")?.unwrap_or(default.alpha_on),
        alpha_off: params.number("alpha_off")?.unwrap_or(default.alpha_off),
        min_on_s: params.time_s("min_on")?.unwrap_or(default.min_on_s),
        superpose: match params.take("rule") {
            None | Some("serialise") => false,
            Some("superpose") => true,
            Some(other) => return Err(ParseError::new("arrivals `rule`", other, "expected serialise or superpose")),
        },
        cutoff_s: params.time_s("cutoff")?,
    })
}

impl std::fmt::Display for Arrivals {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Poisson => write!(out, "poisson"),
            Self::Constant => write!(out, "constant"),
            Self::Batch { size } => write!(out, "batch:size={size}"),
            Self::Mmpp { peak, busy, stay_s } => {
                write!(out, "mmpp:peak={peak},busy={},stay={}", units::print_share(*busy), units::print_time_s(*stay_s))
            }
            Self::OnOff(on_off) => out.write_str(&params::print(
                "onoff",
                &[
                    ("sources", Some(on_off.sources.to_string())),
                    ("alpha_on", Some(on_off.alpha_on.to_string())),
                    ("alpha_off", Some(on_off.alpha_off.to_string())),
                    ("min_on", Some(units::print_time_s(on_off.min_on_s))),
                    ("rule", Some(if on_off.superpose { "superpose" } else { "serialise" }.to_owned())),
                    ("cutoff", on_off.cutoff_s.map(units::print_time_s)),
                ],
            )),
            Self::Thinned { keep, of } => write!(out, "thinned:{keep}:{of}"),
            Self::Trace { file, speed, once, .. } => {
                let speed = speed.map_or_else(String::new, |speed| format!(",speed={speed}"));
                write!(out, "trace:{file}{speed}{}", if *once { ",once" } else { "" })
            }
        }
    }
}

crate::record::serde_as_text!(Arrivals);

impl Arrivals {
    /// The packets of a capture that is read once; None for other arrivals.
    pub fn read_once(&self) -> Option<usize> {
        match self {
            Self::Trace { once: true, capture: Some(capture), .. } => Some(capture.packets.len()),
            _ => None,
        }
    }

    /// The capture that they are read from.
    pub fn capture(&self) -> Option<&Capture> {
        match self {
            Self::Trace { capture, .. } => capture.as_deref(),
            Self::Thinned { of, .. } => of.capture(),
            _ => None,
        }
    }

    /// Each packet kept with the probability `keep`: a Poisson process, and a modulated one, remain what they are.
    #[must_use]
    pub fn thinned(&self, keep: f64) -> Self {
        match self {
            Self::Poisson | Self::Mmpp { .. } => self.clone(),
            _ if keep == 1.0 => self.clone(),
            Self::Thinned { keep: before, of } => Self::Thinned { keep: keep * before, of: of.clone() },
            other => Self::Thinned { keep, of: Box::new(other.clone()) },
        }
    }
}

/// Frame sizes, FCS included.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameSizes {
    /// One size (bytes).
    Fixed(u32),
    /// Simple IMIX 7:4:1 of 64, 594 and 1518 bytes.
    Imix,
    /// A reconstruction of the MCI backbone's histogram of 1998 (mean 557 B).
    Mci1998Like,
    /// The captured packets' own, where arrivals are a trace.
    Trace(Option<Arc<Capture>>),
    /// Sizes from a capture, or sizes and weights from a CSV file, named here, read elsewhere.
    File(String),
    /// (bytes, weight): what a file turns into.
    Mixture(Vec<(u32, f64)>),
}

impl FrameSizes {
    fn validate(&self) -> Result<(), Invalid> {
        let (low, high) = (FRAME_RANGE_BYTES.start(), FRAME_RANGE_BYTES.end());
        let impossible = match self {
            Self::Fixed(bytes) => Some(bytes).filter(|bytes| !FRAME_RANGE_BYTES.contains(bytes)),
            Self::Mixture(sizes) => {
                sizes.iter().map(|(bytes, _)| bytes).find(|bytes| !FRAME_RANGE_BYTES.contains(bytes))
            }
            _ => None,
        };
        match impossible {
            Some(bytes) => {
                Err(Invalid::new("frame size", format!("{bytes}B"), format!("must be from {low}B to {high}B")))
            }
            None => Ok(()),
        }
    }

    /// The mixture as (bytes, probability); None while a file has not been read.
    pub fn mixture(&self) -> Option<Vec<(u32, f64)>> {
        let raw = match self {
            Self::Fixed(bytes) => vec![(*bytes, 1.0)],
            Self::Imix => vec![(64, 7.0), (594, 4.0), (1518, 1.0)],
            Self::Mci1998Like => mci1998_like(),
            Self::File(_) => return None,
            Self::Trace(capture) => capture.as_ref()?.sizes(),
            Self::Mixture(sizes) => sizes.clone(),
        };
        let total: f64 = raw.iter().map(|(_, weight)| weight).sum();
        Some(raw.into_iter().map(|(bytes, weight)| (bytes, weight / total)).collect())
    }

    /// Mean frame size (bytes); None while a file has not been read.
    pub fn mean_bytes(&self) -> Option<f64> {
        Some(self.mixture()?.iter().map(|(bytes, share)| f64::from(*bytes) * share).sum())
    }
}

/// Per mille: 64: 435, uniform 65-569: 130, 570: 60, 594: 110, uniform 595-1517: 30, 1518: 235.
fn mci1998_like() -> Vec<(u32, f64)> {
    let mut sizes = vec![(64, 435.0), (570, 60.0), (594, 110.0), (1518, 235.0)];
    sizes.extend((65..=569).map(|bytes| (bytes, 130.0 / 505.0)));
    sizes.extend((595..=1517).map(|bytes| (bytes, 30.0 / 923.0)));
    sizes.sort_by_key(|(bytes, _)| *bytes);
    sizes
}

impl std::str::FromStr for FrameSizes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "imix" => Ok(Self::Imix),
            "mci1998-like" => Ok(Self::Mci1998Like),
            "trace" => Ok(Self::Trace(None)),
            other if [".csv", ".pcap", ".pcapng", ".cap"].iter().any(|end| other.ends_with(end)) => {
                Ok(Self::File(other.to_owned()))
            }
            other if other.starts_with("mixture:") => mixture_from(other),
            other => {
                let bytes = units::parse_bytes(other).ok().and_then(|bytes| u32::try_from(bytes).ok());
                bytes.filter(|bytes| FRAME_RANGE_BYTES.contains(bytes)).map(Self::Fixed).ok_or_else(|| {
                    ParseError::new(
                        "frame size",
                        text,
                        "expected a size from 64B to 65535B (FCS included), imix, mci1998-like, a .csv file or a capture (.pcap, .pcapng)",
                    )
                })
            }
        }
    }
}

/// Reads `mixture:64=7,1518=1`.
fn mixture_from(text: &str) -> Result<FrameSizes, ParseError> {
    let error =
        || ParseError::new("frame size", text, "expected mixture:BYTES=WEIGHT,..., such as mixture:64=7,1518=1");
    let items = text.trim_start_matches("mixture:").split(',');
    let sizes: Option<Vec<(u32, f64)>> = items
        .map(|item| {
            let (bytes, weight) = item.split_once('=')?;
            Some((bytes.trim().parse().ok()?, units::parse_share(weight).ok()?))
        })
        .collect();
    let sizes = sizes.ok_or_else(error)?;
    let valid = sizes.iter().all(|(bytes, _)| FRAME_RANGE_BYTES.contains(bytes)) && sizes.iter().any(|(_, w)| *w > 0.0);
    if valid { Ok(FrameSizes::Mixture(sizes)) } else { Err(error()) }
}

impl std::fmt::Display for FrameSizes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(bytes) => out.write_str(&units::print_bytes(u64::from(*bytes))),
            Self::Imix => write!(out, "imix"),
            Self::Mci1998Like => write!(out, "mci1998-like"),
            Self::Trace(_) => write!(out, "trace"),
            Self::File(path) => out.write_str(path),
            Self::Mixture(sizes) => {
                let items: Vec<_> = sizes.iter().map(|(bytes, weight)| format!("{bytes}={weight}")).collect();
                write!(out, "mixture:{}", items.join(","))
            }
        }
    }
}

crate::record::serde_as_text!(FrameSizes);

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
        let load = if text.trim().ends_with("pps") {
            units::parse_pps(text).map(Self::Pps)
        } else if text.trim().ends_with('%') {
            units::parse_share(text).map(Self::LineShare)
        } else {
            units::parse_bps(text).map(Self::Bps)
        };
        let accepted = "expected a rate above zero such as \"100kpps\", \"300Mbit/s\" or \"40%\" of line rate";
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

crate::record::serde_as_text!(Load);

impl Load {
    /// The bare number, in the load's own unit.
    pub fn amount(&self) -> f64 {
        match self {
            Self::Pps(amount) | Self::Bps(amount) | Self::LineShare(amount) => *amount,
        }
    }
}

/// Arrivals, sizes and load offered to a host over a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// The arrival process.
    #[serde(default = "poisson")]
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included.
    #[serde(default = "smallest")]
    pub size: FrameSizes,
    /// Offered load.
    pub rate: Load,
    /// Link speed, for shares of line rate and ON/OFF sources (bit/s).
    #[serde(rename = "link", with = "link_text", default = "gigabit")]
    pub link_bps: f64,
    /// Flows that the packets belong to, which a host with several queues deals by; None: so many that they do not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
}

fn poisson() -> Arrivals {
    Arrivals::Poisson
}
fn smallest() -> FrameSizes {
    FrameSizes::Fixed(64)
}
fn gigabit() -> f64 {
    1e9
}

mod link_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&crate::units::print_bps(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        crate::units::parse_bps(&String::deserialize(input)?).map_err(serde::de::Error::custom)
    }
}

impl Traffic {
    /// Poisson arrivals of 64-byte frames at `pps` over 1 Gbit/s.
    pub fn poisson(pps: f64) -> Self {
        Self { arrivals: poisson(), size: smallest(), rate: Load::Pps(pps), link_bps: gigabit(), flows: None }
    }

    /// lambda: offered packets per second; None while a size file has not been read.
    pub fn rate_pps(&self) -> Option<f64> {
        match self.rate {
            Load::Pps(pps) => Some(pps),
            Load::Bps(bps) => Some(bps / (8.0 * self.size.mean_bytes()?)),
            Load::LineShare(share) => Some(share * self.line_rate_pps()?),
        }
    }

    /// Line rate of these frames: link / (8 x (frame + preamble + gap)) (pps).
    pub fn line_rate_pps(&self) -> Option<f64> {
        Some(self.link_bps / (8.0 * (self.size.mean_bytes()? + WIRE_OVERHEAD_BYTES)))
    }

    /// The same traffic at another packet rate.
    #[must_use]
    pub fn at_pps(&self, pps: f64) -> Self {
        Self { rate: Load::Pps(pps), ..self.clone() }
    }

    /// Checks every figure against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        if !self.rate.amount().is_finite() || self.rate.amount() <= 0.0 {
            return Err(Invalid::new("rate", self.rate, "must be above 0"));
        }
        self.size.validate()?;
        if !self.link_bps.is_finite() || self.link_bps <= 0.0 {
            return Err(Invalid::new("link", format!("{} bit/s", self.link_bps), "must be above 0"));
        }
        if let Some(flows) = &self.flows {
            flows.validate()?;
        }
        self.arrivals.validate()
    }
}

impl Arrivals {
    fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Thinned { keep, of } => {
                if !(*keep > 0.0 && *keep <= 1.0) {
                    return Err(Invalid::new("thinned share", keep, "must be above 0 and at most 1"));
                }
                of.validate()
            }
            Arrivals::Batch { size: 0 } => Err(Invalid::new("batch size", 0, "must be at least 1")),
            Arrivals::Mmpp { peak, busy, stay_s } => {
                if !(*busy > 0.0 && *busy < 1.0) {
                    return Err(Invalid::new("mmpp busy", busy, "must be a share between 0 and 1"));
                }
                if !(*peak >= 1.0 && peak * busy <= 1.0) {
                    return Err(Invalid::new("mmpp peak", peak, "must be at least 1, and peak x busy at most 1"));
                }
                if !(stay_s.is_finite() && *stay_s > 0.0) {
                    return Err(Invalid::new("mmpp stay", stay_s, "must be a finite time above 0"));
                }
                Ok(())
            }
            Arrivals::OnOff(on_off) => on_off.validate(),
            _ => Ok(()),
        }
    }
}

impl OnOff {
    fn validate(&self) -> Result<(), Invalid> {
        if self.sources == 0 {
            return Err(Invalid::new("onoff sources", 0, "must be at least 1"));
        }
        for (name, alpha) in [("onoff alpha_on", self.alpha_on), ("onoff alpha_off", self.alpha_off)] {
            if !(alpha > 1.0 && alpha.is_finite()) {
                return Err(Invalid::new(name, alpha, "must be above 1, or the mean is infinite"));
            }
        }
        if self.min_on_s <= 0.0 {
            return Err(Invalid::new("onoff min_on", self.min_on_s, "must be above 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
