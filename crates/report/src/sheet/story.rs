//! Sentences on the figures: the error of a prediction, and whether and why the host livelocks.

use netcliff_core::finding::ByEngine;
use netcliff_core::{CpuShares, EngineKind, Figure, Finding};

use super::CPU_PARTS;
use crate::format;

/// Share of the peak at twice the cliff, below which the page says that the host livelocks.
const LIVELOCK_BELOW: f64 = 0.5;
/// Share of the peak at twice the cliff, from which the page says that there is no livelock.
const FLAT_FROM: f64 = 0.9;

/// Relative error of an engine's figure against the measured one. `None` for the measurement itself, or if a figure is
/// missing.
pub fn error_of(figures: &ByEngine<Figure>, engine: EngineKind) -> Option<f64> {
    if engine == EngineKind::Wire {
        return None;
    }
    let measured = figures.wire.as_ref()?.value;
    let error = figures.get(engine)?.value / measured - 1.0;
    error.is_finite().then_some(error)
}

/// Heading of the share that is delivered at twice the cliff, with the bounds of the verdict.
pub fn at_twice_heading() -> String {
    format!(
        "Delivered at twice the cliff, of the peak (below {}: receive livelock; from {}: no livelock)",
        format::share_short(LIVELOCK_BELOW),
        format::share_short(FLAT_FROM)
    )
}

/// Behaviour past the cliff, by the rate delivered at twice the cliff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Below half of the peak is delivered at twice the cliff.
    Livelock,
    /// Between half and nine tenths.
    Falls,
    /// Nine tenths or more.
    Flat,
}

/// The verdict as a sentence and, if less is delivered past the cliff, the CPU split that shows why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Livelock {
    /// Behaviour past the cliff, by the rate delivered at twice the cliff.
    pub verdict: Verdict,
    /// The sentence.
    pub text: String,
    /// Shares of the CPU's time at the cliff and at twice the cliff. `None` if they were not measured or computed.
    pub why: Option<String>,
}

/// The behaviour at twice the cliff, by the first of these that exists: the sweep's trials, the trial that accounts for
/// each packet, the simulation, the model; all but the first are named. `None` if none of them has a load that high.
pub fn livelock(finding: &Finding) -> Option<Livelock> {
    let shares = delivered_at_twice(finding);
    let of =
        |engine: EngineKind| shares.get(engine).filter(|figure| figure.value.is_finite()).map(|figure| figure.value);
    let (engine, value, by) = of(EngineKind::Wire)
        .map(|value| (EngineKind::Wire, value, measured_by(finding)))
        .or_else(|| Some((EngineKind::Sim, of(EngineKind::Sim)?, " (simulated, not measured)".to_owned())))
        .or_else(|| Some((EngineKind::Model, of(EngineKind::Model)?, " (predicted, not measured)".to_owned())))?;
    let share = format::share(value);
    let verdict = match value {
        value if value < LIVELOCK_BELOW => Verdict::Livelock,
        value if value < FLAT_FROM => Verdict::Falls,
        _ => Verdict::Flat,
    };
    let text = match verdict {
        Verdict::Livelock => format!("Receive livelock: at twice the cliff {share} of the peak is delivered{by}."),
        Verdict::Falls => format!("Throughput falls past the cliff, to {share} of the peak at twice the cliff{by}."),
        Verdict::Flat => format!("No livelock: at twice the cliff {share} of the peak is delivered{by}."),
    };
    let why = (verdict != Verdict::Flat).then(|| why(finding, engine)).flatten();
    Some(Livelock { verdict, text, why })
}

/// Share of the peak that is delivered at twice the cliff. Results of earlier versions lack the share of the trial that
/// accounts for each packet; it is computed here.
pub fn delivered_at_twice(finding: &Finding) -> ByEngine<Figure> {
    let wire = finding.livelock.wire.or_else(|| finding.delivered_in_ledger());
    ByEngine { wire, ..finding.livelock.clone() }
}

/// The trial in which the measured share was delivered, in parentheses. Empty if it is one of the sweep's trials.
fn measured_by(finding: &Finding) -> String {
    if finding.livelock.wire.is_some() && !finding.livelock_by_ledger {
        return String::new();
    }
    let tracing_ns = finding.ledger.as_ref().and_then(|trial| trial.ledger.tracing_ns);
    let slowed = tracing_ns.map_or(String::new(), |ns| format!(", which takes {ns} ns a drop"));
    format!(" (measured in the trial that accounts for each packet{slowed})")
}

/// Sentence on the CPU split: `CPU at twice the cliff: protocol 95.1 % (63.0 % at the cliff), application 2.10 % (30.0
/// %), ...`
fn why(finding: &Finding, engine: EngineKind) -> Option<String> {
    let twice = finding.cpu_at_twice.get(engine)?;
    let cliff = finding.cpu_at_cliff.get(engine);
    let mut parts: Vec<String> = CPU_PARTS
        .iter()
        .filter_map(|(name, part)| part(twice).map(|figure| shift(name, figure, cliff.and_then(part))))
        .collect();
    let rest = |cpu: &CpuShares| cpu.rest().map(Figure::exact);
    if let Some(other) = rest(twice).filter(|other| other.value >= CpuShares::LEAST_PRINTED) {
        parts.push(shift("other work", other, cliff.and_then(rest)));
    }
    let kernel = Some([part_sum(twice), part_sum(cliff?)]).filter(|[twice, cliff]| twice > cliff);
    let starved = application(twice).zip(cliff.and_then(application)).is_some_and(|(twice, cliff)| twice < cliff);
    let cause = match (kernel, starved) {
        (Some(_), true) => " Work on packets that are dropped later takes the CPU from the application.",
        _ => "",
    };
    (!parts.is_empty()).then(|| format!("CPU at twice the cliff (at the cliff): {}.{cause}", parts.join(", ")))
}

fn shift(name: &str, twice: Figure, cliff: Option<Figure>) -> String {
    let share = |figure: Figure| format!("{:.0} %", 100.0 * figure.value);
    match cliff {
        Some(cliff) => format!("{name} {} ({})", share(twice), share(cliff)),
        None => format!("{name} {}", share(twice)),
    }
}

/// Share of the kernel's packet work: interrupt, poll and protocol.
fn part_sum(cpu: &CpuShares) -> f64 {
    [cpu.interrupt, cpu.poll, cpu.protocol].into_iter().flatten().map(|figure| figure.value).sum()
}

fn application(cpu: &CpuShares) -> Option<f64> {
    cpu.application.map(|figure| figure.value)
}
