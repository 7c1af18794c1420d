//! Computes an [`Outcome`] from counts: every figure is a ratio of sums over the replications, with its t interval.

use netcliff_core::math;
use netcliff_core::{ApplicationOutcome, CpuShares, Figure, Latency, Loss, Outcome, Point, Transmitted};

use crate::batch::Batch;
use crate::clock::Clock;
use crate::machine::SocketCounts;
use crate::replicate::SHARES;
use crate::stats::{control_slope, controlled_ratio, mean_around, ratio};
use crate::tally::{Account, Counts, cell_ends};

/// Ratio of two counts over the replications.
fn figure(
    batch: &Batch,
    confidence: f64,
    above: impl Fn(&Counts) -> f64,
    below: impl Fn(&Counts) -> f64,
) -> Option<Figure> {
    let pairs: Vec<(f64, f64)> =
        batch.replications.iter().map(|replication| (above(&replication.counts), below(&replication.counts))).collect();
    ratio(&pairs, confidence)
}

/// Interval of the probability of an event that did not occur in `of` trials (or ticks). At its upper end, the event
/// would have occurred with this confidence. `None` if `of` is 0.
fn unseen(of: f64, confidence: f64) -> Option<Figure> {
    (of > 0.0).then(|| Figure::between(0.0, 0.0, -math::ln(1.0 - confidence) / of, confidence))
}

/// Share of packets that `lost` counts, among the packets delivered or lost in the window.
fn loss(batch: &Batch, confidence: f64, lost: impl Fn(&Counts) -> u64) -> Option<Figure> {
    let of = fated(batch);
    if sum(batch, &lost) == 0 {
        return unseen(sum(batch, of) as f64, confidence).map(at_most_all);
    }
    figure(batch, confidence, |counts| lost(counts) as f64, |counts| of(counts) as f64).map(at_most_all)
}

/// Sum of a count over all replications.
fn sum(batch: &Batch, count: impl Fn(&Counts) -> u64) -> u64 {
    batch.replications.iter().map(|one| count(&one.counts)).sum()
}

/// Returns the number of packets of which losses are a share: the packets delivered or lost in the window. In a run
/// from an empty host: all arrivals.
fn fated(batch: &Batch) -> fn(&Counts) -> u64 {
    if batch.is_whole() { |counts| counts.offered } else { Counts::fated }
}

/// Limits the interval of a share to 1.
fn at_most_all(share: Figure) -> Figure {
    let Some(ends) = share.interval else { return share };
    Figure::between(share.value, ends.low, ends.high.min(1.0), ends.confidence)
}

fn cpu_share(batch: &Batch, confidence: f64, account: Account) -> Option<Figure> {
    figure(batch, confidence, |counts| counts.cpu[account as usize] as f64, |counts| counts.at as f64)
}

/// Mean time until packets are delivered and, with an application, until it has finished its work on them. Both use the
/// same packets and control variate, so that the second is never below the first. The difference is the time for which
/// the application holds packets.
fn mean_latencies(point: &Point, batch: &Batch, clock: Clock, confidence: f64) -> (Option<Figure>, Option<Figure>) {
    let over = |above: fn(&Counts) -> u128| -> Vec<(f64, f64)> {
        let counts = batch.replications.iter().map(|replication| &replication.counts);
        counts.map(|counts| (above(counts) as f64, counts.delivered as f64)).collect()
    };
    let delivered = over(|counts| counts.latency);
    let control = batch.controls().and_then(|each| Some((control_slope(&delivered, &each)?, each)));
    let mean = |pairs: &[(f64, f64)]| {
        let ticks = match &control {
            Some((slope, controls)) => controlled_ratio(pairs, controls, *slope, confidence),
            None => ratio(pairs, confidence),
        };
        Some(ticks?.scaled(clock.seconds(1.0)))
    };
    let application = point.host.application_s.is_some();
    let done = application.then(|| mean(&over(|counts| counts.latency + counts.application_area))).flatten();
    (mean(&delivered), done)
}

/// Extends the figure's interval so that it contains `low` to `high`, because the histogram does not resolve values
/// within one cell.
fn reaching(figure: Figure, low: f64, high: f64) -> Figure {
    let Some(ends) = figure.interval else { return figure };
    let (below, above) = (figure.value - low, high - figure.value);
    Figure::between(figure.value, (ends.low - below).max(0.0), ends.high + above, ends.confidence)
}

fn latency(point: &Point, batch: &Batch, clock: Clock, confidence: f64) -> Option<Latency> {
    let tick_s = clock.seconds(1.0);
    let together = batch.pool.quantiles(SHARES)?;
    let quantile = |n: usize| {
        let each: Vec<f64> = batch.replications.iter().filter_map(|r| r.quantiles.map(|values| values[n])).collect();
        let (low, high) = cell_ends(together[n]);
        Some(reaching(mean_around(together[n], &each, confidence), low, high).scaled(tick_s))
    };
    let (mean, done_mean) = mean_latencies(point, batch, clock, confidence);
    Some(Latency {
        mean,
        p50: quantile(0),
        p90: quantile(1),
        p99: quantile(2),
        p999: quantile(3),
        max: Some(Figure::exact(batch.pool.max() as f64 * tick_s)),
        done_mean,
    })
}

