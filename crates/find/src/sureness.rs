//! Uncertainty of the predicted cliff: the uncertainty of the calibrated costs, propagated through the model.

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{ByEngine, CliffSensitivity};
use netcliff_core::finding::{FigurePath, WholeFigure};
use netcliff_core::{EngineFailure, Figure, Host};
use netcliff_model::sensitivity::{Cost, cliff_slopes, costs};

use super::engines::Predictor;
use super::stages::Run;
use super::{Halt, missing};
use crate::calibrate::{Calibrated, Resampled};
use netcliff_stats::CONFIDENCE;

/// Uncertainty of a predicted cliff, from the bootstrap replicates of the calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Sureness {
    /// Sensitivity of the cliff to each cost, largest effect first.
    pub sensitivity: Vec<CliffSensitivity>,
    /// Ends of the cliff's interval relative to the cliff, at [`CONFIDENCE`].
    ends: (f64, f64),
    /// Additional cost of a packet while the socket is full (s).
    cold_s: f64,
}

/// Result of assessing the uncertainty of a cliff.
#[derive(Debug)]
pub enum Assessed {
    /// The uncertainty is known.
    Sure(Sureness),
    /// There is no predicted cliff.
    NoCliff,
    /// Calibration has no bootstrap replicates.
    NoDraws,
    /// The model does not support the point at the cliff.
    Failed(EngineFailure),
    /// The user stopped the assessment.
    Stopped,
}

impl Sureness {
    /// Computes the uncertainty of the cliff `cliff_pps` (pps) of the host `calibrated`, which has the bootstrap
    /// replicates `resampled`. The logarithm of the cliff is assumed to change in proportion to small changes of each
    /// cost.
    pub fn of(
        computed: &Predictor,
        cliff_pps: f64,
        calibrated: &Host,
        resampled: &[Resampled],
    ) -> Result<Self, EngineFailure> {
        let hosts = Hosts { calibrated, resampled };
        let keys: Vec<&str> = costs().filter(|cost| hosts.have(cost)).map(|cost| cost.key()).collect();
        let slopes = cliff_slopes(&computed.point(cliff_pps), &keys, |points| computed.losses(points))?;
        let parts: Vec<Part> = slopes.iter().filter_map(|slope| Part::of(*slope, &hosts)).collect();
        let mut ratios: Vec<f64> =
            (0..resampled.len()).map(|n| parts.iter().map(|part| part.changes[n]).sum::<f64>().exp()).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| netcliff_stats::at_share(&ratios, share).unwrap_or(1.0);
        let outside = (1.0 - CONFIDENCE) / 2.0;
        let mut sensitivity: Vec<CliffSensitivity> = parts.iter().map(Part::sensitivity).collect();
        sensitivity.sort_by(|a, b| b.elasticity.abs().total_cmp(&a.elasticity.abs()));
        // The interval always includes the predicted cliff, even if all replicates lie on one side of it.
        let ends = (at(outside).min(1.0), at(1.0 - outside).max(1.0));
        Ok(Self { sensitivity, ends, cold_s: computed.host.cold_protocol_s + computed.host.cold_application_s })
    }

    /// Uncertainty of the model's cliff, from the replicates of the calibration, unless `stop` is set.
    pub fn unless(
        stop: &AtomicBool,
        computed: &Predictor,
        cliff_pps: &ByEngine<Figure>,
        calibrated: &Calibrated,
    ) -> Assessed {
        let Some(cliff) = cliff_pps.model else { return Assessed::NoCliff };
        if calibrated.resampled.is_empty() {
            return Assessed::NoDraws;
        }
        let (host, resampled) = (calibrated.calibration.host.clone(), calibrated.resampled.clone());
        match computed.unless_stopped(stop, move |computed, _| Self::of(computed, cliff.value, &host, &resampled)) {
            Some(Ok(sure)) => Assessed::Sure(sure),
            Some(Err(error)) => Assessed::Failed(error),
            None => Assessed::Stopped,
        }
    }

    /// Widens the predicted cliffs of both engines by this uncertainty.
    pub fn widen(&self, cliff_pps: &mut ByEngine<Figure>) {
        cliff_pps.model = cliff_pps.model.map(|cliff| self.around(cliff));
        cliff_pps.sim = cliff_pps.sim.map(|cliff| self.around(cliff));
    }

    /// Returns the cliff with an interval that combines this uncertainty with the cliff's own interval, if it has one:
    /// independent errors add as squares. The lower end starts from the load at which a socket that was filled becomes
    /// empty again: between this load and the cliff a disturbance decides whether packets are lost
    /// (docs/theory/pauses.md, Two cliffs of one host), and the engines' own cliffs include no disturbances.
    pub fn around(&self, cliff: Figure) -> Figure {
        let (low, high) = cliff.interval.map_or((1.0, 1.0), |own| (own.low / cliff.value, own.high / cliff.value));
        let below = (1.0 - self.ends.0).hypot(1.0 - low);
        let above = (self.ends.1 - 1.0).hypot(high - 1.0);
        let empties_pps = cliff.value / (1.0 + cliff.value * self.cold_s);
        let low = empties_pps * (1.0 - below).max(0.0);
        Figure::between(cliff.value, low, cliff.value * (1.0 + above), CONFIDENCE)
    }
}

