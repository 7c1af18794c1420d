//! [`experiment`]: the page of `netcliff run`.

use maud::{Markup, html};
use netcliff_core::experiment::{Check, Curve, Mark};

use super::figure::figure;
use super::page;
use super::stack::{Cell, stack, wide_stack, words};
use super::tables::facts;
use crate::drawing::{Drawing, NotHad, UNDECIDED, answer, is_undecided, unit};
use crate::format;
use crate::svg;

/// One self-contained page: the picture, the reference values, every value, the file, and how it was produced.
pub fn experiment(drawing: &Drawing) -> String {
    page(&titled(&drawing.title, "netcliff run"), &body(drawing))
}

/// The page's title: the title of the experiment, and the command that made the page.
pub(super) fn titled(title: &str, command: &str) -> String {
    let title = if title.is_empty() { "An experiment" } else { title };
    format!("{title} - {command}")
}

fn body(drawing: &Drawing) -> Markup {
    let checked = drawing.checked();
    html! {
        header {
            p.kicker { "netcliff run · " (format::date_utc(drawing.provenance.started_unix_s)) }
            h1 { (if drawing.title.is_empty() { "An experiment" } else { drawing.title.as_str() }) }
            @if drawing.partial {
                p.banner role="status" { strong { "Partial." } " The run was stopped early. Results up to then are shown." }
            }
            @if let Some(answer) = answer(&checked) { p { strong { (answer) } } }
        }
        main {
            (figure(&svg::experiment::plot(drawing, "figure"), false))
            // Without marks, the figure has these notes itself.
            @if !drawing.marks.is_empty() { @for line in drawing.engines() { p.note { (line) } } }
            (stated(drawing, &checked))
            (not_had(drawing))
            (asked(drawing))
            (values(drawing))
            @if !drawing.source.is_empty() {
                section #file { h2 { "Experiment file" } pre { code { (drawing.source) } } }
            }
        }
    }
}

fn stated(drawing: &Drawing, checked: &[(&Mark, Vec<Check>)]) -> Markup {
    let row = |(index, (mark, checks)): (usize, &(&Mark, Vec<Check>))| {
        let found = html! {
            @if checks.is_empty() { "not compared: " (drawing.not_compared(mark)) }
            @for (index, check) in checks.iter().enumerate() {
                @if index > 0 { br; }
                (drawing.compared(mark, check))
            }
        };
        let name = format!("{} {}", index + 1, mark.label);
        vec![words(name), words(drawing.claim(mark)), Cell::Words(found), words(&mark.source)]
    };
    let undecided = checked.iter().any(|(_, checks)| is_undecided(checks));
    html! {
        @if !checked.is_empty() {
            section #stated {
                h2 { "Stated values" }
                p.note { "Values that the experiment file states, with their sources. Diamonds and dashed lines of the figure, with their numbers; values that compare two points of curves, state only a range, or are of another figure are not drawn. In brackets: the relative error, or the interval." }
                @if undecided { p.note { (UNDECIDED) } }
                (stack(&["number in the figure", "stated", "computed or measured here", "source"], checked.iter().enumerate().map(row)))
            }
        }
    }
}

fn not_had(drawing: &Drawing) -> Markup {
    html! {
        @if !drawing.not_had.is_empty() {
            section #not-had {
                h2 { "Points without a value" }
                ul { @for reason in NotHad::by_reason(&drawing.not_had) { li { (reason) } } }
                @if let Some(hint) = drawing.fidelity_hint() { p.note { (hint) } }
            }
        }
    }
}

fn asked(drawing: &Drawing) -> Markup {
    let provenance = &drawing.provenance;
    html! {
        section #asked {
            h2 { "Configuration, version and command" }
            (facts(drawing.asked.iter().map(|(name, value)| (name.as_str(), value.clone())).chain([
                ("netcliff", provenance.version.clone()),
                ("command", provenance.command.clone()),
            ])))
        }
    }
}

/// A table of every value, with a column for each curve.
fn values(drawing: &Drawing) -> Markup {
    let mut xs: Vec<f64> = drawing.curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let heads: Vec<String> = std::iter::once(drawing.axes.x.name.clone())
        .chain(drawing.curves.iter().map(|curve| drawing.full_name(curve)))
        .collect();
    let row = |x: f64| {
        let first = Cell::Figure(html! { (format::quantity(x, unit(&drawing.axes.x))) });
        let values = drawing.curves.iter().map(|curve| Cell::Figure(value(drawing, curve, x)));
        std::iter::once(first).chain(values).collect()
    };
    html! {
        section #values {
            h2 { "Values" }
            details {
                summary { (drawing.axes.y.name) ", " (drawing.curves.len()) " curves" }
                (wide_stack("Values", &heads, xs.into_iter().map(row)))
            }
        }
    }
}

fn value(drawing: &Drawing, curve: &Curve, x: f64) -> Markup {
    let unit = unit(&drawing.axes.y);
    html! {
        @match curve.dots.iter().find(|dot| dot.x == x) {
            None => span.absent { "-" },
            Some(dot) => {
                (format::value(&dot.y, unit))
                @if let Some(ends) = format::interval(&dot.y, unit, "–") { " " span.interval { (ends) } }
            }
        }
    }
}
