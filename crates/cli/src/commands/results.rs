//! `netcliff results`.

use std::process::ExitCode;

use anyhow::Context;
use netcliff_core::quote::one_line;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_report as report;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{open_store, refuse_unwritable, write};
use crate::args::{ResultsAction, ResultsArgs, StoreArgs};
use crate::output;

/// Lists, shows, names or removes what the store holds.
pub fn run(args: &ResultsArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let ResultsAction::Show { html, .. } = &args.action {
        refuse_unwritable(html.as_deref())?;
    }
    let store = open_store(store_args)?;
    match &args.action {
        ResultsAction::List { kind, last, json } => list(&store, kind.as_deref(), *last, *json)?,
        ResultsAction::Show { run, verbose, json, csv, html } => {
            let run = pick(&store, run.as_deref())?;
            match html {
                Some(path) => write(path, &page(&store, &run)?)?,
                None => show(&store, &run, *verbose, *json, *csv)?,
            }
        }
        ResultsAction::Rename { run, to } => store.rename(pick(&store, Some(run))?.id, Some(to))?,
        ResultsAction::Rm { runs } => {
            let runs = runs.iter().map(|run| pick(&store, Some(run))).collect::<anyhow::Result<Vec<_>>>()?;
            if let Some(run) = runs.iter().find(|run| run.state == "running") {
                return Err(output::usage(format!("run {} goes on: stop it first", run.id)));
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

fn remove(store: &Store, runs: &[RunSummary]) -> anyhow::Result<()> {
    store.remove(&runs.iter().map(|run| run.id).collect::<Vec<_>>())?;
    runs.iter().for_each(|run| output::say(format!("netcliff: removed {}", named(run))));
    Ok(())
}

fn named(run: &RunSummary) -> String {
    let date = report::format::date_utc(run.started_unix_s);
    format!("run {}: {}, {date}", run.id, plain(run.name.as_deref().unwrap_or(&run.kind)))
}

/// The page of a run, whatever its kind.
fn page(store: &Store, run: &RunSummary) -> anyhow::Result<String> {
    if let Some(finding) = store.finding(run.id)? {
        return Ok(report::html::finding(&finding));
    }
    match (run.kind.as_str(), store.document(run.id)?) {
        ("rfc2544", Some(document)) => Ok(report::html::rfc2544(&parsed(run, document)?)),
        (kind, _) => Err(output::usage(format!("run {} is a `{kind}`: it has no page; give --json or --csv", run.id))),
    }
}

/// Heading of the names.
const NAME: &str = "name";

fn list(store: &Store, kind: Option<&str>, last: Option<usize>, json: bool) -> anyhow::Result<()> {
    let wanted = |run: &RunSummary| kind.is_none_or(|kind| run.kind == kind);
    let runs: Vec<_> = store.runs()?.into_iter().filter(wanted).take(last.unwrap_or(usize::MAX)).collect();
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
    let heads = ["run", "started (UTC)", "kind", NAME, "state", "records"].map(str::to_owned);
    let mut lines = vec![(columned(&heads, width), "command".to_owned())];
    for run in &runs {
        let date = report::format::date_utc(run.started_unix_s);
        let cells = [run.id.to_string(), date, run.kind.clone(), name(run), run.state.clone(), run.records.to_string()];
        // Whoever wrote the database: no cell steers the terminal, or ends its line.
        lines.push((columned(&cells.map(|cell| plain(&cell)), width), plain(&run.command)));
    }
    output::data(&fitted(&lines, output::columns(&std::io::stdout())))
}

/// On one line, without control characters.
fn plain(text: &str) -> String {
    one_line(text).into_owned()
}

fn columned([id, started, kind, name, state, records]: &[String; 6], width: usize) -> String {
    format!("{id:>5}  {started:<20}  {kind:<9}  {name:<width$}  {state:<8}  {records:>7}")
}

/// Columns and commands side by side; where that is too wide for a terminal, each command below its columns.
fn fitted(lines: &[(String, String)], columns: Option<usize>) -> String {
    /// Below what follows the number of a run.
    const INDENT: &str = "       ";
    let beside = |(head, command): &(String, String)| format!("{head}  {command}\n");
    let Some(columns) = columns.filter(|columns| lines.iter().any(|line| beside(line).chars().count() > columns + 1))
    else {
        return lines.iter().map(beside).collect();
    };
    let below = |(head, command): &(String, String)| {
        let head = report::format::lines(head.trim_end(), columns, "", INDENT);
        let command = report::format::lines(command, columns, INDENT, INDENT);
        head.into_iter().chain(command).map(|line| line + "\n").collect::<String>()
    };
    lines.iter().map(below).collect()
}

/// The result of a run as its command keeps it.
fn parsed<T: DeserializeOwned>(run: &RunSummary, document: Value) -> anyhow::Result<T> {
    serde_json::from_value(document).with_context(|| format!("the result of run {}", run.id))
}

/// A result that is neither finding nor records: its page where there is one for its kind.
fn document_of(run: &RunSummary, document: Value, json: bool) -> anyhow::Result<()> {
    let style = output::style();
    match run.kind.as_str() {
        "rr" => {
            let found: netcliff_lab::rr::RrRun = parsed(run, document)?;
            match json {
                true => found.rows.iter().try_for_each(output::json_line),
                false => output::data(&report::terminal::rr(&found, style)),
            }
        }
        "stream" if !json => output::data(&report::terminal::stream(&parsed(run, document)?, style)),
        "rfc2544" if !json => output::data(&report::terminal::rfc2544(&parsed(run, document)?, style)),
        "forwarding" if !json => output::data(&report::terminal::forwarding(&parsed(run, document)?, style)),
        "transfer" if !json => output::data(&report::terminal::transfers(&parsed(run, document)?, style)),
        _ => output::json_line(&document),
    }
}

/// A result's figures as CSV, where its command prints them so.
fn rows_of(run: &RunSummary, document: Value) -> anyhow::Result<String> {
    Ok(match run.kind.as_str() {
        "rfc2544" => report::csv::rfc2544(&parsed(run, document)?),
        "forwarding" => report::csv::forwarding(&parsed(run, document)?),
        "transfer" => report::csv::transfers(&parsed(run, document)?),
        kind => return Err(output::usage(format!("run {} is a `{kind}`, which has no CSV; give --json", run.id))),
    })
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

fn show(store: &Store, run: &RunSummary, verbose: bool, json: bool, csv: bool) -> anyhow::Result<()> {
    if let Some(finding) = store.finding(run.id)?.filter(|_| !csv) {
        if json {
            return output::json_line(&finding);
        }
        let page = if verbose { report::terminal::finding } else { report::terminal::brief };
        return output::data(&page(&finding, output::style()));
    }
    if let Some(document) = store.document(run.id)? {
        return if csv { output::data(&rows_of(run, document)?) } else { document_of(run, document, json) };
    }
    let records = store.records(run.id)?;
    match (json, csv) {
        (true, _) => records.iter().try_for_each(output::json_line),
        (_, true) => output::data(&report::csv::records(&records)),
        _ => output::data(&report::table::outcomes(&records, output::style())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a pipe a run is a line, whatever its length; on a terminal nothing is wider than that.
    #[test]
    fn runs_fit_the_terminal() {
        let cells =
            |id: &str| [id, "2026-11-22 06:52:18 UTC", "transfer", "shared-threads", "done", "0"].map(str::to_owned);
        let lines: Vec<(String, String)> = ["7", "8"]
            .map(|id| (columned(&cells(id), 14), "netcliff run shared-threads --time 50ms".to_owned()))
            .into();
        let piped = fitted(&lines, None);
        assert_eq!(piped.lines().count(), 2);
        assert!(
            piped.starts_with(
                "    7  2026-11-22 06:52:18 UTC  transfer   shared-threads  done            0  netcliff run"
            )
        );
        assert_eq!(fitted(&lines, Some(200)), piped);
        for columns in [48, 60, 80] {
            let shown = fitted(&lines, Some(columns));
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{shown}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&shown), words(&piped), "nothing is lost");
        }
        assert!(fitted(&lines, Some(80)).contains("\n       netcliff run shared-threads --time 50ms\n"));
    }
}
