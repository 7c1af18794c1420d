//! Schemes whose packets can be followed one by one without events, if no observer is set. The machine of events stays
//! their reference: both agree at every mark and in every latency.

mod disciplines;
mod ideal;
mod inside;
mod polled;
mod preempted;
mod serial;
#[cfg(test)]
mod tests;

use netcliff_core::{Host, Point, Scheme};

use crate::clock::Clock;
use crate::machine::{Records, Times};
use crate::random::BLOCK;
use crate::schemes::Ticks;
use crate::source::{PacketBlock, Source};
use crate::tally::{Counts, Histogram};
use disciplines::{DisableEnable, Napi2007, OneNapi};
use polled::Polled;
use serial::Serial;

/// Largest ring served this way: the queue's memory is taken at once.
const LARGEST_RING: u64 = 1 << 16;

/// A queue that takes packets in blocks.
trait Recursion {
    /// Takes arrivals, the first a gap after the last there was.
    fn arrive(&mut self, packets: PacketBlock<'_>);

    /// Counts the packets that have departed by the last arrival, or by `at` if [`Recursion::reach`] went there.
    fn deliver(&mut self, at: u64, latencies: &mut Histogram);

    /// Lets all happen that precedes an arrival `gap` after the last there was; when that is.
    fn reach(&mut self, gap: u64) -> u64;

    /// The counts at `at`, of which all departures have been counted; `offered` is not this one's to count.
    fn counts(&mut self, at: u64) -> Counts;
}

/// True of a host whose packets only its ring and protocol processing hold up, and whose ring is not too large.
pub(crate) fn is_alone(host: &Host) -> bool {
    let alone =
        host.application_s.is_none() && host.xoff.is_none() && host.transmit_s.is_none() && host.pauses().is_none();
    alone && (1..=LARGEST_RING).contains(&host.ring)
}

/// Simulates `packets` arrivals of `point`, which must be supported; None: only events can.
pub(crate) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Option<Records> {
    let host = &point.host;
    if !is_alone(host) {
        return None;
    }
    let ring = host.ring as usize;
    let source = || Source::new(point, clock, seed, replication);
    let times = || Times::new(point, clock, seed, replication);
    let serial = |discipline| drive(Serial::new(discipline, ring), source(), packets);
    match &point.scheme {
        Scheme::Ideal => Some(drive(ideal::Ideal::new(ring), source(), packets)),
        Scheme::DisableEnable { merged } => {
            let source = source();
            let discipline = DisableEnable::new(times(), source.cost(), *merged);
            Some(drive(Serial::new(discipline, ring), source, packets))
        }
        Scheme::Napi2007 { period_s, quota } => {
            let discipline = Napi2007::new(times(), clock.whole(*period_s), *quota);
            Some(drive(Serial::new(discipline, ring), source(), packets))
        }
        Scheme::Polling { period_s, quota } => {
            let times = times();
            let queue = Polled::new(Ticks::new(*period_s, clock, &times), times.poll, *quota, ring);
            Some(drive(queue, source(), packets))
        }
        Scheme::Napi(napi) => OneNapi::new(times(), napi).map(serial),
        _ => {
            let queue = preempted::Preempted::new(point, ring, clock, seed, replication)?;
            Some(drive(queue, source(), packets))
        }
    }
}

fn drive(mut queue: impl Recursion, mut source: Source, packets: u64) -> Records {
    let mut records = Records::new(packets);
    let mut offered = 0;
    while !take(&mut queue, source.next_block(), &mut offered, &mut records) {}
    records
}

/// Takes a block of arrivals; true if the last mark was set among them.
fn take(queue: &mut impl Recursion, block: PacketBlock<'_>, offered: &mut u64, records: &mut Records) -> bool {
    let mut from = 0;
    while from < BLOCK {
        if *offered == records.next_mark() {
            let at = queue.reach(block.gaps[from]);
            queue.deliver(at, records.present());
            if records.push(Counts { offered: *offered, ..queue.counts(at) }, &[]) {
                return true;
            }
        }
        let left = usize::try_from(records.next_mark() - *offered).unwrap_or(BLOCK);
        let to = BLOCK.min(from.saturating_add(left));
        queue.arrive(block.part(from..to));
        *offered += (to - from) as u64;
        from = to;
    }
    let at = queue.reach(0);
    queue.deliver(at, records.present());
    false
}
