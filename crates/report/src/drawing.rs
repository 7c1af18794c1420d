//! [`Drawing`]: an experiment with its answers, ready to be drawn as text, SVG or HTML.

use netcliff_core::experiment::{Answerer, Axes, Axis, BadValue, Check, Curve, Experiment, Mark, Scale, checks};
use netcliff_core::{Dimension, EngineKind, Provenance};

use crate::format::{self, Unit};

/// Points of one curve that were not answered, for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct NotHad {
    /// The curve.
    pub curve: String,
    /// Who was asked.
    pub answerer: Answerer,
    /// How many points.
    pub points: usize,
    /// The reason, a sentence.
    pub why: String,
}

impl NotHad {
    /// The points as a sentence.
    pub fn text(&self) -> String {
        let points = if self.points == 1 { "1 point".to_owned() } else { format!("{} points", self.points) };
        format!("{}, {}, {points}: {}", self.curve, self.answerer, self.why)
    }
}

/// A figure with all that is said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// One line.
    pub title: String,
    /// What is along and up.
    pub axes: Axes,
    /// What was found.
    pub curves: Vec<Curve>,
    /// What others have stated.
    pub marks: Vec<Mark>,
    /// What was not found, and why.
    pub not_had: Vec<NotHad>,
    /// The configuration: name and value.
    pub asked: Vec<(String, String)>,
    /// The file, whole.
    pub source: String,
    /// How it was produced.
    pub provenance: Provenance,
    /// True: stopped before every point was answered.
    pub partial: bool,
}

impl Drawing {
    /// The figure of an experiment with these curves, of which nothing is missing.
    ///
    /// # Errors
    /// As of [`Experiment::axes`]: never for an experiment that was read from a file.
    pub fn of(
        experiment: &Experiment,
        curves: Vec<Curve>,
        source: String,
        provenance: Provenance,
    ) -> Result<Self, BadValue> {
        Ok(Self {
            title: experiment.title().to_owned(),
            axes: experiment.axes()?,
            curves,
            marks: experiment.marks()?,
            not_had: Vec::new(),
            asked: Vec::new(),
            source,
            provenance,
            partial: false,
        })
    }

    /// Names of the curves in the order they are drawn; an engine more is no name more.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for curve in &self.curves {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        names
    }

    /// Who answered, in the order they are drawn.
    pub fn answerers(&self) -> Vec<Answerer> {
        let mut answerers: Vec<Answerer> = Vec::new();
        for answerer in self.curves.iter().filter_map(|curve| curve.answerer) {
            if !answerers.contains(&answerer) {
                answerers.push(answerer);
            }
        }
        answerers
    }

    /// A curve's name with who answered, where several did.
    pub fn full_name(&self, curve: &Curve) -> String {
        match curve.answerer {
            Some(answerer) if self.answerers().len() > 1 => format!("{}: {answerer}", curve.name),
            _ => curve.name.clone(),
        }
    }

    /// True where no model answers this curve, so that its sampled points are all that holds it together.
    pub fn alone(&self, curve: &Curve) -> bool {
        !self.curves.iter().any(|other| {
            other.name == curve.name && other.answerer.is_some_and(|answerer| answerer.engine == EngineKind::Model)
        })
    }

    /// A mark's comparisons with its curves.
    pub fn checks(&self, mark: &Mark) -> Vec<Check> {
        checks(mark, &self.curves)
    }

    /// Where a mark is: `127 kpps, 127 kpps`.
    pub fn place(&self, mark: &Mark) -> String {
        let x = mark.x.map(|x| format!("{} {}", self.axes.x.name, format::quantity(x, unit(&self.axes.x))));
        let y = mark.y.map(|y| {
            let unit = unit(&self.axes.y);
            let ends = mark
                .interval
                .map(|(low, high)| format!(" ({} to {})", format::quantity(low, unit), format::quantity(high, unit)));
            format!("{} {}{}", self.axes.y.name, format::quantity(y, unit), ends.unwrap_or_default())
        });
        x.into_iter().chain(y).collect::<Vec<_>>().join(", ")
    }

    /// A comparison in words: `model (paper) 126 kpps, -0.62 %`.
    pub fn compared(&self, check: &Check) -> String {
        let curve = check.curve.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let who = check.answerer.map(|answerer| format!("{answerer} ")).unwrap_or_default();
        let verdict = match check.within {
            Some(true) => ", within the tolerance",
            Some(false) => ", OUTSIDE the tolerance",
            None => "",
        };
        let value = format::quantity(check.value, unit(&self.axes.y));
        format!("{curve}{who}{value} ({}){verdict}", format::signed(check.error, Unit::Share))
    }
}

