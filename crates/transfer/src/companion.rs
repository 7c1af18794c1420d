//! The far end of a test on this host as a separate process: an agent over pipes, in the rig's host under test.

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use netcliff_host::testbed::netns::Side;
use netcliff_packets::WireError;
use netcliff_packets::error::ControlError;
use netcliff_packets::thread::Placement;
use netcliff_remote::control::Limits;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::stream::Stream;

use netcliff_trial::rig::Rig;

/// Time allowed for the process to end after its pipes were closed.
const LEAVE: Duration = Duration::from_secs(5);
/// Interval between checks whether the process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Longest test that the agent accepts. The starting process ends it earlier.
const LONGEST: &str = "24h";

/// A far-end process. It ends when this value is dropped, and also when this process ends for any reason.
#[derive(Debug)]
pub struct Companion {
    /// The control channel. It is dropped first: the process leaves when its pipes close.
    pub session: Session,
    process: Process,
}

impl Companion {
    /// Starts `program`, a netcliff of this version, in the rig's host under test.
    ///
    /// # Errors
    /// The namespace cannot be entered, the program cannot be run, or it is not netcliff.
    pub fn start(program: &Path, version: &str, rig: &Rig) -> Result<Self, ControlError> {
        let place = Placement { netns: rig.netns(Side::HostUnderTest), ..Placement::default() };
        let (stream, child) = spawned(program, rig.host_address(), &place)?;
        let process = Process(child);
        let session = Session::over(stream, None, None, version, Limits::default())?;
        Ok(Self { session, process })
    }

    /// The process id of the far end's process.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

fn failed(program: &Path, source: std::io::Error) -> ControlError {
    ControlError::System { action: format!("run {} as the far end", program.display()), source }
}

/// Starts the process in its own thread, because a process inherits the network namespace of the thread that starts it.
fn spawned(program: &Path, data_at: IpAddr, place: &Placement) -> Result<(Stream, Child), ControlError> {
    let start = || -> Result<(Stream, Child), ControlError> {
        place.enter().map_err(|error| failed(program, entering(error)))?;
        let mut command = Command::new(program);
        command.args(["agent", "--stdio", "--longest", LONGEST, "--data-at"]).arg(data_at.to_string());
        // Ctrl-C reaches only this process, which then requests the far end's results.
        command.process_group(0);
        Stream::of_command(&mut command, "the process of the far end").map_err(|source| failed(program, source))
    };
    let started = thread::scope(|scope| scope.spawn(start).join());
    started.unwrap_or_else(|_| Err(failed(program, std::io::Error::other("the thread that starts it died"))))
}

fn entering(error: WireError) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// The child process. Its pipes are closed before this value is dropped, which requests it to end.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let until = Instant::now() + LEAVE;
        while Instant::now() < until {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        // The process does not react, and no result depends on it any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
