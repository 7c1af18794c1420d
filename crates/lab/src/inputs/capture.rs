//! [`read`]: packets from pcap and pcapng files.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use netcliff_core::capture::{Capture, USUAL_MTU, named, reading};
use netcliff_core::experiment::FileError;
use netcliff_host::files;

use super::digest::Digested;

/// Reads a capture, named as `FILE` or `FILE,mtu=9000`.
///
/// # Errors
/// The file cannot be read, or an error of [`reading::read`].
pub fn read(path: &str) -> Result<Capture, FileError> {
    let wrong = |message: String| FileError { path: path.to_owned(), message };
    // A file's own name may contain `,mtu=`.
    let (name, mtu) =
        if Path::new(path).exists() { Some((path, USUAL_MTU)) } else { named(path) }.ok_or_else(|| {
            wrong("mtu: expected a whole number of bytes from 256 to 65535, such as ,mtu=9000".to_owned())
        })?;
    let file = files::open(Path::new(name)).map_err(|cause| wrong(unread(name, &cause)))?;
    // Read only the present length: another program may be appending to the file.
    let length = file.metadata().map_err(|cause| wrong(super::unread(&cause)))?.len();
    let (file, sum) = Digested::new(file.take(length));
    let capture = reading::read(path, file, mtu).map_err(wrong)?;
    Ok(Capture { sha256: Some(sum.hex()), ..capture })
}

fn unread(name: &str, cause: &std::io::Error) -> String {
    let why = super::unread(cause);
    let is_pipe = || std::fs::metadata(name).is_ok_and(|about| about.file_type().is_fifo());
    if name == "-" || cause.kind() == std::io::ErrorKind::InvalidInput && is_pipe() {
        return format!("{why}; captures are read from files: tcpdump -w FILE, then give FILE");
    }
    why
}

#[cfg(test)]
mod tests;
