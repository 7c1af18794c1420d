//! Values of /proc/sys changed for the time of a run, through the journal.

use super::TestbedError;
use crate::{
    journal::{Change, ChangeId, HostLock, Journal},
    procfs,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Sysctls of the receive path that belong to the whole host and not to one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SysctlOverrides {
    /// `net.core.netdev_max_backlog` (packets): length of each CPU's backlog.
    pub netdev_max_backlog: Option<u32>,
    /// `net.core.netdev_budget` (packets): packets a softirq round may take.
    pub netdev_budget: Option<u32>,
    /// `net.core.netdev_budget_usecs` (us): time a softirq round may take.
    pub netdev_budget_usecs: Option<u32>,
    /// `net.core.dev_weight` (packets): packets one poll of the backlog may take.
    pub dev_weight: Option<u32>,
    /// `net.core.rmem_max` (bytes): largest receive buffer that a socket may request.
    pub rmem_max: Option<u32>,
    /// `net.core.rmem_default` (bytes): receive buffer of a socket that requests no size. It applies to sockets opened
    /// afterwards.
    pub rmem_default: Option<u32>,
    /// `net.core.busy_poll` and `net.core.busy_read` (us): how long poll and read look for packets before they sleep.
    pub busy_poll_usecs: Option<u32>,
}

impl SysctlOverrides {
    /// Dotted name and value of each override.
    pub fn entries(&self) -> Vec<(&'static str, u32)> {
        [
            ("net.core.netdev_max_backlog", self.netdev_max_backlog),
            ("net.core.netdev_budget", self.netdev_budget),
            ("net.core.netdev_budget_usecs", self.netdev_budget_usecs),
            ("net.core.dev_weight", self.dev_weight),
            ("net.core.rmem_max", self.rmem_max),
            ("net.core.rmem_default", self.rmem_default),
            ("net.core.busy_poll", self.busy_poll_usecs),
            ("net.core.busy_read", self.busy_poll_usecs),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// The file of a dotted sysctl name.
pub fn sysctl_path(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// Sets every override through the journal.
pub(crate) fn set_all(journal: &mut Journal, overrides: &SysctlOverrides) -> Result<(), TestbedError> {
    for (name, value) in overrides.entries() {
        set(journal, &sysctl_path(name), &value.to_string())?;
    }
    Ok(())
}

/// Sysctl overrides in force without a testbed. Dropping this value restores the previous settings.
#[derive(Debug)]
pub struct Held(Journal);

impl Held {
    /// Sets the overrides.
    ///
    /// # Errors
    /// See [`set`]; values set before the error are restored.
    pub fn take(lock: &HostLock, overrides: &SysctlOverrides) -> Result<Self, TestbedError> {
        let mut held = Self(Journal::begin(lock.state())?);
        set_all(&mut held.0, overrides)?;
        Ok(held)
    }
}

/// Writes a value below /proc/sys or /sys after recording the old one in the journal. `None` if the file has the value
/// already.
///
/// # Errors
/// The file does not exist or may not be written, or the kernel stores another value than requested.
pub fn set(journal: &mut Journal, path: &Path, new: &str) -> Result<Option<ChangeId>, TestbedError> {
    let old = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TestbedError::NoSuchSysctl { path: path.to_owned() });
        }
        other => other.map_err(TestbedError::failed(format!("read {}", path.display())))?,
    };
    let old = old.trim().to_owned();
    if old == new {
        return Ok(None);
    }
    let change = Change::SysctlChanged { path: path.to_owned(), old, new: new.to_owned() };
    let id = journal.record(change)?;
    fs::write(path, new).map_err(TestbedError::failed(format!("write {new} to {}", path.display())))?;
    let actual = procfs::text(path).unwrap_or_default();
    if actual.split_whitespace().eq(new.split_whitespace()) {
        Ok(Some(id))
    } else {
        let (path, wanted) = (path.to_owned(), new.to_owned());
        Err(TestbedError::NotKept { path, wanted, actual })
    }
}
