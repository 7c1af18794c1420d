//! Report of an experiment of transfers.

use std::collections::{BTreeMap, BTreeSet};

use netcliff_core::experiment::{
    Answerer, Curve, Dot, Factor, Key, Lack, Setting, TransferMeasure, Transfers, curve_name,
};
use netcliff_core::repeats::{Known, Repeats};
use netcliff_core::stream::{StreamSample, StreamWarning, datagram_frames, payload_share};
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
/// Datagram payload if the experiment does not set the block (bytes): a full frame over IPv4.
const DATAGRAM_BYTES: u64 = 1472;
/// Values whose effects are reported in addition to the drawn one: throughput, CPU, service demand.
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
    /// Value of the configuration on the x axis; absent: no setting varies along x.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Payload that its link can carry (bit/s): full frames without a gap, without headers; absent: the link's rate is not
    /// limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries_bps: Option<f64>,
    /// The repeats, in the order of measurement.
    pub samples: Vec<StreamSample>,
    /// Standard deviation of the drawn figure over the repeats; absent with fewer than two repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_deviation: Option<f64>,
    /// Uncertainty of the mean of the drawn figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Why repeats are missing; absent: no repeat is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
}

impl TransferRow {
    /// Mean of a value over the repeats, with its interval. `None` if no repeat has the value.
    pub fn figure(&self, measure: TransferMeasure) -> Option<Figure> {
        stats::mean(&self.values(measure)).map(Figure::not_negative)
    }

    /// Standard deviation of a value over the repeats that have it. `None` for fewer than two.
    pub fn deviation(&self, measure: TransferMeasure) -> Option<f64> {
        let values = self.values(measure);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
    }

    /// The values of `measure`, one for each repeat that has one.
    pub fn values(&self, measure: TransferMeasure) -> Vec<f64> {
        values(&self.samples, measure, self.carries_bps)
    }
}

/// The values of `measure`, one for each repeat that has one. `carries_bps` is the payload rate that the link can carry
/// (bit/s).
pub(super) fn values(samples: &[StreamSample], measure: TransferMeasure, carries_bps: Option<f64>) -> Vec<f64> {
    let values = samples.iter().filter_map(|sample| measure.of(sample, carries_bps));
    values.filter(|value| value.is_finite()).collect()
}

/// Effect of a level of a factor on a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The factor.
    pub factor: Key,
    /// The level it is compared with.
    pub from: String,
    /// The level.
    pub to: String,
    /// The affected figure.
    pub figure: TransferMeasure,
    /// Fitted mean at `from`, with the other factors at each of their levels as often as in the design; with the design
    /// one-at-a-time, at their first level.
    pub from_mean: f64,
    /// Fitted mean at `to`, with the other factors as for `from_mean`.
    pub to_mean: f64,
    /// `to_mean / from_mean - 1`, estimated by the logarithms, with its interval.
    pub change: Figure,
    /// Two-sided p-value of "no effect", corrected by Holm over all effects on this figure.
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
    /// The settings that do not vary, by name.
    pub asked: Vec<(String, String)>,
    /// The settings that vary, with their levels.
    pub factors: Vec<FactorLevels>,
    /// The figure that is drawn.
    pub y: TransferMeasure,
    /// Figures that are drawn together with `y`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<TransferMeasure>,
    /// The setting along the x axis; absent: no setting varies along it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<Key>,
    /// One row for each configuration.
    pub rows: Vec<TransferRow>,
    /// Effect of each level on the main figures, relative to the factor's first level.
    pub effects: Vec<Effect>,
    /// Requested figures that are missing, with the reason.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub not_had: Vec<Lack>,
    /// Warnings: conditions that make the figures less certain.
    pub warnings: Vec<String>,
    /// Facts of this host that explain a difference to another run.
    pub fingerprint: Fingerprint,
    /// Facts of the far end's host; absent: the far end runs on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// How the report was produced.
    pub provenance: Provenance,
    /// True if the run was stopped or a configuration was cut short.
    pub partial: bool,
}

