//! [`SimEngine::simulate_in_detail`]: runs the same replications a second time with an observer. The observer does not
//! change them, and a run without it pays nothing.

mod busy;
mod series;

use netcliff_core::{Detail, EngineFailure, Invalid, LatencyHistogram, Point, QueueShare};

use crate::clock::Clock;
use crate::engine::{SimEngine, Simulation};
use crate::executor::{Executor, LocalExecutor};
use crate::machine::{Machine, PacketOutcome, Watch};
use crate::replicate::{Replication, cut, each};
use crate::schemes;
use crate::stats::ratio;
use crate::tally::{Account, CELLS, SEGMENTS};
use busy::{Busy, Lengths};
use level::Level;
use series::Series;

/// The details to observe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Wanted {
    /// Distributions of queue lengths and busy periods.
    pub distributions: bool,
    /// A histogram of the latencies of delivered packets.
    pub histogram: bool,
    /// Width of the slices of a time series (s). `None`: no series.
    pub slice_s: Option<f64>,
}

/// Maximum number of slices: a larger table or file is of no use.
const MOST_SLICES: f64 = 100_000.0;

/// Observes one replication. Its segments are recorded separately, because the warm-up is known only at the end.
struct Observer {
    marks: usize,
    segment: usize,
    /// Whether processed packets go on to a socket.
    application: bool,
    ring: Level,
    socket: Level,
    busy: Busy,
    series: Option<Series>,
}

impl Observer {
    fn new(point: &Point, clock: Clock, slice_s: Option<f64>) -> Self {
        Self {
            marks: 0,
            segment: 0,
            application: point.host.application_s.is_some(),
            ring: Level::default(),
            socket: Level::default(),
            busy: Busy::new(),
            series: slice_s.map(|slice_s| Series::new(clock.whole(slice_s).max(1))),
        }
    }

    /// Changes the number of packets in the ring.
    fn ring(&mut self, at: u64, change: i64) {
        self.ring.change(at, self.segment, change);
        if let Some(series) = &mut self.series {
            series.ring(at, self.ring.present());
        }
    }

    fn count(&mut self, at: u64, field: fn(&mut netcliff_core::Slice) -> &mut u64) {
        if let Some(series) = &mut self.series {
            *field(series.slice(at)) += 1;
        }
    }
}

impl Watch for Observer {
    fn accepted(&mut self, at: u64) {
        self.ring(at, 1);
        self.count(at, |slice| &mut slice.arrived);
    }

    fn outcome(&mut self, _number: u32, outcome: PacketOutcome, at: u64) {
        match outcome {
            PacketOutcome::Processed => {
                self.ring(at, -1);
                if self.application {
                    self.socket.change(at, self.segment, 1);
                } else {
                    self.count(at, |slice| &mut slice.delivered);
                }
            }
            PacketOutcome::Taken => {
                self.socket.change(at, self.segment, -1);
                self.count(at, |slice| &mut slice.delivered);
            }
            PacketOutcome::DroppedRing => {
                self.count(at, |slice| &mut slice.arrived);
                self.count(at, |slice| &mut slice.dropped_ring);
            }
            // The packet never reached the host.
            PacketOutcome::DroppedSender => {}
            PacketOutcome::DroppedSocket => {
                self.ring(at, -1);
                self.count(at, |slice| &mut slice.dropped_socket);
            }
        }
    }

    fn mark(&mut self, at: u64) {
        self.marks += 1;
        self.ring.change(at, self.segment, 0);
        self.socket.change(at, self.segment, 0);
        if self.marks > CELLS {
            // Events after the last mark are not part of the run.
            self.segment = SEGMENTS;
            if let Some(series) = &mut self.series {
                series.end(at);
            }
            return;
        }
        self.segment = ((self.marks - 1) / (CELLS / 10)).min(SEGMENTS - 1);
    }

    fn spent(&mut self, account: Account, from: u64, to: u64) {
        if from == to {
            return;
        }
        self.busy.spent(account, from, to, self.segment);
        if let Some(series) = &mut self.series {
            series.spent(account, from, to);
        }
    }
}

/// The observations of one replication after its warm-up.
struct ObservedReplication {
    replication: Replication,
    ring: Vec<u64>,
    socket: Vec<u64>,
    busy: Lengths,
    series: Option<Series>,
}

impl SimEngine {
    /// Simulates a point with more details. Errors: see [`SimEngine::simulate`], or the slices are so short that there
    /// would be more than 100 000.
    pub fn simulate_in_detail(&self, point: &Point, wanted: Wanted) -> Result<(Simulation, Detail), EngineFailure> {
        self.simulate_in_detail_at(point, wanted, &LocalExecutor)
    }

