//! `netcliff tune try`.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use netcliff_host::tune::Plan;
use netcliff_host::tune::apply::Session;
use netcliff_lab::tuning::{self, Trial, Verdict};
use netcliff_report::format;

use super::{lock, look, make, planned};
use crate::args::TryArgs;
use crate::output;

/// Measures in turns; keeps the settings if that was asked for and they proved better.
pub fn run(args: &TryArgs) -> anyhow::Result<ExitCode> {
    let lock = lock()?;
    let plan = planned(&args.wish, &look()?)?;
    if plan.steps.is_empty() {
        output::say("netcliff: nothing to try: the plan is empty");
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::new(&lock);
    let trial = tuning::rounds(args.rounds as usize, !args.higher, |tuned| {
        set(&mut session, args, &plan, tuned)?;
        let value = measure(args)?;
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

fn measure(args: &TryArgs) -> anyhow::Result<f64> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| output::usage(format!("{program}: {error}")))?;
    if !output.status.success() {
        bail!("{program} ended with {}; the settings were set back", output.status);
    }
    tuning::figure(&String::from_utf8_lossy(&output.stdout), args.metric.as_deref()).map_err(anyhow::Error::msg)
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
