//! `netcliff compare`.

use std::process::ExitCode;

use netcliff_lab::compare::{Measured, ReadError, Source, compare};
use netcliff_report as report;

use super::{open_store, write};
use crate::args::{CompareArgs, StoreArgs};
use crate::output;

/// Compares two runs and shows it.
pub fn run(args: &CompareArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let sources = [&args.a, &args.b].map(|text| Source::parse(text));
    let [a, b] = sources.each_ref().map(|source| read(source, store_args));
    let found = compare(&a?, &b?, args.fail_if_slower).map_err(output::usage)?;
    if let Some(path) = &args.html {
        write(path, &report::html::compare(&found))?;
        output::say(format!("netcliff: the page is in {}", path.display()));
    }
    if args.json {
        output::json_line(&found)?;
    } else {
        output::data(&report::terminal::compare(&found, output::style()))?;
    }
    Ok(ExitCode::from(u8::from(found.failed)))
}

fn read(source: &Source, store_args: &StoreArgs) -> anyhow::Result<Measured> {
    let found = match source {
        Source::File(path) => Measured::of_file(path),
        stored => Measured::of_store(&open_store(store_args)?, stored),
    };
    found.map_err(|error| match error {
        ReadError::Store(error) => error.into(),
        error => output::usage(error),
    })
}
