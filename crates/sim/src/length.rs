//! Whether replications are long enough for every figure they report, and by how much longer they would have to be.
//!
//! Three rules, each over the number of packets in the host, the number in the ring, and the latency of the packets that leave,
//! cell by cell of a replication ([`CELLS`]):
//!
//! 1. the warm-up ends in the first half ([`warm_up`]): latencies settle a time in the host later than the queues do;
//! 2. what is kept is [`STRETCHES`] times as long as the figures remember (their integrated autocorrelation time), so that the
//!    empty host at the start is forgotten, and replications neither share their luck from end to end nor are too few to tell; and as
//!    many times what a scheme that adapts itself counts for a decision ([`decisions`]), and so many pauses of the CPU where it has
//!    any ([`pauses`]);
//! 3. Little's law: the integral of the number inside is the sum of the times of those that left, up to the ages of those that were
//!    inside when the window opened and of those inside when it closed. Together they are at most [`EDGES`] of the integral, and what
//!    they differ by would not move the mean latency out of its interval.

use netcliff_core::{Point, Scheme, net_dim};

use crate::clock::Clock;
use crate::machine::{CELLS, SEGMENTS};
use crate::replicate::{Batch, Replication, WarmUp};
use crate::schemes::hybrid;
use crate::stats::{mser_5, ratio};
use crate::tally::{Account, Counts};

/// Autocorrelation times that a replication lasts at least. An integrated time is estimated well from fifty of it and too
/// low by a tenth or two from five (Sokal 1997, section 3), far from twenty either way: what is too short is found
/// out. `cargo test -p netcliff-sim --release --test sim coverage:: -- --ignored` repeats what intervals hold with it.
const STRETCHES: f64 = 20.0;
/// The autocorrelation is summed up to so many times its own integral (Sokal's automatic window).
const WINDOW: f64 = 5.0;
/// Largest share of the integral of the number inside that belongs to packets which came before the window or leave after it. With
/// times in the host all alike the window is then ten of them long.
const EDGES: f64 = 0.1;
/// A difference between the two sides of Little's law below this is no reason to go on (share of the mean latency): constant times
/// have intervals of no width.
const ALIKE: f64 = 1e-4;

/// What replications lack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lack {
    /// The warm-up does not end in their first half.
    Steady,
    /// They are too few autocorrelation times long.
    Stretches,
    /// So many pauses of the CPU are expected in each, which are too few.
    Pauses(f64),
    /// Packets stay inside for too large a part of them: this share of their times is outside the window.
    Stay(f64),
    /// The two sides of Little's law differ by this share of the mean latency, which is more than its interval.
    Balance(f64),
}

/// How much longer replications would have to be, as estimated from these, and for what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Short {
    /// Above 1.
    pub longer: f64,
    /// The first rule that is not kept.
    pub lack: Lack,
}

impl Short {
    /// True if no figure of the replications is to be relied on; else only the times of packets are not.
    pub(crate) fn concerns_all(self) -> bool {
        matches!(self.lack, Lack::Steady | Lack::Stretches | Lack::Pauses(_))
    }
}

/// A figure as a ratio of two parts of the counts.
type Series = fn(&Counts) -> (f64, f64);

/// What every figure of an outcome follows. Throughput, losses and shares of the CPU change as the numbers inside do.
const SERIES: [Series; 3] = [
    |counts| (counts.system_area as f64, counts.at as f64),
    |counts| (counts.ring_area as f64, counts.at as f64),
    |counts| (counts.latency as f64, counts.delivered as f64),
];

/// The changes of a series from mark to mark.
fn cells(marks: &[Counts], series: Series) -> Vec<(f64, f64)> {
    marks.windows(2).map(|pair| series(&pair[1].since(&pair[0]))).collect()
}

/// The warm-up by MSER-5 over each of the series, averaged over the replications (the marks of each), the longest of them, rounded
/// up to the next tenth of the run, where the latency histogram can be cut as well. Judged one by
/// one, replications would lose whatever congestion they chance to begin with, and the mean would be too low: by 1.6 %
/// in M/M/1 at 80 % load with 20 000 arrivals each.
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

/// Pauses of the CPU that the kept part of a replication is expected to hold; infinite for a host without. Expected and not
/// counted, since what loses packets in pauses that are rare looks steady, and well known, until one is met.
fn pauses<'a>(point: &Point, clock: Clock, tenths: usize, replications: impl Iterator<Item = &'a [Counts]>) -> f64 {
    let Some(pauses) = point.host.pauses() else { return f64::INFINITY };
    let (ticks, count) = replications.fold((0.0, 0.0), |(ticks, count), marks| {
        (ticks + (marks[CELLS].at - marks[tenths * CELLS / 10].at) as f64, count + 1.0)
    });
    pauses.per_s() * clock.seconds(ticks) / count
}

/// Share of the CPU left over below which a ring is hardly ever empty, so that when the next interrupt comes hardly matters.
const NOTHING_LEFT: f64 = 1e-3;

/// How many times what it counts for a decision a scheme that adapts itself has counted in a replication, on average; infinite for
/// others. Before the first decisions the figures are those of its start, and steady: dim at 164 kpps has 27 us in
/// replications of 2000 packets, with two decisions each, and 49 us in the long run.
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
        Scheme::Hybrid(hybrid) => sum(|counts| counts.processed) * hybrid.ewma / hybrid::WINDOW as f64,
        _ => return f64::INFINITY,
    };
    counted / kept.len() as f64
}

/// The series cell by cell over all replications together; a cell in which nothing left shows what the one before did.
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

/// The integrated autocorrelation time of a series in cells, from cell `from` on, at least 1. Deviations are those from the ratio
/// over all replications, so that replications which each stay at a level of their own are seen to.
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
    // Sums of rounding errors are no variance.
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

impl Batch {
    /// What the replications are too short for; None: nothing, or their length is chosen by the caller. Intervals are those of
    /// `confidence`.
    pub(crate) fn short(&self, confidence: f64) -> Option<Short> {
        if self.known.is_some() {
            return None;
        }
        let warm_up = self.replications.first()?.warm_up;
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
        out_of_balance(&self.replications, confidence)
    }
}

/// By how much longer replications with these marks would have to be for the rules that need no interval; 1: they are long enough.
/// `tenths` are cut off as their warm-up.
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

impl Batch {
    /// True if packets stay inside for too large a part of the replications.
    pub(crate) fn outstayed(&self) -> bool {
        outside(&self.replications) > EDGES
    }
}

/// Share of the times that belong to packets which came before the window or leave after it.
fn outside(replications: &[Replication]) -> f64 {
    let ages: u128 = replications.iter().map(|one| one.ages.0 + one.ages.1).sum();
    let inside: u128 = replications.iter().map(|one| one.counts.system_area).sum();
    ages as f64 / (inside as f64).max(1.0)
}

/// Little's law over the replications.
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
