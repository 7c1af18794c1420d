//! Draws the inside of the plot: areas, bands, lines, points, and marks.

mod marked;

use maud::{Markup, html};

use super::Frame;
use crate::plot::sheet::number;
use crate::plot::{Dot, Plot, Series, Spread, TONES, cover, swatch};

/// If a line has many points, only points at least this far apart are shown [drawing units].
const APART: f64 = 64.0;
/// Largest number of values of a line that are all shown as points.
const FEW: usize = 16;

pub fn draw(plot: &Plot, frame: &Frame) -> Markup {
    let hidden = cover::hidden(plot);
    html! {
        @for pointer in &plot.pointers { (marked::pointer(plot, frame, pointer)) }
        (marked::levels(plot, frame))
        @for index in cover::order(plot) {
            @let series = &plot.series[index];
            @let tone = series.look.tone % TONES.len();
            g.s .{ "t" (tone) } data-s=(index) color=(TONES[tone]) { (curve(plot, frame, index, hidden[index].is_some())) }
        }
        (marked::stated(plot, frame))
    }
}

/// A dot with its place, as shares of the axes.
type Placed<'a> = (&'a Dot, (f64, f64));

fn curve(plot: &Plot, frame: &Frame, index: usize, hidden: bool) -> Markup {
    let series = &plot.series[index];
    let runs = runs(plot, series);
    html! {
        @for run in &runs {
            @if series.look.area { path d=(area(plot, frame, run)) fill="currentColor" stroke="none" {} }
            @if series.look.spread == Spread::Band {
                path d=(band(plot, frame, run)) fill="currentColor" opacity="0.22" stroke="none" {}
            }
            @if let Some((dash, width)) = series.look.line.filter(|_| run.len() > 1) {
                // A covered curve is visible at both sides of the curve that covers it.
                @if hidden { path d=(line(frame, run)) fill="none" stroke="currentColor" stroke-width=(number(width + 5.0)) opacity="0.35" {} }
                path d=(line(frame, run)) fill="none" stroke="currentColor" stroke-width=(number(width)) stroke-linejoin="round" stroke-dasharray=[swatch::dashes(dash)] {}
            }
        }
        @let bars = bars(plot, frame, series);
        @if !bars.is_empty() { path d=(bars) fill="none" stroke="currentColor" stroke-width="1.2" opacity="0.6" {} }
        (points(frame, index, series, &runs))
    }
}

/// The dots inside the plot, in runs that one line connects. A dot outside the plot ends a run, and so does the break
/// between the axis and zero.
fn runs<'a>(plot: &Plot, series: &'a Series) -> Vec<Vec<Placed<'a>>> {
    let mut runs: Vec<Vec<Placed<'a>>> = vec![Vec::new()];
    for dot in &series.dots {
        let y = if series.look.area { Some(plot.y.clipped(dot.base + dot.y)) } else { plot.y.place(dot.y) };
        let Some(place) = plot.x.place(dot.x).zip(y) else {
            runs.push(Vec::new());
            continue;
        };
        let before = runs.last().and_then(|run| run.last());
        if before.is_some_and(|(before, _)| plot.y.is_apart(before.y) != plot.y.is_apart(dot.y)) {
            runs.push(Vec::new());
        }
        if let Some(run) = runs.last_mut() {
            run.push((dot, place));
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let letter = if path.is_empty() { 'M' } else { 'L' };
        path.push_str(&format!("{letter}{} {}", number(x), number(y)));
    }
    path
}

