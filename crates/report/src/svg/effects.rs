//! Draws the effect of each setting of a design, as bars with intervals.

use netcliff_core::experiment::TransferMeasure;
use netcliff_transfer::experiments::{Effect, TransferReport};

use crate::format::{self, Unit};
use crate::plot::Bars;
use crate::plot::bars::{Group, Row};
use crate::terminal::comparison::percent;

/// Below this p, corrected for all effects on a figure, an effect is marked.
const SIGNIFICANT: f64 = 0.05;

/// True if an effect is significant.
pub(crate) fn is_significant(effect: &Effect) -> bool {
    effect.p_corrected < SIGNIFICANT
}

/// The effects of a design. `None` if it has no effects.
pub fn effects(report: &TransferReport) -> Option<String> {
    bars(report).map(|bars| bars.document())
}

pub(crate) fn bars(report: &TransferReport) -> Option<Bars> {
    let mut measures: Vec<TransferMeasure> = Vec::new();
    for effect in &report.effects {
        if !measures.contains(&effect.figure) {
            measures.push(effect.figure);
        }
    }
    let group = |measure: &TransferMeasure| {
        let rows = report.effects.iter().filter(|effect| effect.figure == *measure).map(|effect| {
            let ends = effect.change.interval;
            Row {
                name: format!("{}: {} → {}", effect.factor, effect.from, effect.to),
                value: effect.change.value,
                interval: ends.map(|ends| (ends.low, ends.high)),
                written: format::signed(effect.change.value, Unit::Share),
                firm: is_significant(effect),
                tone: if effect.change.value < 0.0 { 1 } else { 2 },
            }
        });
        Group { name: format!("change of {}", measure.label()), rows: rows.collect() }
    };
    let word = |effect: &Effect| {
        let firm = if is_significant(effect) { ", significant" } else { "" };
        let (factor, from, to) = (&effect.factor, &effect.from, &effect.to);
        format!("{factor} {from} to {to}, {}: {}{firm}.", effect.figure.label(), percent(&effect.change))
    };
    let groups: Vec<Group> = measures.iter().map(group).collect();
    (!groups.is_empty()).then(|| Bars {
        slug: "effects".to_owned(),
        title: "Effect of each setting".to_owned(),
        origin: format::printable(&report.title),
        words: report.effects.iter().map(word).collect::<Vec<_>>().join(" "),
        groups,
        notes: vec![
            "Filled, number bold: p < 0.05, corrected by Holm over the effects on that figure; an outline may be chance. Lines: 95 % \
             intervals."
                .to_owned(),
        ],
        columns: ["figure", "setting", "change"],
    })
}
