//! `[[mark]]`: a number, a ratio or a direction that somebody has stated, and whether a mark could fail at all.
//!
//! A mark that no outcome can break says nothing: it is refused when its file is read ([`MarkSection::placed`]).

mod check;
mod vacuous;

use serde::{Deserialize, Serialize};

use super::figure::Axes;
use super::file::{BadValue, Step};
use super::values::Share;
use crate::measure::Dimension;

pub use check::{Check, Compared, checks, is_called};
pub(super) use vacuous::{Line, Ruled};

/// `[[mark]]`: what somebody has stated, to be held against a curve. With x and y a point, with one of them a line; with `ratio` or
/// `difference` how two points of curves compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MarkSection {
    /// Place on the x axis, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Place on the y axis, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// The stated interval, `LOW..HIGH` with units; `LOW..` is a least, `..HIGH` a greatest value. Without y it is all that is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_interval: Option<String>,
    /// What it is, in a few words.
    pub label: String,
    /// Who states it, and where.
    pub source: String,
    /// The curve it should lie on, by name; a mark without x is held against that curve's highest value, one without y against the
    /// place where that curve is steepest, or leaves that of `leaves`. Of transfers with nothing along x a setting with its value:
    /// `mtu 9000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The figure it is about, where that is not the drawn one: a figure of the CSV, or of transfers one of `figure.y`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Of a mark with `ratio` or `difference`: the curve that `on` is compared with; `on` itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than: Option<String>,
    /// The place on that curve; x if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than_x: Option<String>,
    /// What `on` is of `than`, `LOW..HIGH`: `1.1..` is more by at least a tenth, `..0.9` less by at least a tenth. Of a mark with `bound`:
    /// what the stated value is of the curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<String>,
    /// By how much `on` exceeds `than`, `LOW..HIGH` in units of the figure: `5%..` of a share is five of a hundred more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// Of a mark without y: the curve that `on` follows up to there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<String>,
    /// How far from the curve it may lie, as a share of the stated value; where that is 0, in its own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Share>,
    /// True: the curve is a bound that the stated value must not exceed; `ratio` says how near it comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// Why it is known not to hold, a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
}

/// How two points of curves compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Than {
    /// The curve that is compared with.
    pub curve: String,
    /// The place on it; None: its highest value.
    pub x: Option<f64>,
    /// True: the ratio is stated; false: the difference.
    pub is_ratio: bool,
    /// What it is to be; an open end is infinite.
    pub range: (f64, f64),
}

/// A mark in base units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    /// Place on the x axis.
    pub x: Option<f64>,
    /// Place on the y axis.
    pub y: Option<f64>,
    /// The stated interval of y; an open end is infinite.
    pub interval: Option<(f64, f64)>,
    /// What it is.
    pub label: String,
    /// Who states it.
    pub source: String,
    /// The curve it should lie on and how near.
    pub on: Option<(String, Option<f64>)>,
    /// The figure it is about, by its key; None: the drawn one.
    pub of: Option<Quantity>,
    /// What `on` is compared with.
    pub than: Option<Than>,
    /// Of a mark without y: the curve that `on` follows up to x.
    pub leaves: Option<String>,
    /// The curve is a bound that y must not exceed.
    pub bound: bool,
    /// Of a bound: what y is of the curve.
    pub of_bound: Option<(f64, f64)>,
    /// Why it is known not to hold.
    pub differs: Option<String>,
}

/// A figure that a mark is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its name in files.
    pub key: String,
    /// Its name for people.
    pub name: String,
    /// What it counts.
    pub dimension: Dimension,
}

impl Mark {
    /// Names of the curves that it takes to judge it.
    pub fn curves(&self) -> impl Iterator<Item = &str> {
        let than = self.than.iter().map(|than| than.curve.as_str());
        self.on.iter().map(|(name, _)| name.as_str()).chain(self.leaves.as_deref()).chain(than)
    }

    /// True where it has a place in the figure: it is about the drawn figure, and states a number or a place.
    pub fn is_drawn(&self) -> bool {
        self.of.is_none() && self.than.is_none() && (self.y.is_some() || self.interval.is_none())
    }
}

/// `LOW..HIGH` of which one end may be left out.
fn range(text: &str, read: impl Fn(&str) -> Result<f64, String>, such_as: &str) -> Result<(f64, f64), String> {
    let form = || format!("\"{text}\": expected LOW..HIGH, LOW.. or ..HIGH, LOW below HIGH, such as \"{such_as}\"");
    let (low, high) = text.split_once("..").ok_or_else(form)?;
    let end = |text: &str, open: f64| if text.trim().is_empty() { Ok(open) } else { read(text) };
    let (low, high) = (end(low, f64::NEG_INFINITY)?, end(high, f64::INFINITY)?);
    if low < high { Ok((low, high)) } else { Err(form()) }
}

