//! The cliff (the highest offered load with a loss of at most a bound), and the livelock index.

use netcliff_core::math;
use netcliff_core::{Engine, EngineFailure, Host, Invalid, Point, Scheme, Traffic};

/// Lowest value of ln(loss / bound); replaces minus infinity if the loss is 0.
const LEAST_EXCESS: f64 = -140.0;
/// Loss above which the CPU is overloaded: there the loss is nearly linear in the load; below it, ln(loss) is.
const OVERLOADED: f64 = 1e-2;
/// First step from an expected cliff, as a factor of the load.
const NEAR_STEP: f64 = 1.05;
/// First step from the guide's cliff, as a multiple of the search's width. (A guide is a faster engine, searched
/// first.) One step encloses the cliff unless the guide is wrong.
const GUIDED_STEP: f64 = 0.9;
/// Width of the guide's search, as a multiple of the engine's. The guide's cliff is then interpolated between the last
/// two loads.
const GUIDED_WIDTH: f64 = 10.0;
/// Largest relative distance from the guide's cliff at which the engine's cliff is extrapolated, with the slope of the
/// guide's loss.
const GUIDED_RISE: f64 = 2e-4;
/// Largest distance from the guide's cliff, in widths, at which the extrapolated cliff needs no second evaluation. The
/// slopes of the two engines differ by some parts in a thousand; even a difference of a fifth would move the cliff by
/// less than the width.
const CERTAIN: f64 = 2.0;
/// The first step down from overload reduces the load by this multiple of the loss.
const STEEPER: f64 = 0.65;
/// Number of steps down along a straight line.
const STRAIGHT: usize = 3;
/// Smallest step down along a straight line, as a share of the load.
const LEAST_STEP_DOWN: f64 = 2e-3;
/// Range of loads that are searched (pps).
const LOWEST_PPS: f64 = 1e-6;
const HIGHEST_PPS: f64 = 1e13;

/// A cliff, and the work to find it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// Highest offered load with a loss of at most the bound (pps).
    pub pps: f64,
    /// Number of points evaluated.
    pub evaluations: u32,
}

/// Result of a search that has enclosed the cliff by two loads.
struct Bound {
    cliff: Cliff,
    /// The cliff by linear interpolation between the two loads (pps).
    crossing_pps: f64,
    /// Slope of the excess, ln(loss / bound), at the cliff, per unit of ln(load).
    steep: f64,
}

/// Settings of a search for a cliff.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CliffSearch {
    /// Load near which the cliff is expected (pps); `None`: unknown.
    pub near_pps: Option<f64>,
    /// Relative width at which the search ends, above 0.
    pub width: f64,
}

impl Default for CliffSearch {
    fn default() -> Self {
        Self { near_pps: None, width: 1e-5 }
    }
}

