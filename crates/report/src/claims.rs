//! The page of claims: each stated value, the result here, whether the claim holds, and why not. Markdown: a section
//! with a table for each experiment, a row for each mark. The tables have few columns, so that they fit a page as
//! narrow as the book's.

use netcliff_core::experiment::{Check, Mark, MarkVerdict, is_called};

use crate::drawing::{Drawing, NotHad};
use crate::table::grouped;

/// Head of a table.
const HEAD: [&str; 2] = ["| claim, and what is held against it | holds here | why |", "| --- | --- | --- |"];
/// Start of the line that counts the comparisons.
const COUNT: &str = "Comparisons: ";
/// Start of an experiment's heading.
const HEADING: &str = "## `";
/// Separator between the lines of a cell.
const BREAK: &str = "<br>";
/// Result of a mark that was not compared.
const NOT_COMPARED: &str = "not compared";
const NOT_RUN: &str = "not run";
/// Text of a cell that would repeat the reason of the row above.
const AS_ABOVE: &str = "as above";

/// A mark's row: claim, results, reasons.
type Row = [String; 3];

/// The section of an experiment that was run on `day`.
pub fn section(experiment: &str, drawing: &Drawing, day: &str) -> Vec<String> {
    let mut section = table(experiment, day, drawing.marks.iter().map(|mark| of_mark(drawing, mark)).collect());
    if !drawing.limits.is_empty() {
        section.extend([format!("Limits: {}.", drawing.limits.join("; ")), String::new()]);
    }
    section
}

/// The section of an experiment that did not run, for the reason `why`.
pub fn not_run(experiment: &str, marks: &[Mark], why: &str, day: &str) -> Vec<String> {
    let row = |mark: &Mark| [claim(mark), NOT_RUN.to_owned(), why.to_owned()];
    table(experiment, day, marks.iter().map(row).collect())
}

fn claim(mark: &Mark) -> String {
    format!("{} ({})", mark.label, mark.source)
}

fn of_mark(drawing: &Drawing, mark: &Mark) -> Row {
    let claim = format!("{}{BREAK}*{}*", claim(mark), drawing.place(mark));
    let checks = drawing.checks(mark);
    if checks.is_empty() {
        return [claim, NOT_COMPARED.to_owned(), why_absent(drawing, mark)];
    }
    // If a claim holds by one engine and not by another, only the latter has the reason.
    let is_reproduced = |check: &Check| check.verdict() == Some(MarkVerdict::Reproduced);
    let unexpected = mark.differs.as_ref().filter(|_| checks.iter().all(is_reproduced));
    let result = |check: &Check| format!("{}: {}", holds(check), drawing.value(mark, check));
    let mut reasons: Vec<String> = Vec::new();
    for why in checks.iter().flat_map(|check| why(drawing, mark, check, unexpected.map(String::as_str))) {
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    [claim, checks.iter().map(result).collect::<Vec<_>>().join(BREAK), reasons.join("; ")]
}

/// Why a mark was not compared: each reason of its curves once, with their number.
fn why_absent(drawing: &Drawing, mark: &Mark) -> String {
    let of_it = |one: &&NotHad| mark.curves().any(|curve| is_called(&one.curve, curve));
    let reasons = grouped(drawing.not_had.iter().filter(of_it).map(|one| (one.why.as_str(), &one.curve)));
    if reasons.is_empty() {
        return drawing.not_compared(mark);
    }
    let text = |(why, curves): &(&str, Vec<&String>)| match curves.len() {
        1 => (*why).to_owned(),
        several => format!("{why} ({several} curves)"),
    };
    reasons.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// A section with these rows. If consecutive rows have the same reason, only the first one shows it.
fn table(experiment: &str, day: &str, rows: Vec<Row>) -> Vec<String> {
    let mut section = vec![format!("{HEADING}{experiment}`"), String::new(), format!("Run {day}."), String::new()];
    section.extend(HEAD.map(str::to_owned));
    for (at, row) in rows.iter().enumerate() {
        let mut cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        if !row[2].is_empty() && at.checked_sub(1).is_some_and(|before| rows[before][2] == row[2]) {
            AS_ABOVE.clone_into(&mut cells[2]);
        }
        section.push(format!("| {} |", cells.join(" | ")));
    }
    section.push(String::new());
    section
}

fn holds(check: &Check) -> &'static str {
    match check.verdict() {
        Some(MarkVerdict::Reproduced) => "yes",
        Some(MarkVerdict::Contradicted) => "no",
        Some(MarkVerdict::Undecided) => "undecided",
        None => NOT_COMPARED,
    }
}

fn why(drawing: &Drawing, mark: &Mark, check: &Check, unexpected: Option<&str>) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    match (check.within, &mark.differs) {
        (Some(false), Some(why)) => parts.push(why.clone()),
        (Some(false), None) if check.verdict() == Some(MarkVerdict::Contradicted) => {
            parts.push("no reason is known".to_owned());
        }
        _ => {
            parts.extend(unexpected.map(|why| format!("here it holds, where the file expects that it does not: {why}")))
        }
    }
    if check.verdict() == Some(MarkVerdict::Undecided) {
        parts.push("the interval of the repeats crosses the limit".to_owned());
    }
    if drawing.partial {
        parts.push("the run was stopped early".to_owned());
    }
    parts
}

