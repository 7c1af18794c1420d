//! Sentences on the definition of a run's cliff, and on its searches.

use netcliff_core::finding::{CliffBounds, IdleTrial};
use netcliff_core::units::{print_share, print_time_s};
use netcliff_core::{Figure, Finding};

use super::verdict::{certainty, void_of};
use crate::format::{self, Unit};

/// Largest relative difference of two cliffs that count as equal.
const NOTHING: f64 = 0.005;

/// Definition of the cliff, with the run's loss target.
pub fn cliff_note(finding: &Finding) -> String {
    let loss = format::loss(finding.loss_target);
    match finding.definition {
        Some(of) if of.exceed > 0.0 => format!(
            "highest offered load at which at most {} of the trials of {} lose more than {loss}; without {}",
            print_share(of.exceed),
            print_time_s(of.trial_s),
            left_out(finding)
        ),
        Some(of) => format!(
            "highest offered load at which no trial of {} loses more than {loss}; without {}",
            print_time_s(of.trial_s),
            left_out(finding)
        ),
        None => format!("highest offered load with loss at or below {loss}"),
    }
}

/// The disturbances that the cliff leaves out, and the cliff with pauses includes.
pub fn left_out(finding: &Finding) -> &'static str {
    if has_pauses_of_host(finding) {
        "times in which the hypervisor or other programs had the CPU, or the sender stalled"
    } else {
        "stalls of the sender (pauses of the CPU under test were not measured and are included)"
    }
}

fn has_pauses_of_host(finding: &Finding) -> bool {
    finding.disturbance.as_ref().is_some_and(|found| found.host.is_some())
}

/// Sentences on the number of searches and trials, and on bounds that are open on one side.
pub fn searched(finding: &Finding) -> Vec<String> {
    let Some(searches) = &finding.searches else { return Vec::new() };
    let mut said = Vec::new();
    let count = searches.own.searches.len();
    let confidence = if searches.own.confidence > 0.0 {
        format!("; the interval over them has {}", certainty(searches.own.confidence, count))
    } else {
        String::new()
    };
    let confidence = match searches.experienced.confidence {
        0.0 if count > 1 => {
            format!("{confidence}; no confidence is given for the cliff with pauses: chance decides when pauses come")
        }
        _ => confidence,
    };
    let plural = if count == 1 { "search" } else { "searches" };
    said.push(format!("{count} {plural} by MLRsearch (RFC 9971), {} trials{confidence}", searches.trials));
    let void = void_of(searches);
    if void > 0 {
        let why: Vec<String> = searches.void.iter().map(|void| format!("{}: {}", void.trials, void.why)).collect();
        said.push(format!("{void} of these trials were void: they do not count ({})", why.join("; ")));
    }
    said.extend(open("the cliff", &searches.own));
    said.extend(open("the cliff with pauses", &searches.experienced));
    said
}

/// An interval that is open on one side.
fn open(name: &str, bounds: &CliffBounds) -> Option<String> {
    let pps = |pps: f64| format::value(&Figure::exact(pps), Unit::Pps);
    let sure = certainty(bounds.confidence, bounds.searches.len());
    match (bounds.lower_pps, bounds.upper_pps) {
        (Some(lower), None) => Some(format!("{name} is >= {} ({sure})", pps(lower))),
        (None, Some(upper)) => Some(format!("{name} is <= {} ({sure})", pps(upper))),
        _ => None,
    }
}

/// Measured loads that do not fit the cliff, a sentence each.
pub fn contradictions(finding: &Finding) -> Vec<String> {
    let one = |of: &netcliff_core::finding::Contradiction| {
        let load = format::quantity(of.load_pps, Unit::Pps);
        format!("the load sweep lost {} at {load}, which contradicts the cliff: {}", format::loss(of.loss), of.cause)
    };
    finding.contradictions.iter().map(one).collect()
}

