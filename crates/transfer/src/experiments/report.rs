//! Report of an experiment of transfers.

use std::collections::BTreeSet;

use netcliff_core::experiment::{Answerer, Curve, Dot, Factor, Key, Setting, TransferMeasure, Transfers};
use netcliff_core::repeats::{Known, Repeats};
use netcliff_core::stream::{StreamSample, datagram_frames, payload_share};
use netcliff_core::{EngineKind, Figure, Fingerprint, Provenance};
use netcliff_host::testbed::link::BUCKET_FRAMES;
use serde::{Deserialize, Serialize};

use super::effects::effects;
use super::link::MTU_BYTES;
use super::{Config, Place};
use crate::hosts::Fingerprints;
use netcliff_stats as stats;
use netcliff_trial::alike::folded;
use netcliff_trial::repeats::known;

/// IPv4 and TCP headers with timestamps (bytes).
const HEADER_BYTES: f64 = 52.0;
/// A datagram where the experiment says nothing (bytes): a full frame over IPv4.
const DATAGRAM_BYTES: u64 = 1472;
/// The figures whose effects are shown beside the drawn one: throughput, CPU, service demand.
const EFFECTS: [TransferMeasure; 3] =
    [TransferMeasure::Goodput, TransferMeasure::SystemCpus, TransferMeasure::SystemUsPerKib];

/// A factor with its levels as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactorLevels {
    /// The setting.
    pub key: Key,
    /// Its levels, the baseline first.
    pub levels: Vec<String>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRow {
    /// The level of each factor, in their order.
    pub levels: Vec<String>,
    /// Its place on the x axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Payload that its link can carry (bit/s): full frames without a gap, headers left out; absent where its rate is
    /// not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries_bps: Option<f64>,
    /// Each repeat, in the order they were made.
    pub samples: Vec<StreamSample>,
    /// How well the mean of the drawn figure is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Why repeats are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

impl TransferRow {
    /// A figure's mean over the repeats with its interval; None where it was not measured.
    pub fn figure(&self, measure: TransferMeasure) -> Option<Figure> {
        stats::mean(&self.values(measure)).map(Figure::not_negative)
    }

    /// A figure of each repeat that has it.
    pub fn values(&self, measure: TransferMeasure) -> Vec<f64> {
        values(&self.samples, measure, self.carries_bps)
    }
}

/// A figure of each repeat that has it.
pub(super) fn values(samples: &[StreamSample], measure: TransferMeasure, carries_bps: Option<f64>) -> Vec<f64> {
    let values = samples.iter().filter_map(|sample| measure.of(sample, carries_bps));
    values.filter(|value| value.is_finite()).collect()
}

/// What a level of a factor does to a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The factor.
    pub factor: Key,
    /// The level it is compared with.
    pub from: String,
    /// The level.
    pub to: String,
    /// The figure.
    pub figure: TransferMeasure,
    /// Fitted mean at `from`, the other factors being as often at each of their levels as in the design; in
    /// one-at-a-time at their first.
    pub from_mean: f64,
    /// The same at `to`.
    pub to_mean: f64,
    /// Ratio less 1, by the logarithms, with its interval.
    pub change: Figure,
    /// Two-sided p of "no effect", corrected by Holm over the effects on this figure.
    pub p_corrected: f64,
}

/// Report of an experiment of transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferReport {
    /// `transfer`.
    pub kind: String,
    /// What the experiment shows.
    pub title: String,
    /// How its configurations were chosen: `full`, `one-at-a-time`, `fractional`.
    pub design: netcliff_core::experiment::Design,
    /// Repeats requested.
    pub repeats: u32,
    /// The configuration beside the factors, by name.
    pub asked: Vec<(String, String)>,
    /// What varied.
    pub factors: Vec<FactorLevels>,
    /// The figure that is drawn.
    pub y: TransferMeasure,
    /// The setting along the x axis, where one varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<Key>,
    /// A row a configuration.
    pub rows: Vec<TransferRow>,
    /// What each level does.
    pub effects: Vec<Effect>,
    /// What was requested and is missing, with the reason.
    pub not_had: Vec<String>,
    /// Warnings: what limits the figures.
    pub warnings: Vec<String>,
    /// What explains a difference to another run.
    pub fingerprint: Fingerprint,
    /// The same of the far end's host, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped or a configuration was cut short.
    pub partial: bool,
}

/// Results of a run.
pub(super) struct Found<'a> {
    pub experiment: &'a Transfers,
    pub repeats: Repeats,
    pub factors: Vec<Factor>,
    pub fixed: Vec<Setting>,
    pub configs: Vec<Config>,
    pub not_had: Vec<String>,
    /// The congestion control that was in force last.
    pub congestion: Option<String>,
    /// What limits every figure.
    pub limits: Vec<String>,
    pub warnings: BTreeSet<String>,
    pub fingerprints: Fingerprints,
}

