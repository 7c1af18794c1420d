//! Scheme `ideal` without an observer: Lindley's recursion over whole blocks of packets instead of events.
//!
//! Packet n departs at D_n = max(A_n, D_{n-1}) + S_n and is lost if the packet B places before it among those accepted is
//! still inside at A_n. Departures become counts and latencies a block later, or when a mark asks for them.

use netcliff_core::{Point, Scheme};

use crate::clock::Clock;
use crate::machine::Records;
use crate::random::BLOCK;
use crate::source::{PacketBlock, Source};
use crate::tally::{Account, Counts};

/// Largest ring served this way: the queue's memory is taken at once.
const LARGEST_RING: u64 = 1 << 16;

/// The size of the ring, if the recursion tells all of `point`.
pub(crate) fn ring(point: &Point) -> Option<usize> {
    let plain = point.scheme == Scheme::Ideal && point.host.application_s.is_none();
    (plain && (1..=LARGEST_RING).contains(&point.host.ring)).then_some(point.host.ring as usize)
}

/// Simulates `packets` arrivals of a point for which [`ring`] gave a size.
pub(crate) fn run(point: &Point, ring: usize, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let mut source = Source::new(point, clock, seed, replication);
    let mut queue = Queue::new(ring);
    let mut records = Records::new(packets);
    loop {
        if queue.take(source.next_block(), &mut records) {
            return records;
        }
    }
}

/// An accepted packet.
#[derive(Debug, Clone, Copy, Default)]
struct Departure {
    at: u64,
    latency: u64,
}

/// Departures of the latest accepted packets, in a ring buffer, and the counts.
struct Queue {
    now: u64,
    departures: Box<[Departure]>,
    bytes: Box<[u32]>,
    ring: usize,
    accepted: usize,
    /// Departures that have been counted.
    delivered: usize,
    last: u64,
    idle: u64,
    counts: Counts,
}

