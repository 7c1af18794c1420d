//! Latency over offered load, on a logarithmic scale: it grows a hundredfold at the cliff.

use netcliff_core::{EngineKind, Figure, Finding, Latency};
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Chart, Drawn, GREY, HEAD, Ruler, px};
use super::curve::{Dot, XAxis, colour, curve, decades};
use super::delivered::{draw_engines, engines_legend, mark_cliff};
use crate::drawing::whole;
use crate::format::{self, Unit};
use crate::sheet;

/// Median (heavy) and 99th percentile (light) of each engine.
pub fn latency(finding: &Finding) -> String {
    let words = format!("Median and 99th percentile. {}", super::cliffs_in_words(finding));
    let origin = super::origin(finding);
    let caption = Caption { title: "Latency: median and 99th percentile", origin: &origin, words: &words };
    canvas::document(&caption, canvas::HEIGHT, |area| draw(area, finding))
}

type Curves = [(EngineKind, Vec<Dot>); 3];

fn curves(finding: &Finding, x: &XAxis, pick: fn(&Latency) -> Option<Figure>) -> Curves {
    sheet::ENGINES.map(|engine| {
        let mut dots = curve(finding, engine, x, |outcome| outcome.latency_s.as_ref().and_then(pick));
        dots.retain(|dot| dot.y > 0.0);
        (engine, dots)
    })
}

fn draw(area: &Area<'_>, finding: &Finding) -> Drawn {
    let x = XAxis::of(finding, 10);
    let (medians, tails) = (curves(finding, &x, |l| l.p50), curves(finding, &x, |l| l.p99));
    canvas::legend(area, 16.0, 62.0, &engines_legend(if medians[0].1.is_empty() { &tails } else { &medians }))?;
    let both = || medians.iter().chain(&tails).flat_map(|(_, dots)| dots);
    let range = decades(both());
    let (low, high) = range.unwrap_or((-6.0, -3.0));
    let written = |power: f64| whole(&format::quantity(10f64.powf(power), Unit::Seconds));
    let y = Ruler { name: "latency", low, high, ticks: (high - low) as usize + 1, written: &written };
    let plot = area.margin(px(f64::from(HEAD)), px(6.0), 0, 0);
    let mut chart = canvas::axes(&plot, (8.0, 24.0), &x, &y)?;
    if range.is_none() {
        return canvas::nothing(&plot, "no latency measured");
    }
    mark_cliff(area, &mut chart, finding, &x, high)?;
    let logarithmic = |curves: Curves| curves.map(|(engine, dots)| (engine, on_log_scale(dots, low)));
    let (medians, tails) = (logarithmic(medians), logarithmic(tails));
    draw_light(&mut chart, &tails)?;
    draw_engines(&mut chart, &medians)?;
    name_curve(area, &chart, &tails, "p99")?;
    name_curve(area, &chart, &medians, "p50")
}

/// Powers of ten; an interval that reaches zero or below ends at the axis.
pub fn on_log_scale(dots: Vec<Dot>, floor: f64) -> Vec<Dot> {
    let power = |value: f64| if value > 0.0 { value.log10().max(floor) } else { floor };
    dots.into_iter().map(|dot| dot.mapped(power)).collect()
}

fn draw_light(chart: &mut Chart<'_, '_>, curves: &Curves) -> Drawn {
    for (engine, dots) in curves.iter().filter(|(_, dots)| !dots.is_empty()) {
        match engine {
            EngineKind::Model => canvas::dashes(chart, dots, &colour(*engine), 1.2)?,
            EngineKind::Sim => {
                canvas::band(chart, dots, &colour(*engine))?;
                canvas::line(chart, dots, &colour(*engine), 1.2)?;
            }
            EngineKind::Wire => canvas::points(chart, dots, &colour(*engine), 2.4)?,
        }
    }
    Ok(())
}

/// The quantile's name over the left end of its curves.
fn name_curve(area: &Area<'_>, chart: &Chart<'_, '_>, curves: &Curves, name: &str) -> Drawn {
    let first = curves.iter().filter_map(|(_, dots)| dots.first()).min_by(|a, b| a.x.total_cmp(&b.x));
    let Some(dot) = first else { return Ok(()) };
    let top = curves.iter().filter_map(|(_, dots)| dots.first()).map(|dot| dot.high).fold(dot.high, f64::max);
    let (x, y) = chart.backend_coord(&(dot.x, top));
    let scale = f64::from(px(1.0));
    canvas::label(area, (f64::from(x) / scale, f64::from(y) / scale - 20.0), 12.5, &GREY, HPos::Left, true, name)
}
