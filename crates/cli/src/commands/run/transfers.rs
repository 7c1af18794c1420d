//! Experiments of real transfers.

use std::process::ExitCode;
use std::sync::Arc;

use netcliff_core::Provenance;
use netcliff_core::experiment::{Experiment, Transfers};
use netcliff_lab::rig::{LinkOptions, Place, Rig, RigOptions};
use netcliff_lab::transfers::{self, TransferReport, TransfersError};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use crate::args::{RunArgs, StoreArgs, Testbed};
use crate::commands::{enter_user_namespace, open_store, stop_on_signal, write};
use crate::output;

/// Measures, shows and keeps it.
pub fn run(
    args: &RunArgs,
    store_args: &StoreArgs,
    experiment: &Transfers,
    text: &str,
    provenance: &Provenance,
) -> anyhow::Result<ExitCode> {
    refuse(args)?;
    let experiment = changed(args, experiment);
    experiment.check().map_err(output::usage)?;
    if !matches!(args.testbed, Testbed::Loopback) {
        // Before any thread is started: a process with threads cannot enter a user namespace.
        enter_user_namespace().into_iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    }
    let stop = stop_on_signal()?;
    let place = match args.testbed {
        Testbed::Best => Place::Best,
        Testbed::Netns => Place::Netns,
        Testbed::Loopback => Place::Loopback,
    };
    let link = LinkOptions { mtu_bytes: Some(1500), steer_sender: true, ..LinkOptions::default() };
    let rig = Rig::build(&RigOptions { place, link, ..RigOptions::default() }, Arc::clone(&stop))?;
    let store = open_store(store_args)?;
    let run_id = store.begin("transfer", &provenance.command, provenance.started_unix_s)?;
    let path = args.file.display().to_string();
    let mut said = |stage: &str| output::say(format!("netcliff: {stage}"));
    let found = transfers::run(&experiment, (&path, text), &rig, provenance, &mut said);
    drop(rig);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            // Why it failed matters more than this.
            let _ = store.finish(run_id, true, None);
            return Err(explain(error));
        }
    };
    store.set_fingerprint(run_id, &found.fingerprint)?;
    store.finish_document(run_id, found.partial, &found)?;
    show(args, experiment, &found, text)?;
    output::say(format!("netcliff: kept as run {run_id}"));
    Ok(ExitCode::from(u8::from(found.partial)))
}

/// What means something for points on engines only.
fn refuse(args: &RunArgs) -> anyhow::Result<()> {
    let flags = [
        ("--engine", !args.engine.is_empty()),
        ("--packets", args.packets.is_some()),
        ("--resume", args.resume),
        ("--threads", args.threads.is_some()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(output::usage(format!(
            "{flag}: {} is of real transfers, one at a time; leave it out, or give an experiment of kind \"grid\"",
            args.file.display()
        ))),
    }
}

/// What the user says beyond the file.
fn changed(args: &RunArgs, experiment: &Transfers) -> Transfers {
    let mut experiment = experiment.clone();
    experiment.repeats = args.repeats.unwrap_or(experiment.repeats);
    experiment.precision = args.precision.or(experiment.precision);
    experiment.max_repeats = args.max_repeats.or(experiment.max_repeats);
    experiment.seed = args.seed.unwrap_or(experiment.seed);
    if let Some(time_s) = args.time {
        experiment.time = netcliff_core::units::print_time_s(time_s);
    }
    experiment
}

fn explain(error: TransfersError) -> anyhow::Error {
    match error {
        TransfersError::File(_) | TransfersError::Name { .. } | TransfersError::NothingLeft(_) => output::usage(error),
        other => other.into(),
    }
}

fn show(args: &RunArgs, experiment: Transfers, found: &TransferReport, text: &str) -> anyhow::Result<()> {
    let drawing = drawing(experiment, found, text)?;
    match (args.json, args.csv) {
        (true, _) => output::json_line(found)?,
        (_, true) => output::data(&report::csv::transfers(found))?,
        _ => {
            if !drawing.curves.is_empty() {
                output::data(&report::terminal::experiment(&drawing, output::style()))?;
            }
            output::data(&report::terminal::transfers(found, output::style()))?;
        }
    }
    if let Some(path) = &args.svg {
        if drawing.curves.is_empty() {
            return Err(output::usage(
                "--svg: nothing numeric varies, so that there is no figure; --html has the tables",
            ));
        }
        write(path, &report::svg::experiment(&drawing))?;
    }
    if let Some(path) = &args.html {
        write(path, &report::html::transfers(found, &drawing))?;
        output::say(format!("netcliff: the page is in {}", path.display()));
    }
    Ok(())
}

fn drawing(experiment: Transfers, found: &TransferReport, text: &str) -> anyhow::Result<Drawing> {
    let experiment = Experiment::Transfers(Box::new(experiment));
    Ok(Drawing {
        title: experiment.title().to_owned(),
        axes: experiment.axes().map_err(output::usage)?,
        marks: experiment.marks().map_err(output::usage)?,
        curves: found.curves(),
        not_had: Vec::new(),
        asked: found.asked.clone(),
        source: text.to_owned(),
        provenance: found.provenance.clone(),
        partial: found.partial,
    })
}
