//! Compares curves with marks.

use std::collections::BTreeSet;

use super::{Mark, Than};
use crate::experiment::{Answerer, Curve};
use crate::math::hypot;

/// Result of comparing a curve with a mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Name of the curve; `None` if the mark is compared with curves of one name only.
    pub curve: Option<String>,
    /// The engine that gave the curve.
    pub answerer: Option<Answerer>,
    /// The curve's value at the mark's x, or its highest value without x. For a mark without y: the x where the curve
    /// is steepest or begins to differ from the other one. For two curves: their ratio or difference.
    pub value: f64,
    /// Confidence interval of `value`; None if it was not sampled.
    pub interval: Option<(f64, f64)>,
    /// (value - stated) / stated; the plain difference if the stated value is 0. None if only a range is stated.
    pub error: Option<f64>,
    /// True if the mark holds: the value is within the tolerance or the stated interval, or the stated value is within
    /// the bound. None if the mark states none of these.
    pub within: Option<bool>,
    /// True if the whole confidence interval gives the same answer as `within`; false if it crosses an end of the
    /// accepted range. None without an interval.
    pub sure: Option<bool>,
    /// Property of the curve that was compared.
    pub of: Compared,
}

impl Check {
    /// The verdict on the mark; `None` if the mark states neither tolerance nor range.
    pub fn verdict(&self) -> Option<MarkVerdict> {
        self.within.map(|within| match (within, self.sure) {
            (_, Some(false)) => MarkVerdict::Undecided,
            (true, _) => MarkVerdict::Reproduced,
            (false, _) => MarkVerdict::Contradicted,
        })
    }
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkVerdict {
    /// The value with its whole confidence interval is inside the accepted range.
    Reproduced,
    /// The value with its whole confidence interval is outside the accepted range.
    Contradicted,
    /// The confidence interval crosses an end of the accepted range.
    Undecided,
}

/// The property of a curve that is compared with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Its value.
    Value,
    /// Its value, as an upper bound of the stated value.
    Bound,
    /// The x where it is steepest.
    Steepest,
    /// The x where it begins to differ from another curve.
    Leaves,
    /// Ratio of its value to the value of another point.
    Ratio,
    /// Its value minus the value of another point.
    Difference,
}

/// Largest number of curve names with which a mark that names no curve is compared with every curve.
pub(super) const FEW: usize = 2;

/// Compares the mark with each curve of the name it states, if the curve reaches the mark's x. A mark without a name is
/// compared with all curves if there are at most two names.
pub fn checks(mark: &Mark, curves: &[Curve]) -> Vec<Check> {
    let on = mark.on.as_ref().map(|(name, _)| name);
    let names: BTreeSet<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    if on.is_none() && (names.len() > FEW || mark.y.is_none() && mark.interval.is_none()) {
        return Vec::new();
    }
    let several = on.map_or(names.len(), |on| names.iter().filter(|name| is_named(name, on, &names)).count()) > 1;
    let check = |curve: &Curve| {
        let had = had(mark, curve, curves)?;
        let accepted = mark.accepted();
        let within = accepted.map(|(low, high)| (low..=high).contains(&had.value));
        // The result is sure if the whole interval lies inside, or outside, the accepted range.
        let sure = had.interval.zip(accepted).map(|((low, high), (from, to))| match within {
            Some(true) => from <= low && high <= to,
            _ => high < from || to < low,
        });
        let stated = if had.of == Compared::Steepest || had.of == Compared::Leaves { mark.x } else { mark.y };
        let error = stated.map(|stated| (had.value - stated) / if stated == 0.0 { 1.0 } else { stated });
        let (curve, answerer) = (several.then(|| curve.name.clone()), curve.answerer);
        Some(Check { curve, answerer, value: had.value, interval: had.interval, error, within, sure, of: had.of })
    };
    let named = |curve: &&Curve| on.is_none_or(|on| is_named(&curve.name, on, &names));
    curves.iter().filter(named).filter_map(check).collect()
}