impl CliffSearch {
    /// Searches for the highest load of `traffic`'s kind that `host` carries under `scheme` with a loss of at most
    /// `loss`.
    ///
    /// Steps up or down until two loads enclose the bound, then applies Chandrupatla's method to the logarithms of load
    /// and loss. The first load is the expected one, with steps that begin with 5 % and grow. Without an expected load,
    /// the search starts at the load that the CPU could just carry, then doubles the load or, if the host is
    /// overloaded, reduces it along the straight line of its losses. If the engine has a guide (a faster engine), the
    /// guide is searched first, and the engine is evaluated only around the guide's cliff.
    ///
    /// Errors: `loss` is not between 0 and 1 (exclusive; in theory every load loses something, and none everything);
    /// the engine fails; or the loss stays on one side of the bound at all loads from 1e-6 to 1e13 packets/s.
    pub fn cliff(
        &self,
        engine: &dyn Engine,
        host: &Host,
        scheme: &Scheme,
        traffic: &Traffic,
        loss: f64,
    ) -> Result<Cliff, EngineFailure> {
        let mut losses = Losses::of(engine, host, scheme, traffic, loss)?;
        let guide = engine.guide(host).filter(|_| self.near_pps.is_none());
        let roughly = Self { width: GUIDED_WIDTH * self.width, ..*self };
        if let Some(guide) = guide
            && let Ok(Bound { crossing_pps: near_pps, steep, .. }) =
                roughly.bound(Losses::of(guide, host, scheme, traffic, loss)?)
        {
            let at_near = losses.excess(near_pps)?;
            // Distance to the engine's cliff if its loss has the slope of the guide's.
            let aside = -at_near / steep;
            let shifted = aside.abs() > 0.5 * self.width;
            let pps = match aside {
                _ if shifted => near_pps * math::exp(aside - 0.4 * self.width),
                _ if at_near > 0.0 => near_pps / (1.0 + GUIDED_STEP * self.width),
                _ => near_pps,
            };
            if aside.abs() < CERTAIN * self.width {
                return Ok(Cliff { pps, evaluations: losses.evaluations });
            }
            let from = if aside.abs() < GUIDED_RISE { (pps, losses.excess(pps)?) } else { (near_pps, at_near) };
            return Ok(losses.cliff(from, 1.0 + GUIDED_STEP * self.width, self.width)?.cliff);
        }
        Ok(self.bound(losses)?.cliff)
    }

    /// Searches for the cliff without a guide.
    fn bound(&self, mut losses: Losses<'_>) -> Result<Bound, EngineFailure> {
        let (host, traffic) = (losses.host, losses.traffic);
        let just_done_pps = 1.0 / (host.mean_service_s(&traffic.size) + host.application_s.unwrap_or(0.0));
        let guess_pps = self.near_pps.unwrap_or(just_done_pps);
        let at_guess = losses.excess(guess_pps)?;
        if self.near_pps.is_some() || at_guess <= losses.turn() {
            return losses.cliff((guess_pps, at_guess), self.near_pps.map_or(2.0, |_| NEAR_STEP), self.width);
        }
        losses.down_from_overload((guess_pps, at_guess), self.width)
    }
}

/// Evaluates the losses of one kind of traffic and compares them with a bound.
struct Losses<'a> {
    engine: &'a dyn Engine,
    host: &'a Host,
    scheme: &'a Scheme,
    traffic: &'a Traffic,
    bound: f64,
    evaluations: u32,
}

impl<'a> Losses<'a> {
    fn of(
        engine: &'a dyn Engine,
        host: &'a Host,
        scheme: &'a Scheme,
        traffic: &'a Traffic,
        bound: f64,
    ) -> Result<Self, EngineFailure> {
        if !(bound > 0.0 && bound < 1.0) {
            return Err(Invalid::new("loss", bound, "must be above 0 and below 1").into());
        }
        Ok(Self { engine, host, scheme, traffic, bound, evaluations: 0 })
    }

    /// Returns the excess, ln(loss / bound), continued linearly where the host is overloaded. Above 0: the load is too
    /// high.
    fn excess(&mut self, pps: f64) -> Result<f64, EngineFailure> {
        self.evaluations += 1;
        let outcome = self.engine.evaluate(&Point::of(self.host, self.scheme, self.traffic, pps))?;
        let found = outcome.loss_fraction.map(|figure| figure.value).ok_or_else(|| missing("loss"))?;
        let turn = self.overloaded();
        Ok(match found {
            _ if found <= self.bound => math::ln(found / self.bound).clamp(LEAST_EXCESS, 0.0),
            _ if found <= turn => math::ln(found / self.bound),
            _ => math::ln(turn / self.bound) + (found - turn) / turn,
        })
    }

    /// Returns the loss above which the host counts as overloaded.
    fn overloaded(&self) -> f64 {
        OVERLOADED.max(self.bound)
    }

    /// Returns the excess at the loss from which the host counts as overloaded.
    fn turn(&self) -> f64 {
        math::ln(self.overloaded() / self.bound)
    }

