//! [`limits`]: output of `netcliff limits`.

use netcliff_core::Offload;
use netcliff_core::roofline::{RoofRow, Roofline};

use super::Style;
use super::chart::{chart, letter};
use super::page::{Page, Tone};
use crate::drawing::Drawing;
use crate::format::{self, Unit};

/// Parts that have a column. The CPU's column shows the sum of its items; JSON and CSV contain each item.
const COLUMNS: [&str; 4] = ["link", "bus", "memory", CPU];
const CPU: &str = "CPU";
/// Name of the fact that gives the measured load next to the bounds.
const MEASURED_CLIFF: &str = "measured cliff";
/// The reason why these bounds of long frames are lower than the predicted cliff.
const SUMMED: &str = "Without --offload checksum these bounds include the CPU time of checksums; the prediction of `netcliff predict` does not.";
/// Width of a column (characters), with which a row has 80.
const CELL: usize = 10;

/// The complete page: the answer, known facts of the host, a table without offloads and a table with them, unknown
/// facts, the plot.
pub fn limits(roofline: &Roofline, drawing: &Drawing, style: Style) -> String {
    let mut page = begun(roofline, drawing, style);
    page.block(&chart(drawing, page.style()));
    let names: Vec<String> = drawing
        .names()
        .iter()
        .enumerate()
        .map(|(place, name)| format!("{} {}", letter(place), in_words(Some(name))))
        .collect();
    page.paragraph(2, Tone::Faint, &names.join(", "));
    page.finish()
}

/// The bounds of a host without their plot.
pub fn limits_brief(roofline: &Roofline, drawing: &Drawing, style: Style) -> String {
    let mut page = begun(roofline, drawing, style);
    page.paragraph(0, Tone::Faint, "-v draws the bounds; --html and --svg write the figure.");
    page.finish()
}

fn begun(roofline: &Roofline, drawing: &Drawing, style: Style) -> Page {
    let mut page = Page::new(style);
    page.paragraph(0, Tone::Strong, &answer(roofline, drawing));
    // The answer has the measured cliff.
    for (name, fact) in drawing.asked.iter().filter(|(name, _)| name != MEASURED_CLIFF) {
        page.fact(name, fact);
    }
    table(&mut page, roofline, &[], "BOUNDS BY FRAME SIZE, WITHOUT OFFLOADS");
    let offloads = roofline.offloads().to_vec();
    if !offloads.is_empty() {
        let names: Vec<&str> = offloads.iter().map(|offload| offload.name()).collect();
        table(&mut page, roofline, &offloads, &format!("WITH {}", names.join(", ").to_uppercase()));
    }
    page.paragraph(2, Tone::Faint, &legend(roofline, drawing));
    if ranged_without_checksum(roofline) {
        page.paragraph(2, Tone::Faint, SUMMED);
    }
    if !roofline.unknown.is_empty() {
        page.heading("NOT INCLUDED");
        roofline.unknown.iter().for_each(|what| page.item("- ", what));
    }
    page
}

/// Meaning of the columns, the number of times that a byte crosses memory, and the CPU time of a frame, all without
/// offloads.
fn legend(roofline: &Roofline, drawing: &Drawing) -> String {
    let mut parts = vec!["packets: packets a second; frame bits: of whole frames, without preamble and gap".to_owned()];
    let Some(row) = roofline.rows.iter().find(|row| row.offloads.is_empty()) else { return parts.join("; ") };
    let seconds = |part: &str| row.bounds_pps.get(part).map(|pps| 1.0 / pps);
    if let Some((frame_s, bytes_per_s)) = seconds("memory").zip(roofline.memory_bytes_per_s) {
        let times = frame_s * bytes_per_s / row.frame_bytes;
        parts.push(format!(
            "memory: a byte crosses it {times:.0} times (the NIC writes it, each copy reads and writes it, checksum and application read it)"
        ));
    }
    if !ranges(row) {
        let text = |seconds: f64| format::quantity(seconds, Unit::Seconds);
        let costs = [
            seconds("packet CPU").map(|packet_s| format!("{} a packet", text(packet_s))),
            seconds("byte CPU").map(|bytes_s| format!("{} a byte", text(bytes_s / row.frame_bytes))),
            seconds("interrupts").map(|share_s| format!("{} for its share of an interrupt", text(share_s))),
        ];
        let costs: Vec<String> = costs.into_iter().flatten().collect();
        if !costs.is_empty() {
            let cpus = if roofline.cpus > 1 { format!(" (shared by {} CPUs)", roofline.cpus) } else { String::new() };
            parts.push(format!("CPU time of a frame: {}{cpus}", costs.join(" + ")));
        }
    }
    let is_measured = drawing.asked.iter().any(|(name, _)| name == MEASURED_CLIFF);
    if is_measured && row.bounds_pps.contains_key("byte CPU") {
        parts.push("costs are measured with frames of up to 1518 bytes and extrapolated to larger ones".to_owned());
    }
    parts.join("; ")
}

