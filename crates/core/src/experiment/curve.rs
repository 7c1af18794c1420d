//! What an experiment comes to: curves, and how far the stated numbers lie from them.

use serde::{Deserialize, Serialize};

use super::figure::Mark;
use crate::engine::{EngineKind, Fidelity};
use crate::outcome::Figure;

/// An engine with what it is told beyond the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dot {
    /// Place on the x axis.
    pub x: f64,
    /// Value, with its interval where it was sampled.
    pub y: Figure,
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    /// The middle of the step over which it is steepest; None for fewer than two points.
    pub fn steepest(&self) -> Option<f64> {
        let steps = self.dots.windows(2).filter(|pair| pair[1].x > pair[0].x);
        let slope = |pair: &[Dot]| ((pair[1].y.value - pair[0].y.value) / (pair[1].x - pair[0].x)).abs();
        let steepest = steps.max_by(|a, b| slope(a).total_cmp(&slope(b)))?;
        Some((steepest[0].x + steepest[1].x) / 2.0)
    }

    /// Where it leaves another curve: the first place from which on they differ by more than 5 % of the other's values. None:
    /// it does not, or is not on it before.
    pub fn leaves(&self, other: &Self) -> Option<f64> {
        let apart = |dot: &Dot| {
            let theirs = other.at(dot.x)?;
            Some((dot.y.value - theirs).abs() > APART * theirs.abs())
        };
        let first = self.dots.iter().position(|dot| apart(dot) == Some(true))?;
        (first > 0).then(|| self.dots[first].x)
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
    /// The curve's value at the mark, or its highest for a mark without x; of a mark without y, the place where the curve is steepest
    /// or leaves the other.
    pub value: f64,
    /// Value minus stated, as a share of the stated; the bare difference where that is 0.
    pub error: f64,
    /// Whether that is within the mark's tolerance, the value within the stated interval, or the stated value within the bound; None
    /// where there is none of them.
    pub within: Option<bool>,
    /// What was compared.
    pub of: Compared,
}

/// What of a curve is compared with a stated number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Its value.
    Value,
    /// Its value, as a bound of the stated one.
    Bound,
    /// The place on the x axis where it is steepest.
    Steepest,
    /// The place on the x axis where it leaves another curve.
    Leaves,
}

/// Curves that differ by more are not the same: above what a simulation to 2 % leaves between two runs.
const APART: f64 = 0.05;

/// Curves of so many names are few enough that a mark which names none is held against each.
const FEW: usize = 2;

/// The mark against each curve of the name it should lie on, as far as they reach that place; against all where it names none and they
/// are few.
pub fn checks(mark: &Mark, curves: &[Curve]) -> Vec<Check> {
    let (on, tolerance) = mark.on.as_ref().map_or((None, None), |(name, tolerance)| (Some(name), *tolerance));
    let names: std::collections::BTreeSet<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    if on.is_none() && (names.len() > FEW || mark.y.is_none()) {
        return Vec::new();
    }
    let check = |curve: &Curve| {
        let (stated, value, of) = compared(mark, curve, curves)?;
        let error = (value - stated) / if stated == 0.0 { 1.0 } else { stated };
        let inside = mark.interval.map(|(low, high)| (low..=high).contains(&value));
        let below = mark.bound.then_some(stated <= value);
        let within = tolerance.map(|tolerance| error.abs() <= tolerance).or(inside).or(below);
        let several = on.map_or(names.len(), |on| names.iter().filter(|name| is_named(name, on, &names)).count()) > 1;
        let name = several.then(|| curve.name.clone());
        Some(Check { curve: name, answerer: curve.answerer, value, error, within, of })
    };
    let named = |curve: &&Curve| on.is_none_or(|on| is_named(&curve.name, on, &names));
    curves.iter().filter(named).filter_map(check).collect()
}

/// Whether a curve is one that a mark calls `on`: it has that name, or no curve has it and [`is_called`] holds.
fn is_named(name: &str, on: &str, names: &std::collections::BTreeSet<&str>) -> bool {
    if names.contains(on) { name == on } else { is_called(name, on) }
}

/// Whether a curve's name holds the parts of `on` in their order, a scheme with or without its parameters: `interrupt` is any of the curves
/// `interrupt:drops_interrupt=true, ring 64` and `.., ring 256` that `vary` makes of it.
pub fn is_called(name: &str, on: &str) -> bool {
    let mut parts = name.split(", ");
    let is = |part: &str, wanted: &str| {
        let rest = part.strip_prefix(wanted);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(':') || wanted.contains(':') && rest.starts_with(',')
        })
    };
    on.split(", ").all(|wanted| parts.any(|part| is(part, wanted)))
}

