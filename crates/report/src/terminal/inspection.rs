//! [`inspection`] and [`inspection_brief`]: output of `netcliff inspect`.

use netcliff_core::inspection::{Remark, Section, Severity, Sheet};

use super::Style;
use super::page::{Page, Tone};

/// Sentence that is printed even if other parts are left out.
const NOT_ROOT: &str = "not root: what only root may read is left out";

/// How long the commands of remarks have an effect.
const UNTIL_REBOOT: &str = "What `do` sets lasts until the next reboot; `netcliff tune plan --help` shows how to make \
                            settings permanent.";

/// The page: a line with the number of remarks, each remark, facts along the path of a packet, facts that could not be
/// read.
pub fn inspection(sheet: &Sheet, style: Style) -> String {
    let mut page = found(sheet, style);
    sheet.sections.iter().for_each(|one| section(&mut page, one));
    if !sheet.not_had.is_empty() || !sheet.is_root {
        page.heading("NOT READ");
        if !sheet.is_root {
            page.item("- ", NOT_ROOT);
        }
        sheet.not_had.iter().for_each(|line| page.item("- ", line));
    }
    page.finish()
}

/// The page with the sections of interfaces only, without the host, its stack and the facts that could not be read.
pub fn inspection_brief(sheet: &Sheet, style: Style) -> String {
    let mut page = found(sheet, style);
    sheet.sections.iter().filter(|one| one.is_interface).for_each(|one| section(&mut page, one));
    let left_out = match sheet.not_had.len() {
        0 => "the host and its network stack".to_owned(),
        more => format!("the host, its network stack, and what could not be read ({more})"),
    };
    page.lines(std::iter::once(String::new()));
    if !sheet.is_root {
        page.item("- ", NOT_ROOT);
    }
    page.paragraph(0, Tone::Plain, &format!("-v prints the rest: {left_out}."));
    page.finish()
}

fn section(page: &mut Page, section: &Section) {
    page.heading(&section.heading);
    section.facts.iter().for_each(|(name, fact)| page.fact(name, fact));
}

/// Starts the page: the number of remarks, and each remark.
fn found(sheet: &Sheet, style: Style) -> Page {
    let mut page = Page::new(style);
    let is_fault = sheet.remarks.iter().any(|one| one.severity == Severity::Fault);
    page.paragraph(0, if is_fault { Tone::Alarm } else { Tone::Strong }, &answer(sheet));
    page.heading("WHAT LOOKS WRONG");
    if sheet.remarks.is_empty() {
        page.paragraph(2, Tone::Plain, "-");
    }
    sheet.remarks.iter().for_each(|one| remark(&mut page, one));
    if sheet.remarks.iter().any(|one| !one.commands.is_empty()) {
        page.paragraph(2, Tone::Faint, UNTIL_REBOOT);
    }
    page
}

/// Number of remarks of each kind: `1 fault, 2 warnings`; the remarks follow.
fn answer(sheet: &Sheet) -> String {
    let count = |severity: Severity| sheet.remarks.iter().filter(|one| one.severity == severity).count();
    let counted = |(severity, one, several): (Severity, &str, &str)| match count(severity) {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {several}")),
    };
    let kinds = [
        (Severity::Fault, "fault", "faults"),
        (Severity::Warning, "warning", "warnings"),
        (Severity::Note, "note", "notes"),
    ];
    let all: Vec<String> = kinds.into_iter().filter_map(counted).collect();
    match all.is_empty() {
        true => "No rule found anything wrong.".to_owned(),
        false => format!(
            "{}; `netcliff tune plan --objective latency` (or cpu, throughput) proposes settings.",
            all.join(", ")
        ),
    }
}

fn remark(page: &mut Page, remark: &Remark) {
    let tone = if remark.severity == Severity::Fault { Tone::Alarm } else { Tone::Strong };
    let about = remark.interface.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    page.paragraph(2, tone, &format!("{} {}{about}: {}", remark.severity, remark.rule, remark.evidence));
    page.paragraph(4, Tone::Plain, &format!("why: {} [{}]", remark.why, remark.source));
    for command in &remark.commands {
        page.command(4, command);
    }
}
