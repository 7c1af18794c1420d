//! The help that `?` shows.

use ratatui::text::Line;

use super::View;

/// Keys, and what the columns are; all of it fits 80 columns and 23 lines.
pub(super) fn lines(view: &View) -> Vec<Line<'static>> {
    let record = if view.can_record { "start and stop recording" } else { "record: only with --record FILE" };
    let keys = [
        ("? or h", "this help, and back"),
        ("q or Esc", "quit"),
        ("p or space", "pause, and go on"),
        ("s", "sort by load, or by number"),
        ("r", record),
        ("arrows, PgUp, PgDn, Home", "move the rows of tables that do not fit"),
    ];
    let columns = [
        ("bar", "a CPU: u user, s system, i interrupts, p softirqs (packets), t taken by the hypervisor"),
        ("packets", "packets/s that its softirqs took from queues and backlog"),
        ("a softirq", "packets in a receive softirq; several polls may share one"),
        ("drops/s", "packets lost at the CPU's backlog; of an interface, by its driver or the stack"),
        ("short/s", "softirq rounds that ended with packets left: budget or time was used up"),
        ("lost/s", "packets that the interface's ring had no room for"),
        ("irq", "interrupts of queues, how often they were taken, and the CPU that took most"),
        ("queue", "packets/s of each queue, and drops, as far as the driver tells"),
    ];
    let line = |(name, words): (&str, &str), width: usize| wrapped(&format!("  {name:<width$} "), words);
    let mut lines = vec![Line::from("Keys")];
    lines.extend(keys.into_iter().flat_map(|key| line(key, 24)));
    lines.push(Line::from("Columns"));
    lines.extend(columns.into_iter().flat_map(|column| line(column, 9)));
    lines
}

fn wrapped(first: &str, words: &str) -> Vec<Line<'static>> {
    const COLUMNS: usize = 72;
    let rest = " ".repeat(first.chars().count());
    netcliff_report::format::lines(words, COLUMNS, first, &rest).into_iter().map(Line::from).collect()
}
