//! One network namespace with its own view of sysfs, and threads that run inside it.

use super::TestbedError;
use crate::journal::{Change, Journal};
use crate::system;
use nix::unistd::{chroot, fchdir};
use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::Path,
    thread,
};

/// Directory of the names given by `ip netns`, see ip-netns(8).
pub(crate) const NETNS_DIR: &str = "/run/netns";
const HERE: &str = "/proc/thread-self/ns/net";

/// A network namespace. It exists as long as this value and, if it is named, as long as its mount, which the journal
/// undoes.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    net: File,
    /// Mounts in which /sys shows this network namespace; `Err`: the reason why they could not be made.
    sysfs: Result<Mounts, String>,
}

/// A mount namespace, and this process's root directory in it. A thread that enters a mount namespace gets the
/// namespace's root, which differs from the root of a process in a chroot.
#[derive(Debug)]
struct Mounts {
    namespace: File,
    root: File,
}

impl Mounts {
    /// Moves the calling thread inside. The thread must not share its working directory with others.
    fn enter(&self) -> io::Result<()> {
        system::enter_mount_namespace(&self.namespace)?;
        fchdir(&self.root)?;
        Ok(chroot(".")?)
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { namespace: self.namespace.try_clone()?, root: self.root.try_clone()? })
    }
}

impl Namespace {
    /// A namespace that `ip netns` shows.
    pub(crate) fn named(name: &str, journal: &mut Journal) -> Result<Namespace, TestbedError> {
        let path = Path::new(NETNS_DIR).join(name);
        mount_point(&path, journal)?;
        Namespace::create(name, Some(&path))
    }

    /// Creates a namespace without a name: it ends with the process, even if the process is killed.
    pub(crate) fn anonymous(name: &str) -> Result<Namespace, TestbedError> {
        Namespace::create(name, None)
    }

    fn create(name: &str, pin: Option<&Path>) -> Result<Namespace, TestbedError> {
        // unshare acts on the calling thread, so it runs in a new thread.
        let made = thread::scope(|scope| scope.spawn(|| make(pin)).join());
        let (net, sysfs) = made.map_err(|panic| panicked(name, panic.as_ref()))??;
        Ok(Namespace { name: name.to_owned(), net, sysfs })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn net(&self) -> &File {
        &self.net
    }

    /// Reason why `/sys` does not show this namespace's devices to closures; `None` if it does.
    pub(crate) fn sysfs_error(&self) -> Option<&str> {
        self.sysfs.as_ref().err().map(String::as_str)
    }

    /// Runs a closure in a new thread inside the namespace and waits for its result.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter(&self.net, self.sysfs.as_ref().ok())?;
                Ok(work())
            });
            thread.join().map_err(|panic| panicked(&self.name, panic.as_ref()))?
        })
    }

    /// A handle with which a thread enters the namespace later, independent of this value's lifetime.
    pub(crate) fn entrance(&self) -> Result<Entrance, TestbedError> {
        let kept =
            || io::Result::Ok((self.net.try_clone()?, self.sysfs.as_ref().ok().map(Mounts::try_clone).transpose()?));
        let (net, sysfs) = kept().map_err(TestbedError::failed("keep a namespace open"))?;
        Ok(Entrance { net, sysfs })
    }
}

/// Creates an empty file on which the namespace is mounted.
fn mount_point(path: &Path, journal: &mut Journal) -> Result<(), TestbedError> {
    let dir = Path::new(NETNS_DIR);
    // Another process may remove an empty /run/netns between the two steps, hence several attempts.
    for _ in 0..10 {
        if !dir.exists() {
            journal.record(Change::DirectoryCreated { path: dir.to_owned() })?;
            fs::create_dir_all(dir).map_err(TestbedError::step("create /run/netns"))?;
        }
        let id = journal.record(Change::NamespaceCreated { path: path.to_owned() })?;
        let Err(error) = File::create_new(path) else { return Ok(()) };
        // This process did not create the file, so the undo must not remove it.
        journal.undone(id)?;
        if error.kind() != io::ErrorKind::NotFound {
            return Err(TestbedError::failed(format!("create {}", path.display()))(error));
        }
    }
    let source = io::Error::other("others keep removing it");
    Err(TestbedError::failed(format!("create {}", dir.display()))(source))
}

