//! [`compare`]: the page of `netcliff compare`.

use maud::{Markup, html};
use netcliff_core::{Figure, Interval};
use netcliff_lab::compare::{Change, Comparison, Row, Side, Verdict, point_title};

use super::page;
use super::stack::{Cell, figure as number, stack, words};
use crate::format::{self, Unit};
use crate::terminal::comparison::{
    answer, bar_line, bar_verdict, by_size, change, legends, method, name, open_rows, p, sides, value,
};

/// The self-contained page: both runs, every figure with its change, the limit of `--fail-if-slower`, and changed
/// settings.
pub fn compare(comparison: &Comparison) -> String {
    page(&format!("{} - netcliff compare", headline(comparison)), &body(comparison))
}

/// Headline of the page: the second run against the first.
fn headline(comparison: &Comparison) -> String {
    format!("{} against {}", comparison.b.name, comparison.a.name)
}

fn body(comparison: &Comparison) -> Markup {
    html! {
        header {
            p.kicker { "netcliff compare · " (comparison.kind) }
            h1 { (headline(comparison)) }
            @if let Some(share) = comparison.fail_if_slower {
                @let (failed, verdict) = bar_verdict(comparison);
                div .callout .alarm[failed] {
                    p { strong { "Slower by more than " (format::share_short(share)) ": " (verdict) } }
                    @for row in open_rows(comparison) { p { (bar_line(comparison, row)) } }
                }
            } @else {
                @let (worse, said) = answer(comparison);
                div .callout .alarm[worse] { p { strong { (said) } } }
            }
        }
        main {
            section #figures {
                h2 { "Changes from A to B" }
                (figures(comparison))
                @for legend in legends(comparison) { p.note { (legend) } }
                @if comparison.is_tested() { p.note { (method(comparison)) "." } }
            }
            section #changed {
                h2 { "Other differences" }
                @if comparison.changed.is_empty() { p { "None of what netcliff records (kernel, settings, devices)." } }
                @else { (changed(comparison)) }
            }
            (only(comparison, "A", &comparison.only_a))
            (only(comparison, "B", &comparison.only_b))
            @if !comparison.notes.is_empty() {
                section #notes { h2 { "Notes" } ul { @for note in &comparison.notes { li { (note) } } } }
            }
            section #runs {
                h2 { "Runs" }
                (stack(&["run", "name", "started", "version", "command"], [run("A", &comparison.a), run("B", &comparison.b)]))
            }
        }
    }
}

fn figures(comparison: &Comparison) -> Markup {
    stack(
        &["point", "figure", "A", "B", "change", "corrected p", "verdict"],
        comparison.rows.iter().map(|row| figure(comparison, row)),
    )
}

fn figure(comparison: &Comparison, row: &Row) -> Vec<Cell> {
    let unit = Unit::of(row.quantity.dimension);
    let side = |figure: Figure, own: Option<Interval>| match own {
        Some(_) => format::with_confidence(&figure, unit),
        None => value(&figure, unit),
    };
    let ([a, b], [own_a, own_b]) = (row.figures(), row.own_intervals);
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotShown => "",
        Verdict::NotTested => "not tested",
        Verdict::Computed => "computed",
    };
    vec![
        words(point_title(comparison.kind, &row.point)),
        words(name(row)),
        words(side(a, own_a)),
        words(side(b, own_b)),
        words(change(row)),
        number(row.p_corrected.map_or("-".to_owned(), p)),
        Cell::Figure(html! { strong { (verdict) } }),
    ]
}

fn changed(comparison: &Comparison) -> Markup {
    let row = |change: &Change| {
        let (a, b) = sides(change);
        vec![words(&change.name), words(a), words(b)]
    };
    stack(&["setting", "A", "B"], by_size(comparison).into_iter().map(row))
}

fn only(comparison: &Comparison, which: &str, points: &[String]) -> Markup {
    html! {
        @if !points.is_empty() {
            section {
                h2 { "Only in " (which) }
                ul { @for point in points { li { (point_title(comparison.kind, point)) } } }
            }
        }
    }
}

fn run(which: &str, side: &Side) -> Vec<Cell> {
    let partial = if side.partial { " (partial)" } else { "" };
    vec![
        number(which),
        words(format!("{}{partial}", side.name)),
        words(format::date_utc(side.provenance.started_unix_s)),
        words(format!("netcliff {}", side.provenance.version)),
        Cell::Words(html! { code { (side.provenance.command) } }),
    ]
}
