//! An experiment as a picture: a colour a curve, a form an engine, the stated numbers as numbered marks.

use netcliff_core::experiment::{Answerer, Curve, Mark as Stated};
use netcliff_core::{EngineKind, Fidelity};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Chart, Drawn, GREY, INK, Mark, Ruler, px};
use super::curve::Dot;
use crate::drawing::{Drawing, HEADROOM, Span};
use crate::format;

/// Okabe and Ito's colours without yellow, which white swallows, and a brown and a grey; then from the start again.
pub(crate) const COLOURS: [RGBColor; 9] = [
    RGBColor(0x11, 0x11, 0x11),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x88, 0x88, 0x88),
];

/// Upper edge and height of the plot with its axes [pixels].
const PLOT_TOP: f64 = 58.0;
const PLOT_HEIGHT: f64 = 400.0;
/// Height of a line of legend and of a line of marks [pixels].
const ENTRY: f64 = 20.0;
const STATED: f64 = 17.0;
/// Width of a line of small print [characters].
const SMALL_PRINT: usize = 132;

/// The figure with its legend and the list of what is marked.
pub fn experiment(drawing: &Drawing) -> String {
    let names = drawing.names();
    let words = format!("Curves: {}. {}", names.join("; "), stated(drawing).join(". "));
    let origin = origin(drawing);
    let title = shortened(&drawing.title, 84);
    let caption = Caption { title: &title, origin: &origin, words: &words };
    let layout = Layout::of(drawing, &names);
    canvas::document(&caption, layout.height, |area| draw(area, drawing, &names, &layout))
}

/// Where the parts under the plot go.
struct Layout {
    columns: usize,
    rows: usize,
    engines_top: Option<f64>,
    stated_top: f64,
    height: i32,
}

impl Layout {
    fn of(drawing: &Drawing, names: &[&str]) -> Self {
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(1);
        let width = f64::from(canvas::WIDTH) - 32.0;
        let columns = ((width / (46.0 + 6.3 * longest as f64)) as usize).clamp(1, names.len().max(1));
        let rows = names.len().div_ceil(columns);
        let under = PLOT_TOP + PLOT_HEIGHT + 8.0 + ENTRY * rows as f64;
        let engines = drawing.answerers();
        let (engines_top, stated_top) =
            if engines.is_empty() { (None, under + 4.0) } else { (Some(under), under + ENTRY + 4.0) };
        let height = stated_top + STATED * stated(drawing).len() as f64 + 10.0;
        Self { columns, rows, engines_top, stated_top, height: height.ceil() as i32 }
    }
}

/// How an engine's curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Look {
    Line,
    Dashes,
    Dots,
    Hollow,
}

fn look(drawing: &Drawing, answerer: Option<Answerer>) -> Look {
    let both = |fidelity| drawing.answerers().iter().any(|other| other.fidelity == Some(fidelity));
    match answerer {
        None => Look::Line,
        Some(Answerer { engine: EngineKind::Sim, .. }) => Look::Dots,
        Some(Answerer { engine: EngineKind::Wire, .. }) => Look::Hollow,
        Some(Answerer { fidelity: Some(Fidelity::Paper), .. }) if both(Fidelity::Exact) => Look::Dashes,
        Some(_) => Look::Line,
    }
}

fn draw(area: &Area<'_>, drawing: &Drawing, names: &[&str], layout: &Layout) -> Drawn {
    let (x, y) = spans(drawing);
    let (x_written, y_written) = (|at: f64| x.written(at), |at: f64| y.written(at));
    let along = Ruler { name: &x.name, low: x.low, high: x.high, ticks: x.ticks(10), written: &x_written };
    let up = Ruler { name: &y.name, low: y.low, high: y.high, ticks: y.ticks(8), written: &y_written };
    let below = f64::from(layout.height) - PLOT_TOP - PLOT_HEIGHT;
    let plot = area.margin(px(PLOT_TOP), px(below), 0, 0);
    let mut chart = canvas::rulers(&plot, (8.0, 26.0), &along, &up)?;
    if drawing.curves.is_empty() {
        canvas::nothing(&plot, "no points")?;
    }
    for curve in &drawing.curves {
        let place = names.iter().position(|name| *name == curve.name).unwrap_or(0);
        draw_curve(&mut chart, drawing, curve, &COLOURS[place % COLOURS.len()], (&x, &y))?;
    }
    for (index, mark) in drawing.marks.iter().enumerate() {
        draw_mark(area, &mut chart, index, mark, (&x, &y))?;
    }
    draw_legend(area, drawing, names, layout)?;
    for (index, line) in stated(drawing).iter().enumerate() {
        let top = layout.stated_top + STATED * index as f64;
        canvas::label(area, (16.0, top), 11.5, &INK, HPos::Left, false, &shortened(line, SMALL_PRINT))?;
    }
    Ok(())
}

/// Both axes, wide enough for curves and marks.
pub(crate) fn spans(drawing: &Drawing) -> (Span, Span) {
    let dots = || drawing.curves.iter().flat_map(|curve| &curve.dots);
    let xs = dots().map(|dot| dot.x).chain(drawing.marks.iter().filter_map(|mark| mark.x));
    let ys = dots().map(|dot| dot.y.value).chain(drawing.marks.iter().filter_map(|mark| mark.y));
    (Span::new(&drawing.axes.x, xs, 1.0), Span::new(&drawing.axes.y, ys, HEADROOM))
}

