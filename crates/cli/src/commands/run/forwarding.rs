//! Experiments of forwarding.

use std::process::ExitCode;

use netcliff_core::Provenance;
use netcliff_core::experiment::{Experiment, Forwarding, OneOrMore};
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_report as report;
use netcliff_report::drawing::Drawing;
use netcliff_rfc2544::conduct::Step;
use netcliff_rfc2544::forwarding::{self, ForwardingError, ForwardingReport, Stage};

use super::kept::{Kept, Known};
use super::show::files;
use crate::args::{RunArgs, StoreArgs};
use crate::commands::profile::{Profiles, Sampled};
use crate::commands::{enter_user_namespace, now_unix_s, open_store, stop_on_signal};
use crate::live;
use crate::output;

/// Measures the experiment, prints the results and stores them.
pub fn run(
    args: &RunArgs,
    store_args: &StoreArgs,
    experiment: &Forwarding,
    text: &str,
    provenance: &Provenance,
) -> anyhow::Result<ExitCode> {
    refuse(args)?;
    let path = args.file().display().to_string();
    let experiment = changed(args, experiment);
    experiment.check().map_err(output::usage)?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    enter_user_namespace().into_iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    let stop = stop_on_signal()?;
    let store = open_store(store_args)?.naming(inputs::experiment_name(args.file()));
    let profiles = Profiles::new(args.profile, Sampled { without_own: true, ..Sampled::default() })?;
    let mut kept = take_up(args, &store, &experiment, text, provenance)?;
    kept.profiles = profiles;
    let found = forwarding::run(&experiment, &path, text, &stop, provenance, &mut kept);
    let mut found = found.inspect_err(|_| kept.failed()).map_err(explain)?;
    found.provenance.elapsed_s = Some(now_unix_s() - provenance.started_unix_s);
    kept.finish(&found, found.partial, &found.fingerprint)?;
    show(args, experiment, &found, text)?;
    kept.show_profiles(args.json)?;
    let whole = kept.release() && !found.partial;
    Ok(ExitCode::from(u8::from(!whole)))
}

/// The newest unfinished run of this experiment, with `--resume`, or a new one.
fn take_up<'a>(
    args: &RunArgs,
    store: &'a Store,
    experiment: &Forwarding,
    text: &str,
    provenance: &Provenance,
) -> anyhow::Result<Kept<'a, ForwardingReport>> {
    let id = forwarding::identifier(experiment, text);
    Kept::take_up(store, args.resume, &Known { kind: "forwarding", id: &id }, provenance, |before| {
        let rows = before.iter().flat_map(|report: &&ForwardingReport| &report.rows);
        format!("{} searches", rows.map(|row| row.samples.len()).sum::<usize>())
    })
}

impl forwarding::Watch for Kept<'_, ForwardingReport> {
    fn stage(&mut self, stage: Stage<'_>) {
        if let Stage::Turn { set_up, .. } = stage {
            self.profiles.begin(&format!("the searches of {set_up}"));
        }
        say(&stage);
    }

    fn had(&mut self, so_far: &ForwardingReport) {
        self.profiles.end();
        self.keep(so_far);
    }

    fn resumed(&mut self) -> Option<ForwardingReport> {
        self.before()
    }
}

/// Refuses options that belong to other kinds of experiments.
fn refuse(args: &RunArgs) -> anyhow::Result<()> {
    let flags = [
        ("--engine", !args.engine.is_empty()),
        ("--seed", args.seed.is_some()),
        ("--precision", args.precision.is_some()),
        ("--packets", args.packets.is_some()),
        ("--threads", args.threads.is_some()),
        ("--max-repeats", args.max_repeats.is_some()),
        ("--to, --ssh, --devices", args.far.is_asked() || !args.devices.is_empty()),
    ];
    let why = "is of forwarding through this machine; leave it out (--repeats, --time and --sizes narrow it)";
    super::refuse(args, &flags, why)
}

/// The experiment with the user's changes.
fn changed(args: &RunArgs, experiment: &Forwarding) -> Forwarding {
    let mut experiment = experiment.clone();
    experiment.rounds = args.repeats.unwrap_or(experiment.rounds);
    if let Some(time_s) = args.time {
        experiment.trial = netcliff_core::units::print_time_s(time_s);
    }
    if !args.sizes.is_empty() {
        experiment.sizes = OneOrMore(args.sizes.clone());
    }
    experiment
}

fn say(stage: &Stage<'_>) {
    match stage {
        Stage::Turn { round, rounds, set_up } => output::say(format!("netcliff: round {round} of {rounds}: {set_up}")),
        Stage::Step(Step::Size(frame)) => output::say(format!("netcliff:   frames of {frame}")),
        Stage::Step(Step::Search { .. } | Step::Trial { .. }) => {}
    }
}

fn explain(error: ForwardingError) -> anyhow::Error {
    match error {
        ForwardingError::File(_) | ForwardingError::Value(_) => output::usage(error),
        ForwardingError::Device(error) => crate::commands::rfc2544::explain(error),
    }
}

fn show(args: &RunArgs, experiment: Forwarding, found: &ForwardingReport, text: &str) -> anyhow::Result<()> {
    let experiment = Experiment::Forwarding(Box::new(experiment));
    // The report itself says that it is partial.
    let drawing = Drawing::of(&experiment, found.curves(), text.to_owned(), found.provenance.clone());
    let drawing = drawing.map_err(output::usage)?.limited(found);
    match (args.json, output::to_stdout(&args.csv)) {
        _ if args.live && !args.json => live::result(found, found.partial)?,
        (true, _) => output::json_line(found)?,
        (_, true) => output::data(&report::csv::forwarding(found))?,
        _ => {
            output::page(&report::terminal::experiment(&drawing, output::style()))?;
            output::page(&report::terminal::forwarding(found, output::style()))?;
        }
    }
    output::csv(&args.csv, || Ok(report::csv::forwarding(found)))?;
    files(args, &drawing, "the page", |drawing| report::html::forwarding(found, drawing))
}
