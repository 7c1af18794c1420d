//! Data to stdout, messages to stderr, and exit codes.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, TermLike};
use netcliff_core::quote::shell;
use netcliff_host::files::{self, Form};
use netcliff_report::{Style, format};

use crate::outlet::Outlet;

/// An error in the user's input: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An invalid input, as an error with exit code 2.
pub fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Usage(error.to_string()))
}

/// The output queues during a measurement. Before a measurement, and in commands without one, a write waits for its
/// reader.
static OUTLETS: OnceLock<Outlets> = OnceLock::new();
/// Set by the first signal that asks this process to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Receives each message of [`say`] as well.
static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// Lines before [`OUTLETS`] is set, each with whether it goes to stderr. The threads of the queues start later, because
/// a process with threads cannot enter a user namespace.
static EARLY: Mutex<Vec<(bool, String)>> = Mutex::new(Vec::new());

fn early() -> Vec<(bool, String)> {
    std::mem::take(&mut *EARLY.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Outlets {
    out: Outlet,
    err: Outlet,
}

/// From now on, nothing waits for a reader while the host is in use. Starts the output threads.
///
/// # Errors
/// The system cannot start the threads.
pub fn begin_measuring() -> anyhow::Result<()> {
    if OUTLETS.get().is_none() {
        let start = || {
            Ok(Outlets { out: Outlet::start(std::io::stdout(), ends)?, err: Outlet::start(std::io::stderr(), ends)? })
        };
        let outlets: std::io::Result<Outlets> = start();
        // A process measures once.
        let _ = OUTLETS.set(outlets.context("cannot start a thread that writes")?);
        early().into_iter().for_each(|(to_stderr, text)| line(to_stderr, text, missing));
    }
    Ok(())
}

/// From now on, nothing waits for a stopped reader, because a signal requested this process to end.
pub fn end() {
    ENDS.store(true, Ordering::Relaxed);
}

/// Whether a signal requested this process to end.
pub fn ends() -> bool {
    ENDS.load(Ordering::Relaxed)
}

/// Waits until lines and messages are written, as long as somebody reads them.
pub fn settle() {
    if let Some(outlets) = OUTLETS.get() {
        outlets.out.settle();
        outlets.err.settle();
    }
}

/// Writes data to stdout: CSV, names, scripts. Characters that would control a terminal become U+FFFD. If the reader
/// has gone away, the program ends without a message.
pub fn data(text: &str) -> anyhow::Result<()> {
    put(format::printable(text))
}

/// Writes a page to stdout: as [`data`], with the weights and colours that [`style`] allows.
pub fn page(text: &str) -> anyhow::Result<()> {
    put(if style().colour { format::printable_but_styles(text) } else { format::printable(text) })
}

/// Writes JSON to stdout; characters that would steer a terminal are escaped.
pub fn json(text: &str) -> anyhow::Result<()> {
    put(format::json(text))
}

/// Writes one line of JSON to stdout.
pub fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    json(&(serde_json::to_string(value)? + "\n"))
}

/// Clears the terminal on stdout.
pub fn clear() -> anyhow::Result<()> {
    put("\x1b[H\x1b[J".to_owned())
}

fn put(text: String) -> anyhow::Result<()> {
    let written = match OUTLETS.get() {
        Some(outlets) => {
            // Earlier messages are written first.
            outlets.err.settle();
            outlets.out.put(text.clone(), missing)
        }
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            let rescued = write_temporary("netcliff-stdout", "txt", &text);
            let place = rescued.map_or(String::new(), |path| format!("; what it was to read is in {}", path.display()));
            Err(anyhow::anyhow!("cannot write to stdout: {error}{place}"))
        }
        other => other.map_err(|error| anyhow::anyhow!("cannot write to stdout: {error}")),
    }
}

/// Prints a line of a run in progress without waiting for its reader: to stdout, or to stderr if stdout is a single
/// JSON object. Dropped lines are counted; `dropped` makes the line that gives their number.
pub fn line(to_stderr: bool, text: String, dropped: impl FnOnce(u64) -> String) {
    match OUTLETS.get() {
        Some(Outlets { out, err }) => (if to_stderr { err } else { out }).offer(text, dropped),
        None => EARLY.lock().unwrap_or_else(PoisonError::into_inner).push((to_stderr, text)),
    }
}

/// Writes the last line of `--live`. Waits for a reader that reads.
///
/// # Errors
/// The reader has stopped or is gone.
pub fn last_line(to_stderr: bool, text: String, dropped: impl FnOnce(u64) -> String) -> std::io::Result<()> {
    match OUTLETS.get() {
        Some(Outlets { out, err }) => (if to_stderr { err } else { out }).put(text, dropped),
        None => early().into_iter().chain([(to_stderr, text)]).try_for_each(|(to_stderr, text)| match to_stderr {
            true => std::io::stderr().lock().write_all(text.as_bytes()),
            false => std::io::stdout().lock().write_all(text.as_bytes()),
        }),
    }
}

