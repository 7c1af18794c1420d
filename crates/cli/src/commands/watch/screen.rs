//! The screen of `netcliff watch`: what is shown of a [`View`], and what keys do to it.

mod tables;

use netcliff_core::watch::{CpuMoment, InterruptMoment, Moment};
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Table, Wrap};

use tables::{cpu_table, interface_table, interrupt_table, queue_rows, queue_table, queues_untold};

/// CPUs that are shown where interrupts and queues want the room, too; of more, the busiest where they are sorted by load.
const FEW_CPUS: usize = 8;
/// Lines above the tables: title and verdict.
const HEAD_LINES: usize = 3;
/// Rows that a page is.
const PAGE: usize = 10;

/// What is on the screen.
#[derive(Debug, Default)]
pub struct View {
    /// What was seen last.
    pub moment: Moment,
    /// Does not follow.
    pub paused: bool,
    /// By load; by number else.
    pub by_load: bool,
    /// There is a file to record to.
    pub can_record: bool,
    /// It is being written.
    pub recording: bool,
    /// Rows that have gone by at the top of tables that do not fit.
    pub scrolled: usize,
}

impl View {
    /// What a key does; false: it ends the watch.
    pub fn press(&mut self, key: KeyCode) -> bool {
        match key {
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

    /// Not past the end of the longest table.
    fn scroll(&mut self, rows: usize) {
        let moment = &self.moment;
        let longest = moment.cpus.len().max(moment.interrupts.len()).max(queue_rows(moment).len());
        self.scrolled = (self.scrolled + rows).min(longest.saturating_sub(1));
    }

    fn cpus(&self) -> Vec<&CpuMoment> {
        let mut cpus: Vec<&CpuMoment> = self.moment.cpus.iter().collect();
        if self.by_load {
            cpus.sort_by(|a, b| b.busy().total_cmp(&a.busy()));
        }
        cpus
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
    let rows = view.moment.cpus.len() + view.moment.interfaces.len() + below;
    // Three tables' heads.
    u16::try_from(HEAD_LINES + 3 + rows).unwrap_or(u16::MAX)
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
    let cpus = view.cpus();
    let below = below(&view.moment);
    // Three tables' heads.
    let room = usize::from(frame.area().height).saturating_sub(HEAD_LINES + 3 + view.moment.interfaces.len());
    let shown = cpus_shown(cpus.len(), below, room);
    let rows = |count: usize| Constraint::Length(u16::try_from(count + 1).unwrap_or(u16::MAX));
    let [head, verdict, cpu_area, interface_area, rest] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        rows(shown),
        rows(view.moment.interfaces.len()),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    frame.render_widget(title(view), head);
    let words = view.moment.bottleneck();
    frame.render_widget(Paragraph::new(words).bold().wrap(Wrap { trim: true }), verdict);
    let window = Window::of(cpus.len(), shown, view.scrolled);
    with_notes(frame, cpu_area, cpu_table(window.cut(&cpus)), window.more.as_slice());
    frame.render_widget(interface_table(view), interface_area);
    let [left, right] = Layout::horizontal([Constraint::Length(46), Constraint::Min(0)]).areas(rest);
    let room = usize::from(rest.height.saturating_sub(1));
    let interrupts = view.interrupts();
    let window = Window::of(interrupts.len(), room, view.scrolled);
    with_notes(frame, left, interrupt_table(window.cut(&interrupts)), window.more.as_slice());
    let (queues, untold) = (queue_rows(&view.moment), queues_untold(&view.moment));
    let window = Window::of(queues.len(), room.saturating_sub(untold.len()), view.scrolled);
    let notes: Vec<String> = window.more.iter().cloned().chain(untold).collect();
    with_notes(frame, right, queue_table(window.cut(&queues)), &notes);
}

/// A table, and lines below it that have its whole width.
fn with_notes(frame: &mut Frame<'_>, area: Rect, table: Table<'static>, notes: &[String]) {
    let lines = u16::try_from(notes.len()).unwrap_or(u16::MAX);
    let [above, below] = Layout::vertical([Constraint::Min(0), Constraint::Length(lines)]).areas(area);
    frame.render_widget(table, above);
    frame.render_widget(Paragraph::new(notes.join("\n")).dim(), below);
}

/// Rows for CPUs where so many lines are there for them and for what is below: all that do not take a line from that, else what
/// that leaves, and never less than a few or a half.
fn cpus_shown(cpus: usize, below: usize, room: usize) -> usize {
    cpus.min(room.saturating_sub(below).max(FEW_CPUS).max(room / 2)).min(room)
}

/// Rows that interrupts and queues, side by side, want.
fn below(moment: &Moment) -> usize {
    moment.interrupts.len().max(queue_rows(moment).len() + queues_untold(moment).len())
}

/// The rows of a table that fit, and what is said of the others in the last of them.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    /// The first that is shown.
    start: usize,
    /// So many are.
    rows: usize,
    /// Of the others.
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

    /// The rows themselves.
    fn cut<'a, T>(&self, rows: &'a [T]) -> &'a [T] {
        let end = (self.start + self.rows).min(rows.len());
        &rows[self.start.min(end)..end]
    }
}

