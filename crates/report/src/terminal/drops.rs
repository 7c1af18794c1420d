//! Output of `netcliff drops`: [`drops`] of an interval, [`paths`] of packets; and a trial's [`ledger`].

use comfy_table::CellAlignment;
use netcliff_core::drops::{DropRow, Drops, Path, SAMPLED};
use netcliff_core::ledger::{Ledger, LedgerRow};

use super::Style;
use super::page::{Page, Tone};
use crate::format::{self, Unit};
use crate::table;

/// Largest number of remedies that a page shows.
const MOST_ADVICE: usize = 5;
/// Number of drops that one sample stands for, above which the page reports sampling. Below it, almost all drops were
/// examined.
const SPARSE: f64 = 1.05;
/// Largest number of functions of a stack that a page shows.
const MOST_FUNCTIONS: usize = 12;

/// The drops of an interval: number and method of counting, one row per reason and place, remedies, and limits of the
/// figures.
///
/// At most `most` rows, in tables of the terminal's `columns`; unwrapped if there is no terminal.
pub fn drops(drops: &Drops, most: usize, columns: Option<usize>, style: Style) -> String {
    let mut page = Page::new(style);
    let all: u64 = drops.rows.iter().map(|row| row.drops).sum();
    let of = drops.filter.as_ref().map_or(String::new(), |filter| format!(" of \"{filter}\""));
    let rate = format::quantity(all as f64 / drops.seconds.max(1e-9), Unit::PerSecond);
    let seconds = format::quantity(drops.seconds, Unit::Seconds);
    let more: u64 = drops.not_filtered.iter().map(|row| row.drops).sum();
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} of any packets by counters"),
    };
    let scope = drops.scope.as_ref().map_or(String::new(), |scope| format!("; {scope}"));
    page.paragraph(
        0,
        Tone::Strong,
        &format!("{}{of}{more} in {seconds}, {rate}{scope}; method: {}", format::counted(all, "drop"), drops.method),
    );
    if drops.sampling_factor > SPARSE {
        let text = format!(
            "Sampled: drops came too fast to examine each; one in {} was examined, and rows are scaled to all drops.",
            format::significant(drops.sampling_factor)
        );
        page.paragraph(0, Tone::Alarm, &text);
    }
    let shown = &drops.rows[..drops.rows.len().min(most)];
    let mut text = page.finish();
    if !shown.is_empty() {
        text.push('\n');
        text.push_str(&format::printable(&rows(shown, columns, style)));
    }
    if !drops.not_filtered.is_empty() {
        let mut page = Page::new(style);
        page.heading("NOT FILTERED (counters of all packets: no filter applies to them)");
        text.push_str(&page.finish());
        let shown = &drops.not_filtered[..drops.not_filtered.len().min(most)];
        text.push_str(&format::printable(&rows(shown, columns, style)));
    }
    let mut page = Page::new(style);
    if drops.rows.len() > most {
        page.paragraph(
            0,
            Tone::Faint,
            &format!("and {} more", format::counted((drops.rows.len() - most) as u64, "row")),
        );
    }
    if has_gaps(shown) {
        page.paragraph(0, Tone::Faint, "\"-\" in a row: these drops have none, or it is unknown.");
    }
    let closed: u64 = drops.at_close.iter().map(|row| row.drops).sum();
    if closed > 0 {
        let line = format!(
            "Not counted as lost: {} freed when a socket, connection or queue was closed.",
            format::counted(closed, "packet")
        );
        page.paragraph(0, Tone::Faint, &line);
    }
    let causes: std::collections::BTreeSet<String> =
        shown.iter().filter_map(|row| Some(format!("{}: {}", row.reason, row.cause.as_ref()?))).collect();
    causes.iter().for_each(|cause| page.paragraph(0, Tone::Plain, cause));
    stacks(&mut page, shown);
    if !drops.advice.is_empty() {
        page.heading("WHAT TO DO");
    }
    for advice in drops.advice.iter().take(MOST_ADVICE) {
        page.paragraph(2, Tone::Strong, &advice.reason);
        page.paragraph(4, Tone::Plain, &format!("{}.", advice.meaning));
        advice.remedies.iter().for_each(|remedy| page.item("  - ", remedy));
        page.paragraph(4, Tone::Faint, &format!("({})", advice.source));
    }
    // The line at the top reports sampling.
    let is_above = |limit: &&String| drops.sampling_factor > SPARSE && limit.starts_with(SAMPLED);
    let limits: Vec<String> = drops.limits.iter().filter(|limit| !is_above(limit)).cloned().collect();
    page.list("LIMITS", &limits);
    text + &page.finish()
}

