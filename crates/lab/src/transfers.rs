//! `netcliff run` of real transfers: the configurations of a design, repeated in random order, and what each setting
//! does.
//!
//! [`run`] goes through the rounds; `device` brings both ends to a configuration's settings (the testbed's `link`, or two
//! `hosts`); [`effects`] turns
//! the repeats into the effect of each factor. The transfers themselves are [`crate::stream`]'s.

mod device;
pub mod effects;
mod hosts;
mod link;
mod named;
mod place;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use netcliff_core::experiment::{Factor, FileError, Setting, TransferMeasure, Transfers};
use netcliff_core::repeats::Repeats;
use netcliff_core::stream::StreamSample;
use netcliff_core::{Fingerprint, Provenance};
use netcliff_host::device::DeviceError;
use netcliff_wire::WireError;
use netcliff_wire::control::ControlError;

use crate::hosts::changed_meanwhile;
use crate::repeats;
use crate::rig::RigError;
use crate::stream::{Method, StreamOptions};
use device::Device;
use named::{check_name, impossible, options};
use report::Found;

pub use place::Place;
pub use report::{Effect, FactorLevels, TransferReport, TransferRow};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TransfersError {
    /// A value of the file that cannot be.
    #[error(transparent)]
    File(#[from] FileError),
    /// A setting has a name nobody knows.
    #[error("{key} = \"{value}\": {accepted}")]
    Name {
        /// Which setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is accepted.
        accepted: String,
    },
    /// The testbed cannot be made or used.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// This host's device cannot be changed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The far host's cannot.
    #[error(transparent)]
    Far(#[from] ControlError),
    /// Nothing at all could be measured.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The device takes none of the settings, so that nothing is left to vary.
    #[error("nothing to vary is left: {0}")]
    NothingLeft(String),
}

/// How often a repeat is made that counts nothing.
const TRIES: u32 = 3;
/// Windows that lmbench3 makes by default, and averages.
const LMBENCH3_WINDOWS: u32 = 5;

/// One configuration under way.
struct Config {
    /// A level a factor.
    levels: Vec<usize>,
    settings: Vec<Setting>,
    samples: Vec<StreamSample>,
    ended: Option<String>,
}

impl Config {
    /// A figure of each repeat that has it.
    fn values(&self, measure: TransferMeasure) -> Vec<f64> {
        report::values(&self.samples, measure, self.carries_bps())
    }

    /// Payload that its link can carry (bit/s), where its rate is limited.
    fn carries_bps(&self) -> Option<f64> {
        report::carries_bps(self)
    }

    /// True where it takes part in a round (from 0): it has had one repeat a round, more where a run before made them.
    fn wants(&self, times: &Times, round: u32) -> bool {
        let made = self.samples.len() as u32;
        made <= round && self.ended.is_none() && times.repeats.wants(made, repeats::half_width(&self.values(times.y)))
    }
}

/// Runs the experiment that was read from `path` with this `text`; `watch` hears where it stands. A stop keeps what was
/// had.
///
/// # Errors
/// A value cannot be, the testbed fails, or nothing could be measured.
pub fn run(
    experiment: &Transfers,
    (path, text): (&str, &str),
    place: &mut Place<'_>,
    provenance: &Provenance,
    watch: &mut dyn Watch,
) -> Result<TransferReport, TransfersError> {
    let misplaced = |bad| FileError::misplaced(path, text, &bad);
    let fixed = experiment.fixed().map_err(misplaced)?;
    let factors = experiment.factors().map_err(misplaced)?;
    factors.iter().flat_map(|factor| &factor.levels).chain(&fixed).try_for_each(check_name)?;
    let (fingerprints, limits) = (place.fingerprints(), place.limits());
    let mut device = Device::of(place)?;
    let mut not_had: Vec<String> = fingerprints.not_had.clone().into_iter().collect();
    let fixed = device.kept(fixed, &mut not_had);
    let factors = device.kept_factors(factors, &mut not_had);
    if factors.is_empty() {
        return Err(TransfersError::NothingLeft(not_had.join("; ")));
    }
    let mut configs = configurations(experiment, &factors, &fixed, misplaced)?;
    configs.retain(|config| match impossible(config).or_else(|| device.impossible(&config.settings)) {
        Some(why) => {
            if !not_had.contains(&why) {
                not_had.push(why);
            }
            false
        }
        None => true,
    });
    let times = Times {
        repeats: experiment.repeats().map_err(misplaced)?,
        y: experiment.figure.y,
        time_s: experiment.time_s().map_err(misplaced)?,
        warmup_s: experiment.warmup_s().map_err(misplaced)?,
    };
    if experiment.figure.y == TransferMeasure::LinkShare && configs.iter().all(|config| config.carries_bps().is_none())
    {
        return Err(TransfersError::NothingLeft(format!("link_share needs a link rate; {}", not_had.join("; "))));
    }
    let mut warnings = BTreeSet::new();
    if let Some(before) = watch.resumed() {
        before.rows.into_iter().for_each(|row| take_up(&mut configs, &factors, row));
        warnings.extend(before.warnings);
        warnings.extend(changed_meanwhile(&before.fingerprint, &fingerprints.near));
    }
    let congestion = None;
    let mut found = Found {
        experiment,
        repeats: times.repeats,
        factors,
        fixed,
        configs,
        congestion,
        not_had,
        limits,
        warnings,
        fingerprints,
    };
    let first_error = rounds(&mut found, &mut device, place, &times, provenance, watch);
    if let (Some(error), true) = (first_error, found.configs.iter().all(|config| config.samples.is_empty())) {
        return Err(error);
    }
    found.warnings.extend(device.restore(place)?);
    found.not_had.extend(device.notes());
    Ok(found.report(place, provenance))
}

/// What hears how a run goes.
pub trait Watch {
    /// Where it stands, a sentence.
    fn said(&mut self, stage: &str);

    /// What was had after each round, so that it can be kept.
    fn had(&mut self, _so_far: &TransferReport) {}

    /// What the run that is continued has.
    fn resumed(&mut self) -> Option<TransferReport> {
        None
    }
}

/// Identifies an experiment with what the user changed of it, by its text, and where it is made: a run with the same
/// identifier can be continued.
pub fn identifier(experiment: &Transfers, text: &str, place: &str) -> String {
    let changed = format!("{:?} {:?} {:?}", experiment.repeats, experiment.precision, experiment.max_repeats);
    let facts = [
        ("file", text),
        ("place", place),
        ("repeats", &changed),
        ("seed", &experiment.seed.to_string()),
        ("time", &experiment.time),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    let facts = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into_iter().collect();
    Fingerprint { facts }.id()
}

/// Gives a configuration the repeats it has already.
fn take_up(configs: &mut [Config], factors: &[Factor], row: TransferRow) {
    let is_it = |config: &&mut Config| {
        let levels = config.levels.iter().zip(factors).map(|(at, factor)| factor.levels[*at].to_string());
        levels.eq(row.levels.iter().cloned())
    };
    if let Some(config) = configs.iter_mut().find(is_it) {
        // What ended it may not end it now.
        config.samples = row.samples;
    }
}

/// The rounds until every configuration has had enough; the first error that ended one.
fn rounds(
    found: &mut Found<'_>,
    device: &mut Device<'_>,
    place: &mut Place<'_>,
    times: &Times,
    provenance: &Provenance,
    watch: &mut dyn Watch,
) -> Option<TransfersError> {
    let mut first_error = None;
    let mut order = Order(found.experiment.seed);
    for round in 0..times.repeats.most {
        // Also of a round that a run before has made, so that those to come are drawn as they would have been.
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
            // Nobody is left to measure with: this host's device is not changed for nothing.
            if place.far_is_gone() {
                found.not_had.push(format!("what was left in round {}: the agent is gone", round + 1));
                return first_error;
            }
            let config = &mut found.configs[at];
            if !config.wants(times, round) {
                continue;
            }
            let options = options(config, place, times, provenance);
            match measure(config, device, place, options) {
                Ok(told) => {
                    found.warnings.extend(told.warnings);
                    found.congestion = told.congestion.or(found.congestion.take());
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

/// How long and how often.
struct Times {
    repeats: Repeats,
    /// The figure whose precision ends the repeats.
    y: TransferMeasure,
    time_s: f64,
    warmup_s: Option<f64>,
}

fn configurations(
    experiment: &Transfers,
    factors: &[Factor],
    fixed: &[Setting],
    misplaced: impl Fn(netcliff_core::experiment::BadValue) -> FileError,
) -> Result<Vec<Config>, TransfersError> {
    let levels: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
    let designed = experiment.design.configurations(&levels);
    let designed =
        designed.map_err(|message| misplaced(netcliff_core::experiment::BadValue::at("", "design", message)))?;
    let config = |levels: Vec<usize>| {
        let varied = levels.iter().zip(factors).map(|(level, factor)| factor.levels[*level].clone());
        let settings = fixed.iter().cloned().chain(varied).collect();
        Config { levels, settings, samples: Vec::new(), ended: None }
    };
    Ok(designed.into_iter().map(config).collect())
}

/// What transfers say beside their figures.
#[derive(Default)]
struct Told {
    warnings: Vec<String>,
    /// The congestion control in force.
    congestion: Option<String>,
}

/// One repeat of a configuration.
fn measure(
    config: &mut Config,
    device: &mut Device<'_>,
    place: &mut Place<'_>,
    options: StreamOptions,
) -> Result<Told, TransfersError> {
    device.bring_to(place, &config.settings)?;
    // What that method reports is the mean of several windows on one connection: here that is one repeat.
    let averaged = options.method == Method::Lmbench3;
    let windows = if averaged { LMBENCH3_WINDOWS } else { 1 };
    let options = StreamOptions { repeats: Repeats::exactly(windows), ..options };
    let had = config.samples.len();
    let mut told = Told::default();
    for _ in 0..TRIES {
        let found = place.transfer(&options)?;
        told.warnings.extend(found.warnings);
        told.congestion = found.in_force.into_iter().find(|(name, _)| name == "congestion").map(|(_, held)| held);
        for row in found.rows {
            // A host so busy that an end was not given its CPU within the window leaves nothing to count.
            let whole = row.samples.into_iter().filter(|sample| sample.goodput_bps.is_some());
            if averaged {
                config.samples.extend(mean(whole))
            } else {
                config.samples.extend(whole)
            }
            config.ended = row.cut_short;
        }
        if config.samples.len() > had || config.ended.is_some() || options.stop.load(Ordering::Relaxed) {
            return Ok(told);
        }
    }
    config.ended = Some(format!("{TRIES} repeats in a row had no whole window: a longer time helps"));
    Ok(told)
}

/// The mean goodput, if there is any; what else windows have is not lmbench3's to say.
fn mean(windows: impl Iterator<Item = StreamSample>) -> Option<StreamSample> {
    let rates: Vec<f64> = windows.filter_map(|window| window.goodput_bps).collect();
    let mean_bps = rates.iter().sum::<f64>() / rates.len() as f64;
    (!rates.is_empty()).then(|| StreamSample { goodput_bps: Some(mean_bps), ..StreamSample::default() })
}

/// Random orders from a seed (splitmix64, Fisher-Yates).
struct Order(u64);

impl Order {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffled(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}
