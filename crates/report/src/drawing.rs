//! [`Drawing`]: an experiment with its results, ready to be drawn as text, SVG or HTML.

pub(crate) mod stored;

use netcliff_core::experiment::{
    Answerer, Axes, Axis, BadValue, Check, Compared, Curve, Experiment, Key, Lack, Mark, MarkVerdict, checks, is_called,
};
use netcliff_core::{EngineKind, Fidelity, Provenance};

use crate::format::{self, Unit};
use crate::table::grouped;

/// Points of one curve that have no result for the same reason.
#[derive(Debug, Clone, PartialEq)]
pub struct NotHad {
    /// The curve.
    pub curve: String,
    /// The engine or formula.
    pub answerer: Answerer,
    /// Number of points.
    pub points: usize,
    /// The reason, a sentence.
    pub why: String,
    /// True: the model has values of these points with another fidelity.
    pub other_fidelity: bool,
}

impl NotHad {
    /// These points as a sentence: curve, engine, number of points and reason.
    pub fn text(&self) -> String {
        let points = if self.points == 1 { "1 point".to_owned() } else { format!("{} points", self.points) };
        format!("{}, {}, {points}: {}", self.curve, self.answerer, self.why)
    }

    /// The reasons of several entries, as sentences: each reason once, with the curves that have it.
    pub fn by_reason<'a>(several: impl IntoIterator<Item = &'a Self>) -> Vec<String> {
        let text = |(why, group): (&str, Vec<&Self>)| {
            if let [one] = group.as_slice() {
                return one.text();
            }
            let named = group.iter().take(NAMED).map(|one| format!("{}, {}", one.curve, one.answerer));
            let rest = group.len().saturating_sub(NAMED);
            let rest = (rest > 0).then(|| format!("{rest} more"));
            let points: usize = group.iter().map(|one| one.points).sum();
            let names: Vec<String> = named.chain(rest).collect();
            format!("{} curves ({}), {points} points: {why}", group.len(), names.join("; "))
        };
        grouped(several.into_iter().map(|one| (one.why.as_str(), one))).into_iter().map(text).collect()
    }
}

/// Largest number of curves that are named for one reason.
const NAMED: usize = 3;

/// Largest number of stated values of one verdict that [`answer`] names by their labels.
const LABELLED: usize = 2;

/// Verdict on a stated value by all its comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overall {
    /// Every comparison reproduces it.
    Reproduced,
    /// Comparisons with some curves or engines reproduce it, others contradict it.
    Mixed,
    /// At least one comparison contradicts it, and no comparison reproduces it.
    Contradicted,
    /// At least one comparison is undecided, and no comparison contradicts it.
    Undecided,
    /// There is no comparison, or the value has no tolerance.
    Open,
}

impl Overall {
    fn of(checks: &[Check]) -> Self {
        let has = |wanted: MarkVerdict| checks.iter().any(|check| check.verdict() == Some(wanted));
        let [reproduced, contradicted, undecided] =
            [MarkVerdict::Reproduced, MarkVerdict::Contradicted, MarkVerdict::Undecided].map(has);
        match (reproduced, contradicted) {
            (true, true) => Self::Mixed,
            (false, true) => Self::Contradicted,
            _ if undecided => Self::Undecided,
            (true, false) => Self::Reproduced,
            (false, false) => Self::Open,
        }
    }
}

