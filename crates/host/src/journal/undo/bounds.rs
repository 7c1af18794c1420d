//! Limits what a journal may name to what netcliff itself makes or sets.

use crate::{journal::Change, process::ProcessId, procfs, setting::is_known_file, testbed::NETNS_DIR};
use nix::unistd::geteuid;
use std::{
    ffi::OsStr,
    io,
    path::{Component, Path},
};

/// Prefix of the names of netcliff's own namespaces and links.
const OURS: &str = "nc-";

/// Refuses a change that netcliff would not have made, because its undo would remove or write something else. `home` is
/// the state directory.
pub(super) fn check(change: &Change, home: &Path) -> io::Result<()> {
    let refused =
        |what: String, expected: &str| Err(io::Error::other(format!("{what} is not {expected}, so it is left alone")));
    match change {
        Change::NamespaceCreated { path } if !is_namespace(path) => {
            refused(path.display().to_string(), "a namespace of netcliff's below /run/netns")
        }
        Change::DirectoryCreated { path } if !is_directory(path, home) => {
            refused(path.display().to_string(), "a directory that netcliff makes")
        }
        Change::LinkCreated { name } if !name.starts_with(OURS) => refused(format!("{name:?}"), "a link of netcliff's"),
        Change::SysctlChanged { path, .. } if !is_known_file(path) => {
            refused(path.display().to_string(), "a file that netcliff sets")
        }
        Change::ProcessStarted { process } if !is_ours(*process) => {
            refused(format!("process {}", process.pid), "this user's")
        }
        // A setting checks its file itself at each read and write.
        _ => Ok(()),
    }
}

fn is_namespace(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with(OURS) && path.parent() == Some(Path::new(NETNS_DIR)) && is_straight(path)
}

fn is_directory(path: &Path, home: &Path) -> bool {
    path == Path::new(NETNS_DIR) || (path.starts_with(home) && path != home && is_straight(path))
}

fn is_straight(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Whether a process belongs to this user. Also true if the process has ended, or if its id now belongs to another
/// process: the undo does not touch it then.
fn is_ours(process: ProcessId) -> bool {
    let status = procfs::text(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse::<u32>().ok());
    !process.is_alive() || uid == Some(geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_journal_names_what_netcliff_makes() {
        let home = Path::new("/home/x/state");
        let namespace = |path: &str| check(&Change::NamespaceCreated { path: path.into() }, home).is_ok();
        assert!(namespace("/run/netns/nc-17-snd"));
        for path in ["/etc/passwd", "/run/netns/../nc-x", "/run/netns/other", "/run/netns/a/nc-1", "run/netns/nc-1"] {
            assert!(!namespace(path), "{path}");
        }
        let directory = |path: &str| check(&Change::DirectoryCreated { path: path.into() }, home).is_ok();
        assert!(directory("/run/netns") && directory("/home/x/state/made"));
        assert!(!directory("/srv") && !directory("/home/x/state") && !directory("/home/x/state/../other"));
        let sysctl = |path: &str| {
            let change = Change::SysctlChanged { path: PathBuf::from(path), old: "1".into(), new: "2".into() };
            check(&change, home).is_ok()
        };
        assert!(sysctl("/proc/sys/net/core/netdev_budget"));
        assert!(!sysctl("/proc/sys/kernel/core_pattern") && !sysctl("/etc/hostname"));
        let link = |name: &str| check(&Change::LinkCreated { name: name.into() }, home).is_ok();
        assert!(link("nc-17") && !link("eth0"));
        let init = ProcessId::of(1).expect("process 1");
        assert_eq!(is_ours(init), geteuid().is_root());
    }
}
