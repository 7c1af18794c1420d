//! One measuring run at a time on a host.
//!
//! A user's runs exclude each other by a flock in the user's own state directory, which no other user can reach. Runs of
//! different users see each other by [`others`]: a user's waits or is refused; root's waits for a while and then goes on beside
//! it, as otherwise anybody could keep root from measuring, and from cleaning up. A run set to it measures beside others at once
//! ([`HostLock::go_on_beside_others`]).

use super::{
    JournalError, ReplayReport, StateDir,
    others::{self, Announcement},
    replay, trust,
    who::{Who, is_ancestor},
};
use crate::testbed::Permission;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Names the open file by which a child shares the lock of its parent.
const INHERITED: &str = "NETCLIFF_LOCK_FD";
/// Names the process that holds the lock, for those that it has measure, children of children too.
const HOLDER: &str = "NETCLIFF_LOCK_PID";
/// Interval between two checks of a lock that is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// Two runs that announce themselves at once both step back; they retry after different times.
const STEPS_BACK: u32 = 4;
/// How long root's run waits for another user's by default.
const ROOT_WAITS: Duration = Duration::from_secs(10);

/// How long locks of others are waited for, None: the default; and the function that reports the wait, once.
type Patience = (Option<Duration>, fn(&str));
static PATIENCE: OnceLock<Patience> = OnceLock::new();
/// The user does not want to wait any longer.
static WAIT_ENDED: AtomicBool = AtomicBool::new(false);
/// The user measures beside other users' runs.
static BESIDE: AtomicBool = AtomicBool::new(false);

/// Held by the run that measures or changes this host; released when the last clone is dropped and by
/// the kernel when the process dies, so it never goes stale.
#[derive(Debug, Clone)]
pub struct HostLock {
    held: Arc<Held>,
    /// Shows this run to other users.
    shown: Option<Arc<Announcement>>,
    state: StateDir,
}

#[derive(Debug)]
enum Held {
    Own(Flock<File>),
    /// The parent's: the parent releases it, this process does not.
    Parents,
    /// An ancestor's, who measures by this process; the file admits one such process at a time.
    Ancestors {
        _file: Flock<File>,
    },
}

impl HostLock {
    /// From now on this process waits for other runs, at most `limit`; None: it gives up at once, root after a while. `told` is
    /// called with a sentence when it begins to wait. The first call counts.
    pub fn wait_for_others(limit: Option<Duration>, told: fn(&str)) {
        let _ = PATIENCE.set((limit, told));
    }

    /// From now on this process does not wait for other users' runs, and is not refused by them: it goes on beside them, and its
    /// result says so. A run of the same user still excludes it.
    pub fn go_on_beside_others() {
        BESIDE.store(true, Ordering::Relaxed);
    }

    /// Ends a wait for other runs, now or to come, as a signal asks. Safe to call from any thread.
    pub fn end_wait() {
        WAIT_ENDED.store(true, Ordering::Relaxed);
    }

    /// Takes the lock, without waiting unless [`HostLock::wait_for_others`] was called.
    ///
    /// # Errors
    /// [`JournalError::Busy`] with the holder, [`JournalError::WaitEnded`], or an I/O error of the state directory.
    pub fn acquire(state: &StateDir) -> Result<HostLock, JournalError> {
        let mut waiting = Waiting::new(Duration::ZERO);
        loop {
            let error = match HostLock::acquire_now(state) {
                Err(error @ (JournalError::Busy { .. } | JournalError::Sibling { .. })) => error,
                other => return other,
            };
            let who = match &error {
                JournalError::Busy { holder } => holder.clone(),
                JournalError::Sibling { pid } => described(pid),
                _ => return Err(error),
            };
            if !waiting.go_on(&who)? {
                return Err(error);
            }
        }
    }

    fn acquire_now(state: &StateDir) -> Result<HostLock, JournalError> {
        let path = state.lock_path();
        let lock = |held| HostLock { held: Arc::new(held), shown: None, state: state.clone() };
        if is_inherited(&path) {
            return Ok(lock(Held::Parents));
        }
        match exclusive(&path)? {
            Ok(file) => Ok(lock(Held::Own(file))),
            Err(pid) if !is_announced(&pid) => Err(JournalError::Busy { holder: described(&pid) }),
            Err(pid) if !is_ancestor(&pid) => Err(JournalError::LeftBehind { pid }),
            Err(_) => match exclusive(&state.shared_lock_path())? {
                Ok(file) => Ok(lock(Held::Ancestors { _file: file })),
                Err(pid) => Err(JournalError::Sibling { pid }),
            },
        }
    }

    /// Takes the lock, undoes what dead runs left, then makes sure that no other user's run is under way: the proper start of
    /// every run. Root goes on beside such a run once it has waited, and the report says so.
    ///
    /// # Errors
    /// As [`HostLock::acquire`] and [`replay`]; [`JournalError::OtherUser`].
    pub fn acquire_and_replay(state: &StateDir) -> Result<(HostLock, ReplayReport), JournalError> {
        let mut lock = HostLock::acquire(state)?;
        // Before anybody is waited for: what a dead run left does not have to stay until others are done.
        let mut report = replay(state)?;
        report.beside = lock.show()?;
        Ok((lock, report))
    }

