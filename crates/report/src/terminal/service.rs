//! [`service`]: what `netcliff find --service` prints.

use std::collections::BTreeMap;

use netcliff_core::service::{ServiceFinding, ServiceTrial, TrialPurpose};

use super::Style;
use super::page::Page;
use super::rfc2544::{table, words};
use crate::format::{self, Unit};

/// Loads that the table shows: those next to the cliff.
const LOADS: usize = 12;

/// The cliff, measured and predicted, the bottleneck, the costs of a request, the loads next to the cliff.
pub fn service(finding: &ServiceFinding, style: Style) -> String {
    let mut page = Page::new(style);
    page.head("service", &finding.provenance, finding.partial.is_some(), &finding.asked);
    answer(&mut page, finding);
    costs(&mut page, finding);
    loads(&mut page, finding);
    let partial = finding.partial.iter().map(|why| format!("the run ended early: {why}"));
    let missing: Vec<String> = finding.missing.iter().cloned().chain(partial).collect();
    page.list("NOT MEASURED", &missing);
    page.list("NOTES", &finding.notes);
    page.list("LIMITS", &finding.limits);
    page.finish()
}

/// Requests a second.
fn rate(value: f64) -> String {
    format::quantity(value, Unit::PerSecond).replace("/s", " requests/s")
}

fn figure(figure: &netcliff_core::Figure) -> String {
    let ends = figure.interval.filter(|ends| ends.low.is_finite() && ends.high.is_finite());
    match ends {
        None => rate(figure.value),
        Some(ends) => {
            let range = format!(
                "{} to {}",
                format::quantity(ends.low, Unit::PerSecond),
                format::quantity(ends.high, Unit::PerSecond)
            );
            let sure = if ends.confidence > 0.0 {
                format!(", {}", format::share_short(ends.confidence))
            } else {
                String::new()
            };
            format!("{} ({range}{sure})", rate(figure.value))
        }
    }
}

fn answer(page: &mut Page, finding: &ServiceFinding) {
    page.heading("CLIFF");
    match &finding.cliff_rps {
        Some(cliff) if finding.lower_limit => page.fact("measured", &format!("at least {}", rate(cliff.value))),
        Some(cliff) => page.fact("measured", &figure(cliff)),
        None => page.fact("measured", "-"),
    }
    if let Some(predicted) = &finding.predicted {
        page.fact("predicted", &format!("{}: {}", figure(&predicted.cliff_rps), predicted.how));
        page.fact("capacity", &figure(&predicted.capacity_rps));
    }
    if let Some(bottleneck) = &finding.bottleneck {
        page.fact("bottleneck", &format!("{}: {}", bottleneck.gives, bottleneck.seen));
    }
    if let Some(requester) = &finding.requester {
        let late = requester.lateness_p99_s.map_or(String::new(), |late_s| {
            format!(", 99% of the requests left within {} of their time", format::quantity(late_s, Unit::Seconds))
        });
        let (busy, most) = (format::share_short(requester.busy), rate(requester.ceiling_rps));
        page.fact("requester", &format!("busy {busy} of the time at the cliff, so it could ask {most}{late}"));
    }
}

fn costs(page: &mut Page, finding: &ServiceFinding) {
    let mut rows = vec![words(&["part", "a request", "constant"])];
    for cost in &finding.costs {
        let request = format::plus_minus(&cost.request_s, Unit::Seconds);
        rows.push(vec![cost.part.clone(), request, format::share_short(cost.constant)]);
    }
    table(page, "CPU TIME OF THE SERVICE'S HOST", &rows);
}

/// Trials of one load together.
#[derive(Default)]
struct Row {
    trials: u32,
    kept: u32,
    requests: u64,
    answers: u64,
    late: u64,
    wrong: u64,
    p50_s: Vec<f64>,
    p99_s: Vec<f64>,
}

fn loads(page: &mut Page, finding: &ServiceFinding) {
    let counted = |trial: &&ServiceTrial| trial.purpose != TrialPurpose::Bottleneck && trial.void.is_none();
    let mut by_load: BTreeMap<u64, Row> = BTreeMap::new();
    for trial in finding.trials.iter().filter(counted) {
        let row = by_load.entry(trial.rate_rps.to_bits()).or_default();
        row.trials += 1;
        row.kept += u32::from(trial.kept);
        row.requests += trial.requests;
        row.answers += trial.answers;
        row.late += trial.late_answers;
        row.wrong += trial.wrong_answers;
        row.p50_s.extend(trial.times.map(|times| times.p50_s));
        row.p99_s.extend(trial.times.map(|times| times.p99_s));
    }
    let mut all: Vec<(f64, Row)> = by_load.into_iter().map(|(bits, row)| (f64::from_bits(bits), row)).collect();
    if let Some(cliff) = finding.cliff_rps {
        let off = |rps: f64| (rps / cliff.value).ln().abs();
        all.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    }
    all.truncate(LOADS);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows = vec![words(&["load", "kept", "answered", "late", "wrong", "median", "99 %"])];
    for (rps, row) in all {
        let share = |count: u64| format::loss(count as f64 / row.requests.max(1) as f64);
        let median = |times: &[f64]| {
            let mut times = times.to_vec();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).map_or("-".to_owned(), |time_s| format::quantity(*time_s, Unit::Seconds))
        };
        rows.push(vec![
            format::quantity(rps, Unit::PerSecond),
            format!("{} of {}", row.kept, row.trials),
            format::quantity(row.answers as f64 / row.requests.max(1) as f64, Unit::Share),
            share(row.late),
            share(row.wrong),
            median(&row.p50_s),
            median(&row.p99_s),
        ]);
    }
    table(page, "LOADS NEXT TO THE CLIFF (REQUESTS A SECOND)", &rows);
    let void = finding.trials.iter().filter(|trial| trial.void.is_some()).count() as u64;
    if void > 0 {
        let why = finding.trials.iter().find_map(|trial| trial.void.clone()).unwrap_or_default();
        page.fact("void", &format!("{} (without a verdict): {why}", format::counted(void, "trial")));
    }
}