    /// Searches downwards from the overloaded load `high`. Follows the straight line of the losses to the load at which
    /// it reaches zero, which is close to the cliff.
    fn down_from_overload(mut self, mut high: (f64, f64), width: f64) -> Result<Bound, EngineFailure> {
        let loss = |excess: f64, turn: f64| OVERLOADED.max(self.bound) * (1.0 + excess - turn);
        let turn = self.turn();
        // In livelock, losses grow faster than the load.
        let mut pps = high.0 * (1.0 - STEEPER * loss(high.1, turn).min(1.0));
        for _ in 0..STRAIGHT {
            let next = (pps, self.excess(pps)?);
            if next.1 <= 0.0 {
                return self.between(next, high, width);
            }
            let slope = (high.1 - next.1) / (high.0 - next.0);
            // The load at which the straight line of overload reaches a loss of 0.
            let straight = next.0 - (next.1 - (turn - 1.0)).max(0.0) / slope;
            high = next;
            pps = straight.min(next.0 * (1.0 - LEAST_STEP_DOWN)).max(0.25 * next.0);
        }
        self.cliff(high, 2.0, width)
    }

    /// Searches for the cliff to a relative `width`, from a load with its excess, by growing steps that begin with the
    /// factor `step`.
    fn cliff(mut self, from: (f64, f64), mut step: f64, width: f64) -> Result<Bound, EngineFailure> {
        let none = || EngineFailure::Failed("no load between 1e-6 pps and 1e13 pps divides loss from no loss".into());
        let (mut low, mut high) = (from, from);
        while high.1 <= 0.0 {
            low = high;
            high.0 *= step;
            step = (step * step).min(2.0);
            if high.0 > HIGHEST_PPS {
                return Err(none());
            }
            high.1 = self.excess(high.0)?;
        }
        while low.1 > 0.0 {
            high = low;
            low.0 /= step;
            step = (step * step).min(2.0);
            if low.0 < LOWEST_PPS {
                return Err(none());
            }
            low.1 = self.excess(low.0)?;
        }
        self.between(low, high, width)
    }

    /// Searches for the cliff between two loads, each given with its excess.
    fn between(&mut self, low: (f64, f64), high: (f64, f64), width: f64) -> Result<Bound, EngineFailure> {
        let (pps, crossing_pps, steep) = bound(low, high, width, &mut |pps| self.excess(pps))?;
        Ok(Bound { cliff: Cliff { pps, evaluations: self.evaluations }, crossing_pps, steep })
    }
}

/// Searches for the cliff without an expected load, to a relative width of 1e-5; see [`CliffSearch::cliff`].
///
/// # Errors
/// See [`CliffSearch::cliff`].
pub fn cliff(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    loss: f64,
) -> Result<Cliff, EngineFailure> {
    CliffSearch::default().cliff(engine, host, scheme, traffic, loss)
}

