//! [`cliff_sim`]: searches by simulation for the cliff, the highest offered load with loss at or below a target.

use netcliff_core::{EngineFailure, Figure, Host, Outcome, Point, Scheme, Traffic};

use crate::engine::{Effort, SimEngine};

/// A cliff, and the loads that were simulated to find it.
#[derive(Debug, Clone)]
pub struct Cliff {
    /// Highest load within the loss target (pps). Its interval reaches from the highest load that is within the target,
    /// to the lowest load that exceeds it, each with the engine's confidence.
    pub load_pps: Figure,
    /// Load (pps) and outcome of each simulated load, by rising load.
    pub sweep: Vec<(f64, Outcome)>,
}

/// The search ends when the bracket is this narrow, relative to its load.
const RESOLUTION: f64 = 0.004;
/// Numbers of arrivals for one load, over all replications. The next number is used if the loss is too close to the
/// target, or if no steady state was found; [`Effort::Exactly`] limits the number. The first one suffices to confirm a
/// loss below 1e-4 if no packet is lost.
const PACKETS: [u64; 3] = [300_000, 1_000_000, 4_000_000];
/// Lowest load below a cliff that is checked for losses, as a share of the cliff.
const LOWEST: f64 = 0.2;
/// Ratio of consecutive loads that are checked.
const RISE: f64 = 1.2;
/// Number of loads after which the search for a bracket gives up.
const STEPS: u32 = 40;
/// Largest ratio of consecutive loads in the search for a bracket.
const STEP: f64 = 1.5;
/// First ratio of consecutive loads near the expected cliff. The ratio is squared after each load, up to [`STEP`].
const NEAR_STEP: f64 = 1.04;

/// The side of the target on which a load lies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TargetSide {
    SurelyBelow,
    Below,
    Above,
    SurelyAbove,
}

struct Search<'a> {
    engine: &'a SimEngine,
    point_at: &'a dyn Fn(f64) -> Point,
    target: f64,
    stopped: &'a dyn Fn() -> bool,
    tried: Vec<(f64, Outcome, TargetSide)>,
}

impl Search<'_> {
    /// Simulates a load, unless it has been simulated already. All loads use the same random numbers. Simulates longer
    /// if the loss is too close to the target. `None` if the caller stopped the search.
    fn try_load(&mut self, load_pps: f64) -> Result<Option<TargetSide>, EngineFailure> {
        if let Some((.., side)) = self.tried.iter().find(|(tried_pps, ..)| *tried_pps == load_pps) {
            return Ok(Some(*side));
        }
        let point = (self.point_at)(load_pps);
        let mut found = None;
        for packets in self.packets() {
            if (self.stopped)() {
                return Ok(None);
            }
            let engine = SimEngine { effort: Effort::Exactly(packets), ..self.engine.clone() };
            let simulation = engine.simulate(&point)?;
            let side = side(&simulation.outcome, self.target);
            let sure = side == TargetSide::SurelyBelow && simulation.settled || side == TargetSide::SurelyAbove;
            found = Some((simulation.outcome, side));
            if sure {
                break;
            }
        }
        let Some((outcome, side)) = found else { return Ok(None) };
        self.tried.push((load_pps, outcome, side));
        Ok(Some(side))
    }

    /// Numbers of arrivals to simulate at one load, one after the other, until it is clear whether the loss is above
    /// the target.
    fn packets(&self) -> Vec<u64> {
        let Effort::Exactly(most) = self.engine.effort else { return PACKETS.to_vec() };
        PACKETS.into_iter().filter(|packets| *packets < most).chain([most]).collect()
    }

    fn within(side: TargetSide) -> bool {
        matches!(side, TargetSide::SurelyBelow | TargetSide::Below)
    }

    /// Searches for two loads with the target between them. Starts at `load`; the ratio of consecutive loads begins
    /// with `step` and grows. `None` if the caller stopped the search.
    fn bracket(&mut self, mut load: f64, mut step: f64) -> Result<Option<(f64, f64)>, EngineFailure> {
        let (mut low, mut high) = (None, None);
        for _ in 0..STEPS {
            let Some(side) = self.try_load(load)? else { return Ok(None) };
            if Self::within(side) {
                low = Some(load);
                load *= step;
            } else {
                high = Some(load);
                load /= step;
            }
            if let (Some(low), Some(high)) = (low, high) {
                return Ok(Some((low, high)));
            }
            step = (step * step).min(STEP);
        }
        let tried = self.tried.last().map_or(0.0, |(load, ..)| *load);
        let message = format!("no load down or up to {tried:.0} pps brackets a loss of {}", self.target);
        Err(EngineFailure::Failed(message.into()))
    }

    /// Narrows the bracket by bisection. `None` if the caller stopped the search.
    fn narrow(&mut self, (mut low, mut high): (f64, f64)) -> Result<Option<(f64, f64)>, EngineFailure> {
        while high - low > RESOLUTION * low {
            let middle = (low * high).sqrt();
            let Some(side) = self.try_load(middle)? else { return Ok(None) };
            if Self::within(side) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Some((low, high)))
    }

    /// Returns the lowest load below `cliff` that loses more than the target, among loads from 20 % of `cliff` upwards
    /// in steps of 20 %. `None` if no such load loses more. Only with an application can the loss fall with rising
    /// load: the application starves while softirqs run on interrupts, and loses nothing at a higher load, at which
    /// ksoftirqd polls.
    fn losing_below(&mut self, cliff: f64) -> Result<Option<f64>, EngineFailure> {
        let mut load = LOWEST * cliff;
        let may_lose = (self.point_at)(load).host.mean_application_s().is_some();
        while may_lose && load < cliff / RISE {
            if self.try_load(load)?.is_some_and(|side| !Self::within(side)) {
                return Ok(Some(load));
            }
            load *= RISE;
        }
        Ok(None)
    }
}

