//! Runs both throughput searches on simulated devices with known throughput, and prints the error of the result and the
//! trial time spent.
//!
//! `cargo run -p netcliff-mlrsearch --example searches` prints a table in CSV. With `trials` it prints every trial of
//! the MLRsearch runs instead, in order, with the classification of its load after the trial, for
//! `bench/rfc2544/decisions.py`. With `knowing` it prints the trial time of a search that knows the load at which half
//! of the full trials lose nothing, and only has to find the bounds.

use std::convert::Infallible;
use std::io::{Write, stdout};

use netcliff_mlrsearch::binary::{self, Binary};
use netcliff_mlrsearch::load::Loads;
use netcliff_mlrsearch::mlr::{self, Mlr};
use netcliff_mlrsearch::simulated::{Bench, Device};
use netcliff_mlrsearch::trial::{Answer, Range, Request};
use netcliff_mlrsearch::{Goal, Searched};

/// Loads of the searches: from 1 % of the line rate of 64-byte frames at 1 Gbit/s up to this line rate (pps).
const RANGE: Range = Range { min_pps: 14_881.0, max_pps: 1_488_095.0 };
const WIDTH: f64 = 0.005;
const SEEDS: u64 = 101;

fn devices() -> Vec<(&'static str, Device)> {
    let capacity_pps = 623e3;
    let unsteady = |spread| Device::Unsteady { capacity_pps, spread };
    let steps = |spread, step_s| Device::Steps { capacity_pps, spread, step_s };
    vec![
        ("sharp", Device::Sharp { capacity_pps }),
        ("sharp, slow", Device::Sharp { capacity_pps: 87e3 }),
        ("livelock", Device::Livelock { capacity_pps }),
        ("buffer of 1000 frames", Device::Buffered { capacity_pps, buffer: 1000.0 }),
        ("unsteady 0.1 %", unsteady(0.001)),
        ("unsteady 0.3 %", unsteady(0.003)),
        ("unsteady 1 %", unsteady(0.01)),
        ("unsteady 2 %", unsteady(0.02)),
        ("unsteady 5 %", unsteady(0.05)),
        ("unsteady 10 %", unsteady(0.1)),
        ("unsteady 5 %, slow", Device::Unsteady { capacity_pps: 87e3, spread: 0.05 }),
        ("unsteady 2 %, fast", Device::Unsteady { capacity_pps: 1.3e6, spread: 0.02 }),
        ("unsteady livelock 1 %", Device::UnsteadyLivelock { capacity_pps, spread: 0.01 }),
        ("unsteady livelock 5 %", Device::UnsteadyLivelock { capacity_pps, spread: 0.05 }),
        ("unsteady livelock 5 %, fast", Device::UnsteadyLivelock { capacity_pps: 1.2e6, spread: 0.05 }),
        ("unsteady 5 % by trial", steps(0.05, f64::INFINITY)),
        ("unsteady 5 % by 10 s", steps(0.05, 10.0)),
        ("unsteady 1 % by 0.1 s", steps(0.01, 0.1)),
        ("unsteady 5 % by 0.1 s", steps(0.05, 0.1)),
        ("a fifth of the seconds 10 % lower", Device::TwoModes { capacity_pps, drop: 0.1, share: 0.2 }),
        ("half of the seconds 3 % lower", Device::TwoModes { capacity_pps, drop: 0.03, share: 0.5 }),
        ("disturbed each 600 s", Device::Disturbed { capacity_pps, per_s: 1.0 / 600.0, frames: 100 }),
        ("disturbed each 60 s", Device::Disturbed { capacity_pps, per_s: 1.0 / 60.0, frames: 100 }),
        ("disturbed each 5 s", Device::Disturbed { capacity_pps, per_s: 1.0 / 5.0, frames: 100 }),
    ]
}

/// Search algorithm, and whether the tester may end a trial once its result is decided.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Bisection,
    /// Bisection with trials that end once their result is decided, which RFC 2544 does not have.
    EndingBisection,
    Mlr,
}

