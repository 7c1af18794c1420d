//! Data to stdout, words to stderr, and exit codes.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use netcliff_report::Style;

/// A failure that is the user's input: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An input that cannot be used, as an error with exit code 2.
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

/// A line to stderr. Nobody can be told if that fails.
pub fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says what went wrong and gives the exit code for it.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many errors already quote their cause.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    say(format!("netcliff: {text}"));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// How to write for whoever reads stdout.
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| value.to_lowercase().contains("utf") || value == "C.UTF-8");
    Style { colour: terminal && !no_colour, unicode: utf8, ..Style::default() }
}
