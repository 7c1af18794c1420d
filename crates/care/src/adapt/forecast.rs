//! The engines' predictions for both modes: [`Forecast`].

use netcliff_core::scheme::Napi;
use netcliff_core::switching::Part;
use netcliff_core::{Arrivals, Engine, EngineKind, Figure, FrameSizes, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::SimEngine;
use serde::{Serialize, Serializer};

/// Loads at which both modes are predicted, as shares of the upper threshold.
const SHARES: [f64; 9] = [1.0 / 32.0, 1.0 / 16.0, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25];
/// Speed of the link (bit/s); the predictions do not depend on it.
const LINK_BPS: f64 = 10e9;
/// Seed and number of packets of a simulation. The intervals are a few per cent wide.
const SIMULATED: (u64, u64) = (1, 40_000);
/// A difference in remaining CPU only matters if at least this share of the CPU is left, and if the difference exceeds
/// the share below.
const LEFT: f64 = 0.02;
const MORE: f64 = 0.005;

/// Prediction for one mode at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Mean time from arrival to the end of protocol processing or, if the costs include an application, until the
    /// application reads the packet (s).
    pub mean_latency_s: f64,
    /// Share of the receiving CPU's time that interrupts, polls, protocol processing and the application leave.
    pub cpu_left: f64,
    /// Share of the packets that are lost.
    pub loss: f64,
}

/// Predictions for both modes at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Both {
    /// The load (pps).
    pub load_pps: f64,
    /// Prediction for interrupt mode.
    pub interrupt: Side,
    /// Prediction for polling mode.
    pub poll: Side,
}

/// Predictions for both modes, at loads up to 1.25 times the threshold for polling.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// Source of the CPU costs.
    pub costs: String,
    /// Frame size used for the predictions (bytes, FCS included).
    pub frame_bytes: f64,
    /// Engine that computed the predictions: `model` or `sim`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub engine: EngineKind,
    /// Scheme of the device in interrupt mode.
    pub interrupt: String,
    /// Scheme of the device in polling mode.
    pub poll: String,
    /// True if the costs include an application: then the latency ends when it reads the packet, and its time is not in
    /// the CPU time that is left.
    #[serde(skip)]
    pub has_application: bool,
    /// Predictions, in the order of increasing load.
    pub loads: Vec<Both>,
    /// Load from which on polling leaves more of the CPU free, interpolated (pps); `null` if it does so at no computed
    /// load.
    pub poll_leaves_more_from_pps: Option<f64>,
    /// The cliff that `find` measured together with these costs, by default on this host: highest load without more
    /// loss than permitted (pps); absent if these costs have no measured cliff.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "value_only")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub measured_cliff_pps: Option<Figure>,
    /// The scheme with which the costs were measured; `None`: unknown, or that of interrupt mode.
    #[serde(skip)]
    pub measured_scheme: Option<String>,
}

impl Forecast {
    /// Predicts both modes of a device with these costs. `None` if neither engine supports both schemes.
    pub fn of(costs: (&str, &Host), [interrupt, poll]: [Napi; 2], up_pps: f64, frame_bytes: f64) -> Option<Self> {
        let (name, host) = costs;
        let schemes = [interrupt, poll].map(Scheme::Napi);
        let point = |scheme: &Scheme, pps: f64| {
            let traffic = Traffic {
                arrivals: Arrivals::Poisson,
                size: FrameSizes::Fixed(frame_bytes.round().max(64.0) as u32),
                link_bps: LINK_BPS,
                flows: None,
            };
            Point { host: host.clone(), scheme: scheme.clone(), traffic, load: Load::Pps(pps) }
        };
        let by_model = |point: &Point| ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(point).ok();
        let by_sim = |point: &Point| SimEngine::with_packets(SIMULATED.0, SIMULATED.1).evaluate(point).ok();
        // One engine computes all points, so that its bias affects both modes in the same way.
        let all = |answer: &dyn Fn(&Point) -> Option<Outcome>| -> Option<Vec<Both>> {
            let at = |pps: f64| {
                let [interrupt, poll] = schemes.each_ref().map(|scheme| side(&answer(&point(scheme, pps))?));
                Some(Both { load_pps: pps, interrupt: interrupt?, poll: poll? })
            };
            SHARES.iter().map(|share| at(share * up_pps)).collect()
        };
        let (engine, loads) = match all(&by_model) {
            Some(loads) => (EngineKind::Model, loads),
            None => (EngineKind::Sim, all(&by_sim)?),
        };
        Some(Self {
            costs: name.to_owned(),
            frame_bytes,
            engine,
            interrupt: schemes[0].to_string(),
            poll: schemes[1].to_string(),
            poll_leaves_more_from_pps: crossing(&loads),
            loads,
            has_application: host.application_s.is_some(),
            measured_cliff_pps: None,
            measured_scheme: None,
        })
    }