/// A table of the drops with the columns that have a value in some row. On a terminal, columns that do not fit are left
/// out.
fn rows(rows: &[DropRow], columns: Option<usize>, style: Style) -> String {
    /// Columns that are left out first if there is no room.
    const LEAST: [&str; 3] = ["container", "share", "method"];
    const GAP: usize = 3;
    type Cell = fn(&DropRow) -> Option<String>;
    let all: [(&str, Cell); 12] = [
        ("reason", |row| Some(row.reason.clone())),
        ("place", |row| Some(row.place.clone())),
        ("method", |row| Some(row.method.short().to_owned())),
        ("drops/s", |row| Some(format::significant(row.per_s))),
        ("drops", |row| Some(row.drops.to_string())),
        ("share", |row| Some(percent(row.share))),
        ("netns", |row| row.netns.clone()),
        ("device", |row| row.device.clone()),
        ("socket", |row| row.socket.as_ref().map(ToString::to_string)),
        ("container", |row| row.container.clone()),
        ("flow", |row| row.flow.as_ref().map(ToString::to_string)),
        ("process", |row| row.process.as_ref().map(|task| format!("{} ({})", task.name, task.id))),
    ];
    let mut shown: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, cell) in all.into_iter().filter(|(_, cell)| rows.iter().any(|row| cell(row).is_some())) {
        shown.push((name, rows.iter().map(|row| cell(row).unwrap_or_else(|| "-".to_owned())).collect()));
    }
    if rows.iter().any(|row| !row.stack.is_empty()) {
        shown.push(("stack", (1..=rows.len()).map(|n| format!("#{n}")).collect()));
    }
    let wide = |(name, cells): &(&str, Vec<String>)| {
        GAP + cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0).max(name.len())
    };
    for least in LEAST {
        if columns.is_some_and(|columns| shown.iter().map(wide).sum::<usize>() > columns) {
            shown.retain(|(name, _)| *name != least);
        }
    }
    // Output that a program reads is not wrapped.
    let width = columns.unwrap_or_else(|| shown.iter().map(wide).sum::<usize>() + GAP);
    let mut table = table::empty(Style { width, ..style });
    table.set_header(shown.iter().map(|(name, _)| *name));
    for n in 0..rows.len() {
        table.add_row(shown.iter().filter_map(|(_, cells)| cells.get(n)));
    }
    for (column, (name, _)) in table.column_iter_mut().zip(&shown) {
        if ["drops/s", "drops", "share"].contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table::lines(&table)
}

/// Whether some of the rows, but not all, lack the namespace, device or socket.
fn has_gaps(rows: &[DropRow]) -> bool {
    let owners: [fn(&DropRow) -> bool; 3] =
        [|row| row.netns.is_some(), |row| row.device.is_some(), |row| row.socket.is_some()];
    owners.iter().any(|has| rows.iter().any(has) && !rows.iter().all(has))
}

/// A share of all drops. A share below a ten-thousandth needs no exact figure.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 1e-4 { "< 0.01 %".to_owned() } else { format::share(share) }
}

fn stacks(page: &mut Page, rows: &[DropRow]) {
    for (n, row) in rows.iter().enumerate().filter(|(_, row)| !row.stack.is_empty()) {
        page.heading(&format!("STACK #{}: {}", n + 1, row.reason));
        row.stack.iter().take(MOST_FUNCTIONS).for_each(|function| page.paragraph(2, Tone::Plain, function));
        if row.stack.len() > MOST_FUNCTIONS {
            page.paragraph(2, Tone::Faint, &format!("and {} more", row.stack.len() - MOST_FUNCTIONS));
        }
    }
}

/// Paths of packets: one line for each place, with the time since the previous place.
pub fn paths(paths: &[Path], limits: &[String], style: Style) -> String {
    let mut text = String::new();
    if paths.is_empty() {
        text.push_str("No packet matched the filter.\n");
    }
    for path in paths {
        let mut page = Page::new(style);
        let flow = path.flow.map_or("not IP".to_owned(), |flow| flow.to_string());
        let end = if path.ended { "" } else { "; its end was not seen" };
        page.paragraph(0, Tone::Strong, &format!("packet {}: {flow}{end}", path.packet));
        text.push_str(&page.finish());
        let mut table = table::empty(style);
        table.set_header(["at us", "after us", "CPU", "bytes", "netns", "device", "place"]);
        let mut before_ns = 0;
        for step in &path.steps {
            let us = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
            let place = match &step.dropped {
                Some(why) => format!("{}: dropped, {why}", step.place),
                None => step.place.clone(),
            };
            let after = us(step.at_ns.saturating_sub(before_ns));
            let or_none = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
            let (netns, device) = (or_none(&step.netns), or_none(&step.device));
            table.add_row([us(step.at_ns), after, step.cpu.to_string(), step.bytes.to_string(), netns, device, place]);
            before_ns = step.at_ns;
        }
        for column in table.column_iter_mut().take(4) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text.push_str(&format::printable(&table::lines(&table)));
        text.push('\n');
    }
    let mut page = Page::new(style);
    page.list("LIMITS", limits);
    text + page.finish().trim_start_matches('\n')
}

