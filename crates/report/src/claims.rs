//! The table of claims: what documents state, what came out here, whether that holds, and why not. Markdown, a row a mark and curve.

use netcliff_core::experiment::{Check, Mark};

use crate::drawing::Drawing;

/// Head of the table.
const HEAD: [&str; 2] =
    ["| experiment | claim | stated | here | holds | why | day |", "| --- | --- | --- | --- | --- | --- | --- |"];
/// How the line begins that counts the rows.
const COUNT: &str = "Rows: ";
/// What `holds` says of a mark whose experiment did not run.
const NOT_RUN: &str = "not run";

/// The rows of an experiment that was run on `day`.
pub fn rows(experiment: &str, drawing: &Drawing, day: &str) -> Vec<String> {
    let of_mark = |mark: &Mark| -> Vec<String> {
        let stated = drawing.place(mark);
        let checks = drawing.checks(mark);
        if checks.is_empty() {
            let of_it = drawing.not_had.iter().filter(|not_had| mark.curves().any(|curve| curve == not_had.curve));
            let mut reasons: Vec<&str> = of_it.map(|not_had| not_had.why.as_str()).collect();
            reasons.dedup();
            let why = if reasons.is_empty() { drawing.not_compared(mark) } else { reasons.join("; ") };
            return vec![row(experiment, mark, [&stated, "-", "not compared", &why, day])];
        }
        // Of one that holds by one engine and not by another, the reason stands at the latter alone.
        let unexpected = mark.differs.as_ref().filter(|_| checks.iter().all(|check| check.within == Some(true)));
        let of_check = |check: &Check| {
            let here = drawing.value(mark, check);
            let why = why(drawing, mark, check, unexpected.map(String::as_str));
            row(experiment, mark, [&stated, &here, holds(check), &why, day])
        };
        checks.iter().map(of_check).collect()
    };
    drawing.marks.iter().flat_map(of_mark).collect()
}

/// The rows of an experiment that did not run, for the reason `why`.
pub fn not_run(experiment: &str, marks: &[Mark], why: &str, day: &str) -> Vec<String> {
    marks.iter().map(|mark| row(experiment, mark, ["-", "-", NOT_RUN, why, day])).collect()
}

fn row(experiment: &str, mark: &Mark, cells: [&str; 5]) -> String {
    let claim = format!("{} ({})", mark.label, mark.source);
    let experiment = format!("`{experiment}`");
    let cells = [experiment.as_str(), claim.as_str()].into_iter().chain(cells);
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |", cells.join(" | "))
}

fn holds(check: &Check) -> &'static str {
    match (check.within, check.sure) {
        (Some(true), Some(false)) => "yes, not certain",
        (Some(true), _) => "yes",
        (Some(false), Some(false)) => "no, not certain",
        (Some(false), _) => "no",
        (None, _) => "not compared",
    }
}

fn why(drawing: &Drawing, mark: &Mark, check: &Check, unexpected: Option<&str>) -> String {
    let mut parts: Vec<String> = Vec::new();
    match (check.within, &mark.differs) {
        (Some(false), Some(why)) => parts.push(why.clone()),
        (Some(false), None) if check.sure != Some(false) => parts.push("no reason is known".to_owned()),
        _ => {
            parts.extend(unexpected.map(|why| format!("here it holds, where the file expects that it does not: {why}")))
        }
    }
    if check.sure == Some(false) {
        parts.push("the interval of the repeats reaches across the limit".to_owned());
    }
    if drawing.partial {
        parts.push("the run was stopped early".to_owned());
    }
    parts.join("; ")
}

/// A page with the table in which the rows of `experiment` are these; of a page without the table, the table follows its text.
pub fn merged(page: &str, experiment: &str, rows: &[String]) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let at = lines.iter().position(|line| *line == HEAD[0]);
    let (before, table, after) = match at {
        None => (lines.as_slice(), [].as_slice(), [].as_slice()),
        Some(at) => {
            let length = lines[at..].iter().take_while(|line| line.starts_with('|')).count();
            (&lines[..at], &lines[(at + HEAD.len()).min(at + length)..at + length], &lines[at + length..])
        }
    };
    let own = format!("| `{experiment}` |");
    let others = table.iter().filter(|line| !line.starts_with(&own)).map(|line| (*line).to_owned());
    let mut all: Vec<String> = others.chain(rows.iter().cloned()).collect();
    // By experiment; the marks of one stay in their order.
    all.sort_by(|a, b| name(a).cmp(name(b)));
    let mut text: Vec<String> =
        before.iter().filter(|line| !line.starts_with(COUNT)).map(|l| (*l).to_owned()).collect();
    while text.last().is_some_and(String::is_empty) {
        text.pop();
    }
    if text.is_empty() {
        text.push("# Claims".to_owned());
    }
    text.extend([String::new(), count(&all), String::new()]);
    text.extend(HEAD.map(str::to_owned));
    text.extend(all);
    text.extend(after.iter().map(|line| (*line).to_owned()));
    text.join("\n") + "\n"
}

fn name(row: &str) -> &str {
    row.split(" | ").next().unwrap_or(row)
}

/// How many rows hold, in words.
fn count(rows: &[String]) -> String {
    let of = |wanted: &[&str]| {
        let holds = |row: &&String| row.split(" | ").nth(4).is_some_and(|holds| wanted.contains(&holds));
        rows.iter().filter(holds).count()
    };
    let (yes, no) = (of(&["yes", "yes, not certain"]), of(&["no", "no, not certain"]));
    let unsure = of(&["yes, not certain", "no, not certain"]);
    let rest = rows.len() - yes - no;
    format!(
        "{COUNT}{}; {yes} hold, {no} do not ({unsure} of both not certain), {rest} were not run or not compared.",
        rows.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(label: &str) -> Mark {
        Mark { label: label.to_owned(), source: "a paper | its table".to_owned(), ..Mark::default() }
    }

    /// A run replaces its own rows, and no others; the page around the table stays.
    #[test]
    fn rows_of_a_run_replace_those_of_the_run_before() {
        let rows = |name: &str, why: &str| not_run(name, &[mark("first"), mark("second")], why, "2026-11-28");
        let page = merged("# Claims of documents\n\nText.\n", "fig-7a", &rows("fig-7a", "no CPU"));
        assert!(page.starts_with("# Claims of documents\n\nText.\n\nRows: 2; 0 hold"), "{page}");
        let page = merged(&(page + "\nAfter.\n"), "affinity", &rows("affinity", "no device"));
        let page = merged(&page, "fig-7a", &rows("fig-7a", "no memory"));
        assert_eq!(page.matches("| `fig-7a` |").count(), 2, "{page}");
        assert!(!page.contains("no CPU") && page.contains("no memory") && page.ends_with("\n\nAfter.\n"), "{page}");
        assert!(page.find("affinity") < page.find("fig-7a") && page.matches(HEAD[0]).count() == 1);
        assert!(page.contains("a paper \\| its table") && page.contains("Rows: 4; 0 hold, 0 do not"));
    }
}
