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
/// Width of a column; a row then has 80.
const CELL: usize = 10;

/// The page: what is known of the host, the plot, a table without offloads and one with them, what is not known.
pub fn limits(roofline: &Roofline, drawing: &Drawing, style: Style) -> String {
    let mut page = Page::new(style);
    page.paragraph(0, Tone::Strong, &drawing.title);
    for (name, fact) in &drawing.asked {
        page.fact(name, fact);
    }
    page.block(&chart(drawing, page.style()));
    let names: Vec<String> =
        drawing.names().iter().enumerate().map(|(place, name)| format!("{} {name}", letter(place))).collect();
    page.paragraph(2, Tone::Faint, &names.join(", "));
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
    page.finish()
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
