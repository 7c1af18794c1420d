//! `--live`: one JSON object a line as things happen, for programs that draw or watch.
//!
//! Lines go to stdout, or to stderr where stdout is the one object of --json. They are queued, at most [`QUEUED`] of them, and written by
//! a thread of their own: a reader that is slow, stops or is gone changes nothing of the measurement. Lines that find the queue full are
//! dropped, and a line says how many. The result is the last line.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::now_unix_s;
use crate::output;

/// Version of the lines' schema (docs/json.md): it rises when a key changes its meaning or goes.
const SCHEMA: u32 = 1;
/// Lines that wait for their reader: of `stream -i 1ms` half a second's.
const QUEUED: usize = 512;
/// How long a reader may take nothing in the end before what waits is given up. The measurement is over by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is checked.
const LOOK: Duration = Duration::from_millis(10);

static LIVE: OnceLock<Live> = OnceLock::new();

/// The lines of this process.
struct Live {
    began: Instant,
    state: Mutex<State>,
    count: Arc<Count>,
}

/// What becomes of lines.
#[derive(Default)]
struct Count {
    written: AtomicU64,
    dropped: AtomicU64,
    /// The reader is gone.
    closed: AtomicBool,
}

struct State {
    /// None when it has ended.
    to: Option<SyncSender<Value>>,
    thread: Option<JoinHandle<()>>,
    result: Option<Value>,
}

/// Starts the lines of a command, if `asked`; `to_stderr` where stdout holds something else.
pub fn start(asked: bool, to_stderr: bool, command: &str) -> anyhow::Result<()> {
    if !asked {
        return Ok(());
    }
    let live = if to_stderr { Live::new(io::stderr()) } else { Live::new(io::stdout()) };
    // A process has one command.
    let _ = LIVE.set(live.context("cannot start a thread that writes lines")?);
    tell(
        "begin",
        || json!({"schema": SCHEMA, "command": command, "version": env!("CARGO_PKG_VERSION"), "command_line": crate::commands::command_line()}),
    );
    Ok(())
}

/// False when the reader is gone: who only writes lines may end.
pub fn is_read() -> bool {
    LIVE.get().is_none_or(|live| !live.count.closed.load(Ordering::Relaxed))
}

/// Tells of an event, whose keys `fields` gives; it does not wait. Nothing without --live.
pub fn tell(event: &str, fields: impl FnOnce() -> Value) {
    if let Some(live) = LIVE.get() {
        live.tell(event, fields());
    }
}

/// Keeps the result for the last line.
pub fn result(found: &impl Serialize, partial: bool) -> anyhow::Result<()> {
    if let Some(live) = LIVE.get() {
        let found = serde_json::to_value(found)?;
        live.held().result = Some(json!({"partial": partial, "result": found}));
    }
    Ok(())
}

/// Writes what is left: the result, or the error without one, as the last line.
pub fn end(outcome: &anyhow::Result<ExitCode>) {
    let Some(live) = LIVE.get() else { return };
    if let Err(error) = outcome {
        live.held().result = None;
        live.last("error", json!({"message": output::sentence_of(error), "usage": error.is::<output::Usage>()}));
    } else if let Some(result) = live.take_result() {
        live.last("result", result);
    }
    live.close();
}

