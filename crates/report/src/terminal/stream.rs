//! [`stream`]: output of `netcliff stream`.

use netcliff_core::cpus::{CpuRow, ExactRow};
use netcliff_core::stream::{Spread, StreamReport, StreamRow};
use netcliff_core::units;

mod brief;
mod many;
mod probe;
mod wire;

pub use brief::stream_brief;

use super::Style;
use super::cpus::{self, Split};
use super::drops;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// The page: verdict, configuration and values in force, goodput, CPU of both ends and of the host, the wire, and
/// missing figures.
pub fn stream(report: &StreamReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.head("stream", &report.provenance, report.partial, &[]);
    brief::answer(&mut page, report);
    report.asked.iter().for_each(|(name, fact)| page.fact(name, fact));
    let held: Vec<String> = report.in_force.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
    if !held.is_empty() {
        page.fact("in force", &held.join(", "));
    }
    goodput(&mut page, report);
    ends(&mut page, report);
    host(&mut page, report);
    far_host(&mut page, report);
    wire::tcp(&mut page, report);
    wire::udp(&mut page, report);
    received(&mut page, report);
    wire::datagrams(&mut page, report);
    ledgers(&mut page, report);
    pacing(&mut page, report);
    followed(&mut page, report);
    many::agents(&mut page, report);
    probe::whole(&mut page, report);
    page.list("WARNINGS", &report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>());
    let cut =
        report.rows.iter().filter_map(|row| Some(format!("{}: ended early: {}", name(row), row.cut_short.as_ref()?)));
    let missing: Vec<String> = report.not_had.iter().cloned().chain(cut).collect();
    page.list("NOT MEASURED", &missing);
    page.finish()
}

/// Adds the accounting of every datagram of an additional transfer.
fn ledgers(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        let Some(at) = &row.ledger else { continue };
        page.heading("WHERE EVERY DATAGRAM WENT");
        let load = format::quantity(at.load_pps, Unit::Pps);
        page.paragraph(2, Tone::Faint, &format!("{}, in a separate transfer at {load}", name(row)));
        drops::ledger(page, &at.ledger);
    }
}

/// Adds the threads that were placed on the CPU that processes the packets of their flow.
fn followed(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        for placed in &row.followed {
            let queue = placed.napi_id.map_or(String::new(), |id| format!(", NAPI {id}"));
            let text = format!(
                "flow {}: the {} ran on CPU {}; its packets came in on CPU {}{queue}",
                placed.flow, placed.end, placed.cpu, placed.incoming_cpu
            );
            page.fact(&name(row), &text);
        }
    }
}

/// Adds how exactly paced senders kept to their rate.
fn pacing(page: &mut Page, report: &StreamReport) {
    for row in &report.rows {
        let Some(pacing) = row.pacing else { continue };
        let error = pacing.rate_error.map_or("-".to_owned(), |error| format!("{:+.2} %", error.median * 100.0));
        let (mean, max) = (median(pacing.late_mean_s, Unit::Seconds), median(pacing.late_max_s, Unit::Seconds));
        let asked = format::quantity(pacing.asked_bps, Unit::Bps);
        page.fact(
            &name(row),
            &format!("paced to {asked}: rate {error}; sends late by {mean} on average, {max} at most"),
        );
    }
}

fn name(row: &StreamRow) -> String {
    format!("{} {}", row.path, units::print_bytes(row.block_bytes))
}

fn median(spread: Option<Spread>, unit: Unit) -> String {
    spread.map_or("-".to_owned(), |spread| format::quantity(spread.median, unit))
}

fn number(spread: Option<Spread>) -> String {
    spread.map_or("-".to_owned(), |spread| format::significant(spread.median))
}

fn goodput(page: &mut Page, report: &StreamReport) {
    page.heading(&format!("GOODPUT BY THE {}'S CLOCK (MEDIAN, LEAST, GREATEST)", report.clock.to_uppercase()));
    let other = if report.clock == "sender" { "receiver" } else { "sender" };
    let mut lines = vec![format!(
        "  {:<16}{:>12}{:>12}{:>12}{:>14}{:>12}",
        "block",
        "median",
        "least",
        "greatest",
        format!("{other}'s"),
        "sends/s"
    )];
    for row in &report.rows {
        let end = |pick: fn(Spread) -> f64| {
            row.goodput_bps.map_or("-".to_owned(), |spread| format::quantity(pick(spread), Unit::Bps))
        };
        lines.push(format!(
            "  {:<16}{:>12}{:>12}{:>12}{:>14}{:>12}",
            name(row),
            end(|s| s.median),
            end(|s| s.min),
            end(|s| s.max),
            median(if other == "sender" { row.sender_bps } else { row.receiver_bps }, Unit::Bps),
            median(row.sends_per_s, Unit::PerSecond),
        ));
    }
    page.block(&lines.join("\n"));
    for row in &report.rows {
        if let Some(mean) = row.mean_bps {
            page.paragraph(2, Tone::Plain, &format!("{}: mean {}", name(row), format::quantity(mean, Unit::Bps)));
        }
    }
    best(page, report);
    if let Some(known) = format::known(report.rows.iter().filter_map(|row| row.known.as_ref())) {
        page.paragraph(2, Tone::Faint, &known);
    }
}

