//! A counter of perf_event_open(2).

use std::fs::File;
use std::io::{self, Read as _};

use super::attributes::Attributes;
use super::{Event, Of};

/// A counter that counts until it is dropped.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Counts from now on.
    ///
    /// # Errors
    /// The kernel has no such counter, or the right is missing.
    pub fn open(event: Event, of: Of) -> io::Result<Self> {
        Attributes::of(event).open(of).map(Self)
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
