//! A series of a trend as a figure.

use netcliff_core::Dimension;
use netcliff_core::Provenance;
use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
use netcliff_lab::trend::{Series, Trend};

use super::Drawing;
use crate::terminal::comparison::words_of;

impl Drawing {
    /// A series of a trend: its values over their place among the runs, and the medians between changes.
    pub fn of_trend(trend: &Trend, series: &Series, provenance: Provenance) -> Self {
        let place = |run: i64| trend.runs.iter().position(|one| one.run == run).map_or(0.0, |at| at as f64 + 1.0);
        let axis = |name: String, dimension| Axis { name, dimension, scale: Scale::Linear, range: None };
        let values = series.values.iter().map(|value| Dot { x: place(value.run), y: value.value.into() });
        let measured = Curve { name: words_of(&series.quantity), answerer: None, dots: values.collect() };
        // One curve, so that a change is a step of it.
        let steps = series
            .levels
            .iter()
            .flat_map(|level| [level.from_run, level.to_run].map(|run| Dot { x: place(run), y: level.median.into() }));
        let levels = Curve { name: "level (median)".to_owned(), answerer: None, dots: steps.collect() };
        let changes = series.changes.iter().map(|change| {
            (format!("run {}", change.run), format!("{:+.1} %, p {:.3}", 100.0 * change.change, change.p))
        });
        let last = trend.runs.last().map_or(0, |run| run.run);
        let first = trend.runs.first().map_or(0, |run| run.run);
        Self {
            title: format!("{}: {}, {}", trend.name, series.point, words_of(&series.quantity)),
            axes: Axes {
                x: axis(format!("runs {first} to {last} in their order"), Dimension::Number),
                y: axis(words_of(&series.quantity), series.quantity.dimension),
            },
            curves: vec![measured, levels],
            marks: Vec::new(),
            not_had: Vec::new(),
            asked: changes.collect(),
            source: String::new(),
            provenance,
            partial: false,
        }
    }
}