/// Results of a run.
pub(super) struct Found<'a> {
    pub experiment: &'a Transfers,
    pub repeats: Repeats,
    pub factors: Vec<Factor>,
    pub fixed: Vec<Setting>,
    pub configs: Vec<Config>,
    pub not_had: Vec<Lack>,
    /// The congestion control in force in the latest transfer.
    pub congestion: Option<String>,
    /// What limits all results.
    pub limits: Vec<String>,
    pub warnings: BTreeSet<StreamWarning>,
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
        // First what limits all results, then the warnings of the transfers.
        let warnings = self.limits.iter().cloned().chain(self.of_transfers());
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
            also: self.experiment.figure.also.clone(),
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

    /// The warnings of the transfers, each of at least one transfer. If the block varies, a warning names it as the
    /// configurations do.
    fn of_transfers(&self) -> Vec<String> {
        let varies = self.factors.iter().any(|factor| factor.key == Key::Block);
        let named = |sentence: String| match sentence.strip_prefix("write of ") {
            Some(rest) if varies => format!("in transfers with block {rest}"),
            _ => sentence,
        };
        of_both_ends(&self.warnings).into_iter().map(named).collect()
    }

    fn asked(&self, place: &Place<'_>) -> Vec<(String, String)> {
        let fact = |name: &str, value: String| (name.to_owned(), value);
        let (name, ends) = place.describe();
        let mut asked = vec![fact(name, ends)];
        if place.is_netns() && !self.fixed.iter().any(|setting| setting.key() == Key::Mtu) {
            let varies = self.factors.iter().any(|factor| factor.key == Key::Mtu);
            asked.push(fact("mtu", if varies { "varies".to_owned() } else { MTU_BYTES.to_string() }));
        }
        if self.configs.iter().any(|config| config.carries_bps().is_some()) && place.is_netns() {
            let holds = "full frames, so much more than its rate a window may hold";
            asked.push(fact("token bucket", format!("{BUCKET_FRAMES} {holds}")));
        }
        asked.extend(self.fixed.iter().map(|setting| fact(setting.key().name(), setting.to_string())));
        // If the experiment does not set the congestion control, report the host's default: it affects results more
        // than many settings.
        let said = self.fixed.iter().map(Setting::key).chain(self.factors.iter().map(|factor| factor.key));
        if let (Some(held), true) = (&self.congestion, said.into_iter().all(|key| key != Key::Congestion)) {
            asked.push(fact(Key::Congestion.name(), format!("{held}, the host's default")));
        }
        let each = self.length();
        asked.push(fact("repeats", format!("{} of {each}, each round in random order", self.repeats)));
        asked.push(fact("seed", self.experiment.seed.to_string()));
        asked
    }

    /// Describes the length of a repeat: a number of bytes if the file sets one, otherwise the time. Methods that are
    /// bounded by bytes are mentioned.
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
        let row = TransferRow {
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
            standard_deviation: None,
            cut_short: config.ended.clone(),
        };
        TransferRow { standard_deviation: row.deviation(self.experiment.figure.y), ..row }
    }

    /// The effects of all factors except the one on the x axis, which the plot shows.
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

/// The warnings, in which one sentence replaces the two that name the threads of both ends as the limit of the same
/// blocks: they come from different transfers.
pub(super) fn of_both_ends(warnings: &BTreeSet<StreamWarning>) -> Vec<String> {
    let merged = |warning: &StreamWarning| match warning {
        StreamWarning::FullThreads(full) if warnings.contains(&StreamWarning::FullThreads(full.other_end())) => {
            full.of_both_ends()
        }
        other => other.to_string(),
    };
    // In the order of the warnings' own sentences; the common one is at the place of the first of the two.
    let ordered: BTreeMap<String, &StreamWarning> =
        warnings.iter().map(|warning| (warning.to_string(), warning)).collect();
    let mut found: Vec<String> = Vec::new();
    for sentence in ordered.into_values().map(merged) {
        if !found.contains(&sentence) {
            found.push(sentence);
        }
    }
    found
}

/// A warning if a configuration missed the requested precision.
fn shortfall(row: &TransferRow) -> Option<String> {
    let known = row.known.as_ref()?;
    Some(format!("{}: {} is {}", row.levels.join(", "), known.figure, known.shortfall()?))
}

/// A warning if a repeat received more than a link of limited rate carries in the window, including the token bucket's
/// frames.
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

/// MTU of a configuration's link (bytes).
fn mtu_bytes(config: &Config) -> u32 {
    let of = |setting: &Setting| match setting {
        Setting::Mtu(bytes) => Some(*bytes),
        _ => None,
    };
    config.settings.iter().find_map(of).unwrap_or(MTU_BYTES)
}