/// Whether the lines on stdout, or on stderr if `of_stderr`, still have a reader.
pub fn is_read(of_stderr: bool) -> bool {
    OUTLETS.get().is_none_or(|Outlets { out, err }| if of_stderr { err } else { out }.is_read())
}

/// The line that stands in place of missing lines.
pub fn missing(lines: u64) -> String {
    format!("... {lines} lines are missing: they came faster than they were read\n")
}

/// Whether `--csv` was given without a file.
#[expect(clippy::ref_option, reason = "the field of the options")]
pub fn to_stdout(csv: &Option<Option<PathBuf>>) -> bool {
    matches!(csv, Some(None))
}

/// The file of `--csv=FILE`.
#[expect(clippy::ref_option, reason = "the field of the options")]
pub fn csv_file(csv: &Option<Option<PathBuf>>) -> Option<&Path> {
    csv.as_ref().and_then(Option::as_deref)
}

/// Writes the rows to the file of `--csv=FILE`, if there is one.
#[expect(clippy::ref_option, reason = "the field of the options")]
pub fn csv(csv: &Option<Option<PathBuf>>, rows: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
    csv_file(csv).map_or(Ok(()), |path| write_told("CSV", path, &rows()?))
}

/// Writes sentences to stdout. Wraps them at the terminal's width if stdout is a terminal. Otherwise a sentence stays
/// on one line, because a program may read it.
pub fn sentences(text: &str) -> anyhow::Result<()> {
    match columns(&std::io::stdout()) {
        Some(width) => data(&format::sentences(text, width)),
        None => data(text),
    }
}

