//! The cliff: the highest offered load whose loss stays within a bound; and what is left beyond it.

use netcliff_core::math;
use netcliff_core::{Engine, EngineFailure, Host, Invalid, Point, Scheme, Traffic};

/// The logarithm of a loss over the bound is taken for no lower than this: that of no loss at all has no value.
const LEAST_EXCESS: f64 = -140.0;
/// Losses above this grow with the load itself, by what the CPU cannot do; below it is their logarithm that does.
const OVERLOADED: f64 = 1e-2;
/// First step from an expected cliff.
const NEAR_STEP: f64 = 1.05;
/// First step from the cliff of a guide, as a share of the width of the search: one step brackets the cliff unless the guide is wrong.
const GUIDED_STEP: f64 = 0.9;
/// Width of the search by a guide, in those of the engine's: its cliff is then where a line between the last two loads has it.
const GUIDED_WIDTH: f64 = 10.0;
/// Relative distance up to which the engine's cliff is where its loss at the guide's cliff says, if it rises as the guide's does.
const GUIDED_RISE: f64 = 2e-4;
/// Distance up to which that needs no other evaluation, in widths: how steep two engines' losses are differs by some
/// parts in a thousand, and a fifth would move the cliff by less than the width.
const CERTAIN: f64 = 2.0;
/// How much of the loss of an overloaded host the first step down takes off the load.
const STEEPER: f64 = 0.65;
/// Steps down along a straight line, and the least of them as a share of the load.
const STRAIGHT: usize = 3;
const LEAST_STEP_DOWN: f64 = 2e-3;
/// Loads searched (pps).
const LOWEST_PPS: f64 = 1e-6;
const HIGHEST_PPS: f64 = 1e13;

/// A cliff and how it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// Highest offered load with loss within the bound (pps).
    pub pps: f64,
    /// Points evaluated.
    pub evaluations: u32,
}

/// A cliff between two loads.
struct Bound {
    cliff: Cliff,
    /// Where a line between the two loads has it (pps).
    crossing_pps: f64,
    /// How steep the excess is there, a unit of the load's logarithm.
    steep: f64,
}

/// How a cliff is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CliffSearch {
    /// Load near which it is expected (pps); None: it may be anywhere.
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
    /// The highest load of `traffic`'s kind that `host` takes under `scheme` with a loss of at most `loss`.
    ///
    /// Steps up or down until the bound lies between two loads: from the load that the CPU could just do, doubled, or where it is overloaded
    /// down along the straight line of its losses; from an expected one by 5 % and then ever more. Where the engine has a guide, that is searched, and the engine
    /// asked around its cliff alone. Then Chandrupatla's method on the logarithms of load and loss. Err if `loss` is
    /// not above 0 and below 1 (in theory every load loses something, and none loses all), or if the engine fails or never loses (or always
    /// does) within 1e-6 to 1e13 packets/s.
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
            // Where the engine has its cliff if its loss rises as the guide's does.
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

    /// The cliff of a search without a guide.
    fn bound(&self, mut losses: Losses<'_>) -> Result<Bound, EngineFailure> {
        let (host, traffic) = (losses.host, losses.traffic);
        let bytes = traffic.size.mean_bytes().unwrap_or(64.0);
        let just_done_pps = 1.0 / (host.service_s(bytes) + host.application_s.unwrap_or(0.0));
        let guess_pps = self.near_pps.unwrap_or(just_done_pps);
        let at_guess = losses.excess(guess_pps)?;
        if self.near_pps.is_some() || at_guess <= losses.turn() {
            return losses.cliff((guess_pps, at_guess), self.near_pps.map_or(2.0, |_| NEAR_STEP), self.width);
        }
        losses.down_from_overload((guess_pps, at_guess), self.width)
    }
}

