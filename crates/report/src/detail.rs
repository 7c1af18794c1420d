//! [`detail`] and [`differences`]: output of `simulate` besides the figures of an outcome.

use comfy_table::{CellAlignment, Table};
use netcliff_core::{Detail, Difference, Figure, LatencyHistogram, Point, QueueShare, Slice};

use crate::Style;
use crate::format::{self, Unit};
use crate::table::{empty, lines};

/// Width of a full bar (characters).
const BAR: f64 = 40.0;
/// Largest number of slices shown; JSON and CSV have all.
const SLICES: usize = 40;

/// Queue lengths by share of time as bars, latencies, busy periods, and the first slices of a series. Empty parts are
/// left out.
pub fn detail(detail: &Detail, style: Style) -> String {
    let mut text = String::new();
    for (name, shares) in [("ring and protocol", &detail.ring), ("socket", &detail.socket)] {
        if !shares.is_empty() {
            text += &format!("\npackets in {name}, by share of time\n{}", lines(&lengths(shares, style)));
        }
    }
    if !detail.latency_histogram_ns.is_empty() {
        let table = latencies(&detail.latency_histogram_ns, style);
        text += &format!("\nlatencies, by share of the delivered packets\n{}", lines(&table));
    }
    if let Some(busy) = &detail.busy_periods {
        let mut table = empty(style);
        let seconds = |figure: Option<Figure>| figure.map(|figure| format::figure(&figure, Unit::Seconds));
        table.add_row(["busy periods".to_owned(), format::figure(&busy.per_s, Unit::PerSecond)]);
        let known = [("mean", busy.mean_s), ("p50", busy.p50_s), ("p99", busy.p99_s), ("longest", busy.max_s)]
            .map(|(n, f)| (n, seconds(f)));
        for (name, figure) in known {
            table.add_row([name.to_owned(), figure.unwrap_or_else(|| "none ended".to_owned())]);
        }
        text += &format!("\ntimes in which the CPU is never available\n{}", lines(&table));
    }
    if !detail.series.is_empty() {
        text += &format!("\nthe first replication, slice by slice\n{}", lines(&series(&detail.series, style)));
        if detail.series.len() > SLICES {
            text += &format!("... and {} more: --json and --csv have all\n", detail.series.len() - SLICES);
        }
    }
    format::printable(&text)
}

/// Shares of time by queue length: one bar per group of lengths. Each group is twice as wide as the group before. The
/// longest bar is the most frequent group.
fn lengths(shares: &[QueueShare], style: Style) -> Table {
    let mut groups: Vec<(u64, u64, f64)> = Vec::new();
    for one in shares {
        // 0, 1, 2, 3, 4-7, 8-15, ...
        let from = if one.packets < 4 { one.packets } else { 1 << one.packets.ilog2() };
        match groups.last_mut() {
            Some((first, last, share)) if *first == from => (*last, *share) = (one.packets, *share + one.share.value),
            _ => groups.push((from, one.packets, one.share.value)),
        }
    }
    let most = groups.iter().map(|group| group.2).fold(0.0, f64::max);
    let mut table = empty(style);
    for (from, to, share) in groups {
        let packets = if from == to { from.to_string() } else { format!("{from}-{to}") };
        table.add_row([packets, format::share(share), bar(share / most, style)]);
    }
    right(&mut table, 0..2);
    table
}

/// Latencies up to 1, 2, 5, 10, ... with a bar for each, and the share of packets up to it.
fn latencies(histogram: &LatencyHistogram, style: Style) -> Table {
    let mut groups: Vec<(u64, u64)> = Vec::new();
    for (latency_ns, packets) in &histogram.0 {
        while groups.last().is_none_or(|(to, _)| to < latency_ns) {
            let to = groups.last().map_or_else(|| first_step(*latency_ns), |(to, _)| next_step(*to));
            groups.push((to, 0));
        }
        if let Some((_, sum)) = groups.last_mut() {
            *sum += packets;
        }
    }
    let (all, most) = (histogram.packets() as f64, groups.iter().map(|group| group.1).max().unwrap_or(1) as f64);
    let mut table = empty(style);
    table.set_header(["up to", "share", "in all", ""]);
    let mut seen = 0;
    for (to, packets) in groups {
        seen += packets;
        table.add_row([
            format::quantity(to as f64 * 1e-9, Unit::Seconds),
            format::share(packets as f64 / all),
            format::share(seen as f64 / all),
            bar(packets as f64 / most, style),
        ]);
    }
    right(&mut table, 0..3);
    table
}

/// The smallest of 1, 2, 5, 10, ... ns that is at least `latency_ns`.
fn first_step(latency_ns: u64) -> u64 {
    let mut step = 1;
    while step < latency_ns {
        step = next_step(step);
    }
    step
}

/// The step after `step` in the series 1, 2, 5, 10, 20, 50, ...
fn next_step(step: u64) -> u64 {
    let decade = 10_u64.pow(step.ilog10());
    match step / decade {
        1 => 2 * decade,
        2 => 5 * decade,
        _ => 10_u64.saturating_mul(decade),
    }
}

fn bar(share: f64, style: Style) -> String {
    if style.unicode { "█" } else { "#" }.repeat((share * BAR).round() as usize)
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in table.column_iter_mut().skip(columns.start).take(columns.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn series(slices: &[Slice], style: Style) -> Table {
    let mut table = empty(style);
    table.set_header(["from", "arrived", "delivered", "lost", "ring mean", "ring max", "interrupt", "CPU left"]);
    for slice in slices.iter().take(SLICES) {
        let share = |figure: Option<Figure>| figure.map_or("-".to_owned(), |figure| format::share(figure.value));
        table.add_row([
            format::quantity(slice.from_s, Unit::Seconds),
            slice.arrived.to_string(),
            slice.delivered.to_string(),
            (slice.dropped_ring + slice.dropped_socket).to_string(),
            format::significant(slice.ring_mean),
            slice.ring_max.to_string(),
            share(slice.cpu.interrupt),
            share(slice.cpu.available),
        ]);
    }
    right(&mut table, 0..8);
    table
}

/// Each figure under both schemes, and the difference, second minus first. A * marks differences whose interval
/// excludes 0.
pub fn differences(differences: &[Difference], points: [&Point; 2], style: Style) -> String {
    let [first, second] = points;
    let mut table = empty(style);
    table.set_header(["", "first", "second", "second - first", "", "variance"]);
    for one in differences {
        let unit = unit(&one.figure);
        table.add_row([
            one.figure.clone(),
            format::quantity(one.first.value, unit),
            format::quantity(one.second.value, unit),
            format::figure(&one.difference, unit),
            if one.is_significant() { "*" } else { "" }.to_owned(),
            one.variance_reduction.map_or("-".to_owned(), |factor| format!("/ {}", format::significant(factor))),
        ]);
    }
    right(&mut table, 1..6);
    let text = format!(
        "first       {}\nsecond      {}\nload        {}\n\n{}\n* the interval leaves 0 out; variance: because both get the \
         same packets, the variance of the difference is smaller by this factor\n",
        first.scheme,
        second.scheme,
        first.load,
        lines(&table)
    );
    format::printable(&text)
}

fn unit(figure: &str) -> Unit {
    match figure {
        "throughput_pps" => Unit::Pps,
        "interrupts_per_s" => Unit::PerSecond,
        _ if figure.starts_with("latency_s") => Unit::Seconds,
        _ => Unit::Share,
    }
}
