//! `netcliff compare`.

use std::path::Path;
use std::process::ExitCode;

use netcliff_lab::compare::{Better, Measured, Outcome, ReadError, Source, compare};
use netcliff_report as report;

use super::{open_store_to_read, refuse_unwritable_files, store_path, write};
use crate::args::{CompareArgs, StoreArgs};
use crate::output;

/// Exit code if the repeats show neither that B is slower by more than `--fail-if-slower` nor that it is not.
const INCONCLUSIVE: u8 = 3;

/// Compares two runs and prints the result.
pub fn run(args: &CompareArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let files = [&args.html, &args.junit, &args.benchmark_bigger, &args.benchmark_smaller];
    refuse_unwritable_files(files.map(|file| file.as_deref()))?;
    let sources = [&args.a, &args.b].map(|text| Source::parse(text));
    let [a, b] = sources.each_ref().map(|source| read(source, store_args));
    let found = compare(&a?, &b?, args.fail_if_slower).map_err(output::usage)?;
    if let Some(path) = &args.html {
        write(path, &report::html::compare(&found))?;
        output::say(format!("netcliff: the page is in {}", path.display()));
    }
    if let Some(path) = &args.junit {
        write(path, &report::builds::junit(&found))?;
    }
    for (path, better) in [(&args.benchmark_bigger, Better::More), (&args.benchmark_smaller, Better::Less)] {
        if let Some(path) = path {
            write(path, &report::format::json(&format!("{}\n", report::builds::benchmark(&found, better))))?;
        }
    }
    if args.json {
        output::json_line(&found)?;
    } else {
        let page = if args.verbose { report::terminal::compare } else { report::terminal::compare_brief };
        output::page(&page(&found, output::style()))?;
    }
    Ok(ExitCode::from(match found.gate.map(|gate| gate.outcome) {
        None | Some(Outcome::Passed) => 0,
        Some(Outcome::Failed) => 1,
        Some(Outcome::Inconclusive) => INCONCLUSIVE,
    }))
}

/// Reads the run with this name from the store. `None` if a file has this name, or there is no store.
fn named(text: &str, store_args: &StoreArgs) -> Option<Result<Measured, ReadError>> {
    if Path::new(text).exists() || !store_path(store_args).is_ok_and(|path| path.exists()) {
        return None;
    }
    let store = open_store_to_read(store_args).ok()?;
    match Measured::of_store(&store, &Source::named(text)) {
        Err(ReadError::NoSuchRun { .. }) => None,
        found => Some(found),
    }
}

fn read(source: &Source, store_args: &StoreArgs) -> anyhow::Result<Measured> {
    let found = match source {
        Source::File(path) => named(path, store_args).unwrap_or_else(|| Measured::of_file(path)),
        stored => Measured::of_store(&open_store_to_read(store_args)?, stored),
    };
    found.map_err(|error| match error {
        ReadError::Store(error) => error.into(),
        error => output::usage(error),
    })
}
