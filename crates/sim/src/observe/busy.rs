//! [`Busy`]: periods in which the CPU is busy without interruption.

use netcliff_core::{BusyPeriods, Figure};

use super::ObservedReplication;
use crate::clock::Clock;
use crate::stats::{mean_around, ratio};
use crate::tally::{Account, Histogram, Pool, SEGMENTS};

/// Lengths of the busy periods, by the part of the run in which they end.
#[derive(Debug)]
pub(super) struct Busy {
    began: Option<u64>,
    lengths: Vec<Histogram>,
    sums: [(u64, u64); SEGMENTS + 1],
}

/// Lengths of the busy periods of a replication.
#[derive(Debug)]
pub(super) struct Lengths {
    pool: Pool,
    count: u64,
    /// Sum of their lengths [ticks].
    ticks: u64,
}

impl Busy {
    pub(super) fn new() -> Self {
        let lengths = (0..=SEGMENTS).map(|_| Histogram::default()).collect();
        Self { began: None, lengths, sums: [(0, 0); SEGMENTS + 1] }
    }

    /// Records that the CPU was on `account`. Calls come in order and without gaps.
    pub(super) fn spent(&mut self, account: Account, from: u64, _to: u64, segment: usize) {
        // A pause neither begins nor ends a busy period: frozen work continues later, and an idle CPU stays idle.
        if account == Account::Paused {
            return;
        }
        if account != Account::Available {
            self.began.get_or_insert(from);
            return;
        }
        if let Some(began) = self.began.take() {
            self.lengths[segment].add(from - began);
            let (count, ticks) = &mut self.sums[segment];
            (*count, *ticks) = (*count + 1, *ticks + from - began);
        }
    }

    /// The busy periods, without the first `warm` tenths and without the busy periods after the end.
    pub(super) fn lengths(&self, warm: usize) -> Lengths {
        let mut pool = Pool::default();
        self.lengths[warm..SEGMENTS].iter().for_each(|histogram| pool.add(histogram));
        let parts = self.sums[warm..SEGMENTS].iter();
        let (count, ticks) = parts.fold((0, 0), |(count, ticks), part| (count + part.0, ticks + part.1));
        Lengths { pool, count, ticks }
    }
}

/// The statistics over all replications.
pub(super) fn periods(seen: &[ObservedReplication], clock: Clock, confidence: f64) -> Option<BusyPeriods> {
    let tick_s = clock.seconds(1.0);
    let figure = |pairs: Vec<(f64, f64)>| ratio(&pairs, confidence);
    let per_tick = figure(seen.iter().map(|one| (one.busy.count as f64, one.replication.counts.at as f64)).collect())?;
    let mean = figure(seen.iter().map(|one| (one.busy.ticks as f64, one.busy.count as f64)).collect());
    let mut together = Pool::default();
    seen.iter().for_each(|one| together.merge(&one.busy.pool));
    let shares = [0.5, 0.99];
    let quantiles = together.quantiles(shares);
    let quantile = |nth: usize| -> Option<Figure> {
        let each: Vec<f64> =
            seen.iter().filter_map(|one| one.busy.pool.quantiles(shares)).map(|values| values[nth]).collect();
        Some(mean_around(quantiles?[nth], &each, confidence).scaled(tick_s))
    };
    Some(BusyPeriods {
        per_s: per_tick.scaled(1.0 / tick_s),
        mean_s: mean.map(|mean| mean.scaled(tick_s)),
        p50_s: quantile(0),
        p99_s: quantile(1),
        max_s: quantiles.map(|_| Figure::exact(together.max() as f64 * tick_s)),
    })
}
