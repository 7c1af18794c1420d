//! Limits of a simulation's results: precision that was not reached, and intervals that are not justified.

use netcliff_core::note::{Missed, Note, Replications};
use netcliff_core::outcome::{Aims, Attained};
use netcliff_core::traffic::OnOff;
use netcliff_core::{Arrivals, Figure, Measure, Outcome, Point, Precision};

use crate::batch::Batch;
use crate::clock::Clock;
use crate::length::Short;
use crate::tally::QUANTILE_HALF_WIDTH;

/// Shape of a Pareto distribution below which its variance is infinite, so that means have no t interval.
const FINITE_VARIANCE: f64 = 2.0;

/// Whether means of this traffic justify no interval, because ON or OFF periods have infinite variance and no cut-off.
/// In a test with forty 95 % intervals of the realised load (ten replications, seeds 0 to 39, 60 kpps), 30 contained
/// the requested load with 1e6 arrivals, and 26 with 4e6; with a cut-off of 10 ms, 37.
pub(crate) fn is_heavy_tailed(arrivals: &Arrivals) -> bool {
    match arrivals {
        Arrivals::OnOff(shape) => shape.cutoff_s.is_none() && shape.alpha_on.min(shape.alpha_off) < FINITE_VARIANCE,
        Arrivals::Thinned { of, .. } => is_heavy_tailed(of),
        _ => false,
    }
}

/// Whether an interval of `figure` is not justified: for means of heavy-tailed traffic, and for results for which the
/// replications were too short. If packets stay in the host too long compared with a replication, only the intervals of
/// latencies are not justified.
pub(crate) fn is_unearned(point: &Point, short: Option<Short>, figure: &Measure) -> bool {
    if is_heavy_tailed(&point.traffic.arrivals) {
        return !figure.is_quantile();
    }
    short.is_some_and(|short| short.lack.concerns_all() || figure.is_latency())
}

/// Compares the precision reached on `figures` with `asked`, the requested precision. A figure without a justified
/// interval has not reached it.
pub(crate) fn precision(
    outcome: &Outcome,
    batch: &Batch,
    asked: f64,
    figures: Aims,
    is_unearned: impl Fn(&Measure) -> bool,
) -> Precision {
    let figures: Vec<Attained> = figures
        .measures()
        .filter_map(|figure| {
            let unearned = is_unearned(figure);
            let attained = Attained::of(figure, outcome, asked)?;
            Some(if unearned { Attained { half_width: None, reached: false, ..attained } } else { attained })
        })
        .collect();
    let replications = batch.replications.len() as u64;
    let reached = !batch.is_an_instant() && figures.iter().all(|attained| attained.reached);
    Precision { asked, reached, packets: batch.packets_each * replications, replications, figures }
}

/// Removes the intervals that are not justified.
pub(crate) fn withdraw_unearned(point: &Point, short: Option<Short>, outcome: &mut Outcome) {
    if is_heavy_tailed(&point.traffic.arrivals) {
        return withdraw_means(outcome);
    }
    let Some(short) = short else { return };
    if short.lack.concerns_all() {
        withdraw_means(outcome);
    }
    if let Some(latency) = &mut outcome.latency_s {
        [
            &mut latency.done_mean,
            &mut latency.mean,
            &mut latency.p50,
            &mut latency.p90,
            &mut latency.p99,
            &mut latency.p999,
        ]
        .into_iter()
        .for_each(bare);
    }
    outcome.applications.iter_mut().for_each(|one| bare(&mut one.mean_latency_s));
}

/// Removes the interval of a figure.
fn bare(figure: &mut Option<Figure>) {
    *figure = figure.map(|figure| Figure::exact(figure.value));
}

