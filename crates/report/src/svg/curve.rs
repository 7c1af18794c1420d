//! What is drawn: the points of an engine's curve, and the axis of the offered load.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{EngineKind, Figure, Finding, Outcome};
use plotters::style::RGBColor;

/// A point of a curve in axis values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// Ends of the interval; the value itself where it has none.
    pub low: f64,
    pub high: f64,
    /// False: the sender did not reach the load.
    pub kept_up: bool,
}

impl Dot {
    /// The same point with its values changed, for another scale.
    pub fn mapped(self, map: impl Fn(f64) -> f64) -> Self {
        Self { y: map(self.y), low: map(self.low), high: map(self.high), ..self }
    }
}

/// Load that was really offered, or else intended (pps).
pub fn offered_pps(point: &SweepPoint) -> f64 {
    point.outcome.offered_pps.map_or(point.load_pps, |figure| figure.value)
}

/// One engine's curve of one figure, by rising load; what is absent or no number is left out.
pub fn curve(finding: &Finding, engine: EngineKind, x: &XAxis, get: impl Fn(&Outcome) -> Option<Figure>) -> Vec<Dot> {
    let dot = |point: &SweepPoint| {
        let figure = get(&point.outcome)?;
        let (low, high) = figure.interval.map_or((figure.value, figure.value), |i| (i.low, i.high));
        let kept_up = point.sender_kept_up;
        let dot = Dot { x: offered_pps(point) / x.unit_pps, y: figure.value, low, high, kept_up };
        [dot.x, dot.y, dot.low, dot.high].iter().all(|value| value.is_finite()).then_some(dot)
    };
    let mut dots: Vec<Dot> = finding.curve(engine).into_iter().filter_map(dot).collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    dots
}

/// Black for what was measured, blue and vermillion for what was computed (Okabe and Ito's colours).
pub fn colour(engine: EngineKind) -> RGBColor {
    match engine {
        EngineKind::Model => RGBColor(0x00, 0x72, 0xb2),
        EngineKind::Sim => RGBColor(0xd5, 0x5e, 0x00),
        EngineKind::Wire => RGBColor(0x11, 0x11, 0x11),
    }
}

/// The axis of the offered load, from 0.
pub struct XAxis {
    /// What 1 on the axis is (pps).
    pub unit_pps: f64,
    pub unit: &'static str,
    pub name: String,
    pub max: f64,
    pub ticks: usize,
}

impl XAxis {
    /// Wide enough for every load of the sweep and for the cliff.
    pub fn of(finding: &Finding, ticks: usize) -> Self {
        let loads = finding.sweep.iter().map(offered_pps);
        let cliffs = finding.cliff_pps.present().map(|(_, figure)| figure.value);
        let max_pps = loads.chain(cliffs).filter(|load| load.is_finite()).fold(0.0, f64::max);
        let max_pps = if max_pps > 0.0 { 1.03 * max_pps } else { 1e6 };
        let (unit_pps, unit) = match max_pps {
            max if max >= 2e6 => (1e6, "Mpps"),
            max if max >= 2e3 => (1e3, "kpps"),
            _ => (1.0, "pps"),
        };
        Self { unit_pps, unit, name: format!("offered load [{unit}]"), max: max_pps / unit_pps, ticks }
    }
}

/// Whole decades that hold all of `dots`, as powers of ten; None if nothing is positive.
pub fn decades<'a>(dots: impl Iterator<Item = &'a Dot>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in dots.flat_map(|dot| [dot.y, dot.low, dot.high]).filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (low.is_finite() && high.is_finite()).then_some((low, high.max(low + 1.0)))
}
