//! [`transfers`]: the page of an experiment of transfers.

use maud::{Markup, PreEscaped, html};
use netcliff_lab::transfers::TransferReport;

use super::page;
use crate::drawing::{Drawing, unit_of};
use crate::format;
use crate::svg;
use crate::terminal::comparison::percent;
use crate::terminal::transfers::{cell, measures, p};

/// The figure where there is one, every effect and configuration, the file, on one page that needs nothing else.
pub fn transfers(report: &TransferReport, drawing: &Drawing) -> String {
    let title = if report.title.is_empty() { "netcliff: transfers" } else { &report.title };
    page(title, &body(report, drawing))
}

fn body(report: &TransferReport, drawing: &Drawing) -> Markup {
    html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(report.provenance.started_unix_s)) }
            h1 { (report.title) }
            @if report.partial {
                p.banner role="status" { strong { "Partial." } " Not all that was asked for was measured. What is shown was had." }
            }
        }
        main {
            @if !drawing.curves.is_empty() { figure { (PreEscaped(svg::experiment(drawing))) } }
            (effects(report))
            (configurations(report))
            @for (heading, lines) in [("Not had", &report.not_had), ("Warnings", &report.warnings)] {
                @if !lines.is_empty() {
                    section { h2 { (heading) } ul { @for line in lines { li { (line) } } } }
                }
            }
            section #asked {
                h2 { "What was asked" }
                div.scroll {
                    table.facts { tbody { @for (name, fact) in &report.asked { tr { th scope="row" { (name) } td.words { (fact) } } } } }
                }
                p { code { (report.provenance.command) } }
            }
            section #file { h2 { "The file" } pre { code { (drawing.source) } } }
        }
    }
}

fn effects(report: &TransferReport) -> Markup {
    html! {
        @if !report.effects.is_empty() {
            section #effects {
                h2 { "Effect of each setting" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                @for head in ["setting", "figure", "mean before", "mean after", "change", "corrected p"] {
                                    th scope="col" { (head) }
                                }
                            }
                        }
                        tbody {
                            @for effect in &report.effects {
                                @let unit = unit_of(effect.figure.dimension());
                                tr {
                                    th scope="row" { (effect.factor) " " (effect.from) " → " (effect.to) }
                                    td { (effect.figure.label()) }
                                    td { (format::quantity(effect.from_mean, unit)) }
                                    td { (format::quantity(effect.to_mean, unit)) }
                                    td { (percent(&effect.change)) }
                                    td { (p(effect)) }
                                }
                            }
                        }
                    }
                }
                p.note { "Ratios of geometric means with 95 % intervals, p corrected by Holm over the effects on a figure. \
                          Intervals know how repeats spread, not what settings do together." }
            }
        }
    }
}

fn configurations(report: &TransferReport) -> Markup {
    let measures = measures(report);
    html! {
        section #configurations {
            h2 { "Configurations" }
            div.scroll {
                table {
                    thead {
                        tr {
                            @for factor in &report.factors { th scope="col" { (factor.key) } }
                            @for measure in &measures { th scope="col" { (measure.label()) } }
                            th scope="col" { "repeats" }
                        }
                    }
                    tbody {
                        @for row in &report.rows {
                            tr {
                                @for level in &row.levels { td { (level) } }
                                @for measure in &measures { td { (cell(row, *measure)) } }
                                td { (row.samples.len()) }
                            }
                        }
                    }
                }
            }
        }
    }
}