impl Queue {
    fn new(ring: usize) -> Self {
        // Whoever is inside, and the block's packets not counted yet.
        let places = (ring + BLOCK).next_power_of_two();
        Self {
            now: 0,
            departures: vec![Departure::default(); places].into_boxed_slice(),
            bytes: vec![0; places].into_boxed_slice(),
            ring,
            accepted: 0,
            delivered: 0,
            last: 0,
            idle: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a block of arrivals; true if the last mark was set among them.
    fn take(&mut self, block: PacketBlock<'_>, records: &mut Records) -> bool {
        let mut from = 0;
        while from < BLOCK {
            let before_mark = records.next_mark() - self.counts.offered;
            if before_mark == 0 {
                self.now += block.gaps[from];
                if self.mark(records) {
                    return true;
                }
                self.now -= block.gaps[from];
            }
            let left = usize::try_from(records.next_mark() - self.counts.offered).unwrap_or(BLOCK);
            let to = BLOCK.min(from.saturating_add(left));
            self.arrive(&block.gaps[from..to], &block.protocol[from..to], &block.bytes[from..to]);
            from = to;
            self.deliver(records);
        }
        false
    }

    /// Accepts or drops packets.
    fn arrive(&mut self, gaps: &[u64], protocol: &[u64], bytes: &[u32]) {
        let mask = self.departures.len() - 1;
        let bytes_of = &mut self.bytes[..=mask];
        let departures = &mut self.departures[..=mask];
        let (mut now, mut last, mut idle, mut accepted) = (self.now, self.last, self.idle, self.accepted);
        for ((gap, work), bytes) in gaps.iter().zip(protocol).zip(bytes) {
            now += gap;
            if departures[accepted.wrapping_sub(self.ring) & mask].at > now {
                continue;
            }
            let start = last.max(now);
            idle += start - last;
            last = start + work;
            departures[accepted & mask] = Departure { at: last, latency: last - now };
            bytes_of[accepted & mask] = *bytes;
            accepted += 1;
        }
        self.counts.offered += gaps.len() as u64;
        self.counts.dropped_ring += (gaps.len() - (accepted - self.accepted)) as u64;
        (self.now, self.last, self.idle, self.accepted) = (now, last, idle, accepted);
    }

    /// Counts the packets that have departed.
    fn deliver(&mut self, records: &mut Records) {
        let mask = self.departures.len() - 1;
        let departures = &self.departures[..=mask];
        let histogram = records.present();
        let first = self.delivered;
        let mut latency = 0_u128;
        while self.delivered < self.accepted {
            let departure = departures[self.delivered & mask];
            if departure.at > self.now {
                break;
            }
            latency += u128::from(departure.latency);
            histogram.add(departure.latency);
            self.counts.delivered_bytes += u64::from(self.bytes[self.delivered & mask]);
            self.delivered += 1;
        }
        self.counts.latency += latency;
        self.counts.delivered += (self.delivered - first) as u64;
    }

    /// Records the counts up to now; true if that was the last time.
    fn mark(&mut self, records: &mut Records) -> bool {
        self.deliver(records);
        let mask = self.departures.len() - 1;
        let inside = (self.delivered..self.accepted).map(|place| self.departures[place & mask]);
        let ages: u128 = inside.map(|departure| u128::from(self.now + departure.latency - departure.at)).sum();
        let available = self.idle + self.now.saturating_sub(self.last);
        let mut counts = Counts {
            at: self.now,
            inside_ring: (self.accepted - self.delivered) as u64,
            processed: self.counts.delivered,
            processed_latency: self.counts.latency,
            ring_area: self.counts.latency + ages,
            system_area: self.counts.latency + ages,
            ..self.counts
        };
        counts.cpu[Account::Available as usize] = available;
        counts.cpu[Account::Protocol as usize] = self.now - available;
        debug_assert!(counts.conserved(), "not conserved: {counts:?}");
        records.push(counts)
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Service, Traffic};

    use super::*;
    use crate::replicate::by_events;

    /// The recursion and the event-driven machine (refereed elsewhere) agree at every mark and in every latency.
    fn agree(point: &Point, packets: u64) {
        let clock = Clock::new(point.traffic.rate_pps().unwrap(), packets);
        let ring = ring(point).unwrap();
        let recursion = run(point, ring, clock, 5, 2, packets);
        let events = by_events(point, clock, 5, 2, packets);
        let label = format!("{:?} {:?}, {packets} packets", point.host, point.traffic);
        assert_eq!(recursion.marks, events.marks, "{label}");
        assert!(
            recursion.segments[..crate::machine::SEGMENTS] == events.segments[..crate::machine::SEGMENTS],
            "{label}"
        );
    }

    #[test]
    fn recursion_and_events_agree() {
        let services = [
            Service::Exponential,
            Service::Deterministic,
            Service::Erlang { stages: 2 },
            Service::Hyperexponential { cv: 1.8 },
        ];
        for ring in [1, 2, 7, 300, 1024] {
            for (number, arrivals) in ["poisson", "constant", "batch:size=5", "mmpp", "onoff"].into_iter().enumerate() {
                for kpps in [50.0, 180.0, 400.0] {
                    let service = services[(number + ring as usize) % services.len()];
                    let host = Host { ring, service, per_byte_s: 1e-9, ..Host::pentium4_2530mhz() };
                    let mut traffic = Traffic::poisson(kpps * 1e3);
                    traffic.arrivals = arrivals.parse().unwrap();
                    if ring == 7 {
                        traffic.size = netcliff_core::FrameSizes::Imix;
                    }
                    let point = Point { host, scheme: Scheme::Ideal, traffic };
                    // A hundred packets: a mark at each.
                    for packets in [100, 1, 5_000, 30_000] {
                        agree(&point, packets);
                    }
                }
            }
        }
    }

    #[test]
    fn an_application_and_a_vast_ring_go_by_events() {
        let point = |host| Point { host, scheme: Scheme::Ideal, traffic: Traffic::poisson(1e5) };
        let plain = Host::pentium4_2530mhz();
        assert_eq!(ring(&point(plain.clone())), Some(1024));
        assert_eq!(ring(&point(Host { application_s: Some(1e-6), ..plain.clone() })), None);
        assert_eq!(ring(&point(Host { ring: 1 << 20, ..plain.clone() })), None);
        assert_eq!(ring(&Point { scheme: "interrupt".parse().unwrap(), ..point(plain) }), None);
    }
}
