//! Offered load against delivered load: the main figure.

use netcliff_core::Finding;

use super::finding::{self, Curves};
use crate::format::Unit;
use crate::plot::{Dot, Plot, Scale};
use crate::sheet;

/// Model, simulation and measurement in one plot, with the diagonal of a host that loses nothing and the cliffs.
pub fn delivered(finding: &Finding) -> String {
    plot(finding).document()
}

pub(crate) fn plot(finding: &Finding) -> Plot {
    let curves: Curves = sheet::ENGINES
        .into_iter()
        .map(|engine| (engine, finding::dots(finding, engine, |outcome| outcome.throughput_pps)))
        .collect();
    let highest = curves.iter().flat_map(|(_, dots)| dots).map(|dot| dot.high).fold(0.0, f64::max);
    let across_pps = finding::load(finding).end();
    let up_pps = if highest > 0.0 { 1.08 * highest } else { across_pps };
    let y = Scale::linear("delivered load", Unit::Pps, 0.0, up_pps);
    let mut plot = finding::plot(finding, "delivered", "Delivered load against offered load", y);
    finding::add(&mut plot, curves, "", false);
    let corner = across_pps.min(up_pps);
    finding::guide(&mut plot, "nothing lost", vec![Dot::exact(0.0, 0.0), Dot::exact(corner, corner)]);
    plot.empty = "no throughput measured".to_owned();
    plot
}
