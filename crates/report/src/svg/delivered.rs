//! Offered load against delivered load: the picture of the whole house.

use netcliff_core::{EngineKind, Finding};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Chart, Drawn, GREY, HEAD, INK, Mark, Ruler, px};
use super::curve::{Dot, XAxis, colour, curve};
use crate::format::{self, Unit};
use crate::sheet;

/// Model, simulation and measurement in one plot, with the diagonal of a host that loses nothing and the cliffs.
pub fn delivered(finding: &Finding) -> String {
    let words = super::cliffs_in_words(finding);
    let origin = super::origin(finding);
    let caption = Caption { title: "Delivered load against offered load", origin: &origin, words: &words };
    canvas::document(&caption, canvas::HEIGHT, |area| draw(area, finding))
}

fn draw(area: &Area<'_>, finding: &Finding) -> Drawn {
    let x = XAxis::of(finding, 10);
    let curves = sheet::ENGINES
        .map(|engine| (engine, curve(finding, engine, &x, |o| o.throughput_pps.map(|f| f.scaled(1.0 / x.unit_pps)))));
    let mut entries = engines_legend(&curves);
    entries.push((Mark::Hairline, GREY, "nothing lost"));
    canvas::legend(area, 16.0, 62.0, &entries)?;
    let highest = curves.iter().flat_map(|(_, dots)| dots).map(|dot| dot.high).fold(0.0, f64::max);
    let high = if highest > 0.0 { 1.12 * highest } else { x.max };
    let name = format!("delivered load [{}]", x.unit);
    let y = Ruler { name: &name, low: 0.0, high, ticks: 8, written: &canvas::plain };
    let plot = area.margin(px(f64::from(HEAD)), px(6.0), 0, 0);
    let mut chart = canvas::axes(&plot, (8.0, 24.0), &x, &y)?;
    if curves.iter().all(|(_, dots)| dots.is_empty()) {
        return canvas::nothing(&plot, "no throughput measured");
    }
    let corner = x.max.min(high);
    canvas::hairline(&mut chart, (0.0, 0.0), (corner, corner), &GREY)?;
    mark_cliff(area, &mut chart, finding, &x, high)?;
    draw_engines(&mut chart, &curves)
}

/// Legend entries of the engines that have a curve.
pub fn engines_legend<'a>(curves: &[(EngineKind, Vec<Dot>)]) -> Vec<(Mark, RGBColor, &'a str)> {
    let drawn = curves.iter().filter(|(_, dots)| !dots.is_empty());
    let mut entries: Vec<_> = drawn
        .map(|(engine, _)| match engine {
            EngineKind::Model => (Mark::Dashes, colour(*engine), "model"),
            EngineKind::Sim => (Mark::LineInBand, colour(*engine), "simulation with interval"),
            EngineKind::Wire => (Mark::Point, colour(*engine), "measured with interval"),
        })
        .collect();
    let measured = curves.iter().filter(|(engine, _)| *engine == EngineKind::Wire).flat_map(|(_, dots)| dots);
    if measured.into_iter().any(|dot| !dot.kept_up) {
        entries.push((Mark::Hollow, colour(EngineKind::Wire), "sender fell behind"));
    }
    entries
}

/// The curves, measurements on top.
pub fn draw_engines(chart: &mut Chart<'_, '_>, curves: &[(EngineKind, Vec<Dot>)]) -> Drawn {
    for (engine, dots) in curves.iter().filter(|(_, dots)| !dots.is_empty()) {
        let colour = colour(*engine);
        match engine {
            EngineKind::Model => canvas::dashes(chart, dots, &colour, 2.2)?,
            EngineKind::Sim => {
                canvas::band(chart, dots, &colour)?;
                canvas::line(chart, dots, &colour, 2.2)?;
            }
            EngineKind::Wire => canvas::points(chart, dots, &colour, 3.6)?,
        }
    }
    Ok(())
}

/// The cliff as a thin upright line, the other engines' cliffs as pointers on the upper edge, and all of them in words
/// above the plot, where no data is.
pub fn mark_cliff(area: &Area<'_>, chart: &mut Chart<'_, '_>, finding: &Finding, x: &XAxis, high: f64) -> Drawn {
    let Some((marked, cliff_pps)) = super::marked_cliff(finding) else { return Ok(()) };
    let at = cliff_pps / x.unit_pps;
    let low = chart.y_range().start;
    canvas::hairline(chart, (at, low), (at, high), &colour(marked))?;
    let mut others = Vec::new();
    for (engine, figure) in finding.cliff_pps.present() {
        let place = figure.value / x.unit_pps;
        if engine != marked && place > 0.0 && place <= x.max {
            canvas::pointer(area, chart, (place, high), &colour(engine))?;
            others.push(format!("{} {}", sheet::column(engine), format::quantity(figure.value, Unit::Pps)));
        }
    }
    let figure = finding.cliff_pps.get(marked).map_or(String::new(), |figure| format::figure(figure, Unit::Pps));
    let mut words = vec![format!("cliff: {} {figure}", sheet::column(marked))];
    words.extend(others);
    let (pixels, text) = (f64::from(chart.backend_coord(&(at, high)).0) / f64::from(px(1.0)), words.join(", "));
    // Near an edge the text moves away from it, and no longer stands in the middle over the line.
    let half = 3.4 * text.chars().count() as f64;
    let centre = pixels.clamp(16.0 + half, f64::from(canvas::WIDTH) - 16.0 - half);
    canvas::label(area, (centre, f64::from(HEAD) - 19.0), 12.5, &INK, HPos::Center, true, &text)
}
