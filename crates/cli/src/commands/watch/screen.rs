//! The screen of `netcliff watch`: how a [`View`] is shown, and what keys do to it.

mod tables;

use netcliff_core::watch::{CpuMoment, InterfaceMoment, InterruptMoment, Moment};
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Table, Wrap};

use tables::{cpu_table, interface_table, interrupt_table, queue_rows, queue_table, queues_untold};

/// Most columns that the screen uses: related figures stay close together.
const WIDEST: u16 = 120;
/// The least terminal that shows anything (columns, lines).
const LEAST: (u16, u16) = (72, 12);

/// Number of CPUs shown if interrupts and queues need the lines, too. If sorted by load, these are the busiest CPUs.
const FEW_CPUS: usize = 8;
/// Lines above the tables: title and verdict.
const HEAD_LINES: usize = 3;
/// Rows of a page.
const PAGE: usize = 10;

/// The state of the screen: what is shown, and how.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The last sample.
    pub moment: Moment,
    /// Length of the first interval (s), until it ends and gives the first sample. `None` afterwards.
    pub first_s: Option<f64>,
    /// True: the view does not follow new samples.
    pub paused: bool,
    /// True: sorted by load; false: by number.
    pub by_load: bool,
    /// True: there is a file to record to.
    pub can_record: bool,
    /// True: the file is being written.
    pub recording: bool,
    /// True: devices of all network namespaces are watched.
    pub all: bool,
    /// True: one sample is printed, and there are no keys.
    pub once: bool,
    /// True: keys and columns are explained.
    pub help: bool,
    /// Rows scrolled out at the top of tables that do not fit.
    pub scrolled: usize,
}

impl View {
    /// Handles a key. Returns false if the key ends the watch.
    pub fn press(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p') | KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.by_load = !self.by_load,
            KeyCode::Char('r') => self.recording = self.can_record && !self.recording,
            KeyCode::Down => self.scroll(1),
            KeyCode::PageDown => self.scroll(PAGE),
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::Home => self.scrolled = 0,
            _ => {}
        }
        true
    }

    /// Scrolls, not past the end of the longest table.
    fn scroll(&mut self, rows: usize) {
        let moment = &self.moment;
        let tables = [moment.cpus.len(), moment.interfaces.len(), moment.interrupts.len(), queue_rows(moment).len()];
        let longest = tables.into_iter().max().unwrap_or(0);
        self.scrolled = (self.scrolled + rows).min(longest.saturating_sub(1));
    }

    fn cpus(&self) -> Vec<&CpuMoment> {
        let mut cpus: Vec<&CpuMoment> = self.moment.cpus.iter().collect();
        if self.by_load {
            cpus.sort_by(|a, b| b.busy().total_cmp(&a.busy()));
        }
        cpus
    }

    /// The interfaces, those with most packets first if they are sorted by load.
    fn interfaces(&self) -> Vec<&InterfaceMoment> {
        let mut interfaces: Vec<&InterfaceMoment> = self.moment.interfaces.iter().collect();
        if self.by_load {
            interfaces.sort_by(|a, b| (b.rx_pps + b.tx_pps).total_cmp(&(a.rx_pps + a.tx_pps)));
        }
        interfaces
    }

    fn interrupts(&self) -> Vec<&InterruptMoment> {
        let mut interrupts: Vec<&InterruptMoment> = self.moment.interrupts.iter().collect();
        if self.by_load {
            interrupts.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
        }
        interrupts
    }
}

/// Lines that a view needs.
pub fn height(view: &View) -> u16 {
    let below = below(&view.moment);
    let rows = view.moment.cpus.len() + view.moment.interfaces.len().max(1) + below + named(&view.moment).len();
    // Three tables' heads.
    u16::try_from(HEAD_LINES + 3 + rows).unwrap_or(u16::MAX).max(LEAST.1)
}

/// The view as text.
pub fn text(view: &View, width: u16, height: u16) -> String {
    // The backend keeps cells in memory and cannot fail.
    let Ok(mut terminal) = ratatui::Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| draw(frame, view));
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Draws a view.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let whole = frame.area();
    let area = Rect { width: whole.width.min(WIDEST), ..whole };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (columns, lines) = (area.width, area.height);
        let words = format!(
            "The terminal is too small: netcliff watch needs {} columns and {} lines, this one has {columns} and {lines}.",
            LEAST.0, LEAST.1
        );
        return frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
    }
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(title(view), head);
    if view.help {
        return frame.render_widget(Paragraph::new(help::lines(view)), body);
    }
    if let Some(first_s) = view.first_s {
        let words = format!("measuring the first interval of {}", netcliff_core::units::print_time_s(first_s));
        return frame.render_widget(Paragraph::new(words), body);
    }
    tables(frame, body, view);
}

