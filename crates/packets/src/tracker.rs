//! Counts loss, duplication and reordering by sequence number, exactly within a sliding bitmap.

/// Class of a received sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceClass {
    /// Received for the first time, and higher than all earlier ones.
    InOrder,
    /// Received for the first time, after a higher one (reordered, RFC 4737).
    Late,
    /// Received before.
    Duplicate,
    /// Too far below the highest number: the bitmap no longer shows whether it is late or a duplicate.
    TooOld,
}

/// Records which of the last `window` sequence numbers were received.
#[derive(Debug, Clone)]
pub struct Tracker {
    bits: Vec<u64>,
    /// Highest sequence number received.
    highest: Option<u64>,
}

impl Tracker {
    /// A tracker that is exact for numbers up to `window` below the highest one. `window` is rounded up to a power of
    /// two of at least 64, and takes one bit per number.
    pub fn new(window: usize) -> Self {
        let window = window.max(64).next_power_of_two();
        Self { bits: vec![0; window / 64], highest: None }
    }

    fn window(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    /// Records a sequence number and returns its class.
    #[inline]
    pub fn observe(&mut self, sequence: u64) -> SequenceClass {
        match self.highest {
            Some(highest) if sequence <= highest => {
                if highest - sequence >= self.window() {
                    return SequenceClass::TooOld;
                }
                if self.set(sequence) { SequenceClass::Duplicate } else { SequenceClass::Late }
            }
            highest => {
                self.forget(highest, sequence);
                self.highest = Some(sequence);
                self.set(sequence);
                SequenceClass::InOrder
            }
        }
    }

    /// Sets the bit of `sequence`. Returns true if it was set before.
    #[inline]
    fn set(&mut self, sequence: u64) -> bool {
        let place = sequence & (self.window() - 1);
        let word = &mut self.bits[(place / 64) as usize];
        let bit = 1 << (place % 64);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// Clears the bits of the numbers above `highest` up to `sequence`, because lower numbers used these bits before.
    #[inline]
    fn forget(&mut self, highest: Option<u64>, sequence: u64) {
        let Some(highest) = highest else { return };
        if sequence - highest >= self.window() {
            self.bits.fill(0);
            return;
        }
        for number in highest + 1..=sequence {
            let place = number & (self.window() - 1);
            self.bits[(place / 64) as usize] &= !(1 << (place % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Reference implementation with unlimited memory.
    fn naive(seen: &mut HashSet<u64>, highest: &mut Option<u64>, window: u64, number: u64) -> SequenceClass {
        let top = *highest;
        *highest = Some(top.map_or(number, |top| top.max(number)));
        match top {
            Some(top) if number <= top && top - number >= window => SequenceClass::TooOld,
            _ if !seen.insert(number) => SequenceClass::Duplicate,
            Some(top) if number < top => SequenceClass::Late,
            _ => SequenceClass::InOrder,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0u8..10, 0u64..300), 1..400)) {
            let mut tracker = Tracker::new(64);
            let (mut seen, mut highest, mut next) = (HashSet::new(), None, 0u64);
            for (kind, size) in steps {
                // Mostly a step by one; sometimes a gap, a jump beyond the window, or a step back.
                let number = match kind {
                    0..=5 => { next += 1; next }
                    6 => { next += size % 20; next }
                    7 => { next += size; next }
                    _ => next.saturating_sub(size % 100),
                };
                prop_assert_eq!(tracker.observe(number), naive(&mut seen, &mut highest, 64, number));
            }
        }
    }

    #[test]
    fn the_first_number_need_not_be_zero() {
        let mut tracker = Tracker::new(1);
        assert_eq!(tracker.observe(1000), SequenceClass::InOrder);
        assert_eq!(tracker.observe(999), SequenceClass::Late);
        assert_eq!(tracker.observe(999), SequenceClass::Duplicate);
        assert_eq!(tracker.observe(1000 - 64), SequenceClass::TooOld);
    }
}
