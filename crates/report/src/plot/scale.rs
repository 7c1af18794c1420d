//! An axis: the position of a value on it, and its ticks.

use netcliff_core::Dimension;
use netcliff_core::experiment::{self, Axis};
use serde_json::json;

use crate::format::{self, Unit};

/// On a logarithmic axis with a place for zero: the place of zero, and where the logarithm begins [shares of the axis].
const ZERO_AT: f64 = 0.035;
const LOG_FROM: f64 = 0.105;
/// Upper end of a vertical linear axis, as a multiple of the highest value.
const HEADROOM: f64 = 1.06;
/// Frame sizes that are ticks, the most important first (bytes; RFC 2544's, jumbo frames, super-packets).
const FRAMES: [f64; 13] =
    [64.0, 1518.0, 9018.0, 512.0, 65536.0, 256.0, 1024.0, 128.0, 4096.0, 16384.0, 1280.0, 2048.0, 32768.0];

/// An axis: the place of each value, from 0 (left, bottom) to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    name: String,
    /// Ends in base units, or as powers of ten on a logarithmic axis.
    low: f64,
    high: f64,
    kind: Kind,
    unit: Unit,
    steps: Steps,
}

/// How values are mapped to positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
    /// Logarithmic. Below a break it has a place for zero and for values below the lower end.
    LogWithZero,
}

/// Which values have ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steps {
    Decimal,
    Frames,
    Binary,
}

/// A tick; without a label it is a minor one.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Place on the axis, from 0 to 1.
    pub at: f64,
    /// Text next to it.
    pub label: Option<String>,
}

impl Scale {
    /// A linear axis from `low` to `high` in base units.
    pub fn linear(name: &str, unit: Unit, low: f64, high: f64) -> Self {
        Self { name: name.to_owned(), low, high, kind: Kind::Linear, unit, steps: Steps::Decimal }
    }

    /// A logarithmic axis from ten to the power `low` to ten to the power `high`.
    pub fn log(name: &str, unit: Unit, low: f64, high: f64) -> Self {
        Self { name: name.to_owned(), low, high, kind: Kind::Log, unit, steps: Steps::Decimal }
    }

    /// This axis with a place for zero below a break.
    #[must_use]
    pub fn with_zero(self) -> Self {
        Self { kind: Kind::LogWithZero, ..self }
    }

    /// A horizontal axis for `values`: from the smallest to the largest value; a linear one from 0.
    pub fn along(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        Self::of(axis, values, false)
    }

    /// A vertical axis for `values`: a linear one with space above, a logarithmic one up to the next 1, 2 or 5.
    pub fn up(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        Self::of(axis, values, true)
    }

    fn of(axis: &Axis, values: impl Iterator<Item = f64>, up: bool) -> Self {
        let log = axis.scale == experiment::Scale::Log;
        let shown = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        let unit = crate::drawing::unit(axis);
        let name = axis.name.to_lowercase();
        let steps = match axis.dimension {
            Dimension::Bytes if name.contains("frame") || name.contains("mtu") => Steps::Frames,
            Dimension::Bytes => Steps::Binary,
            _ => Steps::Decimal,
        };
        let room = if up { HEADROOM } else { 1.0 };
        let (low, high) = match (axis.range, log) {
            (Some((low, high)), true) => (low.log10(), high.log10()),
            (Some(ends), false) => ends,
            (None, true) if up => (rounded(low, false), rounded(high, true)),
            (None, true) => (low.log10(), high.log10()),
            (None, false) => (low.min(0.0), if high > 0.0 { high * room } else { 1.0 }),
        };
        // One value has no extent: widen the axis.
        let (low, high) = match log {
            true if high - low < 0.3 => ((low + high) / 2.0 - 0.3, (low + high) / 2.0 + 0.3),
            false if high <= low => (low, low + 1.0),
            _ => (low, high),
        };
        let kind = if log { Kind::Log } else { Kind::Linear };
        Self { name: axis.name.clone(), low, high, kind, unit, steps }
    }

    /// The place of a value. `None` beyond the ends of the axis, or if the value has no logarithm.
    pub fn place(&self, value: f64) -> Option<f64> {
        let at = self.unclipped(value)?;
        (-1e-9..=1.0 + 1e-9).contains(&at).then_some(at.clamp(0.0, 1.0))
    }

    /// The place of an end of an interval. Beyond the axis, it is the end of the axis.
    pub fn clipped(&self, value: f64) -> f64 {
        if value == f64::INFINITY {
            return 1.0;
        }
        self.unclipped(value).unwrap_or(0.0).clamp(0.0, 1.0)
    }

    /// Whether `value` is at the place for zero, apart from the axis.
    pub fn is_apart(&self, value: f64) -> bool {
        self.kind == Kind::LogWithZero && (value <= 0.0 || value.log10() < self.low - 1e-9)
    }

    /// The place of the break between zero and the axis. `None` if the axis has no place for zero.
    pub fn gap(&self) -> Option<f64> {
        (self.kind == Kind::LogWithZero).then_some((ZERO_AT + LOG_FROM) / 2.0)
    }

