//! [`settings`]: output of `netcliff advise -v`; [`settings_brief`]: without `-v`.

mod answer;

use netcliff_core::advice::{Candidate, CandidateStatus, FRONT, Overall, Verdict};
use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
use netcliff_core::{Advice, Dimension, EngineKind, Measure, Scheme, units};

use super::Style;
use super::chart::{chart, letter};
use super::page::{Page, Tone};
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use answer::{commands, for_all, judged, verdict};

/// Largest number of listed settings that are not on the Pareto front, and of settings listed for all loads; JSON has
/// all.
const OTHERS: usize = 5;
/// Largest number of settings on the Pareto front that a screen shows.
const ROWS: usize = 12;
/// Widths of the columns before the setting: p99, loss, CPU left, engine.
const FIGURES: [usize; 4] = [9, 8, 9, 6];

/// The complete page of one load. For several loads: a line for each, and the settings that lose least over all of
/// them. Lines have at most `style.width` columns and end in a newline.
pub fn settings(all: &[Advice], overall: &[Overall], style: Style) -> String {
    let (mut page, first) = match begun(all, overall, style) {
        Ok(begun) => begun,
        Err(nothing) => return nothing,
    };
    if let [one] = all {
        front(&mut page, one, usize::MAX);
        others(&mut page, one);
        page.block(&chart(&drawing(one), page.style()));
        let drawn = drawing(one);
        let legend: Vec<String> =
            drawn.names().iter().enumerate().map(|(place, name)| format!("{} {name}", letter(place))).collect();
        page.paragraph(2, Tone::Faint, &legend.join(", "));
        page.heading("METHOD");
        page.fact("candidates", &counts(one));
        page.fact("effort", &effort(one));
        remarks(&mut page, one);
    } else {
        by_load(&mut page, all);
        kept(&mut page, first, overall);
    }
    page.finish()
}

/// Advice about settings on a screen of 40 lines: the advice with its commands, and the front.
pub fn settings_brief(all: &[Advice], overall: &[Overall], style: Style) -> String {
    let (mut page, first) = match begun(all, overall, style) {
        Ok(begun) => begun,
        Err(nothing) => return nothing,
    };
    if let [one] = all {
        front(&mut page, one, ROWS);
        page.paragraph(
            0,
            Tone::Faint,
            &format!("-v shows all {} candidates, the figure and the notes.", one.candidates.len()),
        );
    } else {
        by_load(&mut page, all);
        kept(&mut page, first, overall);
    }
    page.finish()
}

/// The start of both pages: the advice, its commands, and the configuration.
///
/// # Errors
/// The page's text if there is no load.
fn begun<'a>(all: &'a [Advice], overall: &[Overall], style: Style) -> Result<(Page, &'a Advice), String> {
    let mut page = Page::new(style);
    let Some(first) = all.first() else { return Err("no load\n".to_owned()) };
    match all {
        [one] => {
            verdict(&mut page, one);
            let advised = one.advised.iter().filter_map(|scheme| one.candidate(scheme));
            commands(&mut page, one, &advised.collect::<Vec<_>>());
            judged(&mut page, one);
            page.heading("GOAL");
        }
        _ => {
            let best = overall.first().filter(|best| best.infeasible == 0);
            match best {
                Some(best) => page.paragraph(0, Tone::Strong, &for_all(first, all.len(), best)),
                None => page.paragraph(0, Tone::Alarm, "No single setting meets the constraints at every load."),
            }
            let kept = best.and_then(|best| first.candidate(&best.scheme));
            commands(&mut page, first, &kept.into_iter().collect::<Vec<_>>());
            page.heading("GOAL");
        }
    }
    page.fact("goal", &title(first));
    page.fact("host", &first.host.name);
    if let [one] = all {
        let traffic = &one.traffic;
        page.fact("traffic", &format!("{} of {}, {}", traffic.rate, traffic.size, traffic.arrivals));
    }
    Ok((page, first))
}

fn front(page: &mut Page, advice: &Advice, most: usize) {
    let front: Vec<&Candidate> = advice.candidates.iter().filter(|one| one.front).collect();
    let shown = front.len().min(most);
    let of = if shown < front.len() { format!(", {shown} OF {}", front.len()) } else { String::new() };
    page.heading(&format!("BEST TRADE-OFFS OF LATENCY, LOSS AND CPU LEFT (PARETO FRONT){of}"));
    head(page);
    rows(page, advice, &front[..shown]);
}

