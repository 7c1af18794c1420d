//! The figures of the page that were not measured, each with its reason. Every dash on the page has a reason here.

use netcliff_core::finding::{ByEngine, EngineFigure, FigurePath, WholeFigure};
use netcliff_core::{EngineKind, Finding};

use super::{ENGINES, Row};

/// Figures that were not measured, with the reason they share, in the order of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotHad {
    /// The figures.
    pub figures: Vec<FigurePath>,
    /// Why, as a sentence.
    pub why: String,
}

impl NotHad {
    /// Names of the figures in words.
    pub fn in_words(&self) -> Vec<String> {
        self.figures.iter().map(FigurePath::in_words).collect()
    }
}

/// Figures that the finding lists as missing, and every absent figure that it does not list, grouped by reason.
pub fn not_had(finding: &Finding) -> Vec<NotHad> {
    let listed = finding.missing.iter().map(|missing| (missing.figure.clone(), missing.why.as_str()));
    let why = if finding.partial { "the run was stopped before" } else { "no reason was recorded" };
    let wholes = absent(finding).into_iter().map(|key| (key, why));
    let parts = absent_parts(finding).into_iter().map(|key| (key, "the engine does not report this figure"));
    let unlisted = wholes
        .chain(parts)
        .filter(|(figure, _)| !finding.missing.iter().any(|missing| missing.figure.explains(figure)));
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

/// Figures of the page that have no value.
fn absent(finding: &Finding) -> Vec<FigurePath> {
    let mut absent = Vec::new();
    let whole = |figure: WholeFigure, is_none: bool| is_none.then_some(FigurePath::Whole(figure));
    absent.extend(whole(WholeFigure::Ceiling, finding.generator.ceiling_pps.is_none()));
    absent.extend(whole(WholeFigure::Calibration, finding.calibration.is_none()));
    absent.extend(by_engine(EngineFigure::Cliff, &finding.cliff_pps));
    absent.extend(by_engine(EngineFigure::Peak, &finding.peak_pps));
    absent.extend(by_engine(EngineFigure::Livelock, &super::delivered_at_twice(finding)));
    let without = ENGINES.into_iter().filter(|engine| !has_latency(finding, *engine));
    absent.extend(without.map(|engine| EngineFigure::Latency.by(engine)));
    absent.extend(by_engine(EngineFigure::CpuAtCliff, &finding.cpu_at_cliff));
    absent.extend(by_engine(EngineFigure::CpuAtTwice, &finding.cpu_at_twice));
    absent.extend(by_engine(EngineFigure::LossAtTwice, &finding.loss_at_twice));
    for check in &finding.checks {
        for (figure, values) in [
            (EngineFigure::Cliff, &check.cliff_pps),
            (EngineFigure::DeliveredAtOneAndAHalf, &check.delivered_at_1_5_pps),
            (EngineFigure::DeliveredAtTwice, &check.delivered_at_2_pps),
        ] {
            absent.extend(lacking(values).map(|engine| FigurePath::Check(check.name.clone(), Some((figure, engine)))));
        }
    }
    absent.extend(whole(WholeFigure::Binding, finding.binding.is_none()));
    absent
}

fn has_latency(finding: &Finding, engine: EngineKind) -> bool {
    !finding.latency.is_empty() && finding.latency.iter().all(|at| at.latency_s.get(engine).is_some())
}

fn lacking<T>(values: &ByEngine<T>) -> impl Iterator<Item = EngineKind> {
    ENGINES.into_iter().filter(|engine| values.get(*engine).is_none())
}

fn by_engine<T>(figure: EngineFigure, values: &ByEngine<T>) -> impl Iterator<Item = FigurePath> {
    lacking(values).map(move |engine| figure.by(engine))
}

/// Missing values inside a figure that has other parts: one quantile, one part of the CPU, one place of loss.
fn absent_parts(finding: &Finding) -> Vec<FigurePath> {
    let mut absent = Vec::new();
    for row in finding.latency.iter().flat_map(super::latency) {
        absent.extend(parts(EngineFigure::Latency, &row, |engine| has_latency(finding, engine)));
    }
    for row in super::cpu(&finding.cpu_at_cliff) {
        absent.extend(parts(EngineFigure::CpuAtCliff, &row, |engine| finding.cpu_at_cliff.get(engine).is_some()));
    }
    for row in super::cpu(&finding.cpu_at_twice) {
        absent.extend(parts(EngineFigure::CpuAtTwice, &row, |engine| finding.cpu_at_twice.get(engine).is_some()));
    }
    for row in super::loss(&finding.loss_at_twice) {
        absent.extend(parts(EngineFigure::LossAtTwice, &row, |engine| finding.loss_at_twice.get(engine).is_some()));
    }
    absent
}

fn parts(figure: EngineFigure, row: &Row, has_whole: impl Fn(EngineKind) -> bool) -> Vec<FigurePath> {
    let dashes = ENGINES.into_iter().zip(&row.cells).filter(|(engine, cell)| cell.is_none() && has_whole(*engine));
    dashes.map(|(engine, _)| FigurePath::Of(figure, Some(engine), Some(row.label.clone()))).collect()
}
