//! What tests need of a machine and may not find: programs and kernel features.
//!
//! A test asks before it starts ([`has`], [`has_program`]) and returns when the answer is no. The answer comes from a
//! probe of its own, never from the failure of what is tested, so that no failure turns into a skip. A need that is
//! missing is reported as one line `SKIPPED: test: need: reason`, on stderr and in the file that [`SKIPPED_FILE`] names;
//! where [`REQUIRE`] lists the need, the test fails instead.
//!
//! Programs stand in one list, `scripts/lib/programs.txt`, from which `scripts/setup.sh` installs them.

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

/// True where this machine has the need; else the test is reported as skipped, or fails where the need is required.
pub fn has(need: Need) -> bool {
    match probe::missing(need) {
        None => true,
        Some(reason) => {
            skip(need, &reason);
            false
        }
    }
}

/// True where this user can make network namespaces: as root, or below a user namespace.
pub fn has_namespaces() -> bool {
    has(if nix::unistd::geteuid().is_root() { Need::Netns } else { Need::Userns })
}

/// The longest that another netcliff on this machine is waited for; its pid is in the failure.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// Builds what takes this machine's lock, which unlike that of the command's tests is everybody's.
///
/// # Panics
/// It cannot be built, or the lock is held for two minutes.
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

/// The first attempt that gives something. For what a loaded machine may spoil: where one attempt fails with
/// probability p though nothing is wrong, the false alarm has p to the power `most`.
///
/// # Panics
///
/// After `most` attempts that gave nothing, with `what` they lacked.
pub fn retried<T>(most: usize, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..most).find_map(|_| attempt()).unwrap_or_else(|| panic!("{what} in {most} attempts"))
}

/// True where this machine has each of them; the first that is missing is reported.
pub fn has_all(needs: &[Need]) -> bool {
    needs.iter().all(|need| has(*need))
}