    /// Announces this run to other users; returns their runs that are under way and not waited for any longer, in sentences.
    fn show(&mut self) -> Result<Vec<String>, JournalError> {
        if !self.state.is_shared() || !matches!(*self.held, Held::Own(_)) {
            return Ok(Vec::new());
        }
        let is_root = Permission::probe() == Permission::Root;
        let goes_on = is_root || BESIDE.load(Ordering::Relaxed);
        let usual = if is_root && !BESIDE.load(Ordering::Relaxed) { ROOT_WAITS } else { Duration::ZERO };
        let mut waiting = Waiting::new(usual);
        let mut steps_back = 0;
        loop {
            // First announced, then checked: of two that start at once at least one sees the other.
            let shown = Announcement::new().map_err(JournalError::io("show this run by", Path::new("a lock")))?;
            let others = others::others();
            let Some(first) = others.first() else {
                self.shown = Some(Arc::new(shown));
                return Ok(Vec::new());
            };
            drop(shown);
            if steps_back < STEPS_BACK {
                steps_back += 1;
                thread::sleep(Duration::from_millis(5 + u64::from(std::process::id() % 16) * 3));
            } else if waiting.go_on(&first.to_string())? {
            } else if goes_on {
                self.shown = Announcement::new().ok().map(Arc::new);
                return Ok(others.iter().map(beside).collect());
            } else {
                return Err(JournalError::OtherUser { other: first.to_string() });
            }
        }
    }

    /// Lets a child that measures for this run share the lock as long as it has the file open: name and value for its
    /// environment, and the file, which has to stay until the child has been started. Only for a netcliff: any other
    /// program would keep it and, left in the background, the lock.
    ///
    /// # Errors
    /// When the process may not open more files; or the lock is itself the parent's, which is not passed on.
    pub fn share(&self) -> io::Result<(&'static str, String, OwnedFd)> {
        let Held::Own(file) = &*self.held else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the lock of a parent is not passed on"));
        };
        // Without close-on-exec, unlike File::try_clone.
        let file = nix::unistd::dup(&**file)?;
        Ok((INHERITED, file.as_raw_fd().to_string(), file))
    }

    /// Lets the commands that a child starts, such as a netcliff in a script, share the lock as long as this process lives and
    /// is their ancestor: name and value for the child's environment. One of them at a time; what is left in the background
    /// when the child ends has no such ancestor any more.
    pub fn announce(&self) -> (&'static str, String) {
        (HOLDER, std::process::id().to_string())
    }

    /// The state directory that the lock guards.
    pub fn state(&self) -> &StateDir {
        &self.state
    }
}

fn beside(other: &Who) -> String {
    format!("another netcliff run ({other}) measures or changes this host at the same time")
}

/// A wait for other runs, reported once.
struct Waiting {
    until: Instant,
    told: Option<fn(&str)>,
}

impl Waiting {
    /// A wait as long as requested, or else `usual`.
    fn new(usual: Duration) -> Self {
        let patience = PATIENCE.get();
        let limit = patience.and_then(|(limit, _)| *limit).unwrap_or(usual);
        Self { until: Instant::now() + limit, told: patience.map(|(_, told)| *told) }
    }

    /// Waits a little for another run; false: it has waited long enough.
    fn go_on(&mut self, other: &str) -> Result<bool, JournalError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        if WAIT_ENDED.load(Ordering::Relaxed) {
            return Err(JournalError::WaitEnded { other: other.to_owned() });
        }
        if let Some(told) = self.told.take() {
            let most_s = left.as_secs_f64();
            told(&format!("waiting for another netcliff run ({other}), at most {most_s:.0} s; Ctrl-C ends the wait"));
        }
        thread::sleep(left.min(LOOK));
        Ok(true)
    }
}

/// The holder of a lock, by what is known of its process.
fn described(pid: &str) -> String {
    pid.parse().map_or_else(|_| format!("pid {pid}"), |pid| Who::of(pid).to_string())
}

/// Whether the environment names an open file of this process that is the lock: only a child of its holder can have it.
fn is_inherited(path: &Path) -> bool {
    let Some(number) = std::env::var(INHERITED).ok().and_then(|text| text.parse::<u32>().ok()) else { return false };
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::metadata(format!("/proc/self/fd/{number}")), fs::metadata(path)) {
        (Ok(open), Ok(lock)) => same(open, lock),
        _ => false,
    }
}

/// Takes a lock file without waiting, and writes this process into it; if it is taken, the pid of its holder.
fn exclusive(path: &Path) -> Result<Result<Flock<File>, String>, JournalError> {
    // Not truncated on open: until the lock is ours the file names its holder.
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(JournalError::io("open", path))?;
    let about = file.metadata().map_err(JournalError::io("read", path))?;
    // An earlier version left it so that every user could read it, and by that lock it.
    if about.is_file() && about.mode() & 0o077 != 0 && about.uid() == nix::unistd::geteuid().as_raw() {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(JournalError::io("change the mode of", path))?;
    }
    let about = file.metadata().map_err(JournalError::io("read", path))?;
    if let Some(why) = trust::foreign(&about) {
        return Err(JournalError::io("use", path)(io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut file) => {
            file.set_len(0)
                .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
                .map_err(JournalError::io("write", path))?;
            Ok(Ok(file))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(Err(holder(&about, path))),
        Err((_, errno)) => Err(JournalError::io("lock", path)(errno.into())),
    }
}

/// Whether the environment names the holder of the lock as the run that measures by this process.
fn is_announced(holder: &str) -> bool {
    std::env::var(HOLDER).is_ok_and(|announced| announced == holder)
}

/// The pid of the holder: from the file if that process lives, else from the kernel, as the file may be older than the lock.
fn holder(about: &fs::Metadata, path: &Path) -> String {
    let written = fs::read_to_string(path).unwrap_or_default().trim().parse::<u32>().ok();
    let alive = |pid: &u32| crate::process::ProcessId::of(*pid).is_some();
    let pid = written.filter(alive).or_else(|| others::holder_of(about.dev(), about.ino()));
    pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}