/// The stated number, and what the curve has for it.
fn compared(mark: &Mark, curve: &Curve, curves: &[Curve]) -> Option<(f64, f64, Compared)> {
    if let Some(stated) = mark.y {
        let value = mark.x.map_or_else(|| curve.highest(), |x| curve.at(x))?;
        return Some((stated, value, if mark.bound { Compared::Bound } else { Compared::Value }));
    }
    let stated = mark.x?;
    let Some(other) = &mark.leaves else { return Some((stated, curve.steepest()?, Compared::Steepest)) };
    let names = curves.iter().map(|curve| curve.name.as_str()).collect();
    let other = curves.iter().find(|one| is_named(&one.name, other, &names) && one.answerer == curve.answerer)?;
    Some((stated, curve.leaves(other)?, Compared::Leaves))
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
            leaves: None,
            bound: false,
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

    fn line(name: &str, points: &[(f64, f64)]) -> Curve {
        let dots = points.iter().map(|(x, y)| Dot { x: *x, y: Figure::exact(*y) }).collect();
        Curve { name: name.to_owned(), answerer: None, dots }
    }

    fn at(x: Option<f64>, y: Option<f64>, on: &str, tolerance: Option<f64>) -> Mark {
        let on = Some((on.to_owned(), tolerance));
        let (label, source) = ("a number".to_owned(), "a paper".to_owned());
        Mark { x, y, interval: None, label, source, on, leaves: None, bound: false }
    }

    /// A place without a value is where the curve is steepest, or where it leaves the one that it followed.
    #[test]
    fn a_stated_place_has_its_distance() {
        let curves = [
            line("one", &[(1.0, 10.0), (2.0, 9.0), (3.0, 4.0), (4.0, 4.0)]),
            line("other", &[(1.0, 10.1), (2.0, 9.1), (3.0, 8.0), (4.0, 7.0)]),
        ];
        let steep = checks(&at(Some(2.4), None, "one", Some(0.05)), &curves);
        assert_eq!(steep.iter().map(|check| (check.value, check.within)).collect::<Vec<_>>(), [(2.5, Some(true))]);
        assert_eq!(steep[0].of, Compared::Steepest);
        let leaving = Mark { leaves: Some("other".to_owned()), ..at(Some(2.0), None, "one", Some(0.1)) };
        let found = checks(&leaving, &curves);
        assert_eq!((found[0].value, found[0].within, found[0].of), (3.0, Some(false), Compared::Leaves));
        // One that was never on the other does not leave it.
        assert!(checks(&leaving, &[line("one", &[(1.0, 1.0)]), line("other", &[(1.0, 2.0)])]).is_empty());
    }

    /// What `vary` makes of a scheme is found by the scheme's name; each is told by its own.
    #[test]
    fn a_varied_curve_is_found_by_the_name_of_its_scheme() {
        let varied = ["interrupt, ring 64", "interrupt, ring 256", "napi, ring 64"].map(|name| curve(name, 11.0));
        let named = |on: &str| {
            let found = checks(&at(Some(2.0), Some(10.0), on, None), &varied);
            found.into_iter().map(|check| check.curve).collect::<Vec<_>>()
        };
        let both = ["interrupt, ring 64", "interrupt, ring 256"].map(|name| Some(name.to_owned()));
        assert_eq!(named("interrupt"), both);
        assert_eq!(named("interrupt, ring 256"), [None]);
        assert_eq!(named("ring 256"), [None]);
        assert!(named("inter").is_empty() && named("interrupt, ring 25").is_empty());
        // A scheme is printed with its parameters.
        let full = "napi:weight=64,budget=300, ring 64";
        assert!(["napi", "napi:weight=64", "napi, ring 64", full].iter().all(|on| is_called(full, on)));
        assert!(!is_called(full, "napi:weight=6") && !is_called("napi-2007:quota=3", "napi"));
        // Where a curve has the very name, it alone is meant.
        let exact = [curve("interrupt", 11.0), curve("interrupt, ring 64", 11.0)];
        assert_eq!(checks(&at(Some(2.0), Some(10.0), "interrupt", None), &exact).len(), 1);
    }

    #[test]
    fn a_bound_is_kept_below_it() {
        let under = |y| checks(&Mark { bound: true, ..at(Some(2.0), Some(y), "roof", None) }, &[curve("roof", 5.0)]);
        assert_eq!((under(4.0)[0].within, under(4.0)[0].of), (Some(true), Compared::Bound));
        assert_eq!(under(6.0)[0].within, Some(false));
    }
}
