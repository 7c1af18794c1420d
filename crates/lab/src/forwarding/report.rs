//! What an experiment of forwarding found.

use std::collections::BTreeSet;

use netcliff_core::experiment::{Answerer, Curve, Dot, Forwarding};
use netcliff_core::{EngineKind, Figure, Fingerprint, Provenance, units};
use netcliff_host::inventory::tells_load;
use serde::{Deserialize, Serialize};

use super::About;
use super::rounds::Found;
use crate::alike::folded;
use crate::rfc2544::conduct::{LINES_BPS, line_shares};
use crate::rfc2544::cost::Predicted;
use crate::rfc2544::report::{Limit, LineShare, SizeReport};
use crate::rfc2544::settings::{FrameSize, Settings};
use crate::stats;

/// A setting that a plan made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which one.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// The value that came of it.
    pub after: String,
}

/// What kept a throughput from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The router: a higher load was offered and not forwarded.
    Router,
    /// The CPU that sends, forwards and takes in: the figure is what it does of all three together.
    SharedCpu,
    /// The tester: it cannot offer more, so the router does at least that.
    Tester,
}

impl Bound {
    fn of(limit: Limit, shared: bool) -> Self {
        match (limit, shared) {
            (Limit::Device, _) => Self::Router,
            (_, true) => Self::SharedCpu,
            (_, false) => Self::Tester,
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::SharedCpu => "shared CPU",
            Self::Tester => "tester",
        }
    }
}

/// A search's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardingSample {
    /// The round, from 1.
    pub round: u32,
    /// The highest load that was forwarded (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// The lowest above it that was not (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// What kept it from being higher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What the sender reached flat out (pps).
    pub sender_pps: f64,
    /// The throughput that follows from what frames cost the router's CPU at half of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Trials of the search, void ones too.
    pub trials: u64,
    /// Their intended length (s).
    pub trial_time_s: f64,
    /// What could not be had and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl ForwardingSample {
    pub(super) fn of(round: u32, size: &SizeReport, about: &About) -> Self {
        let searched = size.throughput.as_ref();
        let first = searched.and_then(|searched| searched.found.first());
        Self {
            round,
            throughput_pps: size.forwarded_pps(),
            upper_pps: first.and_then(|found| found.upper_pps),
            bound: size.limit.map(|limit| Bound::of(limit, about.shared)),
            sender_pps: size.sender_pps,
            predicted: size.predicted,
            trials: size.seen.trials,
            trial_time_s: searched.map_or(0.0, |searched| searched.trial_time_s),
            missing: size.missing.clone(),
        }
    }
}

/// A set-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetUpReport {
    /// What it is called.
    pub name: String,
    /// How it forwards.
    pub forwarding: String,
    /// The objective of its plan; absent: the kernel's own set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// How it was set up; absent where it could not be built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// A frame size in a set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardingRow {
    /// The frames.
    pub frame: FrameSize,
    /// The set-up.
    pub set_up: String,
    /// Each round's.
    pub samples: Vec<ForwardingSample>,
    /// Mean throughput over the rounds (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// What bounds it: the tester where it did in any round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Mean of what the simulator says of one server, the router's CPU (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_pps: Option<Figure>,
    /// Where router and tester share a CPU, what follows on paper from the times that a frame takes of each where they do not:
    /// mean over the rounds of a set-up that forwards the same way (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled_pps: Option<Figure>,
    /// Shares of lines that the throughput is; above 1 the line would limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_shares: Vec<LineShare>,
    /// Ratio to the first set-up of the same round, less 1, by the logarithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Figure>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardingReport {
    /// `forwarding`.
    pub kind: String,
    /// What the experiment shows.
    pub title: String,
    /// Rounds asked for.
    pub rounds: u32,
    /// What was asked, by name.
    pub asked: Vec<(String, String)>,
    /// The set-ups; gains are against the first.
    pub set_ups: Vec<SetUpReport>,
    /// A row a frame size and set-up.
    pub rows: Vec<ForwardingRow>,
    /// What was asked for and not had, with the reason.
    pub not_had: Vec<String>,
    /// What makes figures mean less.
    pub warnings: Vec<String>,
    /// What explains a difference to another run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped, or rounds are missing.
    pub partial: bool,
}

