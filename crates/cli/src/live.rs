//! `--live`: prints one JSON object per line as events occur, for other programs.
//!
//! Lines go to stdout, or to stderr if stdout contains the single object of --json. They pass through
//! [`crate::outlet`], so that a reader that is slow, stopped or gone does not affect the measurement. Lines that find
//! no room are dropped, and a line gives their number. The result is the last line.

use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use netcliff_report::format;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::output;
use crate::output::now_unix_s;

/// Version of the lines' schema (docs/json.md): it rises when a key changes its meaning or goes.
const SCHEMA: u32 = 1;
static LIVE: OnceLock<Live> = OnceLock::new();

/// State of the `--live` lines of this process.
struct Live {
    began: Instant,
    to_stderr: bool,
    result: Mutex<Option<Value>>,
}

/// Starts the lines of a command if `asked`. `to_stderr`: they go to stderr, because stdout contains something else.
pub fn start(asked: bool, to_stderr: bool, command: &str) -> anyhow::Result<()> {
    if !asked {
        return Ok(());
    }
    // A process has one command.
    let _ = LIVE.set(Live { began: Instant::now(), to_stderr, result: Mutex::default() });
    output::listen(|message| tell("message", || json!({"message": message})));
    tell(
        "begin",
        || json!({"schema": SCHEMA, "command": command, "version": env!("CARGO_PKG_VERSION"), "command_line": crate::output::command_line()}),
    );
    Ok(())
}

/// Whether the lines are still read. If not, a command that only prints lines may end. True without `--live`.
pub fn is_read() -> bool {
    LIVE.get().is_none_or(|live| output::is_read(live.to_stderr))
}

/// Prints an event with the keys that `fields` returns, without waiting for the reader. Does nothing without --live.
pub fn tell(event: &str, fields: impl FnOnce() -> Value) {
    if let Some(live) = LIVE.get() {
        live.tell(event, fields());
    }
}

/// Stores the result for the last line.
pub fn result(found: &impl Serialize, partial: bool) -> anyhow::Result<()> {
    if let Some(live) = LIVE.get() {
        let found = serde_json::to_value(found)?;
        *live.held() = Some(json!({"partial": partial, "result": found}));
    }
    Ok(())
}

/// Writes the last line: the result, or the error without one.
pub fn end(outcome: &anyhow::Result<ExitCode>) {
    let Some(live) = LIVE.get() else { return };
    let result = live.held().take();
    let (event, fields) = match (outcome, result) {
        (Err(error), _) => {
            ("error", json!({"message": output::sentence_of(error), "usage": error.is::<output::Usage>()}))
        }
        (Ok(_), Some(result)) => ("result", result),
        // A command without a result, such as `watch`, has no last line.
        (Ok(_), None) => return output::settle(),
    };
    let written = output::last_line(live.to_stderr, live.line(event, fields), |lines| live.dropped(lines));
    if written.is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
        output::say_plainly("netcliff: the reader of --live has stopped: its last lines are given up");
    }
}

impl Live {
    fn held(&self) -> std::sync::MutexGuard<'_, Option<Value>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line of an event: the keys that all lines have, then the event's own.
    fn line(&self, event: &str, fields: Value) -> String {
        let mut line = Map::new();
        line.insert("event".to_owned(), event.into());
        line.insert("unix_s".to_owned(), now_unix_s().into());
        line.insert("elapsed_s".to_owned(), self.began.elapsed().as_secs_f64().into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        format::json(&format!("{}\n", Value::Object(line)))
    }

    fn dropped(&self, lines: u64) -> String {
        self.line("dropped", json!({"lines": lines}))
    }

    fn tell(&self, event: &str, fields: Value) {
        output::line(self.to_stderr, self.line(event, fields), |lines| self.dropped(lines));
    }
}
