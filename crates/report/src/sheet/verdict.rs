//! The first lines of a page: the cliff, what limits it, and whether the figure can be relied on.

use netcliff_core::{EngineKind, Figure, Finding};

use super::story::error_of;
use crate::format::{self, Unit};

/// An interval that reaches farther than this from its figure, as a share of it, is mentioned.
const WIDE: f64 = 0.15;
/// Confidence below which an interval's number of repeats is given.
const SURE: f64 = 0.9;
/// Share of void trials from which the page says that the machine was not quiet.
const MANY_VOID: f64 = 0.25;

/// The verdict in a line: `Cliff 229 kpps (202-245, 94 % confidence); model 229 kpps (+0.1 %), simulation 232 kpps (+1.3 %).`
pub fn verdict(finding: &Finding) -> String {
    let Some(cliff) = finding.cliff_pps.wire else { return unmeasured(finding) };
    let predicted = [(EngineKind::Model, "model"), (EngineKind::Sim, "simulation")].map(|(engine, name)| {
        let figure = finding.cliff_pps.get(engine)?;
        let error = error_of(&finding.cliff_pps, engine)?;
        Some(format!("{name} {} ({})", value(figure), format::signed(error, Unit::Share)))
    });
    let predicted: Vec<String> = predicted.into_iter().flatten().collect();
    let predicted = if predicted.is_empty() { String::new() } else { format!("; {}", predicted.join(", ")) };
    format!("Cliff {}{}{predicted}", value(&cliff), ends(&cliff))
}

fn unmeasured(finding: &Finding) -> String {
    let bounds = finding.searches.as_ref().map(|searches| &searches.own);
    let bound = |pps: f64| value(&Figure::exact(pps));
    match bounds.map(|bounds| (bounds.lower_pps, bounds.upper_pps)) {
        Some((Some(lower), None)) => format!("Cliff >= {}: the sender offers no more", bound(lower)),
        Some((None, Some(upper))) => format!("Cliff <= {}", bound(upper)),
        _ => "No cliff was measured".to_owned(),
    }
}

/// Doubts about the measured cliff, a sentence each; empty if there are none.
pub fn doubts(finding: &Finding) -> Vec<String> {
    let mut said = Vec::new();
    let searches = finding.searches.as_ref();
    let measured = finding.cliff_pps.wire;
    if let Some((cliff, ends)) = measured.zip(measured.and_then(|cliff| cliff.interval)) {
        let reach = (ends.high - cliff.value).max(cliff.value - ends.low) / cliff.value;
        if reach > WIDE {
            said.push(format!(
                "its interval reaches {} from it: repeat it, or give --searches more",
                format::share(reach)
            ));
        }
        if ends.confidence < SURE {
            let count = searches.map_or(0, |searches| searches.own.searches.len());
            said.push(format!("{} confidence, from {count} searches", format::share_short(ends.confidence)));
        }
    }
    if let Some(searches) = searches {
        let void: u32 = searches.void.iter().map(|void| void.trials).sum();
        if f64::from(void) > MANY_VOID * f64::from(searches.trials.max(1)) {
            said.push(format!("{void} of {} trials were void: the machine was not quiet", searches.trials));
        }
    }
    if !finding.contradictions.is_empty() {
        said.push(match finding.contradictions.len() {
            1 => "1 load of the sweep does not fit it".to_owned(),
            several => format!("{several} loads of the sweep do not fit it"),
        });
    }
    said
}

/// Confidence of the intervals of cliffs and peak: the usual one, and those that have another; None without intervals.
pub fn confidences(finding: &Finding) -> Option<String> {
    let searches = finding.searches.as_ref().map_or(0, |searches| searches.own.searches.len());
    let names = [
        ("the cliff", &finding.cliff_pps),
        ("the cliff as experienced", &finding.cliff_experienced_pps),
        ("the peak", &finding.peak_pps),
    ];
    let each =
        names.iter().flat_map(|(name, figures)| figures.present().map(move |(engine, figure)| (*name, engine, figure)));
    let each: Vec<_> =
        each.filter_map(|(name, engine, figure)| Some((name, engine, figure.interval?.confidence))).collect();
    let alike = |a: f64, b: f64| (a - b).abs() < 0.01;
    let count = |of: f64| each.iter().filter(|(.., confidence)| alike(*confidence, of)).count();
    let usual = each.iter().map(|(.., confidence)| *confidence).max_by_key(|confidence| count(*confidence))?;
    let others = each.iter().filter(|(.., confidence)| !alike(*confidence, usual)).map(|(name, engine, confidence)| {
        let rests = if *engine == EngineKind::Wire && *confidence < SURE {
            format!(", from {searches} searches")
        } else {
            String::new()
        };
        match *confidence {
            0.0 => format!("{name} ({}) has the range of its searches", super::column(*engine)),
            _ => format!("{name} ({}) {}{rests}", super::column(*engine), format::share_short(*confidence)),
        }
    });
    let others: Vec<String> = others.collect();
    let but = if others.is_empty() { String::new() } else { format!(", but {}", others.join("; ")) };
    Some(format!("Intervals have {} confidence{but}.", format::share_short(usual)))
}

/// ` (202-245, 94 % confidence)`; empty without an interval.
fn ends(figure: &Figure) -> String {
    let ends = format::interval(figure, Unit::Pps, "-").zip(figure.interval);
    ends.map_or(String::new(), |(text, ends)| format!(" ({text}, {} confidence)", format::share_short(ends.confidence)))
}

fn value(figure: &Figure) -> String {
    format::value(figure, Unit::Pps)
}
