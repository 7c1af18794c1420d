//! [`Mlfrr`]: delivered load by offered load, from the formulas of the maximum loss-free receive rate (Slinkin 2018,
//! section II).

use serde::{Deserialize, Serialize};

use super::KindTag;
use super::figure::{Axes, Ends};
use super::file::{BadValue, Step};
use super::hosts::HostSection;
use super::mark::MarkSection;
use super::values::Rates;
use crate::host::Host;
use crate::outcome::Dimension;
use crate::traffic::{FrameSizes, Traffic};
use crate::units;

/// Traffic of a formula: a rate without an arrival process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FluidTraffic {
    /// Frame sizes; only their mean is used.
    #[serde(default = "smallest")]
    pub size: FrameSizes,
    /// Offered loads.
    pub rates: Rates,
    /// Link speed, for loads given as shares of the line rate.
    #[serde(default = "gigabit")]
    pub link: String,
}

fn smallest() -> FrameSizes {
    FrameSizes::Fixed(64)
}
fn gigabit() -> String {
    "1Gbit/s".to_owned()
}

/// `[[polling]]`: a host that polls periodically.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PollingSection {
    /// T: period of the timer.
    pub period: String,
    /// Q: most packets per period.
    pub quota: u64,
    /// k_p: packets per softirq; Q if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
}

/// A polling host in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Polled {
    /// T (s).
    pub period_s: f64,
    /// Q (packets).
    pub quota: u64,
    /// k_p (packets).
    pub batch: u64,
}

/// An experiment that computes formulas instead of running engines: no queue, no randomness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Mlfrr {
    /// Title: the subject of the experiment, one line.
    #[serde(default)]
    pub title: String,
    /// The work whose figure this is: author, year, title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub paper: String,
    kind: KindTag,
    /// The hosts.
    pub host: HostSection,
    /// The traffic.
    pub traffic: FluidTraffic,
    /// Polling hosts, compared with the interrupt-driven host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub polling: Vec<PollingSection>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: Ends,
    /// Stated numbers to compare with.
    #[serde(default, rename = "mark", skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSection>,
}

impl Mlfrr {
    /// Each host, and its varied values in words.
    ///
    /// # Errors
    /// An impossible host, with its place in the file.
    pub fn hosts(&self) -> Result<Vec<(String, Host)>, BadValue> {
        let named = |variant: super::hosts::Variant| (variant.names(|_| true).join(", "), variant.host);
        Ok(self.host.variants()?.into_iter().map(named).collect())
    }

    /// Each polling host in base units.
    ///
    /// # Errors
    /// An impossible value, with its place in the file.
    pub fn polled(&self) -> Result<Vec<Polled>, BadValue> {
        let one = |(index, section): (usize, &PollingSection)| {
            let bad = |key: &'static str, message: String| BadValue {
                place: vec![Step::Key("polling"), Step::Item(index), Step::Key(key)],
                message,
            };
            let period_s = units::parse_time_s(&section.period).map_err(|error| bad("period", error.to_string()))?;
            if period_s <= 0.0 {
                return Err(bad("period", format!("period = \"{}\": must be above 0", section.period)));
            }
            if section.quota == 0 {
                return Err(bad("quota", "quota = 0: must be at least 1".to_owned()));
            }
            let batch = section.batch.unwrap_or(section.quota);
            if !(1..=section.quota).contains(&batch) {
                return Err(bad("batch", format!("batch = {batch}: must be from 1 to the quota ({})", section.quota)));
            }
            Ok(Polled { period_s, quota: section.quota, batch })
        };
        self.polling.iter().enumerate().map(one).collect()
    }

    /// Offered loads (pps), rising.
    ///
    /// # Errors
    /// A load has no packet rate: the frame sizes are in a file that was not read, or the link speed is unreadable.
    pub fn loads_pps(&self) -> Result<Vec<f64>, BadValue> {
        let link_bps = units::parse_bps(&self.traffic.link).map_err(|error| BadValue::at("traffic", "link", error))?;
        let traffic = Traffic { link_bps, size: self.traffic.size.clone(), ..Traffic::default() };
        let loads: Option<Vec<f64>> = self.traffic.rates.0.iter().map(|load| traffic.rate_pps(*load)).collect();
        let mut loads = loads.ok_or_else(|| {
            let message =
                format!("size = \"{}\": a formula needs a size such as 64B, imix or mci1998-like", self.traffic.size);
            BadValue::at("traffic", "size", message)
        })?;
        loads.sort_by(f64::total_cmp);
        Ok(loads)
    }

    /// The axes: delivered load by offered load.
    pub(super) fn axes(&self) -> Result<Axes, BadValue> {
        self.figure.axes(("offered load", Dimension::Pps), ("delivered load", Dimension::Pps))
    }

    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), BadValue> {
        self.hosts()?;
        self.polled()?;
        self.loads_pps()?;
        if self.traffic.size.mean_bytes().is_none() {
            let message =
                format!("size = \"{}\": a formula needs a size such as 64B, imix or mci1998-like", self.traffic.size);
            return Err(BadValue::at("traffic", "size", message));
        }
        Ok(())
    }
}
