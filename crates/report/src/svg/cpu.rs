//! The CPU split over offered load as stacked areas: one figure for each engine, all with the same axes.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{CpuShares, EngineKind, Finding};

use super::finding::{self, offered_pps};
use crate::format::Unit;
use crate::plot::{Dot, Key, Look, Plot, Scale, Series, Spread};
use crate::sheet::{self, CPU_PARTS};

/// Tones of [`CPU_PARTS`] in their order, the available time the lightest.
const TONES: [usize; 5] = [4, 5, 1, 2, 6];

/// Interrupt, poll, protocol, application and available CPU of one engine.
pub fn cpu(finding: &Finding, engine: EngineKind) -> String {
    plot(finding, engine).document()
}

pub(crate) fn plot(finding: &Finding, engine: EngineKind) -> Plot {
    let who = match engine {
        EngineKind::Wire => "measured",
        EngineKind::Sim => "simulated",
        EngineKind::Model => "by the model",
    };
    let y = Scale::linear("share of one CPU", Unit::Share, 0.0, 1.0);
    let mut plot = finding::plot(finding, &format!("cpu-{}", engine.name()), &format!("CPU time by load, {who}"), y);
    plot.remarks.clear();
    plot.forms.clear();
    plot.pointers.retain(|pointer| pointer.upright);
    let splits = splits(finding, engine);
    let mut bases = vec![0.0; splits.len()];
    for ((name, part), tone) in CPU_PARTS.iter().zip(TONES) {
        let mut dots = Vec::new();
        for ((load_pps, cpu), base) in splits.iter().zip(&mut bases) {
            let Some(figure) = part(cpu).filter(|figure| figure.value.is_finite()) else { continue };
            let share = figure.value.max(0.0);
            let (low, high) = figure.interval.map_or((share, share), |ends| (ends.low, ends.high));
            dots.push(Dot { x: *load_pps, y: share, low, high, base: *base, late: false });
            *base += share;
        }
        if !dots.is_empty() {
            let look = Look { tone, line: None, marker: None, spread: Spread::None, area: true };
            plot.keys.push(Key { name: (*name).to_owned(), look });
            let (key, label) = (plot.keys.len() - 1, Some((*name).to_owned()));
            plot.series.push(Series { key, who: String::new(), label, look, guide: false, dots });
        }
    }
    let missing = |(_, part): &&(&str, fn(&CpuShares) -> Option<_>)| splits.iter().all(|(_, cpu)| part(cpu).is_none());
    let missing: Vec<&str> = CPU_PARTS.iter().filter(missing).map(|(name, _)| *name).collect();
    if !missing.is_empty() && !splits.is_empty() {
        plot.remarks.push(format!("not measured: {}", missing.join(", ")));
    }
    plot
}

/// (load (pps), CPU shares) of each point of the sweep, by load. A point without any share is left out.
fn splits(finding: &Finding, engine: EngineKind) -> Vec<(f64, CpuShares)> {
    let split = |point: &SweepPoint| {
        let cpu = point.outcome.cpu?;
        let any = CPU_PARTS.iter().any(|(_, part)| part(&cpu).is_some_and(|figure| figure.value.is_finite()));
        let load_pps = offered_pps(point);
        (any && load_pps.is_finite()).then_some((load_pps, cpu))
    };
    let mut splits: Vec<_> = finding.curve(engine).into_iter().filter_map(split).collect();
    splits.sort_by(|a, b| a.0.total_cmp(&b.0));
    splits
}

/// The engines that have a split.
pub(crate) fn engines(finding: &Finding) -> Vec<EngineKind> {
    sheet::ENGINES.into_iter().rev().filter(|engine| !splits(finding, *engine).is_empty()).collect()
}
