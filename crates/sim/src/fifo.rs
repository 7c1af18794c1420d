//! [`Fifo`]: packets in order of arrival, in one buffer that grows to what the run needs and is then reused.

/// One packet, with everything that is its own whatever the scheme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Arrival in memory [ticks].
    pub arrived: u64,
    /// Protocol time [ticks].
    pub protocol: u64,
    /// Application time [ticks].
    pub application: u64,
    /// Frame, FCS included (bytes).
    pub bytes: u16,
    /// The application that it is for.
    pub socket: u16,
    /// Number of the packet, from 0 (wraps; for traces only).
    pub number: u32,
}

/// A queue of packets in a buffer whose length is a power of two.
#[derive(Debug)]
pub(crate) struct Fifo {
    buffer: Box<[Packet]>,
    head: usize,
    len: usize,
    /// Sum of the arrival times of the packets held, modulo 2^64 [ticks].
    arrived: u64,
}

impl Fifo {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![Packet::default(); 64].into_boxed_slice(), head: 0, len: 0, arrived: 0 }
    }

    /// Packets held.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True without packets.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn at(&self, place: usize) -> usize {
        (self.head + place) & (self.buffer.len() - 1)
    }

    /// Appends a packet.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) {
        if self.len == self.buffer.len() {
            self.grow();
        }
        let place = self.at(self.len);
        self.buffer[place] = packet;
        self.len += 1;
        self.arrived = self.arrived.wrapping_add(packet.arrived);
    }

    #[cold]
    fn grow(&mut self) {
        let mut buffer = vec![Packet::default(); self.buffer.len() * 2].into_boxed_slice();
        for (place, packet) in self.iter().enumerate() {
            buffer[place] = *packet;
        }
        self.buffer = buffer;
        self.head = 0;
    }

    /// How long the packets have been here by `now`, added up [ticks].
    pub(crate) fn ages(&self, now: u64) -> u128 {
        if self.is_empty() {
            return 0;
        }
        let most = u128::from(now - self.front().arrived) * self.len as u128;
        // A run of few packets is marked at each of them: there a sum over the queue would take as long as all the rest.
        if most <= u128::from(u64::MAX) {
            return u128::from((self.len as u64).wrapping_mul(now).wrapping_sub(self.arrived));
        }
        self.iter().map(|packet| u128::from(now - packet.arrived)).sum()
    }

    /// The oldest packet; the queue must hold one.
    #[inline]
    pub(crate) fn front(&self) -> &Packet {
        debug_assert!(self.len > 0);
        &self.buffer[self.head]
    }

    /// Takes the oldest packet; the queue must hold one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Packet {
        debug_assert!(self.len > 0);
        let packet = self.buffer[self.head];
        self.head = self.at(1);
        self.len -= 1;
        self.arrived = self.arrived.wrapping_sub(packet.arrived);
        packet
    }

    /// Oldest to newest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        (0..self.len).map(|place| &self.buffer[self.at(place)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_the_packets_held() {
        let ages = |fifo: &Fifo, now: u64| fifo.iter().map(|packet| u128::from(now - packet.arrived)).sum::<u128>();
        // By the second of these clocks the sum of times is beyond 64 bits, by the third that of ages, too.
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
