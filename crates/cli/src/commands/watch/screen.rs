//! The screen of `netcliff watch`: what is shown of a [`View`], and what keys do to it.

use netcliff_core::watch::{CpuMoment, InterruptMoment, Moment};
use netcliff_report::format::{Unit, quantity};
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, Wrap};

/// CPUs shown; of more, the busiest where they are sorted by load.
const MOST_CPUS: usize = 8;

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
}

impl View {
    /// What a key does; false: it ends the watch.
    pub fn press(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p') | KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.by_load = !self.by_load,
            KeyCode::Char('r') => self.recording = self.can_record && !self.recording,
            _ => {}
        }
        true
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
    let queues: usize = view.moment.interfaces.iter().map(|one| one.queues.len()).sum();
    let rows =
        view.moment.cpus.len().min(MOST_CPUS) + view.moment.interfaces.len() + view.moment.interrupts.len() + queues;
    u16::try_from(rows + 8).unwrap_or(u16::MAX)
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
    let shown = cpus.len().min(MOST_CPUS);
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
    frame.render_widget(cpu_table(&cpus[..shown]), cpu_area);
    frame.render_widget(interface_table(view), interface_area);
    let [left, right] = Layout::horizontal([Constraint::Length(46), Constraint::Min(0)]).areas(rest);
    frame.render_widget(interrupt_table(view), left);
    frame.render_widget(queue_table(view), right);
}

fn title(view: &View) -> Line<'static> {
    let mut state = vec![format!("{:.1} s", view.moment.seconds)];
    state.extend(view.paused.then(|| "paused".to_owned()));
    state.extend(view.recording.then(|| "recording".to_owned()));
    state.extend(view.by_load.then(|| "by load".to_owned()));
    let keys = if view.can_record { "q quit p pause s sort r rec" } else { "q quit, p pause, s sort" };
    Line::from(format!("netcliff watch: {}   {keys}", state.join(", "))).dim()
}

fn header(names: impl IntoIterator<Item = &'static str>) -> Row<'static> {
    Row::new(names.into_iter().map(str::to_owned).collect::<Vec<_>>()).style(Style::new().underlined())
}

fn columns(widths: &[u16]) -> Vec<Constraint> {
    widths.iter().map(|width| Constraint::Length(*width)).collect()
}

fn right(text: impl std::fmt::Display, width: usize) -> String {
    format!("{text:>width$}")
}

fn cpu_table(cpus: &[&CpuMoment]) -> Table<'static> {
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

fn interface_table(view: &View) -> Table<'static> {
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

fn interrupt_table(view: &View) -> Table<'static> {
    let rows = view.interrupts().into_iter().map(|one| {
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

fn queue_table(view: &View) -> Table<'static> {
    let rows = view.moment.interfaces.iter().flat_map(|interface| {
        interface.queues.iter().map(|queue| {
            let way = if queue.receive { "rx" } else { "tx" };
            let drops = queue.dropped_per_s.map_or("-".to_owned(), |drops| format!("{drops:.0}"));
            Row::new([
                format!("{} {way} {}", interface.name, queue.queue),
                right(quantity(queue.packets_per_s, Unit::Pps), 10),
                right(drops, 7),
            ])
        })
    });
    let names = ["queue", "   packets", "drops/s"];
    Table::new(rows.collect::<Vec<_>>(), columns(&[13, 10, 7])).header(header(names))
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
        assert_eq!(text(&many, 80, 24).lines().filter(|line| line.starts_with("   0 ")).count(), MOST_CPUS);
        // Too small a screen shows less and does not fail.
        assert!(text(&view(), 20, 3).contains("netcliff watch"));
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
