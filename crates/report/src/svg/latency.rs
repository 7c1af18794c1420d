//! Latency over offered load, on a logarithmic scale: it grows a hundredfold at the cliff.

use netcliff_core::{Figure, Finding, Latency};

use super::finding::{self, Curves};
use crate::format::Unit;
use crate::plot::{Dot, Plot, Scale};
use crate::sheet;

/// Median and 99th percentile of each engine.
pub fn latency(finding: &Finding) -> String {
    plot(finding).document()
}

fn curves(finding: &Finding, pick: fn(&Latency) -> Option<Figure>) -> Curves {
    let dots = |engine| {
        let mut dots = finding::dots(finding, engine, |outcome| outcome.latency_s.as_ref().and_then(pick));
        dots.retain(|dot| dot.y > 0.0);
        (engine, dots)
    };
    sheet::ENGINES.into_iter().map(dots).collect()
}

pub(crate) fn plot(finding: &Finding) -> Plot {
    let (medians, tails) = (curves(finding, |l| l.p50), curves(finding, |l| l.p99));
    let (low, high) = decades(medians.iter().chain(&tails).flat_map(|(_, dots)| dots)).unwrap_or((-6.0, -3.0));
    let y = Scale::log("latency", Unit::Seconds, low, high);
    let mut plot = finding::plot(finding, "latency", "Latency: median and 99th percentile", y);
    plot.words = format!("Median and 99th percentile. {}", plot.words);
    finding::add(&mut plot, medians, "p50", false);
    finding::add(&mut plot, tails, "p99", true);
    plot.empty = "no latency measured".to_owned();
    plot
}

/// Whole decades that hold all of `dots`, as powers of ten; None if nothing is positive.
pub(super) fn decades<'a>(dots: impl Iterator<Item = &'a Dot>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in dots.map(|dot| dot.y).filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    (low.is_finite() && high.is_finite()).then_some((low, high.max(low + 1.0)))
}
