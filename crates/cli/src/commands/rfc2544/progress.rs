//! Progress of `rfc2544`: how long it may take, then one line for each load.

use std::time::Instant;

use netcliff_mlrsearch::trial::Answer;
use netcliff_report::format::{Unit, loss, quantity};
use netcliff_rfc2544::conduct::Step;
use netcliff_rfc2544::settings::Settings;
use serde_json::json;

use crate::live;
use crate::output;

/// Number of loads that a search of a frame size tries, roughly.
const LOADS: f64 = 8.0;

/// A sentence on the expected duration of the searches for the throughput.
pub fn expected(settings: &Settings) -> String {
    let sizes = settings.frames.len();
    let load_s = load_s(settings);
    let sizes = if sizes == 1 { "1 frame size".to_owned() } else { format!("{sizes} frame sizes") };
    format!(
        "the searches take about {} ({sizes}, some {LOADS:.0} loads each, up to {} a load), longer if trials are void",
        time(turns(settings) * LOADS * load_s),
        time(load_s.ceil())
    )
}

/// Number of searches, over all sizes and rounds.
fn turns(settings: &Settings) -> f64 {
    settings.frames.len() as f64 * f64::from(settings.searches)
}

/// Longest time that a search spends on one load (s).
fn load_s(settings: &Settings) -> f64 {
    let goal = settings.goal();
    let trials = (goal.duration_sum_s / goal.final_trial_s).max(1.0);
    trials * (goal.final_trial_s + settings.settle_s + settings.rest_s)
}

fn time(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} minutes", (seconds / 60.0).ceil()) }
}

/// Time left (s) after `elapsed_s`, if `done` of `all` turns are made: each remaining turn is expected to take as long
/// as the mean of the turns so far. Before the first turn: `expected_s`. `None` if all are made.
fn left_s(elapsed_s: f64, done: u32, all: f64, expected_s: f64) -> Option<f64> {
    let left = all - f64::from(done);
    (left > 0.0).then(|| if done == 0 { expected_s } else { left * elapsed_s / f64::from(done) })
}

/// The trials of one load so far.
struct Load {
    load_pps: f64,
    duration_s: f64,
    trials: u32,
    void: u32,
    lossy: u32,
    worst: f64,
    /// Why the last void trial was void.
    why: Option<String>,
}

/// Prints a line when a load is done.
pub struct Progress {
    began: Instant,
    load: Option<Load>,
    /// Number of sizes, or of searches of sizes, that have begun.
    begun: u32,
    /// Number of turns in all.
    turns: f64,
    /// Expected duration of all searches (s).
    expected_s: f64,
    /// True if a trial was void.
    has_void: bool,
}

impl Progress {
    /// Progress that starts now.
    pub fn new(settings: &Settings) -> Self {
        let turns = turns(settings);
        let expected_s = turns * LOADS * load_s(settings);
        Self { began: Instant::now(), load: None, begun: 0, turns, expected_s, has_void: false }
    }

    /// Prints which size begins, and how long the rest may take.
    fn turn(&mut self, what: &str) {
        self.flush();
        let left_s = left_s(self.began.elapsed().as_secs_f64(), self.begun, self.turns, self.expected_s);
        let longer = if self.has_void { ", longer if more trials are void" } else { "" };
        let left = left_s.map_or(String::new(), |left_s| format!("; about {} left{longer}", time(left_s)));
        output::say(format!("netcliff: {what}{left}"));
        self.begun += 1;
    }

    /// Records a step.
    pub fn step(&mut self, step: &Step) {
        live_line(step);
        match step {
            Step::Size(frame) => self.turn(&format!("frames of {frame}")),
            Step::Search { frame, round, rounds } => {
                self.turn(&format!("frames of {frame}, search {round} of {rounds}"));
            }
            Step::Trial { load_pps, duration_s, answer } => self.trial(*load_pps, *duration_s, answer),
        }
    }

