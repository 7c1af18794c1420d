//! `netcliff run` of forwarding: the throughput of this kernel as a router over the frame size, in several set-ups.
//!
//! [`run`] goes through the rounds, in each of which every set-up takes its turn, each search being [`crate::rfc2544`]'s;
//! `report` holds what was found. A set-up without an objective leaves the router to the kernel, so that the tester's CPU
//! forwards what it sends; one with an objective has the settings that `tune plan` proposes for the router's interfaces.

mod report;
mod router;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::Provenance;
use netcliff_core::experiment::{self, FileError};
use netcliff_core::inspection::Objective;
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::testbed::forward::{Forwarding as Way, RULES_BY_DEFAULT};

use crate::rfc2544::conduct::{self, Step};
use crate::rfc2544::kernel::DeviceError;
use crate::rfc2544::report::SizeReport;
use crate::rfc2544::settings::{FrameSize, SearchBy, Settings};

pub use report::{Bound, Change, ForwardingReport, ForwardingRow, ForwardingSample, SetUpReport};
pub use router::{About, Router};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ForwardingError {
    /// A value of the file that cannot be.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value that cannot be, in words.
    #[error("{0}")]
    Value(String),
    /// No router could be had.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A way to set the router up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUp {
    /// What it is called.
    pub name: String,
    /// How it forwards.
    pub forwarding: Way,
    /// Rules of [`Way::Netfilter`].
    pub rules: u16,
    /// The objective of the plan that sets it; None: the kernel's own.
    pub tune: Option<Objective>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage<'a> {
    /// A set-up's turn begins: which round (from 1) of how many.
    Turn {
        /// The round.
        round: u32,
        /// All rounds.
        rounds: u32,
        /// The set-up.
        set_up: &'a str,
    },
    /// Within the turn.
    Step(Step),
}