/// Bounds of the smallest and the largest frames, next to the measured cliff: `About 812 kpps of 64B frames (bound by
/// CPU time a packet) and 10 Gbit/s of 9018B (link); measured cliff: 442 kpps ...`.
///
/// Bounds have no interval, because they are formulas of the costs below. If the number of frames per interrupt is
/// unknown, it prints a range with the assumption of each end.
fn answer(roofline: &Roofline, drawing: &Drawing) -> String {
    let offloads = roofline.offloads();
    let rows = || roofline.rows.iter().filter(|row| row.offloads == offloads && row.pps.is_some());
    let by_size = |a: &&RoofRow, b: &&RoofRow| a.frame_bytes.total_cmp(&b.frame_bytes);
    let (Some(small), Some(large)) = (rows().min_by(by_size), rows().max_by(by_size)) else {
        return "No bound: no part of this host is known.".to_owned();
    };
    let bound = |row: &RoofRow, unit: Unit| {
        format!("{} of {} frames (bound by {})", range(row, unit), size(row), bindings(row))
    };
    let mut bounds = bound(small, Unit::Pps);
    if small.frame_bytes < large.frame_bytes {
        bounds = format!("{bounds}, {}", bound(large, Unit::Bps));
    }
    let measured = drawing.asked.iter().find(|(name, _)| name == MEASURED_CLIFF);
    let measured = measured.map_or(String::new(), |(_, cliff)| format!("; {MEASURED_CLIFF}: {cliff}"));
    let with = if offloads.is_empty() { "" } else { " with these offloads" };
    if rows().any(ranges) {
        return format!(
            "Upper bound{with} {bounds}{measured}. {}. The bounds are computed by formulas from mean costs, without confidence intervals.",
            assumed(roofline, small)
        );
    }
    if [small, large].into_iter().any(RoofRow::is_bound_by_cpu) {
        return format!(
            "About {bounds}{with}{measured}. Bounds of the CPU are computed from mean costs, without the costs' error: a measured cliff can \
             be above them. Those of link, bus and memory are upper bounds."
        );
    }
    format!(
        "At most{with} {bounds}{measured}. These upper bounds are computed by formulas, without confidence intervals."
    )
}

/// True if a row has a range, no checksum offload, and a cost per byte. Its bounds then include CPU time of checksums,
/// which `predict`, the source of the upper ends, leaves out.
fn ranged_without_checksum(roofline: &Roofline) -> bool {
    let bytes_cost = roofline.host.as_ref().is_some_and(netcliff_core::Host::is_by_size);
    bytes_cost && roofline.rows.iter().any(|row| ranges(row) && !row.offloads.contains(&Offload::Checksum))
}

/// A row's bounds with the fewest and with the most frames per interrupt.
fn ends(row: &RoofRow, unit: Unit) -> [Option<f64>; 2] {
    let (pps, bps) = row.highest.as_ref().map_or((row.pps, row.bps), |highest| (highest.pps, highest.bps));
    if unit == Unit::Pps { [row.pps, pps] } else { [row.bps, bps] }
}

fn ranges(row: &RoofRow) -> bool {
    range(row, Unit::Pps).contains('-') && row.highest.is_some()
}

fn size(row: &RoofRow) -> String {
    format::quantity(row.frame_bytes, Unit::Bytes).replace(' ', "")
}

/// The bottleneck at the lower end, and at the upper one if it is another part.
fn bindings(row: &RoofRow) -> String {
    let low = in_words(row.binding.as_deref());
    match row.highest.as_ref().map(|highest| in_words(highest.binding.as_deref())) {
        Some(high) if high != low && high != UNBOUND => format!("{low}, {high}"),
        _ => low.to_owned(),
    }
}

/// A row without a bottleneck.
const UNBOUND: &str = "-";

/// A part's name in a sentence. For the CPU, the name in JSON is only the name of its largest cost.
fn in_words(part: Option<&str>) -> &str {
    match part {
        Some("packet CPU") => "CPU time a packet",
        Some("byte CPU") => "CPU time a byte",
        Some("interrupts") => "CPU time of interrupts",
        part => part.unwrap_or(UNBOUND),
    }
}

/// A part's name in a column of ten characters.
fn in_short(part: Option<&str>) -> &str {
    match part {
        Some("packet CPU") => "CPU/packet",
        Some("byte CPU") => "CPU/byte",
        part => part.unwrap_or(UNBOUND),
    }
}