/// Draws the verdict and the tables.
fn tables(frame: &mut Frame<'_>, body: Rect, view: &View) {
    let (cpus, interfaces) = (view.cpus(), view.interfaces());
    // The verdict, and three tables' heads.
    let room = usize::from(body.height).saturating_sub(HEAD_LINES - 1 + 3);
    let mut named = named(&view.moment);
    // On a small screen the tables come first.
    let tables = cpus.len() + interfaces.len().max(1) + below(&view.moment);
    named.truncate(room.saturating_sub(tables).max(room / 3));
    let room = room - named.len();
    let links = interfaces_shown(interfaces.len(), cpus.len() + below(&view.moment), room);
    let room = room - links;
    let shown = cpus_shown(cpus.len(), below(&view.moment), room);
    let rows = |count: usize| Constraint::Length(u16::try_from(count + 1).unwrap_or(u16::MAX));
    let names = Constraint::Length(u16::try_from(named.len()).unwrap_or(u16::MAX));
    let areas = [Constraint::Length(2), names, rows(shown), rows(links), Constraint::Min(0)];
    let [verdict, name_area, cpu_area, interface_area, rest] = Layout::vertical(areas).areas(body);
    frame.render_widget(Paragraph::new(named.join("\n")), name_area);
    let words = view.moment.bottleneck();
    frame.render_widget(Paragraph::new(words).bold().wrap(Wrap { trim: true }), verdict);
    let window = Window::of(cpus.len(), shown, view.scrolled);
    with_notes(frame, cpu_area, cpu_table(window.cut(&cpus), body.width), window.rows, window.more.as_slice());
    let window = Window::of(interfaces.len(), links, view.scrolled);
    let none = interfaces.is_empty().then(|| no_interface(view));
    let notes: Vec<String> = window.more.iter().cloned().chain(none).collect();
    with_notes(frame, interface_area, interface_table(window.cut(&interfaces), body.width), window.rows, &notes);
    if view.moment.interrupts.is_empty() && queue_rows(&view.moment).is_empty() {
        // Two tables without rows would only show headings.
        let untold: Vec<String> =
            queues_untold(&view.moment).into_iter().map(|said| format!("queues of {said}")).collect();
        return frame.render_widget(Paragraph::new(untold.join("\n")).dim(), rest);
    }
    let side = [Constraint::Length(body.width * 23 / 40), Constraint::Min(0)];
    let [left, right] = Layout::horizontal(side).areas(rest);
    let room = usize::from(rest.height.saturating_sub(1));
    let interrupts = view.interrupts();
    let window = Window::of(interrupts.len(), room, view.scrolled);
    let more = window.more.as_slice();
    with_notes(frame, left, interrupt_table(window.cut(&interrupts), left.width), window.rows, more);
    let (queues, untold) = (queue_rows(&view.moment), queues_untold(&view.moment));
    let window = Window::of(queues.len(), room.saturating_sub(untold.len()), view.scrolled);
    let notes: Vec<String> = window.more.iter().cloned().chain(untold).collect();
    with_notes(frame, right, queue_table(window.cut(&queues)), window.rows, &notes);
}

/// Lines on losses with their places, then on the programs with most CPU time: at most three of each kind.
fn named(moment: &Moment) -> Vec<String> {
    /// Largest number of lines of each kind.
    const MOST: usize = 3;
    /// A program is named if it uses at least this share of a CPU.
    const NAMED: f64 = 0.05;
    let mut programs: Vec<_> = moment.programs.iter().filter(|program| program.share >= NAMED).collect();
    programs.sort_by(|a, b| b.share.total_cmp(&a.share));
    let programs = programs.into_iter().take(MOST).map(|program| format!("  {}", program.sentence()));
    let lost = moment.lost().into_iter().take(MOST).map(|lost| format!("  packets lost at {lost}"));
    lost.chain(programs).map(|line| netcliff_report::format::printable(&line).to_string()).collect()
}

fn no_interface(view: &View) -> String {
    let more = if view.all { "" } else { "; --all shows those of other network namespaces" };
    format!("no interface is up here{more}")
}

/// Number of rows for interfaces if all tables have `room` lines and the others need `others`: one line if there is no
/// interface; otherwise at most a third of the room, or what the others leave if that is more.
fn interfaces_shown(interfaces: usize, others: usize, room: usize) -> usize {
    interfaces.clamp(1, (room / 3).max(room.saturating_sub(others)).max(1)).min(room)
}

/// Draws a table of `rows` rows, and lines below it that have the table's whole width.
fn with_notes(frame: &mut Frame<'_>, area: Rect, table: Table<'static>, rows: usize, notes: &[String]) {
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let areas = [Constraint::Max(lines(rows + 1)), Constraint::Length(lines(notes.len())), Constraint::Min(0)];
    let [above, below, _] = Layout::vertical(areas).areas(area);
    frame.render_widget(table, above);
    frame.render_widget(Paragraph::new(notes.join("\n")).dim(), below);
}

