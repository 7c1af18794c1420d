//! [`SimEngine::trial_loss`]: short runs from an empty host, like trials of a measurement.

use netcliff_core::{EngineFailure, Point};

use crate::engine::SimEngine;
use crate::machine::CELLS;
use crate::replicate::run;

impl SimEngine {
    /// Share of packets lost in trial `number` of `packets` arrivals (at least 100) into an empty host. No warm-up is
    /// cut off, and packets still inside at the end are not lost. Trials with equal number and seed have pauses of
    /// equal lengths at every load. Effort and confidence of the engine are not used. Errors: see
    /// [`SimEngine::replicas`].
    pub fn trial_loss(&self, point: &Point, number: u64, packets: u64) -> Result<f64, EngineFailure> {
        let (packets, clock) = self.of_one_queue(point, packets)?;
        let counts = run(point, clock, self.seed, number, packets).marks[CELLS];
        Ok(counts.lost() as f64 / counts.offered as f64)
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Traffic};

    use super::*;

    fn point(load_pps: f64, pauses: &[&str]) -> Point {
        let mut host = Host { ring: 100, ..Host::preset("pentium4-2530mhz").unwrap() };
        pauses.iter().for_each(|setting| host.set(setting).unwrap());
        Point { host, scheme: "ideal".parse().unwrap(), traffic: Traffic::poisson(load_pps) }
    }

    /// A pause of 10 ms at 50 kpps is 500 packets. The ring holds 100 of them, so every trial with a pause loses the
    /// rest.
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
