//! The CPU split over offered load: stacked areas, a panel an engine.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{CpuShares, EngineKind, Finding};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Drawn, GREY, INK, Mark, Ruler, px};
use super::curve::{XAxis, offered_pps};
use crate::sheet::{self, CPU_PARTS};

/// Colours of [`CPU_PARTS`] in their order (Okabe and Ito's; what is left is grey).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe3, 0xe3, 0xe3),
];

/// Interrupt, poll, protocol, application and available CPU of each engine, side by side.
pub fn cpu(finding: &Finding) -> String {
    let words = format!("A panel each for model, simulation and measurement. {}", super::cliffs_in_words(finding));
    let origin = super::origin(finding);
    let caption = Caption { title: "Where the CPU's time goes", origin: &origin, words: &words };
    canvas::document(&caption, canvas::HEIGHT, |area| draw(area, finding))
}

fn draw(area: &Area<'_>, finding: &Finding) -> Drawn {
    let entries: Vec<_> = CPU_PARTS.iter().zip(COLOURS).map(|((name, _), colour)| (Mark::Box, colour, *name)).collect();
    canvas::legend(area, 8.0, 62.0, &entries)?;
    let body = area.margin(px(84.0), px(6.0), px(8.0), px(10.0));
    // The first panel also holds the axis of all three.
    let columns = body.split_by_breakpoints([px(282.0), px(532.0)], [] as [i32; 0]);
    for (engine, panel) in sheet::ENGINES.into_iter().zip(&columns) {
        draw_panel(panel, finding, engine)?;
    }
    Ok(())
}

/// Loads with the shares there; a point without any share is left out.
fn splits(finding: &Finding, engine: EngineKind, x: &XAxis) -> Vec<(f64, CpuShares)> {
    let split = |point: &SweepPoint| {
        let cpu = point.outcome.cpu?;
        let any = CPU_PARTS.iter().any(|(_, part)| part(&cpu).is_some_and(|figure| figure.value.is_finite()));
        let load = offered_pps(point) / x.unit_pps;
        (any && load.is_finite()).then_some((load, cpu))
    };
    let mut splits: Vec<_> = finding.curve(engine).into_iter().filter_map(split).collect();
    splits.sort_by(|a, b| a.0.total_cmp(&b.0));
    splits
}

fn draw_panel(panel: &Area<'_>, finding: &Finding, engine: EngineKind) -> Drawn {
    let x = XAxis::of(finding, 5);
    let name = if engine == EngineKind::Model { "share of one CPU" } else { "" };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let y = Ruler { name, low: 0.0, high: 1.0, ticks: 6, written: &percent };
    let (width, _) = panel.dim_in_pixel();
    let axis = if name.is_empty() { 42.0 } else { 72.0 };
    let middle = (f64::from(width) / f64::from(px(1.0)) + axis - 8.0) / 2.0;
    let plot = panel.margin(px(20.0), 0, 0, 0);
    let mut chart = canvas::axes(&plot, (4.0, 10.0), &x, &y)?;
    canvas::label(panel, (middle, 2.0), 13.0, &INK, HPos::Center, true, sheet::column(engine))?;
    let splits = splits(finding, engine, &x);
    if splits.is_empty() {
        return canvas::nothing(&plot, "not measured");
    }
    let mut bottoms = vec![0.0; splits.len()];
    for ((_, part), colour) in CPU_PARTS.iter().zip(COLOURS) {
        let mut edges = Vec::new();
        for ((load, cpu), bottom) in splits.iter().zip(&mut bottoms) {
            let share = part(cpu).map_or(0.0, |figure| figure.value).max(0.0);
            let top = (*bottom + share).min(1.0);
            edges.push((*load, *bottom, top));
            *bottom = top;
        }
        canvas::area(&mut chart, &edges, &colour)?;
    }
    if let Some((_, cliff_pps)) = super::marked_cliff(finding) {
        let at = cliff_pps / x.unit_pps;
        canvas::hairline(&mut chart, (at, 0.0), (at, 1.0), &INK)?;
    }
    let lacking: Vec<&str> = CPU_PARTS
        .iter()
        .filter(|(_, part)| splits.iter().all(|(_, cpu)| part(cpu).is_none()))
        .map(|(name, _)| *name)
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let (_, height) = panel.dim_in_pixel();
    let below = f64::from(height) / f64::from(px(1.0)) - 13.0;
    canvas::label(
        panel,
        (middle, below),
        11.0,
        &GREY,
        HPos::Center,
        false,
        &format!("not measured: {}", lacking.join(", ")),
    )
}
