//! [`Before`]: work and idle time of the CPU between the services of two packets. [`Discipline`]: the scheme's rule for
//! it. [`Befores`]: the work and idle time before the services of many packets, with sums.

/// Work and idle time of the CPU from one departure to the service of the next packet, in this order [ticks].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Before {
    /// Overhead of the poll that follows a poll which used its weight, whether it finds packets or not, and unmasking.
    pub first: u64,
    /// Idle time: no packet is there, an interrupt is being delivered, or a tick is awaited.
    pub idle: u64,
    pub interrupt: u64,
    pub overhead: u64,
    /// Number of polls in `first`, counted at its start.
    pub polls_first: u8,
    /// Number of interrupts in `interrupt`, counted at its start.
    pub interrupts: u8,
    /// Number of polls in `overhead`, counted at its start or at its end ([`Discipline::COUNTS_AT_ONCE`]).
    pub polls: u8,
}

impl Before {
    pub(super) fn length(&self) -> u64 {
        self.first + self.idle + self.interrupt + self.overhead
    }
}

/// A scheme's rule for the CPU's work before a service.
pub(super) trait Discipline {
    /// Whether polls are counted when their overhead starts; otherwise when it ends.
    const COUNTS_AT_ONCE: bool;

    /// Returns the CPU's work and idle time before the service of a packet that arrived at `arrived`, when the previous
    /// packet departed at `last` (`None` if it does nothing else), and the packet's protocol time. `work` is the
    /// packet's own part of the protocol time.
    fn before(&mut self, arrived: u64, last: u64, work: u64, bytes: u32) -> (Option<Before>, u64);

    /// Returns the duration [ticks] and the number of polls of the part [`Before::first`] of the CPU's work if the
    /// previous packet departed at `last` and the next one arrives at `at`. Later calls of this method and of
    /// [`Self::before`] use the random times that it draws. (0, 0) for a scheme without this part.
    fn first(&mut self, _at: u64, _last: u64) -> (u64, u8) {
        (0, 0)
    }
}

/// The CPU's work and idle time before the services of packets, by the number of the accepted packet. Only packets that
/// did not directly follow the previous one are stored.
#[derive(Debug, Default)]
pub(super) struct Befores {
    kept: Vec<(usize, Before)>,
    sums: Sums,
}

impl Befores {
    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.sums = Sums::default();
    }

    #[inline]
    pub(super) fn add(&mut self, number: usize, before: Before) {
        self.sums.add(&before);
        self.kept.push((number, before));
    }

    /// Removes the entries of packets before `first`.
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

    /// The CPU's work and idle time before the service of this packet.
    pub(super) fn of(&self, number: usize) -> Before {
        let found = self.kept.binary_search_by_key(&number, |(number, _)| *number);
        found.map_or_else(|_| Before::default(), |place| self.kept[place].1)
    }
}

/// Sums of the times before services: first polls and overheads, idle times, interrupts [ticks], and their numbers.
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

    /// Adds the part of `before`, which started at `from`, up to `at`. Parts that start at an arrival's instant count
    /// as started, except a tick, which follows the arrival.
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
