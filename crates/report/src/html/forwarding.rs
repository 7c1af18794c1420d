//! [`forwarding`]: the page of an experiment of forwarding. It has figures 11 and 12 of Gasparakis and Waskiewicz
//! (2010) with the results of this machine.

use maud::{Markup, html};
use netcliff_core::experiment::{Axes, Axis, Curve, Scale};
use netcliff_core::outcome::Dimension;
use netcliff_rfc2544::conduct::LINES_BPS;
use netcliff_rfc2544::forwarding::{Bound, ForwardingReport, ForwardingRow};

use super::figure::figure;
use super::of_file::{Lists, of_file};
use super::stack::{figure as value, stack, words};
use super::tables::facts;
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use crate::svg;
use crate::terminal::forwarding::{gain_of, missing, set_up_of, throughput_of};

/// One self-contained page: throughput and its share of each line by frame size, every figure in a table, the set-ups,
/// and the file.
pub fn forwarding(report: &ForwardingReport, drawing: &Drawing) -> String {
    let lists = Lists { not_had: &[&report.not_had[..], &missing(report)].concat(), warnings: &report.warnings };
    of_file("forwarding", drawing, report.partial, &report.asked, &lists, &answers(report, drawing))
}

fn answers(report: &ForwardingReport, drawing: &Drawing) -> Markup {
    let set_ups = report.set_ups.iter().map(|set_up| (set_up.name.as_str(), set_up_of(set_up)));
    html! {
        (figure(&svg::experiment::plot(drawing, "figure"), false))
        @for line_bps in LINES_BPS {
            (figure(&svg::experiment::plot(&shares(report, drawing, line_bps), &format!("line-{}", line_bps / 1e9)), true))
        }
        (table(report))
        section #set-ups { h2 { "Set-ups" } (facts(set_ups)) }
    }
}

/// Throughput as a share of a line's frame rate: figure 11 of the guide is for 1 Gbit/s, figure 12 for 10 Gbit/s.
fn shares(report: &ForwardingReport, drawing: &Drawing, line_bps: f64) -> Drawing {
    let line = format::quantity(line_bps, Unit::Bps);
    let figure = match line_bps {
        1e9 => ", as figure 11 of Gasparakis and Waskiewicz 2010",
        1e10 => ", as figure 12 of Gasparakis and Waskiewicz 2010",
        _ => "",
    };
    let curves: Vec<Curve> = report.shares(line_bps);
    Drawing {
        title: format!(
            "Share of a {line} line that this router would forward (computed: virtual links have no rate){figure}"
        ),
        axes: Axes {
            x: drawing.axes.x.clone(),
            y: Axis {
                name: "share of the line's frame rate".to_owned(),
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
    let heads = ["frame", "set-up", "throughput", "limited by", "predicted", "change from the first set-up", "rounds"]
        .map(str::to_owned);
    let row = |row: &ForwardingRow| {
        let predicted = row.predicted_pps().map(|(pps, how)| format!("{} ({how})", format::quantity(pps, Unit::Pps)));
        vec![
            value(row.frame.to_string()),
            words(&row.set_up),
            words(throughput_of(row)),
            value(row.bound.map_or("-", Bound::name)),
            words(predicted.unwrap_or_else(|| "-".to_owned())),
            words(gain_of(row)),
            value(row.samples.len().to_string()),
        ]
    };
    html! {
        section #throughput {
            h2 { "Throughput" }
            (stack(&heads, report.rows.iter().map(row)))
            p.note {
                "Means of the rounds with 95 % intervals. Limited by the tester: the tester could not offer more, so the router forwards at least that. \
                 Limited by a shared CPU: the rate at which this CPU sends, forwards and receives each frame. \
                 Simulation: one server, the router's CPU, with the costs measured there at half the throughput. Model: one CPU that \
                 does in turn the work of tester and router for a frame, as measured with a CPU for each; of the router the shortest of the rounds."
            }
        }
    }
}
