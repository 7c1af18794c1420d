//! `netcliff tune try`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use netcliff_care::tuning::{self, Trial, Verdict, Yardstick};
use netcliff_core::experiment::Experiment;
use netcliff_host::journal::HostLock;
use netcliff_host::tune::Plan;
use netcliff_host::tune::apply::Session;
use netcliff_lab::inputs;
use netcliff_report::format;

use super::measured::{Ended, printed};
use super::{lock, look, make, planned};
use crate::args::tune::Metric;
use crate::args::{StoreArgs, TryArgs};
use crate::commands::{stop_on_signal, store_path};
use crate::output;

/// The object that `--json` prints.
#[derive(serde::Serialize)]
struct Tried<'a> {
    plan: &'a Plan,
    /// Trial of the first figure.
    trial: Option<&'a Trial>,
    /// The trial of each figure, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<&'a [Trial]>,
    /// Verdict on all figures together.
    verdict: Verdict,
    kept: bool,
}

/// How figures are measured.
enum Measurement {
    /// A command that prints figures.
    Command,
    /// The figure that an experiment draws, and the arguments of the netcliff that runs the experiment.
    Experiment { experiment: Experiment, arguments: Vec<OsString> },
}

/// Measures in rounds with and without the settings. Keeps the settings if that was requested and they proved better.
pub fn run(args: &TryArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    args.wait.begin();
    let measurement = measurement(args, store)?;
    let yardsticks = yardsticks(args, &measurement)?;
    let lock = lock()?;
    let plan = planned(&args.wish, &look()?)?;
    if plan.steps.is_empty() {
        output::say("netcliff: nothing to try: the plan is empty");
        return Ok(ExitCode::SUCCESS);
    }
    say_where(args, &plan);
    // From here on, a signal ends the measurement and everything is restored. Nothing was changed before.
    let stop = stop_on_signal()?;
    let mut session = Session::new(&lock);
    let trials = tuning::rounds(args.rounds as usize, &yardsticks, |tuned| {
        set(&mut session, args, &plan, tuned)?;
        let values = match &measurement {
            Measurement::Command => measure(args, &yardsticks, &lock, &stop)?,
            Measurement::Experiment { experiment, arguments } => {
                vec![carried_out(experiment, arguments, &lock, &stop)?]
            }
        };
        let printed: Vec<String> = values.iter().map(|value| format::significant(*value)).collect();
        output::say(format!("netcliff: {} {}", if tuned { "with   " } else { "without" }, printed.join(", ")));
        Ok::<_, Ended>(values)
    });
    let trials = match trials {
        Ok(trials) => trials,
        Err(Ended::Failed(error)) => return Err(error),
        Err(Ended::Stopped) => {
            set(&mut session, args, &plan, false)?;
            output::say("netcliff: stopped before all rounds were measured: everything was set back, no verdict");
            return Ok(ExitCode::FAILURE);
        }
    };
    let verdict = Verdict::of_all(&trials);
    let keep = args.keep && verdict == Verdict::Better;
    set(&mut session, args, &plan, keep)?;
    if keep {
        session.keep()?;
    } else {
        drop(session);
    }
    // Release the lock first, because the reader of the verdict may be slow.
    drop(lock);
    tell(args, &plan, &trials, keep)?;
    Ok(if verdict == Verdict::Better { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Warns that an experiment without a second host measures no NIC, if the plan sets one.
fn say_where(args: &TryArgs, plan: &Plan) {
    let sets_nic = plan.steps.iter().any(|step| step.setting.interface().is_some());
    if args.experiment.is_some() && !args.far.is_asked() && sets_nic {
        output::say(
            "netcliff: measured in a testbed on this host, where settings of its NICs have no effect; \
             an experiment of transfers goes through them with --to or --ssh",
        );
    }
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

/// The figures, each with the direction that is better.
fn yardsticks(args: &TryArgs, measurement: &Measurement) -> anyhow::Result<Vec<Yardstick>> {
    if let Measurement::Experiment { experiment, .. } = measurement {
        let figure = tuning::drawn(experiment).map_err(output::usage)?;
        return Ok(vec![Yardstick { higher_is_better: tuning::is_better_higher(&figure), figure }]);
    }
    if args.metric.is_empty() {
        return Ok(vec![Yardstick { figure: String::new(), higher_is_better: args.higher }]);
    }
    let of = |metric: &Metric| Yardstick {
        figure: metric.pointer.clone(),
        higher_is_better: metric.higher_is_better.unwrap_or(args.higher),
    };
    Ok(args.metric.iter().map(of).collect())
}

fn measurement(args: &TryArgs, store: &StoreArgs) -> anyhow::Result<Measurement> {
    let far = args.far.is_asked();
    if args.experiment.is_none() && args.command.is_empty() {
        return Err(output::usage("nothing to measure with: give a COMMAND behind --, or --experiment FILE"));
    }
    let Some(file) = &args.experiment else {
        return match far {
            true => Err(output::usage("--to, --ssh: need --experiment FILE; a COMMAND has its own arguments")),
            false => Ok(Measurement::Command),
        };
    };
    let path = file.display().to_string();
    let text = inputs::experiment(&path).map_err(output::usage)?;
    let experiment = Experiment::from_toml(&path, &text).map_err(output::usage)?;
    if far && !matches!(experiment, Experiment::Transfers(_)) {
        return Err(output::usage(format!(
            "--to, --ssh: {path} has no second host; leave them out, or give an experiment of kind \"transfer\""
        )));
    }
    let mut arguments: Vec<OsString> =
        vec!["run".into(), file.into(), "--json".into(), "--db".into(), store_path(store)?.into()];
    if matches!(experiment, Experiment::Grid(_)) {
        arguments.extend(["--engine", "wire"].map(OsString::from));
    }
    arguments.extend(args.far.as_arguments());
    Ok(Measurement::Experiment { experiment, arguments })
}

/// The value of each figure, from one run of the command.
fn measure(args: &TryArgs, yardsticks: &[Yardstick], lock: &HostLock, stop: &AtomicBool) -> Result<Vec<f64>, Ended> {
    let (program, arguments) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let own = Path::new(program).file_name().is_some_and(|name| name == "netcliff");
    let printed = printed(&mut command, program, lock, own, stop)?;
    let pointer = |yardstick: &Yardstick| (!yardstick.figure.is_empty()).then(|| yardstick.figure.clone());
    let figure = |yardstick| tuning::figure(&printed, pointer(yardstick).as_deref()).map_err(anyhow::Error::msg);
    Ok(yardsticks.iter().map(figure).collect::<anyhow::Result<_>>()?)
}

/// The figure of an experiment, measured by a separate run of it.
fn carried_out(
    experiment: &Experiment,
    arguments: &[OsString],
    lock: &HostLock,
    stop: &AtomicBool,
) -> Result<f64, Ended> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(arguments);
    let printed = printed(&mut command, "netcliff run", lock, true, stop)?;
    Ok(tuning::experiment_figure(experiment, &printed).map_err(anyhow::Error::msg)?)
}

fn tell(args: &TryArgs, plan: &Plan, trials: &[Trial], kept: bool) -> anyhow::Result<()> {
    let verdict = Verdict::of_all(trials);
    if args.json {
        let several = (trials.len() > 1).then_some(trials);
        return output::json_line(&Tried { plan, trial: trials.first(), trials: several, verdict, kept });
    }
    let outcome = if kept { "the settings stay (`netcliff tune undo`)" } else { "everything was set back" };
    let rounds = trials.first().map_or(0, |trial| trial.with.len());
    if let [only] = trials {
        return output::sentences(&format!("{}\nover {rounds} rounds: {}\n{outcome}\n", figures(only), of_one(only)));
    }
    let line = |trial: &Trial| format!("{}: {}\n  {}\n", trial.of.figure, figures(trial), of_one(trial));
    let lines: String = trials.iter().map(line).collect();
    let confidence = "the intervals of all figures together hold with 95 % (Bonferroni)";
    output::sentences(&format!("{lines}together: {}\nover {rounds} rounds; {confidence}\n{outcome}\n", word(verdict)))
}

fn figures(trial: &Trial) -> String {
    let mean = |values: &[f64]| format::significant(values.iter().sum::<f64>() / values.len() as f64);
    format!(
        "without {}, with {}, difference {}",
        mean(&trial.without),
        mean(&trial.with),
        format::plus_minus(&trial.difference, format::Unit::Number),
    )
}

fn of_one(trial: &Trial) -> &'static str {
    // All values are equal, so more rounds would show no difference either.
    if trial.with == trial.without { "no difference in any round" } else { word(trial.verdict) }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotDecided => "not decided: more --rounds, or a steadier command",
        Verdict::Mixed => "mixed: better by some figures, worse by others",
    }
}
