//! Files that others may have written: [`open`], [`bytes`], [`text`]. Their paths may name anything.
//!
//! Only a regular file is read, and no more of it than requested: reading a FIFO would block, a device never ends, and the
//! length that stat reports need not be what a file yields.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// The most that is read of a file which people write, or netcliff for them (bytes).
pub const MOST_BYTES: u64 = 16 << 20;

/// Opens a regular file for reading; symbolic links are followed.
///
/// # Errors
/// It cannot be opened, or is no regular file: what it is.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked first, as opening a device can have effects; and again once it is open, as it may be another by then.
    regular(&fs::metadata(path)?)?;
    // Not to wait for the writer of a FIFO, nor to get a terminal by opening it.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The whole of a regular file.
///
/// # Errors
/// As [`open`]; it holds more than `most_bytes`, or cannot be read.
pub fn bytes(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(unfit(format!("is longer than {most_bytes} bytes, the most that is read")));
    }
    Ok(bytes)
}

/// The whole of a regular file of text.
///
/// # Errors
/// As [`bytes`]; it is not UTF-8.
pub fn text(path: &Path, most_bytes: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most_bytes)?).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("byte {place} is not UTF-8"))
    })
}

fn regular(about: &fs::Metadata) -> io::Result<()> {
    let kind = about.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "is a directory",
        () if kind.is_fifo() => "is a pipe",
        () if kind.is_socket() => "is a socket",
        () => "is a device",
    };
    Err(unfit(format!("{what}, not a file")))
}

fn unfit(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_regular_files_are_read_and_no_further_than_asked() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5).unwrap(), "12345");
        assert!(text(&file, 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        fs::write(&file, b"ab\xff").unwrap();
        assert!(text(&file, 5).unwrap_err().to_string().contains("byte 2 is not UTF-8"));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let begun = Instant::now();
        for (path, what) in [(&pipe, "a pipe"), (&link, "a device"), (&dir.path().to_owned(), "a directory")] {
            let told = bytes(path, MOST_BYTES).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        // A file whose length stat does not report is read to its end, up to the limit.
        assert!(!text(Path::new("/proc/self/status"), MOST_BYTES).unwrap().is_empty());
        assert!(text(Path::new("/proc/self/status"), 10).is_err());
    }
}
