//! Sends a file by sendfile(2), from the page cache or (after dropping it from the cache) from the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::sendfile::sendfile;
use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs, statfs};

use crate::bulk::SendPath;
use crate::bulk::aligned::block;
use crate::bulk::end::DataPath;
use netcliff_packets::error::WireError;

/// Magic number of ramfs (include/uapi/linux/magic.h).
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// The directory for temporary files that survive a restart (FHS 3.0, 5.15), hence on a disk.
const ON_DISK: &str = "/var/tmp";
/// Share of a file that may be in the page cache after it was dropped, e.g. by readahead for another reader.
const MOST_CACHED: f64 = 0.1;
/// Longest time for which [`storage_bps`] reads a file without sending it.
const ALONE: Duration = Duration::from_secs(1);

/// A file to be sent.
struct Source {
    file: File,
    name: PathBuf,
    bytes: u64,
    cold: bool,
}

impl Source {
    /// Opens a file, or a block device with all its bytes.
    fn named(path: &Path, cold: bool) -> Result<Self, WireError> {
        // The error is made anew without its number: for this number, a hint about network privileges would be added,
        // which does not apply to a file.
        let failed = |e: io::Error| {
            WireError::system(format!("read {}", path.display()), io::Error::new(e.kind(), e.to_string()))
        };
        let mut file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let bytes = if about.file_type().is_block_device() {
            file.seek(SeekFrom::End(0)).map_err(failed)?
        } else if about.is_file() {
            about.len()
        } else {
            0
        };
        if bytes == 0 {
            let accepted = "a regular file that is not empty, or a block device";
            return Err(WireError::setting("file", path.display(), accepted));
        }
        Self { file, name: path.to_owned(), bytes, cold }.ready()
    }

    /// Makes an unnamed file in a directory for temporary files.
    fn own(bytes: u64, cold: bool) -> Result<Self, WireError> {
        if bytes == 0 {
            return Err(WireError::setting("file size", bytes, "at least 1 byte"));
        }
        let (file, name) = own_file(bytes, &directory(std::env::temp_dir(), cold))?;
        Self { file, name, bytes, cold }.ready()
    }

    /// Drops the file from the page cache, if it is to be read from the disk.
    fn ready(self) -> Result<Self, WireError> {
        if self.cold {
            let failed = |e| WireError::system(format!("drop {} from the page cache", self.name.display()), e);
            // Only data on the disk can be dropped from the cache.
            self.file.sync_data().map_err(failed)?;
            self.rewind_cache().map_err(failed)?;
            if lies_in_memory(&self.file).map_err(failed)? || cache::share(&self.file) > MOST_CACHED {
                let accepted =
                    "a file on a disk that nothing else holds in memory (tmpfs is memory), or warm: without --cold";
                return Err(WireError::setting("file to be read cold", self.name.display(), accepted));
            }
        }
        Ok(self)
    }

    fn rewind_cache(&self) -> io::Result<()> {
        if self.cold {
            posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Ok(())
    }
}

pub(super) struct SendFile<'a> {
    channel: BorrowedFd<'a>,
    source: Source,
    at: u64,
    block_bytes: usize,
}

impl<'a> SendFile<'a> {
    /// Makes the sender of the file that `path` names. `None` if `path` sends no file.
    pub(super) fn of(channel: BorrowedFd<'a>, path: &SendPath, block_bytes: usize) -> Option<Result<Self, WireError>> {
        Some(source(path)?.map(|source| Self { channel, source, at: 0, block_bytes }))
    }
}

fn source(path: &SendPath) -> Option<Result<Source, WireError>> {
    match path {
        SendPath::SendFile { file, cold } => Some(Source::named(file, *cold)),
        SendPath::SendOwnFile { bytes, cold } => Some(Source::own(*bytes, *cold)),
        _ => None,
    }
}

