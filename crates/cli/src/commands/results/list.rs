//! `netcliff results list`.

use netcliff_lab::store::{RunSummary, Store};
use netcliff_report as report;

use super::plain;
use crate::args::{ResultsAction, Since};
use crate::commands::now_unix_s;
use crate::output;

/// Heading of the names.
const NAME: &str = "name";

/// The runs that pass every filter.
fn wanted(store: &Store, asked: &ResultsAction) -> anyhow::Result<Vec<RunSummary>> {
    let ResultsAction::List { kind, named, state, since, host, last, .. } = asked else { return Ok(Vec::new()) };
    let mut wanted = Vec::new();
    for run in store.runs()? {
        let passes = kind.as_ref().is_none_or(|kind| run.kind == *kind)
            && named.as_ref().is_none_or(|name| run.name.as_ref() == Some(name))
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

/// The requested runs, newest first.
pub(super) fn list(store: &Store, asked: &ResultsAction, json: bool) -> anyhow::Result<()> {
    let runs = wanted(store, asked)?;
    if json {
        return runs.iter().try_for_each(output::json_line);
    }
    if runs.is_empty() {
        let such = if store.runs()?.is_empty() { "no runs" } else { "no such runs" };
        output::say(format!("netcliff: {such} in {}", store.path().display()));
        return Ok(());
    }
    // A run without a name of its own is listed under its command's.
    let name = |run: &RunSummary| run.name.clone().unwrap_or_else(|| run.kind.clone());
    let width = runs.iter().map(|run| name(run).chars().count()).max().unwrap_or(0).max(NAME.len());
    let heads = ["run", "started (UTC)", "kind", NAME, "state", "records"].map(str::to_owned);
    let mut lines = vec![(columned(&heads, width), "command".to_owned())];
    for run in &runs {
        let date = report::format::date_utc(run.started_unix_s);
        let cells = [run.id.to_string(), date, run.kind.clone(), name(run), run.state.clone(), run.records.to_string()];
        // The database may be anyone's: no cell steers the terminal, or ends its line.
        lines.push((columned(&cells.map(|cell| plain(&cell)), width), plain(&run.command)));
    }
    output::data(&fitted(&lines, output::columns(&std::io::stdout())))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// On a pipe a run is a line, whatever its length; on a terminal nothing is wider than that.
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
