//! The measured cliffs: several searches by MLRsearch (RFC 9971), each for the host's own cliff and for the cliff
//! including disturbances.
//!
//! Searches begin close to where earlier searches ended, each shifted by another amount, so that no two searches try
//! the same loads. The two parts of a search share trials: the part for the cliff including disturbances uses the
//! results of the first part while it requests the same loads, and makes new trials only after pauses have made the two
//! differ.

mod climb;
mod open;

use std::collections::{BTreeMap, HashMap};

use netcliff_core::Figure;
use netcliff_core::finding::{CliffBounds, CliffSearches, SearchBounds, VoidTrials};

use super::reading::{self, Reading};
pub(super) use climb::Climb;
use netcliff_core::verdict::VoidReason;
use netcliff_mlrsearch::mlr::{self, Mlr};
use netcliff_mlrsearch::trial::{Answer, Range};
use netcliff_mlrsearch::{End, Found, Goal, Searched};
use netcliff_stats::{self as stats, Bracketed, quantile};
use netcliff_trial::bench::{Bench, Observation};
use netcliff_trial::trial::{TrialError, TrialShape, TrialSpec};
use open::{end, open};

/// Range of the searches' first loads around the expected cliff, in widths of the goal, below and above it: searches
/// then begin at different loads and need few trials. `cargo test -p netcliff-find --lib effort -- --ignored
/// --nocapture` prints the number of trials that they need, and their coverage.
const DITHER: f64 = 2.0;
/// Fractional part of the golden ratio: any number of its multiples modulo 1 is spread evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Number of reference trials before each search and after the last: with the least number of searches there are eight,
/// and an estimate of the speed needs five.
const REFERENCES: u32 = 2;
/// Least number of searches, whatever the number of trials.
const LEAST_SEARCHES: u32 = 3;
/// Total trial time after which a search ends with its present bounds, as a multiple of the trial time that decides on
/// one load ([`Goal::duration_sum_s`]).
const MOST_LOADS: f64 = 12.0;

/// Settings of the searches.
#[derive(Debug, Clone)]
pub struct Question {
    /// The trial; its length and seed are replaced.
    pub base: TrialShape,
    /// The goal that defines the cliff.
    pub goal: Goal,
    /// Range of loads that may be tried.
    pub range: Range,
    /// True: `--max-rate` limits the range; false: the sender does.
    pub limited: bool,
    /// Expected cliff (pps).
    pub near_pps: f64,
    /// Rate that the host can serve (pps), for the time in which queues drain.
    pub capacity_pps: f64,
    /// Number of searches.
    pub searches: u32,
    /// A trial that is made twice before each search and after the last, to measure the machine's speed; `None`: the
    /// searches' own trials show it.
    pub reference: Option<TrialSpec>,
    /// Number of trials after which no further search begins, except that [`LEAST_SEARCHES`] are made.
    pub most_trials: u32,
    /// Earlier trials at the highest load, which count in every search.
    pub known: Vec<Observation>,
}

/// Results of the searches.
#[derive(Debug, Default)]
pub struct Cliffs {
    own: Vec<Search>,
    experienced: Vec<Search>,
    void: BTreeMap<VoidReason, u32>,
    goal: Option<Goal>,
    /// Highest load of the question (pps): the sender's maximum.
    ceiling_pps: f64,
    /// True: `--max-rate` limits it.
    limited: bool,
    /// Each trial with its two evaluations (see [`Reading`]).
    pub trials: Vec<(Observation, Reading)>,
    /// True: the user stopped it; the results so far are included.
    pub stopped: bool,
}

/// One search for one of the two cliffs.
#[derive(Debug, PartialEq)]
struct Search {
    /// Load at which it began (pps).
    start_pps: f64,
    searched: Searched,
    /// Median service demand in its trials (s); `None`: not metered.
    demand_s: Option<f64>,
    /// Number of trials of this search, and its void trials by reason.
    trials: usize,
    void: BTreeMap<VoidReason, u32>,
}

