//! [`Transfers`]: real transfers with settings varied by a [`Design`], repeated in random order.

mod device;
mod measure;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::KindTag;
use super::design::Design;
use super::figure::{Axes, Axis, Scale};
use super::file::BadValue;
use super::mark::{Line, MarkSection};
use super::values::Share;
use crate::repeats::Repeats;
use crate::units;

pub use device::{Coalesce, Feature, Pause};
pub use measure::TransferMeasure;
pub use setting::{Key, Lack, QdiscKind, Setting};

/// How an experiment of transfers is drawn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferFigure {
    /// The setting along the x axis; None: tables only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<Key>,
    /// The figure on the y axis.
    #[serde(default)]
    pub y: TransferMeasure,
    /// More figures of the same unit for the same axis, one curve each: `["receiver_kernel_share"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<TransferMeasure>,
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
    /// Ends of the x axis, `LOW..HIGH` with units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_range: Option<String>,
    /// Ends of the y axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_range: Option<String>,
}

impl TransferFigure {
    /// The figures that are drawn.
    pub fn measures(&self) -> impl Iterator<Item = TransferMeasure> {
        std::iter::once(self.y).chain(self.also.iter().copied())
    }
}

/// Name of a curve: its settings that are not along x. The figure's name is added if several figures are drawn, or
/// there are no such settings.
pub fn curve_name(settings: &[String], measure: TransferMeasure, also: &[TransferMeasure]) -> String {
    let label = (settings.is_empty() || !also.is_empty()).then(|| measure.label().to_owned());
    settings.iter().cloned().chain(label).collect::<Vec<_>>().join(", ")
}

/// A transfer experiment, as written in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Transfers {
    /// Title: the subject of the experiment, one line.
    #[serde(default)]
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<KindTag>,
    /// Which combinations are measured.
    #[serde(default)]
    pub design: Design,
    /// Repeats of each configuration.
    #[serde(default = "five")]
    pub repeats: u32,
    /// Repeats of a configuration end once the relative half width of the drawn figure's mean is at most this, after at
    /// least `repeats`. None: exactly `repeats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Share>,
    /// Most repeats if a precision is given; 5 times `repeats` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repeats: Option<u32>,
    /// Measured time of a repeat, if the method ends by time.
    #[serde(default = "one_second")]
    pub time: String,
    /// Warm-up; None: the default of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<String>,
    /// Seed of the random order of measurements.
    #[serde(default = "one")]
    pub seed: u64,
    /// Settings that all configurations share.
    #[serde(default)]
    pub fixed: BTreeMap<Key, String>,
    /// Settings that vary, with their levels; the first is the baseline.
    pub vary: BTreeMap<Key, Vec<String>>,
    /// How it is drawn.
    #[serde(default)]
    pub figure: TransferFigure,
    /// Stated numbers to compare with.
    #[serde(default, rename = "mark", skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSection>,
}

fn five() -> u32 {
    5
}
fn one() -> u64 {
    1
}
fn one_second() -> String {
    "1s".to_owned()
}

/// A setting that varies, with its levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// The setting.
    pub key: Key,
    /// Its levels, the baseline first.
    pub levels: Vec<Setting>,
}

impl Transfers {
    /// Returns the setting on the x axis; `None` if the file names no such setting, or the setting has only one level.
    /// Without it there is no figure, and the effect of every setting is reported.
    pub fn along_x(&self, factors: &[Factor]) -> Option<Key> {
        let key = self.figure.x?;
        factors.iter().any(|factor| factor.key == key && factor.levels.len() > 1).then_some(key)
    }

    /// The settings that vary, in the order of [`Key`].
    ///
    /// # Errors
    /// An impossible level, with the accepted form.
    pub fn factors(&self) -> Result<Vec<Factor>, BadValue> {
        let factor = |(key, texts): (&Key, &Vec<String>)| {
            let bad = |message: String| BadValue::at("vary", key.name(), message);
            let levels: Result<Vec<Vec<Setting>>, BadValue> = texts
                .iter()
                .enumerate()
                .map(|(index, text)| key.levels(text).map_err(|error| bad(error.to_string()).item(index)))
                .collect();
            let levels = levels?.concat();
            if levels.is_empty() {
                return Err(bad(format!("{}: expected at least one level", key.name())));
            }
            if let Some(twice) = levels.iter().enumerate().find(|(at, level)| levels[..*at].contains(level)) {
                return Err(bad(format!("{} has the level {} twice", key.name(), twice.1)));
            }
            Ok(Factor { key: *key, levels })
        };
        self.vary.iter().map(factor).collect()
    }

