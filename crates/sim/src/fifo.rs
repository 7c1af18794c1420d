//! [`Fifo`]: packets in order of arrival. Its buffer grows as needed and is then reused.

/// One packet, with the properties that do not depend on the scheme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Arrival time in memory [ticks].
    pub arrived: u64,
    /// Protocol time [ticks].
    pub protocol: u64,
    /// Application time [ticks].
    pub application: u64,
    /// Frame length, including FCS (bytes).
    pub bytes: u16,
    /// Number of the application that receives the packet.
    pub socket: u16,
    /// Number of the packet, from 0 (wraps; for traces only).
    pub number: u32,
}

/// A queue of packets in a buffer whose length is a power of two. Entering and leaving packets are counted separately:
/// with a common counter, each update would have to wait for the previous one.
#[derive(Debug)]
pub(crate) struct Fifo {
    buffer: Box<[Packet]>,
    pushed: Passed,
    popped: Passed,
}

/// Number and sum of arrival times of the packets that have passed one end of the queue.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    count: usize,
    /// Sum of the packets' arrival times, modulo 2^64 [ticks].
    arrived: u64,
}

impl Passed {
    #[inline]
    fn add(&mut self, packet: &Packet) {
        self.count = self.count.wrapping_add(1);
        self.arrived = self.arrived.wrapping_add(packet.arrived);
    }
}

impl Fifo {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        let buffer = vec![Packet::default(); 64].into_boxed_slice();
        Self { buffer, pushed: Passed::default(), popped: Passed::default() }
    }

    /// Number of packets in the queue.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pushed.count.wrapping_sub(self.popped.count)
    }

    /// Whether the queue is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pushed.count == self.popped.count
    }

    #[inline]
    fn place(&self, number: usize) -> usize {
        number & (self.buffer.len() - 1)
    }

    /// Appends a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        if self.len() == self.buffer.len() {
            self.grow();
        }
        let place = self.place(self.pushed.count);
        self.buffer[place] = packet;
        self.pushed.add(&packet);
    }

    #[cold]
    fn grow(&mut self) {
        let mut buffer = vec![Packet::default(); self.buffer.len() * 2].into_boxed_slice();
        let mask = buffer.len() - 1;
        for (place, packet) in self.iter().enumerate() {
            buffer[self.popped.count.wrapping_add(place) & mask] = *packet;
        }
        self.buffer = buffer;
    }

    /// Sum of the ages of all packets at `now` [ticks].
    pub(crate) fn ages(&self, now: u64) -> u128 {
        if self.is_empty() {
            return 0;
        }
        let most = u128::from(now - self.front().arrived) * self.len() as u128;
        let arrived = self.pushed.arrived.wrapping_sub(self.popped.arrived);
        // Computed from sums if these fit into 64 bits: in a short run counts are recorded at each packet, and a loop
        // over the queue would dominate the run time.
        if most <= u128::from(u64::MAX) {
            return u128::from((self.len() as u64).wrapping_mul(now).wrapping_sub(arrived));
        }
        self.iter().map(|packet| u128::from(now - packet.arrived)).sum()
    }

    /// The oldest packet. The queue must not be empty.
    #[inline]
    pub(crate) fn front(&self) -> &Packet {
        debug_assert!(!self.is_empty());
        &self.buffer[self.place(self.popped.count)]
    }

    /// Removes the oldest packet. The queue must not be empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Packet {
        let packet = *self.front();
        self.popped.add(&packet);
        packet
    }

    /// The packets from oldest to newest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        (0..self.len()).map(|place| &self.buffer[self.place(self.popped.count.wrapping_add(place))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_the_packets_held() {
        let ages = |fifo: &Fifo, now: u64| fifo.iter().map(|packet| u128::from(now - packet.arrived)).sum::<u128>();
        // With the second length of a tick, the sum of times exceeds 64 bits; with the third one, the sum of ages does
        // too.
        for tick in [1, u64::MAX / 400, u64::MAX / 190] {
            let mut fifo = Fifo::new();
            assert_eq!(fifo.ages(7), 0);
            for number in 0..180_u64 {
                fifo.push(Packet { arrived: number * tick, ..Packet::default() });
                if number % 3 == 2 {
                    fifo.pop();
                }
                let now = (number + 5) * tick;
                assert_eq!(fifo.ages(now), ages(&fifo, now), "{number} {tick}");
            }
        }
    }

    #[test]
    fn keeps_order_across_growth_and_wrap() {
        let mut fifo = Fifo::new();
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..50 {
            for _ in 0..round * 3 {
                fifo.push(Packet { number: pushed, ..Packet::default() });
                pushed += 1;
            }
            for _ in 0..round * 2 {
                assert_eq!(fifo.pop().number, popped);
                popped += 1;
            }
        }
        let left: Vec<u32> = fifo.iter().map(|packet| packet.number).collect();
        assert_eq!(left, (popped..pushed).collect::<Vec<_>>());
    }
}
