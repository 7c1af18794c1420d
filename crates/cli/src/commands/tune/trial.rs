//! `netcliff tune try`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use netcliff_care::tuning::{self, Trial, Verdict, Yardstick};
use netcliff_core::experiment::Experiment;
use netcliff_host::journal::HostLock;
use netcliff_host::tune::apply::Session;
use netcliff_host::tune::{Plan, Step};
use netcliff_lab::inputs;
use netcliff_report::format::{self, CommonScale, Unit};

use super::measured::{Ended, printed};
use super::{lock, look, make, planned, with_unit};
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
    output::say(format!("netcliff: settings to try:\n{}", settings(&plan)));
    let shown: Vec<Shown> = yardsticks.iter().map(|yardstick| Shown::of(yardstick, &measurement)).collect();
    // From here on, a signal ends the measurement and everything is restored. Nothing was changed before.
    let stop = stop_on_signal()?;
    let mut session = Session::new(&lock);
    let mut first: Vec<f64> = Vec::new();
    let (mut measured, mut were_made) = (0_u32, false);
    let trials = tuning::rounds(args.rounds as usize, &yardsticks, |tuned| {
        set(&mut session, args, &plan, tuned)?;
        were_made |= tuned;
        let values = match &measurement {
            Measurement::Command => measure(args, &yardsticks, &lock, &stop),
            Measurement::Experiment { experiment, arguments } => {
                carried_out(experiment, arguments, &lock, &stop).map(|value| vec![value])
            }
        };
        let values = values.map_err(|ended| ended.with_settings(were_made))?;
        if first.is_empty() {
            first.clone_from(&values);
        }
        let side = if tuned { "with" } else { "without" };
        let round = format!("round {} of {}, {side} the settings", measured / 2 + 1, args.rounds);
        output::say(format!("netcliff: {round}: {}", in_words(&shown, &values, &first)));
        measured += 1;
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
    print_verdict(args, &plan, &trials, &shown, keep)?;
    Ok(if verdict == Verdict::Better { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reports which traffic the settings of NICs in the plan affect, unless an experiment has a second host. A command or
/// experiment in a testbed on this host cannot show their effect.
fn say_where(args: &TryArgs, plan: &Plan) {
    let Some(devices) = devices(args, plan) else { return };
    output::say(if args.experiment.is_some() {
        format!(
            "netcliff: measured in a testbed on this host: no packet passes {devices}, so that settings of {devices} \
             have no effect there; an experiment of transfers passes the NIC with --to or --ssh"
        )
    } else {
        format!(
            "netcliff: settings of {devices} affect only traffic through {devices}: a command that measures in network \
             namespaces or on loopback, as `netcliff rr` and `find` do by default, cannot show their effect"
        )
    });
}

/// The NICs that the plan sets, if the measurement may not pass them: without a second host.
fn devices(args: &TryArgs, plan: &Plan) -> Option<String> {
    let mut devices: Vec<&str> = plan.steps.iter().filter_map(|step| step.setting.interface()).collect();
    devices.sort_unstable();
    devices.dedup();
    (!devices.is_empty() && !args.far.is_asked()).then(|| devices.join(", "))
}

/// What helps to decide: traffic through the NICs that the plan sets, or more rounds.
fn to_decide(args: &TryArgs, plan: &Plan) -> String {
    let rounds = "use more --rounds, or a command whose figures vary less";
    let Some(devices) = devices(args, plan) else { return format!("To decide, {rounds}.") };
    let traffic = match args.experiment {
        Some(_) => format!("settings of {devices} need an experiment of transfers, with --to or --ssh"),
        None => format!("settings of {devices} need a command whose traffic passes {devices}"),
    };
    if plan.steps.iter().all(|step| step.setting.interface().is_some()) {
        return format!("To decide: {traffic}; with such traffic, more --rounds help.");
    }
    format!("To decide: {traffic}. For the other settings, {rounds}.")
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

/// The settings of a plan, an indented line each.
fn settings(plan: &Plan) -> String {
    let line = |step: &Step| {
        let of = &step.proposal;
        format!("  {}: {} -> {}", of.name, with_unit(&step.setting, &of.old), with_unit(&step.setting, &of.new))
    };
    plan.steps.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The values of one measurement, with the names of the figures if there are several. `first`: the values of the first
/// measurement, which set the scale of all.
fn in_words(shown: &[Shown], values: &[f64], first: &[f64]) -> String {
    let text = |(shown, (value, first)): (&Shown, (&f64, &f64))| {
        let value = shown.value(*value, *first);
        if values.len() > 1 { format!("{} {value}", shown.name) } else { value }
    };
    shown.iter().zip(values.iter().zip(first)).map(text).collect::<Vec<_>>().join(", ")
}

fn print_verdict(args: &TryArgs, plan: &Plan, trials: &[Trial], shown: &[Shown], kept: bool) -> anyhow::Result<()> {
    let verdict = Verdict::of_all(trials);
    if args.json {
        let several = (trials.len() > 1).then_some(trials);
        return output::json_line(&Tried { plan, trial: trials.first(), trials: several, verdict, kept });
    }
    let rounds = trials.first().map_or(0, |trial| trial.with.len());
    let mut lines = Vec::new();
    if let ([only], [shown]) = (trials, shown) {
        lines.push(format!("{}: {}, means over {rounds} rounds", of_one(only), shown.title(only)));
        lines.push(shown.figures(only));
    } else {
        lines.push(format!("{}: {} figures together, means over {rounds} rounds", word(verdict), trials.len()));
        for (trial, shown) in trials.iter().zip(shown) {
            lines.push(format!("{}: {}", shown.title(trial), of_one(trial).to_lowercase()));
            lines.push(shown.figures(trial));
        }
        lines.push("The intervals of all figures together hold with 95 % confidence (Bonferroni).".to_owned());
    }
    if verdict == Verdict::NotDecided && trials.iter().any(|trial| trial.with != trial.without) {
        lines.push(to_decide(args, plan));
    }
    lines.push(format!("Settings tried:\n{}", settings(plan)));
    let end = if kept { "The settings stay; `netcliff tune undo` sets them back." } else { "Everything was set back." };
    output::sentences(&format!("{}\n{end}\n", lines.join("\n")))
}

fn of_one(trial: &Trial) -> &'static str {
    // All values are equal, so more rounds would show no difference either.
    if trial.with == trial.without { "Not decided, no difference in any round" } else { word(trial.verdict) }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "Better",
        Verdict::Worse => "Worse",
        Verdict::NotDecided => "Not decided",
        Verdict::Mixed => "Mixed, better by some figures and worse by others",
    }
}

/// How a figure is printed.
struct Shown {
    /// The pointer, or the name of an experiment's figure.
    name: String,
    unit: Unit,
    /// Converts the measured numbers to the unit.
    factor: f64,
}

impl Shown {
    fn of(yardstick: &Yardstick, measurement: &Measurement) -> Self {
        let (unit, factor) = match measurement {
            Measurement::Experiment { experiment, .. } => (Unit::of(tuning::dimension(experiment)), 1.0),
            Measurement::Command => Unit::of_key(last_key(&yardstick.figure)),
        };
        let name = match yardstick.figure.as_str() {
            "" => "the last number printed",
            name => name,
        };
        Self { name: name.to_owned(), unit, factor }
    }

    /// The name, with the direction that is better.
    fn title(&self, trial: &Trial) -> String {
        format!("{} ({} is better)", self.name, if trial.of.higher_is_better { "higher" } else { "lower" })
    }

    /// A value at the scale of the first one, so that the values of all rounds have the same unit.
    fn value(&self, value: f64, first: f64) -> String {
        let [value, first] = [value, first].map(|one| one * self.factor);
        let scale = CommonScale::of([if first == 0.0 { value } else { first }], self.unit);
        scale.text(value, scale.decimals(value, &[value]))
    }

    /// The means without and with the settings, and their difference with its interval, at one scale.
    fn figures(&self, trial: &Trial) -> String {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64 * self.factor;
        let (without, with) = (mean(&trial.without), mean(&trial.with));
        let difference = trial.difference.value * self.factor;
        let interval = trial.difference.interval.filter(|interval| interval.low < interval.high);
        let (low, high) =
            interval.map_or((difference, difference), |ends| (ends.low * self.factor, ends.high * self.factor));
        let all = [without, with, difference, low, high];
        let scale = CommonScale::of([without, with], self.unit);
        let decimals = scale.decimals(without.abs().max(with.abs()), &all);
        // The interval has at least two digits.
        let decimals = decimals.max(scale.decimals(low.abs().max(high.abs()), &all).saturating_sub(1));
        let interval = interval.map_or_else(
            || "in every round".to_owned(),
            |ends| {
                let confidence = format::share_short(ends.confidence);
                let [low, high] = [low, high].map(|end| scale.signed(end, decimals));
                format!("{confidence} interval {low} to {high}")
            },
        );
        format!(
            "  without the settings  {}\n  with the settings     {}\n  difference            {} ({interval})",
            scale.text(without, decimals),
            scale.text(with, decimals),
            scale.signed(difference, decimals),
        )
    }
}

/// The last key of a JSON pointer that names a figure: not a position in an array, nor a part of the figure.
fn last_key(pointer: &str) -> &str {
    let is_part = |key: &str| {
        ["value", "median", "mean", "min", "max", "low", "high"].contains(&key) || key.parse::<usize>().is_ok()
    };
    pointer.rsplit('/').find(|key| !is_part(key)).unwrap_or_default()
}
