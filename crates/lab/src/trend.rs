//! `netcliff results trend`: the stored runs of one name in their order, and where a figure changed its level.
//!
//! [`trend`] is a pure function of measured runs and returns a [`Trend`]. `divisive` defines and tests change points.

mod divisive;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use netcliff_core::Fingerprint;
use serde::Serialize;

use crate::compare::{Better, Class, Measured, Quantity, ReadError, Source};
use crate::store::{RunSummary, Store, StoreError};
use netcliff_stats::CONFIDENCE;

/// Smallest number of runs with which a change can be significant at level 0.05. 8 values can be divided into halves in
/// 70 ways; 2 of these are as clear as the clearest, so that p = 2/70.
pub const FEWEST_RUNS: usize = 8;
/// Smallest number of permutations in a test. The standard error of p is then 0.01 at p = 0.05.
const LEAST_PERMUTATIONS: u32 = 499;
/// Largest number of facts that are named at a change.
const MOST_FACTS: usize = 12;
/// Seed of the permutations, which are the same in every call.
const SEED: u64 = 1;

/// A run of the trend.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrendRun {
    /// Number of the run in the store.
    pub run: i64,
    /// Start of the run, in seconds since the epoch (UTC).
    pub started_unix_s: f64,
    /// Version of netcliff that made the run.
    pub version: String,
}

/// Value of a figure in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrendValue {
    /// Number of the run.
    pub run: i64,
    /// The value, in the unit that the figure's name states.
    pub value: f64,
}

/// Consecutive runs without a change of level between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// Number of the first run of the level.
    pub from_run: i64,
    /// Number of the last run of the level.
    pub to_run: i64,
    /// Number of runs that have the figure at this level.
    pub runs: usize,
    /// Median of the figure over these runs, in the figure's unit.
    pub median: f64,
}

/// A change of a figure from one [`Level`] to the next.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelChange {
    /// Number of the first run at the new level.
    pub run: i64,
    /// Number of the last run at the old level.
    pub after_run: i64,
    /// Median of the new level divided by the median of the old level, minus 1.
    pub change: f64,
    /// True if the new level is better.
    pub better: bool,
    /// p-value of the permutation test: probability of a change at least as clear among runs without any change.
    pub p: f64,
    /// Facts that differ between the hosts of `after_run` and `run`, such as `kernel.release: 6.1 -> 6.12`, at most 12;
    /// absent if no fact differs, or if a run has no fingerprint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// One figure of one point over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Name of the point, that is, of the measured configuration.
    pub point: String,
    /// The figure.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Values of the runs that have the figure, oldest first.
    pub values: Vec<TrendValue>,
    /// Levels, oldest first.
    pub levels: Vec<Level>,
    /// Changes between the levels, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LevelChange>,
    /// True if the newest change made a figure of class `speed` worse by more than the share of `--fail-if-slower`;
    /// absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Trend of the runs that have the same name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trend {
    /// Name of the runs.
    pub name: String,
    /// Kind of the runs, such as `stream`.
    pub kind: String,
    /// The runs, oldest first.
    pub runs: Vec<TrendRun>,
    /// Significance level of each test: 0.05 divided by the number of series with at least 8 values (Bonferroni).
    pub level: f64,
    /// Number of permutations in each test.
    pub permutations: u32,
    /// One series for each measured figure of each point.
    pub series: Vec<Series>,
    /// The share given with `--fail-if-slower`; absent if the option was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_slower: Option<f64>,
    /// True if any series failed.
    pub failed: bool,
    /// What limits the trend, a sentence each: runs that were left out, figures with too few runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Trend {
    /// The changes of level that began after a run, each with its series.
    pub fn changes_after(&self, run: i64) -> impl Iterator<Item = (&Series, &LevelChange)> {
        let all = self.series.iter().flat_map(|series| series.changes.iter().map(move |change| (series, change)));
        all.filter(move |(_, change)| change.run > run)
    }
}

