//! A finding as pictures: [`delivered`], [`latency`], [`cpu`], [`loss`] over the offered load.
//!
//! Each is one SVG document with its own light background, so that it reads the same on a dark page. Engines differ
//! in colour (safe for colour-blind eyes) and in form: model dashed, simulation drawn through with its interval as a
//! band, measurements as points with error bars.

pub(crate) mod canvas;
mod cpu;
mod curve;
mod delivered;
pub(crate) mod experiment;
mod latency;
mod loss;
mod pauses;

use netcliff_core::{EngineKind, Finding};

use crate::format::{self, Unit};
use crate::sheet;

pub use cpu::cpu;
pub use delivered::delivered;
pub use experiment::experiment;
pub use latency::latency;
pub use loss::loss;
pub use pauses::pauses;

/// The cliffs of a finding in words, for people who cannot see the picture.
fn cliffs_in_words(finding: &Finding) -> String {
    let cliffs: Vec<String> = finding
        .cliff_pps
        .present()
        .filter(|(_, figure)| figure.value.is_finite())
        .map(|(engine, figure)| format!("{} {}", sheet::column(engine), format::figure(figure, Unit::Pps)))
        .collect();
    if cliffs.is_empty() { "No cliff was found.".to_owned() } else { format!("The cliff: {}.", cliffs.join(", ")) }
}

/// The cliff that is marked in every picture: measured, or else simulated, or else predicted (pps).
fn marked_cliff(finding: &Finding) -> Option<(EngineKind, f64)> {
    let order = [EngineKind::Wire, EngineKind::Sim, EngineKind::Model];
    order
        .into_iter()
        .find_map(|engine| finding.cliff_pps.get(engine).map(|figure| (engine, figure.value)))
        .filter(|(_, pps)| pps.is_finite() && *pps > 0.0)
}

/// Host and kernel under a picture's title, so that it says where it is from when it stands alone.
fn origin(finding: &Finding) -> String {
    let host = &finding.host;
    let frames = format!("{} frames", finding.setup.traffic.size);
    let known = [&host.cpu, &host.kernel, &host.driver, &frames].into_iter().filter(|fact| !fact.is_empty());
    let text = format::printable(&known.cloned().collect::<Vec<_>>().join(" · "));
    let cut = text.char_indices().nth(128).map_or(text.len(), |(place, _)| place);
    if cut < text.len() { format!("{}…", &text[..cut]) } else { text }
}
