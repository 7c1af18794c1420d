//! `netcliff run` of real transfers: measures the configurations of a design, repeated in random order, and computes
//! the effect of each setting.
//!
//! [`run`] makes the `rounds`. `device` applies a configuration's settings to both ends (the testbed's `link`, or two
//! `hosts`). [`effects`] computes the effect of each factor from the repeats. [`crate::stream`] makes the transfers
//! themselves.

mod device;
pub mod effects;
mod hosts;
mod link;
mod named;
mod place;
mod report;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use netcliff_core::experiment::{Factor, FileError, Lack, Setting, TransferMeasure, Transfers};
use netcliff_core::stream::{StreamSample, StreamWarning};
use netcliff_core::{Fingerprint, Provenance};
use netcliff_host::device::DeviceError;
use netcliff_host::testbed::vm::VmError;
use netcliff_packets::WireError;
use netcliff_packets::error::ControlError;

use device::Device;
use named::{check_name, impossible};
use netcliff_host::fingerprint::changed_meanwhile;
use netcliff_trial::repeats;
use netcliff_trial::rig::RigError;
use report::Found;
use rounds::{Times, rounds};

pub use place::Place;
pub use report::{Effect, FactorLevels, TransferReport, TransferRow};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum TransfersError {
    /// An invalid value in the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An unknown name of a setting's value.
    #[error("{key} = \"{value}\": {accepted}")]
    Name {
        /// The setting.
        key: &'static str,
        /// The value given.
        value: String,
        /// The accepted values.
        accepted: String,
    },
    /// The testbed cannot be made or used.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// This host's device cannot be changed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The far host's device cannot be changed.
    #[error(transparent)]
    Far(#[from] ControlError),
    /// A guest's wire cannot be changed.
    #[error(transparent)]
    Guest(#[from] VmError),
    /// Nothing could be measured.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The device supports none of the settings, so nothing is left to vary.
    #[error("nothing to vary is left: {0}")]
    NothingLeft(String),
}

/// One configuration under way.
struct Config {
    /// Index of the level of each factor.
    levels: Vec<usize>,
    settings: Vec<Setting>,
    samples: Vec<StreamSample>,
    ended: Option<String>,
}

impl Config {
    /// The values of `measure`, one for each repeat that has one.
    fn values(&self, measure: TransferMeasure) -> Vec<f64> {
        report::values(&self.samples, measure, self.carries_bps())
    }

    /// Payload rate that the configuration's link can carry (bit/s). `None` if the link's rate is not limited.
    fn carries_bps(&self) -> Option<f64> {
        report::carries_bps(self)
    }

    /// Whether the configuration is measured in a round (counted from 0). A configuration that already has more repeats
    /// than rounds so far (from the run that is continued) is not measured.
    fn wants(&self, times: &Times, round: u32) -> bool {
        let made = self.samples.len() as u32;
        made <= round && self.ended.is_none() && times.repeats.wants(made, repeats::half_width(&self.values(times.y)))
    }
}

/// Runs the experiment. `path` and `text` are the file that it was read from. `watch` receives the progress. If the
/// user stops the run, the results so far are returned.
///
/// # Errors
/// A value is invalid, the testbed fails, or nothing could be measured.
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
    let mut not_had: Vec<Lack> = fingerprints.not_had.clone().map(Lack::Other).into_iter().collect();
    let fixed = device.kept(fixed, &mut not_had);
    let factors = device.kept_factors(factors, &mut not_had);
    if factors.is_empty() {
        return Err(TransfersError::NothingLeft(listed(&not_had)));
    }
    let mut configs = configurations(experiment, &factors, &fixed, misplaced)?;
    let unable = |config: &Config| {
        let alone = config.settings.iter().find_map(|setting| place.refuses(setting));
        let together = || impossible(config).or_else(|| device.impossible(&config.settings));
        alone.or_else(|| together().map(Lack::Other))
    };
    configs.retain(|config| match unable(config) {
        Some(why) => {
            if !not_had.contains(&why) {
                not_had.push(why);
            }
            false
        }
        None => true,
    });
    if configs.is_empty() {
        return Err(TransfersError::NothingLeft(listed(&not_had)));
    }
    let times = Times {
        repeats: experiment.repeats().map_err(misplaced)?,
        y: experiment.figure.y,
        time_s: experiment.time_s().map_err(misplaced)?,
        warmup_s: experiment.warmup_s().map_err(misplaced)?,
    };
    if experiment.figure.y == TransferMeasure::LinkShare && configs.iter().all(|config| config.carries_bps().is_none())
    {
        return Err(TransfersError::NothingLeft(format!("link_share needs a link rate; {}", listed(&not_had))));
    }
    let mut warnings: BTreeSet<StreamWarning> = device.left_over().into_iter().map(StreamWarning::Other).collect();
    if let Some(before) = watch.resumed() {
        before.rows.into_iter().for_each(|row| take_up(&mut configs, &factors, row));
        // The stored report has sentences only.
        warnings.extend(before.warnings.into_iter().map(StreamWarning::from));
        let changed = changed_meanwhile(&before.fingerprint, &fingerprints.near);
        warnings.extend(changed.into_iter().map(StreamWarning::Other));
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
    match device.restore(place) {
        Ok(problems) => found.warnings.extend(problems.into_iter().map(StreamWarning::Other)),
        // The device has disappeared: return the results so far with a warning.
        Err(error) if found.configs.iter().any(|config| config.ended.is_some()) => {
            found.warnings.insert(StreamWarning::Other(error.to_string()));
        }
        Err(error) => return Err(error),
    }
    found.not_had.extend(device.notes().into_iter().map(Lack::Other));
    Ok(found.report(place, provenance))
}

/// The reasons in one line.
fn listed(lacks: &[Lack]) -> String {
    lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Observer of a run.
pub trait Watch {
    /// Receives the current stage, as a sentence.
    fn said(&mut self, stage: &str);

    /// Called when a repeat begins, with the levels of its configuration.
    fn begins(&mut self, _configuration: &str) {}

    /// Called when the repeat has ended.
    fn ends(&mut self) {}

    /// Receives the results so far after each round, so that they can be stored.
    fn had(&mut self, _so_far: &TransferReport) {}

    /// Returns the results of the run to continue. `None` for a new run.
    fn resumed(&mut self) -> Option<TransferReport> {
        None
    }
}

/// Identifier of an experiment: its file, the user's changes to it, and the place where it runs. A run with the same
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

/// Adds the repeats of an earlier run to their configuration.
fn take_up(configs: &mut [Config], factors: &[Factor], row: TransferRow) {
    let is_it = |config: &&mut Config| {
        let levels = config.levels.iter().zip(factors).map(|(at, factor)| factor.levels[*at].to_string());
        levels.eq(row.levels.iter().cloned())
    };
    if let Some(config) = configs.iter_mut().find(is_it) {
        // Drop the reason why the configuration ended in the earlier run: it may not apply now.
        config.samples = row.samples;
    }
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