/// How the host's CPU idled, and the result of a trial with the other idle mode.
pub fn idle(finding: &Finding) -> Option<String> {
    let modes = finding.idle.as_ref()?;
    let said = match modes.mode.as_str() {
        "awake" => "kept from halting (--idle awake)",
        _ => "halts between packets as configured (--idle as-configured)",
    };
    let (Some(this), Some(other)) = (&modes.this, &modes.other) else { return Some(said.to_owned()) };
    let trial = |trial: &IdleTrial| {
        let latency = trial.p99_s.map(|p99_s| format!(", p99 {}", format::quantity(p99_s, Unit::Seconds)));
        format!("{} lost{}", format::loss(trial.loss), latency.unwrap_or_default())
    };
    let load = format::quantity(this.load_pps, Unit::Pps);
    Some(format!("{said}; one trial at {load}: {}; {}: {}", trial(this), other.mode, trial(other)))
}

/// The cliff that is the upper limit to plan with, a load with a margin, and how far the two cliffs are apart. `None`
/// if one of the cliffs is missing.
pub fn to_plan_with(finding: &Finding) -> Option<String> {
    let (own, experienced) = (finding.cliff_pps.wire?, finding.cliff_experienced_pps.wire?);
    let searches = finding.searches.as_ref();
    let of_own = ends(&own, searches.map(|searches| &searches.own));
    let of_experienced = ends(&experienced, searches.map(|searches| &searches.experienced));
    let overlap = of_own.0 <= of_experienced.1 && of_experienced.0 <= of_own.1;
    let apart = 1.0 - experienced.value / own.value;
    let value = |figure: &Figure| format::value(figure, Unit::Pps);
    let (noun, begin) = if has_pauses_of_host(finding) {
        ("pauses", "Pauses from outside (hypervisor, other programs)")
    } else {
        ("stalls", "Stalls of the sender")
    };
    let low_ends = [(of_own.0, "the cliff's interval"), (of_experienced.0, "the interval of the cliff with pauses")];
    let limit = |cliff: &Figure, included: &str| {
        // The lower of both ends: either cliff may be the one that this host meets next.
        let below = low_ends.into_iter().filter(|(low_pps, _)| *low_pps > 0.0 && *low_pps < cliff.value);
        let low = below.min_by(|a, b| a.0.total_cmp(&b.0));
        let margin = low.map(|(low_pps, whose)| {
            let low = format::quantity(low_pps, Unit::Pps);
            format!("; for a margin stay below {low}, the lower end of {whose}")
        });
        format!("Upper limit to plan with: {}{included}{}.", value(cliff), margin.unwrap_or_default())
    };
    Some(if overlap && apart.abs() < NOTHING {
        format!("{} {begin} did not move the cliff.", limit(&experienced, ""))
    } else if overlap && apart < 0.0 {
        // A disturbance that takes CPU time cannot raise a cliff: the difference is chance.
        format!(
            "{} {begin} did not lower the cliff; the searches with and without them differ by {}, within the interval.",
            limit(&own, ""),
            format::share(-apart)
        )
    } else if overlap {
        format!(
            "{} {begin} are included; the interval of this limit and that of the cliff without them overlap, so no effect of these {noun} is shown.",
            limit(&experienced, "")
        )
    } else if apart > 0.0 {
        format!(
            "{} {begin} lower it by {} below the {} that the host does alone.",
            limit(&experienced, ", the cliff with pauses"),
            format::share(apart),
            value(&own)
        )
    } else {
        format!("{} {begin} did not lower the cliff.", limit(&own, ""))
    })
}

/// Ends of the range of a cliff (pps), which may be open on one side.
fn ends(cliff: &Figure, bounds: Option<&CliffBounds>) -> (f64, f64) {
    match (cliff.interval, bounds) {
        (Some(ends), _) => (ends.low, ends.high),
        (None, Some(bounds)) => (bounds.lower_pps.unwrap_or(0.0), bounds.upper_pps.unwrap_or(f64::INFINITY)),
        (None, None) => (cliff.value, cliff.value),
    }
}
