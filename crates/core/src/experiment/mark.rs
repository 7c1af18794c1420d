//! `[[mark]]`: a published number, ratio or difference that a curve is compared with.
//!
//! A mark that every possible outcome satisfies is refused when the file is read ([`MarkSection::placed`]).

mod check;
mod vacuous;

use serde::{Deserialize, Serialize};

use super::figure::Axes;
use super::file::{BadValue, Step};
use super::values::Share;
use crate::outcome::Dimension;

pub use check::{Check, Compared, MarkVerdict, checks, is_called};
pub(super) use vacuous::{Line, Ruled};

/// `[[mark]]`: a statement that a curve is compared with. x and y together state a point, either alone a line; `ratio`
/// or `difference` state how two points of curves compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MarkSection {
    /// Stated position on the x axis, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Stated value, with its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// Stated interval, `LOW..HIGH` with units; `LOW..` and `..HIGH` have one end. It may replace y.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y_interval: Option<String>,
    /// Short description.
    pub label: String,
    /// Who states it, and where (a citation).
    pub source: String,
    /// Name of the curve to compare with. A mark without x is compared with the curve's highest value; a mark without y
    /// with the x where the curve is steepest, or where it begins to differ from the curve `leaves`. In a transfer
    /// experiment without an x axis: a setting with its value, `mtu 9000`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The figure that the mark states, if not the drawn one: a column of the CSV; in a transfer experiment a value of
    /// `figure.y`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// With `ratio` or `difference`: name of the curve that `on` is compared with; `on` itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than: Option<String>,
    /// With `ratio` or `difference`: x on the curve `than`; x itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub than_x: Option<String>,
    /// Stated ratio of `on` to `than`, `LOW..HIGH`: `1.1..` means at least a tenth more, `..0.9` at least a tenth less.
    /// With `bound`: ratio of the stated value to the curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<String>,
    /// Stated difference `on` minus `than`, `LOW..HIGH` in the figure's unit: `5%..` means at least five percentage
    /// points more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// Without y: name of another curve. At x, the curve `on` begins to differ from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<String>,
    /// Largest accepted distance between curve and stated value, relative to the stated value; if the stated value is
    /// 0, in the unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Share>,
    /// True: the curve is an upper bound of the stated value; `ratio` states how close the value comes to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// Known reason why the mark does not hold here, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
}

/// How two points of curves should compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Than {
    /// Name of the curve that `on` is compared with.
    pub curve: String,
    /// Its x; None: the x of its highest value.
    pub x: Option<f64>,
    /// True: their ratio is stated; false: their difference.
    pub is_ratio: bool,
    /// The stated range of ratio or difference; an open end is infinite.
    pub range: (f64, f64),
}

/// A mark in base units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    /// Stated position on the x axis.
    pub x: Option<f64>,
    /// Stated value.
    pub y: Option<f64>,
    /// The stated interval of y; an open end is infinite.
    pub interval: Option<(f64, f64)>,
    /// Short description.
    pub label: String,
    /// Who states it, and where (a citation).
    pub source: String,
    /// Name of the curve to compare with, and the accepted relative distance.
    pub on: Option<(String, Option<f64>)>,
    /// The figure that it states; None: the drawn one.
    pub of: Option<Quantity>,
    /// The point that `on` is compared with.
    pub than: Option<Than>,
    /// Without y: name of another curve. At x, the curve `on` begins to differ from it.
    pub leaves: Option<String>,
    /// True: the curve is an upper bound of y.
    pub bound: bool,
    /// For a bound: stated range of y divided by the curve.
    pub of_bound: Option<(f64, f64)>,
    /// Known reason why the mark does not hold here, one sentence.
    pub differs: Option<String>,
}

/// A figure that a mark states.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its key in files.
    pub key: String,
    /// Its name on screens and in figures.
    pub name: String,
    /// Its dimension.
    pub dimension: Dimension,
}

impl Mark {
    /// Names of the curves that are needed to check it.
    pub fn curves(&self) -> impl Iterator<Item = &str> {
        let than = self.than.iter().map(|than| than.curve.as_str());
        self.on.iter().map(|(name, _)| name.as_str()).chain(self.leaves.as_deref()).chain(than)
    }

    /// True if the mark can be drawn: it states a number or an x of the drawn figure.
    pub fn is_drawn(&self) -> bool {
        self.of.is_none() && self.than.is_none() && (self.y.is_some() || self.interval.is_none())
    }
}

/// Reads `LOW..HIGH`; one of the ends may be missing.
fn range(text: &str, read: impl Fn(&str) -> Result<f64, String>, such_as: &str) -> Result<(f64, f64), String> {
    let form = || format!("\"{text}\": expected LOW..HIGH, LOW.. or ..HIGH, LOW below HIGH, such as \"{such_as}\"");
    let (low, high) = text.split_once("..").ok_or_else(form)?;
    let end = |text: &str, open: f64| if text.trim().is_empty() { Ok(open) } else { read(text) };
    let (low, high) = (end(low, f64::NEG_INFINITY)?, end(high, f64::INFINITY)?);
    if low < high { Ok((low, high)) } else { Err(form()) }
}

impl MarkSection {
    /// Reads the mark in base units, by the dimensions of `axes`. `index`: its position in the list of marks;
    /// `quantity`: finds a figure by its key; `ruled`: facts of the experiment that are known before it runs.
    ///
    /// # Errors
    /// A number or range is unreadable, a figure or curve is unknown, the mark states neither x nor y nor a comparison,
    /// its keys contradict each other, or its verdict is the same for every possible outcome.
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