/// The assumption of each end of the ranges, and the prediction of `predict` for the smallest frames.
fn assumed(roofline: &Roofline, small: &RoofRow) -> String {
    let scheme = match &roofline.highest_by {
        Some(netcliff_core::Scheme::Napi(napi)) if napi.moderation.is_on() => {
            netcliff_core::Scheme::Napi(napi.clone()).to_string()
        }
        Some(scheme) => scheme.name().to_owned(),
        None => "napi".to_owned(),
    };
    let highest = small.highest.as_ref();
    let most = match highest.and_then(|highest| highest.frames_per_interrupt) {
        Some(frames) => {
            let cliff = highest.and_then(|highest| highest.cliff_pps);
            let cliff = cliff.map_or(String::new(), |pps| {
                format!(" ({}; `netcliff predict --cliff`)", format::quantity(pps, Unit::Pps))
            });
            let frames = format::significant(frames);
            format!("{frames} frames per interrupt, which the model predicts at the cliff of {scheme}{cliff}")
        }
        None => "interrupts that cost nothing, since the model has no answer for this host".to_owned(),
    };
    format!("The low end is for one interrupt per frame, the high end for {most}. `netcliff find` measures the cliff")
}

fn table(page: &mut Page, roofline: &Roofline, offloads: &[Offload], heading: &str) {
    page.heading(heading);
    let rows = || roofline.rows.iter().filter(|row| row.offloads == offloads);
    let parts = roofline.parts();
    let known: Vec<&str> = COLUMNS.into_iter().filter(|part| parts.contains(part)).collect();
    if rows().any(ranges) {
        return page.block(&ranged(rows(), &known));
    }
    let heads = heads(&known);
    let mut lines = vec![
        format!("  {:<5}{:>CELL$}{:>12} {:<10}{}", "", "", "", "", heads[0]),
        format!("  {:<5}{:>CELL$}{:>12} {:<10}{}", "frame", "packets", "frame bits", "bound by", heads[1]),
    ];
    for row in rows() {
        let cells: String = known.iter().map(|part| format!("{:>CELL$}", rate(row, part))).collect();
        let [pps, bps] = [Unit::Pps, Unit::Bps].map(|unit| range(row, unit));
        lines.push(format!("  {:<5}{pps:>CELL$}{bps:>12} {:<10}{cells}", size(row), in_short(row.binding.as_deref())));
    }
    page.block(&lines.join("\n"));
}

/// The table with both ends of each bound. It has no column for the CPU's bound, which is the cause of the ranges. The
/// bottleneck is for the upper end.
fn ranged<'a>(rows: impl Iterator<Item = &'a RoofRow>, known: &[&str]) -> String {
    let known: Vec<&str> = known.iter().copied().filter(|part| *part != CPU).collect();
    let heads = heads(&known);
    let mut lines = vec![
        format!(" {:<5}{:>15}{:>18} {:<10}{}", "", "", "", "", heads[0]),
        format!(" {:<5}{:>15}{:>18} {:<10}{}", "frame", "packets", "frame bits", "bound by", heads[1]),
    ];
    // Without parts of their own columns the first line is blank.
    lines.retain(|line| !line.trim().is_empty());
    for row in rows {
        let cells: String = known.iter().map(|part| format!("{:>CELL$}", rate(row, part))).collect();
        let [pps, bps] = [Unit::Pps, Unit::Bps].map(|unit| range(row, unit));
        let binding = in_short(row.highest.as_ref().and_then(|highest| highest.binding.as_deref()));
        lines.push(format!(" {:<5}{pps:>15}{bps:>18} {binding:<10}{cells}", size(row)));
    }
    lines.join("\n")
}

/// The two lines above the columns of the parts' own bounds: `bound of`, `link`.
fn heads(parts: &[&str]) -> [String; 2] {
    let over = parts.iter().map(|_| format!("{:>CELL$}", "bound of")).collect();
    [over, parts.iter().map(|part| format!("{part:>CELL$}")).collect()]
}

/// `104-186 kpps`: both ends in the unit of the upper one.
fn range(row: &RoofRow, unit: Unit) -> String {
    let [low, high] = ends(row, unit);
    let (Some(low), Some(high)) = (low, high) else { return "-".to_owned() };
    let (factor, _) = unit.scale(high);
    let upper = format::quantity(high, unit);
    let lower = format::significant(low / factor);
    if upper.split_once(' ').is_some_and(|(number, _)| number == lower) { upper } else { format!("{lower}-{upper}") }
}

fn rate(row: &RoofRow, part: &str) -> String {
    row.bounds_pps.get(part).map_or("-".to_owned(), |pps| format::quantity(*pps, Unit::Pps))
}