fn others(page: &mut Page, advice: &Advice) {
    let others: Vec<&Candidate> =
        advice.candidates.iter().filter(|one| !one.front && one.fate != CandidateStatus::Unanswered).collect();
    if !others.is_empty() {
        page.heading(&format!("OFF THE FRONT, {} OF {}", others.len().min(OTHERS), others.len()));
        head(page);
        rows(page, advice, &others[..others.len().min(OTHERS)]);
    }
}

fn title(advice: &Advice) -> String {
    let constraints: Vec<String> = advice.constraints.iter().map(ToString::to_string).collect();
    match constraints[..] {
        [] => advice.goal.to_string(),
        _ => format!("{} subject to {}", advice.goal, constraints.join(" and ")),
    }
}

/// Numbers of candidates: all, dropped by the model, simulated, and without an engine that supports them.
fn counts(advice: &Advice) -> String {
    let count = |keep: &dyn Fn(&Candidate) -> bool| advice.candidates.iter().filter(|one| keep(one)).count();
    let simulated = count(&|one| one.engine == Some(EngineKind::Sim));
    let by_model = count(&|one| one.engine == Some(EngineKind::Model));
    let unanswered = count(&|one| one.fate == CandidateStatus::Unanswered);
    let mut parts = vec![
        format!("{}", advice.candidates.len()),
        format!("{by_model} dropped by the model (margin {})", format::share_short(advice.margin)),
        format!("{simulated} simulated"),
    ];
    if unanswered > 0 {
        parts.push(format!("{unanswered} without an answer"));
    }
    parts.join(", ")
}

fn effort(advice: &Advice) -> String {
    let millions = |packets: u64| format::significant(packets as f64 / 1e6);
    format!(
        "{} million packets simulated, at most {} million; {} replications of {} packets for each candidate, a quarter of them for one \
         that is clearly worse",
        millions(advice.packets),
        millions(advice.packets_at_most),
        advice.first_stage,
        advice.packets_each
    )
}

/// Adds the names of the columns.
fn head(page: &mut Page) {
    let [latency, loss, cpu, by] = FIGURES;
    page.block(&format!("    {:>latency$}{:>loss$}{:>cpu$}  {:<by$}setting", "p99", "lost", "CPU left", "by"));
}

/// Adds one row for each setting. Settings with equal figures share a row.
fn rows(page: &mut Page, advice: &Advice, candidates: &[&Candidate]) {
    let alike = |a: &&Candidate, b: &&Candidate| figures(a) == figures(b) && a.not_offered == b.not_offered;
    for same in candidates.chunk_by(alike) {
        let mark = if advice.advised.contains(&same[0].scheme) { '*' } else { ' ' };
        let more = if same.len() > 1 { format!(" (and {} more alike)", same.len() - 1) } else { String::new() };
        let no = if same[0].not_offered.is_some() { " (no Linux setting)" } else { "" };
        page.item(&format!("{mark} {}", figures(same[0])), &format!("{}{no}{more}", brief(&same[0].scheme)));
    }
}

fn figures(candidate: &Candidate) -> String {
    let value = |key: &str, write: &dyn Fn(f64) -> String| {
        let measure: Option<Measure> = key.parse().ok();
        let figure = measure.and_then(|measure| candidate.figure(measure));
        figure.map_or("-".to_owned(), |figure| write(figure.value))
    };
    let [latency, loss, cpu, by] = FIGURES;
    format!(
        "{:>latency$}{:>loss$}{:>cpu$}  {:<by$}",
        value(FRONT[0], &|value| format::quantity(value, Unit::Seconds)),
        value(FRONT[1], &|value| if value < 1e-12 { "0 %".to_owned() } else { format::loss(value) }),
        value(FRONT[2], &|value| format::quantity(value, Unit::Share)),
        candidate.engine.map_or("-", EngineKind::name),
    )
}

fn remarks(page: &mut Page, advice: &Advice) {
    let unanswered: Vec<&Candidate> =
        advice.candidates.iter().filter(|one| one.fate == CandidateStatus::Unanswered).collect();
    if !unanswered.is_empty() {
        page.heading("WITHOUT AN ANSWER");
        unanswered.iter().for_each(|one| page.item("- ", &format!("{}: {}", brief(&one.scheme), one.why)));
    }
    if !advice.notes.is_empty() {
        page.heading("NOTES");
        advice.notes.iter().for_each(|note| page.item("- ", note));
    }
}

