//! Checks whether replications are long enough for every figure they report, and estimates how much longer they would
//! have to be.
//!
//! Three rules apply to each of these series: the number of packets in the host, the number in the ring, and the
//! latency of the packets that leave. A series has one value for each cell of a replication ([`CELLS`]):
//!
//! 1. the warm-up ends in the first half ([`warm_up`]). Latencies settle later than the queues, by the time that
//!    packets spend in the host;
//! 2. the rest is [`STRETCHES`] times as long as the integrated autocorrelation time of the series, so that the empty
//!    host at the start has no influence, and each replication has enough independent values. It also contains
//!    [`STRETCHES`] decisions of a scheme that adapts itself ([`decisions`]), and [`STRETCHES`] pauses of the CPU if
//!    the host has pauses ([`pauses`]);
//! 3. Little's law: the integral of the number inside is the sum of the times of the packets that left, up to the ages
//!    of the packets inside when the window opens and when it closes. These ages together are at most [`EDGES`] of the
//!    integral, and the difference between opening and closing would not move the mean latency out of its interval.

use netcliff_core::note::Lack;
use netcliff_core::{Point, Scheme, net_dim};

use crate::clock::Clock;
use crate::replicate::{Replication, WarmUp};
use crate::schemes::hybrid;
use crate::stats::{mser_5, ratio};
use crate::tally::{Account, CELLS, Counts, SEGMENTS};

/// Smallest length of a replication, in autocorrelation times. An estimate of the autocorrelation time is good from
/// fifty of them, and a tenth or two too low from five (Sokal 1997, section 3). Both are far from twenty, so that a
/// replication that is too short is recognised. How many intervals contain the true value with this constant is
/// measured by `cargo test -p netcliff-sim --release --test sim coverage:: -- --ignored`.
const STRETCHES: f64 = 20.0;
/// Sokal's automatic window: the autocorrelation is summed up to a lag of this multiple of the sum so far.
const WINDOW: f64 = 5.0;
/// Largest share of the packets' total time inside the window that may belong to packets that arrived before the window
/// or leave after it. If all packets spend the same time in the host, the window is then at least ten of these times
/// long.
const EDGES: f64 = 0.1;
/// Differences between the two sides of Little's law are ignored below this share of the mean latency, because constant
/// times have intervals of width 0.
const ALIKE: f64 = 1e-4;

/// How much longer the replications would have to be, and the reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Short {
    /// Factor by which the length has to grow, above 1.
    pub longer: f64,
    /// The first rule that is violated.
    pub lack: Lack,
}

/// A figure as a ratio of two counts.
type Series = fn(&Counts) -> (f64, f64);

/// The series that stand for all figures of an outcome: throughput, losses and shares of the CPU change together with
/// the numbers of packets inside.
const SERIES: [Series; 3] = [
    |counts| (counts.system_area as f64, counts.at as f64),
    |counts| (counts.ring_area as f64, counts.at as f64),
    |counts| (counts.latency as f64, counts.delivered as f64),
];

/// Returns the changes of a series between consecutive marks.
fn cells(marks: &[Counts], series: Series) -> Vec<(f64, f64)> {
    marks.windows(2).map(|pair| series(&pair[1].since(&pair[0]))).collect()
}

/// Determines the warm-up by MSER-5 on each series, averaged over the replications (given by their marks). The longest
/// warm-up counts, rounded up to the next tenth of the run, where the latency histogram can be cut too. If each
/// replication determined a separate warm-up, replications that begin with congestion would lose it, and the mean would
/// be too low: by 1.6 % in M/M/1 at 80 % load with 20 000 arrivals each.
pub(crate) fn warm_up<'a>(
    point: &Point,
    clock: Clock,
    replications: impl Iterator<Item = &'a [Counts]> + Clone,
) -> WarmUp {
    let each =
        |series: Series| -> Vec<Vec<(f64, f64)>> { replications.clone().map(|marks| cells(marks, series)).collect() };
    let series: Vec<Vec<Vec<(f64, f64)>>> = SERIES.iter().map(|series| each(*series)).collect();
    let found: Option<Vec<usize>> = series.iter().map(|replications| mser_5(&averaged(replications))).collect();
    let Some(cut) = found.and_then(|found| found.into_iter().max()) else {
        return WarmUp { tenths: SEGMENTS - 1, settled: false, stretches: 0.0, pauses: 0.0 };
    };
    let tenths = cut.div_ceil(CELLS / 10);
    let kept = (CELLS - tenths * CELLS / 10) as f64;
    let remembered =
        series.iter().map(|replications| autocorrelation_cells(replications, tenths * CELLS / 10)).fold(1.0, f64::max);
    let decided = decisions(&point.scheme, tenths, replications.clone());
    let pauses = pauses(point, clock, tenths, replications);
    WarmUp { tenths, settled: true, stretches: (kept / remembered).min(decided), pauses }
}

