//! The tables of the screen.

use netcliff_core::watch::{CpuMoment, InterfaceMoment, InterruptMoment, Moment, QueueMoment};
use netcliff_report::format::{Unit, quantity};
use ratatui::layout::Constraint;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

fn header(names: impl IntoIterator<Item = &'static str>) -> Row<'static> {
    Row::new(names.into_iter().map(str::to_owned).collect::<Vec<_>>()).style(Style::new().underlined())
}

fn columns(widths: &[u16]) -> Vec<Constraint> {
    widths.iter().map(|width| Constraint::Length(*width)).collect()
}

fn right(text: impl std::fmt::Display, width: usize) -> String {
    format!("{text:>width$}")
}

/// Columns of the CPU table next to the bar, with the gaps between them.
const BESIDE_BAR: u16 = 70;
/// The longest bar: more columns would show nothing more.
const LONGEST_BAR: u16 = 40;

/// The time of a CPU as a bar of letters, which work without colour: u user, s system, i interrupts, p softirqs, t
/// hypervisor.
fn bar(cpu: &CpuMoment, width: u16) -> Line<'static> {
    let parts = [
        (cpu.user, 'u', Color::Green),
        (cpu.system, 's', Color::Red),
        (cpu.irq, 'i', Color::Magenta),
        (cpu.softirq, 'p', Color::Yellow),
        (cpu.steal, 't', Color::Blue),
    ];
    // Round the ends of the parts and not their lengths, so that the bar's length is the rounded sum.
    let end = |share: f64| (share.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let (mut sum, mut spans) = (0.0, Vec::new());
    for (share, letter, colour) in parts {
        let from = end(sum);
        sum += share;
        spans.push(Span::styled(letter.to_string().repeat(end(sum) - from), colour));
    }
    Line::from(spans)
}

pub(super) fn cpu_table(cpus: &[&CpuMoment], width: u16) -> Table<'static> {
    let bar_width = width.saturating_sub(BESIDE_BAR).clamp(1, LONGEST_BAR);
    let share = |value: f64, width: usize| Line::from(right(format!("{:.0}", 100.0 * value), width));
    let row = |cpu: &&CpuMoment| {
        let batch = cpu.packets_per_softirq.map_or("-".to_owned(), |packets| format!("{packets:.1}"));
        let number = |text: String, width: usize| Line::from(right(text, width));
        Row::new([
            number(cpu.cpu.to_string(), 3),
            bar(cpu, bar_width),
            share(cpu.user, 4),
            share(cpu.system, 3),
            share(cpu.irq, 3),
            share(cpu.softirq, 4),
            share(cpu.steal, 5),
            share(cpu.idle, 4),
            number(quantity(cpu.packets_per_s, Unit::Pps), 10),
            number(batch, 9),
            number(format!("{:.0}", cpu.dropped_per_s), 7),
            number(format!("{:.0}", cpu.squeezed_per_s), 7),
        ])
    };
    let names = [
        "CPU",
        "CPU time %",
        "user",
        "sys",
        "irq",
        "soft",
        "steal",
        "idle",
        "   packets",
        "pkts/soft",
        "bklog/s",
        "squeeze",
    ];
    let widths = [3, bar_width, 4, 3, 3, 4, 5, 4, 10, 9, 7, 7];
    Table::new(cpus.iter().map(row), columns(&widths)).header(header(names))
}

/// The table of interfaces. If it has devices of other namespaces, whose names are long, both losses share one column
/// on a narrow screen.
pub(super) fn interface_table(interfaces: &[&InterfaceMoment], width: u16) -> Table<'static> {
    let elsewhere = interfaces.iter().any(|one| one.namespace.is_some());
    let together = elsewhere && width < 100;
    let longest = interfaces.iter().map(|one| one.whole_name().chars().count()).max().unwrap_or(0);
    let most = usize::from(width.saturating_sub(if together { 60 } else { 68 })).max(12);
    let name_width = longest.clamp(12, most);
    let rows = interfaces.iter().map(|one| {
        let mut cells = vec![
            shortened(&one.whole_name(), name_width),
            right(quantity(one.rx_pps, Unit::Pps), 10),
            right(quantity(one.rx_bps, Unit::Bps), 12),
            right(quantity(one.tx_pps, Unit::Pps), 10),
            right(quantity(one.tx_bps, Unit::Bps), 12),
        ];
        if together {
            cells.push(right(format!("{:.0}", one.ring_lost_per_s + one.dropped_per_s + one.qdisc_lost_per_s), 8));
        } else {
            cells.push(right(format!("{:.0}", one.ring_lost_per_s), 8));
            cells.push(right(format!("{:.0}", one.dropped_per_s + one.qdisc_lost_per_s), 8));
        }
        Row::new(cells)
    });
    let mut names = vec![
        "interface",
        "  received",
        "            ",
        "      sent",
        "            ",
        if together { "  lost/s" } else { "missed/s" },
    ];
    let mut widths = vec![u16::try_from(name_width).unwrap_or(u16::MAX), 10, 12, 10, 12, 8];
    if !together {
        names.push(" drops/s");
        widths.push(8);
    }
    Table::new(rows.collect::<Vec<_>>(), columns(&widths)).header(header(names))
}

/// Shortens a name in its middle: its end identifies the device.
fn shortened(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    let tail = (width - 1) * 2 / 3;
    let head: String = name.chars().take(width - 1 - tail).collect();
    head + "~" + &name.chars().skip(count - tail).collect::<String>()
}

pub(super) fn interrupt_table(interrupts: &[&InterruptMoment], width: u16) -> Table<'static> {
    // The width that the other columns and the gaps leave.
    let name = width.saturating_sub(23).clamp(12, 40);
    let rows = interrupts.iter().map(|one| {
        let cpu = one.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        Row::new([
            right(one.number, 4),
            one.name.clone(),
            right(quantity(one.per_s, Unit::PerSecond), 10),
            right(cpu, 4),
        ])
    });
    let names = [" irq", "interrupt", "per second", " CPU"];
    Table::new(rows.collect::<Vec<_>>(), columns(&[4, name, 10, 4])).header(header(names))
}

/// The rows of the table of queues, one for each queue.
pub(super) fn queue_rows(moment: &Moment) -> Vec<Row<'static>> {
    let of = |one: &InterfaceMoment| one.queues.iter().map(|queue| queue_row(&one.name, queue)).collect::<Vec<_>>();
    moment.interfaces.iter().flat_map(of).collect()
}

/// A sentence for each interface whose driver does not report its queues.
pub(super) fn queues_untold(moment: &Moment) -> Vec<String> {
    let untold = moment.interfaces.iter().filter(|one| one.queues.is_empty() && one.namespace.is_none());
    untold.map(|one| format!("{}: not reported by this driver", one.name)).collect()
}

fn queue_row(interface: &str, queue: &QueueMoment) -> Row<'static> {
    let way = if queue.receive { "rx" } else { "tx" };
    let drops = queue.dropped_per_s.map_or("-".to_owned(), |drops| format!("{drops:.0}"));
    Row::new([
        format!("│ {interface} {way} {}", queue.queue),
        right(quantity(queue.packets_per_s, Unit::Pps), 10),
        right(drops, 7),
    ])
}

pub(super) fn queue_table(rows: &[Row<'static>]) -> Table<'static> {
    let names = ["│ queue", "   packets", "drops/s"];
    Table::new(rows.to_vec(), columns(&[15, 10, 7])).header(header(names))
}
