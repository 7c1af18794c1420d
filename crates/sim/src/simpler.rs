//! A control variate (a value with known mean that is correlated with the result) for the mean latency: the mean wait
//! in a simpler queue that gets the same packets.
//!
//! Near saturation the mean latency depends on how often random bursts fill the ring. The same gaps and service times
//! also fill a queue without interrupts and polls, M/M/1/B, whose mean is known exactly. The excess wait of its packets
//! corrects the scheme's mean latency, by regression over the replications (Lavenberg, Moeller and Welch, Operations
//! Research 30, 1982). Its service rate is chosen to give it the scheme's mean latency: then both have similar
//! autocorrelation times (docs/theory/statistics.md).
//!
//! The queue starts in its steady state, so its expected mean is exact over any window of arrivals.

use netcliff_core::traffic::Arrivals;
use netcliff_core::{Point, Scheme, Service};

use crate::clock::Clock;
use crate::random::{BLOCK, Purpose, Stream};
use crate::recursion;
use crate::source::Source;

/// Number of halvings of the interval that contains the utilisation.
const HALVINGS: u32 = 60;

/// M/M/1/B with arrival rate 1 and service rate 1/`utilisation`. `ring` packets have room, including the one in
/// service.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Queue {
    utilisation: f64,
    ring: u64,
}

impl Queue {
    /// Probabilities of 0, 1, ... packets inside, up to a common factor, starting at the more probable end. The flag is
    /// true if this end is the full ring.
    fn weights(self) -> (bool, impl Iterator<Item = f64>) {
        let full = self.utilisation > 1.0;
        let ratio = if full { 1.0 / self.utilisation } else { self.utilisation };
        let weights = std::iter::successors(Some(1.0), move |weight| Some(weight * ratio));
        (full, weights.take(self.ring as usize + 1).take_while(|weight| *weight > f64::EPSILON / 1e3))
    }

    /// Mean time of accepted packets in the queue, in units of the mean gap.
    fn mean_latency(self) -> f64 {
        let (full, weights) = self.weights();
        let (mut sum, mut distance, mut last) = (0.0, 0.0, 0.0);
        let mut places = 0_u64;
        for weight in weights {
            sum += weight;
            distance += places as f64 * weight;
            (last, places) = (weight, places + 1);
        }
        let lost = match places > self.ring {
            _ if full => 1.0 / sum,
            true => last / sum,
            // Such a queue length is so unlikely that the sum ends before it.
            false => 0.0,
        };
        let inside = if full { self.ring as f64 - distance / sum } else { distance / sum };
        inside / (1.0 - lost)
    }

    /// Quantile of the number of packets inside: counted from the more probable end, the share `at`, in (0, 1], of the
    /// distribution.
    fn inside(self, at: f64) -> u64 {
        let (full, weights) = self.weights();
        let each: Vec<f64> = weights.collect();
        let mut beyond = at * each.iter().sum::<f64>();
        let mut places = 0_u64;
        for weight in &each[..each.len() - 1] {
            beyond -= weight;
            if beyond <= 0.0 {
                break;
            }
            places += 1;
        }
        if full { self.ring - places } else { places }
    }
}

/// The simpler queue of a point.
#[derive(Debug, Clone)]
pub(crate) struct Simpler {
    /// A point with the scheme `ideal` at the queue's service rate.
    point: Point,
    queue: Queue,
    /// Mean service time [ticks].
    service: f64,
    /// Exact mean latency [ticks].
    latency: f64,
}

impl Simpler {
    /// Whether a point has a simpler queue. It has none if the queue's mean would not be known exactly, if more than
    /// the protocol times of one queue's packets causes the latency, or if the queue would be the scheme itself.
    pub(crate) fn is_for(point: &Point) -> bool {
        let host = &point.host;
        let alone = recursion::is_alone(host) && host.queues.is_none();
        let markovian = point.traffic.arrivals == Arrivals::Poisson && host.service == Service::Exponential;
        let alike = !host.is_by_size() || point.traffic.size.mixture().is_some_and(|parts| parts.len() == 1);
        let other = point.scheme != Scheme::Ideal;
        alone && markovian && alike && other
    }