/// The points that are on the axes, in runs: a point beyond them interrupts the line.
fn runs(curve: &Curve, (x, y): (&Span, &Span)) -> Vec<Vec<Dot>> {
    let mut runs = vec![Vec::new()];
    for dot in &curve.dots {
        let Some((at, value)) = x.place(dot.x).zip(y.place(dot.y.value)) else {
            runs.push(Vec::new());
            continue;
        };
        let (low, high) = dot.y.interval.map_or((value, value), |ends| (y.clipped(ends.low), y.clipped(ends.high)));
        if let Some(run) = runs.last_mut() {
            run.push(Dot { x: at, y: value, low, high, kept_up: true });
        }
    }
    runs
}

fn draw_curve(
    chart: &mut Chart<'_, '_>,
    drawing: &Drawing,
    curve: &Curve,
    colour: &RGBColor,
    spans: (&Span, &Span),
) -> Drawn {
    let look = look(drawing, curve.answerer);
    for run in runs(curve, spans).iter().filter(|run| !run.is_empty()) {
        match look {
            // A line of one point would not be seen.
            Look::Line | Look::Dashes if run.len() == 1 => canvas::points(chart, run, colour, 2.8)?,
            Look::Line => canvas::line(chart, run, colour, 2.0)?,
            Look::Dashes => canvas::dashes(chart, run, colour, 2.0)?,
            Look::Dots | Look::Hollow => {
                if drawing.alone(curve) {
                    canvas::line(chart, run, colour, 1.2)?;
                }
                let filled = look == Look::Dots;
                canvas::bars(chart, run, colour)?;
                // The bars are drawn: what is left is a point.
                let point = |dot: &Dot| Dot { low: dot.y, high: dot.y, kept_up: filled, ..*dot };
                let dots: Vec<Dot> = run.iter().map(point).collect();
                canvas::points(chart, &dots, colour, 2.8)?;
            }
        }
    }
    Ok(())
}

fn draw_mark(area: &Area<'_>, chart: &mut Chart<'_, '_>, index: usize, mark: &Stated, (x, y): (&Span, &Span)) -> Drawn {
    let number = &(index + 1).to_string();
    // Lines that are near each other keep their numbers apart by beginning them further along.
    let aside = 6.0 + 16.0 * index as f64;
    let line = |ends: [(f64, f64); 2]| -> Vec<Dot> {
        ends.iter().map(|(x, y)| Dot { x: *x, y: *y, low: *y, high: *y, kept_up: true }).collect()
    };
    match (mark.x, mark.y) {
        (Some(at), None) => {
            let Some(at) = x.place(at) else { return Ok(()) };
            canvas::dashes(chart, &line([(at, y.low), (at, y.high)]), &GREY, 1.0)?;
            canvas::note(area, chart, (at, y.high), (4.0, 4.0), HPos::Left, number)
        }
        (None, Some(value)) => {
            let Some(value) = y.place(value) else { return Ok(()) };
            canvas::dashes(chart, &line([(x.low, value), (x.high, value)]), &GREY, 1.0)?;
            canvas::note(area, chart, (x.low, value), (aside, -15.0), HPos::Left, number)
        }
        (Some(at), Some(value)) => {
            let Some((at, value)) = x.place(at).zip(y.place(value)) else { return Ok(()) };
            if let Some((low, high)) = mark.interval {
                canvas::hairline(chart, (at, y.clipped(low)), (at, y.clipped(high)), &INK)?;
            }
            canvas::diamond(area, chart, (at, value), &INK)?;
            canvas::note(area, chart, (at, value), (8.0, -16.0), HPos::Left, number)
        }
        (None, None) => Ok(()),
    }
}

fn draw_legend(area: &Area<'_>, drawing: &Drawing, names: &[&str], layout: &Layout) -> Drawn {
    let width = (f64::from(canvas::WIDTH) - 32.0) / layout.columns as f64;
    let lined = drawing.curves.iter().any(|curve| !drawing.alone(curve) || curve.answerer.is_none());
    let mark = if lined { Mark::Line } else { Mark::Point };
    for (index, name) in names.iter().enumerate() {
        let (column, row) = (index / layout.rows, index % layout.rows);
        let (left, top) = (16.0 + width * column as f64, PLOT_TOP + PLOT_HEIGHT + 8.0 + ENTRY * row as f64);
        canvas::legend(area, left, top, &[(mark, COLOURS[index % COLOURS.len()], name)])?;
    }
    let Some(top) = layout.engines_top else { return Ok(()) };
    let entries: Vec<(Mark, RGBColor, String)> = drawing
        .answerers()
        .into_iter()
        .map(|answerer| match look(drawing, Some(answerer)) {
            Look::Line => (Mark::Line, GREY, answerer.to_string()),
            Look::Dashes => (Mark::Dashes, GREY, answerer.to_string()),
            Look::Dots => (Mark::Point, GREY, "simulation with interval".to_owned()),
            Look::Hollow => (Mark::Hollow, GREY, "measured".to_owned()),
        })
        .collect();
    let entries: Vec<(Mark, RGBColor, &str)> = entries.iter().map(|(m, c, text)| (*m, *c, text.as_str())).collect();
    canvas::legend(area, 16.0, top, &entries)
}

/// The marks in words, numbered as in the plot.
fn stated(drawing: &Drawing) -> Vec<String> {
    let line = |(index, mark): (usize, &Stated)| {
        format!("{}  {}: {}; {}", index + 1, mark.label, drawing.place(mark), mark.source)
    };
    drawing.marks.iter().enumerate().map(line).collect()
}

/// The configuration, under the title.
fn origin(drawing: &Drawing) -> String {
    let facts: Vec<&str> = drawing.asked.iter().map(|(_, value)| value.as_str()).collect();
    shortened(&facts.join(" · "), SMALL_PRINT - 6)
}

fn shortened(text: &str, most: usize) -> String {
    let text = format::printable(text);
    match text.char_indices().nth(most) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text,
    }
}
