//! Configurations of request/response, each repeated, interleaved so that drift hits all alike.

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

/// What is varied.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// All that the configurations share.
    pub template: Settings,
    /// Numbers of flows.
    pub flows: Vec<u32>,
    /// Requests under way in each; combined with each number of flows.
    pub depths: Vec<u32>,
    /// Repeats of each configuration; a precision is that of the rate, in an open loop of the median latency.
    pub repeats: Repeats,
}

/// Result of a sweep, as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RrRun {
    /// `rr`.
    pub kind: String,
    /// A record a configuration; one that was never measured is in `not_had`.
    pub rows: Vec<RrRecord>,
    /// Configurations without a repeat, with the reason.
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
    /// The configurations in order: flows by flows, depth by depth.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn configurations(&self) -> Result<Vec<Settings>, WireError> {
        let pairs = self.flows.iter().flat_map(|flows| self.depths.iter().map(move |depth| (*flows, *depth)));
        let all = pairs.map(|(flows, depth)| Settings { flows, depth, ..self.template.clone() });
        all.map(|settings| settings.check().map(|()| settings)).collect()
    }

    /// Measures all repeats with `measure`, another configuration first in each round; `said` receives the progress.
    /// A failure ends its configuration, a stop the sweep.
    ///
    /// # Errors
    /// A setting is out of its range, or nothing at all could be measured.
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
    /// The figure that a precision applies to, by name and repeat.
    fn figure(&self) -> (&'static str, Vec<f64>) {
        let samples = self.repeats.iter().map(RrSample::of);
        match self.settings.rate_per_s {
            // What was requested, whatever the host does.
            Some(_) => ("p50_s", samples.filter_map(|sample| Some(sample.latency?.p50_s)).collect()),
            None => ("rate_per_s", samples.map(|sample| sample.rate_per_s).collect()),
        }
    }

    /// True where it takes part in a round (from 0).
    fn wants(&self, repeats: &Repeats, round: u32) -> bool {
        self.ended.is_none() && repeats.wants(round, half_width(&self.figure().1))
    }

    fn measure(
        &mut self,
        round: u32,
        measure: &mut dyn FnMut(&Settings) -> Result<Report, RrError>,
        first_error: &mut Option<RrError>,
    ) {
        // Repeats of an open loop draw other gaps, so that their spread is that of the arrivals too.
        let seed = self.settings.seed.wrapping_add(u64::from(round));
        match measure(&Settings { seed, ..self.settings.clone() }) {
            // It was stopped in its warm-up: there is nothing to count.
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
        let asked = repeats.least;
        let (name, values) = self.figure();
        let known = known(name, &values, repeats);
        report.notes.extend(known.shortfall().map(|shortfall| format!("{name} is {shortfall}")));
        report.notes.extend(fingerprints.not_had.clone());
        let doubts = doubts(&report);
        report.notes.extend(doubts);
        let had = self.repeats.len();
        if report.partial.is_none() && had < asked as usize {
            let why = self.ended.unwrap_or_else(|| "the run was stopped".to_owned());
            report.partial = Some(format!("{had} of {asked} repeats: {why}"));
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
