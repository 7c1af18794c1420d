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
    /// The curve, where the mark does not name it.
    pub curve: Option<String>,
    /// Who answered.
    pub answerer: Option<Answerer>,
    /// The curve's value at the mark; at its highest for a mark without x.
    pub value: f64,
    /// Value minus stated, as a share of the stated; the bare difference where that is 0.
    pub error: f64,
    /// Whether that is within the mark's tolerance, or the value within the stated interval; None where there is neither.
    pub within: Option<bool>,
}

/// Curves of so many names are few enough that a mark which names none is held against each.
const FEW: usize = 2;

/// The mark against each curve of the name it should lie on, as far as they reach that place; against all where it names none and they
/// are few.
pub fn checks(mark: &Mark, curves: &[Curve]) -> Vec<Check> {
    let Some(stated) = mark.y else { return Vec::new() };
    let (on, tolerance) = mark.on.as_ref().map_or((None, None), |(name, tolerance)| (Some(name), *tolerance));
    let names: std::collections::BTreeSet<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    if on.is_none() && names.len() > FEW {
        return Vec::new();
    }
    let check = |curve: &Curve| {
        let value = match mark.x {
            Some(x) => curve.at(x)?,
            None => curve.highest()?,
        };
        let error = (value - stated) / if stated == 0.0 { 1.0 } else { stated };
        let inside = mark.interval.map(|(low, high)| (low..=high).contains(&value));
        let within = tolerance.map(|tolerance| error.abs() <= tolerance).or(inside);
        let name = (on.is_none() && names.len() > 1).then(|| curve.name.clone());
        Some(Check { curve: name, answerer: curve.answerer, value, error, within })
    };
    curves.iter().filter(|curve| on.is_none_or(|name| curve.name == *name)).filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, y: f64) -> Curve {
        let dots = [1.0, 3.0].map(|x| Dot { x, y: Figure::exact(y) });
        Curve { name: name.to_owned(), answerer: None, dots: dots.to_vec() }
    }

    /// A mark that names no curve is held against each where there are few, by its stated interval.
    #[test]
    fn every_stated_number_has_its_distance() {
        let mark = Mark {
            x: Some(2.0),
            y: Some(10.0),
            interval: Some((9.0, 12.0)),
            label: "a number".to_owned(),
            source: "a table".to_owned(),
            on: None,
        };
        let found = checks(&mark, &[curve("one", 11.0), curve("other", 13.0)]);
        let told: Vec<_> = found.iter().map(|check| (check.curve.as_deref(), check.within)).collect();
        assert_eq!(told, [(Some("one"), Some(true)), (Some("other"), Some(false))]);
        assert!((found[1].error - 0.3).abs() < 1e-12);
        assert_eq!(checks(&mark, &[curve("alone", 13.0)])[0].curve, None);
        // Of many it is not known which is meant.
        assert!(checks(&mark, &[curve("one", 11.0), curve("other", 13.0), curve("third", 13.0)]).is_empty());
        let named = Mark { on: Some(("other".to_owned(), Some(0.5))), ..mark };
        let found = checks(&named, &[curve("one", 11.0), curve("other", 13.0), curve("third", 13.0)]);
        assert_eq!(found.iter().map(|check| check.within).collect::<Vec<_>>(), [Some(true)], "the tolerance counts");
    }
}
