//! Offered against delivered load in characters.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{EngineKind, Finding};

use super::Style;
use crate::format::{self, Unit};
use crate::sheet;

/// Cells of the plot, axes not counted.
const COLUMNS: usize = 60;
const ROWS: usize = 12;

/// The plot with its axes and legend, or nothing where the sweep holds no throughput. Measurements are drawn over
/// simulation, simulation over the model. Fits 80 columns; on less than that there is no plot.
pub fn delivered(finding: &Finding, style: Style) -> String {
    let points: Vec<(EngineKind, f64, f64)> = finding.sweep.iter().filter_map(coordinates).collect();
    let max = |pick: fn(&(EngineKind, f64, f64)) -> f64| points.iter().map(pick).fold(0.0, f64::max);
    let (max_x, max_y) = (max(|p| p.1), max(|p| p.2));
    if max_x <= 0.0 || max_y <= 0.0 || style.width < COLUMNS + 16 {
        return String::new();
    }
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    for engine in sheet::ENGINES {
        for (_, x, y) in points.iter().filter(|(owner, ..)| *owner == engine) {
            let column = (x / max_x * (COLUMNS - 1) as f64).round() as usize;
            let row = (y / max_y * (ROWS - 1) as f64).round() as usize;
            cells[ROWS - 1 - row][column] = glyph(engine, style);
        }
    }
    framed(&cells, max_x, max_y, &legend(finding, style), style)
}

/// (engine, offered, delivered) (pps), None without a throughput that can be drawn.
fn coordinates(point: &SweepPoint) -> Option<(EngineKind, f64, f64)> {
    let offered = point.outcome.offered_pps.map_or(point.load_pps, |figure| figure.value);
    let delivered = point.outcome.throughput_pps?.value;
    let drawable = offered.is_finite() && delivered.is_finite() && offered >= 0.0 && delivered >= 0.0;
    drawable.then_some((point.engine, offered, delivered))
}

fn glyph(engine: EngineKind, style: Style) -> char {
    match (engine, style.unicode) {
        (EngineKind::Model, true) => '·',
        (EngineKind::Sim, true) => '○',
        (EngineKind::Wire, true) => '●',
        (EngineKind::Model, false) => '.',
        (EngineKind::Sim, false) => 'o',
        (EngineKind::Wire, false) => '#',
    }
}

fn legend(finding: &Finding, style: Style) -> String {
    let drawn = |engine| finding.sweep.iter().filter_map(coordinates).any(|(owner, ..)| owner == engine);
    let entries = sheet::ENGINES.into_iter().filter(|engine| drawn(*engine));
    entries.map(|engine| format!("{} {}", glyph(engine, style), sheet::column(engine))).collect::<Vec<_>>().join("   ")
}

fn framed(cells: &[Vec<char>], max_x: f64, max_y: f64, legend: &str, style: Style) -> String {
    let (wall, corner, floor) = if style.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
    let mut lines = vec![format!("  delivered      {legend}")];
    for (index, row) in cells.iter().enumerate() {
        let label = if index == 0 { format::quantity(max_y, Unit::Pps) } else { String::new() };
        lines.push(format!("  {label:>10} {wall}{}", row.iter().collect::<String>()));
    }
    lines.push(format!("  {:>10} {corner}{}", "0", floor.repeat(COLUMNS)));
    let end = format::quantity(max_x, Unit::Pps);
    lines.push(format!("  {:>10}  0{:^w$}{end}", "", "offered", w = COLUMNS - 1 - end.len()));
    lines.join("\n")
}
