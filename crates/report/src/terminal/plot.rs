//! Offered against delivered load in characters.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{EngineKind, Finding};

use super::{Style, chart};
use crate::format::{self, Unit};
use crate::plot::Scale;
use crate::sheet;

/// Cells of the plot, axes not counted.
const COLUMNS: usize = 60;
const ROWS: usize = 12;

/// The engines that have a point in a cell, as bits in the order of [`sheet::ENGINES`].
type Cell = u8;

/// The plot with its axes and legend. If a cell has points of several engines, its mark shows the combination.
///
/// Empty if the sweep has no throughput, or if the page is too narrow: it needs 80 columns.
pub fn delivered(finding: &Finding, style: Style) -> String {
    let points: Vec<(EngineKind, f64, f64)> = finding.sweep.iter().filter_map(coordinates).collect();
    let max = |pick: fn(&(EngineKind, f64, f64)) -> f64| points.iter().map(pick).fold(0.0, f64::max);
    let (max_x, max_y) = (max(|p| p.1), max(|p| p.2));
    if max_x <= 0.0 || max_y <= 0.0 || style.width < COLUMNS + 16 {
        return String::new();
    }
    let (along, up) = (Scale::linear("", Unit::Pps, 0.0, max_x), Scale::linear("", Unit::Pps, 0.0, max_y));
    let mut cells: Vec<Vec<Cell>> = vec![vec![0; COLUMNS]; ROWS];
    for (engine, x, y) in points {
        if let Some(cell) = chart::cell(&mut cells, along.place(x).zip(up.place(y))) {
            *cell |= bit(engine);
        }
    }
    let glyphs: Vec<Vec<char>> = cells.iter().map(|row| row.iter().map(|cell| glyph(*cell, style)).collect()).collect();
    framed(&glyphs, max_x, max_y, &legend(&cells, style), style)
}

/// (engine, offered, delivered) (pps). `None` if there is no throughput that can be drawn.
fn coordinates(point: &SweepPoint) -> Option<(EngineKind, f64, f64)> {
    let offered = point.outcome.offered_pps.map_or(point.load_pps, |figure| figure.value);
    let delivered = point.outcome.throughput_pps?.value;
    let drawable = offered.is_finite() && delivered.is_finite() && offered >= 0.0 && delivered >= 0.0;
    drawable.then_some((point.engine, offered, delivered))
}

const MODEL: Cell = 1;
const SIM: Cell = 2;
const MEASURED: Cell = 4;

fn bit(engine: EngineKind) -> Cell {
    match engine {
        EngineKind::Model => MODEL,
        EngineKind::Sim => SIM,
        EngineKind::Wire => MEASURED,
    }
}

/// The mark of a cell: of the measurement, the model or the simulation alone, of model and simulation, or of the
/// measurement with a computed point.
fn glyph(cell: Cell, style: Style) -> char {
    let marks = match cell {
        0 => return ' ',
        MODEL => ['·', '.'],
        SIM => ['○', 'o'],
        MEASURED => ['●', '#'],
        computed if computed & MEASURED == 0 => ['⊙', '8'],
        _ => ['◉', '@'],
    };
    marks[usize::from(!style.unicode)]
}

/// The meaning of each mark in the plot.
fn legend(cells: &[Vec<Cell>], style: Style) -> String {
    let [model, sim, measured] = sheet::ENGINES.map(sheet::column);
    let meanings = [
        (MODEL, model.to_owned()),
        (SIM, sim.to_owned()),
        (MODEL | SIM, format!("{model}+{sim}")),
        (MEASURED, measured.to_owned()),
        (MEASURED | MODEL, format!("{measured}+computed")),
    ];
    let drawn = |mark: char| cells.iter().flatten().any(|cell| glyph(*cell, style) == mark);
    let entries = meanings.into_iter().map(|(cell, name)| (glyph(cell, style), name)).filter(|(mark, _)| drawn(*mark));
    entries.map(|(mark, name)| format!("{mark} {name}")).collect::<Vec<_>>().join("  ")
}

fn framed(cells: &[Vec<char>], max_x: f64, max_y: f64, legend: &str, style: Style) -> String {
    let mut lines = vec![format!("  delivered  {legend}")];
    lines.extend(chart::walled(cells, [&format::quantity(max_y, Unit::Pps), "", "0"], 10, style));
    let end = format::quantity(max_x, Unit::Pps);
    lines.push(format!("  {:>10}  0{:^w$}{end}", "", "offered", w = COLUMNS - 1 - end.len()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_engines_in_a_cell_shows_what_is_measured_and_hides_nothing() {
        for style in [Style::default(), Style { unicode: false, ..Style::default() }] {
            let of = |cell| glyph(cell, style);
            let alone = [of(MODEL), of(SIM), of(MEASURED)];
            for cell in [MODEL | SIM, MODEL | MEASURED, SIM | MEASURED, MODEL | SIM | MEASURED] {
                assert!(!alone.contains(&of(cell)) && of(cell) != ' ', "{cell}");
            }
            assert_ne!(of(MODEL | SIM), of(MODEL | MEASURED));
        }
        let cells = vec![vec![0, MODEL, MODEL | SIM], vec![SIM | MEASURED, MEASURED, 0]];
        let style = Style { unicode: false, ..Style::default() };
        assert_eq!(legend(&cells, style), ". model  8 model+sim  # measured  @ measured+computed");
    }
}