impl Found<'_> {
    pub fn report(&self, place: &Place<'_>, provenance: &Provenance) -> TransferReport {
        let x = self.experiment.along_x(&self.factors);
        let effects = self.effects(x);
        let complete =
            |config: &Config| config.ended.is_none() && config.samples.len() >= self.experiment.repeats as usize;
        let partial = !self.configs.iter().all(complete);
        let Fingerprints { near: fingerprint, far: far_fingerprint, .. } = self.fingerprints.clone();
        let asked = self.asked(place);
        let rows: Vec<TransferRow> = self.configs.iter().map(|config| self.row(config, x)).collect();
        // What limits every figure, then what transfers warn of.
        let warnings = self.limits.iter().chain(&self.warnings).cloned();
        let time_s = self.experiment.time_s().unwrap_or(f64::INFINITY);
        let beyond = self.configs.iter().filter_map(|config| beyond(config, &self.factors, time_s));
        let warnings = folded(warnings.chain(rows.iter().filter_map(shortfall)).chain(beyond));
        TransferReport {
            kind: "transfer".to_owned(),
            title: self.experiment.title.clone(),
            design: self.experiment.design,
            repeats: self.experiment.repeats,
            asked,
            factors: self.factors.iter().map(levels_of).collect(),
            y: self.experiment.figure.y,
            x,
            rows,
            effects,
            not_had: self.not_had.clone(),
            warnings,
            provenance: Provenance { fingerprint_id: Some(fingerprint.id()), ..provenance.clone() },
            fingerprint,
            far_fingerprint,
            partial,
        }
    }

    fn asked(&self, place: &Place<'_>) -> Vec<(String, String)> {
        let fact = |name: &str, value: String| (name.to_owned(), value);
        let (name, ends) = place.describe();
        let mut asked = vec![fact(name, ends)];
        if place.is_netns() && !self.fixed.iter().any(|setting| setting.key() == Key::Mtu) {
            asked.push(fact("mtu", format!("{MTU_BYTES}, unless it varies")));
        }
        if self.configs.iter().any(|config| config.carries_bps().is_some()) && place.is_netns() {
            let holds = "full frames, so much more than its rate a window may hold";
            asked.push(fact("token bucket", format!("{BUCKET_FRAMES} {holds}")));
        }
        asked.extend(self.fixed.iter().map(|setting| fact(setting.key().name(), setting.to_string())));
        // The host's default, which decides more than many a setting, is listed too.
        let said = self.fixed.iter().map(Setting::key).chain(self.factors.iter().map(|factor| factor.key));
        if let (Some(held), true) = (&self.congestion, said.into_iter().all(|key| key != Key::Congestion)) {
            asked.push(fact(Key::Congestion.name(), format!("{held}, the host's default")));
        }
        let each = self.length();
        asked.push(fact("repeats", format!("{} of {each}, each round in random order", self.repeats)));
        asked.push(fact("seed", self.experiment.seed.to_string()));
        asked
    }

    /// How long a repeat is: a time, or a number of bytes where the file has one or the method is bounded by it.
    fn length(&self) -> String {
        let time = &self.experiment.time;
        let of_bytes = |setting: &Setting| matches!(setting, Setting::Bytes(_));
        if let Some(bytes) = self.fixed.iter().find(|setting| of_bytes(setting)) {
            return bytes.to_string();
        }
        let by_time = |setting: &Setting| !matches!(setting, Setting::Method(name) if name != "default");
        let settings = || self.configs.iter().flat_map(|config| &config.settings);
        match (settings().any(of_bytes), settings().all(by_time)) {
            (true, _) => "the bytes that vary".to_owned(),
            (false, true) => time.clone(),
            (false, false) => format!("{time} (the old methods: 256 Ki blocks, at most 1GiB)"),
        }
    }

    fn row(&self, config: &Config, x: Option<Key>) -> TransferRow {
        let setting = |key: Key| config.settings.iter().rev().find(|setting| setting.key() == key);
        TransferRow {
            levels: config
                .levels
                .iter()
                .zip(&self.factors)
                .map(|(at, factor)| factor.levels[*at].to_string())
                .collect(),
            x: x.and_then(|key| setting(key)?.number()),
            carries_bps: config.carries_bps(),
            samples: config.samples.clone(),
            known: Some(known(
                self.experiment.figure.y.name(),
                &config.values(self.experiment.figure.y),
                &self.repeats,
            )),
            cut_short: config.ended.clone(),
        }
    }

    /// The effect of every factor but the one along x, which is what the figure is for.
    fn effects(&self, x: Option<Key>) -> Vec<Effect> {
        let mut measures = vec![self.experiment.figure.y];
        measures.extend(EFFECTS.into_iter().filter(|measure| *measure != self.experiment.figure.y));
        let levels: Vec<usize> = self.factors.iter().map(|factor| factor.levels.len()).collect();
        let of = |figure: TransferMeasure| -> Vec<Effect> {
            let values = |config: &Config| self.row(config, None).values(figure);
            let observed: Vec<_> =
                self.configs.iter().map(|config| (config.levels.as_slice(), values(config))).collect();
            let found = effects(&levels, &observed).into_iter();
            let named = found.filter(|effect| Some(self.factors[effect.factor].key) != x);
            named
                .map(|effect| {
                    let factor = &self.factors[effect.factor];
                    Effect {
                        factor: factor.key,
                        from: factor.levels[0].to_string(),
                        to: factor.levels[effect.level].to_string(),
                        figure,
                        from_mean: effect.means.0,
                        to_mean: effect.means.1,
                        change: effect.change,
                        p_corrected: effect.p_corrected,
                    }
                })
                .collect()
        };
        measures.into_iter().flat_map(of).collect()
    }
}

