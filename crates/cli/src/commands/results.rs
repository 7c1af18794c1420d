//! `netcliff results`.

mod calibrate;
mod export;
mod list;
pub(super) mod show;
mod trend;

use std::process::ExitCode;

use netcliff_core::quote::one_line;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::{Stored, StoredError};
use netcliff_report::{self as report, csv};

use super::{open_store, refuse_name, refuse_unwritable_files, write_told};
use crate::args::{ResultsAction, ResultsArgs, StoreArgs};
use crate::output;

/// Lists, shows, exports, names or removes what the store holds.
pub fn run(args: &ResultsArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let ResultsAction::Trend(trend) = &args.action {
        return trend::run(trend, store_args);
    }
    if let ResultsAction::Show { html, svg, csv, .. } = &args.action {
        refuse_unwritable_files([html.as_deref(), svg.as_deref(), output::csv_file(csv)])?;
    }
    // Runs that begin have a name, and the list has those of one; the others take a RUN.
    let takes_name = matches!(args.action, ResultsAction::List { .. } | ResultsAction::Import { .. });
    refuse_name(store_args, takes_name, "a RUN may be a name, such as `netcliff results show new-kernel`")?;
    let store = open_store(store_args)?;
    match &args.action {
        ResultsAction::List { json, .. } => list::list(&store, &args.action, store_args.name.as_ref(), *json)?,
        ResultsAction::Show { run, verbose, json, csv, html, svg } => {
            let run = pick(&store, run.as_deref())?;
            let stored = stored(&store, &run)?;
            if csv.is_some() {
                // Of a `find`, too, the records are the rows; one that was imported has none.
                let records = store.records(run.id)?;
                let rows =
                    if records.is_empty() { show::rows(&stored)? } else { csv::records(&show::in_order(&records)) };
                if output::to_stdout(csv) {
                    return output::data(&rows).map(|()| ExitCode::SUCCESS);
                }
                output::csv(csv, || Ok(rows))?;
                return Ok(ExitCode::SUCCESS);
            }
            if html.is_none() && svg.is_none() {
                return show::show(&run, &stored, *verbose, *json).map(|()| ExitCode::SUCCESS);
            }
            // A run without a figure is refused before anything is written.
            let figure =
                svg.as_ref().map(|path| Ok::<_, anyhow::Error>((path, show::figure(&run, &stored)?))).transpose()?;
            if let Some(path) = html {
                write_told("page", path, &show::page(&run, &stored))?;
            }
            if let Some((path, figure)) = figure {
                write_told("figure", path, &figure)?;
            }
        }
        // Above: its NAME is an argument, and it has an exit code of its own.
        ResultsAction::Trend(_) => {}
        ResultsAction::Export { run, output, force, .. } => export::export(&store, run.as_deref(), output, *force)?,
        ResultsAction::Import { files } => export::import(&store, files, store_args.name.is_some())?,
        ResultsAction::Rename { run, to } => store.rename(pick(&store, Some(run))?.id, Some(to))?,
        ResultsAction::Calibrate { run, auto } => {
            calibrate::calibrate(&store, run.as_deref(), *auto)?;
        }
        ResultsAction::Rm { runs } => {
            let runs = runs.iter().map(|run| pick(&store, Some(run))).collect::<anyhow::Result<Vec<_>>>()?;
            for run in &runs {
                if store.is_under_way(run)? {
                    return Err(output::usage(format!("run {} goes on: stop it first", run.id)));
                }
            }
            remove(&store, &runs)?;
        }
        ResultsAction::Gc { dry_run: true } => {
            store.empty()?.iter().for_each(|run| output::say(format!("netcliff: would remove {}", named(run))));
        }
        ResultsAction::Gc { dry_run: false } => {
            remove(&store, &store.empty()?)?;
            store.compact()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a run keeps; an empty run, or one that goes on and keeps nothing yet, is an error of usage.
fn stored(store: &Store, run: &RunSummary) -> anyhow::Result<Stored> {
    let under_way = store.is_under_way(run)?;
    Stored::of_run(store, run).map_err(|error| match error {
        StoredError::Empty { .. } if under_way => output::usage(goes_on(run)),
        StoredError::Empty { .. } => output::usage(error),
        other => other.into(),
    })
}

/// That a run has no result yet.
fn goes_on(run: &RunSummary) -> String {
    format!("{} ({}) goes on and has no result yet; wait for its end, or stop it by Ctrl-C", run.title(), run.kind)
}

fn remove(store: &Store, runs: &[RunSummary]) -> anyhow::Result<()> {
    store.remove(&runs.iter().map(|run| run.id).collect::<Vec<_>>())?;
    runs.iter().for_each(|run| output::say(format!("netcliff: removed {}", named(run))));
    Ok(())
}

fn named(run: &RunSummary) -> String {
    let date = report::format::date_utc(run.started_unix_s);
    format!("run {}: {}, {date}", run.id, plain(run.name.as_deref().unwrap_or(&run.kind)))
}

/// On one line, without control characters.
fn plain(text: &str) -> String {
    one_line(text).into_owned()
}

fn pick(store: &Store, text: Option<&str>) -> anyhow::Result<RunSummary> {
    let path = store.path().display();
    match (store.find(text.unwrap_or("last"))?, text) {
        (Some(run), _) => Ok(run),
        (None, Some(text)) => {
            let listed = "`netcliff results list` has their numbers and names";
            Err(output::usage(format!("there is no run {text} in {path}; {}; {listed}", store.newest_numbers()?)))
        }
        (None, None) => Err(output::usage(format!("there are no runs in {path} yet"))),
    }
}