impl Live {
    fn new(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (to, lines) = mpsc::sync_channel(QUEUED);
        let count = Arc::<Count>::default();
        let theirs = Arc::clone(&count);
        let thread = thread::Builder::new().name("live".into()).spawn(move || write(out, &lines, &theirs))?;
        let state = State { to: Some(to), thread: Some(thread), result: None };
        Ok(Self { began: Instant::now(), state: Mutex::new(state), count })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_result(&self) -> Option<Value> {
        self.held().result.take()
    }

    /// The line of an event: what all lines have, and then its own.
    fn line(&self, event: &str, fields: Value) -> Value {
        let mut line = Map::new();
        line.insert("event".to_owned(), event.into());
        line.insert("unix_s".to_owned(), now_unix_s().into());
        line.insert("elapsed_s".to_owned(), self.began.elapsed().as_secs_f64().into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        Value::Object(line)
    }

    fn tell(&self, event: &str, fields: Value) {
        let line = self.line(event, fields);
        if let Some(Err(TrySendError::Full(_))) = self.held().to.as_ref().map(|to| to.try_send(line)) {
            self.count.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A line that is not dropped: it waits for a reader that reads.
    fn last(&self, event: &str, fields: Value) {
        let mut line = self.line(event, fields);
        self.while_read(|live| {
            let tried = live.held().to.as_ref().map(|to| to.try_send(std::mem::take(&mut line)));
            match tried {
                Some(Err(TrySendError::Full(back))) => {
                    line = back;
                    false
                }
                _ => true,
            }
        });
    }

    /// Lets the thread write what is queued.
    fn close(&self) {
        self.held().to = None;
        let read = self.while_read(|live| live.held().thread.as_ref().is_none_or(JoinHandle::is_finished));
        if read {
            // It has ended.
            let thread = self.held().thread.take();
            let _ = thread.map(JoinHandle::join);
        } else {
            output::say_plainly("netcliff: the reader of --live has stopped: its last lines are given up");
        }
    }

    /// Repeats `done` until it is true, or nothing was written for [`PATIENCE`]; true if it was.
    fn while_read(&self, mut done: impl FnMut(&Self) -> bool) -> bool {
        let (mut written, mut since) = (self.count.written.load(Ordering::Relaxed), Instant::now());
        loop {
            if done(self) {
                return true;
            }
            let now = self.count.written.load(Ordering::Relaxed);
            if now != written {
                (written, since) = (now, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return false;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Writes lines until there are no more. When the reader is gone they are let go of.
fn write(mut out: impl Write, lines: &Receiver<Value>, count: &Count) {
    for line in lines {
        let dropped = count.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let at = |key: &str| line.get(key).cloned().unwrap_or_default();
            let told =
                json!({"event": "dropped", "unix_s": at("unix_s"), "elapsed_s": at("elapsed_s"), "lines": dropped});
            written(&mut out, &told, count);
        }
        written(&mut out, &line, count);
    }
}

fn written(out: &mut impl Write, line: &Value, count: &Count) {
    if count.closed.load(Ordering::Relaxed) {
        return;
    }
    let text = format!("{line}\n");
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        count.closed.store(true, Ordering::Relaxed);
    }
    count.written.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that takes lines only when it is let, and keeps them.
    #[derive(Clone, Default)]
    struct Reader {
        held: Arc<Mutex<()>>,
        text: Arc<Mutex<Vec<u8>>>,
        gone: Arc<AtomicBool>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.gone.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let _let = self.held.lock().expect("no panic");
            self.text.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Reader {
        fn lines(&self) -> Vec<Value> {
            let text = self.text.lock().expect("no panic");
            text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
        }
    }

    /// No event waits for a reader that does not read; what is lost is counted, and the result comes all the same.
    #[test]
    fn a_slow_reader_loses_lines_and_is_told_how_many() {
        let reader = Reader::default();
        let live = Live::new(reader.clone()).expect("a thread");
        let hold = reader.held.lock().expect("no panic");
        let begin = Instant::now();
        let told = 4 * QUEUED as u64;
        (0..told).for_each(|number| live.tell("interval", json!({"number": number})));
        assert!(begin.elapsed() < Duration::from_secs(5), "it waited for the reader");
        drop(hold);
        live.last("result", json!({"partial": false}));
        live.close();
        let lines = reader.lines();
        let event = |line: &Value| line["event"].as_str().unwrap_or_default().to_owned();
        let dropped: u64 = lines.iter().filter_map(|line| line["lines"].as_u64()).sum();
        let intervals = lines.iter().filter(|line| event(line) == "interval").count() as u64;
        assert!(dropped >= told - 2 * QUEUED as u64 && dropped + intervals == told, "{dropped} {intervals}");
        assert_eq!(lines.last().map(event).as_deref(), Some("result"));
        assert!(lines.iter().all(|line| line["unix_s"].is_f64() && line["elapsed_s"].is_f64()));
    }

    /// A closed pipe is no error, and nothing waits for it.
    #[test]
    fn a_reader_that_is_gone_changes_nothing() {
        let reader = Reader::default();
        reader.gone.store(true, Ordering::Relaxed);
        let live = Live::new(reader.clone()).expect("a thread");
        (0..10 * QUEUED).for_each(|number| live.tell("interval", json!({"number": number})));
        live.last("result", json!({}));
        live.close();
        assert!(reader.lines().is_empty());
    }
}
