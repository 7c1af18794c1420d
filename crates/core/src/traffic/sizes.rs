//! [`FrameSizes`]: distribution of frame lengths.

use std::sync::Arc;

use super::Arrivals;
use crate::capture::{self, Capture};
use crate::error::{Invalid, ParseError};
use crate::units;

/// Smallest and largest frame accepted, FCS included (bytes).
pub const FRAME_RANGE_BYTES: std::ops::RangeInclusive<u32> = 64..=65_535;

/// Frame sizes, FCS included.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameSizes {
    /// One size (bytes).
    Fixed(u32),
    /// Simple IMIX 7:4:1 of 64, 594 and 1518 bytes.
    Imix,
    /// A reconstruction of the MCI backbone's histogram of 1998 (mean 557 B).
    Mci1998Like,
    /// Sizes of the captured packets, if the arrivals are from a capture.
    Trace(Option<Arc<Capture>>),
    /// Sizes from a capture, or sizes and weights from a CSV file. The file is named here and read elsewhere.
    File(String),
    /// (bytes, weight) pairs, also those read from a file.
    Mixture(Vec<(u32, f64)>),
    /// The sizes of a capture's packets.
    Captured(Arc<CapturedSizes>),
}

/// Frame sizes of the packets of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedSizes {
    /// Name of the capture's file.
    pub file: String,
    /// (bytes, packets) for each size, rising.
    pub sizes: Vec<(u32, f64)>,
    /// Notes of the capture ([`Capture::notes`]).
    pub notes: Vec<String>,
}

impl From<&Capture> for FrameSizes {
    fn from(capture: &Capture) -> Self {
        let (file, notes) = (capture.file.clone(), capture.notes.clone());
        Self::Captured(Arc::new(CapturedSizes { file, sizes: capture.sizes(), notes }))
    }
}

impl FrameSizes {
    /// Checks every size against the accepted range.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
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

    /// The distribution as (bytes, probability); None if a file has not been read.
    pub fn mixture(&self) -> Option<Vec<(u32, f64)>> {
        let raw = match self {
            Self::Fixed(bytes) => vec![(*bytes, 1.0)],
            Self::Imix => vec![(64, 7.0), (594, 4.0), (1518, 1.0)],
            Self::Mci1998Like => mci1998_like(),
            Self::File(_) => return None,
            Self::Trace(capture) => capture.as_ref()?.sizes(),
            Self::Mixture(sizes) => sizes.clone(),
            Self::Captured(of) => of.sizes.clone(),
        };
        let total: f64 = raw.iter().map(|(_, weight)| weight).sum();
        Some(raw.into_iter().map(|(bytes, weight)| (bytes, weight / total)).collect())
    }

    /// Replaces `trace` by the packets of the capture that the arrivals are from; returns other sizes unchanged. `None`
    /// for `trace` if the arrivals are not from a capture.
    pub fn with_capture_of(&self, arrivals: &Arrivals) -> Option<Self> {
        match (self, arrivals) {
            (Self::Trace(None), Arrivals::Trace { capture, .. }) => Some(Self::Trace(capture.clone())),
            (Self::Trace(None), _) => None,
            (other, _) => Some(other.clone()),
        }
    }

    /// Mean frame size (bytes); None if a file has not been read.
    pub fn mean_bytes(&self) -> Option<f64> {
        Some(self.mixture()?.iter().map(|(bytes, share)| f64::from(*bytes) * share).sum())
    }
}

/// Weights per mille: 64 B: 435, uniform 65-569 B: 130, 570 B: 60, 594 B: 110, uniform 595-1517 B: 30, 1518 B: 235.
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
            name if name.eq_ignore_ascii_case("imix") => Ok(Self::Imix),
            "mci1998-like" => Ok(Self::Mci1998Like),
            "trace" => Ok(Self::Trace(None)),
            other if other.ends_with(".csv") || capture::is_name(other) => Ok(Self::File(other.to_owned())),
            other if other.starts_with("mixture:") => mixture_from(other),
            other => {
                // A number without a unit means bytes, as in iperf3 and ping.
                let bytes = other.parse().ok().or_else(|| u32::try_from(units::parse_bytes(other).ok()?).ok());
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

fn mixture(out: &mut std::fmt::Formatter<'_>, sizes: &[(u32, f64)]) -> std::fmt::Result {
    let items: Vec<_> = sizes.iter().map(|(bytes, weight)| format!("{bytes}={weight}")).collect();
    write!(out, "mixture:{}", items.join(","))
}

impl std::fmt::Display for FrameSizes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(bytes) => out.write_str(&units::print_bytes(u64::from(*bytes))),
            Self::Imix => write!(out, "imix"),
            Self::Mci1998Like => write!(out, "mci1998-like"),
            Self::Trace(_) => write!(out, "trace"),
            Self::File(path) => out.write_str(path),
            Self::Mixture(sizes) => mixture(out, sizes),
            Self::Captured(of) => mixture(out, &of.sizes),
        }
    }
}

crate::units::serde_as_text!(FrameSizes);
