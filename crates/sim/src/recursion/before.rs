//! [`Before`]: what the CPU does between the services of two packets; [`Befores`]: that of many, with sums.

use super::serial::Discipline;

/// What the CPU does from one departure to the service of the next packet, in this order [ticks].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Before {
    /// A poll that finds nothing or ends in the ring's next packet, and unmasking.
    pub first: u64,
    /// Nothing: no packet, an interrupt that is on its way, or a tick to come.
    pub idle: u64,
    pub interrupt: u64,
    pub overhead: u64,
    /// Polls counted when `first` begins.
    pub polls_first: u8,
    /// The same when the interrupt does, and with the overhead.
    pub interrupts: u8,
    pub polls: u8,
}

impl Before {
    pub(super) fn length(&self) -> u64 {
        self.first + self.idle + self.interrupt + self.overhead
    }
}

/// What came before the services of packets, numbered as they were accepted. Most follow the one before at once: they are not kept.
#[derive(Debug, Default)]
pub(super) struct Befores {
    kept: Vec<(usize, Before)>,
    sums: Sums,
}

impl Befores {
    /// Without any.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.sums = Sums::default();
    }

    #[inline]
    pub(super) fn add(&mut self, number: usize, before: Before) {
        self.sums.add(&before);
        self.kept.push((number, before));
    }

    /// Packets before `first` will not be asked for.
    pub(super) fn forget(&mut self, first: usize) {
        let passed = self.kept.partition_point(|(number, _)| *number < first);
        self.kept.drain(..passed);
    }

    /// Sums over the packets before `first`.
    pub(super) fn sums(&self, first: usize) -> Sums {
        let mut sums = self.sums;
        let later = self.kept.iter().rev().take_while(|(number, _)| *number >= first);
        later.for_each(|(_, before)| sums.take_off(before));
        sums
    }

    /// What came before this one.
    pub(super) fn of(&self, number: usize) -> Before {
        let found = self.kept.binary_search_by_key(&number, |(number, _)| *number);
        found.map_or_else(|_| Before::default(), |place| self.kept[place].1)
    }
}

/// Sums of what comes before services: first polls and overheads, nothing, interrupts [ticks], and how many there were.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub polling: u64,
    pub idle: u64,
    pub interrupt: u64,
    pub interrupts: u64,
    pub polls: u64,
}

impl Sums {
    #[inline]
    fn add(&mut self, before: &Before) {
        self.polling += before.first + before.overhead;
        self.idle += before.idle;
        self.interrupt += before.interrupt;
        self.interrupts += u64::from(before.interrupts);
        self.polls += u64::from(before.polls_first + before.polls);
    }

    fn take_off(&mut self, before: &Before) {
        self.polling -= before.first + before.overhead;
        self.idle -= before.idle;
        self.interrupt -= before.interrupt;
        self.interrupts -= u64::from(before.interrupts);
        self.polls -= u64::from(before.polls_first + before.polls);
    }

    /// Adds what there was by `at` of what began at `from`. What begins at an arrival's instant has begun, but for a tick, which comes after it.
    pub(super) fn begin<D: Discipline>(&mut self, before: &Before, at: u64, from: u64) {
        let mut left = at - from;
        let mut pass = |length: u64| {
            let passed = left.min(length);
            left -= passed;
            (passed, passed == length)
        };
        self.polls += u64::from(before.polls_first);
        let (passed, over) = pass(before.first);
        self.polling += passed;
        let (passed, idled) = pass(before.idle);
        self.idle += passed;
        if !(over && idled) {
            return;
        }
        self.interrupts += u64::from(before.interrupts);
        let (passed, handled) = pass(before.interrupt);
        self.interrupt += passed;
        if !handled {
            return;
        }
        let ticked = before.interrupts == 0 && before.idle > 0;
        let (passed, over) = pass(before.overhead);
        self.polling += passed;
        let begun = if D::COUNTS_AT_ONCE { true } else { over && !(ticked && before.overhead == 0 && left == 0) };
        self.polls += if begun { u64::from(before.polls) } else { 0 };
    }
}
