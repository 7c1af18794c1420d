//! The rounds of an experiment: in each round every set-up has a turn, except for turns that the continued run has
//! already made.

use std::sync::atomic::{AtomicBool, Ordering};

use super::report::{ForwardingReport, ForwardingSample};
use super::{About, Router, SetUp, Stage};
use crate::conduct;
use crate::report::SizeReport;
use crate::settings::{FrameSize, Settings};

/// The results of each set-up so far.
pub(super) struct Found {
    pub set_ups: Vec<(SetUp, Option<About>)>,
    /// Samples by set-up, then by frame size.
    pub samples: Vec<Vec<Vec<ForwardingSample>>>,
    pub frames: Vec<FrameSize>,
    /// What could not be measured, and why.
    pub not_had: Vec<String>,
    /// Warnings other than the limits of the set-ups.
    pub warnings: Vec<String>,
    pub stopped: bool,
}

/// Observer of turns.
pub(super) trait Turns {
    /// Receives the current stage.
    fn stage(&mut self, stage: Stage<'_>);

    /// Called after a turn, with the results so far.
    fn had(&mut self, _found: &Found) {}
}

/// Runs all rounds. Every second round has the reverse order, so that drift cancels out. A set-up that fails is left
/// out of the rest of the run. Returns the first error of a set-up.
pub(super) fn measure<R: Router>(
    found: &mut Found,
    settings: &Settings,
    rounds: u32,
    build: &mut dyn FnMut(&SetUp) -> Result<R, R::Error>,
    stop: &AtomicBool,
    turns: &mut dyn Turns,
) -> Option<R::Error> {
    let mut left: Vec<usize> = (0..found.set_ups.len()).collect();
    let mut first_error = None;
    for round in 1..=rounds {
        let order: Vec<usize> = if round % 2 == 1 { left.clone() } else { left.iter().rev().copied().collect() };
        for at in order {
            let missing = found.missing(at, round);
            if missing.is_empty() {
                continue;
            }
            if stop.load(Ordering::Relaxed) {
                found.stopped = true;
                return first_error;
            }
            turns.stage(Stage::Turn { round, rounds, set_up: &found.set_ups[at].0.name });
            let settings = Settings { frames: missing, ..settings.clone() };
            let failure = turn(found, (at, round), &settings, build, turns);
            match failure {
                Some(_) if stop.load(Ordering::Relaxed) => {
                    found.stopped = true;
                    return first_error;
                }
                Some(error) => {
                    found.not_had.push(format!("{}: {error}", found.set_ups[at].0.name));
                    left.retain(|place| *place != at);
                    first_error.get_or_insert(error);
                }
                None => {}
            }
            turns.had(found);
        }
    }
    first_error
}

/// A turn of a set-up: builds its router and measures it. Returns the error that ended the turn early.
fn turn<R: Router>(
    found: &mut Found,
    (at, round): (usize, u32),
    settings: &Settings,
    build: &mut dyn FnMut(&SetUp) -> Result<R, R::Error>,
    turns: &mut dyn Turns,
) -> Option<R::Error> {
    let mut router = match build(&found.set_ups[at].0) {
        Ok(router) => router,
        Err(error) => return Some(error),
    };
    let (sizes, failure) = conduct::conduct(settings, &mut router, &mut |step| turns.stage(Stage::Step(step)));
    let about = router.about();
    found.take(at, round, &sizes, &about);
    found.set_ups[at].1 = Some(about);
    failure
}

impl Found {
    /// Results without samples.
    pub fn new(set_ups: &[SetUp], settings: &Settings) -> Self {
        Self {
            set_ups: set_ups.iter().map(|set_up| (set_up.clone(), None)).collect(),
            samples: vec![vec![Vec::new(); settings.frames.len()]; set_ups.len()],
            frames: settings.frames.clone(),
            not_had: Vec::new(),
            warnings: Vec::new(),
            stopped: false,
        }
    }

    /// Takes over the samples of an earlier run of the same set-ups. Results that were missing in that run are measured
    /// again.
    pub fn take_up(&mut self, before: ForwardingReport) {
        let place =
            |set_ups: &[(SetUp, Option<About>)], name: &str| set_ups.iter().position(|(set_up, _)| set_up.name == name);
        for set_up in before.set_ups {
            if let Some(at) = place(&self.set_ups, &set_up.name) {
                self.set_ups[at].1 = set_up.about;
            }
        }
        for row in before.rows {
            let frame = self.frames.iter().position(|frame| *frame == row.frame);
            if let (Some(at), Some(frame)) = (place(&self.set_ups, &row.set_up), frame) {
                self.samples[at][frame] = row.samples;
            }
        }
    }

    /// The frame sizes of a set-up that have no sample in a round.
    fn missing(&self, at: usize, round: u32) -> Vec<FrameSize> {
        let has = |samples: &[ForwardingSample]| samples.iter().any(|sample| sample.round == round);
        let frames = self.frames.iter().zip(&self.samples[at]);
        frames.filter(|(_, samples)| !has(samples)).map(|(frame, _)| *frame).collect()
    }

    fn take(&mut self, at: usize, round: u32, sizes: &[SizeReport], about: &About) {
        for size in sizes {
            let Some(place) = self.frames.iter().position(|frame| *frame == size.frame) else { continue };
            // If a turn failed, its last size has no throughput.
            if size.throughput.is_some() {
                self.samples[at][place].push(ForwardingSample::of(round, size, about));
            }
        }
    }
}
