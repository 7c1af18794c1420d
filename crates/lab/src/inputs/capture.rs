//! [`read`]: packets from pcap and pcapng files.

use std::path::Path;

use netcliff_core::capture::{Capture, reading};
use netcliff_core::experiment::FileError;
use netcliff_host::files;

use super::digest::Digested;

/// Reads a capture.
///
/// # Errors
/// The file cannot be read, or see [`reading::read`].
pub fn read(path: &str) -> Result<Capture, FileError> {
    let wrong = |message: String| FileError { path: path.to_owned(), message };
    let file = files::open(Path::new(path)).map_err(|cause| wrong(super::unread(&cause)))?;
    let (file, sum) = Digested::new(file);
    let capture = reading::read(path, file).map_err(wrong)?;
    Ok(Capture { sha256: Some(sum.hex()), ..capture })
}

#[cfg(test)]
mod tests;
