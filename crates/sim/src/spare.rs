//! Memory that one replication leaves for the next: taken from the system anew for each, and given back, its pages take of a short one's
//! time (figure 7 as a whole: tests/speed.rs).

use std::sync::{Mutex, PoisonError};

/// Lists of one kind, of any thread's; no more than so many are kept.
#[derive(Debug)]
pub(crate) struct Spare<T> {
    kept: Mutex<Vec<Vec<T>>>,
    most: usize,
}

impl<T> Spare<T> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), most }
    }

    /// A list as it was left.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Leaves a list as the next is to find it.
    pub(crate) fn keep(&self, list: Vec<T>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.most {
            kept.push(list);
        }
    }
}
