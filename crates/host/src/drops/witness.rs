//! A second count at skb:kfree_skb while process 1 has the CPU.
//!
//! There are kernels that run no tracing program in that time (docs/results/2026-11-25-ledger), without counting it as recursion_misses. What a
//! softirq drops meanwhile is in no map, but perf counts it at the same tracepoint. Only process 1 is watched: to count the drops of all costs each
//! of them as much as the program does.

use crate::perf::{Counter, Event, Of};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

/// Where tracefs may be mounted. Sources: Documentation/trace/ftrace.rst.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const NUMBER: &str = "events/skb/kfree_skb/id";
/// include/uapi/linux/mount.h
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// The initial namespace of processes, in which the program's process numbers count. Source: include/linux/proc_ns.h, PROC_PID_INIT_INO.
const FIRST_SPACE: u64 = 0xefff_fffc;

/// Counts the drops while a thread of process 1 has the CPU.
#[derive(Debug)]
pub(super) struct Witness(Vec<Counter>);

impl Witness {
    /// Counts from now on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub(super) fn start() -> Result<Self, String> {
        let number = number().map_err(|error| format!("tracefs does not tell the number of skb:kfree_skb: {error}"))?;
        let space = fs::metadata("/proc/self/ns/pid").map(|of| of.ino());
        if !space.is_ok_and(|number| number == FIRST_SPACE) {
            return Err("process 1 of the host is not seen from this process namespace".to_owned());
        }
        let open = |task: i32| Counter::open(Event::Tracepoint(number), Of::Task(task));
        // A thread may have ended since.
        let ended = |opened: &io::Result<Counter>| {
            opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
        };
        let all: io::Result<Vec<Counter>> = tasks()
            .map_err(|error| format!("the threads of process 1 are not told: {error}"))?
            .into_iter()
            .map(open)
            .filter(|opened| !ended(opened))
            .collect();
        all.map(Self).map_err(|error| format!("perf does not count skb:kfree_skb in process 1: {error}"))
    }

    /// Drops until now; None: a counter cannot be read.
    pub(super) fn read(&self) -> Option<u64> {
        self.0.iter().map(|counter| counter.read().ok()).sum()
    }
}

fn tasks() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc/1/task")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

fn number() -> io::Result<u64> {
    let read = |root: &str| fs::read_to_string(format!("{root}/{NUMBER}"));
    let text = match MOUNTED.iter().find_map(|root| read(root).ok()) {
        Some(text) => text,
        None => {
            let mount = unseen_mount()?;
            read(&format!("/proc/thread-self/fd/{}", mount.as_raw_fd()))?
        }
    };
    text.trim().parse().map_err(|_| io::Error::other(format!("{NUMBER} is {:?}, not a number", text.trim())))
}

/// tracefs without a place in the file system: nobody else sees it, and it goes with the descriptor.
fn unseen_mount() -> io::Result<OwnedFd> {
    let own = |fd: libc::c_long| {
        // SAFETY: a descriptor that the kernel has just given to us alone.
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }) }
    };
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a string with an end, and outlives the call.
    let context = own(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1 as libc::c_uint) })?;
    // SAFETY: the call takes no pointer but two that are null, as FSCONFIG_CMD_CREATE wants.
    let made = unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0 as libc::c_int)
    };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes no pointer. The first 1 is FSMOUNT_CLOEXEC.
    own(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1 as libc::c_uint, 0 as libc::c_uint) })
}