impl Run<'_, '_> {
    /// Adds to the predicted cliffs the interval that follows from the calibrated costs.
    pub(super) fn sure(&mut self, computed: &Predictor, calibrated: &Calibrated) -> Result<(), Halt> {
        let cliffs = &mut self.finding.cliff_pps;
        match Sureness::unless(self.stop, computed, cliffs, calibrated) {
            Assessed::Sure(sure) => {
                sure.widen(cliffs);
                self.finding.sensitivity = sure.sensitivity;
            }
            Assessed::Stopped => return Err(Halt::Stopped),
            Assessed::Failed(error) => {
                missing(self.finding, FigurePath::Whole(WholeFigure::Sensitivity), error.to_string())
            }
            Assessed::NoCliff => {}
            Assessed::NoDraws => {
                let why = "draws of the calibration's trials did not determine the costs: lengthen the run";
                missing(self.finding, FigurePath::Whole(WholeFigure::Sensitivity), why);
            }
        }
        Ok(())
    }
}

/// The calibrated host, and its replicates.
struct Hosts<'a> {
    calibrated: &'a Host,
    resampled: &'a [Resampled],
}

impl Hosts<'_> {
    /// True if a cost may change the cliff: it is above zero, or differs between the hosts.
    fn have(&self, cost: &Cost) -> bool {
        let own = cost.of(self.calibrated);
        own.is_some_and(|own| own > 0.0 || self.resampled.iter().any(|drawn| cost.of(&drawn.host) != Some(own)))
    }
}

/// Contribution of one cost.
struct Part {
    key: &'static str,
    elasticity: f64,
    /// Change of ln(cliff) by this cost, for each replicate.
    changes: Vec<f64>,
}

impl Part {
    /// The contribution of the cost `key`; `None` if the calibrated host or a replicate lacks this cost.
    fn of((key, slope): (&'static str, f64), hosts: &Hosts<'_>) -> Option<Self> {
        let cost = costs().find(|cost| cost.key() == key)?;
        let own = cost.of(hosts.calibrated)?;
        let changes: Option<Vec<f64>> =
            hosts.resampled.iter().map(|drawn| Some(slope * (cost.of(&drawn.host)? - own))).collect();
        Some(Self { key, elasticity: slope * own, changes: changes? })
    }

    fn sensitivity(&self) -> CliffSensitivity {
        let count = self.changes.len().max(1) as f64;
        let mean = self.changes.iter().sum::<f64>() / count;
        let variance = self.changes.iter().map(|change| (change - mean).powi(2)).sum::<f64>() / count;
        CliffSensitivity { key: self.key.to_owned(), elasticity: self.elasticity, spread: variance.sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed() -> Predictor {
        let host = Host {
            protocol_s: 1e-6,
            per_byte_s: 0.0,
            interrupt_s: 0.0,
            interrupt_latency_s: 0.0,
            mask_s: 0.0,
            poll_s: 0.0,
            ..Host::preset("pentium4-2530mhz").expect("a preset")
        };
        Predictor::of(host, "ideal")
    }

    fn drawn(host: Host) -> Resampled {
        Resampled { host, costs: crate::calibrate::tests::COSTS }
    }

    /// An ideal host's cliff is proportional to 1 / protocol: protocol costs spread evenly over +-10 % spread the cliff
    /// over -9 to +11 %. The interval leaves out 2.5 % at each end.
    #[test]
    fn the_interval_is_that_of_the_costs() {
        let computed = computed();
        let cliff = computed.model_cliff().expect("the model answers");
        let host = |n: i32| Host { protocol_s: 1e-6 * (1.0 + f64::from(n) / 1000.0), ..computed.host.clone() };
        let resampled: Vec<Resampled> = (-100..=100).map(host).map(drawn).collect();
        let sure = Sureness::of(&computed, cliff.value, &computed.host, &resampled).expect("the model answers");
        let ends = sure.around(cliff).interval.expect("it has one");
        let (low, high) = (ends.low / cliff.value, ends.high / cliff.value);
        assert!((low - (-0.095f64).exp()).abs() < 2e-3 && (high - 0.095f64.exp()).abs() < 2e-3, "{low} to {high}");
        let top = &sure.sensitivity[0];
        assert_eq!(top.key, "protocol");
        assert!((top.elasticity + 1.0).abs() < 5e-3 && (top.spread - 0.058).abs() < 1e-3, "{top:?}");
        // With an interval of +-10 % of the cliff itself: sqrt(0.1^2 + 0.1^2).
        let own = Figure::between(cliff.value, 0.9 * cliff.value, 1.1 * cliff.value, 0.95);
        let both = sure.around(own).interval.expect("it has one");
        assert!((both.high / cliff.value - 1.141).abs() < 5e-3);
    }

    /// A packet takes 2 us with an empty socket and 2.5 us with a full one: at 400 kpps and more a full socket stays
    /// full.
    #[test]
    fn a_host_whose_full_socket_stays_full_has_a_lower_end_below_that() {
        let sure = Sureness { sensitivity: Vec::new(), ends: (0.9, 1.1), cold_s: 5e-7 };
        let ends = sure.around(Figure::exact(500e3)).interval.expect("it has one");
        assert!((ends.low - 0.9 * 400e3).abs() < 1e-6 && (ends.high - 550e3).abs() < 1e-6, "{ends:?}");
    }

    #[test]
    fn costs_without_doubt_leave_the_cliff_as_it_is() {
        let computed = computed();
        let cliff = computed.model_cliff().expect("the model answers");
        let same = vec![drawn(computed.host.clone()); 5];
        let sure = Sureness::of(&computed, cliff.value, &computed.host, &same).expect("the model answers");
        assert_eq!(sure.around(cliff).interval.map(|ends| (ends.low, ends.high)), Some((cliff.value, cliff.value)));
    }
}
