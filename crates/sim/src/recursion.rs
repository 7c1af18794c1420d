//! Computes packets one by one without events, for schemes and hosts that allow it and if there is no observer. The
//! event-driven machine is the reference: both agree in all recorded counts and in every latency.

mod before;
mod disciplines;
mod ideal;
mod inside;
mod polled;
mod preempted;
mod serial;
mod softirq;
#[cfg(test)]
mod tests;
mod work_clock;

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
use work_clock::{Pausing, Steady, WorkClock};

/// Largest ring for which recursions are used: they allocate the queue's memory at once.
const LARGEST_RING: u64 = 1 << 16;

/// A queue that handles packets in blocks.
trait Recursion {
    /// Takes arrivals. The gap of the first one counts from the previous arrival.
    fn arrive(&mut self, packets: PacketBlock<'_>);

    /// Counts the packets that have departed by the last arrival, or by `at` if [`Recursion::reach`] has advanced to
    /// `at`.
    fn deliver(&mut self, at: u64, latencies: &mut Histogram);

    /// Advances to just before an arrival `gap` after the last one. Returns that time.
    fn reach(&mut self, gap: u64) -> u64;

    /// The counts at `at`; all departures up to `at` must have been counted. The caller counts `offered`.
    fn counts(&mut self, at: u64) -> Counts;
}

/// Whether only ring, protocol processing and CPU pauses delay the host's packets, and the ring is not too large.
fn is_alone_or_paused(host: &Host) -> bool {
    receives(host) && host.application_s.is_none()
}

/// Whether the host only receives, with a ring that is not too large.
fn receives(host: &Host) -> bool {
    host.xoff.is_none() && host.transmit_s.is_none() && (1..=LARGEST_RING).contains(&host.ring)
}

/// Like `is_alone_or_paused`, for a host without pauses.
pub(crate) fn is_alone(host: &Host) -> bool {
    is_alone_or_paused(host) && host.pauses().is_none()
}

/// Simulates `packets` arrivals of `point`, which must be supported. `None` if only the event-driven machine supports
/// the point.
pub(crate) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Option<Records> {
    let host = &point.host;
    if host.application_s.is_some() {
        let one = receives(host) && host.pauses().is_none() && !host.has_several_applications();
        return match &point.scheme {
            Scheme::Napi(napi) if one => softirq::run(napi, point, clock, seed, replication, packets),
            _ => None,
        };
    }
    if !is_alone_or_paused(host) {
        return None;
    }
    if host.pauses().is_some() {
        if !(lasts(clock, host, host.packet_s()) && lasts(clock, host, host.interrupt_s)) {
            return None;
        }
        return by_work(point, Pausing::new(point, clock, seed, replication), clock, seed, replication, packets);
    }
    let ring = host.ring as usize;
    let source = || Source::new(point, clock, seed, replication);
    let times = || Times::new(point, clock, seed, replication);
    match &point.scheme {
        Scheme::Napi2007(scheme) => {
            let discipline = Napi2007::new(times(), scheme, clock);
            Some(drive(Serial::new(discipline, Steady::default(), ring), source(), packets))
        }
        Scheme::Polling { period_s, quota } => {
            let times = times();
            let queue = Polled::new(Ticks::new(*period_s, clock, &times), times.poll, *quota, ring);
            Some(drive(queue, source(), packets))
        }
        Scheme::Interrupt { .. } | Scheme::Coalesce(_) => {
            let queue = preempted::Preempted::new(point, ring, clock, seed, replication)?;
            Some(drive(queue, source(), packets))
        }
        _ => by_work(point, Steady::default(), clock, seed, replication, packets),
    }
}

/// Whether a time with the mean `mean_s` takes at least one tick.
fn lasts(clock: Clock, host: &Host, mean_s: f64) -> bool {
    let shortest = host.service.measured().map_or(1.0, |times| times.parts()[0].0);
    clock.ticks(mean_s) * shortest >= 1.0
}

/// Runs the schemes without timers. On the clock of work, which stands still in pauses, they behave the same with and
/// without pauses.
fn by_work(
    point: &Point,
    work: impl WorkClock,
    clock: Clock,
    seed: u64,
    replication: u64,
    packets: u64,
) -> Option<Records> {
    let (source, ring) = (Source::new(point, clock, seed, replication), point.host.ring as usize);
    let mut times = Times::new(point, clock, seed, replication);
    Some(match &point.scheme {
        Scheme::Ideal => drive(ideal::Ideal::new(work, ring), source, packets),
        Scheme::DisableEnable { merged } => {
            let discipline = DisableEnable::new(times, source.cost(), *merged);
            drive(Serial::new(discipline, work, ring), source, packets)
        }
        Scheme::Napi(napi) => {
            // True if the delivery of an interrupt takes real time, which also passes during a pause.
            let in_time = point.host.pauses().is_none() || point.host.interrupt_latency_s == 0.0;
            if !(in_time && OneNapi::does(napi) && !napi.backlog) {
                return None;
            }
            drive(Serial::new(OneNapi::new(&mut times, napi), work, ring), source, packets)
        }
        _ => return None,
    })
}

fn drive(mut queue: impl Recursion, mut source: Source, packets: u64) -> Records {
    let mut records = Records::new(packets);
    let mut offered = 0;
    while !take(&mut queue, source.next_block(), &mut offered, &mut records) {}
    records
}

/// Handles a block of arrivals. Returns true if the last mark was set among them.
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

mod handled {
    //! [`Handled`]: preempting work in the order in which it starts: interrupts that preempt protocol work, or softirqs
    //! that preempt the application.

    use crate::clock::NEVER;

    /// One piece of preempting work, for which other work waits.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Handled {
        /// Start of the preempting work, on the clock of the preempted work, which stands still during it.
        pub at: u64,
        /// Total of all preempting work up to the end of this piece [ticks].
        pub total: u64,
    }

    /// Placeholder: no preempting work.
    pub(super) const NONE: Handled = Handled { at: NEVER, total: 0 };
    /// Number of entries compared at a time; this many [`NONE`] follow the last entry.
    pub(super) const ABREAST: usize = 4;

    /// Number of entries of `all` that began before `instant`; the first `passed` entries are known to be among them.
    /// Several entries are compared at once, because a loop over single entries would have a branch that is often
    /// mispredicted.
    #[inline(always)]
    pub(super) fn began_before(all: &[Handled], mut passed: usize, instant: u64) -> usize {
        loop {
            let next = &all[passed..passed + ABREAST];
            let began: usize = next.iter().map(|handled| usize::from(handled.at < instant)).sum();
            passed += began;
            if began < ABREAST {
                return passed;
            }
        }
    }
}