/// The searches to compare: name, goal and algorithm.
fn ways() -> [(&'static str, Goal, By); 4] {
    let strict = Goal::rfc2544(60.0, 0.0, WIDTH);
    [
        ("binary 60 s", strict, By::Bisection),
        ("binary 60 s ended early", strict, By::EndingBisection),
        ("mlr 60 s", strict, By::Mlr),
        ("mlr 21 x 1 s", Goal::typical(0.0, WIDTH), By::Mlr),
    ]
}

fn run(goal: Goal, by: By, device: Device, seed: u64) -> Searched {
    let mut bench = Bench::new(device, seed);
    let searched = if by != By::Mlr {
        let most_lost = (by == By::EndingBisection).then_some(0);
        let mut ask =
            |duration_s, load_pps| Ok::<_, Infallible>(bench.trial_until(Request { duration_s, load_pps, most_lost }));
        let goal = Binary { trial_s: goal.final_trial_s, loss_ratio: goal.loss_ratio, width: goal.width };
        binary::search(goal, RANGE, &mut ask)
    } else {
        let mlr = Mlr { goals: vec![goal], range: RANGE, start_pps: None, at_most_s: None };
        mlr::search_deciding(&mlr, &mut |request| Ok::<_, Infallible>(bench.trial_until(request)))
    };
    searched.unwrap_or_else(|never| match never {})
}

/// True throughput (pps) for the goal: the load at which half of its trials lose nothing. Disturbances are not part of
/// the device.
fn truth(device: Device, goal: &Goal) -> f64 {
    match device {
        Device::Disturbed { capacity_pps, .. } => capacity_pps,
        _ => device.throughput_pps(goal.final_trial_s).unwrap_or(0.0),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn table(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "device,search,truth_pps,median_error_percent,worst_error_percent,bracketed,median_trial_time_s,trials"
    )?;
    for (name, device) in devices() {
        for (way, goal, by) in ways() {
            let truth = truth(device, &goal);
            let all: Vec<Searched> = (0..SEEDS).map(|seed| run(goal, by, device, seed)).collect();
            let error = |one: &Searched| 100.0 * (one.found[0].lower_pps.unwrap_or(0.0) / truth - 1.0);
            let errors: Vec<f64> = all.iter().map(error).collect();
            let worst = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
            let inside = |one: &&Searched| {
                let found = &one.found[0];
                found.lower_pps.is_some_and(|lower| lower <= truth + 0.01)
                    && found.upper_pps.is_some_and(|upper| truth <= upper + 0.01)
            };
            let bracketed = all.iter().filter(inside).count();
            let time_s = median(all.iter().map(|one| one.trial_time_s).collect());
            let trials = median(all.iter().map(|one| one.trials.len() as f64).collect());
            writeln!(
                out,
                "{name:?},{way},{truth:.0},{:.2},{worst:.2},{bracketed}/{SEEDS},{time_s:.0},{trials}",
                median(errors)
            )?;
        }
    }
    Ok(())
}

fn trials(out: &mut impl Write) -> std::io::Result<()> {
    for (name, device) in devices() {
        for (way, goal, _) in ways().into_iter().filter(|(.., by)| *by == By::Mlr) {
            for seed in 0..SEEDS {
                let searched = run(goal, By::Mlr, device, seed);
                let mut loads = Loads::default();
                for trial in &searched.trials {
                    loads.add(*trial);
                    let class = format!("{:?}", loads.class(trial.load_pps, &goal)).to_lowercase();
                    let (lower, upper) = loads.bounds(&goal);
                    let conditional = lower.and_then(|pps| Some(loads.get(pps)?.conditional_pps(&goal)));
                    let line = serde_json::json!({
                        "device": name, "way": way, "seed": seed, "goal": goal, "trial": trial, "class": class,
                        "lower_pps": lower, "upper_pps": upper, "conditional_pps": conditional,
                    });
                    writeln!(out, "{line}")?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the trial time (s) that a search needs if it knows `truth_pps`: full trials from `truth_pps` down, one width
/// per step, until one loses nothing. If the first trial loses nothing: short trials just above it until one loses.
fn knowing(device: Device, truth_pps: f64, goal: &Goal, seed: u64) -> f64 {
    let mut bench = Bench::new(device, seed);
    let mut spent_s = 0.0;
    let mut loses = |duration_s: f64, load_pps: f64| {
        spent_s += duration_s;
        matches!(bench.trial(duration_s, load_pps), Answer::Valid(trial) if trial.lost > 0)
    };
    if !loses(goal.final_trial_s, truth_pps) {
        while !loses(goal.initial_trial_s, truth_pps / (1.0 - goal.width)) {}
        return spent_s;
    }
    let mut load_pps = truth_pps * (1.0 - goal.width);
    while loses(goal.final_trial_s, load_pps) {
        load_pps *= 1.0 - goal.width;
    }
    spent_s
}

fn knowing_table(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "device,median_trial_time_s,mean_trial_time_s")?;
    let goal = Goal::rfc2544(60.0, 0.0, WIDTH);
    for (name, device) in devices() {
        let (Device::Unsteady { .. } | Device::UnsteadyLivelock { .. }) = device else { continue };
        let times_s: Vec<f64> = (0..SEEDS).map(|seed| knowing(device, truth(device, &goal), &goal, seed)).collect();
        let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
        writeln!(out, "{name:?},{:.0},{mean_s:.0}", median(times_s))?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(stdout().lock());
    match std::env::args().nth(1).as_deref() {
        Some("trials") => trials(&mut out),
        Some("knowing") => knowing_table(&mut out),
        _ => table(&mut out),
    }
}