/// The losses of one kind of traffic against a bound.
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

    /// Logarithm of the loss over the bound, going on straight where the host is overloaded: above 0 where the load is too high.
    fn excess(&mut self, pps: f64) -> Result<f64, EngineFailure> {
        self.evaluations += 1;
        let outcome = self.engine.evaluate(&at(self.host, self.scheme, self.traffic, pps))?;
        let found = outcome.loss_fraction.map(|figure| figure.value).ok_or_else(|| missing("loss"))?;
        let turn = self.overloaded();
        Ok(match found {
            _ if found <= self.bound => math::ln(found / self.bound).clamp(LEAST_EXCESS, 0.0),
            _ if found <= turn => math::ln(found / self.bound),
            _ => math::ln(turn / self.bound) + (found - turn) / turn,
        })
    }

    /// Loss above which the host counts as overloaded.
    fn overloaded(&self) -> f64 {
        OVERLOADED.max(self.bound)
    }

    /// Excess there.
    fn turn(&self) -> f64 {
        math::ln(self.overloaded() / self.bound)
    }

    /// The cliff, from an overloaded host down: where its loss would end if it went on straight, which is near the cliff.
    fn down_from_overload(mut self, mut high: (f64, f64), width: f64) -> Result<Bound, EngineFailure> {
        let loss = |excess: f64, turn: f64| OVERLOADED.max(self.bound) * (1.0 + excess - turn);
        let turn = self.turn();
        // Where livelock makes what is lost grow quicker than the load.
        let mut pps = high.0 * (1.0 - STEEPER * loss(high.1, turn).min(1.0));
        for _ in 0..STRAIGHT {
            let next = (pps, self.excess(pps)?);
            if next.1 <= 0.0 {
                return self.between(next, high, width);
            }
            let slope = (high.1 - next.1) / (high.0 - next.0);
            // The excess of no loss, on the straight line of overload.
            let straight = next.0 - (next.1 - (turn - 1.0)).max(0.0) / slope;
            high = next;
            pps = straight.min(next.0 * (1.0 - LEAST_STEP_DOWN)).max(0.25 * next.0);
        }
        self.cliff(high, 2.0, width)
    }

    /// The cliff, from a load with its excess, by steps that begin with `step`, to a relative width.
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

    /// The cliff between two loads, each with its excess.
    fn between(&mut self, low: (f64, f64), high: (f64, f64), width: f64) -> Result<Bound, EngineFailure> {
        let (pps, crossing_pps, steep) = bound(low, high, width, &mut |pps| self.excess(pps))?;
        Ok(Bound { cliff: Cliff { pps, evaluations: self.evaluations }, crossing_pps, steep })
    }
}

/// What [`CliffSearch::cliff`] finds where nothing is expected, to a part in 1e5.
///
/// # Errors
/// As there.
pub fn cliff(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    loss: f64,
) -> Result<Cliff, EngineFailure> {
    CliffSearch::default().cliff(engine, host, scheme, traffic, loss)
}

