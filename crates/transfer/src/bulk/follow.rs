//! Moves a worker to a CPU at a fixed distance from the one on which the kernel handles its flow's packets.

use std::io;
use std::os::fd::BorrowedFd;

pub use super::end::Followed;
use super::end::{DataPath, End};
use netcliff_host::system::SocketOption;
use netcliff_packets::sockopt;
use netcliff_packets::thread::{Placement, allowed_cpus};

/// Socket options of include/uapi/asm-generic/socket.h.
const SO_INCOMING_CPU: SocketOption = SocketOption::of_linux(libc::SOL_SOCKET, 49);
const SO_INCOMING_NAPI_ID: SocketOption = SocketOption::of_linux(libc::SOL_SOCKET, 56);
/// If the kernel knows no CPU for a flow's packets after this many steps, the worker stays where it is.
const MOST_STEPS: u32 = 10_000;

/// A data path whose thread follows the CPU of its flow's packets.
pub(super) struct Following<'a> {
    mover: Box<dyn DataPath + 'a>,
    socket: BorrowedFd<'a>,
    /// Number of places from the packets' CPU to the worker's in the list of allowed CPUs; 0 is the same CPU.
    distance: usize,
    followed: Option<Followed>,
    steps: u32,
}

impl<'a> Following<'a> {
    pub(super) fn new(mover: Box<dyn DataPath + 'a>, socket: BorrowedFd<'a>, distance: u32) -> Self {
        Self { mover, socket, distance: distance as usize, followed: None, steps: 0 }
    }

    /// Moves the calling thread, once the kernel knows the CPU of the packets.
    fn follow(&mut self) {
        let incoming = sockopt::int(self.socket, SO_INCOMING_CPU);
        let Some(incoming_cpu) = incoming.and_then(|cpu| usize::try_from(cpu).ok()) else { return };
        let Some(cpu) = away(&allowed_cpus_of_process(), incoming_cpu, self.distance) else { return };
        if (Placement { cpu: Some(cpu), ..Placement::default() }).enter().is_ok() {
            let napi = sockopt::int(self.socket, SO_INCOMING_NAPI_ID);
            let napi_id = napi.and_then(|id| u32::try_from(id).ok()).filter(|id| *id > 0);
            self.followed = Some(Followed { incoming_cpu, napi_id, cpu });
        }
    }
}

/// The CPUs that the process may use, not the one that this thread was pinned to.
fn allowed_cpus_of_process() -> Vec<usize> {
    // Read the list of the process's main thread, which is never pinned.
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or_else(allowed_cpus, |list| parsed(list.trim()))
}

/// Parses a list of CPUs such as `0-3,8`.
fn parsed(list: &str) -> Vec<usize> {
    let run = |text: &str| -> Option<Vec<usize>> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        Some((from.parse().ok()?..=to.parse().ok()?).collect())
    };
    list.split(',').filter_map(run).flatten().collect()
}

/// The CPU `distance` places after `from` in the list of allowed CPUs, wrapping around at its end. `None` if the list
/// is empty.
fn away(allowed: &[usize], from: usize, distance: usize) -> Option<usize> {
    let place = allowed.iter().position(|cpu| *cpu >= from).unwrap_or(0);
    allowed.get((place + distance) % allowed.len().max(1)).copied()
}

impl DataPath for Following<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let moved = self.mover.step()?;
        if self.followed.is_none() && self.steps < MOST_STEPS {
            self.steps += 1;
            self.follow();
        }
        Ok(moved)
    }

    fn first(&mut self) -> io::Result<(usize, u64)> {
        self.mover.first()
    }

    fn due_ns(&self) -> Option<u64> {
        self.mover.due_ns()
    }

    fn say_end(&mut self) -> Option<u64> {
        self.mover.say_end()
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        end.followed = self.followed;
        self.mover.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_among_the_cpus_that_may_be_used() {
        let allowed = parsed("0-2,5");
        assert_eq!(allowed, [0, 1, 2, 5]);
        assert_eq!(away(&allowed, 2, 0), Some(2));
        assert_eq!(away(&allowed, 2, 1), Some(5));
        assert_eq!(away(&allowed, 5, 1), Some(0));
        assert_eq!(away(&allowed, 3, 0), Some(5), "a CPU that may not be used: the next one");
        assert_eq!(away(&[], 0, 1), None);
    }
}
