//! [`Source`]: the packets of a point: arrival time, size, and CPU times of each.
//!
//! Gap, size and times of a packet come from separate streams and are drawn whether or not the packet is dropped:
//! packet number n is the same packet under every scheme.

mod gaps;
mod on_off;
mod sizes;
mod sockets;

use netcliff_core::{Arrivals, Host, Load, Point, Traffic, Unsupported, engine::EngineKind};

use crate::clock::{Clock, to_ticks};
use crate::draw::{ticks_block, unit_block};
use crate::fifo::Packet;
use crate::random::{BLOCK, Purpose, Stream};
use crate::tally::CELLS;
use gaps::Gaps;
use sizes::Sizes;
use sockets::Sockets;

/// A stream of times with mean 1.
#[derive(Debug)]
struct Units {
    stream: Stream,
    block: Box<[f64; BLOCK]>,
}

impl Units {
    fn new(seed: u64, purpose: Purpose, replication: u64) -> Self {
        Self { stream: Stream::new(seed, purpose, replication), block: Box::new([0.0; BLOCK]) }
    }
}

/// Protocol time of a packet by its size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketCost {
    fixed_ticks: f64,
    per_byte_ticks: f64,
}

impl PacketCost {
    /// Mean protocol time of a frame of `bytes` [ticks].
    #[inline]
    pub(crate) fn mean_ticks(&self, bytes: u32) -> f64 {
        self.mean_ticks_of(f64::from(bytes))
    }

    /// Mean protocol time for a mean frame size of `bytes` [ticks].
    #[inline]
    pub(crate) fn mean_ticks_of(&self, bytes: f64) -> f64 {
        self.fixed_ticks + self.per_byte_ticks * bytes
    }
}

/// The stream of packets of a replication.
#[derive(Debug)]
pub(crate) struct Source {
    gaps: Gaps,
    gap_block: Box<[u64; BLOCK]>,
    sizes: Sizes,
    size_block: Box<[u32; BLOCK]>,
    protocol: Units,
    protocol_block: Box<[u64; BLOCK]>,
    /// Processing times of the applications: the stream, and the mean of each application [ticks].
    application: Option<(Units, Vec<f64>)>,
    application_block: Box<[u64; BLOCK]>,
    sockets: Option<Sockets>,
    socket_block: Box<[u16; BLOCK]>,
    service: netcliff_core::Service,
    cost: PacketCost,
    next: usize,
    number: u32,
}

/// Checks whether a traffic can be simulated, at `load` if it is given; the error says why not.
pub(crate) fn supports(host: &Host, traffic: &Traffic, load: Option<Load>) -> Result<(), Unsupported> {
    let decline = |reason: String| Err(Unsupported::new(EngineKind::Sim, reason));
    if traffic.size.mixture().is_none() {
        return decline(format!("the size file {} has not been read into a mixture", traffic.size));
    }
    if let Some(file) = host.service.unread() {
        return decline(format!("the measured times of {file} have not been read"));
    }
    if let Some(file) = host.unread_pauses() {
        return decline(format!("the lengths of pauses of {file} have not been read"));
    }
    supports_arrivals(traffic, &traffic.arrivals, load)
}

fn supports_arrivals(traffic: &Traffic, arrivals: &Arrivals, load: Option<Load>) -> Result<(), Unsupported> {
    let decline = |reason: String| Err(Unsupported::new(EngineKind::Sim, reason));
    match arrivals {
        Arrivals::Thinned { of, .. } if of.read_once().is_some() => {
            decline("a trace is read once by a host with one queue: leave out once or queues".to_owned())
        }
        Arrivals::Thinned { of, .. } => supports_arrivals(traffic, of, load),
        Arrivals::Trace { file, capture: None, .. } => decline(format!("the trace {file} has not been read")),
        Arrivals::Trace { file, once: true, capture: Some(capture), .. } if capture.packets.len() < CELLS => {
            decline(format!(
                "the trace {file} holds {} packets; once is for at least {CELLS}: leave it out to read the trace around",
                capture.packets.len()
            ))
        }
        Arrivals::OnOff(shape) => {
            let too_fast = |load: &Load| on_off::too_fast(shape, traffic, traffic.rate_pps(*load).unwrap_or(0.0));
            load.filter(too_fast).map_or(Ok(()), |load| decline(format!(
                "ON/OFF sources cannot offer {load}: line rate is {} for these frames; lower the rate, raise the link or use rule=superpose",
                netcliff_core::units::print_pps(traffic.line_rate_pps().unwrap_or(0.0)),
            )))
        }
        _ => Ok(()),
    }
}

impl Source {
    /// The packets of `point` in `replication` under `seed`. The point must be supported.
    pub(crate) fn new(point: &Point, clock: Clock, seed: u64, replication: u64) -> Self {
        let rate_pps = point.rate_pps().unwrap_or(1.0);
        let gaps = Gaps::new(&point.traffic, rate_pps, clock, seed, replication);
        // A capture that is read only once starts at its beginning in every replication.
        let first = if point.traffic.arrivals.read_once().is_some() { 0 } else { replication };
        let host = &point.host;
        let each = host.each_application();
        let means: Vec<f64> = each.iter().map(|one| clock.ticks(one.time_s)).collect();
        let application = (!each.is_empty()).then(|| (Units::new(seed, Purpose::Application, replication), means));
        Self {
            gaps,
            gap_block: Box::new([0; BLOCK]),
            sizes: Sizes::new(&point.traffic.size, Stream::new(seed, Purpose::Size, replication), first),
            size_block: Box::new([0; BLOCK]),
            protocol: Units::new(seed, Purpose::Protocol, replication),
            protocol_block: Box::new([0; BLOCK]),
            application,
            application_block: Box::new([0; BLOCK]),
            sockets: Sockets::new(&each, seed, replication),
            socket_block: Box::new([0; BLOCK]),
            service: host.service.clone(),
            cost: PacketCost {
                fixed_ticks: clock.ticks(host.packet_s()),
                per_byte_ticks: clock.ticks(host.per_byte_s),
            },
            next: BLOCK,
            number: 0,
        }
    }

