//! The first lines of a page: the cliff, its interval, and doubts about it.

use netcliff_core::finding::{CliffSearches, EngineFigure, FigurePath, WholeFigure, without_confidence};
use netcliff_core::{EngineKind, Figure, Finding};

use super::story::error_of;
use crate::format::{self, Unit};

/// Relative width of an interval to one side, above which the page mentions it.
const WIDE: f64 = 0.15;
/// Confidence of an interval below which the page gives the number of searches behind it.
const SURE: f64 = 0.9;
/// Share of void trials above which the page says that the machine was not quiet.
const MANY_VOID: f64 = 0.25;

/// The verdict as a line: `Cliff 229 kpps (202-245, 94 % confidence); model 229 kpps (+0.1 %), simulation 232 kpps
/// (+1.3 %).`
pub fn verdict(finding: &Finding) -> String {
    let Some(cliff) = finding.cliff_pps.wire else { return no_cliff(finding).unwrap_or_default() };
    let predicted = [(EngineKind::Model, "model"), (EngineKind::Sim, "simulation")].map(|(engine, name)| {
        let figure = finding.cliff_pps.get(engine)?;
        let error = error_of(&finding.cliff_pps, engine)?;
        Some(format!("{name} {} ({})", value(figure), format::signed(error, Unit::Share)))
    });
    let predicted: Vec<String> = predicted.into_iter().flatten().collect();
    let predicted = if predicted.is_empty() { String::new() } else { format!("; {}", predicted.join(", ")) };
    format!("Cliff {}{}{predicted}", value(&cliff), ends(&cliff, count(finding)))
}

/// A sentence on why there is no measured cliff. `None` if there is one. Pages and messages print this.
pub fn no_cliff(finding: &Finding) -> Option<String> {
    why_no_cliff(finding).map(|why| format!("No cliff was measured: {why}"))
}

/// The reason why no cliff was measured, as the run recorded it, with the bound of the cliff if there is one.
fn why_no_cliff(finding: &Finding) -> Option<&str> {
    if finding.cliff_pps.wire.is_some() {
        return None;
    }
    let figures = [
        EngineFigure::Cliff.by(EngineKind::Wire),
        FigurePath::Engine(EngineKind::Wire),
        FigurePath::Whole(WholeFigure::Measured),
    ];
    let why = figures.iter().find_map(|figure| finding.missing.iter().find(|missing| missing.figure == *figure));
    Some(match (why, finding.partial) {
        (Some(missing), _) => &missing.why,
        (None, true) => "the run was stopped before",
        (None, false) => "no reason was recorded",
    })
}

/// Confidence of an interval or bound from several searches. If there are too few searches for a confidence, their
/// number.
pub(super) fn certainty(confidence: f64, searches: usize) -> String {
    if let Some(known) = format::confidence(confidence) {
        return known;
    }
    let text = without_confidence(searches);
    if searches > 1 { text + ", without a confidence" } else { text }
}

/// A warning for values that are computed from a doubtful run. `None` if there is no doubt. `of`: name of the run, such
/// as `find run 3`. `has_p99`: the values include a p99.
pub fn caution(finding: &Finding, of: &str, has_p99: bool) -> Option<String> {
    let partial = finding.partial.then(|| "it was stopped early".to_owned());
    let none = why_no_cliff(finding).map(|why| format!("no cliff was measured: {why}"));
    let tail = super::culprit::tail(finding).map(|tail| tail.of_computed());
    let tail = tail.or_else(|| super::culprit::longer_than_computed(finding).filter(|_| has_p99));
    let said: Vec<String> = partial.into_iter().chain(none).chain(doubts_of_run(finding)).chain(tail).collect();
    (!said.is_empty()).then(|| format!("Caution: {of}: {}.", said.join("; ")))
}

