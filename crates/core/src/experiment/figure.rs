//! How an experiment is drawn: its axes.

use serde::{Deserialize, Serialize};

use super::file::BadValue;
use crate::error::ParseError;
use crate::outcome::{Dimension, Measure};

/// Linear or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal distances are equal differences.
    #[default]
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

/// Quantity on the x axis of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Across {
    /// The offered load.
    #[default]
    Rate,
    /// The frame size.
    Size,
    /// A cost or size of the host, by its key.
    Host(String),
}

impl std::str::FromStr for Across {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "rate" => Ok(Self::Rate),
            "size" => Ok(Self::Size),
            key if crate::host::KEYS.contains(&key) && !crate::host::TEXT_KEYS.contains(&key) => {
                Ok(Self::Host(key.to_owned()))
            }
            _ => {
                let keys: Vec<&str> =
                    crate::host::KEYS.iter().copied().filter(|key| !crate::host::TEXT_KEYS.contains(key)).collect();
                let form = format!("expected rate, size, or a key of the host that [host] varies: {}", keys.join(", "));
                Err(ParseError::new("figure x", text, form))
            }
        }
    }
}

impl std::fmt::Display for Across {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rate => out.write_str("rate"),
            Self::Size => out.write_str("size"),
            Self::Host(key) => out.write_str(key),
        }
    }
}

crate::units::serde_as_text!(Across);

/// `[figure]` of a grid: which quantities are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FigureSection {
    /// Quantity on the x axis.
    #[serde(default)]
    pub x: Across,
    /// Quantity on the y axis.
    #[serde(default = "throughput")]
    pub y: Measure,
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
    /// Ends of the x axis, `LOW..HIGH` with units; None: chosen to fit the points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_range: Option<String>,
    /// Ends of the y axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_range: Option<String>,
}

impl Default for FigureSection {
    fn default() -> Self {
        Self {
            x: Across::Rate,
            y: throughput(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            x_range: None,
            y_range: None,
        }
    }
}

fn throughput() -> Measure {
    crate::outcome::THROUGHPUT
}

/// `[figure]` of an experiment whose kind determines the axes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
    /// Ends of the x axis, `LOW..HIGH` with units; None: chosen to fit the curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_range: Option<String>,
    /// Ends of the y axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_range: Option<String>,
}

impl Ends {
    /// The axes, from the name and dimension of x and of y.
    pub(super) fn axes(&self, x: (&str, Dimension), y: (&str, Dimension)) -> Result<Axes, BadValue> {
        Ok(Axes {
            x: Axis::new(x.0, x.1, self.x_scale, "x_range", self.x_range.as_deref())?,
            y: Axis::new(y.0, y.1, self.y_scale, "y_range", self.y_range.as_deref())?,
        })
    }
}

/// An axis, ready to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of its quantity, without the unit.
    pub name: String,
    /// Dimension of its numbers.
    pub dimension: Dimension,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Ends in base units; None: chosen to fit the points.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// Makes an axis. `ends`: text of the ends, if given; `key`: the key of `[figure]` that has this text, for the
    /// error.
    ///
    /// # Errors
    /// The ends are unreadable or impossible.
    pub(super) fn new(
        name: impl Into<String>,
        dimension: Dimension,
        scale: Scale,
        key: &'static str,
        ends: Option<&str>,
    ) -> Result<Self, BadValue> {
        let bad = |message: String| BadValue::at("figure", key, message);
        let range = match ends {
            None => None,
            Some(text) => {
                let form = "expected LOW..HIGH with units, LOW below HIGH, such as \"0pps..300kpps\"";
                let (low, high) = text.split_once("..").ok_or_else(|| bad(format!("{key} = \"{text}\": {form}")))?;
                let end = |text: &str| dimension.parse(text).map_err(|error| bad(format!("{key}: {error}")));
                let (low, high) = (end(low)?, end(high)?);
                if low >= high {
                    return Err(bad(format!("{key} = \"{text}\": {form}")));
                }
                if scale == Scale::Log && low <= 0.0 {
                    return Err(bad(format!("{key} = \"{text}\": a logarithmic axis must begin above 0")));
                }
                Some((low, high))
            }
        };
        Ok(Self { name: name.into(), dimension, scale, range })
    }
}

/// Both axes of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
}