impl Mark {
    /// Accepted range of the curve's value (or of its x); None if the mark states no tolerance, interval or range.
    pub fn accepted(&self) -> Option<(f64, f64)> {
        if let Some(than) = &self.than {
            return Some(than.range);
        }
        if self.bound {
            // The stated value must be `low` to `high` of the curve's value, and not above it.
            let (stated, (low, high)) = (self.y?, self.of_bound.unwrap_or((0.0, 1.0)));
            return Some((stated / high.min(1.0), if low > 0.0 { stated / low } else { f64::INFINITY }));
        }
        // The stated y, or x if y is absent.
        let stated = self.y.or(self.x.filter(|_| self.interval.is_none()));
        let tolerance = self.on.as_ref().and_then(|(_, tolerance)| *tolerance);
        let near = stated.zip(tolerance).map(|(stated, tolerance)| {
            let half = tolerance * if stated == 0.0 { 1.0 } else { stated.abs() };
            (stated - half, stated + half)
        });
        near.or(self.interval)
    }
}

/// True if a mark's name `on` means this curve: the names are equal, or no curve has exactly this name and
/// [`is_called`] is true.
fn is_named(name: &str, on: &str, names: &BTreeSet<&str>) -> bool {
    if names.contains(on) { name == on } else { is_called(name, on) }
}

/// True if a curve's name contains the parts of `on` in their order, where a scheme may lack its parameters.
/// `interrupt` means any of the curves `interrupt:drops_interrupt=true, ring 64` and `.., ring 256`, which the key
/// `vary` makes.
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

/// The value of a curve for a mark.
struct Had {
    value: f64,
    interval: Option<(f64, f64)>,
    of: Compared,
}

fn had(mark: &Mark, curve: &Curve, curves: &[Curve]) -> Option<Had> {
    if let Some(than) = &mark.than {
        return against(mark, than, curve, curves);
    }
    if mark.y.is_some() || mark.interval.is_some() {
        let (value, interval) = point(curve, mark.x)?;
        return Some(Had { value, interval, of: if mark.bound { Compared::Bound } else { Compared::Value } });
    }
    let place = |value: f64, of: Compared| Had { value, interval: None, of };
    let Some(other) = &mark.leaves else { return Some(place(curve.steepest()?, Compared::Steepest)) };
    Some(place(curve.leaves(of_name(other, curve, curves)?)?, Compared::Leaves))
}

/// The curve's value and confidence interval at `x`, or at its highest point.
fn point(curve: &Curve, x: Option<f64>) -> Option<(f64, Option<(f64, f64)>)> {
    let x = match x {
        Some(x) => x,
        None => curve.highest_dot()?.x,
    };
    Some((curve.at(x)?, curve.interval_at(x)))
}

/// The curve with this name from the same engine.
fn of_name<'a>(name: &str, curve: &Curve, curves: &'a [Curve]) -> Option<&'a Curve> {
    let names = curves.iter().map(|curve| curve.name.as_str()).collect();
    curves.iter().find(|one| is_named(&one.name, name, &names) && one.answerer == curve.answerer)
}

/// Ratio or difference of two points. Half widths are combined as for independent samples.
fn against(mark: &Mark, than: &Than, curve: &Curve, curves: &[Curve]) -> Option<Had> {
    let is_own = mark.on.as_ref().is_some_and(|(on, _)| *on == than.curve);
    let other = if is_own { curve } else { of_name(&than.curve, curve, curves)? };
    let ((ours, our_ends), (theirs, their_ends)) = (point(curve, mark.x)?, point(other, than.x)?);
    let half = |ends: Option<(f64, f64)>| ends.map_or(0.0, |(low, high)| (high - low) / 2.0);
    let sampled = our_ends.is_some() || their_ends.is_some();
    let (value, half, of) = if than.is_ratio {
        let value = ours / theirs;
        (value, value * hypot(half(our_ends) / ours, half(their_ends) / theirs), Compared::Ratio)
    } else {
        (ours - theirs, hypot(half(our_ends), half(their_ends)), Compared::Difference)
    };
    // A ratio of these figures is never below 0.
    let low = if than.is_ratio { (value - half).max(0.0) } else { value - half };
    value.is_finite().then_some(Had { value, interval: sampled.then_some((low, value + half)), of })
}
