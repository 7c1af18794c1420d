//! `netcliff watch`.

mod keys;
mod screen;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use netcliff_core::watch::Moment;
use netcliff_host::files::{self, Appender};
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::watch::{Look, namespaces_refused};
use netcliff_report::format;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use serde::Serialize;
use serde_json::json;

use crate::args::{StoreArgs, WatchArgs};
use crate::live;
use crate::output;
use keys::Keys;
use screen::View;

/// A line of JSON: a time and the moment's values.
#[derive(Serialize)]
struct Line<'a> {
    unix_s: f64,
    bottleneck: String,
    #[serde(flatten)]
    moment: &'a Moment,
}

/// Interval between checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What short names of columns mean, for a screen without the help.
const COLUMNS: &str = "bklog/s: packets/s lost at a full backlog; squeeze: softirqs/s cut short";
/// Columns if the output is no terminal.
const USUAL_COLUMNS: usize = 80;
/// Largest area that is drawn (columns, rows): cells take memory, and a terminal may claim any size.
const LARGEST: (u16, u16) = (1000, 500);
/// Time after a signal from which a watch that still runs is ended by force. Usually it ends after a few intervals.
const LEAVING: Duration = Duration::from_secs(1);

/// Watches until a key, a signal or the end of stdout ends it, or until what is watched is gone.
pub fn run(args: &WatchArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let Some(address) = args.metrics.metrics {
        return super::metrics::serve(address, args, store);
    }
    if let Some(path) = &args.metrics_file {
        return super::metrics::write_file(path, args, store);
    }
    if let Some(host) = &args.host {
        return Err(output::usage(format!(
            "--host {host}: the screen has no cliff; give --metrics or --metrics-file, or use `netcliff headroom --host {host}`"
        )));
    }
    live::start(args.live, false, "watch")?;
    let host = Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces")?;
    let ports = super::headroom::ports(&args.interfaces, &host)?;
    if let Some(why) = args.all.then(namespaces_refused).flatten() {
        output::say(format!("netcliff: {why}"));
    }
    if !args.json && !args.live && !args.once && !std::io::stdout().is_terminal() {
        return Err(output::usage("stdout is no terminal: give --once, --json or --live"));
    }
    if !args.json && !args.live && !args.once && output::is_dumb() {
        return Err(output::usage("TERM is dumb: that terminal cannot be drawn on; give --once, --json or --live"));
    }
    if args.live {
        output::begin_measuring()?;
    }
    let opened = |path: &PathBuf| {
        files::append(path, &output::ends)
            .map_err(|error| output::usage(format!("--record {}: {error}", path.display())))
    };
    let mut recorder = args.record.as_ref().map(opened).transpose()?;
    if args.json || args.live || args.once {
        return lines(args, ports, recorder.as_mut());
    }
    let stop = Arc::<AtomicBool>::default();
    let theirs = Arc::clone(&stop);
    // Print nothing: a watch that is ended from elsewhere leaves the terminal as it was.
    let end = move || {
        output::end();
        if !theirs.swap(true, Ordering::Relaxed) {
            std::thread::spawn(end_all_the_same);
        }
    };
    ctrlc::set_handler(end).context("cannot watch for signals")?;
    let options = TerminalOptions { viewport: Viewport::Fixed(area()?) };
    let mut terminal = ratatui::try_init_with_options(options).context("cannot use the terminal")?;
    ratatui::crossterm::execute!(std::io::stdout(), EnterAlternateScreen).context("cannot use the terminal")?;
    let mut gone = Vec::new();
    let ended = on_screen(args, ports, recorder.as_mut(), &mut terminal, &stop, &mut gone);
    let restored = terminal.show_cursor().and_then(|()| ratatui::try_restore());
    // Dropping `terminal` would print to stderr what it cannot restore, and panic if stderr is gone too.
    std::mem::forget(terminal);
    gone.iter().for_each(|said| output::say(format!("netcliff: {said}")));
    ended?;
    restored.map_err(|error| anyhow::anyhow!("the terminal is gone: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The part of the terminal that is drawn on: all of it, up to [`LARGEST`].
fn area() -> anyhow::Result<Rect> {
    let (columns, rows) = ratatui::crossterm::terminal::size().context("cannot use the terminal")?;
    Ok(Rect::new(0, 0, columns.min(LARGEST.0), rows.min(LARGEST.1)))
}

/// Ends the process if the watch does not end within a second of a signal, because it waits to write to a terminal that
/// nobody reads.
fn end_all_the_same() {
    std::thread::sleep(LEAVING);
    let _ = ratatui::crossterm::terminal::disable_raw_mode();
    std::process::exit(1);
}

/// Drops the ports that went away between two readings. Returns a sentence for each. An error if none of the ports to
/// watch is left.
fn without_gone(ports: &mut Vec<&Port>, before: &Look, now: &Look) -> anyhow::Result<Vec<String>> {
    let gone = before.gone(now, ports);
    let sentence =
        |name: &&str| format!("{name} is gone: it was removed, renamed or moved to another network namespace");
    let said: Vec<String> = gone.iter().map(sentence).collect();
    ports.retain(|port| !gone.contains(&port.nic.name.as_str()));
    if ports.is_empty() && !said.is_empty() {
        bail!("{}", said.join("; "));
    }
    Ok(said)
}

/// Reads all counters that the options request.
fn look(args: &WatchArgs, ports: &[&Port], before: Option<&Look>) -> anyhow::Result<Look> {
    let look = before.map_or_else(|| Look::now(ports), |before| before.next(ports))?;
    Ok(if args.all { look.and_elsewhere() } else { look })
}

fn lines(args: &WatchArgs, mut ports: Vec<&Port>, mut recorder: Option<&mut Appender>) -> anyhow::Result<ExitCode> {
    let mut before = look(args, &ports, None)?;
    loop {
        std::thread::sleep(args.interval);
        let now = look(args, &ports, Some(&before))?;
        for said in without_gone(&mut ports, &before, &now)? {
            output::say(format!("netcliff: {said}"));
        }
        let moment = before.until(&now, &ports);
        let text = line(&moment)?;
        if let Some(file) = &mut recorder {
            file.add(text.as_bytes(), &output::ends)?;
        }
        if args.live {
            live::tell("moment", || json!({"bottleneck": moment.bottleneck(), "moment": moment}));
            if !live::is_read() {
                return Ok(ExitCode::SUCCESS);
            }
        } else if args.json {
            output::json(&text)?;
        } else {
            let view = View { moment, all: args.all, once: true, ..View::default() };
            let width = output::columns(&std::io::stdout()).unwrap_or(USUAL_COLUMNS);
            let width = u16::try_from(width).unwrap_or(u16::MAX).min(LARGEST.0);
            output::data(&screen::text(&view, width, screen::height(&view)))?;
            output::data(&format!("\n{COLUMNS}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

/// A moment as a line of JSON, as `--json` prints it.
///
/// # Errors
/// Never for a moment of this host.
pub fn moment_line(moment: &Moment) -> anyhow::Result<String> {
    line(moment)
}

fn line(moment: &Moment) -> anyhow::Result<String> {
    let whole = Line { unix_s: super::now_unix_s(), bottleneck: moment.bottleneck(), moment };
    Ok(format::json(&(serde_json::to_string(&whole)? + "\n")))
}

fn on_screen(
    args: &WatchArgs,
    mut ports: Vec<&Port>,
    mut recorder: Option<&mut Appender>,
    terminal: &mut ratatui::DefaultTerminal,
    stop: &AtomicBool,
    gone: &mut Vec<String>,
) -> anyhow::Result<()> {
    let first_s = Some(args.interval.as_secs_f64());
    let mut view = View { first_s, can_record: recorder.is_some(), all: args.all, ..View::default() };
    let keys = Keys::listen()?;
    let mut before = look(args, &ports, None)?;
    let mut next = Instant::now() + args.interval;
    let mut changed = true;
    while !stop.load(Ordering::Relaxed) {
        if changed {
            if terminal.get_frame().area() != area()? {
                terminal.resize(area()?)?;
            }
            terminal.draw(|frame| screen::draw(frame, &view))?;
            changed = false;
        }
        if let Some(event) = keys.next(next.saturating_duration_since(Instant::now()).min(POLL_INTERVAL))? {
            changed = true;
            match event {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if interrupted || !view.press(key.code) {
                        return Ok(());
                    }
                }
                _ => {}
            }
            continue;
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + args.interval;
        changed = true;
        let now = look(args, &ports, Some(&before))?;
        gone.extend(without_gone(&mut ports, &before, &now)?);
        let moment = before.until(&now, &ports);
        before = now;
        if view.recording
            && let Some(file) = &mut recorder
        {
            file.add(line(&moment)?.as_bytes(), &output::ends)?;
        }
        if !view.paused {
            (view.moment, view.first_s) = (moment, None);
        }
    }
    Ok(())
}
