//! A run as points, each with its figures.

use netcliff_core::{Figure, Fingerprint, Provenance, units};

use super::Quantity;
use netcliff_stats::contrast::Estimate;

/// A run, as a comparison needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// How the user named it.
    pub name: String,
    /// `stream`, `rr`, `transfer`, `forwarding`, `rfc2544`, `find`, `service`, `run` (records of any kind).
    pub kind: &'static str,
    /// Clock that rates are measured by, where there is a choice.
    pub clock: Option<String>,
    /// The points in their order, each name once.
    pub points: Vec<MeasuredPoint>,
    /// What explains a difference to another run.
    pub fingerprint: Option<Fingerprint>,
    /// The same of the far end's host, where it is another.
    pub far_fingerprint: Option<Fingerprint>,
    /// The configuration, as requested and in force, beside the points, by name.
    pub facts: Vec<(String, String)>,
    /// Calibrated costs of packets; empty if the run did not calibrate.
    pub calibrated: Vec<Calibrated>,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped or cut short.
    pub partial: bool,
    /// The other programs that limited a point of it, in the words of its page.
    pub others: Option<String>,
}

/// A calibrated cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Its key.
    pub key: String,
    /// Its value (in `unit`).
    pub value: f64,
    /// `s`, `s/B`, `packets`, or empty for a plain number.
    pub unit: String,
}

impl Calibrated {
    /// In three digits.
    pub fn text(&self) -> String {
        let short: f64 = format!("{:.2e}", self.value).parse().unwrap_or(self.value);
        match self.unit.as_str() {
            "s" => units::print_time_s(short),
            "" => short.to_string(),
            unit => format!("{short} {unit}"),
        }
    }
}

/// One point of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPoint {
    /// Its name: the same point of two runs has the same.
    pub name: String,
    /// Its figures.
    pub figures: Vec<Reading>,
}

/// One figure of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which.
    pub quantity: Quantity,
    /// Mean of the repeats, or the value where there is but one.
    pub value: f64,
    /// True: computed by model or simulator; not a measurement, so not tested.
    pub computed: bool,
    /// The mean with its standard error; None if its variation is unknown.
    pub estimate: Option<Estimate>,
    /// Repeats behind it, where they are known; None for what was computed.
    pub repeats: Option<u32>,
    /// True: a lower limit, since something other than what was measured limited the value.
    pub lower_limit: bool,
}

impl Reading {
    /// From repeats; None without any.
    pub fn of(quantity: Quantity, values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().flatten().filter(|value| value.is_finite()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let repeats = Some(values.len() as u32);
        let estimate = Estimate::of(&values);
        (!values.is_empty()).then_some(Self {
            quantity,
            value: mean,
            computed: false,
            estimate,
            repeats,
            lower_limit: false,
        })
    }

    /// From searches by their lower and upper bounds; None without any.
    pub fn of_bounds(quantity: Quantity, bounds: &[(f64, Option<f64>)]) -> Option<Self> {
        let reading = Self::of(quantity, bounds.iter().map(|(lower, _)| Some(*lower)))?;
        Some(Self { estimate: Estimate::of_bounds(bounds), ..reading })
    }

    /// From a measured figure. Without an interval, or from one repeat, its variation is unknown.
    pub fn of_figure(quantity: Quantity, figure: &Figure, repeats: Option<u32>) -> Option<Self> {
        let several = figure.interval.is_some() && repeats.is_some_and(|repeats| repeats > 1);
        let estimate = several.then(|| Estimate::of_figure(figure, repeats)).flatten();
        figure.value.is_finite().then_some(Self {
            quantity,
            value: figure.value,
            computed: false,
            estimate,
            repeats,
            lower_limit: false,
        })
    }

    /// From a figure of the model or the simulator.
    pub fn of_computed(quantity: Quantity, figure: &Figure) -> Option<Self> {
        let reading = Self::of_figure(quantity, figure, None)?;
        Some(Self { computed: true, estimate: Estimate::of_figure(figure, None), ..reading })
    }
}

impl Measured {
    /// The point of this name.
    pub(super) fn point(&self, name: &str) -> Option<&MeasuredPoint> {
        self.points.iter().find(|point| point.name == name)
    }

    /// A figure of the point of this name.
    pub(super) fn reading(&self, point: &str, quantity: Quantity) -> Option<&Reading> {
        self.point(point)?.figures.iter().find(|reading| reading.quantity == quantity)
    }
}
