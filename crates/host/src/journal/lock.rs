//! Permits one measuring run at a time on a host.
//!
//! The runs of one user exclude each other by flock(2) on a file in the user's own state directory, which no other user
//! can reach. Runs of different users find each other by [`others`]. A user's run then waits or is refused. A run of
//! root waits for a while and then continues at the same time as the other run; otherwise any user could prevent root
//! from measuring and from cleaning up. A run may also be set to measure at the same time as others without waiting
//! ([`HostLock::go_on_beside_others`]).

use super::{
    JournalError, ReplayReport, StateDir,
    others::{self, Announcement},
    replay, trust,
    who::{Who, is_ancestor},
};
use crate::testbed::Permission;
use netcliff_core::record::OtherRun;
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

/// Environment variable with the descriptor by which a child shares its parent's lock.
const INHERITED: &str = "NETCLIFF_LOCK_FD";
/// Environment variable with the id of the process that holds the lock; all descendants that measure for that process
/// inherit it.
const HOLDER: &str = "NETCLIFF_LOCK_PID";
/// Interval between two attempts to take the lock.
const LOOK: Duration = Duration::from_millis(100);
/// Number of times that a run withdraws its announcement and retries before the other run counts as in progress. Two
/// runs that announce themselves at the same moment both withdraw, and retry after times that depend on their process
/// ids.
const STEPS_BACK: u32 = 4;
/// Default time that a run of root waits for a run of another user.
const ROOT_WAITS: Duration = Duration::from_secs(10);

/// The longest wait for other runs' locks (`None` means the default), and the function that reports the wait once.
type Patience = (Option<Duration>, fn(&str));
static PATIENCE: OnceLock<Patience> = OnceLock::new();
/// Whether the user ended the wait.
static WAIT_ENDED: AtomicBool = AtomicBool::new(false);
/// Whether the user chose to measure at the same time as other users' runs.
static BESIDE: AtomicBool = AtomicBool::new(false);

/// The lock of the run that measures or changes this host. It is released when the last clone is dropped, or by the
/// kernel when this process and all children that share the lock ([`HostLock::share`]) have ended, so it never outlives
/// them. A lock of the parent or of another ancestor is released by its owner, not by this process.
#[derive(Debug, Clone)]
pub struct HostLock {
    held: Arc<Held>,
    /// The announcement that shows this run to other users.
    shown: Option<Arc<Announcement>>,
    state: StateDir,
}

#[derive(Debug)]
enum Held {
    Own(Flock<File>),
    /// The lock is the parent's; this process does not release it.
    Parents,
    /// The lock belongs to an ancestor, for which this process measures. The file admits one such process at a time.
    Ancestors {
        _file: Flock<File>,
    },
}

impl HostLock {
    /// From now on this process waits for other runs, at most `limit`. With `None` it does not wait, except that root
    /// waits 10 s for a run of another user. `say` is called with a sentence when a wait begins. Only the first call
    /// has an effect.
    pub fn wait_for_others(limit: Option<Duration>, say: fn(&str)) {
        let _ = PATIENCE.set((limit, say));
    }

    /// From now on this process neither waits for other users' runs nor is refused because of them: it measures at the
    /// same time, and its result states this. Runs of the same user still exclude each other.
    pub fn go_on_beside_others() {
        BESIDE.store(true, Ordering::Relaxed);
    }

    /// Ends a present or later wait for other runs, for example on a signal. Any thread may call it.
    pub fn end_wait() {
        WAIT_ENDED.store(true, Ordering::Relaxed);
    }

    /// Takes the lock. It waits only if [`HostLock::wait_for_others`] was called.
    ///
    /// # Errors
    /// [`JournalError::Busy`] with the holder, [`JournalError::Sibling`] or [`JournalError::LeftBehind`] in a process
    /// that measures for another one, [`JournalError::WaitEnded`], or an I/O error of the state directory.
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

    /// Takes the lock, undoes the changes of dead runs, then checks that no run of another user is in progress: every
    /// run starts with this. A run of root continues after its wait even if such a run is in progress, and the report
    /// states this.
    ///
    /// # Errors
    /// The errors of [`HostLock::acquire`] and [`replay`]; [`JournalError::OtherUser`].
    pub fn acquire_and_replay(state: &StateDir) -> Result<(HostLock, ReplayReport), JournalError> {
        let mut lock = HostLock::acquire(state)?;
        // Before any wait: the changes of a dead run should not stay in force until other runs end.
        let mut report = replay(state)?;
        report.other_runs = lock.show()?;
        Ok((lock, report))
    }

