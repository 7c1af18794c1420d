//! [`trend`]: output of `netcliff results trend`.

use netcliff_lab::compare::point_title;
use netcliff_lab::trend::{LevelChange, Series, Trend};

use super::Style;
use super::comparison::words_of;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// The page: the answer first, then a paragraph for each figure whose level changed; if `all`, also for the other
/// figures.
pub fn trend(trend: &Trend, all: bool, style: Style) -> String {
    let mut page = Page::new(style);
    let changed = trend.series.iter().filter(|series| !series.changes.is_empty()).count();
    let tone = if trend.failed { Tone::Alarm } else { Tone::Strong };
    page.paragraph(0, tone, &answer(trend, changed));
    for series in trend.series.iter().filter(|series| all || !series.changes.is_empty()) {
        page.heading(&title(trend, series));
        let unit = Unit::of(series.quantity.dimension);
        for (at, level) in series.levels.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| series.changes.get(before));
            before.into_iter().for_each(|change| page.item("- ", &said(series, change)));
            let runs = match level.runs {
                1 => format!("run {}", level.from_run),
                count => format!("{count} runs, {} to {}", level.from_run, level.to_run),
            };
            page.item("", &format!("{runs}: {}", format::quantity(level.median, unit)));
        }
    }
    page.list("NOTES", &trend.notes);
    page.paragraph(
        0,
        Tone::Faint,
        &format!(
            "Change points by E-divisive means; p by {} permutations, level {:.4} (0.05 over the figures that were tested). Levels are medians.",
            trend.permutations, trend.level
        ),
    );
    page.finish()
}

/// A change of level as one sentence: `cliff of all traffic: -18.2 % (slower) from run 31 on, p 0.003`.
pub fn level_change(trend: &Trend, series: &Series, change: &LevelChange) -> String {
    format!("{}: {}", title(trend, series), said(series, change))
}

/// Point and figure of a series: `cliff measured, cliff`.
pub fn title(trend: &Trend, series: &Series) -> String {
    format!("{}, {}", point_title(&trend.kind, &series.point), words_of(&series.quantity))
}

fn answer(trend: &Trend, changed: usize) -> String {
    let runs = format::counted(trend.runs.len() as u64, "run");
    let figures = format::counted(trend.series.len() as u64, "figure");
    let sentence = match changed {
        0 => format!("No change shown in {figures} of {runs} named {}.", trend.name),
        _ => format!("{changed} of {figures} changed their level in {runs} named {}.", trend.name),
    };
    let bar = match (trend.fail_if_slower, trend.failed) {
        (None, _) => String::new(),
        (Some(share), true) => {
            let failed: Vec<String> =
                trend.series.iter().filter(|series| series.failed).map(|series| title(trend, series)).collect();
            format!(
                " FAILED: slower by more than {} since its last change: {}.",
                format::share_short(share),
                failed.join("; ")
            )
        }
        (Some(share), false) => {
            format!(
                " PASSED: no rate or latency is worse by more than {} since its last change.",
                format::share_short(share)
            )
        }
    };
    sentence + &bar
}

fn said(series: &Series, change: &LevelChange) -> String {
    let counts = match (change.better, series.quantity.class) {
        (true, _) => "better",
        (false, netcliff_lab::compare::Class::Speed) => "slower",
        (false, netcliff_lab::compare::Class::Cost) => "costs more",
    };
    let changed = match change.changed.as_slice() {
        [] => String::new(),
        facts => format!("; between them changed {}", facts.join(", ")),
    };
    let percent = 100.0 * change.change;
    format!("{percent:+.1} % ({counts}) from run {} on, p {:.3}{changed}", change.run, change.p)
}
