//! [`compare`]: the page of `netcliff compare`.

use maud::{Markup, html};
use netcliff_lab::compare::{Comparison, Row, Side, Verdict};

use super::page;
use crate::drawing::unit_of;
use crate::format;
use crate::terminal::comparison::{bar_line, bar_verdict, change, method, name, open_rows, p, sides, value};

/// Both runs, every figure with its change, the bar, what else changed, on one page that needs nothing else.
pub fn compare(comparison: &Comparison) -> String {
    page(&format!("netcliff: {} against {}", comparison.b.name, comparison.a.name), &body(comparison))
}

fn body(comparison: &Comparison) -> Markup {
    html! {
        header {
            p.kicker { "netcliff compare · " (comparison.kind) }
            h1 { (comparison.b.name) " against " (comparison.a.name) }
            @if let Some(share) = comparison.fail_if_slower {
                @let (failed, verdict) = bar_verdict(comparison);
                div .callout .alarm[failed] {
                    p { strong { "Slower by more than " (format::share_short(share)) ": " (verdict) } }
                    @for row in open_rows(comparison) { p { (bar_line(row)) } }
                }
            }
        }
        main {
            section #figures {
                h2 { "Figures" }
                (figures(comparison))
                p.note { (method(comparison)) "." }
            }
            section #changed {
                h2 { "What else changed" }
                @if comparison.changed.is_empty() { p { "Nothing that was recorded." } }
                @else { (changed(comparison)) }
            }
            (only("A", &comparison.only_a))
            (only("B", &comparison.only_b))
            @if !comparison.notes.is_empty() {
                section #notes { h2 { "Notes" } ul { @for note in &comparison.notes { li { (note) } } } }
            }
            section #runs {
                h2 { "The runs" }
                div.scroll { table { tbody { (run("A", &comparison.a)) (run("B", &comparison.b)) } } }
            }
        }
    }
}

fn figures(comparison: &Comparison) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for head in ["point", "figure", "A", "B", "change", "corrected p", ""] { th scope="col" { (head) } }
                    }
                }
                tbody { @for row in &comparison.rows { (figure(row)) } }
            }
        }
    }
}

fn figure(row: &Row) -> Markup {
    let unit = unit_of(row.quantity.dimension);
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotShown => "",
        Verdict::NotTested => "not tested",
        Verdict::Computed => "computed",
    };
    html! {
        tr {
            th scope="row" { (row.point) }
            td { (name(row)) }
            td { (value(&row.a, unit)) }
            td { (value(&row.b, unit)) }
            td { (change(row)) }
            td { (row.p_corrected.map_or("-".to_owned(), p)) }
            td { strong { (verdict) } }
        }
    }
}

fn changed(comparison: &Comparison) -> Markup {
    html! {
        div.scroll {
            table.facts {
                thead { tr { th scope="col" { "setting" } th scope="col" { "A" } th scope="col" { "B" } } }
                tbody {
                    @for (name, (a, b)) in comparison.changed.iter().map(|change| (&change.name, sides(change))) {
                        tr { th scope="row" { (name) } td.words { (a) } td.words { (b) } }
                    }
                }
            }
        }
    }
}

fn only(which: &str, points: &[String]) -> Markup {
    html! {
        @if !points.is_empty() {
            section { h2 { "Only in " (which) } ul { @for point in points { li { (point) } } } }
        }
    }
}

fn run(which: &str, side: &Side) -> Markup {
    html! {
        tr {
            th scope="row" { (which) }
            td { (side.name) @if side.partial { " (partial)" } }
            td { (format::date_utc(side.provenance.started_unix_s)) }
            td { "netcliff " (side.provenance.version) }
            td.words { code { (side.provenance.command) } }
        }
    }
}
