//! A mark held against curves.

use std::collections::BTreeSet;

use super::{Mark, Than};
use crate::experiment::{Answerer, Curve};
use crate::math::hypot;

/// How a curve compares with what was stated.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The curve, where the mark does not name it.
    pub curve: Option<String>,
    /// Who answered.
    pub answerer: Option<Answerer>,
    /// The curve's value at the mark, or its highest for a mark without x; of a mark without y, the place where the curve is steepest
    /// or leaves the other; of one that compares two curves, their ratio or difference.
    pub value: f64,
    /// The interval of that value, where it was sampled.
    pub interval: Option<(f64, f64)>,
    /// Value minus stated, as a share of the stated; the bare difference where that is 0. None where only a range is stated.
    pub error: Option<f64>,
    /// Whether that is within the mark's tolerance, the value within the stated interval, or the stated value within the bound; None
    /// if the mark states none of these.
    pub within: Option<bool>,
    /// Whether the value's interval agrees: false where it reaches across an end of what is stated. None where it has no interval.
    pub sure: Option<bool>,
    /// What was compared.
    pub of: Compared,
}

/// What of a curve is compared with what was stated.
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
    /// Its value over that of another point.
    Ratio,
    /// Its value less that of another point.
    Difference,
}

/// Number of curve names up to which a mark that names no curve is compared with each curve.
pub(super) const FEW: usize = 2;

/// The mark against each curve of the name it should lie on, as far as they reach that place; against all where it names none and they
/// are few.
pub fn checks(mark: &Mark, curves: &[Curve]) -> Vec<Check> {
    let on = mark.on.as_ref().map(|(name, _)| name);
    let names: BTreeSet<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    if on.is_none() && (names.len() > FEW || mark.y.is_none() && mark.interval.is_none()) {
        return Vec::new();
    }
    let several = on.map_or(names.len(), |on| names.iter().filter(|name| is_named(name, on, &names)).count()) > 1;
    let check = |curve: &Curve| {
        let had = had(mark, curve, curves)?;
        let accepted = accepted(mark);
        let within = accepted.map(|(low, high)| (low..=high).contains(&had.value));
        // Sure is one whose interval lies on one side of each end.
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

/// What the curve's value may be; None where nothing says how near it must be.
fn accepted(mark: &Mark) -> Option<(f64, f64)> {
    if let Some(than) = &mark.than {
        return Some(than.range);
    }
    if mark.bound {
        // The stated value is to be this much of the curve's, and not above it.
        let (stated, (low, high)) = (mark.y?, mark.of_bound.unwrap_or((0.0, 1.0)));
        return Some((stated / high.min(1.0), if low > 0.0 { stated / low } else { f64::INFINITY }));
    }
    // A place, or else a value.
    let stated = mark.y.or(mark.x.filter(|_| mark.interval.is_none()));
    let tolerance = mark.on.as_ref().and_then(|(_, tolerance)| *tolerance);
    let near = stated.zip(tolerance).map(|(stated, tolerance)| {
        let half = tolerance * if stated == 0.0 { 1.0 } else { stated.abs() };
        (stated - half, stated + half)
    });
    near.or(mark.interval)
}

/// Whether a curve is one that a mark calls `on`: it has that name, or no curve has it and [`is_called`] holds.
fn is_named(name: &str, on: &str, names: &BTreeSet<&str>) -> bool {
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

/// What a curve has for a mark.
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

/// A curve's value with its interval at `x`, or its highest.
fn point(curve: &Curve, x: Option<f64>) -> Option<(f64, Option<(f64, f64)>)> {
    let x = match x {
        Some(x) => x,
        None => curve.highest_dot()?.x,
    };
    Some((curve.at(x)?, curve.interval_at(x)))
}

/// The curve of this name by the same answerer.
fn of_name<'a>(name: &str, curve: &Curve, curves: &'a [Curve]) -> Option<&'a Curve> {
    let names = curves.iter().map(|curve| curve.name.as_str()).collect();
    curves.iter().find(|one| is_named(&one.name, name, &names) && one.answerer == curve.answerer)
}

/// How a point of `curve` compares with another point. Half widths of sampled values add as those of independent ones do.
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
    // No ratio of these figures is below 0.
    let low = if than.is_ratio { (value - half).max(0.0) } else { value - half };
    value.is_finite().then_some(Had { value, interval: sampled.then_some((low, value + half)), of })
}