/// Expected number of CPU pauses in a replication after its warm-up; infinite for a host without pauses. The number is
/// computed, not counted, because a run in which none of the rare pauses occurs would look steady and precise.
fn pauses<'a>(point: &Point, clock: Clock, tenths: usize, replications: impl Iterator<Item = &'a [Counts]>) -> f64 {
    let Some(pauses) = point.host.pauses() else { return f64::INFINITY };
    let (ticks, count) = replications.fold((0.0, 0.0), |(ticks, count), marks| {
        (ticks + (marks[CELLS].at - marks[tenths * CELLS / 10].at) as f64, count + 1.0)
    });
    pauses.per_s() * clock.seconds(ticks) / count
}

/// If less than this share of the CPU is left over, a ring is hardly ever empty, so that the time of the next interrupt
/// hardly matters.
const NOTHING_LEFT: f64 = 1e-3;

/// Mean number of decisions of a self-adapting scheme in a replication; infinite for other schemes. Until the first
/// decisions, the figures show the scheme's initial setting, and look steady: dim at 164 kpps has a mean latency of 27
/// us in replications of 2000 packets with two decisions each, and 49 us in the long run.
fn decisions<'a>(scheme: &Scheme, tenths: usize, replications: impl Iterator<Item = &'a [Counts]>) -> f64 {
    let kept: Vec<Counts> = replications.map(|marks| marks[CELLS].since(&marks[tenths * CELLS / 10])).collect();
    let sum = |of: fn(&Counts) -> u64| kept.iter().map(of).sum::<u64>() as f64;
    let counted = match scheme {
        Scheme::Dim(_) => {
            let left =
                sum(|counts| counts.cpu[Account::Available as usize] + counts.cpu[Account::Application as usize]);
            let served = sum(|counts| counts.cpu[Account::Application as usize]) > 0.0;
            if !served && left < NOTHING_LEFT * sum(|counts| counts.at) {
                return f64::INFINITY;
            }
            sum(|counts| counts.interrupts) / net_dim::EVENTS as f64
        }
        // Each cycle changes the quota by one, so that `burst_max` cycles count as one decision.
        Scheme::FreebsdPolling(own) => sum(|counts| counts.polls) / own.burst_max as f64,
        Scheme::Hybrid(hybrid) => sum(|counts| counts.processed) * hybrid.ewma / hybrid::WINDOW as f64,
        _ => return f64::INFINITY,
    };
    counted / kept.len() as f64
}

/// Averages the series over all replications, cell by cell. A cell without leaving packets repeats the previous value.
fn averaged(replications: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let mut last = 0.0;
    let cell = |cell: usize| {
        let (above, below) = replications.iter().fold((0.0, 0.0), |(a, b), one| (a + one[cell].0, b + one[cell].1));
        if below > 0.0 {
            last = above / below;
        }
        last
    };
    (0..CELLS).map(cell).collect()
}

/// Integrated autocorrelation time of a series from cell `from` on, in cells, at least 1. Deviations are from the ratio
/// over all replications, so that replications that stay at different levels give a long time.
fn autocorrelation_cells(replications: &[Vec<(f64, f64)>], from: usize) -> f64 {
    let kept = || replications.iter().map(|one| &one[from..]);
    let (above, below) = kept().flatten().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    let level = if below > 0.0 { above / below } else { 0.0 };
    let deviations: Vec<Vec<f64>> = kept().map(|one| one.iter().map(|(x, y)| x - level * y).collect()).collect();
    let length = CELLS - from;
    let covariance = |lag: usize| -> f64 {
        let products = |one: &Vec<f64>| one.iter().zip(&one[lag..]).map(|(x, later)| x * later).sum::<f64>();
        deviations.iter().map(products).sum::<f64>() / (length - lag) as f64
    };
    let variance = covariance(0);
    // Sums of rounding errors do not count as variance.
    let scale = replications.len() as f64 * (above / (length * replications.len()) as f64).powi(2);
    if variance <= 1e-18 * scale {
        return 1.0;
    }
    let mut sum = 1.0;
    for lag in 1..length {
        sum += 2.0 * covariance(lag) / variance;
        if lag as f64 >= WINDOW * sum {
            break;
        }
    }
    sum.max(1.0)
}