    /// Makes the queue whose mean latency is `latency` [ticks]. `None` if the point has no such queue.
    pub(crate) fn of(point: &Point, clock: Clock, latency: f64) -> Option<Self> {
        if Self::is_for(point) { Self::at(point, clock, latency) } else { None }
    }

    /// Like [`Self::of`], without the check whether the point has such a queue. `None` if the point has no rate.
    fn at(point: &Point, clock: Clock, latency: f64) -> Option<Self> {
        let host = &point.host;
        let gap_s = 1.0 / point.rate_pps()?;
        let gap = clock.ticks(gap_s);
        let ring = host.ring;
        let mut between = (0.0, (latency / gap).max(1.0) + 1.0);
        for _ in 0..HALVINGS {
            let utilisation = f64::midpoint(between.0, between.1);
            let above = Queue { utilisation, ring }.mean_latency() * gap > latency;
            if above { between.1 = utilisation } else { between.0 = utilisation }
        }
        let queue = Queue { utilisation: between.0, ring };
        let host = host.clone().with_fixed_protocol(queue.utilisation * gap_s);
        let point = Point { host, scheme: Scheme::Ideal, ..point.clone() };
        Some(Self { point, queue, service: queue.utilisation * gap, latency: queue.mean_latency() * gap })
    }

    /// Relative amount by which the packets of a replication waited longer in the queue than expected, without the
    /// first `skipped` of its `packets`. Uses the recursion of `recursion::ideal` from a steady state on. The packets
    /// that arrived in the window count, because the mean over the packets that left in the window is not known
    /// exactly.
    pub(crate) fn excess(&self, clock: Clock, seed: u64, replication: u64, packets: u64, skipped: u64) -> f64 {
        let ring = self.queue.ring as usize;
        let mask = (ring + 1).next_power_of_two() - 1;
        let mut departures = vec![0_u64; mask + 1];
        let (mut now, mut last, mut accepted) = (0_u64, 0_u64, ring);
        for work in self.found(seed, replication) {
            last += work;
            departures[accepted & mask] = last;
            accepted += 1;
        }
        let mut source = Source::new(&self.point, clock, seed, replication);
        let (mut sum, mut count, mut offered) = (0_u128, 0_u64, 0);
        while offered < packets {
            let block = source.next_block();
            let until = usize::try_from(packets - offered).unwrap_or(BLOCK).min(BLOCK);
            let first = usize::try_from(skipped.saturating_sub(offered)).unwrap_or(BLOCK).min(BLOCK);
            for (place, (gap, work)) in block.gaps[..until].iter().zip(block.protocol).enumerate() {
                now += gap;
                if departures[(accepted - ring) & mask] > now {
                    continue;
                }
                last = last.max(now) + work;
                departures[accepted & mask] = last;
                accepted += 1;
                let counted = u64::from(place >= first);
                sum += u128::from(counted * (last - now));
                count += counted;
            }
            offered += until as u64;
        }
        sum as f64 / count.max(1) as f64 / self.latency - 1.0
    }

    /// Service times of the packets that the first arrival finds [ticks].
    fn found(&self, seed: u64, replication: u64) -> Vec<u64> {
        let mut stream = Stream::new(seed, Purpose::Simpler, replication);
        let mut at = [0.0; BLOCK];
        stream.uniform(&mut at);
        let mut times = vec![0; self.queue.inside(at[0]) as usize];
        let mut block = [0; BLOCK];
        for part in times.chunks_mut(BLOCK) {
            stream.exponential_ticks(self.service, &mut block);
            part.copy_from_slice(&block[..part.len()]);
        }
        times
    }
}

#[cfg(test)]
mod tests;
