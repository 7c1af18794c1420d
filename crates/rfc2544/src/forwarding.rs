//! `netcliff run` of forwarding: the throughput of this kernel as a router by frame size, in several set-ups.
//!
//! [`run`] makes the rounds (`rounds`). In each round every set-up has a turn, with a search of [`crate`] for each
//! frame size. `found` makes a report (`report`) of the results, and `curves` its curves. A set-up without an objective
//! leaves the router to the kernel, so that the tester's CPU also forwards the frames that it sends. A set-up with an
//! objective uses the settings that `tune plan` proposes for the router's interfaces.

mod found;
mod report;
mod rounds;
mod router;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::experiment::{self, FileError};
use netcliff_core::inspection::Objective;
use netcliff_core::{Fingerprint, Provenance};
use netcliff_host::fingerprint;
use netcliff_host::inventory::{Inventory, Limitation};
use netcliff_host::testbed::forward::{Forwarding as Way, RULES, RULES_BY_DEFAULT};
use netcliff_packets::port::SendBy;

use crate::conduct::Step;
use crate::kernel::DeviceError;
use crate::settings::{FrameSize, SearchBy, Settings};
use netcliff_host::fingerprint::changed_meanwhile;

pub use report::{Bound, Change, ForwardingReport, ForwardingRow, ForwardingSample, GainLimit, SetUpReport};
pub use router::{About, Router};

use rounds::{Found, Turns, measure};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ForwardingError {
    /// An invalid value in the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An invalid value, as a sentence.
    #[error("{0}")]
    Value(String),
    /// No router could be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A set-up of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUp {
    /// Name of the set-up.
    pub name: String,
    /// How the router forwards.
    pub forwarding: Way,
    /// Number of rules for [`Way::Netfilter`].
    pub rules: u16,
    /// Objective of the tuning plan. `None`: the kernel's own settings.
    pub tune: Option<Objective>,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage<'a> {
    /// A set-up's turn starts.
    Turn {
        /// The round, from 1.
        round: u32,
        /// Number of rounds.
        rounds: u32,
        /// Name of the set-up.
        set_up: &'a str,
    },
    /// A step within the turn.
    Step(Step),
}

/// Observer of a run.
pub trait Watch {
    /// Receives the current stage.
    fn stage(&mut self, stage: Stage<'_>);

    /// Receives the results so far after each turn, to store them.
    fn had(&mut self, _so_far: &ForwardingReport) {}

    /// Returns the results of the run to continue. `None` for a new run.
    fn resumed(&mut self) -> Option<ForwardingReport> {
        None
    }
}

/// Runs the experiment on routers in namespaces of this machine. `path` and `text` are the name and the content of the
/// experiment's file. If the user stops the run, the results so far are returned. Turns that the continued run has made
/// are not repeated.
pub fn run(
    experiment: &experiment::Forwarding,
    path: &str,
    text: &str,
    stop: &Arc<AtomicBool>,
    provenance: &Provenance,
    watch: &mut dyn Watch,
) -> Result<ForwardingReport, ForwardingError> {
    let misplaced = |bad| FileError::misplaced(path, text, &bad);
    let settings = settings(experiment).map_err(|error| error.placed(path, misplaced))?;
    let set_ups = set_ups(experiment).map_err(|error| error.placed(path, misplaced))?;
    let nics = netcliff_host::nic::read_all(std::path::Path::new("/sys")).unwrap_or_default();
    let inventory = Inventory::of_this_host();
    let host = fingerprint::of_host(&inventory, &nics);
    let mut found = Found::new(&set_ups, &settings);
    let load = inventory.limits().into_iter().find(|limit| matches!(limit, Limitation::OtherLoad { .. }));
    found.warnings.extend(load.map(|limit| limit.to_string()));
    if let Some(before) = watch.resumed() {
        found.warnings.extend(changed_meanwhile(&before.fingerprint, &host));
        found.take_up(before);
    }
    let report = |found: &Found| found.report(experiment, &settings, host.clone(), provenance);
    let mut build = |set_up: &SetUp| router::build(set_up, &settings, stop);
    let mut turns = Reported { watch, report: &report };
    let failure = measure(&mut found, &settings, experiment.rounds, &mut build, stop, &mut turns);
    if let (Some(error), true) = (failure, found.rows().iter().all(|row| row.samples.is_empty())) {
        return Err(error.into());
    }
    Ok(report(&found))
}

/// Passes the report so far to `watch` after each turn.
struct Reported<'a> {
    watch: &'a mut dyn Watch,
    report: &'a dyn Fn(&Found) -> ForwardingReport,
}

