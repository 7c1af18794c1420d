//! Rows of checks (other set-ups, predicted and then measured), the checks that a screen shows, and the prediction
//! errors.

use netcliff_core::finding::{ByEngine, SetupCheck};
use netcliff_core::{EngineKind, Figure, Outcome};

use super::{ENGINES, Row, by_engine, error_of};
use crate::format::{self, Unit};

/// Rows of a check: computed figures with their error, measured figures with their interval. Interrupts and packets per
/// poll are for loads below the check's cliff.
pub fn check(check: &SetupCheck) -> Vec<Row> {
    let mut rows = vec![
        against("cliff", Unit::Pps, &check.cliff_pps),
        against(super::WITH_PAUSES, Unit::Pps, &check.cliff_experienced_pps),
        against("delivered, 1.5x", Unit::Pps, &check.delivered_at_1_5_pps),
        against("delivered, 2x", Unit::Pps, &check.delivered_at_2_pps),
    ];
    if check.cliff_experienced_pps.wire.is_none() || check.cliff_pps.wire.is_some() {
        rows.remove(1);
    }
    rows.extend(below(check));
    rows
}

/// Figures by engine, each computed one with its error.
fn against(label: &str, unit: Unit, figures: &ByEngine<Figure>) -> Row {
    let mut row = by_engine(label, unit, figures);
    for (engine, cell) in ENGINES.into_iter().zip(&mut row.cells).filter(|(e, _)| *e != EngineKind::Wire) {
        let error = error_of(figures, engine).map(|error| format::signed(error, Unit::Share));
        if let Some(cell) = cell {
            cell.interval = error;
        }
    }
    row
}

/// A figure of an outcome with its name and unit.
type Kind = (&'static str, Unit, fn(&Outcome) -> Option<Figure>);

/// Figures shown for loads below the cliff.
const BELOW: [Kind; 2] = [
    ("interrupts", Unit::PerSecond, |outcome| outcome.interrupts_per_s),
    ("packets/poll", Unit::Number, |outcome| outcome.packets_per_poll),
];

/// Rows of interrupts and packets per poll by load, if a NIC interrupts the host.
fn below(check: &SetupCheck) -> Vec<Row> {
    let mut loads: Vec<f64> = check.below.iter().map(|point| point.load_pps).collect();
    loads.dedup();
    let row = |(name, unit, pick): Kind, load_pps: f64| {
        let mut by = ByEngine::default();
        let here = check.below.iter().filter(|point| point.load_pps == load_pps);
        here.for_each(|point| by.set(point.engine, pick(&point.outcome)));
        against(&format!("{name}, {}", format::quantity(load_pps, Unit::Pps)), unit, &by)
    };
    let rows = BELOW.into_iter().flat_map(|figure| loads.iter().map(move |load_pps| row(figure, *load_pps)));
    rows.filter(|row| row.cells.iter().any(Option::is_some)).collect()
}

/// At most `most` set-ups, with the largest errors of the predicted cliff first, and the number left out. `None` if
/// there are no set-ups.
pub fn worst_checks(checks: &[SetupCheck], most: usize) -> Option<(Vec<&SetupCheck>, usize)> {
    let mut shown: Vec<&SetupCheck> = checks.iter().collect();
    if shown.len() > most {
        // A set-up whose error is unknown comes first.
        let off = |check: &SetupCheck| worst_error(check).unwrap_or(f64::INFINITY);
        shown.sort_by(|a, b| off(b).total_cmp(&off(a)));
        shown.truncate(most);
    }
    let hidden = checks.len() - shown.len();
    (!shown.is_empty()).then_some((shown, hidden))
}

/// The larger relative error of model and simulation against the measured cliff. `None` if the cliff was not measured,
/// or if neither engine has one.
fn worst_error(check: &SetupCheck) -> Option<f64> {
    let errors = [EngineKind::Model, EngineKind::Sim].map(|engine| error_of(&check.cliff_pps, engine));
    errors.into_iter().flatten().map(f64::abs).reduce(f64::max)
}

/// Settings of the interface whose effective value differs from the requested one, and limits of the prediction, a
/// sentence each.
pub fn check_notes(check: &SetupCheck) -> Vec<String> {
    let otherwise = check.settings.iter().filter(|made| made.requested != made.effective);
    let otherwise =
        otherwise.map(|made| format!("{}: {} requested, {} in effect", made.name, made.requested, made.effective));
    otherwise.chain(check.notes.iter().cloned()).collect()
}

/// Median error of the predicted cliffs of all checks, if `hidden` of them are not shown: `Shown: the 3 of 8 checks
/// with ...; median absolute error of all: model 12 %, simulation 9 %.` `None` if all are shown.
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
        true => "no check was both predicted and measured".to_owned(),
        false => format!("median absolute error of all: {}", known.join(", ")),
    };
    let shown = all - hidden;
    Some(format!("Shown: the {shown} of {all} checks with the largest prediction errors (-v shows all); {median}."))
}
