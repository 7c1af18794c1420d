//! The tables of the screen.

use netcliff_core::watch::{CpuMoment, InterfaceMoment, InterruptMoment, Moment, QueueMoment};
use netcliff_report::format::{Unit, quantity};
use ratatui::layout::Constraint;
use ratatui::style::Style;
use ratatui::widgets::{Row, Table};

use super::View;

fn header(names: impl IntoIterator<Item = &'static str>) -> Row<'static> {
    Row::new(names.into_iter().map(str::to_owned).collect::<Vec<_>>()).style(Style::new().underlined())
}

fn columns(widths: &[u16]) -> Vec<Constraint> {
    widths.iter().map(|width| Constraint::Length(*width)).collect()
}

fn right(text: impl std::fmt::Display, width: usize) -> String {
    format!("{text:>width$}")
}

pub(super) fn cpu_table(cpus: &[&CpuMoment]) -> Table<'static> {
    let share = |value: f64| right(format!("{:.0}", 100.0 * value), 5);
    let row = |cpu: &&CpuMoment| {
        let batch = cpu.packets_per_softirq.map_or("-".to_owned(), |packets| format!("{packets:.1}"));
        Row::new([
            right(cpu.cpu, 4),
            share(cpu.user),
            share(cpu.system),
            share(cpu.irq),
            right(format!("{:.0}", 100.0 * cpu.softirq), 6),
            share(cpu.steal),
            share(cpu.idle),
            right(quantity(cpu.packets_per_s, Unit::Pps), 10),
            right(batch, 9),
            right(format!("{:.0}", cpu.dropped_per_s), 8),
            right(format!("{:.0}", cpu.squeezed_per_s), 7),
        ])
    };
    let names = [
        " CPU",
        "user%",
        " sys%",
        " irq%",
        " soft%",
        "steal",
        "idle%",
        "   packets",
        "a softirq",
        " drops/s",
        "short/s",
    ];
    Table::new(cpus.iter().map(row), columns(&[4, 5, 5, 5, 6, 5, 5, 10, 9, 8, 7])).header(header(names))
}

pub(super) fn interface_table(view: &View) -> Table<'static> {
    let rows = view.moment.interfaces.iter().map(|one| {
        Row::new([
            one.name.clone(),
            right(quantity(one.rx_pps, Unit::Pps), 10),
            right(quantity(one.rx_bps, Unit::Bps), 12),
            right(quantity(one.tx_pps, Unit::Pps), 10),
            right(quantity(one.tx_bps, Unit::Bps), 12),
            right(format!("{:.0}", one.ring_lost_per_s), 8),
            right(format!("{:.0}", one.dropped_per_s), 8),
        ])
    });
    let names = ["interface", "  received", "            ", "      sent", "            ", "  lost/s", " drops/s"];
    Table::new(rows.collect::<Vec<_>>(), columns(&[12, 10, 12, 10, 12, 8, 8])).header(header(names))
}

pub(super) fn interrupt_table(interrupts: &[&InterruptMoment]) -> Table<'static> {
    let rows = interrupts.iter().map(|one| {
        let cpu = one.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        Row::new([
            right(one.number, 4),
            one.name.clone(),
            right(quantity(one.per_s, Unit::PerSecond), 10),
            right(cpu, 4),
        ])
    });
    let names = [" irq", "name", "     taken", " CPU"];
    Table::new(rows.collect::<Vec<_>>(), columns(&[4, 23, 10, 4])).header(header(names))
}

/// A row a queue.
pub(super) fn queue_rows(moment: &Moment) -> Vec<Row<'static>> {
    let of = |one: &InterfaceMoment| one.queues.iter().map(|queue| queue_row(&one.name, queue)).collect::<Vec<_>>();
    moment.interfaces.iter().flat_map(of).collect()
}

/// What is said of interfaces whose queues nobody tells.
pub(super) fn queues_untold(moment: &Moment) -> Vec<String> {
    let untold = moment.interfaces.iter().filter(|one| one.queues.is_empty());
    untold.map(|one| format!("{}: not told by this driver", one.name)).collect()
}

fn queue_row(interface: &str, queue: &QueueMoment) -> Row<'static> {
    let way = if queue.receive { "rx" } else { "tx" };
    let drops = queue.dropped_per_s.map_or("-".to_owned(), |drops| format!("{drops:.0}"));
    Row::new([
        format!("{interface} {way} {}", queue.queue),
        right(quantity(queue.packets_per_s, Unit::Pps), 10),
        right(drops, 7),
    ])
}

pub(super) fn queue_table(rows: &[Row<'static>]) -> Table<'static> {
    let names = ["queue", "   packets", "drops/s"];
    Table::new(rows.to_vec(), columns(&[13, 10, 7])).header(header(names))
}
