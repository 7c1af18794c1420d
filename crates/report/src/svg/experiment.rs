//! An experiment as a picture: colour, dashes and point show the curve, the form shows the engine, and reference values
//! are numbered marks.

use netcliff_core::experiment::{Answerer, Curve, Mark};
use netcliff_core::{EngineKind, Fidelity};

use crate::drawing::Drawing;
use crate::format;
use crate::plot::{DASHES, Dot, GREY, Key, Look, Marker, Plot, Scale, Series, Stated, TONES};

/// The figure with its legend and the list of marks.
pub fn experiment(drawing: &Drawing) -> String {
    plot(drawing, "figure").document()
}

/// The curves of an experiment as a figure of a page.
pub(crate) fn plot(drawing: &Drawing, slug: &str) -> Plot {
    let names = drawing.names();
    let (x, y) = scales(drawing);
    let stated = stated(drawing);
    let words = format!("Curves: {}. {}", names.join("; "), stated.join(". "));
    let mut notes = drawing.engines();
    if drawing.marks.iter().any(Mark::is_drawn) {
        notes.push("Diamonds and dashed lines are stated values:".to_owned());
    }
    notes.extend(stated);
    let series: Vec<Series> = drawing.curves.iter().map(|curve| series(drawing, &names, curve)).collect();
    let facts: Vec<&str> = drawing.asked.iter().map(|(_, value)| value.as_str()).collect();
    let keys = names.iter().enumerate().map(|(at, name)| Key { name: (*name).to_owned(), look: key_look(&series, at) });
    Plot {
        slug: slug.to_owned(),
        title: format::printable(&drawing.title),
        origin: format::printable(&facts.join(" · ")),
        words: format::printable(&words),
        remarks: Vec::new(),
        x,
        y,
        keys: keys.collect(),
        series,
        pointers: Vec::new(),
        levels: Vec::new(),
        stated: drawing.marks.iter().map(place).collect(),
        forms: forms(drawing),
        notes,
        empty: "no points".to_owned(),
    }
}

/// Both axes, wide enough for curves and marks.
pub(crate) fn scales(drawing: &Drawing) -> (Scale, Scale) {
    let dots = || drawing.curves.iter().flat_map(|curve| &curve.dots);
    let marks = || drawing.marks.iter().map(place);
    let xs = dots().map(|dot| dot.x).chain(marks().filter_map(|mark| mark.x));
    let ys = || dots().map(|dot| dot.y.value).chain(marks().filter_map(|mark| mark.y));
    // Extend the axis to the ends of intervals, unless these are far above the values.
    let most = 1.25 * ys().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let linear = drawing.axes.y.scale == netcliff_core::experiment::Scale::Linear;
    let ends = dots().filter(|_| linear).filter_map(|dot| Some(dot.y.interval?.high)).filter(|end| *end <= most);
    (Scale::along(&drawing.axes.x, xs), Scale::up(&drawing.axes.y, ys().chain(ends)))
}

/// The place of a mark. A mark that compares points, or is about another figure, has no place.
fn place(mark: &Mark) -> Stated {
    let ends = mark.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    match mark.is_drawn() {
        true => Stated { x: mark.x, y: mark.y, interval: ends },
        false => Stated { x: None, y: None, interval: None },
    }
}

fn is_exact(drawing: &Drawing) -> bool {
    drawing.answerers().iter().any(|other| other.fidelity == Some(Fidelity::Exact))
}

/// Colour, dashes and point depend on the name, the form on the engine: the model is a line, the paper's formula a thin
/// line, the simulation filled points, the measurement open points.
fn look(drawing: &Drawing, at: usize, many: bool, answerer: Option<Answerer>, alone: bool) -> Look {
    let (tone, dash) = (at % TONES.len(), at % DASHES.len());
    let line = |width: f64, marked: bool| Look {
        marker: marked.then_some(Marker { shape: at, filled: true }),
        ..Look::line(tone, dash, width)
    };
    let points = |filled: bool| Look { line: alone.then_some((dash, 1.3)), ..Look::points(tone, at, filled) };
    match answerer {
        None => Look { spread: crate::plot::Spread::Bars, ..line(2.0, true) },
        Some(Answerer { engine: EngineKind::Sim, .. }) => points(true),
        Some(Answerer { engine: EngineKind::Wire, .. }) => points(false),
        Some(Answerer { fidelity: Some(Fidelity::Paper | Fidelity::Printed), .. }) if is_exact(drawing) => {
            line(1.1, false)
        }
        Some(_) => line(2.0, many),
    }
}

