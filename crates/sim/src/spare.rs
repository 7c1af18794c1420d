//! Reuses the memory of one replication for the next. Allocating fresh pages for each one takes a noticeable part of a
//! short replication's time (measured on figure 7 as a whole: tests/speed.rs).

use std::sync::{Mutex, PoisonError};

/// Unused lists of one kind, from any thread. Their number is limited.
#[derive(Debug)]
pub(crate) struct Spare<T> {
    kept: Mutex<Vec<Vec<T>>>,
    most: usize,
}

impl<T> Spare<T> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), most }
    }

    /// Takes a list with the content that it was left with.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Leaves a list with the content that the next user expects.
    pub(crate) fn keep(&self, list: Vec<T>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.most {
            kept.push(list);
        }
    }
}
