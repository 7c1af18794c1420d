//! [`forwarding`]: the page of an experiment of forwarding, with the figures 11 and 12 of Gasparakis and Waskiewicz for
//! this machine.

use maud::{Markup, PreEscaped, html};
use netcliff_core::experiment::{Axes, Axis, Curve, Scale};
use netcliff_core::measure::Dimension;
use netcliff_lab::forwarding::{Bound, ForwardingReport};
use netcliff_lab::rfc2544::conduct::LINES_BPS;

use super::page;
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use crate::svg;
use crate::terminal::forwarding::{gain_of, missing, predicted_of, set_up_of, throughput_of};

/// Throughput and its share of each line by frame size, every figure in a table, set-ups, the file, on one page that needs
/// nothing else.
pub fn forwarding(report: &ForwardingReport, drawing: &Drawing) -> String {
    let title = if report.title.is_empty() { "netcliff: forwarding" } else { &report.title };
    page(title, &body(report, drawing))
}

fn body(report: &ForwardingReport, drawing: &Drawing) -> Markup {
    let not_had: Vec<String> = report.not_had.iter().cloned().chain(missing(report)).collect();
    html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(report.provenance.started_unix_s)) }
            h1 { (report.title) }
            @if report.partial {
                p.banner role="status" { strong { "Partial." } " Not all that was asked for was measured. What is shown was had." }
            }
        }
        main {
            figure { (PreEscaped(svg::experiment(drawing))) }
            @for line_bps in LINES_BPS { figure { (PreEscaped(svg::experiment(&shares(report, drawing, line_bps)))) } }
            (table(report))
            section #set-ups {
                h2 { "Set-ups" }
                div.scroll {
                    table.facts { tbody {
                        @for set_up in &report.set_ups { tr { th scope="row" { (set_up.name) } td.words { (set_up_of(set_up)) } } }
                    } }
                }
            }
            @for (heading, lines) in [("Not had", &not_had), ("Warnings", &report.warnings)] {
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

/// The guide's figure 11 is that of 1 Gbit/s, 12 that of 10.
fn shares(report: &ForwardingReport, drawing: &Drawing, line_bps: f64) -> Drawing {
    let line = format::quantity(line_bps, Unit::Bps);
    let figure = match line_bps {
        1e9 => ", as figure 11 of the guide",
        1e10 => ", as figure 12 of the guide",
        _ => "",
    };
    let curves: Vec<Curve> = report.shares(line_bps);
    Drawing {
        title: format!("Share of a line of {line} that is forwarded{figure}"),
        axes: Axes {
            x: drawing.axes.x.clone(),
            y: Axis {
                name: "share of the line".to_owned(),
                dimension: Dimension::Share,
                scale: Scale::Linear,
                range: Some((0.0, 1.0)),
            },
        },
        curves,
        marks: Vec::new(),
        ..drawing.clone()
    }
}

fn table(report: &ForwardingReport) -> Markup {
    let heads = ["frame", "set-up", "throughput", "bound", "predicted", "against the first"];
    html! {
        section #throughput {
            h2 { "Throughput" }
            div.scroll {
                table {
                    thead { tr {
                        @for head in heads { th scope="col" { (head) } }
                        @for line in LINES_BPS { th scope="col" { "of " (format::quantity(line, Unit::Bps)) } }
                        th scope="col" { "rounds" }
                    } }
                    tbody {
                        @for row in &report.rows {
                            tr {
                                th scope="row" { (row.frame) }
                                td { (row.set_up) }
                                td { (throughput_of(row)) }
                                td { (row.bound.map_or("-", Bound::name)) }
                                td {
                                    @match predicted_of(row) {
                                        Some((pps, how)) => { (format::quantity(pps, Unit::Pps)) " " (how) }
                                        None => { "-" }
                                    }
                                }
                                td { (gain_of(row)) }
                                @for at in 0..LINES_BPS.len() {
                                    td { (row.line_shares.get(at).map_or("-".to_owned(), |line| format::share(line.share))) }
                                }
                                td { (row.samples.len()) }
                            }
                        }
                    }
                }
            }
            p.note {
                "Means of the rounds with 95 % intervals. Bound by the tester: no more could be offered, the router does at least that. \
                 Bound by a shared CPU: what it sends, forwards and takes in together. A share above 100 % is more than the line carries. \
                 Simulated: one server, the router's CPU, with the costs seen there at half the throughput. On paper: one CPU that does \
                 in turn what tester and router were seen to need for a frame on CPUs of their own."
            }
        }
    }
}