fn series(drawing: &Drawing, names: &[&str], curve: &Curve) -> Series {
    let at = names.iter().position(|name| *name == curve.name).unwrap_or(0);
    let several = drawing.answerers().len() > 1;
    let who = curve.answerer.filter(|_| several).map(|answerer| answerer.to_string()).unwrap_or_default();
    // A name appears once: at the curve that is a line, or else at the first curve.
    let of_name = || drawing.curves.iter().filter(|other| other.name == curve.name);
    let lined = |other: &&Curve| other.answerer.is_none_or(|answerer| answerer.engine == EngineKind::Model);
    let named = of_name().find(lined).or(of_name().next()).is_some_and(|first| std::ptr::eq(first, curve));
    let label = match (names.len() > 1, several) {
        (true, _) => named.then(|| curve.name.clone()),
        (false, true) => Some(who.clone()),
        (false, false) => None,
    };
    let look = look(drawing, at, names.len() > 1, curve.answerer, drawing.alone(curve));
    let label = label.map(|label| format::printable(&label));
    Series { key: at, who, label, look, guide: false, dots: curve.dots.iter().filter_map(dot).collect() }
}

/// A dot of a curve as a point of the plot. `None` if a coordinate or an end of the interval is not a number.
fn dot(dot: &netcliff_core::experiment::Dot) -> Option<Dot> {
    let (low, high) = dot.y.interval.map_or((dot.y.value, dot.y.value), |ends| (ends.low, ends.high));
    let usable = dot.x.is_finite() && dot.y.value.is_finite() && !low.is_nan() && !high.is_nan();
    usable.then_some(Dot { x: dot.x, y: dot.y.value, low, high, base: 0.0, late: false })
}

/// The legend's line and point for a name, from whichever of its series has them.
fn key_look(series: &[Series], at: usize) -> Look {
    let own = || series.iter().filter(|series| series.key == at).map(|series| series.look);
    let first = own().next().unwrap_or(Look::line(at % TONES.len(), at % DASHES.len(), 2.0));
    Look {
        line: own().filter_map(|look| look.line).max_by(|a, b| a.1.total_cmp(&b.1)),
        marker: own().find_map(|look| look.marker),
        spread: crate::plot::Spread::None,
        ..first
    }
}

/// Meaning of the forms, if there are several.
fn forms(drawing: &Drawing) -> Vec<(Look, String)> {
    let limits = drawing.curves.iter().flat_map(|curve| &curve.dots);
    let limits = limits.filter_map(|dot| dot.y.interval).any(|ends| ends.high == f64::INFINITY);
    let answerers = drawing.answerers();
    let mut forms: Vec<(Look, String)> = answerers
        .iter()
        .filter(|_| answerers.len() > 1)
        .map(|answerer| {
            let words = match answerer.engine {
                EngineKind::Sim => "simulation with interval".to_owned(),
                EngineKind::Wire => "measured".to_owned(),
                EngineKind::Model => answerer.to_string(),
            };
            let alone = look(drawing, 0, false, Some(*answerer), false);
            (Look { tone: GREY, line: alone.line.map(|(_, width)| (0, width)), ..alone }, words)
        })
        .collect();
    if limits {
        forms.push((
            Look::points(GREY, 0, true),
            "with an arrow: a lower limit, the tester could do no more".to_owned(),
        ));
    }
    forms
}

/// The marks in words, numbered as in the plot.
fn stated(drawing: &Drawing) -> Vec<String> {
    let line = |(index, mark): (usize, &Mark)| {
        format::printable(&format!("{}  {}: {}; {}", index + 1, mark.label, drawing.claim(mark), mark.source))
    };
    drawing.marks.iter().enumerate().map(line).collect()
}
