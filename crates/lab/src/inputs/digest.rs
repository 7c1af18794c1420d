//! SHA-256 of a file while it is read. A record identifies its input file by it.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// A reader that updates a digest with all bytes read.
pub(super) struct Digested<R> {
    inner: R,
    sum: Arc<Mutex<Sha256>>,
}

/// The digest of what has been read so far.
pub(super) struct Sum(Arc<Mutex<Sha256>>);

impl<R> Digested<R> {
    pub(super) fn new(inner: R) -> (Self, Sum) {
        let sum = Arc::new(Mutex::new(Sha256::new()));
        (Self { inner, sum: Arc::clone(&sum) }, Sum(sum))
    }
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).update(&buffer[..length]);
        Ok(length)
    }
}

impl Sum {
    /// The digest in hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        hex(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// The digest of `bytes` in hexadecimal digits.
pub(super) fn of(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of "abc" is FIPS 180-2's example.
    #[test]
    fn a_known_digest() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(b"abc"), known);
        let (mut reader, sum) = Digested::new(&b"abc"[..]);
        reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(sum.hex(), known);
    }
}