/// Rate at which one thread reads the file of a path from its disk, without a network (bit/s), by read(2) of 1 MiB: one
/// pass, or [`ALONE`] if that is shorter. `None` if the path sends no file, or a file from the page cache.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn storage_bps(path: &SendPath) -> Option<Result<f64, WireError>> {
    let (SendPath::SendFile { cold: true, .. } | SendPath::SendOwnFile { cold: true, .. }) = path else { return None };
    let read = |source: &Source| -> io::Result<f64> {
        let (mut file, mut block, mut bytes) = (&source.file, vec![0; 1 << 20], 0);
        file.rewind()?;
        let began = Instant::now();
        while bytes < source.bytes && began.elapsed() < ALONE {
            match file.read(&mut block)? {
                0 => break,
                more => bytes += more as u64,
            }
        }
        Ok(bytes as f64 * 8.0 / began.elapsed().as_secs_f64())
    };
    Some(source(path)?.and_then(|source| {
        read(&source).map_err(|error| WireError::system(format!("read {}", source.name.display()), error))
    }))
}

/// Whether the file system has no disk: dropping the page cache would lose the data, so the kernel does not drop it. A
/// block device's node lies in such a file system, but its data do not.
fn lies_in_memory(file: &File) -> io::Result<bool> {
    Ok(!file.metadata()?.file_type().is_block_device() && is_memory(fstatfs(file)?.filesystem_type()))
}

fn is_memory(kind: FsType) -> bool {
    [TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC].contains(&kind)
}

/// Directory for an own file: `temporary`, unless the file is to be read cold and `temporary` is in memory (as /tmp is
/// by default since Debian 13).
fn directory(temporary: PathBuf, cold: bool) -> PathBuf {
    let in_memory = || statfs(&temporary).is_ok_and(|about| is_memory(about.filesystem_type()));
    if cold && in_memory() { PathBuf::from(ON_DISK) } else { temporary }
}

/// Makes an unnamed file of `bytes` bytes in `directory`, which disappears when it is closed. Also returns the file's
/// former name, for messages.
fn own_file(bytes: u64, directory: &Path) -> Result<(File, PathBuf), WireError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("netcliff-{}-{number}", std::process::id()));
    let failed = |e| WireError::system(format!("write a temporary file of {bytes} bytes, {}", path.display()), e);
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let piece = block(usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 20));
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len() as u64) as usize;
        file.write_all(&piece[..now]).map_err(failed)?;
        left -= now as u64;
    }
    Ok((file, path))
}

impl DataPath for SendFile<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let wanted = (self.source.bytes - self.at).min(self.block_bytes as u64) as usize;
        let mut offset = self.at as libc::off_t;
        let sent = sendfile(self.channel, &self.source.file, Some(&mut offset), wanted)?;
        if sent == 0 {
            return Err(io::Error::other(format!(
                "{} ended at {} of {} bytes: it shrank while it was sent",
                self.source.name.display(),
                self.at,
                self.source.bytes
            )));
        }
        self.at += sent as u64;
        if self.at >= self.source.bytes {
            self.at = 0;
            self.source.rewind_cache()?;
        }
        Ok((sent, 1))
    }
}

mod cache {
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
        let done =
            unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), answer.as_mut_ptr(), flags) };
        let pages = file.metadata().map_or(0, |about| about.len().div_ceil(PAGE_BYTES));
        if done < 0 || pages == 0 { 0.0 } else { answer[0] as f64 / pages as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_from_a_disk_has_a_rate_of_its_storage() {
        let own = |cold| SendPath::SendOwnFile { bytes: 3 << 20, cold };
        assert!(storage_bps(&own(false)).is_none() && storage_bps(&SendPath::Write).is_none());
        let rate_bps = storage_bps(&own(true)).unwrap().unwrap();
        assert!((1e6..1e13).contains(&rate_bps), "{rate_bps}");
        let gone = SendPath::SendFile { file: "/nowhere/at-all".into(), cold: true };
        assert!(storage_bps(&gone).unwrap().unwrap_err().to_string().contains("/nowhere/at-all"));
        let device = SendPath::SendFile { file: "/dev/null".into(), cold: true };
        assert!(storage_bps(&device).unwrap().unwrap_err().to_string().contains("block device"));
    }

    #[test]
    fn what_is_read_cold_is_on_a_disk() {
        let memory = PathBuf::from("/dev/shm");
        if !statfs(&memory).is_ok_and(|about| is_memory(about.filesystem_type())) {
            return netcliff_testkit::skip(netcliff_testkit::Need::Tmpfs, "no tmpfs at /dev/shm");
        }
        assert_eq!(directory(memory.clone(), true), Path::new(ON_DISK));
        assert_eq!(directory(memory.clone(), false), memory);
        assert_eq!(directory(PathBuf::from("/proc"), true), Path::new("/proc"));
    }
}
