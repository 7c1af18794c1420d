//! [`SimEngine::replicas`]: single replications, for procedures that decide themselves how many they need.

use std::ops::Range;

use netcliff_core::{EngineFailure, Outcome, Point};

use crate::batch::Batch;
use crate::clock::Clock;
use crate::engine::SimEngine;
use crate::length::warm_up;
use crate::replicate::{WarmUp, cut, each, run};
use crate::summary;
use crate::tally::{CELLS, SEGMENTS};

/// Relative resolution of the highest load of a simulated trial.
const TRIAL_WIDTH: f64 = 0.01;
/// Lowest load that is searched, as a share of the highest.
pub const TRIAL_LOWEST: f64 = 0.01;

/// The second half of one replication of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Replica {
    /// The outcome of this replication. It is one sample: only its values have a meaning, not the ends of its
    /// intervals.
    pub outcome: Outcome,
    /// Whether the replication is long enough: a steady state within its first half, and packets that stay inside for
    /// only a small part of its second half.
    pub settled: bool,
}

/// A simulated trial whose highest load is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedTrial {
    /// Number of the trial; see [`SimEngine::trial_loss`].
    pub number: u64,
    /// Length (s).
    pub length_s: f64,
    /// Largest share of packets that the trial may lose.
    pub loss: f64,
}

impl SimEngine {
    /// Simulates the replications with these numbers, of `packets` arrivals each (at least 100). Points of the same
    /// load and seed get the same packets in replications of the same number and length. Effort and confidence of the
    /// engine are not used. Errors: the point is invalid, not supported, or has several queues.
    pub fn replicas(&self, point: &Point, numbers: Range<u64>, packets: u64) -> Result<Vec<Replica>, EngineFailure> {
        let (packets, clock) = self.of_one_queue(point, packets)?;
        Ok(each(numbers, |number| {
            let records = run(point, clock, self.seed, number, packets);
            let found = warm_up(point, clock, std::iter::once(&records.marks[..]));
            // Always cut the first half. If a single run determined its own warm-up, it would lose the congestion with
            // which it happens to begin.
            let (replication, pool) = cut(&records, WarmUp { tenths: SEGMENTS - 1, ..found });
            let batch = Batch { replications: vec![replication], pool, ..Batch::new(packets) };
            let settled = found.settled && !batch.outstayed();
            Replica { outcome: summary::outcome(point, &batch, clock, self.confidence), settled }
        }))
    }

    /// Share of packets lost in trial `number`, which sends `packets` arrivals (at least 100) to an empty host. No
    /// warm-up is cut off, and packets still in the host at the end are not lost. Trials with equal number and seed
    /// have pauses of equal lengths at every load. Effort and confidence of the engine are not used. Errors: see
    /// [`SimEngine::replicas`].
    pub fn trial_loss(&self, point: &Point, number: u64, packets: u64) -> Result<f64, EngineFailure> {
        let (packets, clock) = self.of_one_queue(point, packets)?;
        let counts = run(point, clock, self.seed, number, packets).marks[CELLS];
        Ok(counts.lost() as f64 / counts.offered as f64)
    }

