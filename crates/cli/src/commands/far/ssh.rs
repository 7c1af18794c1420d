//! An agent that ssh starts: what ssh prints until then is shown, so that a wait is explained.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use netcliff_core::quote::shell;
use netcliff_packets::error::ControlError;
use netcliff_remote::control::stream::Stream;

use crate::output;

/// Time allowed until the agent answers (s). It includes the attempts of ssh to connect; once connected, the agent
/// answers at once.
pub const HANDSHAKE_S: f64 = 60.0;
/// Time after which a line says what is waited for; a connection usually takes less.
const PATIENCE: Duration = Duration::from_secs(4);
/// Number of ssh's last lines that are stored for an error message.
const LINES: usize = 20;
/// Longest line of ssh that is stored (bytes).
const LINE_BYTES: u64 = 4096;
/// Longest delay of ssh's last output after its end.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running ssh.
pub struct Ssh {
    host: String,
    child: Child,
    said: Arc<Mutex<Said>>,
    /// Thread that reads ssh's stderr until its end.
    listener: thread::JoinHandle<()>,
    /// Sender that is dropped when the wait is over.
    waiting: Option<mpsc::Sender<()>>,
}

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    /// True once the session is established: lines are then shown at once.
    live: bool,
}

impl Ssh {
    /// Starts an agent on a host; its pipes are the control channel.
    pub fn start(host: &str, device: Option<&str>) -> anyhow::Result<(Stream, Self)> {
        if host.starts_with('-') || host.is_empty() {
            return Err(output::usage(format!("--ssh {host:?}: expected a host as ssh takes it, such as root@db1")));
        }
        let mut command = Command::new("ssh");
        command.args(["-T", "-o", "BatchMode=yes", host, "netcliff", "agent", "--stdio"]).stderr(Stdio::piped());
        // ssh joins the words after the host, and the far end's shell parses them.
        command.args(device.map(|device| format!("--allow-settings={}", shell(device))));
        let started = Stream::of_command(&mut command, format!("netcliff on {host}"));
        let (stream, mut child) = started.context("cannot run ssh; is it installed?")?;
        let said = Arc::<Mutex<Said>>::default();
        let stderr = child.stderr.take().context("ssh has no stderr")?;
        let listener = listen(host.to_owned(), stderr, Arc::clone(&said));
        let waiting = Some(say_what_is_waited_for(host.to_owned()));
        Ok((stream, Self { host: host.to_owned(), child, said, listener, waiting }))
    }

    /// Notes that the agent has answered. Prints ssh's stored lines; later ones are printed at once.
    pub fn answered(&mut self) {
        self.waiting = None;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.live = true;
        said.lines.drain(..).for_each(|line| show(&self.host, &line));
    }

    /// The error that no agent answered, with ssh's output.
    pub fn failed(mut self, error: ControlError) -> anyhow::Error {
        self.waiting = None;
        // End an ssh that still tries to connect; it would otherwise stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // If several ssh sessions share a connection, stderr may stay open. Do not wait for its end without a limit.
        for _ in 0..10 {
            if self.listener.is_finished() {
                break;
            }
            thread::sleep(LAST_WORDS / 10);
        }
        let host = &self.host;
        let why = match error {
            ControlError::NotAnAgent { answer, .. } => format!(
                "ssh {host} brought {answer} where netcliff's hello was due: what the shell there prints for commands \
                 (such as in ~/.bashrc) has to go, or to stderr"
            ),
            other => other.to_string(),
        };
        let lines = self.said.lock().unwrap_or_else(PoisonError::into_inner).lines.join("; ");
        let said = if lines.is_empty() { "ssh said nothing".to_owned() } else { format!("ssh said: {lines}") };
        anyhow::anyhow!("{why}; {said}")
    }

    /// Waits for ssh to end, after the session is over.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.child.wait().context("cannot wait for ssh").map(drop)
    }
}

fn show(host: &str, line: &str) {
    output::say(format!("netcliff: ssh {host}: {line}"));
}

/// Starts a thread that stores or shows each line of ssh's stderr until its end.
fn listen(host: String, stderr: ChildStderr, said: Arc<Mutex<Said>>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = BufReader::new(stderr);
        let mut line = Vec::new();
        while lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            match said.live {
                _ if text.is_empty() => {}
                true => show(&host, &text),
                false if said.lines.len() < LINES => said.lines.push(text),
                false => {}
            }
        }
    })
}

/// Prints once what is waited for, unless the returned sender is dropped before.
fn say_what_is_waited_for(host: String) -> mpsc::Sender<()> {
    let (waiting, over) = mpsc::channel();
    thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::say(format!(
                "netcliff: waiting for `netcliff agent --stdio` on {host}: ssh has brought no answer yet; given up after \
                 {HANDSHAKE_S} s in all"
            ));
        }
    });
    waiting
}