/// How many stated values the curves reproduce and contradict, and the numbers of those that they do not reproduce:
/// `7 stated values: 5 reproduced, 1 contradicted, 1 undecided. Contradicted: number 6 (LABEL). ...`. `None` without
/// stated values. `checked`: [`Drawing::checked`].
pub fn answer(checked: &[(&Mark, Vec<Check>)]) -> Option<String> {
    if checked.is_empty() {
        return None;
    }
    let overall: Vec<Overall> = checked.iter().map(|(_, checks)| Overall::of(checks)).collect();
    let of = |wanted: Overall| -> Vec<usize> { (0..overall.len()).filter(|at| overall[*at] == wanted).collect() };
    let all = format::counted(overall.len() as u64, "stated value");
    let mut counts = vec![format!("{all}: {} reproduced", of(Overall::Reproduced).len())];
    let mut sentences = Vec::new();
    for (verdict, word, is_always) in [
        (Overall::Contradicted, "contradicted", true),
        (Overall::Undecided, "undecided", true),
        (Overall::Mixed, "reproduced by some curves or engines and contradicted by others", false),
        (Overall::Open, "without a verdict", false),
    ] {
        let marks = of(verdict);
        if is_always || !marks.is_empty() {
            counts.push(format!("{} {word}", marks.len()));
        }
        if !marks.is_empty() {
            sentences.push(format!(" {}: {}.", format::capitalised(word), numbered(checked, &marks)));
        }
    }
    Some(format!("{}.{}", counts.join(", "), sentences.concat()))
}

/// The numbers of marks, with their labels if there are few.
fn numbered(checked: &[(&Mark, Vec<Check>)], marks: &[usize]) -> String {
    if marks.len() <= LABELLED {
        let labelled = |at: &usize| format!("number {} ({})", at + 1, checked[*at].0.label);
        return marks.iter().map(labelled).collect::<Vec<_>>().join(", ");
    }
    let numbers: Vec<String> = marks.iter().map(|at| (at + 1).to_string()).collect();
    format!("numbers {}", numbers.join(", "))
}

/// Whether the interval of any compared value crosses an end of the accepted range.
pub fn is_undecided(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.verdict() == Some(MarkVerdict::Undecided))
}

/// The meaning of "undecided" after a comparison.
pub const UNDECIDED: &str = "Undecided: the confidence interval of the value crosses an end of the accepted range. More or longer repeats, or more simulated packets, narrow it.";

/// A figure with its title, marks, configuration and provenance.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Title of the figure, in one line.
    pub title: String,
    /// The axes: x and y.
    pub axes: Axes,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Stated values that the curves are compared with.
    pub marks: Vec<Mark>,
    /// Curves of figures other than the drawn one, by key, for marks about those figures. If the experiment draws no
    /// figure, its curves have the key "".
    pub judged: std::collections::BTreeMap<String, Vec<Curve>>,
    /// Settings that a device does not have or that have no effect there, and other results that are missing.
    pub missing: Vec<Lack>,
    /// Points that were not computed or measured, with the reason.
    pub not_had: Vec<NotHad>,
    /// The limit of each measured value, a phrase each; empty if the limits are not known.
    pub limits: Vec<String>,
    /// The configuration: name and value.
    pub asked: Vec<(String, String)>,
    /// Complete text of the experiment's file.
    pub source: String,
    /// How it was produced.
    pub provenance: Provenance,
    /// True: stopped before every point was answered.
    pub partial: bool,
}

impl Drawing {
    /// The drawing of an experiment with these curves; no point is missing.
    ///
    /// # Errors
    /// Errors of [`Experiment::axes`]. An experiment that was read from a file has none.
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
            limits: Vec::new(),
            judged: Default::default(),
            missing: Vec::new(),
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

    /// The meaning of each engine and formula of the curves, a line each. Measurements need no explanation.
    pub fn engines(&self) -> Vec<String> {
        let meaning = |answerer: Answerer| {
            let meaning = match (answerer.engine, answerer.fidelity) {
                (EngineKind::Model, Some(Fidelity::Exact)) => "Markov chain, exact under its stated assumptions",
                (EngineKind::Model, Some(Fidelity::Paper)) => {
                    "the paper's approximation, corrected where docs/theory/misprints.md says"
                }
                (EngineKind::Model, Some(Fidelity::Printed)) => "the paper's approximation as printed, with misprints",
                (EngineKind::Sim, _) => "simulation, packet by packet",
                (EngineKind::Model, None) | (EngineKind::Wire, _) => return None,
            };
            Some(format!("{answerer}: {meaning}"))
        };
        self.answerers().into_iter().filter_map(meaning).collect()
    }

