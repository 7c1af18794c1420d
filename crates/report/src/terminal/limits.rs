//! [`limits`]: what `netcliff limits` prints.

use netcliff_core::Offload;
use netcliff_core::roofline::{RoofRow, Roofline};

use super::Style;
use super::chart::{chart, letter};
use super::page::{Page, Tone};
use crate::drawing::Drawing;
use crate::format::{self, Unit};

/// Parts with a column of their own; of the CPU's items the sum is shown, JSON and CSV have each.
const COLUMNS: [&str; 4] = ["link", "bus", "memory", "CPU"];
/// Fact of the measured load beside the bounds.
const MEASURED_CLIFF: &str = "measured cliff";
/// Width of a column; a row then has 80.
const CELL: usize = 10;

/// The page with everything: the answer, what is known of the host, a table without offloads and one with them, what is not known,
/// the plot.
pub fn limits(roofline: &Roofline, drawing: &Drawing, style: Style) -> String {
    let mut page = begun(roofline, drawing, style);
    page.block(&chart(drawing, page.style()));
    let names: Vec<String> =
        drawing.names().iter().enumerate().map(|(place, name)| format!("{} {name}", letter(place))).collect();
    page.paragraph(2, Tone::Faint, &names.join(", "));
    page.finish()
}

/// The same without the plot.
pub fn limits_brief(roofline: &Roofline, drawing: &Drawing, style: Style) -> String {
    let mut page = begun(roofline, drawing, style);
    page.paragraph(0, Tone::Faint, "-v draws the bounds; --html and --svg write the figure.");
    page.finish()
}

fn begun(roofline: &Roofline, drawing: &Drawing, style: Style) -> Page {
    let mut page = Page::new(style);
    page.paragraph(0, Tone::Strong, &answer(roofline, drawing));
    for (name, fact) in &drawing.asked {
        page.fact(name, fact);
    }
    table(&mut page, roofline, &[], "BOUNDS BY FRAME SIZE, WITHOUT OFFLOADS");
    let offloads = roofline.offloads().to_vec();
    if !offloads.is_empty() {
        let names: Vec<&str> = offloads.iter().map(|offload| offload.name()).collect();
        table(&mut page, roofline, &offloads, &format!("WITH {}", names.join(", ").to_uppercase()));
    }
    if !roofline.unknown.is_empty() {
        page.heading("NOT KNOWN, SO NOT A BOUND");
        roofline.unknown.iter().for_each(|what| page.item("- ", what));
    }
    page
}

/// What bounds the smallest and the largest frames, beside what was measured: `At most 812 kpps of 64B frames (bound by packet CPU) and
/// 10 Gbit/s of 9018B (link); measured cliff: 442 kpps ...`. Bounds have no interval: they are formulas of the costs below.
fn answer(roofline: &Roofline, drawing: &Drawing) -> String {
    let offloads = roofline.offloads();
    let rows = || roofline.rows.iter().filter(|row| row.offloads == offloads && row.pps.is_some());
    let by_size = |a: &&RoofRow, b: &&RoofRow| a.frame_bytes.total_cmp(&b.frame_bytes);
    let bound = |row: &RoofRow, unit: Unit, value: Option<f64>| {
        let size = format::quantity(row.frame_bytes, Unit::Bytes).replace(' ', "");
        let value = value.map_or("-".to_owned(), |value| format::quantity(value, unit));
        format!("{value} of {size} frames (bound by {})", row.binding.as_deref().unwrap_or("-"))
    };
    let (Some(small), Some(large)) = (rows().min_by(by_size), rows().max_by(by_size)) else {
        return "No bound: nothing of this host is known.".to_owned();
    };
    let mut told = bound(small, Unit::Pps, small.pps);
    if small.frame_bytes < large.frame_bytes {
        told = format!("{told}, {}", bound(large, Unit::Bps, large.bps));
    }
    let measured = drawing.asked.iter().find(|(name, _)| name == MEASURED_CLIFF);
    let measured = measured.map_or(String::new(), |(_, cliff)| format!("; {MEASURED_CLIFF}: {cliff}"));
    let with = if offloads.is_empty() { "" } else { " with these offloads" };
    format!("At most{with} {told}{measured}. Upper bounds by formula, without interval.")
}

fn table(page: &mut Page, roofline: &Roofline, offloads: &[Offload], heading: &str) {
    page.heading(heading);
    let known: Vec<&str> = COLUMNS.into_iter().filter(|part| roofline.parts().contains(part)).collect();
    let head: String = known.iter().map(|part| format!("{part:>CELL$}")).collect();
    let mut lines = vec![format!("  {:<5}{:>CELL$}{:>12} {:<10}{head}", "frame", "packets", "frame bits", "binds")];
    for row in roofline.rows.iter().filter(|row| row.offloads == offloads) {
        let cells: String = known.iter().map(|part| format!("{:>CELL$}", rate(row, part))).collect();
        lines.push(format!(
            "  {:<5}{:>CELL$}{:>12} {:<10}{cells}",
            format::quantity(row.frame_bytes, Unit::Bytes).replace(' ', ""),
            row.pps.map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps)),
            row.bps.map_or("-".to_owned(), |bps| format::quantity(bps, Unit::Bps)),
            row.binding.as_deref().unwrap_or("-"),
        ));
    }
    page.block(&lines.join("\n"));
}

fn rate(row: &RoofRow, part: &str) -> String {
    row.bounds_pps.get(part).map_or("-".to_owned(), |pps| format::quantity(*pps, Unit::Pps))
}
