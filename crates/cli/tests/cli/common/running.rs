//! A running netcliff: waits for its stages, sends signals, and limits the time until its end.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Home, entries};

/// A child process; dropped while it runs, it is stopped first so that it can clean up.
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    lines: Receiver<String>,
    /// Lines of stderr that were read so far.
    said: Vec<String>,
}

/// How a run ended.
pub struct Ended {
    /// Exit code.
    pub status: ExitStatus,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl Running {
    /// Starts `netcliff` with these arguments.
    pub fn start(home: &Home, args: &[&str]) -> Self {
        Self::of(home.command(args))
    }

    /// Starts this `netcliff`, or a program that becomes it.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("netcliff starts");
        let mut out = child.stdout.take().expect("stdout is piped");
        let err = child.stderr.take().expect("stderr is piped");
        let stdout = thread::spawn(move || {
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text
        });
        let (sender, lines) = channel();
        thread::spawn(move || BufReader::new(err).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, stdout: Some(stdout), lines, said: Vec::new() }
    }

    /// Process id of the run.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lines of stderr that were read so far.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// Waits until a line of stderr contains `text`. False: the run ended without it.
    #[must_use]
    pub fn reaches(&mut self, text: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let found = line.contains(text);
                    self.said.push(line);
                    if found {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("no {text:?} within {patience:?}: {:?}", self.said),
            }
        }
    }

    /// Waits until a line of stderr contains `text`, which must come.
    pub fn until(&mut self, text: &str, patience: Duration) {
        assert!(self.reaches(text, patience), "ended without {text:?}: {:?}", self.said);
    }

    /// Sends a signal by its name: INT, TERM, KILL.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits at most `patience` for the end of the run.
    pub fn end(mut self, patience: Duration) -> Ended {
        let deadline = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {patience:?}: {:?}", self.said);
            thread::sleep(Duration::from_millis(20));
        };
        let stdout = self.stdout.take().map(|thread| thread.join().expect("the reader of stdout")).unwrap_or_default();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.said.push(line);
        }
        Ended { status, stdout, stderr: self.said.join("\n") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Only a failed test comes here: let the program remove its namespaces, then kill it.
        let _ = Command::new("sh").args(["-c", &format!("kill -INT {}", self.pid())]).status();
        let deadline = Instant::now() + Duration::from_secs(15);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal by its name to a process that a test has started.
pub fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh").success(), "{kill}");
}

/// Sends signals one right behind the other.
pub fn signals(pid: u32, names: &[&str]) {
    let kills: Vec<String> = names.iter().map(|name| format!("kill -{name} {pid}")).collect();
    assert!(Command::new("sh").args(["-c", &kills.join("; ")]).status().expect("sh").success(), "{kills:?}");
}

/// Named network namespaces of this process, by their names nc-PID...
pub fn namespaces_of(pid: u32) -> Vec<String> {
    let prefix = format!("nc-{pid}");
    let ours =
        |name: &String| name.strip_prefix(&prefix).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    entries(Path::new("/run/netns")).into_iter().filter(ours).collect()
}

/// Starts an agent on a port that the kernel chooses. Also returns the agent's address.
pub fn agent(home: &Home, more: &[&str]) -> (Running, String) {
    let mut agent = Running::start(home, &[&["agent", "--listen", "127.0.0.1:0"], more].concat());
    agent.until("agent listens on 127.0.0.1:", Duration::from_secs(20));
    let address = agent.said().last().and_then(|line| line.rsplit(' ').next()).expect("an address").to_owned();
    (agent, address)
}
