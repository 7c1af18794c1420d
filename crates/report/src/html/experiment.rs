//! [`experiment`]: the page of `netcliff run`.

use maud::{Markup, PreEscaped, html};
use netcliff_core::experiment::Curve;

use super::page;
use crate::drawing::{Drawing, unit};
use crate::format;
use crate::svg;

/// The picture, the stated numbers, every value, the file, and how it was produced, on one page that needs nothing else.
pub fn experiment(drawing: &Drawing) -> String {
    let title = if drawing.title.is_empty() { "netcliff: an experiment" } else { &drawing.title };
    page(title, &body(drawing))
}

fn body(drawing: &Drawing) -> Markup {
    html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(drawing.provenance.started_unix_s)) }
            h1 { (drawing.title) }
            @if drawing.partial {
                p.banner role="status" { strong { "Partial." } " The run was stopped early. Results up to then are shown." }
            }
        }
        main {
            figure { (PreEscaped(svg::experiment(drawing))) }
            (stated(drawing))
            (not_had(drawing))
            (asked(drawing))
            (values(drawing))
            @if !drawing.source.is_empty() {
                section #file { h2 { "The file" } pre { code { (drawing.source) } } }
            }
        }
    }
}

fn stated(drawing: &Drawing) -> Markup {
    html! {
        @if !drawing.marks.is_empty() {
            section #stated {
                h2 { "Stated numbers" }
                div.scroll {
                    table {
                        thead { tr { th scope="col" { "mark" } th scope="col" { "stated" } th scope="col" { "found" } th scope="col" { "source" } } }
                        tbody {
                            @for (index, mark) in drawing.marks.iter().enumerate() {
                                tr {
                                    th scope="row" { (index + 1) " " (mark.label) }
                                    td { (drawing.place(mark)) }
                                    td {
                                        @for (index, check) in drawing.checks(mark).iter().enumerate() {
                                            @if index > 0 { br; }
                                            (drawing.compared(check))
                                        }
                                    }
                                    td.words { (mark.source) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn not_had(drawing: &Drawing) -> Markup {
    html! {
        @if !drawing.not_had.is_empty() {
            section #not-had {
                h2 { "Not measured" }
                ul { @for not_had in &drawing.not_had { li { (not_had.text()) } } }
            }
        }
    }
}

fn asked(drawing: &Drawing) -> Markup {
    let provenance = &drawing.provenance;
    html! {
        section #asked {
            h2 { "How it was produced" }
            div.scroll {
                table.facts {
                    tbody {
                        @for (name, value) in &drawing.asked { tr { th scope="row" { (name) } td.words { (value) } } }
                        tr { th scope="row" { "netcliff" } td { (provenance.version) } }
                        tr { th scope="row" { "command" } td.words { code { (provenance.command) } } }
                    }
                }
            }
        }
    }
}

/// Every value, a column a curve.
fn values(drawing: &Drawing) -> Markup {
    let mut xs: Vec<f64> = drawing.curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    html! {
        section #values {
            h2 { "Values" }
            details {
                summary { (drawing.axes.y.name) ", " (drawing.curves.len()) " curves" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th scope="col" { (drawing.axes.x.name) }
                                @for curve in &drawing.curves { th scope="col" { (drawing.full_name(curve)) } }
                            }
                        }
                        tbody {
                            @for x in xs {
                                tr {
                                    th scope="row" { (format::quantity(x, unit(&drawing.axes.x))) }
                                    @for curve in &drawing.curves { td { (value(drawing, curve, x)) } }
                                }
                            }
                        }
                    }
                }
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