/// Doubts about the figures of the page, a sentence each. Empty if there are no doubts.
pub fn doubts(finding: &Finding) -> Vec<String> {
    let mut said = doubts_of_run(finding);
    said.extend(super::culprit::tail(finding).map(|tail| tail.to_string()));
    said.extend(super::culprit::apart(finding));
    said
}

/// Doubts about the measured cliff and the costs, which also concern values that are computed from them.
fn doubts_of_run(finding: &Finding) -> Vec<String> {
    let mut said = Vec::new();
    let searches = finding.searches.as_ref();
    let measured = finding.cliff_pps.wire;
    if let Some((cliff, ends)) = measured.zip(measured.and_then(|cliff| cliff.interval)) {
        let (above, below) = ((ends.high - cliff.value) / cliff.value, (cliff.value - ends.low) / cliff.value);
        if above.max(below) > WIDE {
            let side = if above >= below { "above" } else { "below" };
            said.push(format!(
                "the interval of the measured cliff reaches {} {side} it: repeat the run, or raise --searches",
                format::share(above.max(below))
            ));
        }
        if ends.confidence < SURE {
            said.push(format!(
                "the interval of the measured cliff rests on {} only: raise --searches",
                searches_in_words(count(finding))
            ));
        }
    }
    if let Some(searches) = searches {
        let void = void_of(searches);
        if is_many(void, searches.trials) {
            let why = super::culprit(finding);
            said.push(format!("{void} of {} trials do not count: {why}", searches.trials));
        }
    }
    said.extend(excluding(finding));
    let contradictions = finding.contradictions.len() as u64;
    if contradictions > 0 {
        let loads = format::counted(contradictions, "load");
        said.push(format!(
            "the loss at {loads} of the load sweep contradicts the cliff (too high below it, or too low above it)"
        ));
    }
    said
}

/// Number of void trials of the searches.
pub(super) fn void_of(searches: &CliffSearches) -> u32 {
    searches.void.iter().map(|void| void.trials).sum()
}

fn is_many(void: u32, trials: u32) -> bool {
    f64::from(void) > MANY_VOID * f64::from(trials.max(1))
}

/// A sentence on the number of void trials of the searches. `None` without searches, and if the number is a doubt of its
/// own ([`doubts`]).
pub fn void_trials(finding: &Finding) -> Option<String> {
    let searches = finding.searches.as_ref().filter(|searches| searches.trials > 0)?;
    let (void, trials) = (void_of(searches), searches.trials);
    match void {
        0 => Some(format!("None of {trials} trials was void.")),
        _ if is_many(void, trials) => None,
        1 => Some(format!("1 of {trials} trials was void (does not count).")),
        _ => Some(format!("{void} of {trials} trials were void (do not count).")),
    }
}

/// A sentence for a computed cliff with outside pauses whose interval neither overlaps the measured one's nor contains
/// the other engine's value. The pauses of the computation then do not represent this host's pauses. `None` if there is
/// no such cliff.
fn excluding(finding: &Finding) -> Option<String> {
    let cliffs = &finding.cliff_experienced_pps;
    let measured = cliffs.wire?;
    let outside = |ends: netcliff_core::Interval, figure: &Figure| {
        let (low, high) = figure.interval.map_or((figure.value, figure.value), |of| (of.low, of.high));
        high < ends.low || low > ends.high
    };
    let pair = [(EngineKind::Sim, EngineKind::Model), (EngineKind::Model, EngineKind::Sim)];
    pair.into_iter().find_map(|(engine, other)| {
        let (figure, other) = (cliffs.get(engine)?, cliffs.get(other)?);
        let ends = figure.interval?;
        let excluded = outside(ends, &measured) && outside(ends, &Figure::exact(other.value));
        excluded.then(|| {
            let names = ("simulated", "predicted");
            let (this, that) = if engine == EngineKind::Sim { names } else { (names.1, names.0) };
            let range = format::interval(figure, Unit::Pps, "-").unwrap_or_default();
            format!(
                "the {this} cliff with pauses is {}, but its interval ({range}) contains neither the measured one, {}, nor the {that} \
                 one, {}: do not plan with it",
                value(figure),
                value(&measured),
                value(other)
            )
        })
    })
}

