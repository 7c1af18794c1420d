//! The advice as a line, the commands that set it, and its result against the constraints.

use netcliff_core::advice::{Candidate, CandidateStatus, FRONT, Overall, Standing, Verdict};
use netcliff_core::{Advice, EngineKind, Scheme};

use super::{OTHERS, bound, brief, name};
use crate::format::{self, Unit};
use crate::terminal::page::{Page, Tone};

/// The best setting over several loads, as a line.
pub(super) fn for_all(advice: &Advice, loads: usize, best: &Overall) -> String {
    let of = if advice.goal.measure.is_cpu() { "of one CPU" } else { "of the best" };
    let worst = best.worst_pps.map_or(String::new(), |pps| format!(" (at {})", format::quantity(pps, Unit::Pps)));
    format!(
        "One setting for all {loads} loads: {}; it falls short of the best setting for each load by at most {} {of}{worst}.",
        brief(&best.scheme),
        format::share(best.shortfall)
    )
}

/// Adds the commands that configure each advised setting, or the reason why it cannot be set.
pub(super) fn commands(page: &mut Page, advice: &Advice, candidates: &[&Candidate]) {
    for candidate in candidates {
        let of = if candidates.len() > 1 { format!(" OF {}", brief(&candidate.scheme)) } else { String::new() };
        match (&candidate.commands, &candidate.not_offered) {
            (Some(lines), _) if lines.is_empty() => {
                let device = advice.device.as_deref().unwrap_or("the device");
                page.heading(&format!("COMMANDS{of}"));
                page.paragraph(2, Tone::Plain, &format!("none: {device} has these settings already"));
            }
            (Some(lines), _) => {
                page.heading(&format!("COMMANDS{of}, as root"));
                page.lines(lines.iter().map(|line| format!("  {line}")));
                if matches!(&candidate.scheme, Scheme::Coalesce(coalesce) if coalesce.masked) {
                    let hint =
                        "masked=true needs no command: NAPI drivers keep the interrupt off while they serve the ring.";
                    page.paragraph(2, Tone::Faint, hint);
                }
                if advice.device.is_none() && lines.iter().any(|line| line.contains(Advice::PLACEHOLDER)) {
                    let hint = format!(
                        "Replace {} by the interface's name; --if DEVICE checks what its driver offers.",
                        Advice::PLACEHOLDER
                    );
                    page.paragraph(2, Tone::Faint, &hint);
                }
            }
            (None, Some(why)) => {
                page.heading(&format!("COMMANDS{of}"));
                page.paragraph(2, Tone::Alarm, &format!("NOT A SETTING OF LINUX: {why}"));
            }
            (None, None) => {}
        }
    }
}

/// The advised setting and its figures as a line, with the confidence.
pub(super) fn verdict(page: &mut Page, advice: &Advice) {
    let names: Vec<String> = advice.advised.iter().map(brief).collect();
    let load =
        advice.traffic.rate_pps().map_or(advice.traffic.rate.to_string(), |pps| format::quantity(pps, Unit::Pps));
    let confidence = format::share_short(advice.confidence);
    match advice.verdict {
        Verdict::Picked => {
            let gives = advice.advised.first().and_then(|scheme| advice.candidate(scheme)).map_or(String::new(), gives);
            let sure = match advice.indifference {
                Some(zone) => {
                    let zone = zone_of(advice, zone);
                    format!("with {confidence} confidence no candidate is better by more than {zone}")
                }
                None => "best by the model, nothing was simulated".to_owned(),
            };
            page.paragraph(0, Tone::Strong, &format!("At {load}: {}{gives}; {sure}.", names.join(", ")));
        }
        Verdict::NotDecided => {
            page.paragraph(0, Tone::Alarm, &format!("At {load}: NOT DECIDED between {}", names.join(" and ")));
            let hint = "The packets allowed did not suffice to separate them: allow more (--packets-at-most), or raise --indifference.";
            page.paragraph(0, Tone::Plain, hint);
        }
        Verdict::NoneFeasible => {
            page.paragraph(0, Tone::Alarm, &format!("At {load}: NO CANDIDATE meets the constraints."));
            if let Some(name) = names.first() {
                page.paragraph(0, Tone::Plain, &format!("Closest: {name}."));
            }
        }
    }
}

/// The figures of the front, with their intervals if they were sampled: `: p99 55.1 us (54.0-56.2), lost 0 %, CPU idle
/// 33 %`.
fn gives(candidate: &Candidate) -> String {
    let named = [("p99", Unit::Seconds), ("lost", Unit::Share), ("CPU idle", Unit::Share)];
    let of = |(key, (name, unit)): (&&str, (&str, Unit))| {
        let figure = candidate.figure(key.parse().ok()?)?;
        Some(format!("{name} {}", format::figure(&figure, unit)))
    };
    let all: Vec<String> = FRONT.iter().zip(named).filter_map(of).collect();
    let interval = FRONT.iter().find_map(|key| candidate.figure(key.parse().ok()?)?.interval);
    let level = interval.map(|ends| format!(" ({} intervals, of sampling only)", format::share_short(ends.confidence)));
    if all.is_empty() { String::new() } else { format!(": {}{}", all.join(", "), level.unwrap_or_default()) }
}

