//! Limits of a simulation's results: precision that was not reached, and intervals that are not justified.

use netcliff_core::precision::{Aims, Attained, goal};
use netcliff_core::{Arrivals, Figure, Measure, Outcome, Point, Precision, units};

use crate::clock::Clock;
use crate::length::{Lack, Short};
use crate::replicate::Batch;
use crate::tally::QUANTILE_HALF_WIDTH;

/// Pareto shapes below this have no variance, so that their mean follows no t distribution.
const FINITE_VARIANCE: f64 = 2.0;

/// Whether means of this traffic justify no interval, because ON or OFF periods have no variance and no cut-off. Of
/// forty 95 % intervals of the realised load (ten replications, seeds 0 to 39, 60 kpps), 30 contained the requested
/// load with 1e6 arrivals and 26 with 4e6; with a cut-off of 10 ms, 37.
pub(crate) fn is_heavy_tailed(arrivals: &Arrivals) -> bool {
    match arrivals {
        Arrivals::OnOff(shape) => shape.cutoff_s.is_none() && shape.alpha_on.min(shape.alpha_off) < FINITE_VARIANCE,
        Arrivals::Thinned { of, .. } => is_heavy_tailed(of),
        _ => false,
    }
}

/// Whether an interval of `figure` is not justified: for means of heavy-tailed traffic, and for results that the
/// replications were too short for. If packets stay inside for too long, only their times are affected.
pub(crate) fn is_unearned(point: &Point, short: Option<Short>, figure: &Measure) -> bool {
    if is_heavy_tailed(&point.traffic.arrivals) {
        return !is_quantile(figure);
    }
    short.is_some_and(|short| short.concerns_all() || figure.key.starts_with("latency_"))
}

/// The precision reached on `figures` compared with `asked`. A figure whose interval is not justified has not reached
/// it.
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

pub(crate) fn is_quantile(figure: &Measure) -> bool {
    figure.key.starts_with("latency_p")
}

/// Removes the intervals that are not justified.
pub(crate) fn withdraw_unearned(point: &Point, short: Option<Short>, outcome: &mut Outcome) {
    if is_heavy_tailed(&point.traffic.arrivals) {
        return withdraw_means(outcome);
    }
    let Some(short) = short else { return };
    if short.concerns_all() {
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

/// The notes of an outcome, in sentences.
pub(crate) fn notes(
    point: &Point,
    outcome: &Outcome,
    batch: &Batch,
    clock: Clock,
    (short, withheld): (Option<Short>, bool),
) -> Vec<String> {
    let mut notes = Vec::new();
    let heavy = is_heavy_tailed(&point.traffic.arrivals);
    if heavy {
        notes.push(heavy_tails(point, outcome));
    }
    notes.extend(match point.traffic.arrivals.read_once() {
        Some(packets) => Some(replayed_once(packets)),
        None => captured(&point.traffic.arrivals).map(|packets| replayed(packets, batch.packets_each)),
    });
    notes.extend(short.map(|short| too_short(short, batch, clock, withheld && !heavy)));
    if let Some(precision) = outcome.precision.as_ref().filter(|precision| !precision.reached) {
        notes.extend(not_reached(precision, heavy));
    }
    notes
}

/// Describes what the replications are too short for and, if intervals are withheld, the consequence.
fn too_short(short: Short, batch: &Batch, clock: Clock, withheld: bool) -> String {
    let ticks = batch.replications.iter().map(|one| one.counts.at).max().unwrap_or(0);
    let these = format!("{} replications of {} packets", batch.replications.len(), batch.packets_each);
    let lasting = format!("{these} ({:.3} s after the warm-up)", clock.seconds(ticks as f64));
    let lack = match short.lack {
        Lack::Time(_) if batch.is_an_instant() => format!(
            "{these} lie within bursts: all packets after the warm-up have one arrival time, so that rates, shares of the CPU and \
             averages over time are omitted"
        ),
        Lack::Time(instants) => format!("{instants} of {these} lie within bursts of one arrival time"),
        Lack::Steady => format!("{these} show no steady state in their first half"),
        Lack::Stretches => format!("{lasting} are too short for queues that change so slowly"),
        Lack::Pauses(count) => {
            format!("{lasting} hold {count:.1} pauses each on average, too few to tell what pauses do")
        }
        Lack::Stay(share) => format!(
            "packets stay inside too long for {lasting}: {:.0} % of their times lie before the window or after it",
            100.0 * share.min(1.0)
        ),
        Lack::Balance(share) => {
            format!("Little's law and the mean latency differ by {:.2} % in {lasting}", 100.0 * share)
        }
    };
    let without = match (withheld, short.concerns_all()) {
        (false, _) => "",
        (true, true) => "; no figure has an interval",
        (true, false) => "; latencies have no interval",
    };
    format!("{lack}{without}: simulate more packets")
}

/// Number of packets in the capture that arrivals are taken from. `None` for other arrivals.
fn captured(arrivals: &Arrivals) -> Option<usize> {
    match arrivals {
        Arrivals::Trace { capture, .. } => Some(capture.as_ref()?.packets.len()),
        Arrivals::Thinned { of, .. } => captured(of),
        _ => None,
    }
}

fn replayed(packets: usize, each: u64) -> String {
    let note = format!(
        "a trace of {packets} packets, read around from different places: the intervals tell how much its parts differ, \
         not how another recording would"
    );
    if each <= packets as u64 {
        return note;
    }
    format!("{note}; each replication goes around {:.1} times", each as f64 / packets as f64)
}

fn replayed_once(packets: usize) -> String {
    format!(
        "a trace of {packets} packets, read once from its start in each replication, nothing cut off as warm-up: the intervals \
         tell what the host's own times change, not how another recording would differ"
    )
}

fn heavy_tails(point: &Point, outcome: &Outcome) -> String {
    let kpps = |pps: f64| format!("{:.4} kpps", pps / 1e3);
    let offered = outcome.offered_pps.zip(point.traffic.rate_pps());
    let load = offered.map_or(String::new(), |(offered, asked)| {
        format!(" ({} of the {} asked for)", kpps(offered.value), kpps(asked))
    });
    format!(
        "heavy-tailed traffic without a cutoff: means converge too slowly for an interval to be believed, and have none; \
         read quantiles, and the load that was really offered{load}"
    )
}

/// Describes which figures missed the precision, and how well they are known. For heavy-tailed traffic, only the
/// figures that have an interval. `None` if all reached it.
fn not_reached(precision: &Precision, heavy: bool) -> Option<String> {
    let missed = |attained: &&Attained| !(attained.reached || heavy && !is_quantile(&attained.figure));
    let parts: Vec<String> = precision
        .figures
        .iter()
        .filter(missed)
        .map(|attained| {
            let name = attained.figure.name;
            match attained.half_width {
                Some(width) if attained.figure.key.starts_with("cpu_") => format!("{name} ± {width:.2e} of one CPU"),
                Some(width) if is_quantile(&attained.figure) && goal(precision.asked) <= QUANTILE_HALF_WIDTH => {
                    format!("{name} ± {:.2} % (never below {:.2} %)", 100.0 * width, 100.0 * QUANTILE_HALF_WIDTH)
                }
                Some(width) => format!("{name} ± {:.2} %", 100.0 * width),
                None => format!("{name} not bounded"),
            }
        })
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "the precision of {} was not reached within the packets allowed ({} in {} replications at the end): {}",
            units::print_share(precision.asked),
            precision.packets,
            precision.replications,
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