/// Returns `page` with the section of `experiment` replaced by `section`. On a page without sections, `section` is
/// added after the text.
pub fn merged(page: &str, experiment: &str, section: &[String]) -> String {
    let mut before: Vec<String> = Vec::new();
    let mut sections: Vec<Vec<String>> = Vec::new();
    let mut after: Vec<String> = Vec::new();
    for line in page.lines().map(str::to_owned) {
        if line.starts_with(HEADING) {
            sections.push(vec![line]);
        } else if !after.is_empty() || !sections.is_empty() && line.starts_with('#') {
            after.push(line);
        } else if let Some(last) = sections.last_mut() {
            last.push(line);
        } else if !line.starts_with(COUNT) {
            before.push(line);
        }
    }
    sections.retain(|one| one[0] != format!("{HEADING}{experiment}`"));
    sections.push(section.to_vec());
    sections.sort_by(|a, b| a[0].cmp(&b[0]));
    while before.last().is_some_and(String::is_empty) {
        before.pop();
    }
    if before.is_empty() {
        before.push("# Claims".to_owned());
    }
    before.extend([String::new(), count(&sections), String::new()]);
    let text: Vec<String> = before.into_iter().chain(sections.into_iter().flatten()).chain(after).collect();
    text.join("\n").trim_end().to_owned() + "\n"
}

/// The number of comparisons that hold, as a sentence.
fn count(sections: &[Vec<String>]) -> String {
    let rows = sections.iter().flatten().filter(|line| line.starts_with("| ") && !HEAD.contains(&line.as_str()));
    let results: Vec<&str> =
        rows.filter_map(|row| row.split(" | ").nth(1)).flat_map(|cell| cell.split(BREAK)).collect();
    let of = |wanted: &str| results.iter().filter(|result| result.starts_with(wanted)).count();
    let (yes, no, undecided) = (of("yes"), of("no:"), of("undecided"));
    let all = results.len();
    let rest = all - yes - no - undecided;
    format!("{COUNT}{all}; {yes} hold, {no} do not, {undecided} are undecided, {rest} were not run or not made.")
}

#[cfg(test)]
mod tests {
    use netcliff_core::{EngineKind, experiment::Answerer};

    use super::*;

    fn mark(label: &str) -> Mark {
        Mark { label: label.to_owned(), source: "a paper | its table".to_owned(), ..Mark::default() }
    }

    /// A run replaces its own section, and no other; the page around the sections stays.
    #[test]
    fn the_section_of_a_run_replaces_that_of_the_run_before() {
        let rows = |name: &str, why: &str| not_run(name, &[mark("first"), mark("second")], why, "2026-11-28");
        let page = merged("# Claims of documents\n\nText.\n", "fig-7a", &rows("fig-7a", "no CPU"));
        assert!(page.starts_with("# Claims of documents\n\nText.\n\nComparisons: 2; 0 hold"), "{page}");
        let page = merged(&(page + "\n## After\n\nLast.\n"), "affinity", &rows("affinity", "no device"));
        let page = merged(&page, "fig-7a", &rows("fig-7a", "no memory"));
        assert_eq!(page.matches("## `fig-7a`").count(), 1, "{page}");
        assert!(!page.contains("no CPU") && page.contains("no memory") && page.ends_with("\n\nLast.\n"), "{page}");
        assert!(page.find("`affinity`") < page.find("`fig-7a`") && page.matches(HEAD[0]).count() == 2);
        assert!(page.contains("a paper \\| its table") && page.contains("Comparisons: 4; 0 hold, 0 do not"), "{page}");
        assert_eq!(page.matches("no device").count(), 1, "one reason stands once: {page}");
        assert_eq!(merged(&page, "fig-7a", &rows("fig-7a", "no memory")), page, "the same page again");
    }

    /// If 72 curves are missing for one reason, the cell gives the reason once, with their number.
    #[test]
    fn a_reason_of_several_curves_stands_once_with_their_number() {
        let missing = |at: usize| NotHad {
            curve: format!("igb, rx-usecs={at}"),
            answerer: Answerer { engine: EngineKind::Wire, fidelity: None },
            points: 6,
            why: "no kernel | for the guest".to_owned(),
            other_fidelity: false,
        };
        let all: Vec<NotHad> = (0..72).map(missing).collect();
        let text = NotHad::by_reason(&all);
        assert_eq!(text.len(), 1);
        assert!(text[0].starts_with("72 curves (igb, rx-usecs=0, measured; "), "{text:?}");
        assert!(text[0].ends_with("; 69 more), 432 points: no kernel | for the guest"), "{text:?}");
        assert_eq!(NotHad::by_reason(&all[..1]), [all[0].text()]);
    }
}
