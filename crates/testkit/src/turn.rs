//! Tests that must not run beside each other.

use std::fs::File;
use std::path::PathBuf;

/// A test that starts another one as a child hands its turn down by setting this variable for it.
pub const HAS_TURN: &str = "NETCLIFF_TEST_HAS_TURN";

/// What tests take turns with. Each test may be a process of its own (cargo-nextest), so that a lock in memory keeps nothing apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// The CPUs: packets are paced or counted on them.
    Cpus,
    /// Settings of the whole host.
    HostSettings,
}

/// A turn, until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Turn {
    /// None: it is the parent's.
    _locked: Option<File>,
}

/// Waits until no other test on this machine has it; at once where the process that started this one has handed its turn down.
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

/// The same for all runs on this machine, wherever their temporary files lie (`TMPDIR`); of this user, since another one's file could
/// not be opened.
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