/// Lets a thread that outlives this value enter a namespace.
#[derive(Debug)]
pub(crate) struct Entrance {
    net: File,
    sysfs: Option<Mounts>,
}

impl Entrance {
    /// Moves the calling thread into the namespace. No other code may use this thread afterwards.
    pub(crate) fn enter(&self) -> Result<(), TestbedError> {
        enter(&self.net, self.sysfs.as_ref())
    }
}

fn enter(net: &File, sysfs: Option<&Mounts>) -> Result<(), TestbedError> {
    if let Some(mounts) = sysfs {
        // A thread that shares its working directory with others may not change mount namespace.
        system::own_working_directory()
            .and_then(|()| mounts.enter())
            .map_err(TestbedError::step("enter a mount namespace"))?;
    }
    system::enter_network_namespace(net).map_err(TestbedError::step("enter a network namespace"))
}

type Made = (File, Result<Mounts, String>);

/// Must run in a new thread: creates a network namespace, bind-mounts it at `pin` if given, then makes a private view
/// of /sys.
fn make(pin: Option<&Path>) -> Result<Made, TestbedError> {
    system::new_network_namespace().map_err(TestbedError::step("create a network namespace"))?;
    let net = File::open(HERE).map_err(TestbedError::failed(format!("open {HERE}")))?;
    if let Some(path) = pin {
        // Before the mount namespace is left: the name must be visible to all processes.
        system::bind_mount(HERE, path).map_err(TestbedError::step("mount the namespace below /run/netns"))?;
    }
    let sysfs = private_sysfs().map_err(|error| error.to_string());
    Ok((net, sysfs))
}

/// Mounts sysfs in a private mount namespace, because sysfs shows the network devices of the namespace in which it was
/// mounted.
fn private_sysfs() -> io::Result<Mounts> {
    system::new_mount_namespace()?;
    system::mount_kind("sysfs", "/sys")?;
    Ok(Mounts { namespace: File::open("/proc/thread-self/ns/mnt")?, root: File::open("/")? })
}

pub(crate) fn panicked(namespace: &str, panic: &(dyn std::any::Any + Send)) -> TestbedError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    TestbedError::Panicked { namespace: namespace.to_owned(), message }
}

/// The file's descriptor as a `u32`, the form in which rtnetlink takes a network namespace.
pub(crate) fn raw_fd(file: &File) -> u32 {
    u32::try_from(file.as_raw_fd()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_testkit::{Need, has, has_program};
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use std::process::Command;

    /// Moves the calling thread into a root directory with all files of the system below it, as in a rescue system or a
    /// bare root.
    fn move_into_a_chroot(dir: &Path) {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none).unwrap();
        mount(Some("/"), dir, none, MsFlags::MS_BIND | MsFlags::MS_REC, none).unwrap();
        chroot(dir).unwrap();
        std::env::set_current_dir("/").unwrap();
    }

    #[test]
    fn sysfs_is_that_of_the_namespace_in_a_chroot_too() {
        if !has(Need::Netns) || !has_program("ip") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        // Changes of the thread's view of files end with the thread.
        let seen = thread::scope(|scope| {
            let in_chroot = scope.spawn(|| {
                move_into_a_chroot(dir.path());
                let namespace = Namespace::anonymous("chrooted").unwrap();
                let added = || Command::new("ip").args(["link", "add", "nc0", "type", "veth", "peer", "nc1"]).status();
                assert!(namespace.run(added).unwrap().unwrap().success());
                assert_eq!(namespace.sysfs_error(), None);
                namespace.run(|| Path::new("/sys/class/net/nc0/queues/rx-0/rps_cpus").exists()).unwrap()
            });
            in_chroot.join().unwrap()
        });
        assert!(seen, "the namespace's device");
    }
}
