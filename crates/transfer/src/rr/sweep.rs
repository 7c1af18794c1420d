//! Several configurations of request/response. The repeats are interleaved, so that drift affects all alike.

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::Provenance;
use netcliff_core::repeats::Repeats;
use netcliff_host::disturbance::Disturbances;
use netcliff_packets::WireError;
use serde::{Deserialize, Serialize};

use crate::hosts::Fingerprints;
use netcliff_trial::repeats::{half_width, known};

use super::merge::{doubts, host_cpus};
use super::{Report, RrError, RrRecord, RrSample, Settings, merged};

/// The configurations to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The settings that all configurations share.
    pub template: Settings,
    /// Numbers of flows.
    pub flows: Vec<u32>,
    /// Numbers of requests under way in a flow; each is combined with each number of flows.
    pub depths: Vec<u32>,
    /// Repeats of each configuration. A precision refers to the rate (closed loop) or the median latency (open loop).
    pub repeats: Repeats,
}

/// Result of a sweep, in the form that the store has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RrRun {
    /// `rr`.
    pub kind: String,
    /// One record for each measured configuration; `not_had` lists the others.
    pub rows: Vec<RrRecord>,
    /// Configurations without a measured repeat, with the reason.
    pub not_had: Vec<String>,
    /// True if a configuration has fewer repeats than requested, or one of them was cut short.
    pub partial: bool,
}

/// One configuration under way.
struct Config {
    settings: Settings,
    repeats: Vec<Report>,
    ended: Option<String>,
}

impl Sweep {
    /// All configurations: for each number of flows, each depth.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn configurations(&self) -> Result<Vec<Settings>, WireError> {
        let pairs = self.flows.iter().flat_map(|flows| self.depths.iter().map(move |depth| (*flows, *depth)));
        let all = pairs.map(|(flows, depth)| Settings { flows, depth, ..self.template.clone() });
        all.map(|settings| settings.check().map(|()| settings)).collect()
    }

    /// Measures all repeats with `measure`. Each round begins with another configuration. `said` receives the progress.
    /// A failure ends its configuration; a stop ends the sweep.
    ///
    /// # Errors
    /// A setting is out of its range, or nothing could be measured.
    pub fn run(
        &self,
        stop: &AtomicBool,
        said: &mut dyn FnMut(&str),
        measure: &mut dyn FnMut(&Settings) -> Result<Report, RrError>,
        provenance: &Provenance,
        fingerprints: &Fingerprints,
    ) -> Result<RrRun, RrError> {
        let fresh = |settings| Config { settings, repeats: Vec::new(), ended: None };
        let mut configs: Vec<Config> = self.configurations()?.into_iter().map(fresh).collect();
        let before = Disturbances::of_this_host();
        let mut first_error = None;
        for round in 0..self.repeats.most {
            if stop.load(Ordering::Relaxed) || !configs.iter().any(|config| config.wants(&self.repeats, round)) {
                break;
            }
            let most = if round < self.repeats.least { "" } else { "at most " };
            said(&format!("round {} of {most}{}", round + 1, self.repeats.most));
            for place in 0..configs.len() {
                let place = (place + round as usize) % configs.len();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if configs[place].wants(&self.repeats, round) {
                    configs[place].measure(round, measure, &mut first_error);
                }
            }
        }
        if let (Some(error), true) = (first_error, configs.iter().all(|config| config.repeats.is_empty())) {
            return Err(error);
        }
        let mut run = self.gathered(configs, provenance, fingerprints);
        let disturbed = Disturbances::of_this_host().since(&before);
        run.rows.iter_mut().for_each(|row| row.report.notes.extend(disturbed.iter().cloned()));
        Ok(run)
    }

    fn gathered(&self, configs: Vec<Config>, provenance: &Provenance, fingerprints: &Fingerprints) -> RrRun {
        let short = |config: &Config| config.repeats.len() < self.repeats.least as usize || config.cut_short();
        let partial = configs.iter().any(short);
        let (had, not_had): (Vec<Config>, Vec<Config>) =
            configs.into_iter().partition(|config| !config.repeats.is_empty());
        let why = |config: Config| {
            let why = config.ended.unwrap_or_else(|| "the run was stopped before".to_owned());
            format!("flows {}, depth {}: {why}", config.settings.flows, config.settings.depth)
        };
        let row = |config: Config| config.record(&self.repeats, provenance, fingerprints);
        RrRun {
            kind: "rr".to_owned(),
            rows: had.into_iter().filter_map(row).collect(),
            not_had: not_had.into_iter().map(why).collect(),
            partial,
        }
    }
}