/// Runs the experiment that was read from `path` with this `text` on routers in namespaces of this machine. A stop keeps what
/// was had.
///
/// # Errors
/// A value cannot be, or nothing could be measured.
pub fn run(
    experiment: &experiment::Forwarding,
    path: &str,
    text: &str,
    stop: &Arc<AtomicBool>,
    provenance: &Provenance,
    watch: &mut dyn FnMut(Stage<'_>),
) -> Result<ForwardingReport, ForwardingError> {
    let misplaced = |bad| FileError::misplaced(path, text, &bad);
    let settings = settings(experiment).map_err(|error| error.placed(misplaced))?;
    let set_ups = set_ups(experiment)?;
    let mut build = |set_up: &SetUp| router::build(set_up, &settings, stop);
    let (found, failure) = measure(&settings, &set_ups, experiment.rounds, &mut build, stop, watch);
    if let (Some(error), true) = (failure, found.rows().iter().all(|row| row.samples.is_empty())) {
        return Err(error.into());
    }
    let nics = netcliff_host::nic::read_all(std::path::Path::new("/sys")).unwrap_or_default();
    let host = fingerprint::of_host(&Inventory::of_this_host(), &nics);
    Ok(found.report(experiment, &settings, host, provenance))
}

/// A value that a file cannot have, with its place where that is known.
enum Refused {
    Misplaced(experiment::BadValue),
    Value(String),
}

impl Refused {
    fn placed(self, misplaced: impl FnOnce(experiment::BadValue) -> FileError) -> ForwardingError {
        match self {
            Self::Misplaced(bad) => misplaced(bad).into(),
            Self::Value(value) => ForwardingError::Value(value),
        }
    }
}

/// The searches that the file asks for.
fn settings(experiment: &experiment::Forwarding) -> Result<Settings, Refused> {
    let sizes = experiment.sizes_bytes().map_err(Refused::Misplaced)?;
    let frames: Result<Vec<FrameSize>, _> = sizes.iter().map(|bytes| format!("{bytes}").parse()).collect();
    let [trial_s, rest_s, settle_s] = experiment.times_s().map_err(Refused::Misplaced)?;
    let settings = Settings {
        frames: frames.map_err(|error| Refused::Value(error.to_string()))?,
        flows: experiment.flows,
        search: SearchBy::MlrTypical,
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

fn set_ups(experiment: &experiment::Forwarding) -> Result<Vec<SetUp>, ForwardingError> {
    let known = || Way::ALL.map(|way| way.to_string()).join(", ");
    let of = |set_up: &experiment::SetUp| {
        let forwarding = Way::ALL.into_iter().find(|way| way.to_string() == set_up.forwarding).ok_or_else(|| {
            ForwardingError::Value(format!("forwarding = \"{}\": expected one of {}", set_up.forwarding, known()))
        })?;
        let rules = set_up.rules.unwrap_or(RULES_BY_DEFAULT);
        Ok(SetUp { name: set_up.name.clone(), forwarding, rules, tune: set_up.tune })
    };
    experiment.set_ups.iter().map(of).collect()
}

/// What is had of each set-up so far.
struct Found {
    set_ups: Vec<(SetUp, Option<About>)>,
    /// By set-up, then by frame size.
    samples: Vec<Vec<Vec<ForwardingSample>>>,
    frames: Vec<FrameSize>,
    /// What could not be measured, and why.
    not_had: Vec<String>,
    stopped: bool,
}

/// All rounds. The order turns round from one to the next, so that what drifts cancels. A set-up that cannot be built or
/// fails is left out from then on; the first such error is given.
fn measure<R: Router>(
    settings: &Settings,
    set_ups: &[SetUp],
    rounds: u32,
    build: &mut dyn FnMut(&SetUp) -> Result<R, R::Error>,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Stage<'_>),
) -> (Found, Option<R::Error>) {
    let mut found = Found {
        set_ups: set_ups.iter().map(|set_up| (set_up.clone(), None)).collect(),
        samples: vec![vec![Vec::new(); settings.frames.len()]; set_ups.len()],
        frames: settings.frames.clone(),
        not_had: Vec::new(),
        stopped: false,
    };
    let mut left: Vec<usize> = (0..set_ups.len()).collect();
    let mut first_error = None;
    for round in 1..=rounds {
        let order: Vec<usize> = if round % 2 == 1 { left.clone() } else { left.iter().rev().copied().collect() };
        for at in order {
            if stop.load(Ordering::Relaxed) {
                found.stopped = true;
                return (found, first_error);
            }
            let set_up = &set_ups[at];
            watch(Stage::Turn { round, rounds, set_up: &set_up.name });
            let mut router = match build(set_up) {
                Ok(router) => router,
                Err(error) => {
                    found.leave_out(set_up, &error);
                    left.retain(|place| *place != at);
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            let (sizes, failure) = conduct::conduct(settings, &mut router, &mut |step| watch(Stage::Step(step)));
            let about = router.about();
            found.take(at, round, &sizes, &about);
            found.set_ups[at].1 = Some(about);
            match failure {
                Some(_) if stop.load(Ordering::Relaxed) => {
                    found.stopped = true;
                    return (found, first_error);
                }
                Some(error) => {
                    found.leave_out(set_up, &error);
                    left.retain(|place| *place != at);
                    first_error.get_or_insert(error);
                }
                None => {}
            }
        }
    }
    (found, first_error)
}

impl Found {
    fn leave_out(&mut self, set_up: &SetUp, error: &dyn std::fmt::Display) {
        self.not_had.push(format!("{}: {error}", set_up.name));
    }

    fn take(&mut self, at: usize, round: u32, sizes: &[SizeReport], about: &About) {
        for size in sizes {
            let Some(place) = self.frames.iter().position(|frame| *frame == size.frame) else { continue };
            // The last of a turn that failed has nothing.
            if size.throughput.is_some() {
                self.samples[at][place].push(ForwardingSample::of(round, size, about));
            }
        }
    }
}
