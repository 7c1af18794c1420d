//! `netcliff run` of real transfers: the configurations of a design, repeated in random order, and what each setting
//! does.
//!
//! [`run`] goes through the rounds; `device` brings the testbed's two ends to a configuration's settings; [`effects`] turns
//! the repeats into the effect of each factor. The transfers themselves are [`crate::stream`]'s.

mod device;
pub mod effects;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use netcliff_core::Provenance;
use netcliff_core::experiment::{Factor, FileError, Setting, TransferMeasure, Transfers};
use netcliff_core::repeats::Repeats;
use netcliff_core::stream::StreamSample;
use netcliff_host::cpu::{Method as CpuMethod, Preference};
use netcliff_host::testbed::netns::Side;
use netcliff_wire::WireError;
use netcliff_wire::transfer::{Channel, SendPath, Settings};

use crate::repeats;
use crate::rig::{Rig, RigError};
use crate::stream::{self, Method, Path, StreamOptions};
use device::Device;
use report::Found;

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
    /// Nothing at all could be measured.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The device takes none of the settings, so that nothing is left to vary.
    #[error("nothing to vary is left: {0}")]
    NothingLeft(String),
}

/// How often a repeat is made that counts nothing.
const TRIES: u32 = 3;

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
        report::values(&self.samples, measure, report::carries_bps(self))
    }

    /// True where it takes part in a round (from 0).
    fn wants(&self, times: &Times, round: u32) -> bool {
        // That method makes all its repeats in the first.
        let through = round > 0 && self.settings.contains(&Setting::Method(Method::Lmbench3.name().to_owned()));
        !through && self.ended.is_none() && times.repeats.wants(round, repeats::half_width(&self.values(times.y)))
    }
}