/// The highest load within the bound, between one `low` within it and one `high` beyond it, each with its excess; where a line between the last two has
/// it; and how steep the excess is there, a unit of the load's logarithm.
///
/// Chandrupatla, A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without using derivatives,
/// Advances in Engineering Software 28 (1997): inverse quadratic interpolation where three points allow it, else the middle, so that
/// a step in the loss takes no more evaluations than bisection. Loads are taken as logarithms.
fn bound(
    low: (f64, f64),
    high: (f64, f64),
    width: f64,
    excess: &mut dyn FnMut(f64) -> Result<f64, EngineFailure>,
) -> Result<(f64, f64, f64), EngineFailure> {
    let log = |(pps, excess): (f64, f64)| (math::ln(pps), excess);
    // The newest point, the one on the other side of the bound, and where to go between them.
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
        // A little beyond an end that is as good as the cliff: the other end then comes near as well.
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

/// Where between `a` and `b` the bound is by inverse quadratic interpolation through `c` as well; the middle where that is not sound.
fn next_share(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> f64 {
    let (place, value) = ((a.0 - b.0) / (c.0 - b.0), (a.1 - b.1) / (c.1 - b.1));
    if value.powi(2) < place && (1.0 - value).powi(2) < 1.0 - place {
        a.1 / (b.1 - a.1) * c.1 / (b.1 - c.1) + (c.0 - a.0) / (b.0 - a.0) * a.1 / (c.1 - a.1) * b.1 / (c.1 - b.1)
    } else {
        0.5
    }
}

/// The first step from the cliff to the peak, as a share of it: of hosts with large rings and sockets the peak is that near. The peak is found when no
/// more than the second is to be gained.
const PEAK_STEP: f64 = 1e-3;
const PEAK_GAIN: f64 = 5e-7;
/// Evaluations around the peak.
const MOST_AROUND_PEAK: usize = 24;

/// Throughput at twice the cliff over the peak: 1 holds, 0 is receive livelock.
///
/// The peak is looked for from the cliff to twice it (below the cliff next to all is delivered): by growing steps until throughput falls,
/// then by parabolas through three loads, and by golden section where these are of no use.
pub fn livelock_index(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    cliff_pps: f64,
) -> Result<f64, EngineFailure> {
    let throughput = |engine: &dyn Engine, pps: f64| -> Result<f64, EngineFailure> {
        let outcome = engine.evaluate(&at(host, scheme, traffic, pps))?;
        outcome.throughput_pps.map(|figure| figure.value).ok_or_else(|| missing("throughput"))
    };
    // A peak is flat: where a guide has it will do, and what it is there is the engine's. Far beyond, where the socket
    // is never empty for long, the guide's throughput is the engine's but for some parts in 1e9.
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

/// The load of the highest throughput from the cliff to twice it, where it is `beyond`; and that throughput.
fn peak(
    cliff_pps: f64,
    beyond: f64,
    throughput: &dyn Fn(f64) -> Result<f64, EngineFailure>,
) -> Result<(f64, f64), EngineFailure> {
    // Just below the cliff all that is offered is delivered, as far as it matters here.
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
    // The width when it was last seen to have halved, and how often it has not since.
    let (mut width, mut slow) = (high.0 - low.0, 0);
    for _ in 0..MOST_AROUND_PEAK {
        let peak = parabola(low, best, high);
        let expected = peak.filter(|(pps, _)| (low.0..high.0).contains(pps));
        if high.0 - low.0 <= 1e-6 * high.0 || expected.is_some_and(|(_, value)| value - best.1 <= PEAK_GAIN * best.1) {
            break;
        }
        // Into the wider side where the parabola's peak is too near to what is known, or does not exist.
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

/// The highest point of a parabola through three; None: it has none.
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

fn at(host: &Host, scheme: &Scheme, traffic: &Traffic, pps: f64) -> Point {
    Point { host: host.clone(), scheme: scheme.clone(), traffic: traffic.at_pps(pps) }
}

fn missing(figure: &str) -> EngineFailure {
    EngineFailure::Failed(format!("the engine gave no {figure}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fidelity, ModelEngine};

    fn loss_at(engine: &dyn Engine, host: &Host, scheme: &Scheme, traffic: &Traffic, pps: f64) -> f64 {
        engine.evaluate(&at(host, scheme, traffic, pps)).expect("an answer").loss_fraction.expect("a loss").value
    }

    /// The loss at the cliff is within the bound, a part in 1e5 above it no more; an evaluation of a chain takes up to half a second, and
    /// bisection takes 17 besides those of its bracket.
    #[test]
    fn the_cliff_is_where_the_bound_is_in_few_evaluations() {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let traffic = Traffic::poisson(1.0);
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

    /// A guide leaves cliff and index as they are without one, and takes one evaluation of the engine, or three.
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
        let traffic = Traffic::poisson(1.0);
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

    /// A bound of no loss would make the excess 0/0 where a loss is too small for a double.
    #[test]
    fn a_bound_that_is_no_share_is_refused() {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let (host, traffic) = (Host { ring: 8, ..Host::pentium4_2530mhz() }, Traffic::poisson(1.0));
        for loss in [0.0, -1e-4, 1.0, f64::NAN, f64::INFINITY] {
            let found = cliff(&engine, &host, &Scheme::Ideal, &traffic, loss);
            assert!(matches!(found, Err(EngineFailure::Invalid(_))), "{loss}: {found:?}");
        }
    }
}
