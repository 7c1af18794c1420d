//! [`inspection`]: what `netcliff inspect` prints.

use netcliff_core::inspection::{Remark, Severity, Sheet};

use super::Style;
use super::page::{Page, Tone};

/// The page: what looks wrong in a line, then each, facts along the path of a packet, what could not be read.
pub fn inspection(sheet: &Sheet, style: Style) -> String {
    let mut page = Page::new(style);
    let is_fault = sheet.remarks.iter().any(|one| one.severity == Severity::Fault);
    page.paragraph(0, if is_fault { Tone::Alarm } else { Tone::Strong }, &answer(sheet));
    page.heading("WHAT LOOKS WRONG");
    if sheet.remarks.is_empty() {
        page.paragraph(2, Tone::Plain, "-");
    }
    sheet.remarks.iter().for_each(|one| remark(&mut page, one));
    for section in &sheet.sections {
        page.heading(&section.heading);
        section.facts.iter().for_each(|(name, fact)| page.fact(name, fact));
    }
    if !sheet.not_had.is_empty() {
        page.heading("NOT READ");
        sheet.not_had.iter().for_each(|line| page.item("- ", line));
    }
    page.finish()
}

/// How many remarks of each kind: `1 fault, 2 warnings`; what they are follows.
fn answer(sheet: &Sheet) -> String {
    let count = |severity: Severity| sheet.remarks.iter().filter(|one| one.severity == severity).count();
    let told = |(severity, one, several): (Severity, &str, &str)| match count(severity) {
        0 => None,
        1 => Some(format!("1 {one}")),
        more => Some(format!("{more} {several}")),
    };
    let kinds = [
        (Severity::Fault, "fault", "faults"),
        (Severity::Warning, "warning", "warnings"),
        (Severity::Note, "note", "notes"),
    ];
    let all: Vec<String> = kinds.into_iter().filter_map(told).collect();
    match all.is_empty() {
        true => "Nothing looks wrong that the rules know.".to_owned(),
        false => format!("{}; `netcliff tune plan` proposes settings.", all.join(", ")),
    }
}

fn remark(page: &mut Page, remark: &Remark) {
    let tone = if remark.severity == Severity::Fault { Tone::Alarm } else { Tone::Strong };
    let about = remark.interface.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    page.paragraph(2, tone, &format!("{} {}{about}: {}", remark.severity, remark.rule, remark.evidence));
    page.paragraph(4, Tone::Plain, &format!("why: {} [{}]", remark.why, remark.source));
    for command in &remark.commands {
        page.paragraph(4, Tone::Plain, &format!("do:  {command}"));
    }
}