    /// Announces this run to other users. Returns the other users' runs that are still in progress after the wait, as
    /// sentences.
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
            // The announcement comes before the check, so that of two runs which start at the same time at least one
            // sees the other.
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
                return Ok(others.iter().map(other_run).collect());
            } else {
                return Err(JournalError::OtherUser { other: first.to_string() });
            }
        }
    }

    /// Shares the lock with a child that measures for this run, as long as the child has the file open. Returns name
    /// and value for the child's environment, and the file, which must stay open until the child has started. Only for
    /// a child that is netcliff: any other program could keep the file open in the background, and with it the lock.
    ///
    /// # Errors
    /// The process may not open more files, or this process itself uses its parent's lock, which is not passed on.
    pub fn share(&self) -> io::Result<(&'static str, String, OwnedFd)> {
        let Held::Own(file) = &*self.held else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the lock of a parent is not passed on"));
        };
        // Unlike File::try_clone, dup(2) does not set close-on-exec.
        let file = nix::unistd::dup(&**file)?;
        Ok((INHERITED, file.as_raw_fd().to_string(), file))
    }

    /// Shares the lock with commands that a child starts, such as netcliff in a script, as long as this process lives
    /// and is their ancestor. Returns name and value for the child's environment. One command at a time has the lock. A
    /// command left in the background when the child ends loses this ancestor, and with it the lock.
    pub fn announce(&self) -> (&'static str, String) {
        (HOLDER, std::process::id().to_string())
    }

    /// The state directory that contains the lock.
    pub fn state(&self) -> &StateDir {
        &self.state
    }
}

fn other_run(other: &Who) -> String {
    OtherRun { process: other.to_string() }.to_string()
}

/// A wait for another run, which is reported once.
struct Waiting {
    until: Instant,
    /// Reports the wait; `None` once it was reported.
    say: Option<fn(&str)>,
}

impl Waiting {
    /// A wait of the requested length, or of `usual` if none was requested.
    fn new(usual: Duration) -> Self {
        let patience = PATIENCE.get();
        let limit = patience.and_then(|(limit, _)| *limit).unwrap_or(usual);
        Self { until: Instant::now() + limit, say: patience.map(|(_, say)| *say) }
    }

    /// Sleeps for a short time. Returns false once the whole wait is over; an error if the user ended the wait.
    fn go_on(&mut self, other: &str) -> Result<bool, JournalError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        if WAIT_ENDED.load(Ordering::Relaxed) {
            return Err(JournalError::WaitEnded { other: other.to_owned() });
        }
        if let Some(say) = self.say.take() {
            let most_s = left.as_secs_f64();
            say(&format!("waiting for another netcliff run ({other}), at most {most_s:.0} s; Ctrl-C ends the wait"));
        }
        thread::sleep(left.min(LOOK));
        Ok(true)
    }
}

/// Describes the holder of a lock by what is known about its process.
fn described(pid: &str) -> String {
    pid.parse().map_or_else(|_| format!("pid {pid}"), |pid| Who::of(pid).to_string())
}

/// Whether the environment names an open file of this process that is the lock file. Only a child of the holder can
/// have it.
fn is_inherited(path: &Path) -> bool {
    let Some(number) = std::env::var(INHERITED).ok().and_then(|text| text.parse::<u32>().ok()) else { return false };
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::metadata(format!("/proc/self/fd/{number}")), fs::metadata(path)) {
        (Ok(open), Ok(lock)) => same(open, lock),
        _ => false,
    }
}

/// Tries to take a lock file and writes this process's id into it. If another process holds it, returns that process's
/// id.
fn exclusive(path: &Path) -> Result<Result<Flock<File>, String>, JournalError> {
    // Opened without truncation: until this process has the lock, the file names the holder.
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
    // An earlier version let every user read the file, and thereby lock it.
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

/// Whether this process's environment names the holder of the lock as the run that this process measures for.
fn is_announced(holder: &str) -> bool {
    std::env::var(HOLDER).is_ok_and(|announced| announced == holder)
}

/// The holder's process id: from the file if that process lives; otherwise from the kernel, because the file may be
/// older than the lock.
fn holder(about: &fs::Metadata, path: &Path) -> String {
    let written = fs::read_to_string(path).unwrap_or_default().trim().parse::<u32>().ok();
    let alive = |pid: &u32| crate::process::ProcessId::of(*pid).is_some();
    let pid = written.filter(alive).or_else(|| others::holder_of(about.dev(), about.ino()));
    pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}
