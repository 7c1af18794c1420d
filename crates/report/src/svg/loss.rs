//! Loss over offered load, on a logarithmic scale down to "no loss seen".

use netcliff_core::Finding;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Drawn, GREY, HEAD, Ruler, px};
use super::curve::{Dot, XAxis, curve, decades};
use super::delivered::{draw_engines, engines_legend, mark_cliff};
use super::latency::on_log_scale;
use crate::format;
use crate::sheet;

/// Model and simulation can go far below what any measurement resolves: the axis ends here.
const LOWEST_POWER: f64 = -8.0;

/// Loss fraction of each engine, with the loss that defines the cliff. Points without loss stand on the axis, at 0.
pub fn loss(finding: &Finding) -> String {
    let target = format::loss(finding.loss_target);
    let words = format!("The loss allowed at the cliff is {target}. {}", super::cliffs_in_words(finding));
    let origin = super::origin(finding);
    let caption = Caption { title: "Share of the offered packets that is lost", origin: &origin, words: &words };
    canvas::document(&caption, canvas::HEIGHT, |area| draw(area, finding))
}

fn draw(area: &Area<'_>, finding: &Finding) -> Drawn {
    let x = XAxis::of(finding, 10);
    let curves = sheet::ENGINES.map(|engine| (engine, curve(finding, engine, &x, |outcome| outcome.loss_fraction)));
    canvas::legend(area, 16.0, 62.0, &engines_legend(&curves))?;
    let target = finding.loss_target;
    let seen = decades(curves.iter().flat_map(|(_, dots)| dots)).map_or(0.0, |(low, _)| low);
    // One decade below what is shown is the place of "none".
    let floor = seen.min(target.log10().floor()).max(LOWEST_POWER) - 1.0;
    let floor = if floor.is_finite() { floor } else { LOWEST_POWER };
    let written = |power: f64| if power <= floor + 1e-9 { "0".to_owned() } else { format::loss(10f64.powf(power)) };
    let y = Ruler { name: "lost", low: floor, high: 0.0, ticks: (-floor) as usize + 1, written: &written };
    let plot = area.margin(px(f64::from(HEAD)), px(6.0), 0, 0);
    let mut chart = canvas::axes(&plot, (8.0, 24.0), &x, &y)?;
    if curves.iter().all(|(_, dots)| dots.is_empty()) {
        return canvas::nothing(&plot, "no loss measured");
    }
    mark_cliff(area, &mut chart, finding, &x, 0.0)?;
    if target > 0.0 {
        canvas::hairline(&mut chart, (0.0, target.log10()), (x.max, target.log10()), &GREY)?;
        let (right, height) = chart.backend_coord(&(x.max, target.log10()));
        let at = (f64::from(right) / f64::from(px(1.0)) - 4.0, f64::from(height) / f64::from(px(1.0)) - 17.0);
        let text = format!("allowed at the cliff: {}", format::loss(target));
        canvas::label(area, at, 12.0, &GREY, HPos::Right, false, &text)?;
    }
    // An interval may reach past all of the packets; the axis does not.
    let all = |dots: Vec<Dot>| dots.into_iter().map(|dot| dot.mapped(|power| power.min(0.0))).collect();
    draw_engines(&mut chart, &curves.map(|(engine, dots)| (engine, all(on_log_scale(dots, floor)))))
}