    /// Returns the highest load (pps), up to `most_pps`, at which a trial loses at most its accepted share. The
    /// resolution is 1 %; a load within 1 % of `most_pps` counts as `most_pps`. `point_at` returns the point at a load.
    /// `None` once `stop` returns true. Errors: `point_at` or [`SimEngine::trial_loss`] fails.
    pub fn highest_of_trial(
        &self,
        trial: &SimulatedTrial,
        most_pps: f64,
        point_at: &dyn Fn(f64) -> Result<Point, EngineFailure>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<f64>, EngineFailure> {
        let passes = |load_pps: f64| {
            let packets = (load_pps * trial.length_s).ceil() as u64;
            Ok::<_, EngineFailure>(self.trial_loss(&point_at(load_pps)?, trial.number, packets)? <= trial.loss)
        };
        if passes((1.0 - TRIAL_WIDTH) * most_pps)? {
            return Ok(Some(most_pps));
        }
        let (mut low, mut high) = (TRIAL_LOWEST * most_pps, most_pps);
        while high / low > 1.0 + TRIAL_WIDTH {
            if stop() {
                return Ok(None);
            }
            let middle = (low * high).sqrt();
            if passes(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }

    /// Checks a point with one queue. Returns the number of arrivals of a single replication for a request of
    /// `packets`, and its clock.
    pub(crate) fn of_one_queue(&self, point: &Point, packets: u64) -> Result<(u64, Clock), EngineFailure> {
        point.validate()?;
        self.one_queue(point)?;
        let packets = packets.clamp(100, u64::from(u32::MAX));
        Ok((packets, Clock::of(point, packets)))
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::Host;

    use super::*;
    use crate::engine::Effort;

    fn point(scheme: &str) -> Point {
        Point::poisson(Host::preset("pentium4-2530mhz").unwrap(), scheme.parse().unwrap(), 100e3)
    }

    /// A replication does not depend on the range of the request, and ten replications agree with a run of the same
    /// total number of packets.
    #[test]
    fn replicas_are_replications_of_a_run() {
        let engine = SimEngine { seed: 7, confidence: 0.999, effort: Effort::Packets(200_000), ..SimEngine::default() };
        let point = point("disable-enable");
        let whole = engine.simulate(&point).unwrap().outcome;
        let mut replicas = engine.replicas(&point, 0..4, 20_000).unwrap();
        replicas.extend(engine.replicas(&point, 4..10, 20_000).unwrap());
        assert_eq!(engine.replicas(&point, 0..10, 20_000).unwrap(), replicas);
        let available = |outcome: &Outcome| outcome.cpu.unwrap().available.unwrap();
        let mean = replicas.iter().map(|replica| available(&replica.outcome).value).sum::<f64>() / 10.0;
        assert!(available(&whole).covers(mean), "{mean} and {:?}", available(&whole));
    }

    #[test]
    fn two_schemes_meet_the_same_packets() {
        let engine = SimEngine { seed: 3, ..SimEngine::default() };
        let offered = |scheme: &str| {
            let replicas = engine.replicas(&point(scheme), 2..3, 20_000).unwrap();
            replicas[0].outcome.offered_pps.unwrap().value
        };
        assert!((offered("ideal") / offered("disable-enable") - 1.0).abs() < 1e-3);
        let bad = point("polling:period=1us,quota=3");
        assert!(engine.replicas(&bad, 0..1, 1_000).is_err());
    }
}

#[cfg(test)]
mod trials {
    use netcliff_core::Host;

    use super::*;

    fn point(load_pps: f64, pauses: &[&str]) -> Point {
        let mut host = Host { ring: 100, ..Host::preset("pentium4-2530mhz").unwrap() };
        pauses.iter().for_each(|setting| host.set(setting).unwrap());
        Point::poisson(host, "ideal".parse().unwrap(), load_pps)
    }

    /// During a pause of 10 ms, 500 packets arrive at 50 kpps. The ring takes 100 of them, so that every trial with a
    /// pause loses the rest.
    #[test]
    fn trials_with_a_pause_lose_what_does_not_fit() {
        let engine = SimEngine { seed: 5, ..SimEngine::default() };
        let paused = point(50e3, &["pause=10ms", "pause_every=200ms", "pause_times=constant"]);
        let trial = |point: &Point, number| engine.trial_loss(point, number, 5_000).unwrap();
        let losses: Vec<f64> = (0..40).map(|number| trial(&paused, number)).collect();
        let (lost, whole): (Vec<f64>, Vec<f64>) = losses.iter().partition(|share| **share > 0.0);
        // The probability of no pause in 0.1 s is e^-0.5 = 0.61; a pause may begin at the end of a trial.
        assert!((16..=32).contains(&whole.len()), "{}", whole.len());
        assert!(lost.iter().filter(|share| (0.07..0.09).contains(*share)).count() >= lost.len() / 2, "{lost:?}");
        assert_eq!(trial(&paused, 7), losses[7]);
        assert_eq!([0, 1, 2].map(|number| trial(&point(50e3, &[]), number)), [0.0; 3]);
    }
}
