//! [`Roofline`]: upper bounds by link, bus and CPU, by frame size.

use serde::{Deserialize, Serialize};

use super::KindTag;
use super::figure::{Axes, Ends};
use super::file::BadValue;
use super::hosts::HostSection;
use super::mark::MarkSection;
use super::values::{OneOrMore, rising_bytes};
use crate::host::Host;
use crate::outcome::Dimension;
use crate::parts::{Bus, Offload};
use crate::traffic::FrameSizes;
use crate::units;

/// An experiment that computes bounds by formula: no queue, no randomness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Title: the subject of the experiment, one line.
    #[serde(default)]
    pub title: String,
    /// The work whose figure this is: author, year, title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
    kind: KindTag,
    /// Link speed.
    pub link: String,
    /// Buses to compare.
    pub bus: OneOrMore<Bus>,
    /// Offloads, which change the cost of a frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offloads: Vec<Offload>,
    /// Frame sizes, FCS included.
    pub sizes: OneOrMore<FrameSizes>,
    /// Bytes of each frame that are not payload. The figure shows payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<String>,
    /// Hosts that bound by their CPU; None: no bound by the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSection>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: Ends,
    /// Stated numbers to compare with.
    #[serde(default, rename = "mark", skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSection>,
}

impl Roofline {
    /// Link speed (bit/s).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn link_bps(&self) -> Result<f64, BadValue> {
        let bad = |text: String| BadValue::at("", "link", text);
        let bps = units::parse_bps(&self.link).map_err(|error| bad(error.to_string()))?;
        if bps > 0.0 { Ok(bps) } else { Err(bad(format!("link = \"{}\": must be above 0", self.link))) }
    }

    /// Frame sizes (bytes), rising.
    ///
    /// # Errors
    /// A size that is not one number of bytes.
    pub fn sizes_bytes(&self) -> Result<Vec<f64>, BadValue> {
        rising_bytes(&self.sizes)
    }

    /// Bytes of each frame that are not payload.
    ///
    /// # Errors
    /// They are unreadable, or leave no payload in the smallest frame.
    pub fn headers_bytes(&self) -> Result<f64, BadValue> {
        let Some(text) = &self.headers else { return Ok(0.0) };
        let bytes = units::parse_bytes(text).map_err(|error| BadValue::at("", "headers", error))? as f64;
        let smallest = self.sizes_bytes()?[0];
        if bytes < smallest {
            return Ok(bytes);
        }
        let message = format!("headers = \"{text}\": must be below the smallest frame ({smallest} B)");
        Err(BadValue::at("", "headers", message))
    }

    /// Each host with its varied values in words; one entry without a host if the CPU is left out.
    ///
    /// # Errors
    /// An impossible host, with its place in the file.
    pub fn hosts(&self) -> Result<Vec<(String, Option<Host>)>, BadValue> {
        let Some(section) = &self.host else { return Ok(vec![(String::new(), None)]) };
        let named = |variant: super::hosts::Variant| (variant.names(|_| true).join(", "), Some(variant.host));
        Ok(section.variants()?.into_iter().map(named).collect())
    }

    /// The axes: payload rate by frame size.
    pub(super) fn axes(&self) -> Result<Axes, BadValue> {
        let up = if self.headers.is_some() { "payload" } else { "frame bits" };
        self.figure.axes(("frame size", Dimension::Bytes), (up, Dimension::Bps))
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), BadValue> {
        self.link_bps()?;
        self.sizes_bytes()?;
        self.headers_bytes()?;
        self.hosts()?;
        if self.bus.0.is_empty() {
            return Err(BadValue::at("", "bus", "bus: expected at least one, such as \"pcie-3x8\", or \"none\""));
        }
        Ok(())
    }
}