/// A sentence for a configuration that missed the requested precision.
fn shortfall(row: &TransferRow) -> Option<String> {
    let known = row.known.as_ref()?;
    Some(format!("{}: {} is {}", row.levels.join(", "), known.figure, known.shortfall()?))
}

/// Where a repeat had more than a link of limited rate carries in its window, the bucket's frames included.
pub(super) fn beyond(config: &Config, factors: &[Factor], time_s: f64) -> Option<String> {
    let carries_bps = config.carries_bps()?;
    let bytes = config.settings.iter().find_map(|setting| match setting {
        Setting::Bytes(bytes) => Some(*bytes),
        _ => None,
    });
    let window_s = bytes.map_or(time_s, |bytes| bytes as f64 * 8.0 / carries_bps);
    let most = 1.0 + f64::from(BUCKET_FRAMES) * f64::from(mtu_bytes(config)) * 8.0 / (carries_bps * window_s);
    let had = config.values(TransferMeasure::LinkShare).into_iter().fold(0.0, f64::max);
    let levels = config.levels.iter().zip(factors).map(|(at, factor)| factor.levels[*at].to_string());
    (had > most).then(|| {
        format!(
            "{}: a repeat had {:.1} % of what the link can carry, with the {BUCKET_FRAMES} full frames of its token bucket \
             {:.1} % in such a window: the receiver was handed at once what had waited for a lost segment, or for its CPU, \
             as the window opened; the longer the window, the less that is",
            levels.collect::<Vec<_>>().join(", "),
            had * 100.0,
            most * 100.0
        )
    })
}

fn levels_of(factor: &Factor) -> FactorLevels {
    FactorLevels { key: factor.key, levels: factor.levels.iter().map(ToString::to_string).collect() }
}

/// Of a configuration's link (bytes).
fn mtu_bytes(config: &Config) -> u32 {
    let of = |setting: &Setting| match setting {
        Setting::Mtu(bytes) => Some(*bytes),
        _ => None,
    };
    config.settings.iter().find_map(of).unwrap_or(MTU_BYTES)
}

/// What a link of the configuration's rate can carry: full segments, or datagrams of its block.
pub(super) fn carries_bps(config: &Config) -> Option<f64> {
    let (mut rate, mtu) = (None, mtu_bytes(config));
    let ipv6 = config.settings.contains(&Setting::Ipv6(true));
    // IPv6's header is 20 bytes longer.
    let (more, headers) = if ipv6 { (20, HEADER_BYTES + 20.0) } else { (0, HEADER_BYTES) };
    let (mut udp, mut block) = (false, DATAGRAM_BYTES - more);
    for setting in &config.settings {
        match setting {
            Setting::Rate(bps) => rate = *bps,
            Setting::Channel(name) => udp = name == "udp",
            Setting::Block(bytes) => block = *bytes,
            _ => {}
        }
    }
    let share = match udp {
        true => block as f64 / datagram_frames(block, ipv6, u64::from(mtu))?.wire_bytes as f64,
        false => payload_share(f64::from(mtu) - headers, headers),
    };
    Some(rate? * share)
}

impl TransferReport {
    /// The curves of its figure: one a combination of the factors that are not along x. Empty where nothing numeric
    /// varies.
    pub fn curves(&self) -> Vec<Curve> {
        let Some(x) = self.x else { return Vec::new() };
        let mut curves: Vec<Curve> = Vec::new();
        for row in &self.rows {
            let (Some(at), Some(y)) = (row.x, row.figure(self.y)) else { continue };
            let others = self.factors.iter().zip(&row.levels).filter(|(factor, _)| factor.key != x);
            let words: Vec<String> = others.map(|(factor, level)| format!("{} {level}", factor.key)).collect();
            let name = if words.is_empty() { self.y.label().to_owned() } else { words.join(", ") };
            let dot = Dot { x: at, y };
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.dots.push(dot),
                None => {
                    let answerer = Some(Answerer { engine: EngineKind::Wire, fidelity: None });
                    curves.push(Curve { name, answerer, dots: vec![dot] });
                }
            }
        }
        curves.iter_mut().for_each(|curve| curve.dots.sort_by(|a, b| a.x.total_cmp(&b.x)));
        curves
    }
}
