//! [`detail`] and [`differences`]: output of `simulate` besides the figures of an outcome.

use comfy_table::{CellAlignment, Table};
use netcliff_core::{Detail, Difference, Figure, LatencyHistogram, Point, QueueShare, Slice};

use crate::Style;
use crate::format::{self, Unit};
use crate::table::{empty, lines, wrapped};

/// Width of a full bar (characters).
const BAR: f64 = 40.0;
/// Largest number of slices shown; JSON and CSV have all.
const SLICES: usize = 40;

/// Queue lengths by share of time as bars, latencies, busy periods, and the first slices of a series. Empty parts are
/// left out.
pub fn detail(detail: &Detail, style: Style) -> String {
    let mut text = String::new();
    for (name, shares) in [("ring and protocol processing", &detail.ring), ("the socket", &detail.socket)] {
        if !shares.is_empty() {
            text += &format!("\nnumber of packets in {name}\n{}", lines(&lengths(shares, style)));
        }
    }
    if !detail.latency_histogram_ns.is_empty() {
        let table = latencies(&detail.latency_histogram_ns, style);
        text += &format!("\nlatency of the delivered packets\n{}", lines(&table));
    }
    if let Some(busy) = &detail.busy_periods {
        let mut table = empty(style);
        let seconds = |figure: Option<Figure>| figure.map(|figure| format::figure(&figure, Unit::Seconds));
        table.add_row(["count per second".to_owned(), format::figure(&busy.per_s, Unit::PerSecond)]);
        let known = [("mean", busy.mean_s), ("p50", busy.p50_s), ("p99", busy.p99_s), ("longest", busy.max_s)]
            .map(|(n, f)| (n, seconds(f)));
        for (name, figure) in known {
            table.add_row([name.to_owned(), figure.unwrap_or_else(|| "no period ended".to_owned())]);
        }
        text += &format!("\nbusy periods of the CPU (times without idle CPU)\n{}", lines(&table));
    }
    if !detail.series.is_empty() {
        let table = series(&detail.series, style);
        text += &format!(
            "\nfirst replication, over time (ring: packets in ring and protocol processing)\n{}",
            lines(&table)
        );
        if detail.series.len() > SLICES {
            text += &format!("... and {} more slices: --json and --csv have all\n", detail.series.len() - SLICES);
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
    table.set_header(["packets", "share of time", ""]);
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
    table.set_header(["up to", "packets", "cumulative", ""]);
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
    table.set_header([
        "from",
        "arrived",
        "delivered",
        "lost",
        "ring\nmean",
        "ring\nmax",
        "CPU\ninterrupt",
        "CPU\nleft",
    ]);
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
    let ends = differences.iter().find_map(|one| one.difference.interval);
    let interval =
        ends.map_or("interval".to_owned(), |ends| format!("{} interval", format::share_short(ends.confidence)));
    let mut table = empty(style);
    table.set_header(["", "first", "second", "second - first", interval.as_str(), ""]);
    for one in differences {
        let (label, unit) = named(&one.figure);
        let sign = if one.difference.value > 0.0 { "+" } else { "" };
        // The difference of two shares is not a share of one of them.
        let difference = format::value(&one.difference, unit).replace(" %", " points");
        table.add_row([
            label.to_owned(),
            format::quantity(one.first.value, unit),
            format::quantity(one.second.value, unit),
            format!("{sign}{difference}"),
            format::interval(&one.difference, unit, "..").unwrap_or_else(|| "-".to_owned()),
            if one.is_significant() { "*" } else { "" }.to_owned(),
        ]);
    }
    right(&mut table, 1..5);
    let load = first.rate_pps().map_or_else(|| first.load.to_string(), |pps| format::quantity(pps, Unit::Pps));
    let mut text = format!(
        "first       {}\nsecond      {}\nhost        {}\nload        {load}\n\n{}\n",
        first.scheme,
        second.scheme,
        first.host.name,
        lines(&table)
    );
    text += &wrapped(
        "* the schemes differ in this figure: the interval of second - first excludes 0. Points are percentage points.",
        style,
    );
    text += &wrapped(&format!("Both schemes receive the same packets.{}", saved(differences)), style);
    format::printable(&text)
}

/// What the common packets save, as a sentence after a space: the factor by which independent packets would be more,
/// over all figures. Empty if no figure has the factor.
fn saved(differences: &[Difference]) -> String {
    let factors = || differences.iter().filter_map(|one| one.variance_reduction);
    let ends = [factors().reduce(f64::min), factors().reduce(f64::max)].map(|end| end.map(format::significant));
    match ends {
        [Some(least), Some(most)] => format!(
            " With independent packets for each, intervals of this width would take {least} to {most} times as many \
             packets, depending on the figure."
        ),
        _ => String::new(),
    }
}

/// The label of a compared figure, as in the table of an outcome, and its unit.
fn named(figure: &str) -> (&str, Unit) {
    match figure {
        "throughput_pps" => ("delivered", Unit::Pps),
        "loss_fraction" => ("lost", Unit::Share),
        "latency_s.mean" => ("latency mean", Unit::Seconds),
        "latency_s.p50" => ("latency p50", Unit::Seconds),
        "latency_s.p99" => ("latency p99", Unit::Seconds),
        "cpu.interrupt" => ("CPU interrupt", Unit::Share),
        "cpu.application" => ("CPU application", Unit::Share),
        "cpu.available" => ("CPU idle", Unit::Share),
        "interrupts_per_s" => ("interrupts", Unit::PerSecond),
        other => (other, Unit::Number),
    }
}
