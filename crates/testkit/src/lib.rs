//! Programs and kernel features that tests need, and that a machine may lack.
//!
//! A test checks its needs before it starts ([`has`], [`has_program`]) and returns if one is missing. The check is a
//! separate probe, never a failure of the tested code, so that no failure turns into a skip. A missing need is reported
//! as one line `SKIPPED: test: need: reason`, on stderr and in the file that [`SKIPPED_FILE`] names; if [`REQUIRE`]
//! lists the need, the test fails instead.
//!
//! The names of programs are in one list, `scripts/lib/programs.txt`, from which `scripts/setup.sh` installs them.

mod grid;
mod need;
mod probe;
mod programs;
mod report;
mod turn;

use std::time::{Duration, Instant};

pub use grid::{GRID, Grid};
pub use need::Need;
pub use programs::{has_program, listed_programs};
pub use report::{REQUIRE, SKIPPED_FILE, not_applicable, skip};
pub use turn::{HAS_TURN, Shared, Turn, turn};

/// True if this machine has the need. Otherwise reports the test as skipped, or panics if [`REQUIRE`] lists the need.
pub fn has(need: Need) -> bool {
    match probe::missing(need) {
        None => true,
        Some(reason) => {
            skip(need, &reason);
            false
        }
    }
}

/// True if this user can create network namespaces: as root, or inside a user namespace. Otherwise as [`has`].
pub fn has_namespaces() -> bool {
    has(if nix::unistd::geteuid().is_root() { Need::Netns } else { Need::Userns })
}

/// Longest wait for another netcliff on this machine; the panic message has its pid.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// Calls `build`, which takes netcliff's lock of the whole machine, and repeats it while another netcliff holds the
/// lock.
///
/// # Panics
/// `build` fails, or another netcliff holds the lock for two minutes.
pub fn built<T, E: std::fmt::Display>(mut build: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match build() {
            Err(error) if error.to_string().contains("another netcliff") && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(200));
            }
            built => return built.unwrap_or_else(|error| panic!("{error}")),
        }
    }
}

/// Returns the first result of `attempt` that is not `None`. For measurements that a busy machine may disturb: if one
/// attempt fails by chance with probability p, all of them fail with probability p to the power `most`.
///
/// # Panics
///
/// After `most` attempts without a result, with the message `what`.
pub fn retried<T>(most: usize, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..most).find_map(|_| attempt()).unwrap_or_else(|| panic!("{what} in {most} attempts"))
}

/// True if this machine has all of `needs`; the first missing one is reported as by [`has`].
pub fn has_all(needs: &[Need]) -> bool {
    needs.iter().all(|need| has(*need))
}