fn by_load(page: &mut Page, all: &[Advice]) {
    page.heading("ADVICE BY LOAD");
    let [latency, loss, cpu, by] = FIGURES;
    page.block(&format!(
        "  {:>10}{:>latency$}{:>loss$}{:>cpu$}  {:<by$}setting",
        "load", "p99", "lost", "CPU left", "by"
    ));
    for advice in all {
        let load = match advice.traffic.rate_pps() {
            Some(pps) => format::quantity(pps, Unit::Pps),
            None => advice.traffic.rate.to_string(),
        };
        if advice.verdict == Verdict::NoneFeasible {
            page.item(&format!("{load:>10}  "), "no setting meets the constraints; closest:");
        }
        if advice.verdict == Verdict::NotDecided {
            page.item(&format!("{load:>10}  "), "undecided between:");
        }
        for candidate in advice.advised.iter().filter_map(|scheme| advice.candidate(scheme)) {
            let load = if advice.verdict == Verdict::Picked { load.as_str() } else { "" };
            page.item(&format!("{load:>10}{}", figures(candidate)), &brief(&candidate.scheme));
        }
    }
}

/// Adds the best settings over all loads (the first of `overall`), one line each: largest shortfall, the load that has
/// it, and the number of loads at which a constraint is violated.
fn kept(page: &mut Page, advice: &Advice, overall: &[Overall]) {
    if overall.is_empty() {
        return;
    }
    page.heading("ONE SETTING FOR ALL LOADS");
    let of = if advice.goal.measure.key.starts_with("cpu") { "of one CPU" } else { "of the best of the load" };
    page.paragraph(
        2,
        Tone::Plain,
        &format!("Columns: largest shortfall against the best setting for a load ({of}); that load; number of loads at which a constraint is not met; setting."),
    );
    for one in overall.iter().take(OTHERS) {
        let load = one.worst_pps.map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps));
        let lead = format!("{:>9} {load:>10} {:>3}  ", format::share(one.shortfall), one.infeasible);
        page.item(&lead, &brief(&one.scheme));
    }
}

/// The scheme without the parameters that have their default values.
fn brief(scheme: &Scheme) -> String {
    let text = scheme.to_string();
    let Some((name, params)) = text.split_once(':') else { return text };
    let written = |params: &[&str]| match params {
        [] => name.to_owned(),
        _ => format!("{name}:{}", params.join(",")),
    };
    let mut kept: Vec<&str> = params.split(',').collect();
    let mut place = 0;
    while place < kept.len() {
        let mut without = kept.clone();
        without.remove(place);
        if written(&without).parse::<Scheme>().as_ref() == Ok(scheme) {
            kept = without;
        } else {
            place += 1;
        }
    }
    written(&kept)
}

/// p99 by available CPU: three curves of points, for candidates not on the Pareto front, candidates on it, and advised
/// candidates.
fn drawing(advice: &Advice) -> Drawing {
    let axis = |name: &str, dimension, scale| Axis { name: name.to_owned(), dimension, scale, range: None };
    let dot = |candidate: &Candidate| {
        let value = |key: &str| candidate.figure(key.parse().ok()?);
        Some(Dot { x: value(FRONT[2])?.value, y: value(FRONT[0])? })
    };
    let curve = |name: &str, keep: &dyn Fn(&Candidate) -> bool| {
        let dots = advice.candidates.iter().filter(|one| keep(one)).filter_map(dot).collect();
        Curve { name: name.to_owned(), answerer: None, dots }
    };
    let advised = |candidate: &Candidate| advice.advised.contains(&candidate.scheme);
    let curves = vec![
        curve("off the Pareto front", &|one| !one.front && !advised(one)),
        curve("on the Pareto front", &|one| one.front && !advised(one)),
        curve("advised setting", &advised),
    ];
    Drawing {
        title: title(advice),
        axes: Axes {
            x: axis("CPU left", Dimension::Share, Scale::Linear),
            y: axis("99th percentile of latency", Dimension::Seconds, Scale::Log),
        },
        curves: curves.into_iter().filter(|curve| !curve.dots.is_empty()).collect(),
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: vec![("rate".to_owned(), advice.traffic.rate_pps().map(units::print_pps).unwrap_or_default())],
        source: String::new(),
        provenance: advice.provenance.clone(),
        partial: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_written_without_its_defaults() {
        for (text, wanted) in [
            ("interrupt", "interrupt"),
            ("interrupt:drops_interrupt=false", "interrupt:drops_interrupt=false"),
            ("napi:weight=64,budget=300", "napi"),
            (
                "napi:weight=16,defer_hard_irqs=2,gro_flush_timeout=20us",
                "napi:weight=16,defer_hard_irqs=2,gro_flush_timeout=20us",
            ),
            ("polling:period=20us,quota=4", "polling:quota=4"),
            ("hybrid:period=50us,quota=5", "hybrid:period=50us,quota=5"),
            ("ideal", "ideal"),
        ] {
            assert_eq!(brief(&text.parse().unwrap()), wanted);
        }
    }
}