    /// Returns the prediction for a mode at the computed load that is nearest to `pps`.
    pub fn near(&self, pps: f64, part: Part) -> Option<(f64, Side)> {
        let distance = |both: &&Both| (both.load_pps / pps).ln().abs();
        let both = self.loads.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some((both.load_pps, if part == Part::Poll { both.poll } else { both.interrupt }))
    }
}

/// Serialises a figure without its interval.
fn value_only<S: Serializer>(figure: &Option<Figure>, out: S) -> Result<S::Ok, S::Error> {
    figure.map(|figure| figure.value).serialize(out)
}

fn side(outcome: &Outcome) -> Option<Side> {
    Some(Side {
        mean_latency_s: outcome.latency_s?.mean?.value,
        cpu_left: outcome.cpu?.available?.value,
        loss: outcome.loss_fraction.map_or(0.0, |loss| loss.value),
    })
}

/// Returns the load, interpolated, from which on polling leaves more of the CPU, at all higher computed loads at which
/// any CPU is left. `None` if there is no such load.
fn crossing(loads: &[Both]) -> Option<f64> {
    let counts = |both: &&Both| both.poll.cpu_left.max(both.interrupt.cpu_left) > LEFT;
    let gains: Vec<(f64, f64)> = loads
        .iter()
        .filter(counts)
        .map(|both| (both.load_pps, both.poll.cpu_left - both.interrupt.cpu_left - MORE))
        .collect();
    let first = gains.len() - gains.iter().rev().take_while(|(_, gain)| *gain > 0.0).count();
    let (pps, gain) = *gains.get(first)?;
    Some(match first.checked_sub(1).map(|before| gains[before]) {
        Some((below, lack)) => below + (pps - below) * lack / (lack - gain),
        None => pps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(load_pps: f64, interrupt: f64, poll: f64) -> Both {
        let side = |cpu_left| Side { mean_latency_s: 1e-5, cpu_left, loss: 0.0 };
        Both { load_pps, interrupt: side(interrupt), poll: side(poll) }
    }

    #[test]
    fn where_polling_begins_to_leave_more() {
        let loads = [both(10e3, 0.9, 0.805), both(20e3, 0.7, 0.705 + 0.1), both(40e3, 0.3, 0.6), both(80e3, 0.0, 0.0)];
        let found = crossing(&loads).unwrap();
        assert!((found - 15e3).abs() < 1.0, "{found}");
        assert_eq!(crossing(&loads[1..]), Some(20e3), "from the lowest on");
        assert_eq!(crossing(&[both(10e3, 0.9, 0.9), both(20e3, 0.8, 0.7)]), None);
        assert_eq!(crossing(&loads[3..]), None, "nothing is left");
    }

    /// With the costs of Salah et al., a deferral of 50 us removes interrupts at half the cliff, and packets wait for
    /// half of the deferral.
    #[test]
    fn a_deferral_by_the_papers_costs() {
        let host = Host::pentium4_2530mhz();
        let poll = Napi { defer_hard_irqs: 2, gro_flush_timeout_s: 50e-6, ..Napi::default() };
        let found = Forecast::of(("a test", &host), [Napi::default(), poll], 127e3, 64.0).unwrap();
        assert_eq!(found.engine, EngineKind::Sim);
        let [(_, quiet), (pps, busy)] = [Part::Interrupt, Part::Poll].map(|part| found.near(63.5e3, part).unwrap());
        assert!((pps - 63.5e3).abs() < 1.0);
        assert!(busy.cpu_left > quiet.cpu_left + 0.05, "{quiet:?} {busy:?}");
        assert!(busy.mean_latency_s > quiet.mean_latency_s + 10e-6, "{quiet:?} {busy:?}");
        assert!(found.poll_leaves_more_from_pps.is_some_and(|pps| pps < 63.5e3), "{found:?}");
    }
}