    /// Value at the upper end, in base units.
    pub fn end(&self) -> f64 {
        if self.kind == Kind::Linear { self.high } else { 10f64.powf(self.high) }
    }

    fn unclipped(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        let part = |at: f64| (at - self.low) / (self.high - self.low);
        match self.kind {
            Kind::Linear => Some(part(value)),
            Kind::Log => (value > 0.0).then(|| part(value.log10())),
            Kind::LogWithZero if self.is_apart(value) => (value >= 0.0).then_some(ZERO_AT),
            Kind::LogWithZero => Some(LOG_FROM + (1.0 - LOG_FROM) * part(value.log10()).max(0.0)),
        }
    }

    /// The size of the axis's unit in base units, and the suffix of the unit.
    fn one(&self) -> (f64, &'static str) {
        match (self.kind, self.steps) {
            (Kind::Linear, Steps::Decimal) => self.unit.scale(self.low.abs().max(self.high.abs())),
            (_, Steps::Frames) => (1.0, " B"),
            _ => (1.0, ""),
        }
    }

    /// The axis's name, with the unit if the tick labels have no unit.
    pub fn title(&self) -> String {
        match self.one().1.trim() {
            "" => self.name.clone(),
            suffix => format!("{} [{suffix}]", self.name),
        }
    }

    /// The axis's name with the base unit, for data.
    pub fn base_title(&self) -> String {
        let base = match self.unit {
            Unit::Pps => "pps",
            Unit::Bps => "bit/s",
            Unit::Seconds => "s",
            Unit::SecondsPerByte => "s/B",
            Unit::PerSecond | Unit::Transactions => "1/s",
            Unit::Bytes => "B",
            Unit::Share | Unit::Packets | Unit::Number => return self.name.clone(),
        };
        format!("{} [{base}]", self.name)
    }

    /// A value in the form of the tick labels.
    pub fn written(&self, value: f64) -> String {
        match (self.steps, self.kind) {
            (Steps::Frames, _) => plain(value),
            (Steps::Binary, _) => binary(value),
            (Steps::Decimal, Kind::Linear) => plain(value / self.one().0),
            (Steps::Decimal, _) if self.unit == Unit::Share => format!("{} %", plain(100.0 * value)),
            (Steps::Decimal, _) => whole(&format::quantity(value, self.unit)),
        }
    }

    /// Labels of both ends, with at most four digits.
    pub fn ends(&self) -> (String, String) {
        let short = |value: f64| match (self.kind, self.steps) {
            (Kind::Linear, Steps::Decimal) => four_digits(value / self.one().0),
            (Kind::Linear, _) => self.written(four_digits(value).parse().unwrap_or(value)),
            _ => self.written(10f64.powf(value)),
        };
        (short(self.low), short(self.high))
    }

    /// Ticks on an axis of `length` pixels, on which a label needs `extent` pixels: as many labels as fit.
    pub fn ticks(&self, length: f64, extent: &dyn Fn(&str) -> f64) -> Vec<Tick> {
        let labelled = |values: Vec<f64>| -> Vec<Label> {
            values.into_iter().filter_map(|value| Some((self.place(value)?, self.written(value)))).collect()
        };
        let free = |ticks: &[Label]| {
            let half = |tick: &Label| extent(&tick.1) / 2.0 + 4.0;
            ticks.windows(2).all(|two| (two[1].0 - two[0].0) * length >= half(&two[0]) + half(&two[1]))
        };
        let labels = match (self.steps, self.kind) {
            (Steps::Frames, _) => frames(&labelled, &free),
            _ => self.choices().into_iter().map(labelled).find(|ticks| free(ticks)).unwrap_or_default(),
        };
        let mut ticks: Vec<Tick> =
            labels.iter().map(|(at, text)| Tick { at: *at, label: Some(text.clone()) }).collect();
        let taken = |at: f64| labels.iter().any(|(other, _)| (other - at).abs() < 1e-6);
        let minor = self.minor(length).into_iter().filter_map(|value| self.place(value)).filter(|at| !taken(*at));
        ticks.extend(minor.map(|at| Tick { at, label: None }));
        if self.kind == Kind::LogWithZero {
            ticks.push(Tick { at: ZERO_AT, label: Some("0".to_owned()) });
        }
        ticks
    }

