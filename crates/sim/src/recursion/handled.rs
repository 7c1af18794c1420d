//! [`Handled`]: preempting work, in the order in which it starts: interrupts that preempt protocol work, or softirqs
//! that preempt the application.

use crate::clock::NEVER;

/// Handling that other work waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handled {
    /// Start of the handling, on the clock of that work, which stands still during the handling.
    pub at: u64,
    /// Total of all handling up to the end of this one [ticks].
    pub total: u64,
}

/// No handling.
pub(super) const NONE: Handled = Handled { at: NEVER, total: 0 };
/// Number of entries compared at a time; this many [`NONE`] follow the last entry.
pub(super) const ABREAST: usize = 4;

/// Number of entries of `all` that began before `instant`; at least the first `passed` did. Several are compared at
/// once, because no branch would predict it.
#[inline(always)]
pub(super) fn began_before(all: &[Handled], mut passed: usize, instant: u64) -> usize {
    loop {
        let next = &all[passed..passed + ABREAST];
        let began: usize = next.iter().map(|handled| usize::from(handled.at < instant)).sum();
        passed += began;
        if began < ABREAST {
            return passed;
        }
    }
}