    fn trial(&mut self, load_pps: f64, duration_s: f64, answer: &Answer) {
        let same = |load: &Load| (load.load_pps, load.duration_s) == (load_pps, duration_s);
        if !self.load.as_ref().is_some_and(same) {
            self.flush();
        }
        let new = || Load { load_pps, duration_s, trials: 0, void: 0, lossy: 0, worst: 0.0, why: None };
        let load = self.load.get_or_insert_with(new);
        load.trials += 1;
        match answer {
            Answer::Valid(trial) => {
                load.lossy += u32::from(trial.lost > 0);
                load.worst = load.worst.max(trial.loss_ratio());
            }
            Answer::Void { reached_pps, why } => {
                self.has_void = true;
                load.void += 1;
                load.why = Some(format!("{why} ({} reached)", quantity(*reached_pps, Unit::Pps)));
            }
        }
    }

    /// Prints the results so far of the current load.
    pub fn flush(&mut self) {
        if let Some(load) = self.load.take() {
            output::say(format!("netcliff:   after {:>3.0} s: {}", self.began.elapsed().as_secs_f64(), line(&load)));
        }
    }
}

/// Prints a step as an event of `--live`.
fn live_line(step: &Step) {
    match step {
        Step::Size(frame) => live::tell("size", || json!({"frame": frame.to_string()})),
        Step::Search { frame, round, rounds } => {
            live::tell("search", || json!({"frame": frame.to_string(), "round": round, "rounds": rounds}));
        }
        Step::Trial { load_pps, duration_s, answer } => live::tell("trial", || {
            let (loss_ratio, void) = match answer {
                Answer::Valid(trial) => (Some(trial.loss_ratio()), None),
                Answer::Void { reached_pps, why } => {
                    (None, Some(json!({"reached_pps": reached_pps, "why": why.to_string()})))
                }
            };
            json!({"load_pps": load_pps, "duration_s": duration_s, "loss_ratio": loss_ratio, "void": void})
        }),
    }
}

fn line(load: &Load) -> String {
    let [at, length] =
        [(load.load_pps, Unit::Pps), (load.duration_s, Unit::Seconds)].map(|(of, unit)| quantity(of, unit));
    let trials = if load.trials == 1 { "1 trial".to_owned() } else { format!("{} trials", load.trials) };
    let valid = load.trials - load.void;
    let lost = match (valid, load.lossy) {
        (0, _) => None,
        (_, 0) if load.void > 0 => Some(format!("no loss in {valid}")),
        (_, 0) => Some("no loss".to_owned()),
        (1, _) => Some(format!("loss {}", loss(load.worst))),
        (_, lossy) => Some(format!("loss in {lossy}, up to {}", loss(load.worst))),
    };
    let void = load.why.as_ref().map(|why| match load.trials {
        1 => format!("void: {why}"),
        _ => format!("{} void: {why}", load.void),
    });
    format!("{at}, {trials} of {length}: {}", lost.into_iter().chain(void).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_load() {
        let load = |trials, void, lossy, worst, why: Option<&str>| Load {
            load_pps: 448e3,
            duration_s: 0.05,
            trials,
            void,
            lossy,
            worst,
            why: why.map(str::to_owned),
        };
        let told = [
            (load(21, 0, 0, 0.0, None), "448 kpps, 21 trials of 50.0 ms: no loss"),
            (
                load(21, 2, 3, 0.002, Some("late")),
                "448 kpps, 21 trials of 50.0 ms: loss in 3, up to 0.2 %; 2 void: late",
            ),
            (load(1, 0, 1, 0.002, None), "448 kpps, 1 trial of 50.0 ms: loss 0.2 %"),
            (load(1, 1, 0, 0.0, Some("late")), "448 kpps, 1 trial of 50.0 ms: void: late"),
        ];
        for (load, says) in told {
            assert_eq!(line(&load), says);
        }
    }

    #[test]
    fn what_it_takes_is_said_before() {
        let settings = Settings { searches: 2, trial_s: 1.0, settle_s: 0.5, rest_s: 0.5, ..Settings::default() };
        let said = expected(&settings);
        let sizes = settings.frames.len();
        assert!(said.contains(&format!("{sizes} frame sizes")) && said.contains("minutes"), "{said}");
    }

    #[test]
    fn the_time_left_follows_what_was_seen() {
        assert_eq!(left_s(0.0, 0, 3.0, 120.0), Some(120.0));
        assert_eq!(left_s(20.0, 1, 3.0, 120.0), Some(40.0));
        assert_eq!(left_s(90.0, 3, 3.0, 120.0), None);
    }
}