/// Runs the searches.
///
/// # Errors
/// A trial failed. A stop is not an error: the results so far are returned.
pub fn search(bench: &mut dyn Bench, question: &Question) -> Result<Cliffs, TrialError> {
    let mut cliffs = Cliffs {
        goal: Some(question.goal),
        ceiling_pps: question.range.max_pps,
        limited: question.limited,
        ..Cliffs::default()
    };
    for number in 0..question.searches {
        if number >= LEAST_SEARCHES && cliffs.trials.len() as u32 >= question.most_trials {
            break;
        }
        match refer(bench, question, number).and_then(|()| one(bench, question, number, &mut cliffs)) {
            Ok(()) => {}
            Err(TrialError::Stopped) => {
                cliffs.stopped = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    match refer(bench, question, question.searches) {
        Err(TrialError::Stopped) => cliffs.stopped = true,
        outcome => outcome?,
    }
    Ok(cliffs)
}

/// Makes the reference trials before search `number`; none if `question` has no reference.
fn refer(bench: &mut dyn Bench, question: &Question, number: u32) -> Result<(), TrialError> {
    let Some(reference) = &question.reference else { return Ok(()) };
    for trial in 0..REFERENCES {
        let seed = reference.shape.seed + u64::from(REFERENCES * number + trial);
        let shape = TrialShape { seed, ..reference.shape.clone() };
        bench.observe(&shape.at(reference.rate_pps), true)?;
    }
    Ok(())
}

fn one(bench: &mut dyn Bench, question: &Question, number: u32, cliffs: &mut Cliffs) -> Result<(), TrialError> {
    let start_pps = start_pps(question, number, cliffs.centre_pps().unwrap_or(question.near_pps));
    let mlr = Mlr {
        goals: vec![question.goal],
        range: question.range,
        start_pps: Some(start_pps),
        at_most_s: Some(MOST_LOADS * question.goal.duration_sum_s),
    };
    let first = cliffs.trials.len();
    let mut memory: HashMap<(u64, u64), Vec<Reading>> = HashMap::new();
    for seen in &question.known {
        memory
            .entry(key(seen.spec.shape.seconds, seen.spec.rate_pps))
            .or_default()
            .push(reading::read(seen, question.capacity_pps));
    }
    let mut trials = Trials { bench, question, number, made: 0, memory, taken: HashMap::new(), cliffs };
    let own = mlr::search(&mlr, &mut |length_s, load_pps| trials.ask(length_s, load_pps).map(|read| read.own))?;
    trials.taken.clear();
    let experienced =
        mlr::search(&mlr, &mut |length_s, load_pps| trials.ask(length_s, load_pps).map(|read| read.experienced))?;
    let demands_s: Vec<f64> =
        cliffs.trials[first..].iter().filter_map(|(trial, _)| trial.counts.as_ref()?.demand_s()).collect();
    let demand_s = stats::median(&demands_s).map(|figure| figure.value);
    let void = |of: fn(&Reading) -> &Answer| {
        let mut void: BTreeMap<VoidReason, u32> = BTreeMap::new();
        for (_, reading) in &cliffs.trials[first..] {
            if let Answer::Void { why, .. } = of(reading) {
                *void.entry(*why).or_default() += 1;
            }
        }
        void
    };
    let (void_own, void_experienced) = (void(|reading| &reading.own), void(|reading| &reading.experienced));
    let trials = cliffs.trials.len() - first;
    cliffs.own.push(Search { start_pps, searched: own, demand_s, trials, void: void_own });
    cliffs.experienced.push(Search { start_pps, searched: experienced, demand_s, trials, void: void_experienced });
    Ok(())
}

/// Load at which a search begins (pps), close to `centre_pps`.
fn start_pps(question: &Question, number: u32, centre_pps: f64) -> f64 {
    // The seed shifts all first loads equally.
    let offset = (question.base.seed as f64 * GOLDEN).fract();
    let place = (offset + f64::from(number + 1) * GOLDEN).fract();
    centre_pps * (1.0 - question.goal.width).powf(DITHER * (2.0 * place - 1.0))
}

/// Key of a stored reading: the trial's length and load, as bits of the floats.
fn key(length_s: f64, load_pps: f64) -> (u64, u64) {
    (length_s.to_bits(), load_pps.to_bits())
}

/// The trials of one search, made once and used for both cliffs.
struct Trials<'a> {
    bench: &'a mut dyn Bench,
    question: &'a Question,
    number: u32,
    made: u64,
    /// Readings by length and load, in the order in which they were made.
    memory: HashMap<(u64, u64), Vec<Reading>>,
    /// Number of readings in `memory` that the search for the present cliff has used.
    taken: HashMap<(u64, u64), usize>,
    cliffs: &'a mut Cliffs,
}

impl Trials<'_> {
    fn ask(&mut self, length_s: f64, load_pps: f64) -> Result<Reading, TrialError> {
        let key = key(length_s, load_pps);
        let taken = self.taken.entry(key).or_default();
        *taken += 1;
        if let Some(known) = self.memory.get(&key).and_then(|made| made.get(*taken - 1)) {
            return Ok(known.clone());
        }
        self.made += 1;
        let base = &self.question.base;
        let seed = base.seed + 20_000 + 9_973 * u64::from(self.number) + self.made;
        let spec = TrialShape { seconds: length_s, seed, ..base.clone() }.at(load_pps);
        // The meter measures the pauses of the host's CPU.
        let observation = self.bench.observe(&spec, true)?;
        let reading = reading::read(&observation, self.question.capacity_pps);
        let void = [&reading.own, &reading.experienced].into_iter().find_map(|answer| match answer {
            Answer::Void { why, .. } => Some(*why),
            Answer::Valid(_) => None,
        });
        if let Some(why) = void {
            *self.cliffs.void.entry(why).or_default() += 1;
        }
        self.memory.entry(key).or_default().push(reading.clone());
        self.cliffs.trials.push((observation, reading.clone()));
        Ok(reading)
    }
}

impl Cliffs {
    /// The host's own cliff with its interval (pps), or the reason why it is missing.
    pub fn own(&self) -> Result<Figure, String> {
        figure(&self.own, over(&self.own), (self.ceiling_pps, self.limited))
    }

    /// The cliff including disturbances with its interval (pps), or the reason why it is missing.
    pub fn experienced(&self) -> Result<Figure, String> {
        figure(&self.experienced, self.over_experienced(), (self.ceiling_pps, self.limited))
    }

    /// Geometric mean of both bounds of a search, median over the searches for the host's own cliff so far (pps);
    /// `None` until a search has both bounds.
    fn centre_pps(&self) -> Option<f64> {
        let middle = |search: &Search| Some((bracket(&search.searched).0? * bracket(&search.searched).1?).sqrt());
        Some(stats::median(&self.own.iter().filter_map(middle).collect::<Vec<f64>>())?.value)
    }

    /// Share of the time slots that the evaluation for the host's own cliff excludes, mean over all trials.
    pub fn left_out(&self) -> f64 {
        let out: f64 = self.trials.iter().map(|(_, reading)| reading.left_out).sum();
        out / self.trials.len().max(1) as f64
    }

    /// Bounds, searches and void trials for the report; `None` before a search has finished.
    pub fn summary(&self) -> Option<CliffSearches> {
        let void = self.void.iter().map(|(why, trials)| VoidTrials { why: why.to_string(), trials: *trials });
        Some(CliffSearches {
            own: bounds(&self.own, &over(&self.own)?, self.ceiling_pps),
            experienced: bounds(&self.experienced, &self.over_experienced()?, self.ceiling_pps),
            trials: self.trials.len() as u32,
            void: void.collect(),
        })
    }

    /// The interval over the searches for the cliff including disturbances. If they differ from the searches for the
    /// host's own cliff, the interval is widened to the likelihood interval of all trials, and its middle is moved into
    /// that interval: with pauses, passing is a matter of chance over a wide range of loads, and searches end close to
    /// where they began. Its confidence is then unknown (0), because the likelihood assumes a logistic curve, and with
    /// pauses the share of failing trials does not follow one.
    fn over_experienced(&self) -> Option<Bracketed> {
        let over = over(&self.experienced)?;
        if self.experienced == self.own {
            return Some(over);
        }
        let goal = self.goal?;
        let valid: Vec<(f64, bool)> = self
            .trials
            .iter()
            .filter_map(|(_, reading)| match reading.experienced {
                Answer::Valid(trial) => Some((trial.load_pps, trial.loss_ratio() > goal.loss_ratio)),
                Answer::Void { .. } => None,
            })
            .collect();
        let likely = quantile::of(&valid, goal.exceed_ratio, over.confidence);
        let Some(likely) = likely else { return Some(Bracketed { confidence: 0.0, ..over }) };
        let wider = |a: Option<f64>, b: Option<f64>, of: fn(f64, f64) -> f64| Some(of(a?, b?));
        let into = |value: f64| value.max(likely.low.unwrap_or(0.0)).min(likely.high.unwrap_or(f64::INFINITY));
        Some(Bracketed {
            value: over.value.map(into),
            low: wider(over.low, likely.low, f64::min),
            high: wider(over.high, likely.high, f64::max),
            confidence: 0.0,
        })
    }
}

fn over(searches: &[Search]) -> Option<Bracketed> {
    let brackets: Vec<_> = searches.iter().map(|search| bracket(&search.searched)).collect();
    stats::bracketed(&brackets)
}

fn of(searched: &Searched) -> Option<Found> {
    searched.found.first().copied()
}

/// (Lower, upper) bound of a search; (`None`, `None`) if the sender was too slow.
fn bracket(searched: &Searched) -> (Option<f64>, Option<f64>) {
    match of(searched) {
        Some(found) if found.end == End::SenderTooSlow => (None, None),
        Some(found) => (found.lower_pps, found.upper_pps),
        None => (None, None),
    }
}

fn bounds(searches: &[Search], over: &Bracketed, ceiling_pps: f64) -> CliffBounds {
    let search = |search: &Search| {
        let (lower_pps, upper_pps) = bracket(&search.searched);
        let end = end(search, ceiling_pps).map_or(String::new(), |end| end.to_string());
        SearchBounds { start_pps: search.start_pps, lower_pps, upper_pps, end, demand_s: search.demand_s }
    };
    CliffBounds {
        lower_pps: over.low,
        upper_pps: over.high,
        confidence: over.confidence,
        searches: searches.iter().map(search).collect(),
    }
}

fn figure(searches: &[Search], over: Option<Bracketed>, highest: (f64, bool)) -> Result<Figure, String> {
    let over = over.ok_or("stopped before a search was finished")?;
    let Bracketed { value, low, high, confidence } = over;
    match (value, low, high) {
        (Some(value), Some(low), Some(high)) => Ok(Figure::between(value, low, high, confidence)),
        // One end of the interval is not bounded by any trial, so no interval is given; the report's `searches` has the
        // known end.
        (Some(value), ..) => Ok(Figure::exact(value)),
        (None, low, high) => Err(open(searches, low, high, highest)),
    }
}
