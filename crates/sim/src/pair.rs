//! [`SimEngine::compare`]: two schemes on the same packets, and their differences with paired-t intervals.
//!
//! Gaps, sizes and protocol times have separate random streams, so that a replication offers both schemes the same
//! packets, and differences are due to the schemes. Both replications are cut at the longer of the two warm-ups. Counts
//! are recorded at the same arrivals under both schemes, hence at the same times.

use netcliff_core::{Difference, EngineFailure, Figure, Point};

use crate::clock::Clock;
use crate::engine::{Effort, SimEngine};
use crate::length::{lacking, warm_up};
use crate::machine::Records;
use crate::replicate::{ABREAST, each, run};
use crate::sample::longer;
use crate::stats::t_value;
use crate::tally::{Account, CELLS, Counts, Pool, SEGMENTS};

/// A compared figure: its name in the outcome, and the function that computes it from the counts of a replication
/// (latencies [ticks]).
type Compared = (&'static str, fn(&Part, f64) -> Option<f64>);

const COMPARED: [Compared; 9] = [
    ("throughput_pps", |part, tick_s| part.over_time(part.counts.delivered, tick_s)),
    ("loss_fraction", |part, _| {
        let fated = part.counts.fated();
        (fated > 0).then(|| part.counts.lost() as f64 / fated as f64)
    }),
    ("latency_s.mean", |part, tick_s| {
        (part.counts.delivered > 0).then(|| part.counts.latency as f64 / part.counts.delivered as f64 * tick_s)
    }),
    ("latency_s.p50", |part, tick_s| part.quantiles.map(|values| values[0] * tick_s)),
    ("latency_s.p99", |part, tick_s| part.quantiles.map(|values| values[1] * tick_s)),
    ("cpu.interrupt", |part, _| part.share(Account::Interrupt)),
    ("cpu.application", |part, _| part.share(Account::Application)),
    ("cpu.available", |part, _| part.share(Account::Available)),
    ("interrupts_per_s", |part, tick_s| part.over_time(part.counts.interrupts, tick_s)),
];

/// One replication of one scheme after the common warm-up.
struct Part {
    counts: Counts,
    quantiles: Option<[f64; 2]>,
}

impl Part {
    fn of(records: &Records, warm_tenths: usize) -> Self {
        let mut pool = Pool::default();
        records.segments[warm_tenths..SEGMENTS].iter().for_each(|segment| pool.add(segment));
        let counts = records.marks[CELLS].since(&records.marks[warm_tenths * CELLS / 10]);
        Self { counts, quantiles: pool.quantiles([0.5, 0.99]) }
    }

    /// `count` per unit of time, with a unit of `unit` ticks. `None` if no time passed, because all arrivals after the
    /// warm-up are at one instant.
    fn over_time(&self, count: u64, unit: f64) -> Option<f64> {
        (self.counts.at > 0).then(|| count as f64 / (self.counts.at as f64 * unit))
    }

    fn share(&self, account: Account) -> Option<f64> {
        self.over_time(self.counts.cpu[account as usize], 1.0)
    }
}

impl SimEngine {
    /// Compares two points on the same packets. The points may differ in the scheme and in costs that do not belong to
    /// a packet. A figure that one point lacks is omitted. The effort should be a number of packets for each point
    /// (more are simulated if the replications are too short for one point); with another effort, its largest number of
    /// packets is used. `done` is called with the number of packets simulated since its last call, from any thread.
    /// Errors: a point is invalid or not supported.
    pub fn compare(
        &self,
        first: &Point,
        second: &Point,
        done: impl Fn(u64) + Sync,
    ) -> Result<Vec<Difference>, EngineFailure> {
        for point in [first, second] {
            point.validate()?;
            self.one_queue(point)?;
        }
        let (Effort::Packets(packets) | Effort::Exactly(packets) | Effort::Precision { packets_at_most: packets, .. }) =
            self.effort;
        let longest = match self.effort {
            Effort::Packets(packets) => self.longest(first, packets),
            Effort::Exactly(_) | Effort::Precision { .. } => 0,
        };
        let pair = |clock, number, packets| {
            [first, second].map(|point| {
                let records = run(point, clock, self.seed, number, packets);
                done(packets);
                records
            })
        };
        let mut packets = self.packets_each(packets);
        let (early, warm) = loop {
            let clock = Clock::of(first, packets);
            let early = each(0..self.replications().min(ABREAST), |number| pair(clock, number, packets));
            let marks = |scheme: usize| early.iter().map(move |records| &records[scheme].marks[..]);
            let found = [0, 1].map(|scheme| warm_up([first, second][scheme], clock, marks(scheme)));
            let warm = found[0].tenths.max(found[1].tenths);
            let need = [0, 1].map(|scheme| lacking(found[scheme], warm, marks(scheme)));
            let longer = longer(packets, 1.1 * need[0].max(need[1])).min(longest);
            if need == [1.0, 1.0] || longer <= packets {
                break (early, warm);
            }
            packets = longer;
        };
        let clock = Clock::of(first, packets);
        let part = |records: [Records; 2]| records.map(|records| Part::of(&records, warm));
        let late = each(early.len() as u64..self.replications(), |number| part(pair(clock, number, packets)));
        let pairs: Vec<[Part; 2]> = early.into_iter().map(part).chain(late).collect();
        let tick_s = clock.seconds(1.0);
        Ok(COMPARED.iter().filter_map(|compared| difference(compared, &pairs, tick_s, self.confidence)).collect())
    }
}

/// Computes the difference of a figure. `None` if a replication lacks the figure, or if it is 0 for both schemes in all
/// replications.
fn difference((figure, get): &Compared, pairs: &[[Part; 2]], tick_s: f64, confidence: f64) -> Option<Difference> {
    let values: Option<Vec<[f64; 2]>> =
        pairs.iter().map(|[first, second]| Some([get(first, tick_s)?, get(second, tick_s)?])).collect();
    let values = values.filter(|values| values.iter().flatten().any(|value| *value != 0.0))?;
    let spread = |of: &dyn Fn(&[f64; 2]) -> f64| -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().map(of).sum::<f64>() / count;
        (mean, values.iter().map(|pair| (of(pair) - mean).powi(2)).sum::<f64>() / (count - 1.0))
    };
    let half = |variance: f64| t_value(confidence, values.len()) * (variance / values.len() as f64).sqrt();
    let sampled = |(mean, variance): (f64, f64)| Figure::sampled(mean, half(variance), confidence);
    let (first, second) = (spread(&|pair| pair[0]), spread(&|pair| pair[1]));
    let apart = spread(&|pair| pair[1] - pair[0]);
    Some(Difference {
        figure: (*figure).to_owned(),
        first: sampled(first),
        second: sampled(second),
        difference: sampled(apart),
        variance_reduction: (apart.1 > 0.0).then(|| (first.1 + second.1) / apart.1),
    })
}