/// Searches between `low` within the bound and `high` beyond it, each with its excess. Returns the highest load within
/// the bound, the interpolated cliff, and the slope of the excess there per unit of ln(load).
///
/// The points are on logarithms of the loads. Chandrupatla, A new hybrid quadratic/bisection algorithm for finding the
/// zero of a nonlinear function without using derivatives, Advances in Engineering Software 28 (1997): inverse
/// quadratic interpolation if three points allow it, otherwise the middle. Even a jump of the loss takes no more
/// evaluations than bisection.
fn bound(
    low: (f64, f64),
    high: (f64, f64),
    width: f64,
    excess: &mut dyn FnMut(f64) -> Result<f64, EngineFailure>,
) -> Result<(f64, f64, f64), EngineFailure> {
    let log = |(pps, excess): (f64, f64)| (math::ln(pps), excess);
    // The newest point, the point on the other side of the bound, and the position of the next one between them.
    let (mut newest, mut opposite, mut share) = (log(high), log(low), 0.5);
    if low.1 > LEAST_EXCESS {
        share = (high.1 / (high.1 - low.1)).clamp(0.05, 0.95);
    }
    let mut held_pps = low.0;
    loop {
        let (least, most) = (newest.0.min(opposite.0), newest.0.max(opposite.0));
        if most - least <= width {
            let steep = (newest.1 - opposite.1) / (newest.0 - opposite.0);
            return Ok((held_pps, math::exp(newest.0 - newest.1 / steep), steep));
        }
        // If an end is practically the cliff, evaluate at a small distance from it, so that the other end comes close,
        // too.
        let aside = 0.4 * width;
        let place = (newest.0 + share * (opposite.0 - newest.0)).clamp(least + aside, most - aside);
        let found = (place, excess(math::exp(place))?);
        if found.1 <= 0.0 {
            held_pps = math::exp(place);
        }
        let dropped =
            if (found.1 > 0.0) == (newest.1 > 0.0) { newest } else { std::mem::replace(&mut opposite, newest) };
        newest = found;
        share = next_share(newest, opposite, dropped);
    }
}

