//! [`forwarding`]: output of `netcliff run` of an experiment of forwarding.

use netcliff_rfc2544::forwarding::{Bound, ForwardingReport, ForwardingRow, GainLimit, SetUpReport};

use super::Style;
use super::comparison;
use super::page::{Page, Tone};
use super::rfc2544::{table, words};
use crate::format::{self, Unit};

/// Throughput by frame size and set-up, prediction and gain; a description of each set-up; figures that were not
/// measured.
pub fn forwarding(report: &ForwardingReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(&report.title, &report.provenance, report.partial, &report.asked);
    throughput(&mut page, report);
    predicted(&mut page, report);
    against(&mut page, report);
    set_ups(&mut page, report);
    let not_had: Vec<String> = report.not_had.iter().cloned().chain(missing(report)).collect();
    page.list("NOT MEASURED", &not_had);
    page.list("WARNINGS", &report.warnings);
    page.finish()
}

/// Mean with its half width. A lower limit is marked by `>=`.
pub fn throughput_of(row: &ForwardingRow) -> String {
    let Some(figure) = &row.throughput_pps else { return "-".to_owned() };
    let mark = if row.bound == Some(Bound::Tester) { ">= " } else { "" };
    format!("{mark}{}", format::plus_minus(figure, Unit::Pps))
}

/// Throughput relative to the first set-up, minus 1, with its interval. A lower or upper limit is marked by `>=` or
/// `<=`.
pub fn gain_of(row: &ForwardingRow) -> String {
    let Some(gain) = &row.gain else { return "-".to_owned() };
    match row.gain_limit {
        None => comparison::percent(gain),
        Some(GainLimit::AtLeast) => format!(">= {}", comparison::percent(gain)),
        Some(GainLimit::AtMost) => format!("<= {}", comparison::percent(gain)),
        Some(GainLimit::Open) => "open".to_owned(),
    }
}

fn throughput(page: &mut Page, report: &ForwardingReport) {
    let mut rows = vec![words(&["frame", "set-up", "throughput", "limit"])];
    for row in &report.rows {
        let limit = row.bound.map_or("-", Bound::name).to_owned();
        rows.push(vec![row.frame.to_string(), row.set_up.clone(), throughput_of(row), limit]);
    }
    table(page, "THROUGHPUT (MEAN OF THE ROUNDS, 95 % INTERVAL)", &rows);
}

/// What the columns of the predicted throughputs mean.
const PREDICTED: &str = "by: simulation (sim) of the router's CPU, or the model of one CPU that does the work of tester and router in turn; \
                         vs predicted: measured / predicted - 1 (-: the tester is the limit).";

/// Adds the table of predicted throughputs. The model has a single server, the router's CPU.
fn predicted(page: &mut Page, report: &ForwardingReport) {
    let mut rows = vec![words(&["frame", "set-up", "CPU/frame", "predicted", "by", "measured", "vs predicted"])];
    for row in &report.rows {
        let Some((pps, how)) = row.predicted_pps().filter(|_| row.throughput_pps.is_some()) else { continue };
        rows.push(vec![
            row.frame.to_string(),
            row.set_up.clone(),
            row.frame_s().map_or("-".to_owned(), |frame_s| format::quantity(frame_s, Unit::Seconds)),
            format::quantity(pps, Unit::Pps),
            how.to_owned(),
            throughput_of(row),
            row.off().map_or("-".to_owned(), |off| format::signed(off, Unit::Share)),
        ]);
    }
    table(page, "PREDICTED FROM THE ROUTER'S CPU TIME PER FRAME", &rows);
    if rows.len() > 1 {
        page.paragraph(2, Tone::Faint, PREDICTED);
    }
}

fn against(page: &mut Page, report: &ForwardingReport) {
    let Some((first, others)) = report.set_ups.split_first() else { return };
    let mut rows = vec![[vec!["frame".to_owned()], others.iter().map(|one| one.name.clone()).collect()].concat()];
    for base in report.rows.iter().filter(|row| row.set_up == first.name) {
        let same = |one: &SetUpReport| {
            let row = report.rows.iter().find(|row| row.frame == base.frame && row.set_up == one.name);
            row.map_or("-".to_owned(), gain_of)
        };
        rows.push([vec![base.frame.to_string()], others.iter().map(same).collect()].concat());
    }
    if !others.is_empty() {
        table(
            page,
            &format!("AGAINST {} (RATIO MINUS 1, PAIRED BY ROUND, 95 % INTERVAL)", first.name.to_uppercase()),
            &rows,
        );
    }
}

/// Description of a set-up, in a line.
pub fn set_up_of(set_up: &SetUpReport) -> String {
    let Some(about) = &set_up.about else { return format!("{}: not measured", set_up.forwarding) };
    let plan = match &set_up.tune {
        None => "as the kernel sets it up".to_owned(),
        Some(objective) if about.settings.is_empty() => format!("the plan for {objective} changes nothing"),
        Some(objective) => {
            let changes: Vec<String> = about
                .settings
                .iter()
                .map(|change| format!("{} {} -> {}", change.name, change.before, change.after))
                .collect();
            format!("as planned for {objective}: {}", changes.join(", "))
        }
    };
    let notes: String = about.notes.iter().map(|note| format!("; {note}")).collect();
    format!("{}; {plan}{notes}", about.device)
}

fn set_ups(page: &mut Page, report: &ForwardingReport) {
    page.heading("SET-UPS");
    for set_up in &report.set_ups {
        page.fact(&set_up.name, &set_up_of(set_up));
    }
    if let Some(about) = report.set_ups.iter().find_map(|set_up| set_up.about.as_ref()) {
        page.fact("tester", &about.tester);
    }
}

/// Figures that searches did not find, and unknown gains, a line each.
pub fn missing(report: &ForwardingReport) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in &report.rows {
        if row.gain_limit == Some(GainLimit::Open) {
            lines.push(format!("{}, {}: the gain: the tester limits both throughputs", row.set_up, row.frame));
        }
        for sample in row.samples.iter().filter(|sample| sample.throughput_pps.is_none()) {
            let why = sample.missing.first().map_or("no throughput", String::as_str);
            lines.push(format!("{}, {}, round {}: {why}", row.set_up, row.frame, sample.round));
        }
    }
    lines
}
