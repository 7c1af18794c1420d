//! `polling`: a free-running timer. A tick on an idle CPU starts a cycle that serves packets up to the quota; a tick
//! during a cycle re-arms the cycle.
//!
//! Between packets that are far apart, most ticks find an idle CPU and an empty ring. These ticks are skipped, except
//! the last few before a packet, whose overhead may still run when the packet arrives ([`kept_ticks`]).

use super::{Policy, preemptible};
use crate::clock::Clock;
use crate::machine::{Machine, Times, Watch};
use crate::tally::Account;
use netcliff_core::math;

/// The timer, and the number of ticks before an arrival that are simulated on an idle CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ticks {
    pub period: u64,
    pub first: u64,
    kept: u64,
}

impl Ticks {
    /// A timer with this period; `times` gives the overhead of a tick.
    pub(crate) fn new(period_s: f64, clock: Clock, times: &Times) -> Self {
        let period = clock.whole(period_s).max(1);
        let kept = kept_ticks(period as f64, times.poll.mean_ticks(), times.poll.squared_cv());
        Self { period, first: times.poll_timer(period).next(0), kept }
    }

    /// Number of timer ticks to skip if the next arrival is `far` after the next timer tick [clock ticks]. `None` if
    /// skipping would save too little.
    #[inline]
    pub(crate) fn passed_over(&self, far: u64) -> Option<u64> {
        if far < WORTHWHILE.saturating_mul(self.period) {
            return None;
        }
        Some((far / self.period).saturating_sub(self.kept)).filter(|passed| *passed >= WORTHWHILE)
    }
}

/// The timer and the cycle in progress.
pub(super) struct Polling {
    ticks: Ticks,
    quota: u64,
    next_tick: u64,
    /// Number of packets that this cycle may still serve; 0 if no cycle runs.
    pub(super) left: u64,
    rearmed: bool,
}

/// Number of ticks before an arrival that are simulated instead of skipped. It is chosen so that overhead of a skipped
/// tick is left over at the arrival with a probability below 1e-17. The overheads form a queue: each tick adds one
/// overhead of mean `mean`, and the CPU works off `period` until the next tick. With x = period/mean and exponential
/// overheads, a busy period of this queue outlasts k ticks with a probability of at most (x exp(1 - x))^k (Chernoff
/// bound). Overheads with a larger variance get proportionally more ticks.
fn kept_ticks(period: f64, mean: f64, squared_cv: f64) -> u64 {
    if mean == 0.0 {
        return 1;
    }
    let x = period / mean;
    let rate = x - 1.0 - math::ln(x);
    // The cast saturates for large numbers: then no tick is skipped.
    (40.0 * squared_cv.max(1.0) / rate).ceil() as u64 + 2
}

/// Skipping fewer ticks than this would save little, and would change the random numbers of every run.
const WORTHWHILE: u64 = 1000;

impl Polling {
    pub(super) fn new<W>(period_s: f64, quota: u64, clock: Clock, machine: &Machine<W>) -> Self {
        let ticks = Ticks::new(period_s, clock, &machine.times);
        Self { ticks, quota, next_tick: ticks.first, left: 0, rearmed: false }
    }

    /// Restarts the timer at `now`, without a cycle.
    pub(super) fn restart(&mut self, now: u64) {
        (self.next_tick, self.left, self.rearmed) = (now + self.ticks.period, 0, false);
    }

    /// Starts a cycle, which ends at once if the ring is empty.
    fn start_cycle<W: Watch>(&mut self, machine: &mut Machine<W>) {
        machine.counts.polls += 1;
        self.left = if machine.ring_is_empty() { 0 } else { self.quota };
    }
}

impl<W: Watch> Policy<W> for Polling {
    #[inline]
    fn timer(&self) -> u64 {
        self.next_tick
    }

    #[inline]
    fn leave_out_idle(&mut self, machine: &mut Machine<W>) {
        // A packet in the ring waits for the next tick.
        if W::SEES || !machine.ring_is_empty() || self.next_tick < machine.now {
            return;
        }
        let far = machine.undisturbed_until().saturating_sub(self.next_tick);
        if let Some(passed) = self.ticks.passed_over(far) {
            machine.pass(Account::Available, self.next_tick);
            machine.leave_out_polls(passed, self.ticks.period as f64);
            self.next_tick = machine.now;
        }
    }

