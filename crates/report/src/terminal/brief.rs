//! [`brief`]: output of `netcliff find` without `-v`: the answer and the figures to act on, on a screen of 40 lines.

use netcliff_core::Finding;
use netcliff_core::finding::{LatencyAt, SetupCheck};

use super::page::{Page, Tone};
use super::{Style, answer, head, livelock};
use crate::format::{self, Unit};
use crate::sheet::{self, Row};

/// Largest number of checks shown: those with the worst predictions.
const CHECKS: usize = 3;
/// Largest number of missing figures that are named.
const NAMED: usize = 3;

/// The verdict with doubts about it, the figures to act on, the bottleneck and suggestions. The rest is in
/// [`super::finding`].
pub fn brief(finding: &Finding, style: Style) -> String {
    let mut page = Page::new(style);
    head(&mut page, finding);
    answer(&mut page, finding);
    if let Some(sentence) = sheet::to_plan_with(finding) {
        page.paragraph(0, Tone::Plain, &sentence);
    }
    figures(&mut page, finding);
    let basis: Vec<String> = sheet::confidences(finding).into_iter().chain(sheet::void_trials(finding)).collect();
    if !basis.is_empty() {
        page.paragraph(2, Tone::Faint, &basis.join(" "));
    }
    livelock(&mut page, finding);
    page.heading("BOTTLENECK");
    page.paragraph(2, Tone::Plain, finding.binding.as_deref().unwrap_or("-"));
    if let Some(suggestion) = finding.suggestions.first() {
        page.heading("SUGGESTION");
        page.item("", &sheet::suggestion(suggestion));
    }
    checks(&mut page, finding);
    page.paragraph(0, Tone::Faint, &rest(finding));
    page.finish()
}

fn figures(page: &mut Page, finding: &Finding) {
    page.columns(&sheet::traffic_in_short(finding));
    let mark = if finding.cliff_pps.wire.is_some() { "" } else { "*" };
    let mut rows = vec![
        sheet::by_engine("cliff", Unit::Pps, &finding.cliff_pps),
        sheet::by_engine(sheet::WITH_PAUSES, Unit::Pps, &finding.cliff_experienced_pps),
    ];
    rows.extend(sheet::peak(finding));
    rows.push(sheet::by_engine("left at 2x cliff", Unit::Share, &sheet::delivered_at_twice(finding)));
    rows.extend(finding.latency.iter().flat_map(|at| {
        let label = format!("p99 at {}{mark}", format::share_short(at.share));
        let named = move |row: Row| Row { label: label.clone(), ..row };
        sheet::latency(at).into_iter().filter(|row| row.label == "p99").map(named)
    }));
    // Leave out rows for which no engine has a figure: -v lists them as not measured. The cliff is always shown.
    rows.retain(|row| !row.is_empty() || row.label == "cliff");
    page.rows(&rows);
    let pauses = match rows.iter().any(|row| row.label == sheet::WITH_PAUSES) {
        true => format!(", without {}; with pauses: the cliff that includes them", sheet::left_out(finding)),
        false => String::new(),
    };
    let p99 = |at: &LatencyAt| at.latency_s.wire.and_then(|latency| latency.p99);
    let once = match finding.latency.iter().filter_map(p99).any(|p99| p99.interval.is_none()) {
        true => " (without an interval: measured in one trial)",
        false => "",
    };
    let legend = format!(
        "Cliff: highest load with loss up to {}{pauses}; peak: highest delivered rate; left at 2x cliff: share of the peak; p99: latency at this \
         share of the cliff{once}.",
        format::loss(finding.loss_target)
    );
    page.paragraph(2, Tone::Faint, &legend);
    if rows.iter().any(|row| row.label.ends_with('*')) {
        page.paragraph(2, Tone::Faint, &format!("* {}: no cliff was measured", sheet::of_the_cliff(finding)));
    }
}

/// The cliff of each check with the errors of both predictions. If there are more than [`CHECKS`], the worst ones, and
/// the median error of all.
fn checks(page: &mut Page, finding: &Finding) {
    let Some((shown, hidden)) = sheet::worst_checks(&finding.checks, CHECKS) else { return };
    page.columns("CLIFF OF CHECKS");
    page.paragraph(2, Tone::Faint, "Predicted from this run (in brackets: error), then measured (interval).");
    let row = |check: &&SetupCheck| {
        let cliff = sheet::check(check).into_iter().next();
        cliff.map(|row| Row { label: check.name.clone(), ..row })
    };
    page.rows(&shown.iter().filter_map(row).collect::<Vec<_>>());
    for check in &shown {
        for note in sheet::check_notes(check) {
            page.paragraph(2, Tone::Faint, &format!("{}: {note}.", check.name));
        }
    }
    if let Some(sentence) = sheet::median_error(&finding.checks, hidden) {
        page.paragraph(2, Tone::Faint, &sentence);
    }
}

/// A line on where to find the figures that this page leaves out.
fn rest(finding: &Finding) -> String {
    let absent: Vec<String> = sheet::not_had(finding).iter().flat_map(|group| group.in_words()).collect();
    let absent = match absent.len() {
        0 => String::new(),
        1 => format!(", and why a figure is missing: {}", absent.concat()),
        several if several <= NAMED => format!(", and why {several} figures are missing: {}", absent.join(", ")),
        several => format!(", and why {several} figures are missing"),
    };
    let contradicting = match finding.contradictions.is_empty() {
        true => "",
        false => ", the loads that contradict the cliff",
    };
    format!("-v shows costs, disturbances, CPU time, losses{contradicting}{absent}.")
}