impl MarkSection {
    /// The mark on these axes; `index` is its place among the marks, `quantity` finds a figure by its key.
    ///
    /// # Errors
    /// A number cannot be read, the mark has no place, or no outcome could break it.
    pub(super) fn placed(
        &self,
        index: usize,
        axes: &Axes,
        quantity: impl Fn(&str) -> Result<Quantity, String>,
        ruled: &Ruled,
    ) -> Result<Mark, BadValue> {
        let mark = self.read(index, axes, quantity)?;
        vacuous::refuse(&mark, axes, ruled).map_err(|(key, why)| self.bad(index, key, &why))?;
        Ok(mark)
    }

    fn bad(&self, index: usize, key: &'static str, why: &str) -> BadValue {
        let message = format!("mark \"{}\": {why}", self.label);
        BadValue { place: vec![Step::Key("mark"), Step::Item(index), Step::Key(key)], message }
    }

    fn read(
        &self,
        index: usize,
        axes: &Axes,
        quantity: impl Fn(&str) -> Result<Quantity, String>,
    ) -> Result<Mark, BadValue> {
        let bad = |key: &'static str, why: String| self.bad(index, key, &why);
        let of = self.of.as_deref().map(|key| quantity(key).map_err(|why| bad("of", why))).transpose()?;
        let up = of.as_ref().map_or(axes.y.dimension, |of| of.dimension);
        let read = |key: &'static str, dimension: Dimension, text: &Option<String>| {
            let number = |text: &str| dimension.parse(text).map_err(|error| bad(key, format!("{key}: {error}")));
            text.as_deref().map(number).transpose()
        };
        let ends = |key: &'static str, dimension: Dimension, text: &Option<String>, such_as: &str| {
            let number = |text: &str| dimension.parse(text).map_err(|error| error.to_string());
            let ends = text.as_deref().map(|text| range(text, number, such_as));
            ends.transpose().map_err(|why| bad(key, format!("{key} = {why}")))
        };
        let (x, y) = (read("x", axes.x.dimension, &self.x)?, read("y", up, &self.y)?);
        let than_x = read("than_x", axes.x.dimension, &self.than_x)?.or(x);
        let interval = ends("y_interval", up, &self.y_interval, "30us..61us")?;
        let ratio = ends("ratio", Dimension::Number, &self.ratio, "1.1..")?;
        let difference = ends("difference", up, &self.difference, "5%..")?;
        let compares = difference.is_some() || ratio.is_some() && !self.bound;
        if !compares && x.is_none() && y.is_none() && interval.is_none() {
            return Err(bad("label", "expected x, y or both, y_interval, ratio or difference".to_owned()));
        }
        if ratio.is_some() && difference.is_some() {
            return Err(bad("difference", "ratio and difference: expected one of them".to_owned()));
        }
        if (self.than.is_some() || self.than_x.is_some()) && !compares {
            let key = if self.than.is_some() { "than" } else { "than_x" };
            return Err(bad(key, "`than` and `than_x` need `ratio` or `difference`".to_owned()));
        }
        if compares && (self.on.is_none() || y.is_some() || interval.is_some() || self.tolerance.is_some()) {
            let form =
                "`ratio` and `difference` compare the curve `on` with `than`; give `on`, no y, interval or tolerance";
            return Err(bad(if ratio.is_some() { "ratio" } else { "difference" }, form.to_owned()));
        }
        if self.leaves.is_some() && (self.on.is_none() || y.is_some() || compares) {
            let form = "`leaves` says where the curve `on` leaves another; give x and `on`, no y";
            return Err(bad("leaves", form.to_owned()));
        }
        if self.bound && (self.on.is_none() || y.is_none() || self.tolerance.is_some() || ratio.is_none()) {
            let form = "`bound` says that y must not exceed the curve `on`, and `ratio` how near it comes, such as \
                        \"0.9..1\"; give y, on and ratio, no tolerance";
            return Err(bad("bound", form.to_owned()));
        }
        let than = compares.then(|| Than {
            curve: self.than.clone().or_else(|| self.on.clone()).unwrap_or_default(),
            x: than_x,
            is_ratio: ratio.is_some(),
            range: ratio.or(difference).unwrap_or_default(),
        });
        Ok(Mark {
            x,
            y,
            interval,
            label: self.label.clone(),
            source: self.source.clone(),
            on: self.on.clone().map(|name| (name, self.tolerance.map(|share| share.0))),
            of,
            than,
            leaves: self.leaves.clone(),
            bound: self.bound,
            of_bound: ratio.filter(|_| self.bound),
            differs: self.differs.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