/// The packet accounting of a trial: one line for each place and reason, the sum first, unexplained packets last.
pub(super) fn ledger(page: &mut Page, ledger: &Ledger) {
    let of = |packets: u64| match ledger.sent {
        0 => format!("{packets}"),
        sent => format!("{packets} ({})", format::share(packets as f64 / sent as f64)),
    };
    page.fact("sent", &ledger.sent.to_string());
    page.fact("delivered", &of(ledger.delivered));
    for LedgerRow { place, reason, packets, source } in &ledger.dropped {
        page.fact(place.name(), &format!("{}: {reason}, {source}", of(*packets)));
    }
    if ledger.inside > 0 {
        page.fact("still inside", &of(ledger.inside));
    }
    page.fact("unexplained", &ledger.unexplained.to_string());
    let cost = ledger
        .tracing_ns
        .map_or(String::new(), |ns| format!("; it takes {} a drop", format::quantity(ns as f64 / 1e9, Unit::Seconds)));
    page.fact("method", &format!("{}{cost}", ledger.method));
    ledger.limits.iter().for_each(|limit| page.item("- ", limit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::drops::{DropAdvice, Flow, Method, PathStep, Process};

    fn flow() -> Flow {
        let address = |last: u8| std::net::Ipv4Addr::new(10, 0, 0, last).into();
        Flow { protocol: 17, source: address(1), source_port: 4000, destination: address(2), destination_port: 53 }
    }

    #[test]
    fn the_table_names_reason_place_rate_share_and_what_to_do() {
        let row = |reason: &str, drops: u64| DropRow {
            reason: reason.into(),
            place: "enqueue_to_backlog+0x2f".into(),
            drops,
            ..DropRow::default()
        };
        let mut interval = Drops {
            seconds: 2.0,
            method: Method::Ebpf,
            filter: Some("udp port 53".into()),
            seen: Some(4000),
            sampling_factor: 2.0,
            rows: vec![row("NO_SOCKET", 100), row("CPU_BACKLOG", 300)],
            advice: vec![DropAdvice {
                reason: "CPU_BACKLOG".into(),
                meaning: "a backlog was full".into(),
                remedies: vec!["look: `netcliff watch`".into()],
                source: "net/core/dev.c".into(),
            }],
            limits: vec!["all of it".into()],
            not_filtered: vec![row("TcpExt ListenOverflows", 860)],
            ..Drops::default()
        };
        interval.settle();
        let text = drops(&interval, 20, Some(160), Style::default());
        for part in [
            "400 drops of \"udp port 53\", and 860 of any packets by counters in 2.00 s",
            "NOT FILTERED",
            "75.0 %",
            "25.0 %",
            "one in 2.00",
            "WHAT TO DO",
            "netcliff watch",
            "LIMITS",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.find("CPU_BACKLOG") < text.find("NO_SOCKET"), "most first: {text}");
        let one = drops(&interval, 1, None, Style::default());
        assert!(one.contains("and 1 row more") && !one.contains("NO_SOCKET"), "{one}");
    }

    #[test]
    fn flows_processes_and_stacks_have_columns_where_asked() {
        let row = DropRow {
            reason: "NO_SOCKET".into(),
            flow: Some(flow()),
            process: Some(Process { id: 7, name: "worker".into() }),
            stack: (0..20).map(|n| format!("function{n}+0x1")).collect(),
            drops: 5,
            ..DropRow::default()
        };
        let interval = Drops { seconds: 1.0, rows: vec![row], sampling_factor: 1.0, ..Drops::default() };
        let text = drops(&interval, 20, Some(160), Style { width: 160, ..Style::default() });
        for part in
            ["udp 10.0.0.1:4000 > 10.0.0.2:53", "worker (7)", "STACK #1: NO_SOCKET", "function0+0x1", "and 8 more"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_path_has_the_time_between_places() {
        let step = |at_ns: u64, place: &str| PathStep { at_ns, place: place.into(), ..PathStep::default() };
        let mut end = step(4250, "kfree_skb");
        end.dropped = Some("NO_SOCKET at __udp4_lib_rcv+0x9".into());
        let path = Path {
            packet: 0,
            flow: Some(flow()),
            steps: vec![step(0, "ip_rcv"), step(1000, "udp_rcv"), end],
            ended: true,
        };
        let text = paths(&[path], &["none".into()], Style::default());
        // Joins the lines that narrow terminals break.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["packet 0: udp 10.0.0.1:4000", "3.25", "dropped, NO_SOCKET at __udp4_lib_rcv+0x9", "- none"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(paths(&[], &[], Style::default()).starts_with("No packet"));
    }
}
