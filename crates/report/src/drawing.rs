//! [`Drawing`]: an experiment with its answers, ready to be drawn as text, SVG or HTML.

pub(crate) mod stored;

use netcliff_core::experiment::{
    Answerer, Axes, Axis, BadValue, Check, Compared, Curve, Experiment, Mark, checks, is_called,
};
use netcliff_core::{Dimension, EngineKind, Provenance};

use crate::format::{self, Unit};

/// Points of one curve without a result, for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct NotHad {
    /// The curve.
    pub curve: String,
    /// The engine or formula.
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

/// A figure with its title, marks, configuration and provenance.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// One line.
    pub title: String,
    /// The axes: x and y.
    pub axes: Axes,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Reference values, to compare with.
    pub marks: Vec<Mark>,
    /// What was not computed or measured, and why.
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
    /// Those of [`Experiment::axes`]: never for an experiment that was read from a file.
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

    /// Names of the curves in the order they are drawn, each once whatever the number of its engines.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for curve in &self.curves {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        names
    }

    /// The engines and formulas, in the order they are drawn.
    pub fn answerers(&self) -> Vec<Answerer> {
        let mut answerers: Vec<Answerer> = Vec::new();
        for answerer in self.curves.iter().filter_map(|curve| curve.answerer) {
            if !answerers.contains(&answerer) {
                answerers.push(answerer);
            }
        }
        answerers
    }

    /// A curve's name, with its engine if there are several.
    pub fn full_name(&self, curve: &Curve) -> String {
        match curve.answerer {
            Some(answerer) if self.answerers().len() > 1 => format!("{}: {answerer}", curve.name),
            _ => curve.name.clone(),
        }
    }

    /// True if the curve has no model, so that only its sampled points hold it together.
    pub fn alone(&self, curve: &Curve) -> bool {
        !self.curves.iter().any(|other| {
            other.name == curve.name && other.answerer.is_some_and(|answerer| answerer.engine == EngineKind::Model)
        })
    }

    /// Comparisons of a mark with its curves.
    pub fn checks(&self, mark: &Mark) -> Vec<Check> {
        checks(mark, &self.curves)
    }

    /// Why [`Self::checks`] has nothing for a mark.
    pub fn not_compared(&self, mark: &Mark) -> String {
        let names = self.names();
        let whole = |curve: &str| names.iter().any(|name| is_called(name, curve));
        match mark.curves().find(|curve| !whole(curve)) {
            _ if mark.on.is_none() => "it names no curve; add on = \"CURVE\" to the mark".to_owned(),
            Some(unknown) if names.is_empty() => format!("there is no curve `{unknown}`"),
            Some(unknown) => format!("there is no curve `{unknown}`; there are {}", names.join("; ")),
            None => "no curve that it names reaches this place".to_owned(),
        }
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
        let verdict = match (check.of, check.within) {
            (Compared::Bound, Some(true)) => ", stated value within the bound",
            (Compared::Bound, Some(false)) => ", stated value ABOVE the bound",
            (_, Some(true)) => ", within the tolerance",
            (_, Some(false)) => ", OUTSIDE the tolerance",
            (_, None) => ", no tolerance stated",
        };
        let (place, axis) = match check.of {
            Compared::Value | Compared::Bound => ("", &self.axes.y),
            Compared::Steepest => ("steepest at ", &self.axes.x),
            Compared::Leaves => ("apart from ", &self.axes.x),
        };
        let value = format::quantity(check.value, unit(axis));
        format!("{curve}{who}{place}{value} ({}){verdict}", format::signed(check.error, Unit::Share))
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

mod trend {
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
            let steps = series.levels.iter().flat_map(|level| {
                [level.from_run, level.to_run].map(|run| Dot { x: place(run), y: level.median.into() })
            });
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
}