/// Adds the configuration with the highest goodput, if there are several configurations.
fn best(page: &mut Page, report: &StreamReport) {
    let measured = report.rows.iter().filter_map(|row| Some((row, row.goodput_bps?.median)));
    if let (2.., Some((row, bps))) = (report.rows.len(), measured.max_by(|a, b| a.1.total_cmp(&b.1))) {
        page.paragraph(2, Tone::Strong, &format!("highest: {} with {}", format::quantity(bps, Unit::Bps), name(row)));
    }
}

fn ends(page: &mut Page, report: &StreamReport) {
    page.heading("CPU OF BOTH ENDS (getrusage; busy: of one CPU; kernel: mean of sys/(sys+user))");
    let mut lines = vec![
        format!("  {:<16}{:^30}{:^30}", "", "sender", "receiver"),
        format!(
            "  {:<16}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "block", "busy", "kernel", "us/KiB", "busy", "kernel", "us/KiB"
        ),
    ];
    for row in &report.rows {
        let end = |cpu: netcliff_core::stream::EndCpu| {
            let kernel = cpu.kernel_share.map_or("-".to_owned(), format::share_short);
            let busy = cpu.busy.map_or("-".to_owned(), |busy| format::share_short(busy.median));
            format!("{busy:>10}{kernel:>10}{:>10}", number(cpu.us_per_kib))
        };
        lines.push(format!("  {:<16}{}{}", name(row), end(row.sender_cpu), end(row.receiver_cpu)));
    }
    page.block(&lines.join("\n"));
    for row in &report.rows {
        let end = |cpu: netcliff_core::stream::EndCpu| {
            format!("{} cycles, {} instructions", number(cpu.cycles_per_byte), number(cpu.instructions_per_byte))
        };
        if row.sender_cpu.cycles_per_byte.is_some() {
            let (sender, receiver) = (end(row.sender_cpu), end(row.receiver_cpu));
            page.paragraph(2, Tone::Plain, &format!("{} a byte: sender {sender}; receiver {receiver}", name(row)));
        }
    }
}

fn host(page: &mut Page, report: &StreamReport) {
    let splits: Vec<Split<'_>> =
        report.rows.iter().map(|row| split(row, &row.system, &row.exact, row.system_us_per_kib)).collect();
    cpus::table(page, "CPUS OF THE HOST (/proc/stat, nice in user; exact: eBPF)", "block", &splits);
    cpus::explain_exact(page, report.rows.iter().any(|row| !row.exact.is_empty()));
    let exact = report.rows.iter().flat_map(|row| row.exact.iter().chain(&row.far_exact));
    cpus::methods(page, exact, &report.cpu_methods);
}

/// Adds the CPUs of the far end's host, if it is another host.
fn far_host(page: &mut Page, report: &StreamReport) {
    if report.rows.iter().any(|row| !row.far_system.is_empty()) {
        let splits: Vec<Split<'_>> =
            report.rows.iter().map(|row| split(row, &row.far_system, &row.far_exact, row.far_us_per_kib)).collect();
        let heading = "CPUS OF THE FAR END'S HOST (its /proc/stat, nice in user; exact: its eBPF)";
        cpus::table(page, heading, "block", &splits);
    }
}

fn split<'a>(row: &StreamRow, cpus: &'a [CpuRow], exact: &'a [ExactRow], us_per_kib: Option<Spread>) -> Split<'a> {
    Split { name: name(row), cpus, exact, demand: Some(format!("{} us/KiB received", number(us_per_kib))) }
}

/// Packets at the receiving side's devices, and the number of them per softirq and per interrupt.
fn received(page: &mut Page, report: &StreamReport) {
    let rows: Vec<_> = report.rows.iter().filter_map(|row| Some((row, row.device?))).collect();
    if rows.iter().all(|(_, device)| device.received_per_s.is_none()) {
        return;
    }
    page.heading("RECEIVED AT THE DEVICE (interrupts and softirqs of all CPUs)");
    let mut lines = vec![
        format!("  {:<16}{:>12}{:>9}{:>10}{:>12}{:>14}", "", "", "bytes", "bytes", "packets", "packets"),
        format!(
            "  {:<16}{:>12}{:>9}{:>10}{:>12}{:>14}",
            "block", "packets", "each", "after GRO", "a softirq", "an interrupt"
        ),
    ];
    for (row, device) in rows {
        lines.push(format!(
            "  {:<16}{:>12}{:>9}{:>10}{:>12}{:>14}",
            name(row),
            median(device.received_per_s, Unit::PerSecond),
            number(device.bytes_per_received),
            number(device.bytes_per_ip_packet),
            number(device.packets_per_softirq),
            number(device.packets_per_interrupt),
        ));
    }
    page.block(&lines.join("\n"));
}