/// Returns the position of the bound between `a` and `b`, as a share, by inverse quadratic interpolation with `c`; the
/// middle if interpolation is unreliable.
fn next_share(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> f64 {
    let (place, value) = ((a.0 - b.0) / (c.0 - b.0), (a.1 - b.1) / (c.1 - b.1));
    if value.powi(2) < place && (1.0 - value).powi(2) < 1.0 - place {
        a.1 / (b.1 - a.1) * c.1 / (b.1 - c.1) + (c.0 - a.0) / (b.0 - a.0) * a.1 / (c.1 - a.1) * b.1 / (c.1 - b.1)
    } else {
        0.5
    }
}

/// First relative step from the cliff towards the peak; hosts with large rings and sockets have their peak that close.
const PEAK_STEP: f64 = 1e-3;
/// Relative gain at which the search for the peak ends.
const PEAK_GAIN: f64 = 5e-7;
/// Maximum number of evaluations around the peak.
const MOST_AROUND_PEAK: usize = 24;

/// Throughput at twice the cliff divided by its peak: 1 without livelock, 0 in full receive livelock.
///
/// The peak is searched from the cliff to twice the cliff, because below the cliff almost everything is delivered.
/// Growing steps lead to the first load at which throughput falls; then parabolas through three loads, or golden
/// section where a parabola does not help.
pub fn livelock_index(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    cliff_pps: f64,
) -> Result<f64, EngineFailure> {
    let throughput = |engine: &dyn Engine, pps: f64| -> Result<f64, EngineFailure> {
        let outcome = engine.evaluate(&Point::of(host, scheme, traffic, pps))?;
        outcome.throughput_pps.map(|figure| figure.value).ok_or_else(|| missing("throughput"))
    };
    // The peak is flat, so that the guide's load of the peak suffices; the throughput there is evaluated by the engine.
    // Far beyond the cliff, where the socket is almost never empty, the guide's throughput equals the engine's up to
    // some parts in 1e9.
    let by_guide = |guide: &dyn Engine| {
        let beyond = throughput(guide, 2.0 * cliff_pps)?;
        let (pps, _) = peak(cliff_pps, beyond, &|pps| throughput(guide, pps))?;
        Ok::<_, EngineFailure>((beyond, pps))
    };
    let (beyond, (peak_pps, highest)) = match engine.guide(host).and_then(|guide| by_guide(guide).ok()) {
        Some((beyond, pps)) => (beyond, (pps, throughput(engine, pps)?)),
        None => {
            let beyond = throughput(engine, 2.0 * cliff_pps)?;
            (beyond, peak(cliff_pps, beyond, &|pps| throughput(engine, pps))?)
        }
    };
    Ok(if peak_pps < 2.0 * cliff_pps { beyond / highest.max(beyond) } else { 1.0 })
}

/// Returns (load, throughput) of the highest throughput from the cliff to twice the cliff; `beyond` is the throughput
/// at twice the cliff.
fn peak(
    cliff_pps: f64,
    beyond: f64,
    throughput: &dyn Fn(f64) -> Result<f64, EngineFailure>,
) -> Result<(f64, f64), EngineFailure> {
    // Just below the cliff practically all packets are delivered.
    let mut low = ((1.0 - PEAK_STEP) * cliff_pps, (1.0 - PEAK_STEP) * cliff_pps);
    let mut best = (cliff_pps, throughput(cliff_pps)?);
    let mut step = PEAK_STEP;
    let mut high = loop {
        let pps = best.0 * (1.0 + step);
        if pps >= 2.0 * cliff_pps {
            break (2.0 * cliff_pps, beyond);
        }
        let next = (pps, throughput(pps)?);
        if next.1 <= best.1 {
            break next;
        }
        (low, best) = (best, next);
        step *= 2.0;
    };
    if high.1 > best.1 {
        return Ok(high);
    }
    // The width when it was last halved, and the number of parabola steps since then.
    let (mut width, mut slow) = (high.0 - low.0, 0);
    for _ in 0..MOST_AROUND_PEAK {
        let peak = parabola(low, best, high);
        let expected = peak.filter(|(pps, _)| (low.0..high.0).contains(pps));
        if high.0 - low.0 <= 1e-6 * high.0 || expected.is_some_and(|(_, value)| value - best.1 <= PEAK_GAIN * best.1) {
            break;
        }
        // Step into the wider side if the parabola has no peak, or one too close to a known load.
        let aside = 0.05 * (high.0 - low.0);
        let golden = 0.5 * (3.0 - 5_f64.sqrt());
        let wider = if high.0 - best.0 > best.0 - low.0 {
            best.0 + golden * (high.0 - best.0)
        } else {
            best.0 - golden * (best.0 - low.0)
        };
        let useful = expected.map(|(pps, _)| pps).filter(|pps| slow < 2 && (pps - best.0).abs() > 0.1 * aside);
        let pps = useful.unwrap_or(wider);
        let next = (pps, throughput(pps)?);
        match (next.1 > best.1, pps > best.0) {
            (true, true) => (low, best) = (best, next),
            (true, false) => (high, best) = (best, next),
            (false, true) => high = next,
            (false, false) => low = next,
        }
        slow = if useful.is_none() { 0 } else { slow + 1 };
        if high.0 - low.0 <= 0.5 * width {
            (width, slow) = (high.0 - low.0, 0);
        }
    }
    Ok(best)
}

/// Returns the highest point of the parabola through three points; `None` if the parabola has no maximum.
fn parabola(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> Option<(f64, f64)> {
    let (left, right) = ((b.1 - a.1) / (b.0 - a.0), (c.1 - b.1) / (c.0 - b.0));
    let bend = (right - left) / (c.0 - a.0);
    if bend >= 0.0 || bend.is_nan() {
        return None;
    }
    let slope = left + bend * (b.0 - a.0);
    let aside = -0.5 * slope / bend;
    Some((b.0 + aside, b.1 + 0.5 * slope * aside))
}

fn missing(figure: &str) -> EngineFailure {
    EngineFailure::Failed(format!("the engine gave no {figure}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fidelity, ModelEngine};

    fn loss_at(engine: &dyn Engine, host: &Host, scheme: &Scheme, traffic: &Traffic, pps: f64) -> f64 {
        engine.evaluate(&Point::of(host, scheme, traffic, pps)).expect("an answer").loss_fraction.expect("a loss").value
    }

    /// At the cliff the loss is within the bound, and at a load higher by 1e-5 it exceeds the bound. Evaluating a chain
    /// takes up to half a second; bisection would need 17 evaluations after those that enclose the bound.
    #[test]
    fn the_cliff_is_where_the_bound_is_in_few_evaluations() {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let traffic = Traffic::default();
        for scheme in ["ideal", "napi:weight=64", "interrupt", "disable-enable", "coalesce:frames=8,masked=true"] {
            for (ring, application_s, loss) in
                [(8, None, 1e-4), (64, Some(2e-6), 1e-2), (512, None, 1e-2), (512, Some(2e-6), 1e-4)]
            {
                let host = Host { ring, application_s, ..Host::pentium4_2530mhz() };
                let scheme: Scheme = scheme.parse().expect("a scheme");
                let found = cliff(&engine, &host, &scheme, &traffic, loss).expect("a cliff");
                let at = |pps: f64| loss_at(&engine, &host, &scheme, &traffic, pps);
                assert!(
                    at(found.pps) <= loss && at(found.pps * (1.0 + CliffSearch::default().width)) > loss,
                    "{scheme:?} {ring}: {found:?}"
                );
                assert!(found.evaluations <= 15, "{scheme:?} {ring}: {found:?}");
            }
        }
    }

    /// With a guide (a faster engine, searched first), cliff and livelock index stay the same, and the engine is
    /// evaluated once or three times.
    #[test]
    fn a_search_is_guided_to_the_exact_cliff() {
        struct Alone(ModelEngine);
        impl Engine for Alone {
            fn kind(&self) -> netcliff_core::EngineKind {
                self.0.kind()
            }
            fn supports(&self, point: &Point) -> Result<(), netcliff_core::Unsupported> {
                self.0.supports(point)
            }
            fn answer(&self, point: &Point) -> Result<netcliff_core::Outcome, EngineFailure> {
                self.0.answer(point)
            }
        }
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let alone = Alone(engine);
        let traffic = Traffic::default();
        for (scheme, latency_s, cold_s) in [
            ("napi:weight=64", 0.0, 0.0),
            ("napi:weight=16,backlog=true", 20e-6, 0.0),
            ("napi", 5e-6, 2e-7),
            ("interrupt", 0.0, 0.0),
        ] {
            let host = Host {
                ring: 200,
                socket_buffer: 300,
                application_s: Some(2e-6),
                interrupt_latency_s: latency_s,
                cold_protocol_s: cold_s,
                ..Host::pentium4_2530mhz()
            };
            let scheme: Scheme = scheme.parse().expect("a scheme");
            let found = cliff(&engine, &host, &scheme, &traffic, 1e-4).expect("a cliff");
            let searched = cliff(&alone, &host, &scheme, &traffic, 1e-4).expect("a cliff");
            assert!((found.pps / searched.pps - 1.0).abs() <= 2e-5, "{scheme:?}: {found:?} {searched:?}");
            assert!(found.evaluations <= 3, "{scheme:?}: {found:?}");
            let at = |pps: f64| loss_at(&engine, &host, &scheme, &traffic, pps);
            assert!(at(found.pps) <= 1e-4 && at(found.pps * (1.0 + CliffSearch::default().width)) > 1e-4, "{scheme:?}");
            let index =
                |engine: &dyn Engine| livelock_index(engine, &host, &scheme, &traffic, found.pps).expect("an index");
            assert!((index(&engine) / index(&alone) - 1.0).abs() < 2e-6, "{scheme:?}");
        }
    }

    /// A bound of 0 is refused: the excess would be 0/0 where the loss is too small for a double.
    #[test]
    fn a_bound_that_is_no_share_is_refused() {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let (host, traffic) = (Host { ring: 8, ..Host::pentium4_2530mhz() }, Traffic::default());
        for loss in [0.0, -1e-4, 1.0, f64::NAN, f64::INFINITY] {
            let found = cliff(&engine, &host, &Scheme::Ideal, &traffic, loss);
            assert!(matches!(found, Err(EngineFailure::Invalid(_))), "{loss}: {found:?}");
        }
    }
}