    /// Sets of values to label, the densest first.
    fn choices(&self) -> Vec<Vec<f64>> {
        match (self.kind, self.steps) {
            (Kind::Linear, steps) => {
                let (one, _) = self.one();
                let steps = (2..=10).rev().map(|count| {
                    let raw = (self.high - self.low) / one / f64::from(count);
                    if steps == Steps::Binary { raw.log2().ceil().exp2() } else { nice(raw) }
                });
                steps.map(|step| multiples(self.low / one, self.high / one, step, one)).collect()
            }
            (_, Steps::Binary) => (1..=12).map(|every| powers(2.0, self.log2_ends(), every)).collect(),
            (_, _) => {
                let decades = (self.low - 1e-9).ceil() as i32..=(self.high + 1e-9).floor() as i32;
                if decades.clone().count() >= 3 {
                    return (1..=12).map(|every| powers(10.0, (self.low, self.high), every)).collect();
                }
                let around = (self.low.floor() as i32)..=(self.high.ceil() as i32);
                let times = |factors: &'static [f64]| {
                    let all = around.clone().flat_map(move |p| factors.iter().map(move |f| f * 10f64.powi(p)));
                    all.filter(|value| self.place(*value).is_some() && !self.is_apart(*value)).collect::<Vec<f64>>()
                };
                vec![times(&[1.0, 2.0, 5.0]), times(&[1.0, 3.0]), times(&[1.0, 5.0]), times(&[1.0])]
            }
        }
    }

    fn log2_ends(&self) -> (f64, f64) {
        (self.low * std::f64::consts::LOG2_10, self.high * std::f64::consts::LOG2_10)
    }

    /// Values of minor ticks: only on a logarithmic axis with room for them.
    fn minor(&self, length: f64) -> Vec<f64> {
        match (self.kind, self.steps) {
            (Kind::Linear, _) | (_, Steps::Frames) => Vec::new(),
            (_, Steps::Binary) => powers(2.0, self.log2_ends(), 1),
            _ if length / (self.high - self.low) < 24.0 => powers(10.0, (self.low, self.high), 1),
            _ => {
                let around = (self.low.floor() as i32)..=(self.high.ceil() as i32);
                let all = around.flat_map(|power| (1..10).map(move |n| f64::from(n) * 10f64.powi(power)));
                all.filter(|value| !self.is_apart(*value)).collect()
            }
        }
    }

    /// The data with which a page's script places and writes values.
    pub fn json(&self) -> serde_json::Value {
        let kind = match self.kind {
            Kind::Linear => "lin",
            Kind::Log => "log",
            Kind::LogWithZero => "zero",
        };
        let steps = match self.steps {
            Steps::Decimal => "dec",
            Steps::Frames => "frames",
            Steps::Binary => "bin",
        };
        let (zero, from) = (ZERO_AT, LOG_FROM);
        json!({
            "name": self.name, "kind": kind, "low": self.low, "high": self.high, "steps": steps,
            "units": self.unit.scales(), "zero": zero, "from": from, "frames": FRAMES,
        })
    }
}

/// A label with its place, 0 to 1.
type Label = (f64, String);

/// The frame sizes whose labels fit, the most important first.
fn frames(labelled: &dyn Fn(Vec<f64>) -> Vec<Label>, free: &dyn Fn(&[Label]) -> bool) -> Vec<Label> {
    let mut chosen: Vec<Label> = Vec::new();
    for one in labelled(FRAMES.to_vec()) {
        let mut more = chosen.clone();
        more.push(one);
        more.sort_by(|a, b| a.0.total_cmp(&b.0));
        if free(&more) {
            chosen = more;
        }
    }
    chosen
}

fn multiples(low: f64, high: f64, step: f64, one: f64) -> Vec<f64> {
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last.min(first + 64)).map(|n| n as f64 * step * one).collect()
}

/// Every `every`th whole power of `base` between two powers.
fn powers(base: f64, (low, high): (f64, f64), every: i32) -> Vec<f64> {
    let (first, last) = ((low - 1e-9).ceil() as i32, (high + 1e-9).floor() as i32);
    (first..=last.min(first + 200)).filter(|power| power % every == 0).map(|power| base.powi(power)).collect()
}

/// The next 1, 2 or 5 times a power of ten at or above `step`.
fn nice(step: f64) -> f64 {
    10f64.powf(rounded(step.max(1e-300), true))
}

/// Logarithm (base 10) of the next 1, 2, 5 or 10 times a power of ten below or above `value`.
fn rounded(value: f64, above: bool) -> f64 {
    let decade = value.log10().floor();
    let digit = value / 10f64.powf(decade);
    let next = if above {
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|mark| *mark >= digit * (1.0 - 1e-9)).unwrap_or(10.0)
    } else {
        [5.0, 2.0, 1.0].into_iter().find(|mark| *mark <= digit * (1.0 + 1e-9)).unwrap_or(1.0)
    };
    decade + next.log10()
}

/// A number without trailing zeros.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.10}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn four_digits(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    plain(format!("{value:.digits$}").parse().unwrap_or(value))
}

/// `512 B`, `64 KiB`, `1 MiB`: in the largest unit not above the value, with at most two decimals.
fn binary(bytes: f64) -> String {
    let units = [(1024.0 * 1024.0 * 1024.0, "GiB"), (1024.0 * 1024.0, "MiB"), (1024.0, "KiB")];
    match units.into_iter().find(|(one, _)| bytes >= *one) {
        Some((one, unit)) => format!("{} {unit}", plain((100.0 * bytes / one).round() / 100.0)),
        None => format!("{} B", plain(bytes)),
    }
}

/// `100 us`, `0.1 %`: a number without trailing zeros after the point.
pub fn whole(text: &str) -> String {
    let (number, unit) =
        text.split_once(' ').map_or((text, String::new()), |(number, unit)| (number, format!(" {unit}")));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests;