/// Results of the transmissions.
fn transmitted(batch: &Batch, clock: Clock, confidence: f64) -> Transmitted {
    let per = |above: fn(&Counts) -> f64, below: fn(&Counts) -> f64| figure(batch, confidence, above, below);
    let tick_s = clock.seconds(1.0);
    let completed = per(|counts| counts.transmit.completed as f64, |counts| counts.at as f64);
    let waited = per(|counts| counts.transmit.waited as f64, |counts| counts.transmit.completed as f64);
    Transmitted {
        completed_pps: completed.map(|found| found.scaled(1.0 / tick_s)),
        refused_fraction: per(|counts| counts.transmit.refused as f64, |counts| counts.transmit.started as f64),
        waiting_s: waited.map(|found| found.scaled(tick_s)),
    }
}

/// Results of each of several applications.
fn applications(point: &Point, batch: &Batch, clock: Clock, confidence: f64) -> Vec<ApplicationOutcome> {
    if !point.host.has_several_applications() {
        return Vec::new();
    }
    (0..point.host.each_application().len())
        .map(|number| one_application(point, batch, clock, confidence, number))
        .collect()
}

fn one_application(point: &Point, batch: &Batch, clock: Clock, confidence: f64, number: usize) -> ApplicationOutcome {
    let over = |above: fn(&SocketCounts) -> f64, below: &dyn Fn(&Counts, &SocketCounts) -> f64| {
        let each = batch.replications.iter().map(|replication| (&replication.counts, &replication.sockets[number]));
        let pairs: Vec<(f64, f64)> = each.map(|(all, own)| (above(own), below(all, own))).collect();
        ratio(&pairs, confidence)
    };
    let share_of_time = |above| over(above, &|all, _| all.at as f64);
    let rate = |above| share_of_time(above).map(|found: Figure| found.scaled(1.0 / clock.seconds(1.0)));
    let all_came = batch.is_whole();
    let fated = move |own: &SocketCounts| if all_came { own.offered } else { own.fated() };
    let lost = |above| over(above, &|_, own| fated(own) as f64).map(at_most_all);
    let latency = over(|own| own.latency as f64, &|_, own| own.delivered as f64);
    ApplicationOutcome {
        application: number as u32,
        offered_pps: rate(|own| own.offered as f64),
        throughput_pps: rate(|own| own.delivered as f64),
        goodput_bps: rate(|own| own.delivered_bytes as f64 * 8.0),
        loss: Some(Loss {
            ring: lost(|own| own.dropped_ring as f64),
            socket: lost(|own| own.dropped_socket as f64),
            sender: point.host.xoff.and_then(|_| lost(|own| own.dropped_sender as f64)),
        }),
        mean_latency_s: latency.map(|found| found.scaled(clock.seconds(1.0))),
        cpu: share_of_time(|own| own.cpu as f64),
    }
}

/// The outcome of a batch of replications.
pub(crate) fn outcome(point: &Point, batch: &Batch, clock: Clock, confidence: f64) -> Outcome {
    let per_s = 1.0 / clock.seconds(1.0);
    let per_time = |above: &dyn Fn(&Counts) -> f64| {
        figure(batch, confidence, above, |counts| counts.at as f64).map(|found| found.scaled(per_s))
    };
    let rate = |above: fn(&Counts) -> u64| match sum(batch, above) {
        0 => unseen(sum(batch, |counts| counts.at) as f64, confidence).map(|found| found.scaled(per_s)),
        _ => per_time(&|counts| above(counts) as f64),
    };
    // Without interrupts, the interval has width 0.
    let interrupts = if point.scheme.properties().interrupts {
        rate(|counts| counts.interrupts)
    } else {
        per_time(&|counts| counts.interrupts as f64)
    };
    let polled = batch.replications.iter().any(|replication| replication.counts.polls > 0);
    let application = point.host.application_s.is_some();
    Outcome {
        offered_pps: rate(|counts| counts.offered),
        throughput_pps: rate(|counts| counts.delivered),
        goodput_bps: per_time(&|counts| counts.delivered_bytes as f64 * 8.0),
        loss_fraction: loss(batch, confidence, Counts::lost),
        loss: Some(Loss {
            ring: loss(batch, confidence, |counts| counts.dropped_ring),
            socket: application.then(|| loss(batch, confidence, |counts| counts.dropped_socket)).flatten(),
            sender: point.host.xoff.and_then(|_| loss(batch, confidence, |counts| counts.dropped_sender)),
        }),
        latency_s: latency(point, batch, clock, confidence),
        latency_to: Some(if application { "application" } else { "protocol" }.to_owned()),
        cpu: Some(CpuShares {
            interrupt: cpu_share(batch, confidence, Account::Interrupt),
            poll: cpu_share(batch, confidence, Account::Poll),
            protocol: cpu_share(batch, confidence, Account::Protocol),
            application: cpu_share(batch, confidence, Account::Application),
            paused: point.host.pauses().and_then(|_| cpu_share(batch, confidence, Account::Paused)),
            available: cpu_share(batch, confidence, Account::Available),
        }),
        cpu_method: Some("simulated".to_owned()),
        interrupts_per_s: interrupts,
        polls_per_s: polled.then(|| rate(|counts| counts.polls)).flatten(),
        packets_per_poll: polled
            .then(|| figure(batch, confidence, |counts| counts.processed as f64, |counts| counts.polls as f64))
            .flatten(),
        packets_in_system: figure(batch, confidence, |counts| counts.host_area() as f64, |counts| counts.at as f64),
        transmitted: point.host.transmit_s.map(|_| transmitted(batch, clock, confidence)),
        precision: None,
        applications: applications(point, batch, clock, confidence),
        queues: Vec::new(),
        notes: Vec::new(),
    }
}
