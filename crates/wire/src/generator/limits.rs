//! What a generator may do at the most: its rate, and how long without a word from whoever asked for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;

/// Time for which frames that are late may be caught up with at any speed, under [`super::GeneratorConfig::most_pps`] \[ns\]: arrivals at random are
/// as much ahead of their rate now and then.
pub const BUCKET_NS: u64 = 100_000_000;

/// The time until which a generator may send without a word from whoever asked for it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Lease(Option<Arc<AtomicU64>>);

impl Lease {
    /// One that ends after so long.
    pub fn of(length_ns: u64) -> Self {
        let lease = Self(Some(Arc::default()));
        lease.extend(length_ns);
        lease
    }

    /// Lets it end so long from now.
    pub fn extend(&self, length_ns: u64) {
        if let Some(until) = &self.0 {
            until.store(clock::monotonic_ns() + length_ns, Ordering::Relaxed);
        }
    }

    /// Whether it is over at this instant [ns of `CLOCK_MONOTONIC`].
    #[inline]
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.0.as_ref().is_some_and(|until| now > until.load(Ordering::Relaxed))
    }
}

/// The highest rate, as the generic cell rate algorithm has it (ITU-T I.371): a frame is due to it a gap after the one before, and may be
/// ahead of that by [`BUCKET_NS`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    gap_ns: f64,
    next_ns: f64,
}

impl Limit {
    /// At most this rate [packets/s].
    pub(super) fn of(most_pps: f64) -> Self {
        Self { gap_ns: 1e9 / most_pps, next_ns: 0.0 }
    }

    /// Frames that may leave now.
    pub(super) fn room(&mut self, now: u64) -> usize {
        self.next_ns = self.next_ns.max(now as f64 - BUCKET_NS as f64);
        ((now as f64 - self.next_ns) / self.gap_ns) as usize
    }

    /// Counts frames that leave.
    pub(super) fn take(&mut self, frames: usize) {
        self.next_ns += frames as f64 * self.gap_ns;
    }
}