impl Config {
    /// Name and values of the measure that a precision refers to.
    fn figure(&self) -> (&'static str, Vec<f64>) {
        let samples = self.repeats.iter().map(RrSample::of);
        match self.settings.rate_per_s {
            // The rate of an open loop is the requested one, so it does not show the precision.
            Some(_) => ("p50_s", samples.filter_map(|sample| Some(sample.latency?.p50_s)).collect()),
            None => ("rate_per_s", samples.map(|sample| sample.rate_per_s).collect()),
        }
    }

    /// Whether the configuration is measured in a round (counted from 0).
    fn wants(&self, repeats: &Repeats, round: u32) -> bool {
        self.ended.is_none() && repeats.wants(round, half_width(&self.figure().1))
    }

    fn measure(
        &mut self,
        round: u32,
        measure: &mut dyn FnMut(&Settings) -> Result<Report, RrError>,
        first_error: &mut Option<RrError>,
    ) {
        // Each repeat of an open loop draws other gaps, so that the spread over the repeats includes the randomness of
        // the arrivals.
        let seed = self.settings.seed.wrapping_add(u64::from(round));
        match measure(&Settings { seed, ..self.settings.clone() }) {
            // The test was stopped during the warm-up, so nothing was counted.
            Ok(report) if report.window_s <= 0.0 => {
                self.ended = report.partial.or_else(|| Some("it was stopped before its window opened".to_owned()));
            }
            Ok(report) => {
                self.ended.clone_from(&report.partial);
                self.repeats.push(report);
            }
            Err(error) => {
                self.ended = Some(error.to_string());
                first_error.get_or_insert(error);
            }
        }
    }

    fn cut_short(&self) -> bool {
        self.ended.is_some() || self.repeats.iter().any(|report| report.transactions == 0)
    }

    fn record(self, repeats: &Repeats, provenance: &Provenance, fingerprints: &Fingerprints) -> Option<RrRecord> {
        let mut report = merged(&self.repeats)?;
        let requested = repeats.least;
        let (name, values) = self.figure();
        let known = known(name, &values, repeats);
        report.notes.extend(known.shortfall().map(|shortfall| format!("{name} is {shortfall}")));
        report.notes.extend(fingerprints.not_had.clone());
        let doubts = doubts(&report);
        report.notes.extend(doubts.iter().map(ToString::to_string));
        let had = self.repeats.len();
        if report.partial.is_none() && had < requested as usize {
            let why = self.ended.unwrap_or_else(|| "the run was stopped".to_owned());
            report.partial = Some(format!("{had} of {requested} repeats: {why}"));
        }
        let idle = self.repeats.iter().filter(|repeat| repeat.transactions == 0).count();
        if report.partial.is_none() && idle > 0 {
            report.partial = Some(format!("{idle} of {had} repeats had no transaction in their window"));
        }
        Some(RrRecord {
            kind: "rr".to_owned(),
            report,
            cpus: host_cpus(&self.repeats),
            repeats: self.repeats.iter().map(RrSample::of).collect(),
            known: Some(known),
            fingerprint: Some(fingerprints.near.clone()),
            far_fingerprint: fingerprints.far.clone(),
            provenance: provenance.clone(),
        })
    }
}
