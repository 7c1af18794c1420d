//! The rounds of an experiment: each round measures each configuration once, in random order.

use std::sync::atomic::Ordering;

use netcliff_core::Provenance;
use netcliff_core::cpus::CpuRow;
use netcliff_core::experiment::{Factor, Lack, TransferMeasure};
use netcliff_core::math::SplitMix64;
use netcliff_core::repeats::Repeats;
use netcliff_core::stream::{Spread, StreamRow, StreamSample, StreamWarning};

use super::device::Device;
use super::named::options;
use super::report::Found;
use super::{Config, Place, TransfersError, Watch};
use crate::stream::{Method, StreamOptions};

/// Number of attempts at a repeat whose window has no count.
const TRIES: u32 = 3;
/// Number of windows that lmbench3 makes by default; it reports their mean.
const LMBENCH3_WINDOWS: u32 = 5;

/// Length and number of the repeats.
pub(super) struct Times {
    pub repeats: Repeats,
    /// The value whose precision decides when the repeats end.
    pub y: TransferMeasure,
    pub time_s: f64,
    pub warmup_s: Option<f64>,
}

/// Runs rounds until every configuration has enough repeats. Returns the first error that ended a configuration.
pub(super) fn rounds(
    found: &mut Found<'_>,
    device: &mut Device<'_>,
    place: &mut Place<'_>,
    times: &Times,
    provenance: &Provenance,
    watch: &mut dyn Watch,
) -> Option<TransfersError> {
    let mut first_error = None;
    let mut order = RandomOrder(SplitMix64(found.experiment.seed));
    for round in 0..times.repeats.most {
        // Shuffle also for a round that an earlier run has made, so that the later rounds have the order that they
        // would have had.
        let order = order.shuffled(found.configs.len());
        let left = found.configs.iter().filter(|config| config.wants(times, round)).count();
        if left == 0 {
            continue;
        }
        let most = if round < times.repeats.least { "" } else { "at most " };
        watch.said(&format!("round {} of {most}{}: {left} configurations", round + 1, times.repeats.most));
        for at in order {
            if place.stop().load(Ordering::Relaxed) {
                return first_error;
            }
            // The agent is gone, so do not change this host's device any more.
            if place.far_is_gone() {
                let why = format!("what was left in round {}: the agent is gone", round + 1);
                found.not_had.push(Lack::Other(why));
                return first_error;
            }
            let config = &mut found.configs[at];
            if !config.wants(times, round) {
                continue;
            }
            let level = |(at, factor): (&usize, &Factor)| format!("{} {}", factor.key, factor.levels[*at]);
            let levels = config.levels.iter().zip(&found.factors).map(level);
            watch.begins(&levels.collect::<Vec<_>>().join(", "));
            let options = options(config, place, (times.warmup_s, times.time_s), provenance);
            let measured = measure(config, device, place, options);
            watch.ends();
            match measured {
                Ok(effects) => {
                    found.warnings.extend(effects.warnings);
                    found.congestion = effects.congestion.or(found.congestion.take());
                }
                Err(error) => {
                    config.ended = Some(error.to_string());
                    first_error.get_or_insert(error);
                }
            }
        }
        watch.had(&found.report(place, provenance));
    }
    first_error
}

/// What transfers report besides their results.
#[derive(Default)]
struct SideEffects {
    warnings: Vec<StreamWarning>,
    /// The congestion control in force.
    congestion: Option<String>,
}

/// One repeat of a configuration.
fn measure(
    config: &mut Config,
    device: &mut Device<'_>,
    place: &mut Place<'_>,
    options: StreamOptions,
) -> Result<SideEffects, TransfersError> {
    device.bring_to(place, &config.settings)?;
    // lmbench3 reports the mean of several windows on one connection, so several windows count as one repeat.
    let averaged = options.method == Method::Lmbench3;
    let windows = if averaged { LMBENCH3_WINDOWS } else { 1 };
    let options = StreamOptions { repeats: Repeats::exactly(windows), ..options };
    let had = config.samples.len();
    let mut effects = SideEffects::default();
    for _ in 0..TRIES {
        let found = place.transfer(&options)?;
        effects.warnings.extend(found.warnings);
        effects.congestion = found.in_force.into_iter().find(|(name, _)| name == "congestion").map(|(_, held)| held);
        for row in found.rows {
            if averaged {
                config.samples.extend(as_one(&row));
            } else {
                config.samples.extend(row.samples.iter().filter(|sample| is_whole(sample)));
            }
            config.ended = row.cut_short;
        }
        if config.samples.len() > had || config.ended.is_some() || options.stop.load(Ordering::Relaxed) {
            return Ok(effects);
        }
    }
    config.ended = Some(format!("{TRIES} repeats in a row had no whole window: a longer time helps"));
    Ok(effects)
}

/// Whether the window counted anything. On a busy host, an end may get no CPU during the window.
fn is_whole(sample: &StreamSample) -> bool {
    sample.goodput_bps.is_some()
}

/// Combines the windows of one connection into one repeat, as lmbench3 does: means over the windows, and the
/// connection's value where windows have no value of their own (the host's CPUs, TCP's counts). `None` if no window
/// counted anything.
fn as_one(row: &StreamRow) -> Option<StreamSample> {
    let mean = |figure: fn(&StreamSample) -> Option<f64>| {
        let values: Vec<f64> =
            row.samples.iter().filter(|sample| is_whole(sample)).filter_map(figure).filter(|v| v.is_finite()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let whole = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let tcp = row.tcp.as_ref();
    Some(StreamSample {
        goodput_bps: Some(mean(|sample| sample.goodput_bps)?),
        sender_cpu: mean(|sample| sample.sender_cpu),
        receiver_cpu: mean(|sample| sample.receiver_cpu),
        sender_us_per_kib: mean(|sample| sample.sender_us_per_kib),
        receiver_us_per_kib: mean(|sample| sample.receiver_us_per_kib),
        sender_kernel_share: mean(|sample| sample.sender_kernel_share),
        receiver_kernel_share: mean(|sample| sample.receiver_kernel_share),
        system_cpus: (!row.system.is_empty()).then(|| row.system.iter().map(CpuRow::busy).sum()),
        system_us_per_kib: whole(row.system_us_per_kib),
        retransmissions: tcp.map(|tcp| tcp.retransmissions),
        bytes_per_segment: tcp.and_then(|tcp| whole(tcp.bytes_per_segment)),
        wire_bps: tcp.and_then(|tcp| whole(tcp.wire_bps)),
        delivered_wire_bps: None,
    })
}

/// Random orders (Fisher-Yates).
pub(super) struct RandomOrder(pub SplitMix64);

impl RandomOrder {
    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub fn shuffled(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}