/// Why there is no trend.
#[derive(Debug, thiserror::Error)]
pub enum TrendError {
    /// No run has the name.
    #[error("no run is named {0}; `netcliff results list` has the names, --name NAME gives one to a run that begins")]
    NoRuns(String),
    /// None of the runs has a measured figure.
    #[error("no run named {0} has a measured figure")]
    NoFigures(String),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Measured runs, oldest first, and notes on what was omitted.
pub type Kept = (Vec<(RunSummary, Measured)>, Vec<String>);
/// The values of a figure, each with the index of its run.
type Values = Vec<(usize, f64)>;

/// The finished runs of a name that have figures, oldest first. If the runs differ in kind, only those of the newest
/// run's kind.
///
/// # Errors
/// No run has the name, no run has figures, or the store cannot be read.
pub fn of_store(store: &Store, name: &str) -> Result<Kept, TrendError> {
    let mut runs = store.runs()?;
    runs.retain(|run| run.name.as_deref() == Some(name));
    runs.reverse();
    let Some(kind) = runs.last().map(|run| run.kind.clone()) else { return Err(TrendError::NoRuns(name.to_owned())) };
    let all = runs.len();
    runs.retain(|run| run.kind == kind);
    let mut notes = Vec::new();
    if runs.len() < all {
        notes.push(format!("{} runs of this name are of other kinds than {kind} and were left out.", all - runs.len()));
    }
    let mut read = Vec::new();
    let mut partial = 0;
    for run in runs {
        match Measured::of_store(store, &Source::Run(run.id)) {
            Ok(measured) if measured.partial || run.state != "done" => partial += 1,
            Ok(measured) => read.push((run, measured)),
            Err(ReadError::Store(error)) => return Err(error.into()),
            Err(_) => partial += 1,
        }
    }
    if partial > 0 {
        notes.push(format!("{partial} runs that were stopped early, or have no figures, were left out."));
    }
    Ok((read, notes))
}

/// The trend of `runs`, which are in order of time, the oldest first.
///
/// # Errors
/// The runs have no measured figure.
pub fn trend(
    name: &str,
    runs: &[(RunSummary, Measured)],
    mut notes: Vec<String>,
    fail_if_slower: Option<f64>,
) -> Result<Trend, TrendError> {
    let mut gathered: Vec<(String, Quantity, Values)> = Vec::new();
    let mut places: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (at, (_, measured)) in runs.iter().enumerate() {
        for point in &measured.points {
            for reading in point.figures.iter().filter(|reading| !reading.computed && reading.value.is_finite()) {
                let place = *places.entry((point.name.clone(), reading.quantity.name)).or_insert_with(|| {
                    gathered.push((point.name.clone(), reading.quantity, Vec::new()));
                    gathered.len() - 1
                });
                gathered[place].2.push((at, reading.value));
            }
        }
    }
    if gathered.is_empty() {
        return Err(TrendError::NoFigures(name.to_owned()));
    }
    let tested = gathered.iter().filter(|(.., values)| values.len() >= FEWEST_RUNS).count();
    let level = (1.0 - CONFIDENCE) / tested.max(1) as f64;
    // The smallest p that this number of permutations can show must be well below the level.
    let permutations = LEAST_PERMUTATIONS.max((5.0 / level) as u32);
    if tested < gathered.len() {
        notes.push(format!(
            "{} of {} figures have fewer than {FEWEST_RUNS} runs: too few to show a change.",
            gathered.len() - tested,
            gathered.len()
        ));
    }
    let series: Vec<Series> = gathered
        .into_iter()
        .map(|(point, quantity, values)| {
            let levels = Levels { runs, values: &values, level, permutations };
            levels.series(point, quantity, fail_if_slower)
        })
        .collect();
    let run = |(run, measured): &(RunSummary, Measured)| TrendRun {
        run: run.id,
        started_unix_s: run.started_unix_s,
        version: measured.provenance.version.clone(),
    };
    Ok(Trend {
        name: name.to_owned(),
        kind: runs.last().map(|(run, _)| run.kind.clone()).unwrap_or_default(),
        runs: runs.iter().map(run).collect(),
        level,
        permutations,
        failed: series.iter().any(|series| series.failed),
        series,
        fail_if_slower,
        notes,
    })
}

/// The values of one figure at one point over the runs, to be divided into levels at change points. `level` is the
/// significance level of the test for a change point, `permutations` the number of permutations in it.
struct Levels<'a> {
    runs: &'a [(RunSummary, Measured)],
    /// Values, each with the index of its run.
    values: &'a [(usize, f64)],
    level: f64,
    permutations: u32,
}

impl Levels<'_> {
    fn series(&self, point: String, quantity: Quantity, fail_if_slower: Option<f64>) -> Series {
        let plain: Vec<f64> = self.values.iter().map(|(_, value)| *value).collect();
        let splits = if plain.len() < FEWEST_RUNS {
            Vec::new()
        } else {
            divisive::change_points(&plain, self.level, self.permutations, SEED)
        };
        let starts: Vec<usize> = [0].into_iter().chain(splits.iter().map(|split| split.at)).collect();
        let ends = starts[1..].iter().copied().chain([plain.len()]);
        let levels: Vec<Level> = starts.iter().zip(ends).map(|(from, to)| self.level_of(*from, to)).collect();
        let changes: Vec<LevelChange> = splits
            .iter()
            .zip(levels.windows(2))
            .map(|(split, pair)| {
                let change = pair[1].median / pair[0].median - 1.0;
                LevelChange {
                    run: pair[1].from_run,
                    after_run: pair[0].to_run,
                    change,
                    better: (change > 0.0) == (quantity.better == Better::More),
                    p: split.p,
                    changed: self.changed(split.at),
                }
            })
            .collect();
        let counts = quantity.class == Class::Speed;
        let failed = fail_if_slower.filter(|_| counts).zip(changes.last()).is_some_and(|(share, last)| {
            let beyond = match quantity.better {
                Better::More => last.change < -share,
                Better::Less => last.change > share,
            };
            !last.better && beyond
        });
        Series { point, quantity, values: self.trend_values(), levels, changes, failed }
    }

    fn id(&self, at: usize) -> i64 {
        self.runs[self.values[at].0].0.id
    }

    fn trend_values(&self) -> Vec<TrendValue> {
        (0..self.values.len()).map(|at| TrendValue { run: self.id(at), value: self.values[at].1 }).collect()
    }

    fn level_of(&self, from: usize, to: usize) -> Level {
        let mut values: Vec<f64> = self.values[from..to].iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        Level { from_run: self.id(from), to_run: self.id(to - 1), runs: values.len(), median }
    }

    /// Facts that differ between the host of the run before index `at` and the host of the run at this index.
    fn changed(&self, at: usize) -> Vec<String> {
        let of = |at: usize| self.runs[self.values[at].0].1.fingerprint.as_ref();
        let (Some(before), Some(after)) = (of(at - 1), of(at)) else { return Vec::new() };
        facts(before, after)
    }
}

fn facts(before: &Fingerprint, after: &Fingerprint) -> Vec<String> {
    let said = |(name, before, after): (&str, Option<&str>, Option<&str>)| {
        format!("{name}: {} -> {}", before.unwrap_or("-"), after.unwrap_or("-"))
    };
    before.diff(after).into_iter().take(MOST_FACTS).map(said).collect()
}
