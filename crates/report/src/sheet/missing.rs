//! The figures of the page that were not measured, each with its reason: a dash is never left unexplained.

use netcliff_core::finding::ByEngine;
use netcliff_core::{EngineKind, Finding};

use super::{ENGINES, Row};

/// Figures that were not measured, with the reason they share, in the order of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotHad {
    /// Dotted names: `cliff_pps.wire`.
    pub figures: Vec<String>,
    /// Why, as a sentence.
    pub why: String,
}

impl NotHad {
    /// What the figures are, in words: `delivered at twice the cliff (measured)`; keys that have none as they are.
    pub fn in_words(&self) -> Vec<String> {
        self.figures.iter().map(|figure| in_words(figure)).collect()
    }
}

/// Keys of JSON and what they are.
const WORDS: [(&str, &str); 8] = [
    ("cliff_pps", "cliff"),
    ("cliff_experienced_pps", "cliff with outside pauses"),
    ("peak_pps", "peak"),
    ("livelock", "delivered at twice the cliff"),
    ("latency", "latency"),
    ("cpu_at_cliff", "CPU at the cliff"),
    ("cpu_at_twice", "CPU at twice the cliff"),
    ("loss_at_twice", "loss at twice the cliff"),
];

fn in_words(figure: &str) -> String {
    let (key, rest) = figure.split_once('.').unwrap_or((figure, ""));
    let Some((_, words)) = WORDS.iter().find(|(of, _)| *of == key) else { return figure.to_owned() };
    let (engine, part) = rest.split_once('.').unwrap_or((rest, ""));
    let by = match engine {
        "model" => "predicted",
        "sim" => "simulated",
        "wire" => "measured",
        _ => return figure.to_owned(),
    };
    let part = if part.is_empty() { String::new() } else { format!(" {part}") };
    format!("{words}{part} ({by})")
}

/// Figures that the finding lists as missing, and every absent figure that it does not list, grouped by reason.
pub fn not_had(finding: &Finding) -> Vec<NotHad> {
    let listed = finding.missing.iter().map(|missing| (missing.figure.clone(), missing.why.as_str()));
    let why = if finding.partial { "the run was stopped before" } else { "no reason was recorded" };
    let wholes = absent(finding).into_iter().map(|key| (key, why));
    let parts = absent_parts(finding).into_iter().map(|key| (key, "the engine does not report this figure"));
    let unlisted = wholes.chain(parts).filter(|(key, _)| !is_listed(finding, key));
    let mut groups: Vec<NotHad> = Vec::new();
    for (figure, why) in listed.chain(unlisted) {
        match groups.iter_mut().find(|group| group.why == why) {
            Some(group) if group.figures.contains(&figure) => {}
            Some(group) => group.figures.push(figure),
            None => groups.push(NotHad { figures: vec![figure], why: why.to_owned() }),
        }
    }
    groups
}

/// A reason for `cliff_pps.wire` may be filed under that name, under `cliff_pps`, or under the engine, `wire`.
fn is_listed(finding: &Finding, key: &str) -> bool {
    finding.missing.iter().any(|missing| {
        let listed = missing.figure.as_str();
        let starts = |whole: &str, part: &str| whole.strip_prefix(part).is_some_and(|rest| rest.starts_with('.'));
        let by_engine = ENGINES.iter().any(|engine| engine.name() == listed) && key.split('.').any(|p| p == listed);
        // `latency.wire.p999` is a reason for a part of `latency.wire`, and the other way round.
        listed == key || by_engine || starts(key, listed) || starts(listed, key)
    })
}

/// Names of the figures of the page that have no value.
fn absent(finding: &Finding) -> Vec<String> {
    let mut names = Vec::new();
    if finding.generator.ceiling_pps.is_none() {
        names.push("generator.ceiling_pps".to_owned());
    }
    if finding.calibration.is_none() {
        names.push("calibration".to_owned());
    }
    by_engine("cliff_pps", &finding.cliff_pps, &mut names);
    by_engine("peak_pps", &finding.peak_pps, &mut names);
    by_engine("livelock", &super::delivered_at_twice(finding), &mut names);
    names.extend(ENGINES.into_iter().filter(|engine| !has_latency(finding, *engine)).map(|e| format!("latency.{e}")));
    by_engine("cpu_at_cliff", &finding.cpu_at_cliff, &mut names);
    by_engine("cpu_at_twice", &finding.cpu_at_twice, &mut names);
    by_engine("loss_at_twice", &finding.loss_at_twice, &mut names);
    for check in &finding.checks {
        by_engine(&format!("checks.{}.cliff_pps", check.name), &check.cliff_pps, &mut names);
        by_engine(&format!("checks.{}.delivered_at_1_5_pps", check.name), &check.delivered_at_1_5_pps, &mut names);
        by_engine(&format!("checks.{}.delivered_at_2_pps", check.name), &check.delivered_at_2_pps, &mut names);
    }
    if finding.binding.is_none() {
        names.push("binding".to_owned());
    }
    names
}

fn has_latency(finding: &Finding, engine: EngineKind) -> bool {
    !finding.latency.is_empty() && finding.latency.iter().all(|at| at.latency_s.get(engine).is_some())
}

fn by_engine<T>(name: &str, values: &ByEngine<T>, names: &mut Vec<String>) {
    names.extend(ENGINES.into_iter().filter(|e| values.get(*e).is_none()).map(|engine| format!("{name}.{engine}")));
}

/// Names of the dashes inside a figure that has other parts: one quantile, one part of the CPU, one place of loss.
fn absent_parts(finding: &Finding) -> Vec<String> {
    let mut names = Vec::new();
    for row in finding.latency.iter().flat_map(super::latency) {
        parts("latency", &row, |engine| has_latency(finding, engine), &mut names);
    }
    for row in super::cpu(&finding.cpu_at_cliff) {
        parts("cpu_at_cliff", &row, |engine| finding.cpu_at_cliff.get(engine).is_some(), &mut names);
    }
    for row in super::cpu(&finding.cpu_at_twice) {
        parts("cpu_at_twice", &row, |engine| finding.cpu_at_twice.get(engine).is_some(), &mut names);
    }
    for row in super::loss(&finding.loss_at_twice) {
        parts("loss_at_twice", &row, |engine| finding.loss_at_twice.get(engine).is_some(), &mut names);
    }
    names
}

fn parts(name: &str, row: &Row, has_whole: impl Fn(EngineKind) -> bool, names: &mut Vec<String>) {
    for (engine, cell) in ENGINES.into_iter().zip(&row.cells) {
        if cell.is_none() && has_whole(engine) {
            names.push(format!("{name}.{engine}.{}", row.label));
        }
    }
}
