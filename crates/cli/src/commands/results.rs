//! `netcliff results`.

use std::process::ExitCode;

use anyhow::Context;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_report as report;

use super::open_store;
use crate::args::{ResultsAction, ResultsArgs, StoreArgs};
use crate::output;

/// Lists or shows what the store holds.
pub fn run(args: &ResultsArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    let store = open_store(store_args)?;
    match &args.action {
        ResultsAction::List { json } => list(&store, *json)?,
        ResultsAction::Show { id, json, csv, html } => {
            let run = pick(&store, *id)?;
            match html {
                Some(path) => {
                    let finding = store.finding(run.id)?.ok_or_else(|| {
                        output::usage(format!("run {} is not a finished `find`: it has no page", run.id))
                    })?;
                    std::fs::write(path, report::html::finding(&finding))
                        .with_context(|| format!("cannot write {}", path.display()))?;
                }
                None => show(&store, &run, *json, *csv)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Heading of the names.
const NAME: &str = "name";

fn list(store: &Store, json: bool) -> anyhow::Result<()> {
    let runs = store.runs()?;
    if json {
        return runs.iter().try_for_each(output::json_line);
    }
    if runs.is_empty() {
        output::say(format!("netcliff: no runs in {}", store.path().display()));
        return Ok(());
    }
    // What was run without a name of its own goes by its command's.
    let name = |run: &RunSummary| run.name.clone().unwrap_or_else(|| run.kind.clone());
    let width = runs.iter().map(|run| name(run).chars().count()).max().unwrap_or(0).max(NAME.len());
    let mut text = format!(
        "{:>5}  {:<20}  {:<9}  {NAME:<width$}  {:<8}  {:>7}  command\n",
        "run", "started (UTC)", "kind", "state", "records"
    );
    for run in &runs {
        let date = report::format::date_utc(run.started_unix_s);
        let line = format!(
            "{:>5}  {date:<20}  {:<9}  {:<width$}  {:<8}  {:>7}  {}\n",
            run.id,
            run.kind,
            name(run),
            run.state,
            run.records,
            report::format::printable(&run.command)
        );
        text.push_str(&line);
    }
    output::data(&text)
}

/// A result that is neither finding nor records: its page where there is one for its kind.
fn document_of(run: &RunSummary, document: serde_json::Value, json: bool) -> anyhow::Result<()> {
    let damaged = || format!("the result of run {}", run.id);
    match run.kind.as_str() {
        "rr" => {
            let found: netcliff_lab::rr::RrRun = serde_json::from_value(document).with_context(damaged)?;
            match json {
                true => found.rows.iter().try_for_each(output::json_line),
                false => output::data(&report::terminal::rr(&found, output::style())),
            }
        }
        "stream" if !json => {
            let found = serde_json::from_value(document).with_context(damaged)?;
            output::data(&report::terminal::stream(&found, output::style()))
        }
        "rfc2544" if !json => {
            let found = serde_json::from_value(document).with_context(damaged)?;
            output::data(&report::terminal::rfc2544(&found, output::style()))
        }
        "forwarding" if !json => {
            let found = serde_json::from_value(document).with_context(damaged)?;
            output::data(&report::terminal::forwarding(&found, output::style()))
        }
        "transfer" if !json => {
            let found = serde_json::from_value(document).with_context(damaged)?;
            output::data(&report::terminal::transfers(&found, output::style()))
        }
        _ => output::json_line(&document),
    }
}

fn pick(store: &Store, id: Option<i64>) -> anyhow::Result<RunSummary> {
    let runs = || -> anyhow::Result<String> {
        let ids: Vec<String> = store.runs()?.iter().take(10).map(|run| run.id.to_string()).collect();
        Ok(if ids.is_empty() { "the store is empty".to_owned() } else { format!("the newest are {}", ids.join(", ")) })
    };
    let found = match id {
        Some(id) => store.run(id)?,
        None => store.runs()?.into_iter().next(),
    };
    let path = store.path().display();
    match (found, id) {
        (Some(run), _) => Ok(run),
        (None, Some(id)) => Err(output::usage(format!("there is no run {id} in {path}; {}", runs()?))),
        (None, None) => Err(output::usage(format!("there are no runs in {path} yet"))),
    }
}

fn show(store: &Store, run: &RunSummary, json: bool, csv: bool) -> anyhow::Result<()> {
    let finding = if csv { None } else { store.finding(run.id)? };
    match finding {
        Some(finding) if json => output::json_line(&finding),
        Some(finding) => output::data(&report::terminal::finding(&finding, output::style())),
        None if !csv && store.document(run.id)?.is_some() => {
            let document = store.document(run.id)?.unwrap_or_default();
            document_of(run, document, json)
        }
        None => {
            let records = store.records(run.id)?;
            match (json, csv) {
                (true, _) => records.iter().try_for_each(output::json_line),
                (_, true) => output::data(&report::csv::records(&records)),
                _ => output::data(&report::table::outcomes(&records, output::style())),
            }
        }
    }
}
