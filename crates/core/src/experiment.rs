//! [`Experiment`]: a grid of points with the engines that answer it, read from TOML.

use serde::{Deserialize, Serialize};

use crate::engine::{EngineKind, Point};
use crate::error::{Invalid, ParseError};
use crate::host::Host;
use crate::scheme::Scheme;
use crate::traffic::{Arrivals, FrameSizes, Load, Traffic};
use crate::units;

/// A file that could not be used: the file, the place in it where known, the value and the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FileError {
    /// The file as the user named it.
    pub path: String,
    /// Line, value and accepted form.
    pub message: String,
}

impl FileError {
    /// An impossible value in `path`.
    pub fn invalid(path: &str, error: &Invalid) -> Self {
        Self { path: path.to_owned(), message: error.to_string() }
    }
}

/// Reads any of our TOML files; an error names `path`, line, value and accepted form.
pub fn parse_toml<T: serde::de::DeserializeOwned>(path: &str, text: &str) -> Result<T, FileError> {
    toml::from_str(text)
        .map_err(|error| FileError { path: path.to_owned(), message: error.to_string().trim_end().to_owned() })
}

/// Offered loads: one, a list, or `LOW..HIGH:COUNT` evenly spaced, both ends included.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(pub Vec<Load>);

impl std::str::FromStr for Rates {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = "expected a list such as \"10kpps,20kpps\" or a range such as \"10kpps..300kpps:30\"";
        let error = || ParseError::new("rates", text, form);
        let Some((low, rest)) = text.split_once("..") else {
            let rates: Result<Vec<Load>, _> = text.split(',').map(str::parse).collect();
            return rates.map(Self).map_err(|_| error());
        };
        let (high, count) = rest.split_once(':').ok_or_else(error)?;
        let (low, high): (Load, Load) = (low.parse().map_err(|_| error())?, high.parse().map_err(|_| error())?);
        let count = units::parse_count("rates", count).map_err(|_| error())?;
        if std::mem::discriminant(&low) != std::mem::discriminant(&high)
            || low.amount() >= high.amount()
            || !(2..=100_000).contains(&count)
        {
            return Err(error());
        }
        let step = (high.amount() - low.amount()) / (count - 1) as f64;
        let nth = |index: u64| match low {
            _ if index + 1 == count => high,
            Load::Pps(from) => Load::Pps(from + step * index as f64),
            Load::Bps(from) => Load::Bps(from + step * index as f64),
            Load::LineShare(from) => Load::LineShare(from + step * index as f64),
        };
        Ok(Self((0..count).map(nth).collect()))
    }
}

impl std::fmt::Display for Rates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self.0.iter().map(Load::to_string).collect();
        out.write_str(&texts.join(","))
    }
}

crate::record::serde_as_text!(Rates);

/// A share such as a precision or a confidence, written `"5%"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let share = units::parse_share(text)?;
        if share > 0.0 && share < 1.0 {
            return Ok(Self(share));
        }
        Err(ParseError::new("share", text, "expected a share above 0% and below 100%, such as \"5%\""))
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&units::print_share(self.0))
    }
}

crate::record::serde_as_text!(Share);

/// The traffic of an experiment, its load left to the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSection {
    /// Arrival process.
    #[serde(default = "poisson")]
    pub arrivals: Arrivals,
    /// Frame sizes; several make a dimension of the grid.
    #[serde(default = "smallest")]
    pub sizes: Vec<FrameSizes>,
    /// Offered loads.
    pub rates: Rates,
    /// Link speed.
    #[serde(default = "gigabit")]
    pub link: String,
}

fn poisson() -> Arrivals {
    Arrivals::Poisson
}
fn smallest() -> Vec<FrameSizes> {
    vec![FrameSizes::Fixed(64)]
}
fn gigabit() -> String {
    "1Gbit/s".to_owned()
}

/// The host of an experiment: a preset or every cost, and changes to it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// Name of a preset.
    pub preset: String,
    /// `KEY=VALUE` changes, as for `--set`.
    #[serde(default)]
    pub set: Vec<String>,
}

/// A grid of points, the engines that answer it, and how precisely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What the experiment shows, one line.
    #[serde(default)]
    pub title: String,
    /// Who answers.
    pub engines: Vec<EngineKind>,
    /// The host.
    pub host: HostSection,
    /// Schemes to compare.
    pub schemes: Vec<Scheme>,
    /// The traffic.
    pub traffic: TrafficSection,
    /// Seed of every sampled engine; None: derived and stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Relative half width to reach; 5 % if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Share>,
    /// Confidence of intervals; 95 % if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Share>,
}

impl Experiment {
    /// Reads an experiment file; `path` is named in errors.
    pub fn from_toml(path: &str, text: &str) -> Result<Self, FileError> {
        let experiment: Self = parse_toml(path, text)?;
        experiment.points().map_err(|message| FileError { path: path.to_owned(), message })?;
        Ok(experiment)
    }

    /// The grid, in the order scheme, size, load; or what makes a point impossible.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        let host = self.host()?;
        let link_bps = units::parse_bps(&self.traffic.link).map_err(|error| error.to_string())?;
        let mut points = Vec::new();
        for scheme in &self.schemes {
            for size in &self.traffic.sizes {
                for rate in &self.traffic.rates.0 {
                    let arrivals = self.traffic.arrivals.clone();
                    let traffic = Traffic { arrivals, size: size.clone(), rate: *rate, link_bps };
                    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic };
                    point.validate().map_err(|error| format!("{scheme}: {error}"))?;
                    points.push(point);
                }
            }
        }
        if points.is_empty() || self.engines.is_empty() {
            return Err("nothing to do: engines, schemes, sizes and rates must each name at least one".to_owned());
        }
        Ok(points)
    }

    fn host(&self) -> Result<Host, String> {
        let name = &self.host.preset;
        let mut host = Host::preset(name).ok_or_else(|| {
            format!(
                "host.preset = \"{name}\": there is no such preset; the presets are {}",
                crate::host::PRESETS.join(", ")
            )
        })?;
        for assignment in &self.host.set {
            host.set(assignment).map_err(|error| format!("host.set: {error}"))?;
        }
        host.validate().map_err(|error| format!("host: {error}"))?;
        Ok(host)
    }
}

#[cfg(test)]
mod tests;