    /// A curve's name, with its engine if there are several.
    pub fn full_name(&self, curve: &Curve) -> String {
        match curve.answerer {
            Some(answerer) if self.answerers().len() > 1 => format!("{}: {answerer}", curve.name),
            _ => curve.name.clone(),
        }
    }

    /// True if the model has no curve with this name. Its points are then also connected by a line.
    pub fn alone(&self, curve: &Curve) -> bool {
        !self.curves.iter().any(|other| {
            other.name == curve.name && other.answerer.is_some_and(|answerer| answerer.engine == EngineKind::Model)
        })
    }

    /// Comparisons of a mark with its curves.
    pub fn checks(&self, mark: &Mark) -> Vec<Check> {
        checks(mark, self.curves_for(mark))
    }

    /// The curves with which a mark is compared.
    fn curves_for(&self, mark: &Mark) -> &[Curve] {
        let key = mark.of.as_ref().map_or("", |of| of.key.as_str());
        self.judged.get(key).unwrap_or(&self.curves)
    }

    /// Sets the curves with which marks are compared. `curves` returns the curves for the key of a figure that a mark
    /// is about; the key "" means the drawn figure.
    #[must_use]
    pub fn judged_by(mut self, curves: impl Fn(&str) -> Option<Vec<Curve>>) -> Self {
        let keys = self.marks.iter().map(|mark| mark.of.as_ref().map_or(String::new(), |of| of.key.clone()));
        self.judged = keys.filter_map(|key| Some((key.clone(), curves(&key)?))).collect();
        self
    }

    /// Every mark with the comparisons with its curves.
    pub fn checked(&self) -> Vec<(&Mark, Vec<Check>)> {
        self.marks.iter().map(|mark| (mark, self.checks(mark))).collect()
    }

