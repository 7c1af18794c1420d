//! [`transfers`]: the page of an experiment of transfers.

use maud::{Markup, html};
use netcliff_transfer::experiments::{Effect, TransferReport, TransferRow};

use super::figure;
use super::of_file::{Lists, of_file};
use super::stack::{Cell, figure as value, stack, words};
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use crate::svg;
use crate::terminal::comparison::percent;
use crate::terminal::transfers::{cell, deviation, measures, p};

/// One self-contained page: the figure if there is one, every effect and configuration, and the file.
pub fn transfers(report: &TransferReport, drawing: &Drawing) -> String {
    let answers = html! {
        @if !drawing.curves.is_empty() { (figure::figure(&svg::experiment::plot(drawing, "figure"), false)) }
        (effects(report))
        (configurations(report))
    };
    let not_had: Vec<String> = report.not_had.iter().map(ToString::to_string).collect();
    let lists = Lists { not_had: &not_had, warnings: &report.warnings };
    of_file("transfers", drawing, report.partial, &report.asked, &lists, &answers)
}

fn effects(report: &TransferReport) -> Markup {
    let heads = ["setting", "figure", "mean before", "mean after", "change", "corrected p"];
    let row = |effect: &Effect| {
        let unit = Unit::of(effect.figure.dimension());
        let firm = svg::is_significant(effect);
        let change = html! { @if firm { strong { (percent(&effect.change)) } } @else { (percent(&effect.change)) } };
        vec![
            words(format!("{} {} → {}", effect.factor, effect.from, effect.to)),
            words(effect.figure.label()),
            value(format::quantity(effect.from_mean, unit)),
            value(format::quantity(effect.to_mean, unit)),
            Cell::Words(change),
            value(p(effect)),
        ]
    };
    html! {
        @if let Some(bars) = svg::effects_of(report) {
            section #effects {
                h2 { "Effect of each setting" }
                (figure::bars(&bars, false))
                (stack(&heads, report.effects.iter().map(row)))
                p.note { "Ratios of geometric means with 95 % intervals, p corrected by Holm over the effects on a figure. \
                          Intervals know how repeats spread, not what settings do together." }
            }
        }
    }
}

fn configurations(report: &TransferReport) -> Markup {
    let measures = measures(report);
    let heads: Vec<String> = (report.factors.iter().map(|factor| factor.key.to_string()))
        .chain(measures.iter().map(|measure| measure.label().to_owned()))
        .chain([format!("standard deviation of {}", report.y.label()), "repeats".to_owned()])
        .collect();
    let row = |row: &TransferRow| {
        let levels = row.levels.iter().map(words);
        let values = measures.iter().map(|measure| words(cell(row, *measure)));
        levels.chain(values).chain([words(deviation(report, row)), value(row.samples.len().to_string())]).collect()
    };
    html! {
        section #configurations {
            h2 { "Configurations" }
            (stack(&heads, report.rows.iter().map(row)))
        }
    }
}
