//! Loss over offered load, on a logarithmic axis with a place for zero below a break.

use netcliff_core::Finding;

use super::finding::{self, Curves};
use super::latency::decades;
use crate::format::{self, Unit};
use crate::plot::{Dot, Plot, Scale};
use crate::sheet;

/// Model and simulation can go far below what any measurement resolves: the axis ends here.
const LOWEST_POWER: f64 = -8.0;

/// Loss fraction of each engine, with the loss that defines the cliff. Points without loss stand at 0, below a break.
pub fn loss(finding: &Finding) -> String {
    plot(finding).document()
}

pub(crate) fn plot(finding: &Finding) -> Plot {
    // An interval may reach past all of the packets; a share does not.
    let capped = |dot: Dot| Dot { y: dot.y.min(1.0), high: dot.high.min(1.0), ..dot };
    let curves: Curves = sheet::ENGINES
        .into_iter()
        .map(|engine| {
            let dots = finding::dots(finding, engine, |outcome| outcome.loss_fraction);
            (engine, dots.into_iter().map(capped).collect())
        })
        .collect();
    let all = || curves.iter().flat_map(|(_, dots)| dots);
    let target = finding.loss_target;
    let seen = decades(all()).map_or(0.0, |(low, _)| low);
    let allowed = if target > 0.0 { target.log10().floor() } else { -4.0 };
    let floor = seen.min(allowed).clamp(LOWEST_POWER, -1.0);
    let below = all().any(|dot| dot.y > 0.0 && dot.y < 10f64.powf(floor) * (1.0 - 1e-9));
    let y = Scale::log("packets lost, of those offered", Unit::Share, floor, 0.0).with_zero();
    let mut plot = finding::plot(finding, "loss", "Share of the offered packets that is lost", y);
    plot.words = format!("The loss allowed at the cliff is {}. {}", format::loss(target), plot.words);
    finding::add(&mut plot, curves, "", false);
    if target > 0.0 {
        plot.levels.push((target, format!("allowed at the cliff: {}", format::loss(target))));
    }
    if below {
        plot.notes.push(format!("Loss below {} is drawn at 0.", format::loss(10f64.powf(floor))));
    }
    plot.notes.push("A short stroke above a point at 0 is the upper end of its interval.".to_owned());
    plot.empty = "no loss measured".to_owned();
    plot
}
