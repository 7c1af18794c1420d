//! A counter of perf_event_open(2).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::FromRawFd as _;

use super::{Event, Of};

/// `perf_event_attr` as far as its first version goes (PERF_ATTR_SIZE_VER0, 64 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    config1: u64,
}

/// Closed by exec.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// A counter that counts until it is dropped.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Counts from now on.
    ///
    /// # Errors
    /// The kernel has no such counter, or the right is missing.
    pub fn open(event: Event, of: Of) -> io::Result<Self> {
        // PERF_TYPE_HARDWARE, PERF_TYPE_TRACEPOINT
        let (kind, config) = match event {
            Event::Hardware(config) => (0, config),
            Event::Tracepoint(config) => (2, config),
        };
        let thread = match of {
            Of::Thread => 0,
            Of::Another(number) => number as libc::pid_t,
        };
        let attributes = Attributes { kind, size: size_of::<Attributes>() as u32, config, ..Attributes::default() };
        // SAFETY: the attributes are of the size they state and outlive the call; -1 is any CPU and no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                -1 as libc::c_int,
                -1 as libc::c_int,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor the kernel has just given to us alone.
        Ok(Self(unsafe { File::from_raw_fd(fd as libc::c_int) }))
    }

    /// How many until now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
