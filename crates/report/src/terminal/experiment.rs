//! [`experiment`]: output of `netcliff run`.

use netcliff_core::experiment::{Check, Curve, Mark, MarkVerdict};

use super::Style;
use super::chart::{chart, letter};
use super::page::{Page, Tone};
use crate::drawing::{Drawing, NotHad, UNDECIDED, answer, is_undecided, unit};
use crate::format;

/// Columns of values in the table of curves.
const VALUES: usize = 4;
/// Width of a value and of a curve's name.
const VALUE: usize = 12;
const NAME: usize = 30;
/// The meaning of the list of stated values.
const STATED: &str = "Values that the experiment file states, with their sources. Below each: the value measured or computed here, in brackets its relative error or, of a ratio or difference of two points, its confidence interval (none for formulas, single repeats and short simulations).";

/// The whole page as lines of at most `style.width` columns, ending in a newline: how many stated values are
/// reproduced, configuration, plot, a few values of each curve, the stated values with the distance of each curve from
/// them, points without a value.
pub fn experiment(drawing: &Drawing, style: Style) -> String {
    experiment_with(drawing, style, "--html or --csv")
}

/// Like [`experiment`]. `intervals` says where the confidence intervals of the values are.
pub fn experiment_with(drawing: &Drawing, style: Style, intervals: &str) -> String {
    let mut page = Page::new(style);
    page.paragraph(0, Tone::Strong, &drawing.title);
    if drawing.partial {
        page.paragraph(0, Tone::Alarm, "PARTIAL: stopped early. Results up to then are shown; --resume continues.");
    }
    let checked = drawing.checked();
    if let Some(answer) = answer(&checked) {
        page.paragraph(0, Tone::Plain, &answer);
    }
    for (name, fact) in &drawing.asked {
        page.fact(name, fact);
    }
    let plot = chart(drawing, page.style());
    page.block(&plot);
    if !plot.is_empty() {
        page.paragraph(2, Tone::Faint, &legend(drawing));
    }
    values(&mut page, drawing, intervals);
    marks(&mut page, drawing, &checked);
    if !drawing.not_had.is_empty() {
        page.heading("POINTS WITHOUT A VALUE");
        NotHad::by_reason(&drawing.not_had).iter().for_each(|reason| page.item("- ", reason));
        if let Some(hint) = drawing.fidelity_hint() {
            page.paragraph(2, Tone::Faint, hint);
        }
    }
    page.finish()
}

/// The meaning of the plot's letters and digits.
fn legend(drawing: &Drawing) -> String {
    let mut text = "A letter marks a point of the curve that has this letter in the table below; where points coincide, only the last letter is shown".to_owned();
    if drawing.answerers().len() > 1 {
        text += ". All engines of a curve share its letter";
    }
    let drawn = || drawing.marks.iter().filter(|mark| mark.is_drawn());
    if drawn().next().is_some() {
        text += ". A digit marks the value with this number under STATED VALUES";
    }
    if drawn().any(|mark| mark.x.is_none()) {
        text += &format!(", at the left edge if it has no {}", drawing.axes.x.name);
    }
    if drawn().any(|mark| mark.y.is_none()) {
        text += &format!(", at the top edge if it has no {}", drawing.axes.y.name);
    }
    if drawn().next().is_some() && drawing.marks.iter().any(|mark| !mark.is_drawn()) {
        text +=
            ". Values that compare two points of curves, state only a range, or are of another figure have no digit";
    }
    text + "."
}

/// A few values of each curve at common places, with the curve's letter in the plot; then the meaning of each engine.
fn values(page: &mut Page, drawing: &Drawing, intervals: &str) {
    let shown = places(&drawing.curves);
    page.heading(&format!("{} BY {}", drawing.axes.y.name.to_uppercase(), drawing.axes.x.name.to_uppercase()));
    let mut head = String::new();
    for x in &shown {
        head.push_str(&cell(&format::quantity(*x, unit(&drawing.axes.x))));
    }
    let mut lines = vec![format!("  {:NAME$}{head}", "")];
    for (place, name) in drawing.names().into_iter().enumerate() {
        let name = format!("{} {name}", letter(place));
        let curves: Vec<&Curve> = drawing.curves.iter().filter(|curve| curve.name == name[2..]).collect();
        let cells = |curve: &Curve| -> String { shown.iter().map(|x| value(drawing, curve, *x)).collect() };
        let whole = match curves[..] {
            [Curve { answerer: Some(answerer), .. }] => format!("{name}, {answerer}"),
            _ => name.clone(),
        };
        match curves[..] {
            [curve] if whole.chars().count() < NAME => lines.push(format!("  {whole:NAME$}{}", cells(curve))),
            _ => {
                lines.push(format!("  {name}"));
                for curve in curves {
                    let who = curve.answerer.map_or(String::new(), |answerer| format!("    {answerer}"));
                    lines.push(format!("  {who:NAME$}{}", cells(curve)));
                }
            }
        }
    }
    if shown.is_empty() {
        return page.paragraph(2, Tone::Plain, "No point has a value.");
    }
    page.block(&lines.join("\n"));
    let mut notes = drawing.engines();
    // The table has no room for the intervals.
    if let Some(interval) = drawing.curves.iter().flat_map(|curve| &curve.dots).find_map(|dot| dot.y.interval) {
        let level = format::share_short(interval.confidence);
        notes.push(format!("Confidence intervals ({level}) of the values: {intervals}."));
    }
    if !notes.is_empty() {
        page.lines(std::iter::once(String::new()));
        notes.iter().for_each(|line| page.paragraph(2, Tone::Faint, line));
    }
}

/// At most [`VALUES`] places along x, spread over the places of all curves.
fn places(curves: &[Curve]) -> Vec<f64> {
    let mut all: Vec<f64> = curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.x).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    if all.len() <= VALUES {
        return all;
    }
    (0..VALUES).map(|n| all[n * (all.len() - 1) / (VALUES - 1)]).collect()
}

fn value(drawing: &Drawing, curve: &Curve, x: f64) -> String {
    let dot = curve.dots.iter().find(|dot| dot.x == x);
    let text = dot.map_or("-".to_owned(), |dot| format::quantity(dot.y.value, unit(&drawing.axes.y)));
    cell(&text)
}

/// A value in its column. A longer value shifts the following columns, so that two values never touch.
fn cell(text: &str) -> String {
    format!(" {text:>width$}", width = VALUE - 1)
}

fn marks(page: &mut Page, drawing: &Drawing, checked: &[(&Mark, Vec<Check>)]) {
    if checked.is_empty() {
        return;
    }
    page.heading("STATED VALUES");
    page.paragraph(2, Tone::Faint, STATED);
    for (index, (mark, checks)) in checked.iter().enumerate() {
        let text = format!("{}: {}; {}", mark.label, drawing.claim(mark), mark.source);
        page.item(&format!("{}. ", index + 1), &text);
        if checks.is_empty() {
            page.paragraph(5, Tone::Plain, &format!("not compared: {}", drawing.not_compared(mark)));
        }
        for check in checks {
            let contradicted = check.verdict() == Some(MarkVerdict::Contradicted);
            let tone = if contradicted { Tone::Alarm } else { Tone::Plain };
            page.paragraph(5, tone, &drawing.compared(mark, check));
        }
    }
    if checked.iter().any(|(_, checks)| is_undecided(checks)) {
        page.paragraph(2, Tone::Faint, UNDECIDED);
    }
}