    /// Where the fidelity of the model is set, if a point has no value for want of another one. `None` otherwise.
    pub fn fidelity_hint(&self) -> Option<&'static str> {
        let wants = self.not_had.iter().any(|one| one.other_fidelity);
        wants.then_some("The experiment file sets the fidelity: fidelity = [\"paper\", \"exact\"] computes both.")
    }

    /// Why [`Self::checks`] has no comparison for a mark.
    pub fn not_compared(&self, mark: &Mark) -> String {
        // A curve of a setting has its key and its value as the name.
        let setting = |curve: &str| curve.split(' ').next()?.parse::<Key>().ok();
        let lacks = |key: Key| self.missing.iter().find(|lack| matches!(lack, Lack::Setting(of, _) if *of == key));
        if let Some(lack) = mark.curves().filter_map(setting).find_map(lacks) {
            return lack.to_string();
        }
        let whole = |name: &str| self.curves_for(mark).iter().any(|curve| is_called(&curve.name, name));
        match mark.curves().find(|curve| !whole(curve)) {
            _ if mark.on.is_none() => {
                "the file names no curve for this value; add on = \"CURVE\" to its [[mark]]".to_owned()
            }
            Some(unknown) => format!("this figure has no curve `{unknown}`"),
            None => "the curve has no value at this place".to_owned(),
        }
    }

    /// The name and the unit of the figure that a mark is about.
    fn about<'a>(&'a self, mark: &'a Mark) -> (&'a str, Unit) {
        mark.of.as_ref().map_or((&self.axes.y.name, unit(&self.axes.y)), |of| (&of.name, Unit::of(of.dimension)))
    }

    /// A mark's claim as text: `offered load 127 kpps, throughput 127 kpps`, `goodput of mtu 9000 divided by that of
    /// mtu 1500: at least 1.1`.
    pub fn place(&self, mark: &Mark) -> String {
        let (name, up) = self.about(mark);
        let along = |x: f64| format::quantity(x, unit(&self.axes.x));
        if let Some(than) = &mark.than {
            let point = |curve: &str, x: Option<f64>| match x {
                Some(x) => format!("{curve} at {}", along(x)),
                None => curve.to_owned(),
            };
            let on = mark.on.as_ref().map_or("", |(on, _)| on.as_str());
            // A curve that is another figure of the same run has that figure's name.
            let is_figure = on == name || than.curve == name;
            let against = match than.curve == on {
                true => than.x.map_or_else(|| "its highest".to_owned(), |x| format!("that at {}", along(x))),
                false if is_figure => point(&than.curve, than.x),
                false => format!("that of {}", point(&than.curve, than.x)),
            };
            let of = if is_figure { String::new() } else { format!("{name} of ") };
            let (word, unit) = if than.is_ratio { ("divided by", Unit::Number) } else { ("minus", up) };
            return format!("{of}{} {word} {against}: {}", point(on, mark.x), ends(than.range, unit));
        }
        let x = mark.x.map(|x| format!("{} {}", self.axes.x.name, along(x)));
        let inside = mark.interval.map(|range| ends(range, up));
        let y = match (mark.y, inside) {
            (Some(y), inside) => {
                let inside = inside.map(|inside| format!(" ({inside})")).unwrap_or_default();
                Some(format!("{name} {}{inside}", format::quantity(y, up)))
            }
            (None, Some(inside)) => Some(format!("{name} {inside}")),
            (None, None) => None,
        };
        let bound = mark.of_bound.map(|(low, high)| {
            // The stated value must not exceed the curve.
            let range = ends((low, high.min(1.0)), Unit::Number);
            let on = mark.on.as_ref().map_or("", |(on, _)| on.as_str());
            let of = if mark.x.is_some() { "that" } else { "the highest" };
            format!(" divided by {of} of {on}: {range}")
        });
        x.into_iter().chain(y).collect::<Vec<_>>().join(", ") + &bound.unwrap_or_default()
    }

    /// A mark's claim with its tolerance: `throughput 127 kpps, tolerance 1 %`.
    pub fn claim(&self, mark: &Mark) -> String {
        let tolerance = mark.on.as_ref().and_then(|(_, tolerance)| *tolerance).map(|tolerance| {
            // The tolerance of 0 is not relative.
            let absolute = mark.y == Some(0.0);
            if absolute { format::quantity(tolerance, self.about(mark).1) } else { format::share_short(tolerance) }
        });
        let tolerance = tolerance.map(|tolerance| format!(", tolerance {tolerance}")).unwrap_or_default();
        format!("{}{tolerance}", self.place(mark))
    }

    /// The value that is compared, without a verdict: `model (paper) 126 kpps (-0.62 %)`; of an upper bound
    /// `model (paper) highest 127 kpps, ratio 0.945`, the ratio of the stated value to it.
    pub fn value(&self, mark: &Mark, check: &Check) -> String {
        let curve = check.curve.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let who = check.answerer.map(|answerer| format!("{answerer} ")).unwrap_or_default();
        let unit = self.unit_of(mark, check);
        let place = match check.of {
            Compared::Bound if mark.x.is_none() => "highest ",
            Compared::Value | Compared::Bound => "",
            Compared::Steepest => "steepest at ",
            Compared::Leaves => "apart from ",
            Compared::Ratio => "ratio ",
            Compared::Difference => "difference ",
        };
        let shown = check.interval.filter(|_| shows_interval(check));
        let interval = shown.map(|range| format!(" ({})", ends(range, unit))).unwrap_or_default();
        let against = match (check.of, mark.y) {
            (Compared::Bound, Some(stated)) => {
                Some(format!(", ratio {}", format::quantity(stated / check.value, Unit::Number)))
            }
            _ => check.error.map(|error| format!(" ({})", format::signed(error, Unit::Share))),
        };
        format!("{curve}{who}{place}{}{interval}{}", end(check.value, unit), against.unwrap_or_default())
    }

    /// The unit of a compared value.
    fn unit_of(&self, mark: &Mark, check: &Check) -> Unit {
        match check.of {
            Compared::Value | Compared::Bound | Compared::Difference => self.about(mark).1,
            Compared::Steepest | Compared::Leaves => unit(&self.axes.x),
            Compared::Ratio => Unit::Number,
        }
    }

    /// A comparison in words: `model (paper) 126 kpps (-0.62 %): reproduced, within the tolerance`.
    pub fn compared(&self, mark: &Mark, check: &Check) -> String {
        let stated = mark.bound || mark.than.is_some() || mark.y.is_none() && mark.interval.is_some();
        let verdict = match check.verdict() {
            Some(MarkVerdict::Reproduced) if stated => "reproduced, as stated".to_owned(),
            Some(MarkVerdict::Contradicted) if stated => "CONTRADICTED, not as stated".to_owned(),
            Some(MarkVerdict::Reproduced) => "reproduced, within the tolerance".to_owned(),
            Some(MarkVerdict::Contradicted) => "CONTRADICTED, outside the tolerance".to_owned(),
            Some(MarkVerdict::Undecided) => {
                let unit = self.unit_of(mark, check);
                let accepted = mark.accepted().map(|range| ends(range, unit)).unwrap_or_default();
                let own = check.interval.filter(|_| !shows_interval(check));
                let own = own.map(|range| format!(" {}", ends(range, unit))).unwrap_or_default();
                format!("undecided, the interval{own} reaches beyond the accepted range ({accepted})")
            }
            None => "no tolerance stated".to_owned(),
        };
        let why = mark.differs.as_ref().filter(|_| check.within == Some(false));
        let why = why.map(|why| format!(". {}", format::capitalised(why))).unwrap_or_default();
        // With several curves, a value is compared with one of them.
        let one = check.curve.is_none() && mark.than.is_none() && self.names().len() > 1;
        let on = mark.on.as_ref().filter(|_| one).map(|(on, _)| format!("{on}: ")).unwrap_or_default();
        format!("{on}{}: {verdict}{why}", self.value(mark, check))
    }
}

