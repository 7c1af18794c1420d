//! Runs a program that measures: reads its output, stores its last messages, and ends it.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use netcliff_host::journal::HostLock;
use netcliff_host::process;

use crate::output;

/// Why there is no figure.
pub enum Ended {
    /// The user stopped the measurement.
    Stopped,
    /// The measurement failed.
    Failed(anyhow::Error),
}

impl Ended {
    /// Adds to an error what became of the settings. `were_made`: they were made before the error.
    pub fn with_settings(self, were_made: bool) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            Self::Failed(error) => {
                // The settings are set back after this message is made, in any case. What cannot be restored is
                // reported separately.
                let state = if were_made { "the settings were set back" } else { "no setting was changed" };
                let text = format!("{}; {state}", output::sentence_of(&error));
                Self::Failed(if error.is::<output::Usage>() { output::usage(text) } else { anyhow!("{text}") })
            }
        }
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Interval between checks of the program and of a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the flag of a stop to be set. A terminal signals the program and this process at the same time, so the
/// program may end before the flag is set.
const SAME_TIME: Duration = Duration::from_millis(100);
/// A program that has not ended after this time is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of a failed program's last messages that are printed.
const LAST_MESSAGES: usize = 10;
/// Bytes of a program's messages that are stored.
const STORED_BYTES: usize = 16 << 10;

/// The output of a program. Its messages on stderr are printed only if it fails, and only the last ones. A netcliff
/// (`own`) shares this process's lock by an open file; a netcliff started by the program shares it as a descendant of
/// this process. No other program gets the open file, because it would hold the lock if it were left in the background.
pub fn printed(
    command: &mut Command,
    name: &str,
    lock: &HostLock,
    own: bool,
    stop: &AtomicBool,
) -> Result<String, Ended> {
    let shared = own.then(|| lock.share()).transpose().context("cannot share the lock with the measurement")?;
    if let Some((variable, value, _)) = &shared {
        command.env(variable, value);
    }
    let (variable, value) = lock.announce();
    command.env(variable, value).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if is_set(stop) {
        return Err(Ended::Stopped);
    }
    let mut child = command.spawn().map_err(|error| output::usage(format!("{name}: {error}")))?;
    drop(shared);
    let messages = messages(&mut child);
    let (status, printed) = waited(&mut child, own, stop)?;
    if !status.success() {
        thread::sleep(SAME_TIME);
        if is_set(stop) {
            return Err(Ended::Stopped);
        }
        if let Some(lines) = last_lines(&messages) {
            output::say(format!("netcliff: last messages of {name}:{lines}"));
        }
        let why = status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
        return Err(anyhow!("{name} ended with {why}").into());
    }
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Reads a program's messages on stderr, and stores the last ones. Nothing waits for their end, because a program that
/// was left in the background may still have stderr open.
fn messages(child: &mut Child) -> Arc<Mutex<Vec<u8>>> {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let Some(mut pipe) = child.stderr.take() else { return stored };
    let added = Arc::clone(&stored);
    thread::spawn(move || {
        let mut part = [0; 4096];
        loop {
            match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(length) => {
                    let mut bytes = added.lock().unwrap_or_else(PoisonError::into_inner);
                    bytes.extend_from_slice(&part[..length]);
                    let excess = bytes.len().saturating_sub(STORED_BYTES);
                    bytes.drain(..excess);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    });
    stored
}

/// The last messages, each on an indented line of its own; `None` without messages.
fn last_lines(messages: &Mutex<Vec<u8>>) -> Option<String> {
    let bytes = messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(LAST_MESSAGES);
    (!lines.is_empty()).then(|| lines[first..].iter().map(|line| format!("\n  {line}")).collect())
}

/// Waits until the program has ended and its output is closed.
fn waited(child: &mut Child, own: bool, stop: &AtomicBool) -> Result<(ExitStatus, Vec<u8>), Ended> {
    let mut pipe = child.stdout.take().context("no pipe from the program")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).map(|_| text)
    });
    loop {
        if let Some(status) = child.try_wait()?.filter(|_| reader.is_finished()) {
            let text = reader.join().map_err(|_| anyhow!("the reader of the program's output panicked"))??;
            return Ok((status, text));
        }
        if is_set(stop) {
            end(child, own)?;
            return Err(Ended::Stopped);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Ends the program. A netcliff ends the processes that it started itself, in order. For any other program, all
/// processes that it started are requested to end.
fn end(child: &mut Child, own: bool) -> io::Result<()> {
    let tree = process::tree(child.id());
    let asked = if own { &tree[..tree.len().min(1)] } else { &tree[..] };
    let refused = asked.iter().find_map(|process| process.ask_to_end().err());
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() || (!own && tree.iter().any(process::ProcessId::is_alive)) {
        if let Some(error) = refused {
            return Err(error);
        }
        if !own && Instant::now() > deadline {
            process::tree(child.id()).iter().chain(&tree).try_for_each(process::ProcessId::end)?;
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
