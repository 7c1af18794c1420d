//! Findings and experiments as pictures: [`delivered`], [`latency`], [`cpu`], [`loss`] over the offered load,
//! [`experiment`], [`effects`].
//!
//! Each is one SVG document with its own light background, so that it reads the same on a dark page, and with a second
//! drawing for narrow screens. Curves differ in colour (safe for colour-blind eyes), dashes and points; engines of a
//! finding in form: model dashed, simulation drawn through with its interval as a band, measurements as points with
//! error bars.

mod cpu;
mod delivered;
mod effects;
pub(crate) mod experiment;
mod finding;
mod latency;
mod loss;
mod pauses;

use netcliff_core::Finding;
use netcliff_lab::transfers::TransferReport;

use crate::plot::{Bars, Plot};

pub use cpu::cpu;
pub use delivered::delivered;
pub use effects::effects;
pub(crate) use effects::is_significant;
pub use experiment::experiment;
pub use latency::latency;
pub use loss::loss;
pub use pauses::pauses;

/// The figures of a finding's page in their order, and the pauses where there were any.
pub(crate) fn of_finding(finding: &Finding) -> (Vec<Plot>, Option<Bars>) {
    let mut plots = vec![delivered::plot(finding), latency::plot(finding), loss::plot(finding)];
    plots.extend(cpu::engines(finding).into_iter().map(|engine| cpu::plot(finding, engine)));
    (plots, pauses::bars(finding))
}

/// The effects of a design as a figure of its page.
pub(crate) fn effects_of(report: &TransferReport) -> Option<Bars> {
    effects::bars(report)
}
