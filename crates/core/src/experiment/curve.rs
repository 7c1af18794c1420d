//! What an experiment comes to: curves, and how far the stated numbers lie from them.

use serde::{Deserialize, Serialize};

use super::figure::Mark;
use crate::engine::{EngineKind, Fidelity};
use crate::outcome::Figure;

/// An engine with what it is told beyond the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Answerer {
    /// Which world.
    pub engine: EngineKind,
    /// The model's fidelity; None for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
}

impl std::fmt::Display for Answerer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.engine, self.fidelity) {
            (EngineKind::Wire, _) => write!(out, "measured"),
            (engine, Some(fidelity)) => write!(out, "{engine} ({fidelity})"),
            (engine, None) => write!(out, "{engine}"),
        }
    }
}

/// A point of a curve in base units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    /// Place on the x axis.
    pub x: f64,
    /// Value, with its interval where it was sampled.
    pub y: Figure,
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What varies between curves: scheme, host, traffic.
    pub name: String,
    /// Who answered; None for a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answerer: Option<Answerer>,
    /// By rising x.
    pub dots: Vec<Dot>,
}

impl Curve {
    /// The curve at `x`, on the straight line between its neighbours; None outside.
    pub fn at(&self, x: f64) -> Option<f64> {
        let after = self.dots.iter().position(|dot| dot.x >= x)?;
        let right = self.dots[after];
        if right.x == x {
            return Some(right.y.value);
        }
        let left = self.dots.get(after.checked_sub(1)?)?;
        let share = (x - left.x) / (right.x - left.x);
        Some(left.y.value + share * (right.y.value - left.y.value))
    }

    /// The highest value; None for a curve without points.
    pub fn highest(&self) -> Option<f64> {
        self.dots.iter().map(|dot| dot.y.value).reduce(f64::max)
    }
}

/// How a curve compares with a stated number.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Who answered.
    pub answerer: Option<Answerer>,
    /// The curve's value at the mark; at its highest for a mark without x.
    pub value: f64,
    /// Value minus stated, as a share of the stated; the bare difference where that is 0.
    pub error: f64,
    /// Whether that is within the mark's tolerance; None where it has none.
    pub within: Option<bool>,
}

/// The mark against each curve of the name it should lie on, as far as they reach that place.
pub fn checks(mark: &Mark, curves: &[Curve]) -> Vec<Check> {
    let (Some((name, tolerance)), Some(stated)) = (&mark.on, mark.y) else { return Vec::new() };
    let check = |curve: &Curve| {
        let value = match mark.x {
            Some(x) => curve.at(x)?,
            None => curve.highest()?,
        };
        let error = (value - stated) / if stated == 0.0 { 1.0 } else { stated };
        let within = tolerance.map(|tolerance| error.abs() <= tolerance);
        Some(Check { answerer: curve.answerer, value, error, within })
    };
    curves.iter().filter(|curve| curve.name == *name).filter_map(check).collect()
}