#[cfg(test)]
mod tests {
    use netcliff_core::Host;

    use super::*;

    fn point(scheme: &str) -> Point {
        Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), 100e3)
    }

    fn engine() -> SimEngine {
        SimEngine { confidence: 0.999, replications: 20, ..SimEngine::with_packets(5, 400_000) }
    }

    fn named<'a>(differences: &'a [Difference], figure: &str) -> &'a Difference {
        differences.iter().find(|one| one.figure == figure).unwrap()
    }

    /// docs/theory/chains.md: the mean latencies of the two chains of disable-enable differ by 17.28 - 15.69 us with m
    /// + s = 4.23 us, the preset's value.
    #[test]
    fn the_difference_of_two_chains_is_in_the_interval() {
        let differences = engine()
            .compare(&point("disable-enable:merged=false"), &point("disable-enable:merged=true"), |_| ())
            .unwrap();
        let latency = named(&differences, "latency_s.mean");
        assert!(latency.difference.covers(1.59e-6) && latency.is_significant(), "{latency:?}");
    }

    /// Common packets give the difference a smaller variance than independent packets, which is why they are used.
    #[test]
    fn common_packets_reduce_the_variance() {
        let differences = engine().compare(&point("ideal"), &point("disable-enable:merged=false"), |_| ()).unwrap();
        for figure in ["latency_s.mean", "cpu.available"] {
            let found = named(&differences, figure);
            assert!(found.variance_reduction.unwrap() > 2.0 && found.is_significant(), "{found:?}");
        }
        assert!(differences.iter().all(|one| one.figure != "cpu.application"), "no application, no figure");
    }

    /// A scheme does not differ from itself: the interval is exactly 0.
    #[test]
    fn a_scheme_does_not_differ_from_itself() {
        for one in engine().compare(&point("napi"), &point("napi"), |_| ()).unwrap() {
            assert_eq!((one.difference.value, one.variance_reduction), (0.0, None), "{one:?}");
        }
    }
}
