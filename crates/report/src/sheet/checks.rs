//! The other set-ups that a screen shows, and how well all were predicted.

use netcliff_core::EngineKind;
use netcliff_core::finding::SetupCheck;

use super::error_of;
use crate::format;

/// At most `most` of the set-ups, those whose predicted cliff is furthest off first, and how many are left out; None: there are none.
pub fn worst_checks(checks: &[SetupCheck], most: usize) -> Option<(Vec<&SetupCheck>, usize)> {
    let mut shown: Vec<&SetupCheck> = checks.iter().collect();
    if shown.len() > most {
        // One without an error comes first.
        let off = |check: &SetupCheck| worst_error(check).unwrap_or(f64::INFINITY);
        shown.sort_by(|a, b| off(b).total_cmp(&off(a)));
        shown.truncate(most);
    }
    let hidden = checks.len() - shown.len();
    (!shown.is_empty()).then_some((shown, hidden))
}

/// The larger distance of model and simulation from the measured cliff, as a share of it; None: one was not measured.
fn worst_error(check: &SetupCheck) -> Option<f64> {
    let errors = [EngineKind::Model, EngineKind::Sim].map(|engine| error_of(&check.cliff_pps, engine));
    errors.into_iter().flatten().map(f64::abs).reduce(f64::max)
}

/// Settings of the interface that came otherwise than given, and what limits the prediction, a sentence each.
pub fn check_notes(check: &SetupCheck) -> Vec<String> {
    let otherwise = check.settings.iter().filter(|made| made.requested != made.effective);
    let otherwise = otherwise.map(|made| format!("{} {} came to {}", made.name, made.requested, made.effective));
    otherwise.chain(check.notes.iter().cloned()).collect()
}

/// How far off the predicted cliffs of all set-ups are in the median, where `hidden` of them are not shown: `worst 3 of 8; median
/// error of all: model 12 %, simulation 9 %`. None: all are shown.
pub fn median_error(checks: &[SetupCheck], hidden: usize) -> Option<String> {
    if hidden == 0 {
        return None;
    }
    let median = |engine: EngineKind| {
        let mut errors: Vec<f64> =
            checks.iter().filter_map(|check| error_of(&check.cliff_pps, engine)).map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        let (low, high) = (*errors.get(errors.len().checked_sub(1)? / 2)?, *errors.get(errors.len() / 2)?);
        Some(format::share((low + high) / 2.0))
    };
    let of = [(EngineKind::Model, "model"), (EngineKind::Sim, "simulation")];
    let known: Vec<String> =
        of.iter().filter_map(|(engine, name)| Some(format!("{name} {}", median(*engine)?))).collect();
    let all = checks.len();
    let median = match known.is_empty() {
        true => "none was both predicted and measured".to_owned(),
        false => format!("median error of all, either way: {}", known.join(", ")),
    };
    Some(format!("The {} predicted worst of {all}; {median}.", all - hidden))
}