/// Adds the settings that are as good as the pick, and those of which this is not shown although their means are near.
pub(super) fn alike(page: &mut Page, advice: &Advice) {
    let (Some(pick), Some(zone)) = (advice.pick(), advice.indifference) else { return };
    let within = zone_of(advice, zone);
    if !advice.alike.is_empty() {
        let names: Vec<String> = advice.alike.iter().map(brief).collect();
        let confidence = format::share_short(advice.confidence);
        let text = format!(
            "Equally good, at most {within} worse on the same packets ({confidence} confidence): {}.",
            first_of(&names)
        );
        page.paragraph(0, Tone::Plain, &text);
    }
    let measure = advice.goal.measure;
    let Some(best) = pick.figure(measure) else { return };
    let near = |one: &&Candidate| {
        let is_other = !advice.advised.contains(&one.scheme) && !advice.alike.contains(&one.scheme);
        let is_open = matches!(one.fate, CandidateStatus::Worse | CandidateStatus::Contends);
        let is_near = one.figure(measure).is_some_and(|figure| (figure.value - best.value).abs() <= zone);
        one.engine == Some(EngineKind::Sim) && is_other && is_open && is_near
    };
    let value = |one: &Candidate| {
        let figure = one.figure(measure).map(|figure| format::quantity(figure.value, Unit::of(measure.dimension)));
        format!("{} ({})", brief(&one.scheme), figure.unwrap_or_default())
    };
    let unsure: Vec<String> = advice.candidates.iter().filter(near).map(value).collect();
    if !unsure.is_empty() {
        let text = format!(
            "Not shown to be equally good, although the difference of the mean {} is at most {within}: {}.",
            name(measure),
            first_of(&unsure)
        );
        page.paragraph(0, Tone::Plain, &text);
    }
}

/// The first names of a list, and the number of the others.
fn first_of(names: &[String]) -> String {
    let shown = &names[..names.len().min(OTHERS)];
    let more = names.len() - shown.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

/// True if the device has this setting already.
pub(super) fn is_present(candidate: &Candidate) -> bool {
    candidate.commands.as_ref().is_some_and(Vec::is_empty)
}

/// Adds the present setting, with its figures if there is one load; or how to compare with it.
pub(super) fn present(page: &mut Page, all: &[Advice]) {
    let Some(first) = all.first() else { return };
    let present = first.candidates.iter().find(|one| is_present(one));
    let text = match (present, first.device.as_deref()) {
        (Some(one), _) if all.iter().all(|advice| advice.advised.contains(&one.scheme)) => return,
        (Some(one), device) => {
            let gives = if all.len() == 1 { gives(one) } else { String::new() };
            let by = if one.engine == Some(EngineKind::Model) && !gives.is_empty() { " (by the model)" } else { "" };
            format!("Now {} has {}{gives}{by}.", device.unwrap_or("the device"), brief(&one.scheme))
        }
        (None, Some(device)) => format!(
            "The present setting of {device} is not among the candidates: `--candidates all --scheme SCHEME` adds it, to compare."
        ),
        (None, None) => {
            "To compare with the present setting, name its device (--if DEVICE) or add the setting (`--candidates all --scheme SCHEME`)."
                .to_owned()
        }
    };
    page.paragraph(0, Tone::Plain, &text);
}

fn zone_of(advice: &Advice, zone: f64) -> String {
    let of_cpu = if advice.goal.measure.is_cpu() { " of one CPU" } else { "" };
    format!("{}{of_cpu}", format::quantity(zone, Unit::of(advice.goal.measure.dimension)))
}

/// Result of the advised settings against the constraints.
pub(super) fn judged(page: &mut Page, advice: &Advice) {
    if advice.constraints.is_empty() {
        return;
    }
    page.heading("CONSTRAINTS");
    for candidate in advice.advised.iter().filter_map(|scheme| advice.candidate(scheme)) {
        for judged in &candidate.constraints {
            let measure = judged.constraint.measure;
            let value = candidate.figure(measure).map(|figure| format::figure(&figure, Unit::of(measure.dimension)));
            let standing = match judged.standing {
                Standing::Met => "met",
                Standing::Missed => "not met",
                Standing::NotDecided => "not decided",
            };
            let value = value.unwrap_or_else(|| "-".to_owned());
            let who = if advice.advised.len() > 1 { format!("{}: ", brief(&candidate.scheme)) } else { String::new() };
            page.item("- ", &format!("{who}{}: {standing}, {value}", bound(&judged.constraint)));
        }
    }
}