impl Found {
    /// Size by size, every set-up.
    pub(super) fn rows(&self) -> Vec<ForwardingRow> {
        let row = |(place, frame): (usize, &FrameSize)| {
            let frame = *frame;
            let first = &self.samples[0][place];
            let one = move |(at, samples): (usize, &Vec<Vec<ForwardingSample>>)| {
                let base = (at > 0).then_some(&first[..]);
                let modelled_pps = self.apart_from(at).and_then(|apart| in_turn(&self.samples[apart][place]));
                let row = ForwardingRow::of(frame, &self.set_ups[at].0.name, samples[place].clone(), base);
                ForwardingRow { modelled_pps: modelled_pps.filter(|_| row.simulated_pps.is_none()), ..row }
            };
            self.samples.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        self.frames.iter().enumerate().flat_map(row).collect()
    }

    /// Of a set-up that shares its CPU with the tester, one that forwards the same way and does not.
    fn apart_from(&self, at: usize) -> Option<usize> {
        let shared = |place: usize| self.set_ups[place].1.as_ref().map(|about| about.shared);
        let way = |place: usize| (self.set_ups[place].0.forwarding, self.set_ups[place].0.rules);
        let apart = |place: &usize| shared(*place) == Some(false) && way(*place) == way(at);
        (shared(at) == Some(true)).then(|| (0..self.set_ups.len()).find(apart)).flatten()
    }

    pub(super) fn report(
        &self,
        experiment: &Forwarding,
        settings: &Settings,
        fingerprint: Fingerprint,
        provenance: &Provenance,
    ) -> ForwardingReport {
        let rows = self.rows();
        let whole = |row: &ForwardingRow| row.samples.len() == experiment.rounds as usize;
        let limits: BTreeSet<&String> =
            self.set_ups.iter().filter_map(|(_, about)| about.as_ref()).flat_map(|about| &about.limits).collect();
        // While it runs the load is its own.
        let limits = limits.into_iter().filter(|limit| !tells_load(limit));
        let mut warnings = folded(limits.chain(&self.warnings).cloned());
        warnings.extend(predicted_of(self));
        let set_ups = self.set_ups.iter().map(|(set_up, about)| SetUpReport {
            name: set_up.name.clone(),
            forwarding: set_up.forwarding.to_string(),
            tune: set_up.tune.map(|objective| objective.to_string()),
            about: about.clone(),
        });
        ForwardingReport {
            kind: "forwarding".to_owned(),
            title: experiment.title.clone(),
            rounds: experiment.rounds,
            asked: asked(experiment, settings),
            set_ups: set_ups.collect(),
            not_had: self.not_had.clone(),
            warnings,
            partial: self.stopped || !rows.iter().all(whole),
            rows,
            provenance: Provenance { fingerprint_id: Some(fingerprint.id()), ..provenance.clone() },
            fingerprint,
        }
    }
}

/// One CPU that does one after the other what tester and router were seen to need for a frame: 1 / (t + r).
fn in_turn(samples: &[ForwardingSample]) -> Option<Figure> {
    let both = |sample: &ForwardingSample| Some(1.0 / (1.0 / sample.sender_pps + 1.0 / sample.predicted?.server_pps));
    stats::mean(&samples.iter().filter_map(both).collect::<Vec<f64>>())
}

/// What the predictions are of, and where there are none.
fn predicted_of(found: &Found) -> Vec<String> {
    let one = |(at, (set_up, about)): (usize, &(super::SetUp, Option<About>))| {
        let cpus = &about.as_ref()?.router_cpus;
        let why = match found.apart_from(at) {
            Some(apart) => format!(
                "not simulated, since the CPU that forwards also sends and takes in; on paper from what a frame takes of each in {}",
                found.set_ups[apart].0.name
            ),
            None if about.as_ref()?.shared => "not predicted: the CPU that forwards also sends and takes in".to_owned(),
            None if cpus.len() > 1 => "not predicted: one server is, and its work is on several CPUs".to_owned(),
            None => return None,
        };
        Some(format!("{}: {why}", set_up.name))
    };
    found.set_ups.iter().enumerate().filter_map(one).collect()
}

fn asked(experiment: &Forwarding, settings: &Settings) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let frames: Vec<String> = settings.frames.iter().map(ToString::to_string).collect();
    let time = units::print_time_s;
    vec![
        fact("rounds", format!("{}, the set-ups in turn, each second round the other way round", experiment.rounds)),
        fact("frames", format!("{}, {} flows, one way", frames.join(" "), settings.flows)),
        fact(
            "search",
            format!(
                "MLRsearch to {}: 21 trials of {} a load, of which half may lose more than {} of the frames",
                units::print_share(settings.width),
                time(settings.trial_s),
                units::print_share(settings.loss_ratio)
            ),
        ),
        fact("simulated", "one server, the router's CPU, with the costs seen there at half the throughput".to_owned()),
    ]
}