    /// Like [`SimEngine::simulate_in_detail`], with the replications of the outcome computed by `executor`; the
    /// replications of the details are computed on this machine.
    pub fn simulate_in_detail_at(
        &self,
        point: &Point,
        wanted: Wanted,
        executor: &dyn Executor,
    ) -> Result<(Simulation, Detail), EngineFailure> {
        if !wanted.distributions && wanted.slice_s.is_none() {
            let simulation = self.simulate_at(point, executor)?;
            let detail = Detail { latency_histogram_ns: histogram(&simulation, wanted), ..Detail::default() };
            return Ok((simulation, detail));
        }
        self.one_queue(point)?;
        point.validate()?;
        let (batch, clock) = self.sample(point, executor).ok_or(EngineFailure::Interrupted)?;
        let simulation = self.simulation(point, &batch, clock);
        let (packets, warm_up) = (batch.packets_each, batch.replications[0].warm_up);
        check(point, packets, wanted)?;
        let replications = if wanted.distributions { simulation.replications } else { 1 };
        let seen = each(0..replications, |number| {
            let slice_s = wanted.slice_s.filter(|_| number == 0);
            let observer = Observer::new(point, clock, slice_s);
            let mut machine = Machine::new(point, clock, self.seed, number, packets, observer);
            schemes::run(point, clock, &mut machine);
            let (records, observer) = machine.finish();
            let (replication, _) = cut(&records, warm_up);
            let warm = warm_up.tenths;
            ObservedReplication {
                ring: observer.ring.times(warm),
                socket: observer.socket.times(warm),
                busy: observer.busy.lengths(warm),
                series: observer.series,
                replication,
            }
        });
        let latency_histogram_ns = histogram(&simulation, wanted);
        Ok((simulation, Detail { latency_histogram_ns, ..self.detail(point, clock, wanted, seen) }))
    }

    fn detail(&self, point: &Point, clock: Clock, wanted: Wanted, mut seen: Vec<ObservedReplication>) -> Detail {
        let series = seen[0].series.take().map_or_else(Vec::new, |series| series.slices(clock));
        if !wanted.distributions {
            return Detail { series, ..Detail::default() };
        }
        let application = point.host.application_s.is_some();
        Detail {
            latency_histogram_ns: LatencyHistogram::default(),
            ring: shares(&seen, self.confidence, |seen| &seen.ring),
            socket: if application { shares(&seen, self.confidence, |seen| &seen.socket) } else { Vec::new() },
            busy_periods: busy::periods(&seen, clock, self.confidence),
            series,
        }
    }
}

fn histogram(simulation: &Simulation, wanted: Wanted) -> LatencyHistogram {
    let cells = simulation.latency_ns.iter_recorded().filter(|_| wanted.histogram);
    LatencyHistogram(cells.map(|cell| (cell.value_iterated_to(), cell.count_at_value())).collect())
}

fn check(point: &Point, packets: u64, wanted: Wanted) -> Result<(), EngineFailure> {
    let Some(slice_s) = wanted.slice_s else { return Ok(()) };
    let length_s = packets as f64 / point.rate_pps().unwrap_or(1.0);
    if !(slice_s > 0.0 && length_s / slice_s <= MOST_SLICES) {
        let accepted = format!(
            "must be at least a {MOST_SLICES}th of the first replication, which takes {length_s:.3} s: {:.3e} s or more",
            length_s / MOST_SLICES
        );
        return Err(Invalid::new("series slice", format!("{slice_s} s"), accepted).into());
    }
    Ok(())
}

/// Share of time at each queue length that occurred.
fn shares(
    seen: &[ObservedReplication],
    confidence: f64,
    times: impl Fn(&ObservedReplication) -> &Vec<u64>,
) -> Vec<QueueShare> {
    let longest = seen.iter().map(|one| times(one).len()).max().unwrap_or(0);
    (0..longest)
        .filter_map(|packets| {
            let at = |one: &ObservedReplication| times(one).get(packets).copied().unwrap_or(0) as f64;
            let pairs: Vec<(f64, f64)> =
                seen.iter().map(|one| (at(one), times(one).iter().sum::<u64>() as f64)).collect();
            let share = ratio(&pairs, confidence).filter(|share| share.value > 0.0)?;
            Some(QueueShare { packets: packets as u64, share })
        })
        .collect()
}

#[cfg(test)]
mod tests;

mod level {
    //! [`Level`]: time spent at each number of packets, by part of the run.

    use crate::tally::SEGMENTS;

    /// A number of packets that changes over time.
    #[derive(Debug, Default)]
    pub(super) struct Level {
        present: usize,
        since: u64,
        /// Ticks by part of the run, then by number of packets. The last part is after the end.
        times: [Vec<u64>; SEGMENTS + 1],
    }

    impl Level {
        /// Number of packets present.
        pub(super) fn present(&self) -> u64 {
            self.present as u64
        }

        /// Changes the number at `at` [ticks]. The time before belongs to `segment`.
        pub(super) fn change(&mut self, at: u64, segment: usize, change: i64) {
            let times = &mut self.times[segment];
            if times.len() <= self.present {
                times.resize(self.present + 1, 0);
            }
            times[self.present] += at - self.since;
            self.since = at;
            self.present = self.present.saturating_add_signed(change as isize);
        }

        /// Ticks by number of packets, without the first `warm` tenths and the time after the end.
        pub(super) fn times(&self, warm: usize) -> Vec<u64> {
            let mut sum: Vec<u64> = Vec::new();
            for times in &self.times[warm..SEGMENTS] {
                if sum.len() < times.len() {
                    sum.resize(times.len(), 0);
                }
                sum.iter_mut().zip(times).for_each(|(sum, ticks)| *sum += ticks);
            }
            sum
        }
    }
}