fn title(view: &View) -> Line<'static> {
    let mut state = vec![format!("{:.1} s", view.moment.seconds)];
    state.extend(view.paused.then(|| "paused".to_owned()));
    state.extend(view.recording.then(|| "recording".to_owned()));
    state.extend(view.by_load.then(|| "by load".to_owned()));
    let keys = if view.can_record {
        "q quit p pause s sort r rec \u{2191}\u{2193}"
    } else {
        "q quit, p pause, s sort, \u{2191}\u{2193} PgUp PgDn rows"
    };
    Line::from(format!("netcliff watch: {}   {keys}", state.join(", "))).dim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::watch::{InterfaceMoment, QueueMoment};

    fn view() -> View {
        let cpu = |cpu, softirq| CpuMoment {
            cpu,
            user: 0.125,
            softirq,
            idle: 0.875 - softirq,
            packets_per_s: 1e6 * softirq,
            packets_per_softirq: (softirq > 0.0).then_some(42.25),
            ..CpuMoment::default()
        };
        let interrupt = |number, per_s| InterruptMoment {
            interface: "eth0".into(),
            number,
            name: format!("eth0-TxRx-{}", number - 40),
            per_s,
            cpu: (per_s > 0.0).then_some(number - 40),
        };
        let queue = |queue, receive| QueueMoment {
            queue,
            receive,
            packets_per_s: 250e3,
            dropped_per_s: receive.then_some(3.0),
        };
        let interface = InterfaceMoment {
            name: "eth0".into(),
            rx_pps: 500e3,
            rx_bps: 256e6,
            tx_pps: 12.0,
            tx_bps: 9e3,
            ring_lost_per_s: 3.0,
            dropped_per_s: 0.0,
            link_bps: Some(1e10),
            queues: vec![queue(0, true), queue(1, true), queue(0, false)],
        };
        let moment = Moment {
            seconds: 1.0,
            cpus: vec![cpu(0, 0.0), cpu(1, 0.5)],
            interrupts: vec![interrupt(40, 0.0), interrupt(41, 12_345.0)],
            interfaces: vec![interface],
        };
        View { moment, ..View::default() }
    }

    #[test]
    fn the_screen_of_80_by_24() {
        insta::assert_snapshot!("watch_80x24", text(&view(), 80, 24));
        let many = View { moment: Moment { cpus: vec![CpuMoment::default(); 64], ..view().moment }, ..view() };
        let shown = |height| text(&many, 80, height).lines().filter(|line| line.starts_with("   0 ")).count();
        // One line of them says how many more there are; a tall terminal shows all.
        assert_eq!((shown(24), shown(60), shown(120)), (13, 49, 64));
        assert!(text(&many, 80, 24).contains("51 more below"), "{}", text(&many, 80, 24));
        // Too small a screen shows less and does not fail.
        assert!(text(&view(), 20, 3).contains("netcliff watch"));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_reached_by_keys() {
        let mut many = view();
        let one = many.moment.interrupts[0].clone();
        many.moment.interrupts = (100..140).map(|number| InterruptMoment { number, ..one.clone() }).collect();
        let seen = text(&many, 80, 24);
        // Two CPUs and one interface leave 15 rows, the last of which tells of the others.
        assert!(seen.contains(" 100 ") && seen.contains("26 more below") && !seen.contains(" 114 "), "{seen}");
        many.press(KeyCode::Down);
        many.press(KeyCode::PageDown);
        let seen = text(&many, 80, 24);
        assert!(seen.contains(" 111 ") && seen.contains("11 more above, 15 below"), "{seen}");
        assert!((0..9).all(|_| many.press(KeyCode::PageDown)));
        let seen = text(&many, 80, 24);
        assert!(seen.contains(" 139 ") && seen.contains("26 more above"), "{seen}");
        assert!((0..9).all(|_| many.press(KeyCode::PageUp)));
        assert!(text(&many, 80, 24).contains(" 100 "));
        assert!(!text(&many, 80, height(&many)).contains("more"), "all of it where there is room");
    }

    #[test]
    fn rows_for_cpus() {
        assert_eq!((cpus_shown(4, 6, 16), cpus_shown(64, 6, 16), cpus_shown(64, 30, 17)), (4, 10, 8));
        assert_eq!((cpus_shown(64, 30, 60), cpus_shown(64, 6, 100), cpus_shown(64, 6, 2)), (30, 64, 2));
    }

    #[test]
    fn a_driver_that_tells_no_queues_is_named() {
        let mut view = view();
        view.moment.interfaces[0].queues.clear();
        let seen = text(&view, 80, 24);
        assert!(seen.contains("eth0: not told by this driver"), "{seen}");
    }

    #[test]
    fn keys() {
        let mut view = View { can_record: true, ..view() };
        for key in ['p', 's', 'r'] {
            assert!(view.press(KeyCode::Char(key)));
        }
        assert!(view.paused && view.by_load && view.recording);
        assert!(text(&view, 80, 24).contains("paused, recording, by load"));
        assert_eq!((view.cpus()[0].cpu, view.interrupts()[0].number), (1, 41));
        view.press(KeyCode::Char('r'));
        assert!(!view.recording);
        let mut without = View::default();
        without.press(KeyCode::Char('r'));
        assert!(!without.recording, "there is no file");
        assert!(!without.press(KeyCode::Char('q')));
    }
}