fn side(outcome: &Outcome, target: f64) -> TargetSide {
    let Some(loss) = outcome.loss_fraction else { return TargetSide::Above };
    // Without an interval, the loss may have any value.
    let ends = loss.interval.map_or((0.0, 1.0), |ends| (ends.low, ends.high));
    match loss.value <= target {
        true if ends.1 <= target => TargetSide::SurelyBelow,
        true => TargetSide::Below,
        false if ends.0 > target => TargetSide::SurelyAbove,
        false => TargetSide::Above,
    }
}

/// Where a search begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// Near the expected cliff (pps).
    Near(f64),
    /// Near this guess of the cliff (pps), which may be wrong, so that the first steps are larger.
    Guess(f64),
}

impl Start {
    /// Guesses the cliff as the capacity of the CPU if only packets cost time.
    pub fn guess(host: &Host, traffic: &Traffic) -> Self {
        Self::Guess(1.0 / (host.mean_service_s(&traffic.size) + host.mean_application_s().unwrap_or(0.0)))
    }
}

/// Finds the highest load of `traffic` with loss at or below `loss_target`, by bracketing and bisection with common
/// random numbers. Uses up to 4 million arrivals per load, or the number of [`Effort::Exactly`]. If a lower load also
/// loses more than the target, the lowest cliff counts (RFC 9971); loads at ratios of 1.2 are checked. Errors: see
/// [`SimEngine::simulate`], or no bracket was found (loss even at the lowest load).
pub fn cliff_sim(
    engine: &SimEngine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    loss_target: f64,
) -> Result<Cliff, EngineFailure> {
    let at = |load_pps| Point::of(host, scheme, traffic, load_pps);
    let found = cliff_sim_unless(engine, &at, loss_target, Start::guess(host, traffic), &|| false)?;
    found.ok_or_else(|| EngineFailure::Failed("the search was stopped".into()))
}

/// Like [`cliff_sim`], for the point that `point_at` returns for each load (pps). Begins at `start`, and calls
/// `stopped` between runs. `None` if that returned true.
///
/// # Errors
/// See [`cliff_sim`].
pub fn cliff_sim_unless(
    engine: &SimEngine,
    point_at: &dyn Fn(f64) -> Point,
    loss_target: f64,
    start: Start,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Cliff>, EngineFailure> {
    let mut search = Search { engine, point_at, target: loss_target, stopped, tried: Vec::new() };
    let (mut from_pps, mut step) = match start {
        Start::Near(pps) => (pps, NEAR_STEP),
        Start::Guess(pps) => (pps, STEP),
    };
    loop {
        let Some(bracket) = search.bracket(from_pps, step)? else { return Ok(None) };
        let Some((low, high)) = search.narrow(bracket)? else { return Ok(None) };
        let Some(lower) = search.losing_below(low)? else {
            return Ok((!stopped()).then(|| finish(search, low, high)));
        };
        (from_pps, step) = (lower, NEAR_STEP);
    }
}

fn finish(search: Search<'_>, low: f64, high: f64) -> Cliff {
    let confidence = search.engine.confidence;
    let mut tried = search.tried;
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let surely = |wanted: TargetSide| tried.iter().filter(move |(_, _, side)| *side == wanted).map(|(load, ..)| *load);
    let below = surely(TargetSide::SurelyBelow).filter(|load| *load <= low).fold(0.0, f64::max);
    let above = surely(TargetSide::SurelyAbove).filter(|load| *load >= high).fold(f64::INFINITY, f64::min);
    let load_pps = Figure::between(low, below, if above.is_finite() { above } else { high }, confidence);
    Cliff { load_pps, sweep: tried.into_iter().map(|(load, outcome, _)| (load, outcome)).collect() }
}