/// Payload rate that a link of the configuration's rate can carry (bit/s), in full segments, or in datagrams of one
/// block. `None` if the rate is not limited.
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
    /// The curves of the report's plot: one for each combination of the factors that are not on the x axis. Empty if no
    /// numeric setting varies.
    pub fn curves(&self) -> Vec<Curve> {
        let all = std::iter::once(self.y).chain(self.also.iter().copied());
        all.flat_map(|measure| self.along(measure, &self.also)).collect()
    }

    /// The curves that the experiment's marks are compared with: those of `measure`; without an x axis, a point for
    /// each configuration and for each level of a factor.
    pub fn judged(&self, measure: TransferMeasure) -> Vec<Curve> {
        if self.x.is_some() { self.along(measure, &[]) } else { self.by_setting(measure) }
    }

    fn along(&self, measure: TransferMeasure, also: &[TransferMeasure]) -> Vec<Curve> {
        let Some(x) = self.x else { return Vec::new() };
        let mut curves: Vec<Curve> = Vec::new();
        for row in &self.rows {
            let (Some(at), Some(y)) = (row.x, row.figure(measure)) else { continue };
            let words: Vec<String> = self.words(row, Some(x)).collect();
            let (name, dot) = (curve_name(&words, measure, also), Dot { x: at, y });
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.dots.push(dot),
                None => curves.push(Curve { name, answerer: MEASURED, dots: vec![dot] }),
            }
        }
        curves.iter_mut().for_each(|curve| curve.dots.sort_by(|a, b| a.x.total_cmp(&b.x)));
        curves
    }

    /// The settings of a configuration as text, without the one on the x axis.
    fn words<'a>(&'a self, row: &'a TransferRow, x: Option<Key>) -> impl Iterator<Item = String> + 'a {
        let settings = self.factors.iter().zip(&row.levels).filter(move |(factor, _)| Some(factor.key) != x);
        settings.map(|(factor, level)| format!("{} {level}", factor.key))
    }

    /// A point for each configuration, and one for each level of a factor: the geometric mean of the configurations
    /// with this level. In a one-at-a-time design, only of those that differ from the first configuration in nothing
    /// else.
    fn by_setting(&self, measure: TransferMeasure) -> Vec<Curve> {
        let figures: Vec<(&TransferRow, Figure)> =
            self.rows.iter().filter_map(|row| Some((row, row.figure(measure)?))).collect();
        let curve = |name: String, y: Figure| Curve { name, answerer: MEASURED, dots: vec![Dot { x: 0.0, y }] };
        let whole = |row: &TransferRow| self.words(row, None).collect::<Vec<_>>().join(", ");
        let mut curves: Vec<Curve> = figures.iter().map(|(row, y)| curve(whole(row), *y)).collect();
        let first: Vec<&String> = self.factors.iter().filter_map(|factor| factor.levels.first()).collect();
        for (at, factor) in self.factors.iter().enumerate().filter(|_| self.factors.len() > 1) {
            for level in &factor.levels {
                let alone = |row: &TransferRow| {
                    row.levels
                        .iter()
                        .zip(&first)
                        .enumerate()
                        .all(|(place, (level, first))| place == at || level == *first)
                };
                let has = |row: &TransferRow| row.levels.get(at) == Some(level);
                let one_by_one = self.design == netcliff_core::experiment::Design::OneAtATime;
                let those = figures.iter().filter(|(row, _)| has(row) && (!one_by_one || alone(row)));
                let those: Vec<Figure> = those.map(|(_, figure)| *figure).collect();
                curves.extend(geometric_mean(&those).map(|mean| curve(format!("{} {level}", factor.key), mean)));
            }
        }
        curves
    }
}

const MEASURED: Option<Answerer> = Some(Answerer { engine: EngineKind::Wire, fidelity: None });

/// Geometric mean of the values. The relative half widths are combined as for independent means. `None` if there are no
/// values or one is not positive.
fn geometric_mean(figures: &[Figure]) -> Option<Figure> {
    if figures.is_empty() || figures.iter().any(|figure| figure.value <= 0.0) {
        return None;
    }
    let count = figures.len() as f64;
    let value = (figures.iter().map(|figure| figure.value.ln()).sum::<f64>() / count).exp();
    let half = |figure: &Figure| figure.interval.map_or(0.0, |ends| (ends.high - ends.low) / 2.0 / figure.value);
    let half = figures.iter().map(|figure| half(figure).powi(2)).sum::<f64>().sqrt() / count;
    Some(if half > 0.0 { Figure::sampled(value, value * half, stats::CONFIDENCE) } else { Figure::exact(value) })
}
