//! [`Handled`]: what preempts work, in the order in which it begins: interrupts before protocol work, softirqs before the application's.

use crate::clock::NEVER;

/// Handling that other work waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handled {
    /// Start, on the clock of that work, which stands still meanwhile.
    pub at: u64,
    /// All handling up to its end [ticks].
    pub total: u64,
}

/// No handling.
pub(super) const NONE: Handled = Handled { at: NEVER, total: 0 };
/// Looked at together; this many [`NONE`] follow the last.
pub(super) const ABREAST: usize = 4;

/// How many of `all` began before `instant`, of which the first `passed` did. Several are compared at once: no branch would predict it.
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
