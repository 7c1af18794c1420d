//! Locks for tests that must not run at the same time.

use std::fs::File;
use std::path::PathBuf;

/// Environment variable that a test sets for a child process to which it passes its turn.
pub const HAS_TURN: &str = "NETCLIFF_TEST_HAS_TURN";

/// A resource that tests use in turn. Its lock is a file, because each test may be a separate process (cargo-nextest).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The CPUs: packets are paced or counted on them.
    Cpus,
    /// Settings of the whole host.
    HostSettings,
}

/// Exclusive use of a [`Shared`] resource, until it is dropped or the process ends in any way.
#[derive(Debug)]
pub struct Turn {
    /// `None`: the parent process has the lock.
    _locked: Option<File>,
}

/// Waits until no other test on this machine uses the resource. Returns at once if the parent process has passed on its
/// turn ([`HAS_TURN`]).
///
/// # Panics
///
/// The file of the lock cannot be opened or locked.
pub fn turn(shared: Shared) -> Turn {
    if std::env::var_os(HAS_TURN).is_some() {
        return Turn { _locked: None };
    }
    let path = lock_of(shared);
    let file = File::options().create(true).write(true).truncate(false).open(&path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Turn { _locked: Some(file) }
}

/// Path of the lock file: one for all runs of this user on this machine, whatever `TMPDIR` is. Each user has another
/// file, because a user cannot open the files of others.
fn lock_of(shared: Shared) -> PathBuf {
    let name = match shared {
        Shared::Cpus => "cpus",
        Shared::HostSettings => "host-settings",
    };
    PathBuf::from(format!("/tmp/netcliff-test-{}-{name}.lock", nix::unistd::geteuid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_at_a_time() {
        let held = turn(Shared::HostSettings);
        let other = File::options().write(true).open(lock_of(Shared::HostSettings)).expect("it is there");
        assert!(other.try_lock().is_err(), "somebody has it");
        drop(held);
        turn(Shared::HostSettings);
    }
}
