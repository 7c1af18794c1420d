//! How much of a file is in the page cache.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Number of cachestat(2) on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
const PAGE_BYTES: u64 = 4096;

/// Share of a file that is in the page cache; 0 if the kernel does not report it (before Linux 6.5).
pub(super) fn share(file: &File) -> f64 {
    // struct cachestat_range, where a length of 0 means the whole file, and struct cachestat
    // (include/uapi/linux/mman.h).
    let (range, mut answer) = ([0_u64; 2], [0_u64; 5]);
    let flags: libc::c_uint = 0;
    // SAFETY: both arrays have the kernel's sizes and outlive the call.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), answer.as_mut_ptr(), flags) };
    let pages = file.metadata().map_or(0, |about| about.len().div_ceil(PAGE_BYTES));
    if done < 0 || pages == 0 { 0.0 } else { answer[0] as f64 / pages as f64 }
}
