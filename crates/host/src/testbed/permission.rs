//! What this process may do with namespaces.

use super::TestbedError;
use crate::{procfs, system};
use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};
use std::{fs, io};

/// CAP_SYS_ADMIN, linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
/// CAP_NET_ADMIN, linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;

/// What this process may do with namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The host's own root: named namespaces, global sysctls, CPU placement of kernel threads.
    Root,
    /// Capable inside a user namespace only: anonymous namespaces, no global sysctls.
    UserNamespace,
    /// Without rights now; [`enter_user_namespace`] at program start should work.
    MayEnterUserNamespace,
    /// No namespaces are permitted.
    Forbidden {
        /// Reason, as a sentence.
        reason: String,
    },
}

impl Permission {
    /// Reads the permission without changing anything. `MayEnterUserNamespace` follows from settings and was not tried:
    /// a seccomp filter can still forbid it.
    pub fn probe() -> Permission {
        let capable = has_capabilities(&procfs::text("/proc/thread-self/status").unwrap_or_default());
        match (capable, in_initial_user_namespace()) {
            (true, true) => Permission::Root,
            (true, false) => Permission::UserNamespace,
            (false, _) => unprivileged(),
        }
    }

    /// Whether a [`super::netns::Testbed`] can be built now.
    pub fn allows_testbed(&self) -> bool {
        matches!(self, Permission::Root | Permission::UserNamespace)
    }
}

fn has_capabilities(status: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    [CAP_SYS_ADMIN, CAP_NET_ADMIN].iter().all(|cap| effective & (1 << cap) != 0)
}

fn in_initial_user_namespace() -> bool {
    let map = procfs::text("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn unprivileged() -> Permission {
    let switched_off = [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/user/max_net_namespaces", "0"),
    ];
    for (path, off) in switched_off {
        if procfs::text(path).as_deref() == Some(off) {
            let reason = format!("not root, and {path} is {off}");
            return Permission::Forbidden { reason };
        }
    }
    Permission::MayEnterUserNamespace
}

/// Moves the whole process into a new user namespace in which it is root, with network and mount namespaces of its own.
/// Must be called first in `main`: the kernel refuses it once a second thread exists. The process cannot return, and
/// outside the namespace it has only its former rights.
///
/// # Errors
/// [`TestbedError::NotPermitted`] if user namespaces are forbidden; [`TestbedError::Step`] if threads already exist.
pub fn enter_user_namespace() -> Result<(), TestbedError> {
    let (uid, gid) = (Uid::current(), Gid::current());
    let threads = procfs::names("/proc/self/task").len();
    if threads > 1 {
        let source =
            io::Error::other(format!("the process has {threads} threads; call this before the first is started"));
        return Err(TestbedError::Step { step: "enter a user namespace".into(), source });
    }
    system::new_user_namespace().map_err(TestbedError::step("create a user namespace"))?;
    let map =
        |path: &str, text: String| fs::write(path, text).map_err(TestbedError::step("map the user into the namespace"));
    // Without "deny" an unprivileged process may not write its gid map, user_namespaces(7).
    map("/proc/self/setgroups", "deny".into())?;
    map("/proc/self/uid_map", format!("0 {uid} 1"))?;
    map("/proc/self/gid_map", format!("0 {gid} 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_masks() {
        assert!(has_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_capabilities("CapEff:\t0000000000001000\n"));
        assert!(!has_capabilities("CapEff:\t0000000000000000\n"));
        assert!(!has_capabilities(""));
    }
}
