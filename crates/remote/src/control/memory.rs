//! The memory that all tests of an agent may use together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netcliff_core::units;

/// Assumed memory of the host if the kernel does not report it (bytes).
const UNKNOWN_HOST_BYTES: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Half of the host's memory (bytes), in whole MiB: the other half is for the kernel, whose socket buffers and page
/// cache hold the same data, and for other programs.
pub(super) fn usual_bytes() -> u64 {
    // SAFETY: the call takes a number and returns one, -1 for an unknown value.
    let value_of = |what| u64::try_from(unsafe { libc::sysconf(what) }).ok();
    let host = value_of(libc::_SC_PHYS_PAGES).zip(value_of(libc::_SC_PAGESIZE)).map(|(pages, bytes)| pages * bytes);
    (host.unwrap_or(UNKNOWN_HOST_BYTES) / 2).next_multiple_of(MIB)
}

/// Makes the C library return freed memory to the kernel; otherwise an agent would hold the memory of all past tests.
/// Blocks above 128 KiB are always mapped from the kernel, and threads share two heaps. Call it before the first thread
/// starts.
pub fn give_back_to_the_kernel() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take only numbers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Makes the C library retain freed memory for the next computation. Mapping and clearing new memory would take up to a
/// third of the time that a Markov chain's matrices take. Call it before the first thread starts.
pub fn hold_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take only numbers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TOP_PAD, 16 << 20);
    }
}

/// Returns unused heap memory to the kernel.
fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes the number of bytes to retain.
    unsafe {
        libc::malloc_trim(1 << 20);
    }
}

/// The memory budget of all tests.
#[derive(Debug)]
pub(super) struct Memory {
    most_bytes: u64,
    taken_bytes: Mutex<u64>,
}

/// A test's reservation, released on drop.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    pub(super) fn of(most_bytes: u64) -> Arc<Self> {
        Arc::new(Self { most_bytes, taken_bytes: Mutex::new(0) })
    }

    fn taken_bytes(&self) -> MutexGuard<'_, u64> {
        self.taken_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves memory for a test.
    ///
    /// # Errors
    /// Less than `bytes` is left; a message for the client's user.
    pub(super) fn take(memory: &Arc<Self>, bytes: u64) -> Result<Share, String> {
        let mut taken = memory.taken_bytes();
        if bytes > memory.most_bytes.saturating_sub(*taken) {
            let [needs, most, held] = [bytes, memory.most_bytes, *taken].map(in_words);
            return Err(format!(
                "no memory for this test: its buffers need {needs}, and of the {most} of all tests of this agent {held} are taken; \
                 wait for one to end, take fewer flows, smaller blocks or reads, or start the agent with a larger --memory"
            ));
        }
        *taken += bytes;
        drop(taken);
        Ok(Share { memory: Arc::clone(memory), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Return the memory to the kernel before another test may reserve it.
        trim();
        *self.memory.taken_bytes() -= self.bytes;
    }
}

/// Formats a number of bytes, rounded up to whole MiB if it is above one MiB.
fn in_words(bytes: u64) -> String {
    // A client may request any number, so the sum must not overflow.
    units::print_bytes(if bytes > MIB { bytes.div_ceil(MIB).saturating_mul(MIB) } else { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_held_is_there_for_the_next() {
        let memory = Memory::of(100 * MIB);
        let first = Memory::take(&memory, 60 * MIB).expect("it is free");
        let refused = Memory::take(&memory, 40 * MIB + 1).expect_err("too much");
        assert!(refused.contains("need 41MiB, and of the 100MiB") && refused.contains("60MiB are taken"), "{refused}");
        let second = Memory::take(&memory, 40 * MIB).expect("it fits");
        assert!(Memory::take(&memory, 1).is_err() && Memory::take(&memory, 0).is_ok());
        drop(first);
        assert!(Memory::take(&memory, u64::MAX).is_err());
        drop((second, Memory::take(&memory, 60 * MIB).expect("it was given back")));
        assert_eq!(*memory.taken_bytes(), 0);
        assert!(usual_bytes() >= 64 * MIB);
    }
}
