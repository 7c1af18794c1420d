//! `netcliff tune try`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use netcliff_core::experiment::Experiment;
use netcliff_host::journal::HostLock;
use netcliff_host::tune::Plan;
use netcliff_host::tune::apply::Session;
use netcliff_lab::inputs;
use netcliff_lab::tuning::{self, Trial, Verdict};
use netcliff_report::format;

use super::{lock, look, make, planned};
use crate::args::{StoreArgs, TryArgs};
use crate::commands::store_path;
use crate::output;

/// What is measured.
enum Yardstick {
    /// A figure that a command prints.
    Command,
    /// The figure that an experiment draws; the store that keeps its runs.
    Experiment { file: PathBuf, experiment: Experiment, store: PathBuf },
}

/// Measures in turns; keeps the settings if that was asked for and they proved better.
pub fn run(args: &TryArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let yardstick = yardstick(args, store)?;
    let lower_is_better = match &yardstick {
        Yardstick::Command => !args.higher,
        Yardstick::Experiment { experiment, .. } => {
            !tuning::is_better_higher(&tuning::drawn(experiment).map_err(output::usage)?)
        }
    };
    let lock = lock()?;
    let plan = planned(&args.wish, &look()?)?;
    if plan.steps.is_empty() {
        output::say("netcliff: nothing to try: the plan is empty");
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::new(&lock);
    let trial = tuning::rounds(args.rounds as usize, lower_is_better, |tuned| {
        set(&mut session, args, &plan, tuned)?;
        let value = match &yardstick {
            Yardstick::Command => measure(args, &lock)?,
            Yardstick::Experiment { file, experiment, store } => carried_out(file, experiment, store, &lock)?,
        };
        output::say(format!("netcliff: {} {}", if tuned { "with   " } else { "without" }, format::significant(value)));
        Ok::<f64, anyhow::Error>(value)
    })?;
    let keep = args.keep && trial.verdict == Verdict::Better;
    set(&mut session, args, &plan, keep)?;
    if keep {
        session.keep()?;
    }
    tell(args, &plan, &trial, keep)?;
    Ok(if trial.verdict == Verdict::Better { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn set(session: &mut Session, args: &TryArgs, plan: &Plan, tuned: bool) -> anyhow::Result<()> {
    match (tuned, session.applied.is_empty()) {
        (true, true) => make(session, &args.wish, plan),
        (false, false) => match session.set_back().into_iter().find_map(|outcome| outcome.error) {
            Some(error) => bail!("a setting could not be set back: {error}"),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn yardstick(args: &TryArgs, store: &StoreArgs) -> anyhow::Result<Yardstick> {
    let Some(file) = &args.experiment else { return Ok(Yardstick::Command) };
    let path = file.display().to_string();
    let text = inputs::experiment(&path).map_err(output::usage)?;
    let experiment = Experiment::from_toml(&path, &text).map_err(output::usage)?;
    Ok(Yardstick::Experiment { file: file.clone(), experiment, store: store_path(store) })
}

fn measure(args: &TryArgs, lock: &HostLock) -> anyhow::Result<f64> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let own = Path::new(program).file_name().is_some_and(|name| name == "netcliff");
    let printed = printed(&mut command, program, own.then_some(lock))?;
    tuning::figure(&printed, args.metric.as_deref()).map_err(anyhow::Error::msg)
}

/// The figure of an experiment, measured now by a run of its own.
fn carried_out(file: &Path, experiment: &Experiment, store: &Path, lock: &HostLock) -> anyhow::Result<f64> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("run").arg(file).arg("--json").arg("--db").arg(store);
    if matches!(experiment, Experiment::Grid(_)) {
        command.args(["--engine", "wire"]);
    }
    let printed = printed(&mut command, "netcliff run", Some(lock))?;
    tuning::experiment_figure(experiment, &printed).map_err(anyhow::Error::msg)
}

/// What a program prints. One that takes the lock of this host shares ours.
fn printed(command: &mut Command, name: &str, lock: Option<&HostLock>) -> anyhow::Result<String> {
    let shared = lock.map(HostLock::share).transpose().context("cannot share the lock with the measurement")?;
    if let Some((variable, value, _)) = &shared {
        command.env(variable, value);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| output::usage(format!("{name}: {error}")))?;
    if !output.status.success() {
        bail!("{name} ended with {}; the settings were set back", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn tell(args: &TryArgs, plan: &Plan, trial: &Trial, kept: bool) -> anyhow::Result<()> {
    if args.json {
        return output::json_line(&serde_json::json!({"plan": plan, "trial": trial, "kept": kept}));
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let verdict = match trial.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotDecided => "not decided: more --rounds, or a steadier command",
    };
    output::data(&format!(
        "without {}, with {}, difference {} over {} rounds: {verdict}; {}\n",
        format::significant(mean(&trial.without)),
        format::significant(mean(&trial.with)),
        format::plus_minus(&trial.difference, format::Unit::Number),
        trial.with.len(),
        if kept { "the settings stay (`netcliff tune undo`)" } else { "everything was set back" },
    ))
}