/// True if [`Drawing::value`] shows the confidence interval of a comparison.
fn shows_interval(check: &Check) -> bool {
    matches!(check.of, Compared::Ratio | Compared::Difference)
}

/// A range in words, of which one end may be open.
fn ends((low, high): (f64, f64), unit: Unit) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", end(low, unit), end(high, unit)),
        (true, false) => format!("at least {}", end(low, unit)),
        _ => format!("at most {}", end(high, unit)),
    }
}

/// A number that may be below 0, such as a difference.
fn end(value: f64, unit: Unit) -> String {
    if value < 0.0 { format!("-{}", format::quantity(-value, unit)) } else { format::quantity(value, unit) }
}

/// The unit of the numbers on an axis.
pub fn unit(axis: &Axis) -> Unit {
    Unit::of(axis.dimension)
}

mod trend {
    //! A series of a trend as a figure.

    use netcliff_core::Dimension;
    use netcliff_core::Provenance;
    use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
    use netcliff_lab::trend::{Series, Trend};

    use super::Drawing;
    use crate::terminal::comparison::words_of;
    use crate::terminal::trend::title;

    impl Drawing {
        /// A series of a trend: its value in each run, by the position of the run, and the median of each section
        /// between two changes.
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
                title: format!("{}: {}", trend.name, title(trend, series)),
                axes: Axes {
                    x: axis(format!("runs {first} to {last} in their order"), Dimension::Number),
                    y: axis(words_of(&series.quantity), series.quantity.dimension),
                },
                curves: vec![measured, levels],
                marks: Vec::new(),
                not_had: Vec::new(),
                limits: Vec::new(),
                judged: Default::default(),
                missing: Vec::new(),
                asked: changes.collect(),
                source: String::new(),
                provenance,
                partial: false,
            }
        }
    }
}
