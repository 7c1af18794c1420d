//! The far end of a test on this host as a process of its own: an agent over pipes, in the rig's host under test.

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

/// How long it may take to leave when its pipes are closed.
const LEAVE: Duration = Duration::from_secs(5);
/// Interval between checks whether it has left.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Longest test that the agent accepts; its starter ends it earlier.
const LONGEST: &str = "24h";

/// A far-end process. Dropping it ends it; it also ends with this process, however that ends.
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
    /// The namespace cannot be entered, the program cannot be run, or it is no netcliff.
    pub fn start(program: &Path, version: &str, rig: &Rig) -> Result<Self, ControlError> {
        let place = Placement { netns: rig.netns(Side::HostUnderTest), ..Placement::default() };
        let (stream, child) = spawned(program, rig.host_address(), &place)?;
        let process = Process(child);
        let session = Session::over(stream, None, None, version, Limits::default())?;
        Ok(Self { session, process })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

fn failed(program: &Path, source: std::io::Error) -> ControlError {
    ControlError::System { action: format!("run {} as the far end", program.display()), source }
}

/// A process starts in the network namespace of the thread that starts it.
fn spawned(program: &Path, data_at: IpAddr, place: &Placement) -> Result<(Stream, Child), ControlError> {
    let start = || -> Result<(Stream, Child), ControlError> {
        place.enter().map_err(|error| failed(program, entering(error)))?;
        let mut command = Command::new(program);
        command.args(["agent", "--stdio", "--longest", LONGEST, "--data-at"]).arg(data_at.to_string());
        // Ctrl-C is for the process that started it, which then asks it for what was measured.
        command.process_group(0);
        Stream::of_command(&mut command, "the process of the far end").map_err(|source| failed(program, source))
    };
    let started = thread::scope(|scope| scope.spawn(start).join());
    started.unwrap_or_else(|_| Err(failed(program, std::io::Error::other("the thread that starts it died"))))
}

fn entering(error: WireError) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// A child that was asked to leave by the time it is dropped.
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
        // It does not react: nothing is lost with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