/// Returns why these replications are too short, and by how much. `None` if they are long enough. `confidence` is the
/// confidence level of the intervals.
pub(crate) fn short(replications: &[Replication], confidence: f64) -> Option<Short> {
    let warm_up = replications.first()?.warm_up;
    let instants = replications.iter().filter(|one| one.counts.at == 0).count();
    if instants > 0 {
        return Some(Short { longer: f64::INFINITY, lack: Lack::Time(instants) });
    }
    if !warm_up.settled {
        return Some(Short { longer: 2.0, lack: Lack::Steady });
    }
    if warm_up.stretches < STRETCHES {
        let longer = (STRETCHES / warm_up.stretches.max(f64::MIN_POSITIVE) * 1.1).max(1.5);
        return Some(Short { longer, lack: Lack::Stretches });
    }
    if warm_up.pauses < STRETCHES {
        let longer = (STRETCHES / warm_up.pauses.max(f64::MIN_POSITIVE) * 1.1).max(1.5);
        return Some(Short { longer, lack: Lack::Pauses(warm_up.pauses) });
    }
    out_of_balance(replications, confidence)
}

/// Returns the factor by which replications with these marks (counts at regular arrivals) would have to be longer, by
/// the rules that need no interval; 1 if they are long enough. `tenths` of the run are cut off as warm-up.
pub(crate) fn lacking<'a>(warm_up: WarmUp, tenths: usize, replications: impl Iterator<Item = &'a [Counts]>) -> f64 {
    if !warm_up.settled {
        return 2.0;
    }
    let (mut ages, mut inside) = (0, 0);
    for marks in replications {
        let (first, last) = (&marks[tenths * CELLS / 10], &marks[CELLS]);
        ages += first.ages() + last.ages();
        inside += last.since(first).system_area;
    }
    let outside = ages as f64 / (inside as f64).max(1.0);
    (STRETCHES / warm_up.stretches.min(warm_up.pauses).max(f64::MIN_POSITIVE)).max(outside / EDGES).max(1.0)
}

/// Whether packets spend so long in the host that the replications are too short to average their latencies.
pub(crate) fn outstayed(replications: &[Replication]) -> bool {
    outside(replications) > EDGES
}

/// Share of the packets' total time in the window that belongs to packets that arrived before it or leave after it.
fn outside(replications: &[Replication]) -> f64 {
    let ages: u128 = replications.iter().map(|one| one.ages.0 + one.ages.1).sum();
    let inside: u128 = replications.iter().map(|one| one.counts.system_area).sum();
    ages as f64 / (inside as f64).max(1.0)
}

/// Checks Little's law over the replications. `None` if it holds.
fn out_of_balance(replications: &[Replication], confidence: f64) -> Option<Short> {
    let sum = |of: &dyn Fn(&Replication) -> f64| replications.iter().map(of).sum::<f64>();
    let (before, after) = (sum(&|one| one.ages.0 as f64), sum(&|one| one.ages.1 as f64));
    let inside = sum(&|one| one.counts.system_area as f64);
    let outside = outside(replications);
    if outside > EDGES {
        return Some(Short { longer: (outside / EDGES).max(1.5), lack: Lack::Stay(outside) });
    }
    let pairs: Vec<(f64, f64)> =
        replications.iter().map(|one| (one.counts.latency as f64, one.counts.delivered as f64)).collect();
    let width = ratio(&pairs, confidence)?.relative_half_width();
    let apart = (after - before).abs() / inside;
    (apart > width.max(ALIKE)).then_some(Short { longer: 2.0, lack: Lack::Balance(apart) })
}

#[cfg(test)]
mod tests;
