//! Bandwidth of main memory: [`copy_bytes_per_s`], measured, since no file of the kernel reports it.

use crate::inventory::Cpu;
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Smallest and largest size of one of the two buffers (bytes). The smallest exceeds the last-level cache of most
/// desktop CPUs; the largest fits the memory of a small host.
const BUFFER_BYTES: (u64, u64) = (32 << 20, 256 << 20);

/// Size of a buffer that the last-level cache cannot hold: four times the cache, at least 32 MiB and at most 256 MiB
/// (bytes).
pub fn buffer_bytes(cpu: &Cpu) -> usize {
    let last = cpu.caches.iter().filter_map(|cache| cache.size_bytes).max().unwrap_or(0);
    (4 * last).clamp(BUFFER_BYTES.0, BUFFER_BYTES.1) as usize
}

/// Measures the bytes per second that one CPU, the calling thread's, moves through memory while it copies. Each byte is
/// read and written and so counts twice. Returns the best pass within `time`, because disturbances only slow a pass.
/// The host's memory can do more if other CPUs use it, too; never less.
///
/// `None`: memory for the two buffers is not available.
pub fn copy_bytes_per_s(buffer_bytes: usize, time: Duration) -> Option<f64> {
    let zeroed = || -> Option<Vec<u8>> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(buffer_bytes).ok()?;
        // A value other than zero: all zero pages would be the kernel's one shared page.
        buffer.resize(buffer_bytes, 1);
        Some(buffer)
    };
    let (from, mut to) = (zeroed()?, zeroed()?);
    let begin = Instant::now();
    let mut best: f64 = 0.0;
    while best == 0.0 || begin.elapsed() < time {
        let start = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        best = best.max(2.0 * buffer_bytes as f64 / start.elapsed().as_secs_f64().max(1e-9));
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Cache;

    #[test]
    fn buffers_outgrow_the_last_cache() {
        let cache = |size| Cache { level: 3, size_bytes: Some(size), shared: Vec::new() };
        let cpu = |size| Cpu { caches: vec![cache(size)], ..Cpu::default() };
        assert_eq!(buffer_bytes(&cpu(1 << 20)), 32 << 20);
        assert_eq!(buffer_bytes(&cpu(20 << 20)), 80 << 20);
        assert_eq!(buffer_bytes(&cpu(1 << 30)), 256 << 20);
    }

    /// The bounds are plausible from an embedded board to the fastest machine. In at least one of eight pairs the cache
    /// is faster than memory. A pair fails if another program takes the CPU only in its second half; if that happens in
    /// one of four pairs, all eight fail once in 6e4 runs.
    #[test]
    fn a_rate_that_can_be() {
        let pair = || {
            let memory = copy_bytes_per_s(32 << 20, Duration::from_millis(50)).unwrap();
            assert!((1e7..1e12).contains(&memory), "{memory} bytes/s");
            let cached = copy_bytes_per_s(256 << 10, Duration::from_millis(20)).unwrap();
            (memory, cached)
        };
        let pairs: Vec<(f64, f64)> = (0..8).map(|_| pair()).collect();
        assert!(pairs.iter().any(|(memory, cached)| cached > memory), "32 MiB and 256 KiB, bytes/s: {pairs:?}");
        assert_eq!(copy_bytes_per_s(usize::MAX / 2, Duration::ZERO), None);
    }
}
