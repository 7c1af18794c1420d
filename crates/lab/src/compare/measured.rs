//! A run as points with figures.

use netcliff_core::{Figure, Fingerprint, Interval, Provenance, units};

use super::Quantity;
use netcliff_stats::contrast::Estimate;

/// A run as points with figures, for a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Name by which the user chose the run.
    pub name: String,
    /// `stream`, `rr`, `transfer`, `forwarding`, `rfc2544`, `find`, `service`, `run` (records of any kind).
    pub kind: &'static str,
    /// Clock that measured the rates, if there is a choice.
    pub clock: Option<String>,
    /// The points in their order. Their names are unique.
    pub points: Vec<MeasuredPoint>,
    /// Facts of the host that explain differences to another run.
    pub fingerprint: Option<Fingerprint>,
    /// Facts of the far end's host, if it is another host.
    pub far_fingerprint: Option<Fingerprint>,
    /// The configuration as requested and as in force, by name, without what is in the points' names.
    pub facts: Vec<(String, String)>,
    /// Calibrated costs of packets. Empty if the run did not calibrate.
    pub calibrated: Vec<Calibrated>,
    /// How the run was produced.
    pub provenance: Provenance,
    /// Whether the run was stopped or ended early.
    pub partial: bool,
    /// A message about other programs that limited a point of the run.
    pub others: Option<String>,
}

/// A calibrated cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// Key of the cost, as in files of hosts.
    pub key: String,
    /// The value, in `unit`.
    pub value: f64,
    /// `s`, `s/B`, `packets`, or empty for a plain number.
    pub unit: String,
}

impl Calibrated {
    /// The value with its unit, rounded to three significant digits.
    pub fn text(&self) -> String {
        let short: f64 = format!("{:.2e}", self.value).parse().unwrap_or(self.value);
        match self.unit.as_str() {
            "s" => units::print_time_s(short),
            "s/B" => format!("{}/B", units::print_time_s(short)),
            "" => short.to_string(),
            unit => format!("{short} {unit}"),
        }
    }
}

/// One point of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPoint {
    /// Name of the point. A point has the same name in both runs.
    pub name: String,
    /// Figures of the point.
    pub figures: Vec<Reading>,
}

/// One figure of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which figure: its name, dimension and class.
    pub quantity: Quantity,
    /// Mean of the repeats, or the only value.
    pub value: f64,
    /// Whether the figure was computed by the model or the simulator. Such a figure is not tested.
    pub computed: bool,
    /// The mean with its standard error. `None` if the variation is unknown.
    pub estimate: Option<Estimate>,
    /// Interval that the run has for a value without an estimate, such as the bounds of a single search. It covers
    /// errors within the run and is not tested. `None` if there is an estimate, or no interval.
    pub interval: Option<Interval>,
    /// Number of repeats. `None` if it is not known, or if the figure was computed.
    pub repeats: Option<u32>,
    /// Whether the value is a lower limit, because something other than the measured object limited it.
    pub lower_limit: bool,
}

impl Reading {
    /// The reading of repeats. `None` if no repeat has a value.
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
            interval: None,
            repeats,
            lower_limit: false,
        })
    }

    /// The reading of searches, each with its lower and upper bound. `None` without a search.
    pub fn of_bounds(quantity: Quantity, bounds: &[(f64, Option<f64>)]) -> Option<Self> {
        let reading = Self::of(quantity, bounds.iter().map(|(lower, _)| Some(*lower)))?;
        Some(Self { estimate: Estimate::of_bounds(bounds), ..reading })
    }

    /// The reading of a measured figure. Its variation is unknown if it has no interval or only one repeat.
    pub fn of_figure(quantity: Quantity, figure: &Figure, repeats: Option<u32>) -> Option<Self> {
        let several = figure.interval.is_some() && repeats.is_some_and(|repeats| repeats > 1);
        let estimate = several.then(|| Estimate::of_figure(figure, repeats)).flatten();
        figure.value.is_finite().then_some(Self {
            quantity,
            value: figure.value,
            computed: false,
            interval: figure.interval.filter(|_| estimate.is_none()),
            estimate,
            repeats,
            lower_limit: false,
        })
    }

    /// The reading of a figure of the model or the simulator.
    pub fn of_computed(quantity: Quantity, figure: &Figure) -> Option<Self> {
        let reading = Self::of_figure(quantity, figure, None)?;
        Some(Self { computed: true, estimate: Estimate::of_figure(figure, None), interval: None, ..reading })
    }
}

impl Measured {
    /// The point with this name.
    pub(super) fn point(&self, name: &str) -> Option<&MeasuredPoint> {
        self.points.iter().find(|point| point.name == name)
    }

    /// A figure of the point with this name.
    pub(super) fn reading(&self, point: &str, quantity: Quantity) -> Option<&Reading> {
        self.point(point)?.figures.iter().find(|reading| reading.quantity == quantity)
    }
}