/// Runs the experiment that was read from `path` with this `text`; `said` hears where it stands. A stop keeps what was
/// had.
///
/// # Errors
/// A value cannot be, the testbed fails, or nothing could be measured.
pub fn run(
    experiment: &Transfers,
    (path, text): (&str, &str),
    rig: &Rig,
    provenance: &Provenance,
    said: &mut dyn FnMut(&str),
) -> Result<TransferReport, TransfersError> {
    let misplaced = |bad| FileError::misplaced(path, text, &bad);
    let fixed = experiment.fixed().map_err(misplaced)?;
    let factors = experiment.factors().map_err(misplaced)?;
    factors.iter().flat_map(|factor| &factor.levels).chain(&fixed).try_for_each(check_name)?;
    let mut device = Device::of(rig)?;
    let mut not_had = Vec::new();
    let fixed = device.kept(fixed, &mut not_had);
    let factors = device.kept_factors(factors, &mut not_had);
    if factors.is_empty() {
        return Err(TransfersError::NothingLeft(not_had.join("; ")));
    }
    let mut configs = configurations(experiment, &factors, &fixed, misplaced)?;
    configs.retain(|config| match impossible(config) {
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
    let mut warnings = BTreeSet::new();
    let mut first_error = None;
    let mut order = Order(experiment.seed);
    for round in 0..times.repeats.most {
        let left = configs.iter().filter(|config| config.wants(&times, round)).count();
        if left == 0 {
            break;
        }
        let most = if round < times.repeats.least { "" } else { "at most " };
        said(&format!("round {} of {most}{}: {left} configurations", round + 1, times.repeats.most));
        for place in order.shuffled(configs.len()) {
            if rig.stop.load(Ordering::Relaxed) {
                break;
            }
            let config = &mut configs[place];
            if !config.wants(&times, round) {
                continue;
            }
            let options = options(config, rig, &times, provenance);
            match measure(config, &mut device, options, &times) {
                Ok(said) => warnings.extend(said),
                Err(error) => {
                    config.ended = Some(error.to_string());
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    if let (Some(error), true) = (first_error, configs.iter().all(|config| config.samples.is_empty())) {
        return Err(error);
    }
    device.restore()?;
    not_had.extend(device.notes());
    Ok(Found { experiment, repeats: times.repeats, factors, fixed, configs, not_had, warnings }.report(rig, provenance))
}

/// How long and how often.
struct Times {
    repeats: Repeats,
    /// The figure whose precision ends the repeats.
    y: TransferMeasure,
    time_s: f64,
    warmup_s: Option<f64>,
}

/// Names that only the transfer's side knows.
fn check_name(setting: &Setting) -> Result<(), TransfersError> {
    let name = |key, value: &str, accepted: String| TransfersError::Name { key, value: value.to_owned(), accepted };
    match setting {
        Setting::Method(value) => value.parse::<Method>().map(drop).map_err(|accepted| name("method", value, accepted)),
        Setting::Path(value) => match send_path(value) {
            Some(_) => Ok(()),
            None => Err(name("path", value, "expected write, writev, splice or zerocopy".to_owned())),
        },
        _ => Ok(()),
    }
}

fn send_path(name: &str) -> Option<SendPath> {
    let paths = [SendPath::Write, SendPath::WriteV, SendPath::Splice, SendPath::ZeroCopy];
    paths.into_iter().find(|path| Path::Stream(path.clone()).name() == name)
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

/// Why a configuration's method cannot measure it; None where it can.
fn impossible(config: &Config) -> Option<String> {
    let (mut method, mut block, mut no_delay) = (Method::Default, None, false);
    for setting in &config.settings {
        match setting {
            Setting::Method(name) => method = name.parse().unwrap_or_default(),
            Setting::Block(bytes) => block = Some(*bytes),
            Setting::NoDelay(on) => no_delay = *on,
            _ => {}
        }
    }
    if method == Method::Lmbench2 && block.is_some_and(|bytes| bytes != stream::LMBENCH2_BLOCK_BYTES as u64) {
        return Some("lmbench2 with other blocks than 64KiB: it has no others".to_owned());
    }
    (no_delay && method.forbids_no_delay()).then(|| format!("{method} with TCP_NODELAY: it cannot set it"))
}

/// One repeat of a configuration (all of them where the method makes them in one transfer); gives what the transfer warns
/// of.
fn measure(
    config: &mut Config,
    device: &mut Device<'_>,
    options: StreamOptions,
    times: &Times,
) -> Result<Vec<String>, TransfersError> {
    let at_once = options.method == Method::Lmbench3;
    device.bring_to(&config.settings)?;
    let repeats = if at_once { times.repeats.least } else { 1 };
    let options = StreamOptions { repeats: Repeats::exactly(repeats), ..options };
    let had = config.samples.len();
    let mut warnings = Vec::new();
    for _ in 0..TRIES {
        let found = stream::run(&options, &mut |_| {})?;
        warnings.extend(found.warnings);
        for row in found.rows {
            // A host so busy that an end was not given its CPU within the window leaves nothing to count.
            config.samples.extend(row.samples.into_iter().filter(|sample| sample.goodput_bps.is_some()));
            config.ended = row.cut_short;
        }
        if config.samples.len() > had || config.ended.is_some() || options.stop.load(Ordering::Relaxed) {
            return Ok(warnings);
        }
    }
    config.ended = Some(format!("{TRIES} repeats in a row had no whole window: a longer time helps"));
    Ok(warnings)
}

/// A configuration's transfer.
fn options(config: &Config, rig: &Rig, times: &Times, provenance: &Provenance) -> StreamOptions {
    let (_, to) = rig.addresses();
    let mut template = Settings::new(Channel::Tcp { address: (*to.ip()).into(), multipath: false });
    (template.near.netns, template.far.netns) = (rig.netns(Side::Sender), rig.netns(Side::HostUnderTest));
    let mut options = StreamOptions {
        method: Method::Default,
        blocks_bytes: Vec::new(),
        read_bytes: None,
        paths: vec![Path::Stream(SendPath::Write)],
        repeats: Repeats::exactly(1),
        warm_up_s: times.warmup_s,
        time_s: times.time_s,
        bytes: None,
        link_bps: None,
        cpu: Preference::Only(CpuMethod::Procfs),
        stop: std::sync::Arc::clone(&rig.stop),
        command: provenance.command.clone(),
        started_unix_s: provenance.started_unix_s,
        template,
    };
    for setting in &config.settings {
        let transfer = &mut options.template;
        match setting {
            Setting::Method(name) => options.method = name.parse().unwrap_or_default(),
            Setting::Path(name) => options.paths = send_path(name).into_iter().map(Path::Stream).collect(),
            Setting::NoDelay(on) => transfer.options.no_delay = *on,
            Setting::Congestion(name) => transfer.options.congestion = Some(name.clone()),
            Setting::Flows(flows) => transfer.flows = *flows,
            Setting::Bytes(bytes) => options.bytes = Some(*bytes),
            Setting::Block(bytes) => options.blocks_bytes = vec![usize::try_from(*bytes).unwrap_or(usize::MAX)],
            Setting::Rate(bps) => options.link_bps = *bps,
            Setting::HalfDuplex(_)
            | Setting::Mtu(_)
            | Setting::Feature(..)
            | Setting::RxUsecs(_)
            | Setting::RxFrames(_) => {}
        }
    }
    // The sender's CPU is the rig's sender's whoever connects: methods in which the far end sends turn the ends round.
    let far_sends = options.method.direction() == Some(netcliff_wire::transfer::Direction::Receive);
    let (sender, receiver) = (Some(rig.sender_cpu as usize), Some(rig.host_cpu as usize));
    let ends = if far_sends { (receiver, sender) } else { (sender, receiver) };
    (options.template.near.cpu, options.template.far.cpu) = ends;
    if options.method == Method::Lmbench2 || options.blocks_bytes.is_empty() {
        options.blocks_bytes = vec![options.method.default_block_bytes(&options.template.channel)];
    }
    options
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