    /// The settings of all configurations.
    ///
    /// # Errors
    /// An impossible value, or a setting that also varies.
    pub fn fixed(&self) -> Result<Vec<Setting>, BadValue> {
        let setting = |(key, text): (&Key, &String)| {
            let bad = |message: String| BadValue::at("fixed", key.name(), message);
            if self.vary.contains_key(key) {
                return Err(bad(format!("{} is fixed and varies: leave one of them out", key.name())));
            }
            key.parse(text).map_err(|error| bad(error.to_string()))
        };
        self.fixed.iter().map(setting).collect()
    }

    /// Length of a repeat (s).
    ///
    /// # Errors
    /// It is not a time.
    pub fn time_s(&self) -> Result<f64, BadValue> {
        positive_s(&self.time).map_err(|message| BadValue::at("", "time", message))
    }

    /// Warm-up (s); None if the file gives none.
    ///
    /// # Errors
    /// It is not a time.
    pub fn warmup_s(&self) -> Result<Option<f64>, BadValue> {
        let parsed = self.warmup.as_deref().map(units::parse_time_s).transpose();
        parsed.map_err(|error| BadValue::at("", "warmup", error))
    }

    /// How many repeats each configuration gets.
    ///
    /// # Errors
    /// An impossible number of repeats.
    pub fn repeats(&self) -> Result<Repeats, BadValue> {
        let repeats = Repeats::new(self.repeats, self.precision.map(|share| share.0), self.max_repeats);
        repeats.map_err(|message| BadValue::at("", "repeats", message))
    }

    /// Returns the names of the report's curves. If a setting is along x: one curve per combination of the other
    /// settings. If not: one per configuration, and one per setting with its value.
    ///
    /// # Errors
    /// An impossible level or design.
    pub(super) fn ruled(&self) -> Result<Vec<Line>, BadValue> {
        let factors = self.factors()?;
        let counts: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        let designed = self.design.configurations(&counts).map_err(|message| BadValue::at("", "design", message))?;
        let x = self.along_x(&factors);
        let places = factors.iter().filter(|factor| Some(factor.key) == x).flat_map(|factor| &factor.levels);
        let places: Vec<f64> = places.filter_map(Setting::number).collect();
        let reach = places.iter().copied().reduce(f64::min).zip(places.iter().copied().reduce(f64::max));
        let mut names: Vec<String> = Vec::new();
        for config in &designed {
            let words = factors.iter().zip(config).filter(|(factor, _)| Some(factor.key) != x);
            let words: Vec<String> =
                words.map(|(factor, level)| format!("{} {}", factor.key, factor.levels[*level])).collect();
            names.extend(self.figure.measures().map(|measure| curve_name(&words, measure, &self.figure.also)));
            names.extend(words.into_iter().filter(|_| x.is_none()));
        }
        names.sort();
        names.dedup();
        Ok(names.into_iter().map(|name| Line { name, reach, settings: Vec::new() }).collect())
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first impossible value, with its place in the file.
    pub fn check(&self) -> Result<(), BadValue> {
        self.time_s()?;
        self.warmup_s()?;
        self.fixed()?;
        let factors = self.factors()?;
        self.repeats()?;
        let levels: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        self.design.configurations(&levels).map_err(|message| BadValue::at("", "design", message))?;
        self.axes().map(drop)
    }

    /// Returns the axes of the experiment's figure.
    ///
    /// # Errors
    /// The setting along x is not numeric or does not vary, or an end of an axis is impossible.
    pub fn axes(&self) -> Result<Axes, BadValue> {
        let figure = &self.figure;
        let key = self.figure.x.unwrap_or(Key::Block);
        let dimension = key.dimension();
        if figure.x.is_some() && (dimension.is_none() || !self.vary.contains_key(&key)) {
            let message =
                format!("x = \"{}\": expected a numeric setting that [vary] varies, such as block", key.name());
            return Err(BadValue::at("figure", "x", message));
        }
        let (x, y) = (dimension.unwrap_or(crate::outcome::Dimension::Number), figure.y);
        if let Some(other) = figure.also.iter().find(|other| other.dimension() != y.dimension() || **other == y) {
            let message = format!("also = \"{other}\": expected other figures of the unit of y = \"{y}\"");
            return Err(BadValue::at("figure", "also", message));
        }
        Ok(Axes {
            x: Axis::new(key.label(), x, figure.x_scale, "x_range", figure.x_range.as_deref())?,
            y: Axis::new(y.label(), y.dimension(), figure.y_scale, "y_range", figure.y_range.as_deref())?,
        })
    }
}

fn positive_s(text: &str) -> Result<f64, String> {
    let s = units::parse_time_s(text).map_err(|error| error.to_string())?;
    if s > 0.0 { Ok(s) } else { Err(format!("\"{text}\": expected a time above 0, such as \"1s\"")) }
}
