//! [`Service`]: the user's program, started for a run and ended with it, together with all processes that it starts.
//!
//! The program runs below a shell that is the first process of a PID namespace. When that shell ends, at the latest
//! together with netcliff, the kernel ends all processes that the program forked, including daemons. If PID namespaces
//! are not permitted, the program runs in a process group instead, which it can leave.

mod waits;
mod watched;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netcliff_host::process::{ProcessId, tree};
use netcliff_packets::WireError;
use netcliff_packets::thread::{Placement, Priority};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

pub use waits::{Waits, softirq_threads};
pub use watched::{NetworkCounts, Times, listening};

/// Shell script of the namespace's first process: runs the program, and then waits for the processes that the program
/// left running.
const INIT: &str = r#"sh -c "$1"; s=$?; while kill -0 -1 2>/dev/null; do sleep 0.2; done; exit $s"#;
/// Shell script that runs the program without a namespace.
const PLAIN: &str = r#"exec sh -c "$1""#;
/// Interval at which the [`Keeper`] thread checks whether the program still runs.
const LOOK: Duration = Duration::from_millis(20);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Number of the program's last output lines that are stored.
const LINES: usize = 12;
/// Largest length of a stored line (bytes).
const LINE_BYTES: u64 = 400;

/// Why a service cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The shell could not be started, or not moved to its namespace or CPUs.
    #[error("--service `{command}` cannot be started: {why}")]
    Start {
        /// The command.
        command: String,
        /// What failed.
        why: String,
    },
    /// The service ended.
    #[error("--service `{command}` {how}{output}")]
    Ended {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// The program's last output.
        output: String,
    },
    /// The service does not answer.
    #[error("--service `{command}` runs, but {why}; {listens}{output}")]
    NotReady {
        /// The command.
        command: String,
        /// What happened to a request.
        why: String,
        /// Ports on which it listens.
        listens: String,
        /// The program's last output.
        output: String,
    },
}

/// A running program.
#[derive(Debug)]
pub struct Service {
    command: String,
    root: u32,
    isolated: bool,
    end: Sender<()>,
    keeper: Option<JoinHandle<()>>,
    reader: Option<JoinHandle<()>>,
    ended: Arc<Mutex<Option<String>>>,
    output: Arc<Mutex<VecDeque<String>>>,
}

/// Result of the start, from the [`Keeper`] thread: (process ID, whether the process is in its own PID namespace), or
/// an error.
type Started = Result<(u32, bool), String>;

impl Service {
    /// Starts a shell command in a network namespace, on these CPUs (empty: any).
    ///
    /// # Errors
    /// The command could not be started, or not moved to its namespace or CPUs.
    pub fn start(command: &str, netns: Option<PathBuf>, cpus: &[u32]) -> Result<Self, ServiceError> {
        let failed = |why: String| ServiceError::Start { command: command.to_owned(), why };
        let (end, ends) = channel();
        let (report, reported) = channel();
        let ended = Arc::new(Mutex::new(None));
        let (from_it, to_us) = std::io::pipe().map_err(|error| failed(error.to_string()))?;
        let keep = Keeper { command: command.to_owned(), netns, cpus: cpus.to_vec(), ended: Arc::clone(&ended) };
        // The kernel ends the program together with the thread that started it, so this thread lives as long as the
        // service.
        let keeper = std::thread::Builder::new()
            .name("service".to_owned())
            .spawn(move || keep.run(to_us, &report, &ends))
            .map_err(|error| failed(error.to_string()))?;
        let started: Started = reported.recv().unwrap_or_else(|_| Err("its keeper ended".to_owned()));
        let (root, isolated) = started.map_err(failed)?;
        let output = Arc::new(Mutex::new(VecDeque::new()));
        let lines = Arc::clone(&output);
        let reader = std::thread::spawn(move || read_lines(from_it, &lines));
        let (keeper, reader) = (Some(keeper), Some(reader));
        Ok(Self { command: command.to_owned(), root, isolated, end, keeper, reader, ended, output })
    }

    /// The program's processes, without the shell of the namespace that waits for the program.
    pub fn processes(&self) -> Vec<ProcessId> {
        let all = tree(self.root);
        // Without a namespace, the shell has been replaced by the program.
        let first = usize::from(self.isolated);
        all.into_iter().skip(first).collect()
    }

    /// True if all processes that the program starts end together with the program.
    pub fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// The program has ended.
    pub fn check(&self) -> Result<(), ServiceError> {
        let how = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(how) = how else { return Ok(()) };
        // The program's last output may still be in the pipe, so wait for the reader.
        std::thread::sleep(LOOK);
        Err(ServiceError::Ended { command: self.command.clone(), how, output: self.last_words() })
    }

    /// Returns the error for a service that runs but does not answer.
    pub fn not_ready(&self, why: String) -> ServiceError {
        let ports = listening(self.root);
        let listens = match &ports[..] {
            [] => "it listens on no port".to_owned(),
            ports => format!("it listens on {}", ports.join(", ")),
        };
        ServiceError::NotReady { command: self.command.clone(), why, listens, output: self.last_words() }
    }

