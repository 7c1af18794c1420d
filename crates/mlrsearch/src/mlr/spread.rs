//! Centre and spread of the capacity of an unsteady device, from short trials.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use crate::trial::Trial;

/// Centre and spread of a device's capacity in a short trial, taken as normally distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Mean capacity (pps).
    pub(super) centre_pps: f64,
    /// Standard deviation divided by the mean.
    pub(super) deviation: f64,
    /// Number of trials that determine the fit.
    pub(super) samples: usize,
    /// Number of these trials that lost frames. Each of them measures a capacity; each other trial gives only a lower
    /// limit of it.
    pub(super) lost: usize,
}

/// Share of lost frames above which a trial does not measure the capacity: its load was too high, and forwarding may
/// fall with the load.
const NEAR: f64 = 0.25;
/// Number of deviations by which the forwarding rate of the first trial, at the highest load, must lie below the centre
/// to show that forwarding falls with the load.
const FALLS: f64 = 3.0;
/// Most steps of the fit; it converges within a few.
const STEPS: u32 = 60;

/// Fits the spread to the trials of length `short_s` (s); `None` if fewer than two of them lost a little (below
/// [`NEAR`]).
pub(super) fn of(trials: &[Trial], short_s: f64, loss_ratio: f64) -> Option<Spread> {
    let spread = fit(trials, short_s, loss_ratio, false)?;
    let falls = |first: &Trial| first.forwarding_pps() < spread.centre_pps * (1.0 - FALLS * spread.deviation);
    // If forwarding falls with the load, the capacity lies between the forwarding rate and the load.
    if trials.first().is_some_and(falls) { fit(trials, short_s, loss_ratio, true) } else { Some(spread) }
}

/// Fits a normal distribution of capacities: a trial that lost measures a capacity; a trial that passed gives a lower
/// limit, its load (Tobin 1958, <https://doi.org/10.2307/1907382>; solved by expectation and maximisation). `falls`:
/// forwarding falls with the load. `None` if fewer than two trials lost a little.
fn fit(trials: &[Trial], short_s: f64, loss_ratio: f64, falls: bool) -> Option<Spread> {
    let (mut lost, mut passed) = (Vec::new(), Vec::new());
    for trial in trials.iter().filter(|trial| trial.duration_s == short_s) {
        if trial.loss_ratio() <= loss_ratio {
            passed.push(trial.load_pps);
        } else if trial.loss_ratio() < NEAR {
            let carried = trial.forwarding_pps() / (1.0 - loss_ratio);
            lost.push(if falls { f64::midpoint(carried, trial.load_pps) } else { carried });
        }
    }
    if lost.len() < 2 {
        return None;
    }
    let count = lost.len() as f64;
    let mut centre = lost.iter().sum::<f64>() / count;
    let mut variance = lost.iter().map(|pps| (pps - centre).powi(2)).sum::<f64>() / count;
    let mut samples = lost.len();
    for _ in 0..STEPS {
        let deviation = variance.sqrt();
        if deviation < 1e-9 * centre {
            break;
        }
        let (next, next_variance, used) = step(&lost, &passed, centre, deviation);
        let moved = (next - centre).abs().max((next_variance.sqrt() - deviation).abs());
        (centre, variance, samples) = (next, next_variance, used);
        if moved < 1e-4 * deviation {
            break;
        }
    }
    Some(Spread { centre_pps: centre, deviation: variance.sqrt() / centre, samples, lost: lost.len() })
}

/// One step of the fit: returns centre (pps), variance and the number of trials that determine them. A capacity that is
/// only known to be above a load counts with its expected value.
fn step(lost: &[f64], passed: &[f64], centre: f64, deviation: f64) -> (f64, f64, usize) {
    let normal = Normal::standard();
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut count, mut used) = (lost.len() as f64, lost.len());
    for pps in lost {
        sum += (pps - centre) / deviation;
        squares += ((pps - centre) / deviation).powi(2);
    }
    for load in passed {
        let below = (load - centre) / deviation;
        // Far below the centre a trial that passes gives no information.
        if below < -4.0 {
            continue;
        }
        let excess = normal.pdf(below) / normal.cdf(-below).max(1e-300);
        sum += excess;
        squares += 1.0 + below * excess;
        count += 1.0;
        used += usize::from(below > -1.0);
    }
    let mean = sum / count;
    let variance = (squares / count - mean * mean).max(0.0);
    (centre + mean * deviation, variance * deviation * deviation, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Bench, Device};
    use crate::trial::Answer;

    /// 400 trials at a load that a third of them uphold. Standard errors, in deviations: centre 0.05, deviation 0.04 to
    /// 0.06.
    #[test]
    fn centre_and_spread_of_a_known_device_are_found() {
        let (capacity_pps, spread) = (400e3, 0.03);
        let steady = Device::Unsteady { capacity_pps, spread };
        let falling = Device::UnsteadyLivelock { capacity_pps, spread };
        for device in [steady, falling] {
            let mut bench = Bench::new(device, 7);
            let loads = std::iter::once(1.4e6).chain(std::iter::repeat_n(capacity_pps * (1.0 + 0.43 * spread), 400));
            let trials: Vec<Trial> = loads
                .map(|load| match bench.trial(1.0, load) {
                    Answer::Valid(trial) => trial,
                    Answer::Void { .. } => unreachable!("the sender reaches every load"),
                })
                .collect();
            let found = of(&trials, 1.0, 0.0).expect("two thirds lose");
            assert!((found.centre_pps / capacity_pps - 1.0).abs() < 0.15 * spread, "{device:?}: {found:?}");
            assert!((found.deviation / spread - 1.0).abs() < 0.15, "{device:?}: {found:?}");
        }
    }

    #[test]
    fn a_device_without_noise_has_no_spread() {
        let trial =
            |load_pps: f64| Trial { load_pps, duration_s: 1.0, sent: load_pps as u64, lost: load_pps as u64 - 100_000 };
        let found = of(&[trial(101e3), trial(103e3), trial(120e3)], 1.0, 0.0).expect("all lose");
        assert!((found.centre_pps / 1e5 - 1.0).abs() < 1e-9 && found.deviation < 1e-9, "{found:?}");
        assert_eq!(of(&[trial(101e3)], 1.0, 0.0), None);
    }
}
