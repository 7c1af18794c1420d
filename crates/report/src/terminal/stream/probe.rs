//! Latency under load: phases, the queue that grew, and the latency over time in characters.

use netcliff_core::stream::{ProbePhase, ProbePoint, ProbeRow, StreamReport};

use super::{Page, Tone, name};
use crate::format::{self, Unit};

/// Cells of the plot, axes not counted.
const COLUMNS: usize = 60;
const ROWS: usize = 8;

/// Adds the answer: one sentence for each configuration.
pub(super) fn brief(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        let Some(probe) = &row.probe else { continue };
        let several = report.rows.len() > 1;
        let of = if several { format!("{}: ", name(row)) } else { String::new() };
        let under = |phase: &ProbePhase| seconds(phase.p50_s);
        let text = format!(
            "{of}requests took {} before the transfer, {} under load, {} after it (medians); p99 {} and {} under load; \
             round trips a minute {} and {} under load.",
            under(&probe.idle),
            under(&probe.loaded),
            under(&probe.recovering),
            seconds(probe.idle.p99_s),
            seconds(probe.loaded.p99_s),
            minute(probe.idle.round_trips_per_minute),
            minute(probe.loaded.round_trips_per_minute),
        );
        if !several {
            page.heading("LATENCY UNDER LOAD");
        }
        page.paragraph(2, Tone::Plain, &text);
        page.paragraph(2, Tone::Plain, &format!("Queue that grew: {}.", probe.grew));
        lost(page, probe);
    }
}

/// Adds the complete section on latency under load: phases, queues, losses, and a plot over time.
pub(super) fn whole(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        let Some(probe) = &row.probe else { continue };
        let every = format::quantity(probe.every_s, Unit::Seconds);
        page.heading(&format!("LATENCY UNDER LOAD, {} ({} each {every})", name(row), probe.transport.to_uppercase()));
        let head = ["p50", "p90", "p99", "max", "lost", "trips/min"];
        let mut lines = vec![format!("  {:<12}{}", "", head.map(|head| format!("{head:>11}")).concat())];
        let phases = [("idle", &probe.idle), ("loaded", &probe.loaded), ("recovering", &probe.recovering)];
        for (what, phase) in phases {
            let times =
                [phase.p50_s, phase.p90_s, phase.p99_s, phase.max_s].map(|time| format!("{:>11}", seconds(time)));
            let counts = format!("{:>11}{:>11}", phase.lost(), minute(phase.round_trips_per_minute));
            lines.push(format!("  {what:<12}{}{counts}", times.concat()));
        }
        page.block(&lines.join("\n"));
        if let (Some(forth), Some(back)) = (probe.added_forth_s, probe.added_back_s) {
            let text = format!("added under load: {} forth, {} back (medians)", signed(forth), signed(back));
            page.paragraph(2, Tone::Plain, &text);
        }
        page.paragraph(2, Tone::Plain, &format!("Queue that grew: {}.", probe.grew));
        lost(page, probe);
        queues(page, probe);
        plot(page, probe);
    }
}

fn lost(page: &mut Page, probe: &ProbeRow) {
    if let Some(why) = &probe.failed {
        page.paragraph(2, Tone::Alarm, &format!("Requests ended early: {why}."));
    }
    if probe.loaded.lost() > 0 {
        let share = format::loss(probe.loaded.lost() as f64 / probe.loaded.sent as f64);
        let text = format!(
            "{} of {} requests under load were not answered ({share}).",
            probe.loaded.lost(),
            probe.loaded.sent
        );
        page.paragraph(2, Tone::Plain, &text);
    }
}

fn queues(page: &mut Page, probe: &ProbeRow) {
    if probe.queues.is_empty() {
        return;
    }
    let mut lines =
        vec![format!("  {:<34}{:>10}{:>10}{:>11}{:>10}", "queue (means)", "idle", "loaded", "recovering", "greatest")];
    for queue in &probe.queues {
        let length = |value: f64| match queue.unit.as_str() {
            "bytes" => format::amount(value as u64),
            _ => format!("{} pkt", format::significant(value)),
        };
        let name: String = queue.name.chars().take(33).collect();
        lines.push(format!(
            "  {name:<34}{:>10}{:>10}{:>11}{:>10}",
            length(queue.idle),
            length(queue.loaded),
            length(queue.recovering),
            length(queue.max)
        ));
    }
    page.block(&lines.join("\n"));
}

/// Adds a plot of median and largest latency over time, on a logarithmic scale.
fn plot(page: &mut Page, probe: &ProbeRow) {
    let style = page.style();
    let points: Vec<(&ProbePoint, f64, f64)> =
        probe.over_time.iter().filter_map(|point| Some((point, point.p50_s?, point.max_s?))).collect();
    let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min).max(1e-9);
    let most = points.iter().map(|point| point.2).fold(0.0, f64::max).max(least * 1.01);
    let ends = points.first().zip(points.last()).map(|(first, last)| (first.0.at_s, last.0.at_s));
    let Some((from_s, to_s)) = ends.filter(|(from, to)| to > from && style.width >= COLUMNS + 16) else { return };
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let row = |value: f64| {
        ROWS - 1
            - ((value / least).ln() / (most / least).ln() * (ROWS - 1) as f64).round().clamp(0.0, (ROWS - 1) as f64)
                as usize
    };
    for (point, p50_s, max_s) in &points {
        let column = ((point.at_s - from_s) / (to_s - from_s) * (COLUMNS - 1) as f64).round() as usize;
        cells[row(*max_s)][column] = '^';
        cells[row(*p50_s)][column] = 'o';
    }
    let (wall, corner, floor) = if style.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
    let mut lines = vec!["  round trip over time: o median, ^ greatest (logarithmic)".to_owned()];
    for (index, row) in cells.iter().enumerate() {
        let label = match index {
            0 => seconds(Some(most)),
            last if last == ROWS - 1 => seconds(Some(least)),
            _ => String::new(),
        };
        lines.push(format!("  {label:>9} {wall}{}", row.iter().collect::<String>().trim_end()));
    }
    lines.push(format!("  {:>9} {corner}{}", "", floor.repeat(COLUMNS)));
    let (low, high) = (format!("{from_s:.1} s"), format!("{to_s:.1} s"));
    let between = COLUMNS.saturating_sub(low.chars().count() + high.chars().count());
    lines.push(format!("  {:>9}  {low}{:^between$}{high}", "", "0 s: the windows open"));
    page.block(&lines.join("\n"));
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format::quantity(value, Unit::Seconds))
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format::quantity(value.abs(), Unit::Seconds))
}

fn minute(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0}"))
}