    /// Protocol time of packets by size.
    pub(crate) fn cost(&self) -> PacketCost {
        self.cost
    }

    /// The next packet. Its `arrived` is the gap since the previous packet [ticks].
    #[inline]
    pub(crate) fn next(&mut self) -> Packet {
        if self.next == BLOCK {
            self.refill();
        }
        // The index is below BLOCK; the mask lets the compiler omit five bounds checks.
        let i = self.next & (BLOCK - 1);
        self.next += 1;
        let number = self.number;
        self.number = number.wrapping_add(1);
        Packet {
            arrived: self.gap_block[i],
            protocol: self.protocol_block[i],
            application: self.application_block[i],
            // Frames are at most 65535 bytes.
            bytes: self.size_block[i] as u16,
            socket: self.socket_block[i],
            number,
        }
    }

    /// The gap between the last packet returned and the next one [ticks].
    #[inline]
    pub(crate) fn gap(&mut self) -> u64 {
        if self.next == BLOCK {
            self.refill();
        }
        self.gap_block[self.next & (BLOCK - 1)]
    }

    /// Time from the next packet to the one `count` after it, or to the last one already drawn [ticks]. Requires a call
    /// of [`Source::gap`] before.
    #[inline]
    pub(crate) fn ahead(&self, count: usize) -> u64 {
        let drawn = &self.gap_block[self.next + 1..];
        drawn[..count.min(drawn.len())].iter().sum()
    }

    #[inline(never)]
    fn refill(&mut self) {
        self.next = 0;
        self.sizes.fill(&mut self.size_block);
        self.gaps.fill(&self.size_block, &mut self.gap_block);
        self.fill_protocol();
        self.fill_application();
    }

    fn fill_application(&mut self) {
        let Some((Units { stream, block }, means)) = &mut self.application else { return };
        let Some(sockets) = &mut self.sockets else {
            return ticks_block(stream, &self.service, means[0], &mut self.application_block);
        };
        sockets.fill(&mut self.socket_block);
        unit_block(stream, &self.service, block);
        for i in 0..BLOCK {
            self.application_block[i] = to_ticks(block[i] * means[usize::from(self.socket_block[i])]);
        }
    }

    fn fill_protocol(&mut self) {
        let Units { stream, block } = &mut self.protocol;
        if let Some(bytes) = self.sizes.fixed() {
            ticks_block(stream, &self.service, self.cost.mean_ticks(bytes), &mut self.protocol_block);
            return;
        }
        unit_block(stream, &self.service, block);
        for i in 0..BLOCK {
            self.protocol_block[i] = to_ticks(block[i] * self.cost.mean_ticks(self.size_block[i]));
        }
    }

    /// Returns the next packets, one block at a time. Do not mix with [`Source::next`].
    pub(crate) fn next_block(&mut self) -> PacketBlock<'_> {
        self.refill();
        self.block()
    }

    /// The packets of the block that have not been taken yet, at most `most`. Call [`Source::took`] with the number
    /// that was taken.
    pub(crate) fn rest_of_block(&mut self, most: usize) -> PacketBlock<'_> {
        if self.next == BLOCK {
            self.refill();
        }
        let until = BLOCK.min(self.next.saturating_add(most));
        self.block().part(self.next..until)
    }

    /// Takes `packets` packets of [`Source::rest_of_block`].
    pub(crate) fn took(&mut self, packets: usize) {
        self.next += packets;
        self.number = self.number.wrapping_add(packets as u32);
    }

    fn block(&self) -> PacketBlock<'_> {
        PacketBlock {
            gaps: self.gap_block.as_slice(),
            protocol: self.protocol_block.as_slice(),
            application: self.application_block.as_slice(),
            bytes: self.size_block.as_slice(),
        }
    }
}

/// A block of packets in columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketBlock<'a> {
    /// Gap since the previous arrival [ticks].
    pub gaps: &'a [u64],
    /// Protocol times [ticks].
    pub protocol: &'a [u64],
    /// Processing times of the application [ticks].
    pub application: &'a [u64],
    /// Frame lengths (bytes).
    pub bytes: &'a [u32],
}

impl PacketBlock<'_> {
    /// Packet `number` of the block, which arrives at `arrived` [ticks].
    #[inline]
    pub(crate) fn packet(&self, number: usize, arrived: u64) -> Packet {
        // Frames are at most 65535 bytes.
        let bytes = self.bytes[number] as u16;
        let (protocol, application) = (self.protocol[number], self.application[number]);
        Packet { arrived, protocol, application, bytes, ..Packet::default() }
    }

    /// A part of the block.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            gaps: &self.gaps[range.clone()],
            protocol: &self.protocol[range.clone()],
            application: &self.application[range.clone()],
            bytes: &self.bytes[range],
        }
    }
}

#[cfg(test)]
mod tests;