impl ForwardingRow {
    fn of(frame: FrameSize, set_up: &str, samples: Vec<ForwardingSample>, base: Option<&[ForwardingSample]>) -> Self {
        let values = |read: &dyn Fn(&ForwardingSample) -> Option<f64>| -> Option<Figure> {
            stats::mean(&samples.iter().filter_map(read).collect::<Vec<f64>>())
        };
        let throughput_pps = values(&|sample| sample.throughput_pps);
        let simulated_pps = values(&|sample| sample.predicted?.simulated_pps);
        Self {
            frame,
            set_up: set_up.to_owned(),
            throughput_pps,
            bound: samples.iter().filter_map(|sample| sample.bound).max(),
            simulated_pps,
            modelled_pps: None,
            line_shares: throughput_pps.map(|figure| line_shares(frame, figure.value)).unwrap_or_default(),
            gain: base.and_then(|base| gain(base, &samples)),
            samples,
        }
    }

    /// Mean time that a frame takes of the router's CPU, as the rounds saw it (s).
    pub fn frame_s(&self) -> Option<f64> {
        let times: Vec<f64> = self.samples.iter().filter_map(|sample| Some(sample.predicted?.frame_s)).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }

    /// What the simulator says, or else what follows on paper, and which of the two (pps).
    pub fn predicted_pps(&self) -> Option<(f64, &'static str)> {
        let simulated = self.simulated_pps.map(|figure| (figure.value, "simulated"));
        simulated.or(self.modelled_pps.map(|figure| (figure.value, "on paper")))
    }

    /// Measured over predicted, less 1. Of a lower limit nothing is off that lies above it.
    pub fn off(&self) -> Option<f64> {
        let reached = matches!(self.bound, Some(Bound::Router | Bound::SharedCpu));
        let (predicted_pps, _) = self.predicted_pps()?;
        self.throughput_pps.filter(|_| reached).map(|measured| measured.value / predicted_pps - 1.0)
    }

    /// Frame size (bytes).
    pub fn bytes(&self) -> f64 {
        self.frame.mean_bytes()
    }
}

/// Mean ratio, less 1, of rounds that both have, by the logarithms.
fn gain(base: &[ForwardingSample], samples: &[ForwardingSample]) -> Option<Figure> {
    let ratio = |sample: &ForwardingSample| {
        let same = base.iter().find(|base| base.round == sample.round)?;
        Some((sample.throughput_pps? / same.throughput_pps?).ln())
    };
    Some(stats::mean(&samples.iter().filter_map(ratio).collect::<Vec<f64>>())?.mapped(f64::exp_m1))
}

impl ForwardingReport {
    /// Throughput over frame size: measured and simulated by set-up, then what lines carry.
    pub fn curves(&self) -> Vec<Curve> {
        let mut curves = self.of_set_ups(|_, figure| figure);
        for line_bps in LINES_BPS {
            let name = format!("{} line", units::print_bps(line_bps));
            let sizes: BTreeSet<u64> = self.rows.iter().map(|row| row.bytes() as u64).collect();
            let pps = |bytes: &u64| FrameSize::Fixed(*bytes as u32).line_pps(line_bps);
            let dots = sizes.iter().map(|bytes| Dot { x: *bytes as f64, y: Figure::exact(pps(bytes)) });
            curves.push(Curve { name, answerer: None, dots: dots.collect() });
        }
        curves
    }

    /// Share of a line's frame rate over frame size; a line forwards no more than it carries.
    pub fn shares(&self, line_bps: f64) -> Vec<Curve> {
        self.of_set_ups(|frame, figure| figure.mapped(|pps| (pps / frame.line_pps(line_bps)).min(1.0)))
    }

    fn of_set_ups(&self, shown: impl Fn(FrameSize, Figure) -> Figure) -> Vec<Curve> {
        let curve = |name: &str, engine: EngineKind, read: &dyn Fn(&ForwardingRow) -> Option<Figure>| {
            let own = self.rows.iter().filter(|row| row.set_up == name);
            let dots: Vec<Dot> =
                own.filter_map(|row| Some(Dot { x: row.bytes(), y: shown(row.frame, read(row)?) })).collect();
            let answerer = Some(Answerer { engine, fidelity: None });
            (!dots.is_empty()).then(|| Curve { name: name.to_owned(), answerer, dots })
        };
        let both = |set_up: &SetUpReport| {
            [
                curve(&set_up.name, EngineKind::Wire, &|row| row.throughput_pps),
                curve(&set_up.name, EngineKind::Sim, &|row| row.simulated_pps),
                curve(&set_up.name, EngineKind::Model, &|row| row.modelled_pps),
            ]
        };
        self.set_ups.iter().flat_map(both).flatten().collect()
    }
}