    #[inline]
    fn hears_arrivals(&self) -> bool {
        false
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if machine.arrival_due() {
            machine.take_arrival();
            return;
        }
        self.next_tick = machine.tick_after(self.next_tick, self.ticks.period);
        let in_cycle = self.left > 0;
        self.rearmed |= in_cycle;
        let overhead = machine.times.poll.next();
        machine.spend(Account::Poll, overhead);
        if !in_cycle {
            self.start_cycle(machine);
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.left > 0
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        preemptible(machine, self, Account::Protocol, work);
        machine.finish_packet();
        self.left -= 1;
        if machine.ring_is_empty() {
            self.left = 0;
        }
        if self.left == 0 && std::mem::take(&mut self.rearmed) {
            self.start_cycle(machine);
        }
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Point, Service};

    use super::*;
    use crate::machine::{PacketOutcome, Records};
    use crate::schemes;
    use crate::tally::Counts;

    /// A watch that needs every tick simulated.
    struct Every;

    impl Watch for Every {
        fn outcome(&mut self, _number: u32, _outcome: PacketOutcome, _at: u64) {}
    }

    fn run<W: Watch>(point: &Point, packets: u64, watch: W) -> Records {
        let clock = Clock::of(point, packets);
        let mut machine = Machine::new(point, clock, 3, 0, packets, watch);
        schemes::run(point, clock, &mut machine);
        machine.finish().0
    }

    fn counts(records: &Records) -> Counts {
        records.marks.last().copied().unwrap()
    }

    fn point(scheme: &str, pps: f64, service: Service) -> Point {
        let host = Host { service, application_s: Some(1e-6), ..Host::pentium4_2530mhz() };
        Point::poisson(host, scheme.parse().unwrap(), pps)
    }

    /// The gaps between packets are thousands of polls long. With constant times, skipping changes nothing except the
    /// sum of the rounding errors of a poll's time.
    #[test]
    fn polls_passed_over_count_as_if_played() {
        for scheme in ["polling:period=20us,quota=3", "napi:busy_poll=true", "hybrid:up=1pps,down=0.1pps"] {
            let point = point(scheme, 20.0, Service::Deterministic);
            let (short, long) = (counts(&run(&point, 500, ())), counts(&run(&point, 500, Every)));
            assert_eq!((short.at, short.polls, short.delivered), (long.at, long.polls, long.delivered), "{scheme}");
            assert_eq!(short.latency, long.latency, "{scheme}");
            for (one, other) in short.cpu.iter().zip(long.cpu) {
                assert!(one.abs_diff(other) <= long.polls, "{scheme}: {one} {other}");
            }
        }
    }

    /// With exponential times, skipping leaves the polls' share of the CPU within four standard errors of the share
    /// with every tick simulated.
    #[test]
    fn polls_passed_over_take_their_mean_time() {
        for (scheme, each) in [("polling:period=20us,quota=3", 1.0 / 20e-6), ("napi:busy_poll=true", 1.0 / 1.59e-6)] {
            let point = point(scheme, 50.0, Service::Exponential);
            let packets = 500;
            let found = counts(&run(&point, packets, ()));
            let seconds = Clock::of(&point, packets).seconds(found.at as f64);
            let polls = found.polls as f64;
            let error = 4.0 / (each * seconds).sqrt() + 1e-3;
            assert!((polls / (each * seconds) - 1.0).abs() < error, "{scheme}: {polls} in {seconds} s");
            let busy = Clock::of(&point, packets).seconds(found.cpu[Account::Poll as usize] as f64);
            assert!((busy / (polls * 1.59e-6) - 1.0).abs() < error, "{scheme}: {busy} s");
        }
    }

    #[test]
    fn the_last_ticks_are_played_the_more_the_fuller_the_cpu() {
        assert_eq!(kept_ticks(20.0, 0.0, 1.0), 1);
        let (idle, busy) = (kept_ticks(20.0, 1.59, 1.0), kept_ticks(20.0, 18.0, 1.0));
        assert!(idle < 10 && (1000..20_000).contains(&busy), "{idle} {busy}");
        assert!(kept_ticks(20.0, 1.59, 4.0) > 2 * idle);
    }
}