/// Names of figures, each with the engines that have it.
type Named<'a> = Vec<(&'a str, Vec<&'a str>)>;

/// Confidence of the intervals of cliffs, peak, livelock and p99, each with its figures; without their names if all have
/// the same. `None` if only the measured cliff has an interval: the first line gives its confidence.
pub fn confidences(finding: &Finding) -> Option<String> {
    let searches = count(finding);
    let left = super::delivered_at_twice(finding);
    let rates = [
        ("cliff", &finding.cliff_pps),
        ("cliff with pauses", &finding.cliff_experienced_pps),
        ("peak", &finding.peak_pps),
        ("left at 2x cliff", &left),
    ];
    let rates =
        rates.into_iter().flat_map(|(name, by)| by.present().map(move |(engine, figure)| (name, engine, *figure)));
    let latencies = finding.latency.iter().flat_map(|at| at.latency_s.present());
    let p99 = latencies.filter_map(|(engine, latency)| Some(("p99", engine, latency.p99?)));
    // By confidence: the names, each with its engines.
    let mut groups: Vec<(f64, Named<'_>)> = Vec::new();
    let mut others = false;
    for (name, engine, figure) in rates.chain(p99) {
        let Some(ends) = figure.interval else { continue };
        others |= (name, engine) != ("cliff", EngineKind::Wire);
        let engine = super::column(engine);
        match groups.iter_mut().find(|(confidence, _)| (confidence - ends.confidence).abs() < 0.01) {
            Some((_, named)) => match named.iter_mut().find(|(of, _)| *of == name) {
                // The p99 has several loads.
                Some((_, engines)) if engines.contains(&engine) => {}
                Some((_, engines)) => engines.push(engine),
                None => named.push((name, vec![engine])),
            },
            None => groups.push((ends.confidence, vec![(name, vec![engine])])),
        }
    }
    if !others {
        return None;
    }
    let of = |(confidence, named): &(f64, Named<'_>)| {
        let of_pauses = named.iter().all(|(name, _)| *name == "cliff with pauses");
        let sure = match (*confidence > 0.0, searches > 1 && of_pauses) {
            (true, _) => format!("{} confidence", format::share_short(*confidence)),
            (false, true) => format!("{} (chance decides when pauses come)", certainty(0.0, searches)),
            (false, false) => certainty(0.0, searches),
        };
        let named = named.iter().map(|(name, engines)| format!("{name} ({})", engines.join(", ")));
        format!("of {}: {sure}", named.collect::<Vec<_>>().join(", "))
    };
    if let [(confidence, _)] = groups[..]
        && confidence > 0.0
    {
        return Some(format!("Intervals: {} confidence.", format::share_short(confidence)));
    }
    let each: Vec<String> = groups.iter().map(of).collect();
    (!each.is_empty()).then(|| format!("Intervals {}.", each.join("; ")))
}

/// Number of searches for the host's own cliff.
fn count(finding: &Finding) -> usize {
    finding.searches.as_ref().map_or(0, |searches| searches.own.searches.len())
}

fn searches_in_words(count: usize) -> String {
    if count == 1 { "1 search".to_owned() } else { format!("{count} searches") }
}

/// The interval of a figure as text: ` (202-245, 94 % confidence)`. Empty without an interval.
fn ends(figure: &Figure, searches: usize) -> String {
    let ends = format::interval(figure, Unit::Pps, "-").zip(figure.interval);
    ends.map_or(String::new(), |(text, ends)| format!(" ({text}, {})", certainty(ends.confidence, searches)))
}

fn value(figure: &Figure) -> String {
    format::value(figure, Unit::Pps)
}
