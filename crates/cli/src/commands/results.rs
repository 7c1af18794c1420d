//! `netcliff results`.

mod export;
mod list;
pub(super) mod show;

use std::process::ExitCode;

use netcliff_core::quote::one_line;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::{Stored, StoredError};
use netcliff_report::{self as report, csv};

use super::{open_store, open_store_to_read, refuse_name, refuse_unwritable_files, store_path, write_told};
use crate::args::{ResultsAction, ResultsArgs, StoreArgs};
use crate::output;

/// Lists, shows, exports, names or removes stored runs.
pub fn run(args: &ResultsArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let ResultsAction::Trend(trend) = &args.action {
        return trend::run(trend, store_args);
    }
    if let ResultsAction::Show { html, svg, csv, .. } = &args.action {
        refuse_unwritable_files([html.as_deref(), svg.as_deref(), output::csv_file(csv)])?;
    }
    // Importing gives runs a name, and listing selects runs by name. The other actions take a RUN.
    let takes_name = matches!(args.action, ResultsAction::List { .. } | ResultsAction::Import { .. });
    refuse_name(store_args, takes_name, "a RUN may be a name, such as `netcliff results show new-kernel`")?;
    let store = match &args.action {
        ResultsAction::List { .. } | ResultsAction::Show { .. } | ResultsAction::Export { .. } => {
            open_store_to_read(store_args)?
        }
        ResultsAction::Import { .. } => open_store(store_args)?,
        _ => Store::open_existing(&store_path(store_args)?)?,
    };
    match &args.action {
        ResultsAction::List { json, .. } => list::list(&store, &args.action, store_args.name.as_ref(), *json)?,
        ResultsAction::Show { run, verbose, json, csv, html, svg } => {
            let run = pick(&store, run.as_deref())?;
            let stored = stored(&store, &run)?;
            if csv.is_some() {
                // For a `find` too, the rows are its records. An imported `find` has none.
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
        // Handled above: its NAME is an argument, and it has its own exit code.
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

/// The result of a run. A run without a result is an error of usage, also if it is still in progress.
fn stored(store: &Store, run: &RunSummary) -> anyhow::Result<Stored> {
    let under_way = store.is_under_way(run)?;
    Stored::of_run(store, run).map_err(|error| match error {
        StoredError::Empty { .. } if under_way => output::usage(goes_on(run)),
        StoredError::Empty { .. } => output::usage(error),
        other => other.into(),
    })
}

/// Sentence that a run is still in progress and has no result yet.
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

/// `text` on one line, without control characters.
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

mod calibrate {
    //! `netcliff results calibrate`.

    use netcliff_lab::costs::{self, Found};
    use netcliff_lab::store::Store;
    use netcliff_report::format::{self, Unit};

    use super::pick;
    use crate::output;

    /// Sets or clears the run that is this host's calibration, and reports which one is in force.
    pub(super) fn calibrate(store: &Store, run: Option<&str>, auto: bool) -> anyhow::Result<()> {
        if let Some(text) = run {
            let run = pick(store, Some(text))?;
            let path = store.path().to_owned();
            costs::named(Some(&format!("find:{}", run.id)), || Ok(path)).map_err(output::usage)?;
            store.calibrate(Some(run.id))?;
        } else if auto {
            store.calibrate(None)?;
        }
        output::data(&match costs::calibration(store.path()) {
            Ok(found) => sentence(&found),
            Err(why) => format!("No calibration of this host: {why}.\n"),
        })
    }

    /// A sentence such as `This host's calibration is find run 3 (2026-11-28 10:00 UTC), cliff 216 kpps (191-242, 94 %
    /// confidence): it is the newest that qualifies.`
    fn sentence(found: &Found) -> String {
        let cliff = found.cliff_pps.map_or("no measured cliff".to_owned(), |cliff| {
            format!("cliff {}", format::with_confidence(&cliff, Unit::Pps))
        });
        let why = found.why.as_deref().unwrap_or("the newest that measured a cliff with standard settings");
        let date = format::date_utc(found.finding.provenance.started_unix_s);
        format!("This host's calibration is {} ({date}), {cliff}: {why}.\n", found.name)
    }
}

mod trend {
    //! `netcliff results trend`.

    use std::process::ExitCode;

    use netcliff_core::Provenance;
    use netcliff_lab::trend::{self, Series, Trend, TrendError};
    use netcliff_report as report;
    use netcliff_report::drawing::Drawing;

    use crate::args::{StoreArgs, TrendArgs};
    use crate::commands::{
        command_line, now_unix_s, open_store_to_read, refuse_name, refuse_unwritable_files, write_told,
    };
    use crate::output;

    /// Prints the trend of a name, and draws one of its figures.
    pub fn run(args: &TrendArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
        refuse_unwritable_files([args.html.as_deref(), args.svg.as_deref()])?;
        refuse_name(store_args, false, "the NAME of a trend is an argument: `netcliff results trend nightly`")?;
        let store = open_store_to_read(store_args)?;
        let usage = |error: TrendError| match error {
            TrendError::Store(error) => error.into(),
            other => output::usage(other),
        };
        let (runs, notes) = trend::of_store(&store, &args.of).map_err(usage)?;
        let found = trend::trend(&args.of, &runs, notes, args.fail_if_slower).map_err(usage)?;
        let provenance = Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            started_unix_s: now_unix_s(),
            ..Provenance::default()
        };
        let drawn = picked(args, &found)?;
        let drawing = || Drawing::of_trend(&found, drawn, provenance.clone());
        if args.json {
            output::json_line(&found)?;
        } else {
            output::page(&report::terminal::trend(&found, args.verbose, output::style()))?;
        }
        if let Some(path) = &args.svg {
            write_told("figure", path, &report::svg::experiment(&drawing()))?;
        }
        if let Some(path) = &args.html {
            write_told("page", path, &report::html::experiment(&drawing()))?;
        }
        Ok(ExitCode::from(u8::from(found.failed)))
    }

    /// The series that the options select for drawing.
    fn picked<'a>(args: &TrendArgs, trend: &'a Trend) -> anyhow::Result<&'a Series> {
        let fits = |series: &&Series| {
            args.point.as_ref().is_none_or(|text| series.point.contains(text))
                && args.figure.as_ref().is_none_or(|name| series.quantity.name == name)
        };
        let changed = trend.series.iter().filter(fits).find(|series| !series.changes.is_empty());
        changed.or_else(|| trend.series.iter().find(fits)).ok_or_else(|| {
            let all: Vec<String> = trend
                .series
                .iter()
                .take(8)
                .map(|series| format!("{}: {}", series.point, series.quantity.name))
                .collect();
            output::usage(format!("--point, --figure: no such figure in these runs; the first are {}", all.join(", ")))
        })
    }
}
