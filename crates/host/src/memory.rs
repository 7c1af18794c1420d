//! [`copy_bytes_per_s`]: what one CPU's copies get of main memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::inventory::Inventory;

/// Bytes of a buffer where the caches' sizes are not known.
const USUAL_BYTES: u64 = 64 << 20;
/// No buffer is larger than this (bytes).
const LARGEST_BYTES: u64 = 512 << 20;
/// So many times the largest cache.
const CACHES: u64 = 4;

/// Bandwidth that a copy on the calling thread's CPU gets of main memory (bytes/s), reads and writes together, as STREAM
/// counts them (J. McCalpin, 1995): the best pass of those that fit `span`, at least one. Lines that a store reads first
/// are not counted. Other CPUs can have as much again: it bounds one CPU's copies from below what the memory can do.
///
/// The buffers are four times the largest cache, each at most an eighth of the memory that is free.
pub fn copy_bytes_per_s(host: &Inventory, span: Duration) -> f64 {
    let cache = host.cpu.caches.iter().filter_map(|cache| cache.size_bytes).max();
    let free = host.memory_available_bytes.map_or(USUAL_BYTES, |bytes| bytes / 8);
    let bytes = cache.map_or(USUAL_BYTES, |bytes| bytes * CACHES).min(LARGEST_BYTES).min(free).max(1 << 20);
    let words = (bytes / 8) as usize;
    // Not zero: pages of zeros are one page, which stays in the cache.
    let (source, mut target) = (vec![1_u64; words], vec![2_u64; words]);
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    while best.is_infinite() || begin.elapsed() < span {
        let pass = Instant::now();
        black_box(&mut target).copy_from_slice(black_box(&source));
        best = best.min(pass.elapsed().as_secs_f64());
    }
    2.0 * (words * 8) as f64 / best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_time() {
        let host = Inventory::of_this_host();
        let begin = Instant::now();
        let rate = copy_bytes_per_s(&host, Duration::from_millis(50));
        // From a microcontroller to more than any CPU of today.
        assert!((1e7..1e13).contains(&rate), "{rate}");
        assert!(begin.elapsed() >= Duration::from_millis(50));
    }
}