fn withdraw_means(outcome: &mut Outcome) {
    [
        &mut outcome.offered_pps,
        &mut outcome.throughput_pps,
        &mut outcome.goodput_bps,
        &mut outcome.loss_fraction,
        &mut outcome.interrupts_per_s,
        &mut outcome.polls_per_s,
        &mut outcome.packets_per_poll,
        &mut outcome.packets_in_system,
    ]
    .into_iter()
    .for_each(bare);
    if let Some(loss) = &mut outcome.loss {
        [&mut loss.ring, &mut loss.socket, &mut loss.sender].into_iter().for_each(bare);
    }
    if let Some(sent) = &mut outcome.transmitted {
        [&mut sent.completed_pps, &mut sent.refused_fraction, &mut sent.waiting_s].into_iter().for_each(bare);
    }
    for one in &mut outcome.applications {
        [&mut one.offered_pps, &mut one.throughput_pps, &mut one.goodput_bps].into_iter().for_each(bare);
        [&mut one.mean_latency_s, &mut one.cpu].into_iter().for_each(bare);
        if let Some(loss) = &mut one.loss {
            [&mut loss.ring, &mut loss.socket, &mut loss.sender].into_iter().for_each(bare);
        }
    }
    if let Some(latency) = &mut outcome.latency_s {
        [&mut latency.mean, &mut latency.done_mean].into_iter().for_each(bare);
    }
    if let Some(cpu) = &mut outcome.cpu {
        [&mut cpu.interrupt, &mut cpu.poll, &mut cpu.protocol].into_iter().for_each(bare);
        [&mut cpu.application, &mut cpu.paused, &mut cpu.available].into_iter().for_each(bare);
    }
}

/// Returns the notes of an outcome.
pub(crate) fn notes(
    point: &Point,
    outcome: &Outcome,
    batch: &Batch,
    clock: Clock,
    (short, withheld): (Option<Short>, bool),
) -> Vec<Note> {
    let mut notes = Vec::new();
    let heavy = is_heavy_tailed(&point.traffic.arrivals);
    if heavy {
        let offered = outcome.offered_pps.zip(point.rate_pps());
        notes.push(Note::HeavyTails(offered.map(|(offered, asked)| (offered.value, asked))));
    }
    if let Arrivals::OnOff(OnOff { printed_off: true, .. }) = &point.traffic.arrivals {
        notes.extend(point.rate_pps().map(Note::PrintedOff));
    }
    notes.extend(match point.traffic.arrivals.read_once() {
        Some(packets) => Some(Note::ReplayedOnce(packets)),
        None => captured(&point.traffic.arrivals).map(|packets| Note::Replayed(packets, batch.packets_each)),
    });
    notes.extend(short.map(|short| {
        let ticks = batch.replications.iter().map(|one| one.counts.at).max().unwrap_or(0);
        let (count, packets_each) = (batch.replications.len(), batch.packets_each);
        let these = Replications { count, packets_each, lasting_s: clock.seconds(ticks as f64) };
        Note::TooShort(short.lack, these, withheld && !heavy)
    }));
    notes.extend(outcome.precision.as_ref().and_then(|precision| imprecise(precision, heavy)));
    notes
}

/// Number of packets in the replayed capture. `None` if the arrivals are not from a capture.
fn captured(arrivals: &Arrivals) -> Option<usize> {
    match arrivals {
        Arrivals::Trace { capture, .. } => Some(capture.as_ref()?.packets.len()),
        Arrivals::Thinned { of, .. } => captured(of),
        _ => None,
    }
}

/// Returns a note on the figures that missed the precision. For heavy-tailed traffic, it names only those that have an
/// interval. `None` if all figures reached the precision.
fn imprecise(precision: &Precision, heavy: bool) -> Option<Note> {
    let missed = |attained: &&Attained| !(attained.reached || heavy && !attained.figure.is_quantile());
    let limit = (Precision::goal(precision.asked) <= QUANTILE_HALF_WIDTH).then_some(QUANTILE_HALF_WIDTH);
    let described = |attained: &Attained| Missed {
        name: attained.figure.name,
        half_width: attained.half_width,
        of_cpu: attained.figure.is_cpu(),
        never_below: limit.filter(|_| attained.figure.is_quantile()),
    };
    let figures: Vec<Missed> = precision.figures.iter().filter(missed).map(described).collect();
    (!figures.is_empty()).then_some(Note::Imprecise(
        precision.asked,
        precision.packets,
        precision.replications,
        figures,
    ))
}

#[cfg(test)]
mod tests;
