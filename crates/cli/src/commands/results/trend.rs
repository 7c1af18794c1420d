//! `netcliff results trend`.

use std::process::ExitCode;

use netcliff_core::Provenance;
use netcliff_lab::trend::{self, Series, Trend, TrendError};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use crate::args::{StoreArgs, TrendArgs};
use crate::commands::{command_line, now_unix_s, open_store, refuse_name, refuse_unwritable_files, write_told};
use crate::output;

/// Prints the trend of a name, and draws one of its figures.
pub fn run(args: &TrendArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    refuse_unwritable_files([args.html.as_deref(), args.svg.as_deref()])?;
    refuse_name(store_args, false, "the NAME of a trend is an argument: `netcliff results trend nightly`")?;
    let store = open_store(store_args)?;
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

/// The series that is drawn.
fn picked<'a>(args: &TrendArgs, trend: &'a Trend) -> anyhow::Result<&'a Series> {
    let fits = |series: &&Series| {
        args.point.as_ref().is_none_or(|text| series.point.contains(text))
            && args.figure.as_ref().is_none_or(|name| series.quantity.name == name)
    };
    let changed = trend.series.iter().filter(fits).find(|series| !series.changes.is_empty());
    changed.or_else(|| trend.series.iter().find(fits)).ok_or_else(|| {
        let all: Vec<String> =
            trend.series.iter().take(8).map(|series| format!("{}: {}", series.point, series.quantity.name)).collect();
        output::usage(format!("--point, --figure: no such figure in these runs; the first are {}", all.join(", ")))
    })
}
