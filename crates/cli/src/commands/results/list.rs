//! `netcliff results list`.

use netcliff_lab::store::{RunSummary, Store, has_records};
use netcliff_report as report;

use super::plain;
use crate::args::{ResultsAction, Since};
use crate::commands::now_unix_s;
use crate::output;

/// The runs that pass every filter.
fn wanted(store: &Store, asked: &ResultsAction, name: Option<&String>) -> anyhow::Result<Vec<RunSummary>> {
    let ResultsAction::List { kind, named, state, since, host, last, .. } = asked else { return Ok(Vec::new()) };
    let named = named.as_ref().or(name);
    let mut wanted = Vec::new();
    for run in store.runs()? {
        let passes = kind.as_ref().is_none_or(|kind| run.kind == *kind)
            && named.is_none_or(|name| run.name.as_ref() == Some(name))
            && state.as_ref().is_none_or(|state| run.state == *state)
            && since.as_ref().is_none_or(|since| is_since(&run, since));
        if passes && host.as_ref().map_or(Ok(true), |text| is_of(store, &run, text))? {
            wanted.push(run);
        }
        if last.is_some_and(|last| wanted.len() >= last) {
            wanted.truncate(last.unwrap_or_default());
            break;
        }
    }
    Ok(wanted)
}

fn is_since(run: &RunSummary, since: &Since) -> bool {
    match since {
        // Dates in this form sort as text.
        Since::Date(date) => report::format::date_utc(run.started_unix_s) >= *date,
        Since::Ago(seconds) => run.started_unix_s >= now_unix_s() - seconds,
    }
}

/// Whether a run's fingerprint has an id that begins with the text, or a fact that contains it, case ignored.
fn is_of(store: &Store, run: &RunSummary, text: &str) -> anyhow::Result<bool> {
    if run.fingerprint_id.as_ref().is_some_and(|id| id.starts_with(text)) {
        return Ok(true);
    }
    let text = text.to_lowercase();
    let facts = store.fingerprint(run.id)?.map(|fingerprint| fingerprint.facts).unwrap_or_default();
    Ok(facts.values().any(|fact| fact.to_lowercase().contains(&text)))
}

/// The requested runs, newest first. `name` is the value of the global option `--name`.
pub(super) fn list(store: &Store, asked: &ResultsAction, name: Option<&String>, json: bool) -> anyhow::Result<()> {
    let runs = wanted(store, asked, name)?;
    if json {
        return runs.iter().try_for_each(output::json_line);
    }
    if runs.is_empty() {
        let such = if store.runs()?.is_empty() { "no runs" } else { "no such runs" };
        output::say(format!("netcliff: {such} in {}", store.path().display()));
        return Ok(());
    }
    let columns = output::columns(&std::io::stdout()).or_else(columns_of_environment);
    output::data(&fitted(&lines(&runs), columns))
}

/// Width that the user has set by COLUMNS, for output that does not go to a terminal.
fn columns_of_environment() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// A line of headings, then one line for each run: columns as wide as their content, and the command.
fn lines(runs: &[RunSummary]) -> Vec<(String, String)> {
    let heads = ["run", "started (UTC)", "kind", "name", "state", "records"].map(str::to_owned);
    let row = |run: &RunSummary| {
        let date = report::format::date_utc(run.started_unix_s);
        let date = date.strip_suffix(" UTC").unwrap_or(&date).to_owned();
        let name = run.name.clone().unwrap_or_else(|| "-".to_owned());
        // Kinds with one result each have no records to count.
        let records = if has_records(&run.kind) { run.records.to_string() } else { "-".to_owned() };
        // The database may come from anyone: no cell may control the terminal or end its line.
        [run.id.to_string(), date, run.kind.clone(), name, run.state.clone(), records].map(|cell| plain(&cell))
    };
    let rows: Vec<[String; 6]> = [heads].into_iter().chain(runs.iter().map(row)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default());
    let commands = ["command".to_owned()].into_iter().chain(runs.iter().map(|run| plain(&run.command)));
    rows.iter().map(|row| columned(row, &widths)).zip(commands).collect()
}

fn columned(cells: &[String; 6], widths: &[usize; 6]) -> String {
    let numbers = [0, 5];
    let cell = |at: usize| {
        let (cell, width) = (&cells[at], widths[at]);
        if numbers.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    };
    (0..cells.len()).map(cell).collect::<Vec<_>>().join("  ")
}

/// The columns with the command next to them. If that is too wide for the terminal, the command is below its columns.
fn fitted(lines: &[(String, String)], columns: Option<usize>) -> String {
    /// Indent of a command below its columns: the width of the run's number.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: i64, kind: &str, name: Option<&str>, records: i64) -> RunSummary {
        RunSummary {
            id,
            kind: kind.to_owned(),
            state: "interrupted".to_owned(),
            name: name.map(str::to_owned),
            started_unix_s: 1_790_000_000.7,
            command: "netcliff run shared-threads --time 50ms".to_owned(),
            records,
            fingerprint_id: None,
        }
    }

    /// On a pipe, a run is one line of any length. On a terminal, no line is wider than the terminal.
    #[test]
    fn runs_fit_the_terminal() {
        let long = "a-name-longer-than-its-column-has-room";
        let lines = lines(&[run(8, "forwarding", Some(long), 0), run(7, "find", None, 40)]);
        let piped = fitted(&lines, None);
        assert_eq!(piped.lines().count(), 3);
        assert!(piped.contains("interrupted        -  netcliff run"), "{piped}");
        assert!(piped.lines().last().unwrap().contains("  find        -  "), "no name of its own: {piped}");
        assert_eq!(fitted(&lines, Some(250)), piped);
        for columns in [48, 60, 80] {
            let shown = fitted(&lines, Some(columns));
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{shown}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&shown), words(&piped), "nothing is lost");
        }
        let usual = super::lines(&[run(7, "forwarding", Some("a-router-of-ours"), 0)]);
        let shown = fitted(&usual, Some(80));
        assert_eq!(shown.lines().count(), 4, "a line of columns and one of the command: {shown}");
    }
}
