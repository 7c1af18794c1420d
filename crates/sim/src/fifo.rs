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
}

impl Fifo {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![Packet::default(); 64].into_boxed_slice(), head: 0, len: 0 }
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
        // In halves of 32 bits: sums of 128 bits do not vectorise.
        let (low, high) = self.iter().fold((0_u64, 0_u64), |(low, high), packet| {
            let age = now - packet.arrived;
            (low + (age & 0xffff_ffff), high + (age >> 32))
        });
        (u128::from(high) << 32) + u128::from(low)
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
