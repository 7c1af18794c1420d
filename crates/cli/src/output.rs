//! Data to stdout, messages to stderr, and exit codes.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use netcliff_report::{Style, format};

use crate::live;

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

/// Writes data to stdout. A reader that has gone away ends the program quietly.
pub fn data(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|error| anyhow::anyhow!("cannot write to stdout: {error}")),
    }
}

/// One line of JSON to stdout.
pub fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    data(&(serde_json::to_string(value)? + "\n"))
}

/// Sentences to stdout, wrapped at the terminal's width if it is one: what a program reads stays on one line.
pub fn sentences(text: &str) -> anyhow::Result<()> {
    match columns(&std::io::stdout()) {
        Some(width) => data(&format::sentences(text, width)),
        None => data(text),
    }
}

/// A line to stderr, wrapped at the terminal's width if it is one. A failure of that cannot be reported.
pub fn say(text: impl std::fmt::Display) {
    let text = text.to_string();
    let message = text.strip_prefix("netcliff: ").unwrap_or(&text);
    live::tell("message", || serde_json::json!({"message": message}));
    say_plainly(&text);
}

/// The same, but not to the lines of --live.
pub fn say_plainly(text: &str) {
    // The text may come from a file or a far end.
    let text = format::printable(text);
    let text = columns(&std::io::stderr()).map_or_else(|| text.clone(), |width| format::sentences(&text, width));
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Columns of the terminal that a stream goes to; None: it goes elsewhere.
pub fn columns(stream: &impl IsTerminal) -> Option<usize> {
    /// Columns of a terminal that does not report them, and of pages.
    const USUAL: usize = 80;
    /// Narrower than this nothing would fit.
    const LEAST: usize = 48;
    let told = || ratatui::crossterm::terminal::size().ok().filter(|(columns, _)| *columns > 0);
    stream.is_terminal().then(|| told().map_or(USUAL, |(columns, _)| usize::from(columns)).max(LEAST))
}

/// Prints an error and returns its exit code.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    // Lines of --live have ended with it.
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

/// Ends the program for a command line that is refused, or that requests help. What is wider than the terminal is wrapped.
pub fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    let wide = |width: usize| text.lines().any(|line| line.chars().count() > width);
    let help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if help || !error.use_stderr() || !columns(&std::io::stderr()).is_some_and(wide) {
        error.exit();
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

/// The style for whatever stdout is.
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| value.to_lowercase().contains("utf") || value == "C.UTF-8");
    let width = columns(&std::io::stdout()).map_or(Style::default().width, |columns| columns.min(WIDEST));
    Style { colour: terminal && !no_colour, unicode: utf8, width }
}