/// The unit numbers on an axis are written in.
pub fn unit(axis: &Axis) -> Unit {
    unit_of(axis.dimension)
}

/// The unit numbers of a dimension are written in.
pub fn unit_of(dimension: Dimension) -> Unit {
    match dimension {
        Dimension::Pps => Unit::Pps,
        Dimension::Bps => Unit::Bps,
        Dimension::Seconds => Unit::Seconds,
        Dimension::Share => Unit::Share,
        Dimension::PerSecond => Unit::PerSecond,
        Dimension::Bytes => Unit::Bytes,
        Dimension::Number => Unit::Number,
    }
}

/// An axis in drawing values: what a base unit is there, and its ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The axis's name with its unit.
    pub name: String,
    /// Lower end in drawing values (a power of ten on a logarithmic axis).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    scale: Scale,
    /// One on a linear axis, in base units.
    one: f64,
    unit: Unit,
}

/// What a linear axis upwards is longer than its highest value.
pub const HEADROOM: f64 = 1.06;

impl Span {
    /// The axis as wide as it says, or as `values` need; a linear one is `room` times as long as they need.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, room: f64) -> Self {
        let unit = unit(axis);
        let shown = values.filter(|value| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        let (low, high) = match (axis.range, axis.scale) {
            (Some(ends), _) => ends,
            (None, Scale::Linear) => (low.min(0.0), if high > 0.0 { high * room } else { 1.0 }),
            (None, Scale::Log) => (low, high),
        };
        if axis.scale == Scale::Log {
            let (low, high) = decades(low.log10(), high.log10(), axis.range.is_some() || room == 1.0);
            return Self { name: axis.name.clone(), low, high, scale: axis.scale, one: 1.0, unit };
        }
        let (one, suffix) = unit.scale(low.abs().max(high.abs()));
        let suffix = suffix.trim();
        let name = if suffix.is_empty() { axis.name.clone() } else { format!("{} [{suffix}]", axis.name) };
        Self { name, low: low / one, high: high / one, scale: axis.scale, one, unit }
    }

    /// The place of a value; None beyond the ends of the axis, or where it has no logarithm.
    pub fn place(&self, value: f64) -> Option<f64> {
        let at = self.unclipped(value)?;
        let slack = 1e-9 * (self.high - self.low);
        (at >= self.low - slack && at <= self.high + slack).then_some(at.clamp(self.low, self.high))
    }

    /// The place of an end of an interval: at the end of the axis where it lies beyond.
    pub fn clipped(&self, value: f64) -> f64 {
        self.unclipped(value).unwrap_or(self.low).clamp(self.low, self.high)
    }

    fn unclipped(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => value.is_finite().then_some(value / self.one),
            Scale::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }

    /// What one on a linear axis is, in base units.
    pub fn one(&self) -> f64 {
        self.one
    }

    /// A tick in words; with its unit on a logarithmic axis, whose name has none.
    pub fn written(&self, at: f64) -> String {
        match self.scale {
            Scale::Linear => crate::svg::canvas::plain(at),
            Scale::Log => whole(&format::quantity(10f64.powf(at), self.unit)),
        }
    }

    /// An end of it in at most four digits.
    pub fn end(&self, at: f64) -> String {
        match self.scale {
            Scale::Linear => {
                let digits = (3 - at.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
                crate::svg::canvas::plain(format!("{at:.digits$}").parse().unwrap_or(at))
            }
            Scale::Log => self.written(at),
        }
    }

    /// Ticks that suit it, at most `most`.
    pub fn ticks(&self, most: usize) -> usize {
        match self.scale {
            Scale::Log => (self.high.floor() - self.low.ceil()).max(1.0) as usize + 1,
            Scale::Linear => most,
        }
    }
}

/// The ends of a logarithmic axis as powers: as they are where that is wanted and two ticks are between them, else the
/// whole decades around them.
fn decades(low: f64, high: f64, as_they_are: bool) -> (f64, f64) {
    if as_they_are && high.floor() - low.ceil() >= 1.0 {
        return (low, high);
    }
    let (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
    (low, high.max(low + 1.0))
}

/// `100 us`, `0.1 %`: a power of ten without the zeros after the point that say nothing.
pub fn whole(text: &str) -> String {
    let (number, unit) =
        text.split_once(' ').map_or((text, String::new()), |(number, unit)| (number, format!(" {unit}")));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_say_nothing_are_left_out() {
        for (text, wanted) in
            [("100 us", "100 us"), ("0.0100 %", "0.01 %"), ("1.00 ms", "1 ms"), ("10.0", "10"), ("-", "-")]
        {
            assert_eq!(whole(text), wanted);
        }
    }
}
