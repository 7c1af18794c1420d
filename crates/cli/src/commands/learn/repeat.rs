//! `netcliff learn --repeat`: one watch after the other. Each is stored, and a sentence is printed if the cliff changed
//! its level.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netcliff_core::Learned;
use netcliff_lab::compare::{Measured, Source};
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::Stored;
use netcliff_lab::trend::{self, TrendError};
use netcliff_learn::{Options, learn};
use netcliff_report as report;

use super::super::open_store;
use super::refused;
use crate::args::{LearnArgs, StoreArgs};
use crate::output;

/// Name of the watches if `--name` gives none.
const NAME: &str = "learn";
/// Number of the newest watches in which changes of level are searched: a day of watches of five minutes each.
const WINDOW: usize = 288;
/// Time until the next attempt after a watch failed, for example while a program restarts.
const PAUSE: Duration = Duration::from_secs(10);

/// Watches until a signal.
///
/// # Errors
/// The first watch cannot begin, or the store cannot be written.
pub fn run(args: &LearnArgs, store: &StoreArgs, options: &Options, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let mut series = Series::begin(store, args.keep as usize)?;
    let mut began = false;
    while !stop.load(Ordering::Relaxed) {
        let learned = match learn(options, stop, &mut |_| {}) {
            Ok(learned) => learned,
            Err(error) if !began => return Err(refused(error)),
            Err(error) => {
                output::say(format!("netcliff: {error}; the next watch begins in {} s", PAUSE.as_secs()));
                wait(stop);
                continue;
            }
        };
        began = true;
        if args.json {
            output::json_line(&learned)?;
        } else {
            output::page(&(report::terminal::learned_line(&learned) + "\n"))?;
        }
        // `last-learn` stays the newest watch that learnt something.
        if learned.first().is_none() {
            continue;
        }
        for change in series.keep(learned)? {
            output::say(format!(
                "netcliff: CHANGED: {change}; `netcliff results trend {}` has the levels",
                series.name
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(stop: &AtomicBool) {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The stored watches of one name.
struct Series {
    store: Store,
    name: String,
    /// Largest number of watches in the store.
    most: usize,
    /// The newest watches, at most [`WINDOW`], the oldest first.
    watches: Vec<(RunSummary, Measured)>,
    /// Number of the run up to which changes were already reported.
    reported: i64,
}

impl Series {
    fn begin(store: &StoreArgs, most: usize) -> anyhow::Result<Self> {
        let name = store.name.clone().unwrap_or_else(|| NAME.to_owned());
        let store = open_store(store)?.naming(Some(name.clone()));
        let mut watches = match trend::of_store(&store, &name) {
            Ok((watches, _)) => watches,
            Err(TrendError::Store(error)) => return Err(error.into()),
            Err(TrendError::NoRuns(_) | TrendError::NoFigures(_)) => Vec::new(),
        };
        watches.retain(|(run, _)| run.kind == "learn");
        let reported = watches.last().map_or(0, |(run, _)| run.id);
        Ok(Self { store, name, most, watches, reported })
    }

    /// Stores a watch. Returns a sentence for each change of level that this watch is the first to show.
    fn keep(&mut self, learned: Learned) -> anyhow::Result<Vec<String>> {
        let partial = learned.partial;
        let run = Stored::Learned(Box::new(learned)).keep(&self.store, None)?;
        self.remove_oldest()?;
        let measured = Measured::of_store(&self.store, &Source::Run(run)).ok().filter(|_| !partial);
        let Some(watch) = self.store.run(run)?.zip(measured) else { return Ok(Vec::new()) };
        self.watches.push(watch);
        let surplus = self.watches.len().saturating_sub(WINDOW);
        self.watches.drain(..surplus);
        let Ok(trend) = trend::trend(&self.name, &self.watches, Vec::new(), None) else { return Ok(Vec::new()) };
        let new = trend.changes_after(self.reported);
        let line = |(series, change)| report::terminal::level_change(&trend, series, change);
        let changes: Vec<String> = new.map(line).collect();
        if !changes.is_empty() {
            self.reported = run;
        }
        Ok(changes)
    }

    fn remove_oldest(&self) -> anyhow::Result<()> {
        let own = |run: &RunSummary| run.kind == "learn" && run.name.as_deref() == Some(&self.name);
        let mut runs: Vec<i64> = self.store.runs()?.into_iter().filter(own).map(|run| run.id).collect();
        runs.sort_unstable();
        let surplus = runs.len().saturating_sub(self.most);
        Ok(self.store.remove(&runs[..surplus])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch of one CPU with this cliff (pps).
    fn watch(cliff_pps: f64) -> Learned {
        let part = serde_json::json!({
            "kind": "cpu", "name": "CPU 1", "cpu": 1, "packets_per_s": 1e5, "cliff_pps": cliff_pps,
            "busy": 0.2, "softirq": 0.1, "program": 0.1, "fixed": 0.0
        });
        serde_json::from_value(serde_json::json!({
            "kind": "learn",
            "host": netcliff_core::finding::HostSummary::default(),
            "watched": {
                "interfaces": ["eth0"], "programs": [], "seconds": 300.0, "slice_s": 0.4, "slices": 750, "metered": 750, "disturbed": 0,
                "method": "ebpf", "own_cpu": 0.002
            },
            "traffic": {
                "packets_per_s": 1e5, "lowest_pps": 9e4, "highest_pps": 2e5, "highest_unix_s": 0.0, "sent_pps": 0.0, "dispersion": []
            },
            "parts": [part],
            "scheme": "napi",
            "as_traffic": { "rate": "100kpps" },
            "loss_target": 1e-4,
            "fingerprint": netcliff_core::Fingerprint::default(),
            "provenance": netcliff_core::Provenance::default(),
            "partial": false
        }))
        .expect("what `learn --json` writes")
    }

    fn series(path: &std::path::Path, most: usize) -> Series {
        let args = StoreArgs { db: Some(path.to_owned()), name: Some("resolver".to_owned()) };
        Series::begin(&args, most).expect("it can be written")
    }

    /// Ten watches of about 400 kpps, then ten of about 330 kpps, as if a new release took more CPU time per packet.
    #[test]
    fn a_change_of_the_cliff_is_reported_once_also_after_a_restart() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("records.db");
        let noise = |at: u32| 1.0 + 0.01 * f64::from(at * 7 % 5);
        let mut kept = series(&path, 100);
        let before: Vec<String> = (0..10).flat_map(|at| kept.keep(watch(400e3 * noise(at))).expect("kept")).collect();
        assert!(before.is_empty(), "{before:?}");
        let after: Vec<String> = (0..10).flat_map(|at| kept.keep(watch(330e3 * noise(at))).expect("kept")).collect();
        assert!(
            after.len() == 2 && after[0].starts_with("all traffic, ") && after[1].starts_with("CPU 1, "),
            "{after:?}"
        );
        assert!(
            after
                .iter()
                .all(|said| said.contains("-17.") && said.contains("slower") && said.contains("from run 11 on")),
            "{after:?}"
        );
        drop(kept);
        let mut anew = series(&path, 100);
        let again: Vec<String> = (0..3).flat_map(|at| anew.keep(watch(330e3 * noise(at))).expect("kept")).collect();
        assert!(again.is_empty(), "{again:?}");
    }

    #[test]
    fn the_oldest_watches_of_the_name_are_removed_and_no_others() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("records.db");
        let other = Store::open(&path).expect("a store").naming(Some("other".to_owned()));
        let first = Stored::Learned(Box::new(watch(1e5))).keep(&other, None).expect("kept");
        let mut kept = series(&path, 8);
        for _ in 0..12 {
            kept.keep(watch(4e5)).expect("kept");
        }
        let mut runs: Vec<i64> = kept.store.runs().expect("read").into_iter().map(|run| run.id).collect();
        runs.sort_unstable();
        assert_eq!(runs, [&[first][..], &(6..=13).collect::<Vec<i64>>()[..]].concat());
    }
}
