//! [`transfers`]: the page of an experiment of transfers.

use maud::{Markup, PreEscaped, html};
use netcliff_lab::transfers::TransferReport;

use super::of_file::{Lists, of_file};
use crate::drawing::{Drawing, unit_of};
use crate::format;
use crate::svg;
use crate::terminal::comparison::percent;
use crate::terminal::transfers::{cell, measures, p};

/// The figure where there is one, every effect and configuration, the file, on one page that needs nothing else.
pub fn transfers(report: &TransferReport, drawing: &Drawing) -> String {
    let answers = html! {
        @if !drawing.curves.is_empty() { figure { (PreEscaped(svg::experiment(drawing))) } }
        (effects(report))
        (configurations(report))
    };
    let lists = Lists { not_had: &report.not_had, warnings: &report.warnings };
    of_file("transfers", drawing, report.partial, &report.asked, &lists, &answers)
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