    fn last_words(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.len() {
            0 => "; it wrote nothing".to_owned(),
            _ => format!("; it wrote last:\n  {}", lines.iter().cloned().collect::<Vec<_>>().join("\n  ")),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // If the keeper thread has ended, the program has ended, too.
        let _ = self.end.send(());
        for thread in [self.keeper.take(), self.reader.take()].into_iter().flatten() {
            let _ = thread.join();
        }
    }
}

/// The thread that starts the program, waits for it and ends it.
struct Keeper {
    command: String,
    netns: Option<PathBuf>,
    cpus: Vec<u32>,
    ended: Arc<Mutex<Option<String>>>,
}

impl Keeper {
    fn run(self, output: std::io::PipeWriter, report: &Sender<Started>, ends: &Receiver<()>) {
        let (mut child, isolated) = match self.spawn(output) {
            Ok(spawned) => spawned,
            Err(why) => return drop(report.send(Err(why))),
        };
        let heard = report.send(Ok((child.id(), isolated)));
        while heard.is_ok() {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(describe(status));
                    return;
                }
                Err(_) => break,
            }
            match ends.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
        }
        end(&mut child, isolated);
    }

    fn spawn(&self, output: std::io::PipeWriter) -> Result<(Child, bool), String> {
        let place = || -> Result<(), WireError> {
            Placement { netns: self.netns.clone(), cpu: None, priority: Priority::Ordinary }.enter()
        };
        place().map_err(|error| error.to_string())?;
        if !self.cpus.is_empty() {
            let mut set = CpuSet::new();
            let pin = self.cpus.iter().try_for_each(|cpu| set.set(*cpu as usize));
            let pin = pin.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
            pin.map_err(|error| format!("CPUs {:?}: {error}", self.cpus))?;
        }
        let isolated = unshare(CloneFlags::CLONE_NEWPID).is_ok();
        let again = output.try_clone().map_err(|error| error.to_string())?;
        let mut shell = Command::new("sh");
        let script = if isolated { INIT } else { PLAIN };
        shell.args(["-c", script, "netcliff", &self.command]).stdin(Stdio::null()).stdout(output).stderr(again);
        shell.process_group(0);
        // SAFETY: prctl is async-signal-safe and takes no pointers here.
        unsafe {
            shell.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let child = shell.spawn().map_err(|error| format!("sh: {error}"))?;
        Ok((child, isolated))
    }
}

/// Sends SIGTERM to all processes, waits for at most [`GRACE`], and kills the remaining processes.
fn end(child: &mut Child, isolated: bool) {
    let below = || -> Vec<ProcessId> { tree(child.id()).into_iter().skip(usize::from(isolated)).collect() };
    // SIGTERM may be ignored or fail: remaining processes are killed below.
    below().iter().for_each(|process| drop(process.ask_to_end()));
    let until = Instant::now() + GRACE;
    while !below().is_empty() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    let left = below();
    left.iter().for_each(|process| drop(process.end()));
    let _ = child.kill();
    if !isolated && let Ok(group) = i32::try_from(child.id()) {
        let _ = nix::sys::signal::killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
}

fn describe(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended by itself".to_owned(),
        (Some(127), _) => "was not found (exit status 127)".to_owned(),
        (Some(code), _) if code > 128 => format!("ended by signal {}", code - 128),
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
    }
}

/// Stores the last lines of the program's output; reads all of it, so that the pipe never fills.
fn read_lines(from: std::io::PipeReader, lines: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text: String = String::from_utf8_lossy(&line).chars().filter(|c| !c.is_control()).collect();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..250 {
            if let Some(seen) = look() {
                return seen;
            }
            std::thread::sleep(LOOK);
        }
        panic!("nothing within 5 s")
    }

    #[test]
    fn a_program_that_ends_says_how_and_what_it_wrote() {
        let service = Service::start("echo cannot open zone >&2; exit 3", None, &[]).unwrap();
        let error = wait_for(|| service.check().err()).to_string();
        assert!(error.contains("exit status 3") && error.contains("cannot open zone"), "{error}");
        let service = Service::start("/no/such/program --now", None, &[]).unwrap();
        let error = wait_for(|| service.check().err()).to_string();
        assert!(error.contains("was not found") && error.contains("/no/such/program"), "{error}");
    }

    #[test]
    fn what_it_forks_ends_with_it() {
        // One process becomes a daemon (new session, other parent), and one ignores SIGTERM.
        let command = "(setsid sleep 987651 &); trap '' TERM; sleep 987652";
        let service = Service::start(command, None, &[]).unwrap();
        if !service.is_isolated() {
            return netcliff_testkit::skip(netcliff_testkit::Need::Userns, "PID namespaces are not permitted");
        }
        let all = wait_for(|| Some(service.processes()).filter(|all| all.len() >= 3));
        assert!(service.check().is_ok());
        drop(service);
        assert!(all.iter().all(|process| !process.is_alive()), "{all:?}");
    }

    #[test]
    fn a_daemon_is_a_service_as_well() {
        let service = Service::start("(setsid sleep 987653 &)", None, &[]).unwrap();
        if !service.is_isolated() {
            return netcliff_testkit::skip(netcliff_testkit::Need::Userns, "PID namespaces are not permitted");
        }
        wait_for(|| Some(()).filter(|()| service.processes().iter().any(|_| true)));
        std::thread::sleep(5 * LOOK);
        assert!(service.check().is_ok(), "its first process has ended, the daemon runs");
    }
}