/// Number of rows for CPUs, if the screen has `room` lines for these and `below` lines for the rest. All CPUs are shown
/// if they take no line from the rest; otherwise what the rest leaves, but at least a few rows or half of the room.
fn cpus_shown(cpus: usize, below: usize, room: usize) -> usize {
    cpus.min(room.saturating_sub(below).max(FEW_CPUS).max(room / 2)).min(room)
}

/// Rows that interrupts and queues, side by side, need.
fn below(moment: &Moment) -> usize {
    moment.interrupts.len().max(queue_rows(moment).len() + queues_untold(moment).len())
}

/// The part of a table that fits its area, with a note on the hidden rows in the last line.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    /// Index of the first row that is shown.
    start: usize,
    /// Number of rows shown.
    rows: usize,
    /// Note on the rows that are not shown. `None` if all rows are shown.
    more: Option<String>,
}

impl Window {
    fn of(rows: usize, room: usize, scrolled: usize) -> Self {
        if rows <= room {
            return Self { start: 0, rows, more: None };
        }
        let fit = room.saturating_sub(1);
        let start = scrolled.min(rows - fit);
        let (above, below) = (start, rows - fit - start);
        let more = match (above, below) {
            (0, below) => format!("{below} more below"),
            (above, 0) => format!("{above} more above"),
            (above, below) => format!("{above} more above, {below} below"),
        };
        Self { start, rows: fit, more: Some(more) }
    }

    /// The rows that are shown.
    fn cut<'a, T>(&self, rows: &'a [T]) -> &'a [T] {
        let end = (self.start + self.rows).min(rows.len());
        &rows[self.start.min(end)..end]
    }
}

/// The title line. In any state it fits the narrowest screen, with the key that explains the others.
fn title(view: &View) -> Line<'static> {
    let seconds = view.moment.seconds;
    let mut state =
        vec![if view.once { format!("one sample over {seconds:.1} s") } else { format!("every {seconds:.1} s") }];
    state.extend(view.all.then(|| "all".to_owned()));
    state.extend(view.paused.then(|| "paused".to_owned()));
    state.extend(view.recording.then(|| "recording".to_owned()));
    state.extend(view.by_load.then(|| "by load".to_owned()));
    let keys = if view.once { "" } else { "   ? help, q quit" };
    Line::from(format!("netcliff watch: {}{keys}", state.join(", "))).dim()
}

#[cfg(test)]
mod tests;

mod help {
    //! The help that `?` shows.

    use ratatui::text::Line;

    use super::View;

    /// Lines on keys and columns. All of them fit 80 columns and 23 lines.
    pub(super) fn lines(view: &View) -> Vec<Line<'static>> {
        let record = if view.can_record { "start and stop recording" } else { "record: only with --record FILE" };
        let keys = [
            ("? or h", "this help, and back"),
            ("q or Esc", "quit"),
            ("p or space", "pause, or continue"),
            ("s", "sort by load, or by number"),
            ("r", record),
            ("arrows, PgUp, PgDn, Home", "move the rows of tables that do not fit"),
        ];
        let columns = [
            (
                "CPU time %",
                "u user, s system, i interrupts, p softirqs (packets), t stolen by the hypervisor; then as numbers",
            ),
            ("packets", "packets/s that the CPU's softirqs received from queues and its backlog"),
            ("pkts/soft", "mean packets per receive softirq; one softirq may run several polls"),
            ("bklog/s", "packets/s lost because the CPU's backlog was full"),
            (
                "squeeze",
                "softirqs/s that ended with packets left: netdev_budget or its time was used up (time_squeeze)",
            ),
            ("missed/s", "packets/s lost because the ring was full; drops/s: in driver, stack or queueing discipline"),
            ("irq", "interrupts of the queues, per second, and the CPU that handles most of them"),
            (
                "queue",
                "a table of its own, right of the interrupts: packets/s and drops/s of each queue, if the driver reports them",
            ),
        ];
        let line = |(name, words): (&str, &str), width: usize| wrapped(&format!("  {name:<width$} "), words);
        let mut lines = vec![Line::from("Keys")];
        lines.extend(keys.into_iter().flat_map(|key| line(key, 24)));
        lines.push(Line::from("Columns"));
        lines.extend(columns.into_iter().flat_map(|column| line(column, 10)));
        lines
    }

    fn wrapped(first: &str, words: &str) -> Vec<Line<'static>> {
        const COLUMNS: usize = 72;
        let rest = " ".repeat(first.chars().count());
        netcliff_report::format::lines(words, COLUMNS, first, &rest).into_iter().map(Line::from).collect()
    }
}