/// From now on, `listener` also receives each message of [`say`], without the program's name. Only the first call has
/// an effect.
pub fn listen(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// Writes a message to stderr, wrapped at the terminal's width if stderr is a terminal. Ignores an error of the write,
/// because there is no other stream to report it.
pub fn say(text: impl std::fmt::Display) {
    let text = text.to_string();
    let message = text.strip_prefix("netcliff: ").unwrap_or(&text);
    if let Some(listener) = LISTENER.get() {
        listener(message);
    }
    say_plainly(&text);
}

/// Prints a message on standard error, but not to the lines of --live.
pub fn say_plainly(text: &str) {
    // The text may come from a file or a far end.
    let text = format::printable(text);
    let text = columns(&std::io::stderr()).map_or_else(|| text.clone(), |width| format::sentences(&text, width));
    to_stderr(text + "\n");
}

fn to_stderr(text: String) {
    match OUTLETS.get() {
        Some(outlets) => outlets.err.say(text, missing),
        None => _ = std::io::stderr().lock().write_all(text.as_bytes()),
    }
}

/// A writer to stderr for logs, which write bytes.
pub struct Messages;

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        to_stderr(format::printable_but_styles(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether stderr is a terminal on which bars can be drawn. Otherwise progress is printed as lines.
pub fn has_bars() -> bool {
    std::io::stderr().is_terminal() && !is_dumb()
}

/// A progress bar on a terminal. It is drawn through the queue of messages, and omitted while messages wait.
pub fn bar(length: u64) -> ProgressBar {
    if !has_bars() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(Drawing::default()), DRAWINGS_PER_S);
    ProgressBar::with_draw_target(Some(length), target)
}

/// Number of times per second that a bar is drawn.
const DRAWINGS_PER_S: u8 = 10;

/// A terminal on stderr for progress bars; drawing on it does not wait.
#[derive(Debug, Default)]
struct Drawing(Mutex<String>);

impl Drawing {
    fn add(&self, text: &str) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }
}

impl TermLike for Drawing {
    fn width(&self) -> u16 {
        columns(&std::io::stderr()).and_then(|columns| u16::try_from(columns).ok()).unwrap_or(80)
    }

    fn move_cursor_up(&self, rows: usize) -> std::io::Result<()> {
        if rows > 0 { self.add(&format!("\x1b[{rows}A")) } else { Ok(()) }
    }

    fn move_cursor_down(&self, rows: usize) -> std::io::Result<()> {
        if rows > 0 { self.add(&format!("\x1b[{rows}B")) } else { Ok(()) }
    }

    fn move_cursor_right(&self, columns: usize) -> std::io::Result<()> {
        if columns > 0 { self.add(&format!("\x1b[{columns}C")) } else { Ok(()) }
    }

    fn move_cursor_left(&self, columns: usize) -> std::io::Result<()> {
        if columns > 0 { self.add(&format!("\x1b[{columns}D")) } else { Ok(()) }
    }

    fn write_line(&self, text: &str) -> std::io::Result<()> {
        self.add(text)?;
        self.add("\n")
    }

    fn write_str(&self, text: &str) -> std::io::Result<()> {
        self.add(text)
    }

    fn clear_line(&self) -> std::io::Result<()> {
        self.add("\r\x1b[2K")
    }

    fn flush(&self) -> std::io::Result<()> {
        let text = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        match OUTLETS.get() {
            Some(outlets) => outlets.err.draw(text),
            None => std::io::stderr().lock().write_all(text.as_bytes())?,
        }
        Ok(())
    }
}

/// Width of the terminal that a stream goes to. `None` if it does not go to a terminal.
pub fn columns(stream: &impl IsTerminal) -> Option<usize> {
    /// Columns of a terminal that does not report them, and of pages.
    const USUAL: usize = 80;
    /// Smallest width that pages are laid out for (columns).
    const LEAST: usize = 48;
    let size = || ratatui::crossterm::terminal::size().ok().filter(|(columns, _)| *columns > 0);
    stream.is_terminal().then(|| size().map_or(USUAL, |(columns, _)| usize::from(columns)).max(LEAST))
}

/// Prints an error and returns its exit code.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    // The lines of --live already contain the error as their last line.
    say_plainly(&format!("netcliff: {}", sentence_of(error)));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// An error with its causes, each once.
pub fn sentence_of(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many errors already quote their cause.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Ends the program after a refused command line or a request for help. Wraps lines that are wider than the terminal.
/// `hint`: the name of the refused option in this program.
pub fn refuse(error: &clap::Error, hint: Option<&str>) -> ! {
    if let Some(hint) = hint {
        say(format!("netcliff: {hint}"));
        std::process::exit(error.exit_code());
    }
    let text = error.render().to_string();
    let wide = |width: usize| text.lines().any(|line| line.chars().count() > width);
    let help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let fits = !columns(&std::io::stderr()).is_some_and(wide) && text == format::printable(&text);
    if help || !error.use_stderr() || fits {
        match error.print() {
            Err(failed) if !error.use_stderr() && failed.kind() != std::io::ErrorKind::BrokenPipe => {
                say(format!("netcliff: cannot write to stdout: {failed}"));
                std::process::exit(1)
            }
            _ => std::process::exit(error.exit_code()),
        }
    }
    say(text.trim_end());
    std::process::exit(error.exit_code())
}

/// Columns that a page uses at most: longer lines are hard to read.
const WIDEST: usize = 120;

/// Columns of the terminal, if stdout is one.
pub fn terminal_columns() -> Option<usize> {
    columns(&std::io::stdout())
}

/// Whether the terminal prints escape sequences as text, as Emacs' shell and some CI systems do (TERM=dumb).
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The style of text on stdout: width, colour, and whether the characters may be other than ASCII.
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| value.to_lowercase().contains("utf") || value == "C.UTF-8");
    let width = columns(&std::io::stdout()).map_or(Style::default().width, |columns| columns.min(WIDEST));
    Style { colour: terminal && !no_colour, unicode: utf8, width }
}
/// Writes a file that the user named, with the properties of `form`. Replaces characters that would control a terminal.
pub fn write_as(path: &Path, text: &str, form: Form) -> std::io::Result<()> {
    files::write(path, format::printable(text).as_bytes(), form, &ends)
}

/// Writes a new file in the temporary directory, readable only by this user. Nobody else can have taken or linked its
/// name before.
pub fn write_temporary(stem: &str, ending: &str, text: &str) -> std::io::Result<PathBuf> {
    use std::hash::{BuildHasher, Hasher};
    let number = std::hash::RandomState::new().build_hasher().finish();
    let path = std::env::temp_dir().join(format!("{stem}-{number:016x}.{ending}"));
    write_as(&path, text, Form { mode: Some(0o600), is_new: true, ..Form::default() })?;
    Ok(path)
}

/// The command line as typed, quoted for a shell.
pub fn command_line() -> String {
    let mut words: Vec<String> = std::env::args_os().map(|word| shell(&word.to_string_lossy()).into_owned()).collect();
    if let Some(program) = words.first_mut() {
        "netcliff".clone_into(program);
    }
    words.join(" ")
}

/// Seconds since the epoch (UTC). Below 0 if the clock is before the epoch.
pub fn now_unix_s() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or_else(|before| -before.duration().as_secs_f64(), |since| since.as_secs_f64())
}

/// Writes a file that the user named.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_as(path, text, Form::default()).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file that the user named, and prints what was written where.
pub fn write_told(what: &str, path: &Path, text: &str) -> anyhow::Result<()> {
    write(path, text)?;
    say(format!("netcliff: {what} written to {}", path.display()));
    Ok(())
}
