//! Curves: the results of an experiment.

use serde::{Deserialize, Serialize};

use crate::engine::{EngineKind, Fidelity};
use crate::outcome::Figure;

/// An engine, and its settings that distinguish curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answerer {
    /// The kind of engine.
    pub engine: EngineKind,
    /// The model's fidelity; None for other engines.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dot {
    /// Position on the x axis.
    pub x: f64,
    /// Value, with its confidence interval if it was sampled.
    pub y: Figure,
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// Name that distinguishes the curve from others: scheme, host, traffic.
    pub name: String,
    /// The engine that gave the values; None for a formula.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answerer: Option<Answerer>,
    /// The points, by rising x.
    pub dots: Vec<Dot>,
}

/// Relative difference above which two curves count as apart. It exceeds the difference of two simulation runs with a
/// precision of 2 %.
const APART: f64 = 0.05;

impl Curve {
    /// Value at `x`, interpolated linearly; None outside the curve.
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

    /// The interval of the point at `x`; None if there is no point at `x` or it was not sampled.
    pub fn interval_at(&self, x: f64) -> Option<(f64, f64)> {
        let ends = self.dots.iter().find(|dot| dot.x == x)?.y.interval?;
        Some((ends.low, ends.high))
    }

    /// x of the steepest part: the middle between the two neighbouring points with the largest slope. None for fewer
    /// than two points.
    pub fn steepest(&self) -> Option<f64> {
        let steps = self.dots.windows(2).filter(|pair| pair[1].x > pair[0].x);
        let slope = |pair: &[Dot]| ((pair[1].y.value - pair[0].y.value) / (pair[1].x - pair[0].x)).abs();
        let steepest = steps.max_by(|a, b| slope(a).total_cmp(&slope(b)))?;
        Some((steepest[0].x + steepest[1].x) / 2.0)
    }

    /// First x at which this curve differs from `other` by more than 5 % of the value of `other`. `None` if there is no
    /// such x, or if it is the curve's first point.
    pub fn leaves(&self, other: &Self) -> Option<f64> {
        let apart = |dot: &Dot| {
            let theirs = other.at(dot.x)?;
            Some((dot.y.value - theirs).abs() > APART * theirs.abs())
        };
        let first = self.dots.iter().position(|dot| apart(dot) == Some(true))?;
        (first > 0).then(|| self.dots[first].x)
    }

    /// The highest value; None if the curve has no points.
    pub fn highest(&self) -> Option<f64> {
        self.highest_dot().map(|dot| dot.y.value)
    }

    /// The point with the highest value; None if the curve has no points.
    pub fn highest_dot(&self) -> Option<&Dot> {
        self.dots.iter().reduce(|best, dot| if dot.y.value > best.y.value { dot } else { best })
    }
}