fn line(frame: &Frame, run: &[Placed<'_>]) -> String {
    path(run.iter().map(|(_, (x, y))| frame.at(*x, *y)))
}

fn area(plot: &Plot, frame: &Frame, run: &[Placed<'_>]) -> String {
    let upper = run.iter().map(|(_, (x, y))| frame.at(*x, *y));
    let lower = run.iter().rev().map(|(dot, (x, _))| frame.at(*x, plot.y.clipped(dot.base)));
    path(upper.chain(lower)) + "Z"
}

fn band(plot: &Plot, frame: &Frame, run: &[Placed<'_>]) -> String {
    // The interval of a zero is not drawn as an area, because the area would cover decades in which nothing was
    // measured.
    let drawn: Vec<&Placed<'_>> = run.iter().filter(|(dot, _)| !plot.y.is_apart(dot.y)).collect();
    if drawn.len() < 2 {
        return String::new();
    }
    let upper = drawn.iter().map(|(dot, (x, _))| frame.at(*x, plot.y.clipped(dot.high)));
    let lower = drawn.iter().rev().map(|(dot, (x, _))| frame.at(*x, plot.y.clipped(dot.low.max(0.0))));
    path(upper.chain(lower)) + "Z"
}

/// Intervals as bars: all intervals of points, and those intervals of lines that the band leaves out.
fn bars(plot: &Plot, frame: &Frame, series: &Series) -> String {
    let one = |dot: &Dot| {
        let alone =
            series.look.spread == Spread::Bars || (series.look.spread == Spread::Band && plot.y.is_apart(dot.y));
        if !alone || dot.is_at_least() || dot.low >= dot.high {
            return None;
        }
        plot.y.place(dot.y)?;
        let x = plot.x.place(dot.x)?;
        let (low, high) = (frame.at(x, plot.y.clipped(dot.low.max(0.0))), frame.at(x, plot.y.clipped(dot.high)));
        // The bound of a zero is a short stroke at its end, so that it is not read as an error bar of a measured value.
        if plot.y.is_apart(dot.y) && !plot.y.is_apart(dot.high) {
            return Some(format!(
                "M{} {}L{} {}",
                number(high.0 - 4.0),
                number(high.1),
                number(high.0 + 4.0),
                number(high.1)
            ));
        }
        Some(format!("M{} {}L{} {}", number(low.0), number(low.1), number(high.0), number(high.1)))
    };
    series.dots.iter().filter_map(one).collect()
}

fn points(frame: &Frame, index: usize, series: &Series, runs: &[Vec<Placed<'_>>]) -> Markup {
    let all: Vec<(&Dot, (f64, f64))> = runs.iter().flatten().map(|(dot, (x, y))| (*dot, frame.at(*x, *y))).collect();
    let lonely = runs.iter().filter(|run| run.len() == 1).flatten().map(|(dot, _)| dot.x).collect::<Vec<f64>>();
    let many = series.look.line.is_some() && all.len() > FEW;
    // Each curve starts its points elsewhere, so that points of curves that coincide are next to each other.
    let mut next = frame.left + APART * (index % 5) as f64 / 5.0;
    let shown = all.into_iter().filter(|(dot, (x, _))| {
        let due = !many || *x >= next || dot.is_at_least();
        if many && due {
            next = x + APART;
        }
        due
    });
    let shown: Vec<(&Dot, (f64, f64))> = shown.collect();
    html! {
        @if let Some(marker) = series.look.marker {
            @for (dot, at) in shown {
                (swatch::point(super::super::Marker { filled: marker.filled && !dot.late, ..marker }, at))
                @if dot.is_at_least() { (arrow(at)) }
            }
        } @else if !series.look.area {
            // A line of one point would be invisible.
            @for (dot, at) in shown.into_iter().filter(|(dot, _)| lonely.contains(&dot.x)) {
                (swatch::point(super::super::Marker { shape: 0, filled: !dot.late }, at))
            }
        }
    }
}

/// An arrow that points up from a value that is a lower limit.
fn arrow(at: (f64, f64)) -> Markup {
    let place = format!("translate({} {})", number(at.0), number(at.1));
    html! { path.limit transform=(place) d="M0 -4V-22M-4 -16L0 -22L4 -16" fill="none" stroke="currentColor" stroke-width="1.6" {} }
}