impl Turns for Reported<'_> {
    fn stage(&mut self, stage: Stage<'_>) {
        self.watch.stage(stage);
    }

    fn had(&mut self, found: &Found) {
        self.watch.had(&(self.report)(found));
    }
}

/// Identifier of an experiment: a hash of its file and of the user's changes to it. A run with the same identifier can
/// be continued.
pub fn identifier(experiment: &experiment::Forwarding, text: &str) -> String {
    let facts = [
        ("file", text),
        ("rounds", &experiment.rounds.to_string()),
        ("sizes", &format!("{:?}", experiment.sizes)),
        ("trial", &experiment.trial),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    let facts = facts.map(|(name, fact)| (name.to_owned(), fact.to_owned())).into_iter().collect();
    Fingerprint { facts }.id()
}

/// An invalid value of a file, with its position if known.
enum Refused {
    Misplaced(experiment::BadValue),
    Value(String),
}

impl Refused {
    fn placed(self, path: &str, misplaced: impl FnOnce(experiment::BadValue) -> FileError) -> ForwardingError {
        match self {
            Self::Misplaced(bad) => misplaced(bad).into(),
            Self::Value(value) => ForwardingError::Value(format!("{path}: {value}")),
        }
    }
}

/// The settings of the searches.
fn settings(experiment: &experiment::Forwarding) -> Result<Settings, Refused> {
    let sizes = experiment.sizes_bytes().map_err(Refused::Misplaced)?;
    let frames: Result<Vec<FrameSize>, _> = sizes.iter().map(|bytes| format!("{bytes}").parse()).collect();
    let [trial_s, rest_s, settle_s] = experiment.times_s().map_err(Refused::Misplaced)?;
    let settings = Settings {
        frames: frames.map_err(|error| Refused::Value(error.to_string()))?,
        flows: experiment.flows(),
        destinations: experiment.destinations,
        destination_ports: experiment.destination_ports,
        search: SearchBy::MlrTypical,
        send_by: SendBy::Live,
        trial_s,
        rest_s,
        settle_s,
        width: experiment.width.0,
        loss_ratio: experiment.loss_ratio().map_err(Refused::Misplaced)?,
        ..Settings::default()
    };
    settings.check().map_err(|error| Refused::Value(error.to_string()))?;
    Ok(settings)
}

fn set_ups(experiment: &experiment::Forwarding) -> Result<Vec<SetUp>, Refused> {
    let known = || Way::ALL.map(|way| way.to_string()).join(", ");
    let of = |set_up: &experiment::SetUp| {
        let forwarding = Way::ALL.into_iter().find(|way| way.to_string() == set_up.forwarding).ok_or_else(|| {
            Refused::Value(format!("forwarding = \"{}\": expected one of {}", set_up.forwarding, known()))
        })?;
        let rules = set_up.rules.unwrap_or(RULES_BY_DEFAULT);
        if !RULES.contains(&rules) {
            return Err(Refused::Value(format!("rules = {rules}: expected {} to {}", RULES.start(), RULES.end())));
        }
        Ok(SetUp { name: set_up.name.clone(), forwarding, rules, tune: set_up.tune })
    };
    experiment.set_ups.iter().map(of).collect()
}

mod curves {
    //! Curves of a report.

    use std::collections::BTreeSet;

    use netcliff_core::experiment::{Answerer, Curve, Dot};
    use netcliff_core::{EngineKind, Figure, units};

    use super::report::{ForwardingReport, ForwardingRow, SetUpReport};
    use crate::conduct::LINES_BPS;
    use crate::settings::FrameSize;

    impl ForwardingReport {
        /// Throughput by frame size: measured and predicted for each set-up, then the frame rates of some lines.
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

        /// Throughput as a share of a line's frame rate, by frame size. The share is at most 1.
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
}
