//! [`inspection`]: what `netcliff inspect` prints.

use netcliff_core::inspection::{Remark, Severity, Sheet};

use super::Style;
use super::page::{Page, Tone};

/// The page: facts along the path of a packet, what looks wrong, what could not be read.
pub fn inspection(sheet: &Sheet, style: Style) -> String {
    let mut page = Page::new(style);
    for section in &sheet.sections {
        page.heading(&section.heading);
        section.facts.iter().for_each(|(name, fact)| page.fact(name, fact));
    }
    page.heading("WHAT LOOKS WRONG");
    if sheet.remarks.is_empty() {
        page.paragraph(2, Tone::Plain, "nothing that the rules know");
    }
    sheet.remarks.iter().for_each(|one| remark(&mut page, one));
    if !sheet.not_had.is_empty() {
        page.heading("NOT READ");
        sheet.not_had.iter().for_each(|line| page.item("- ", line));
    }
    page.finish().trim_start_matches('\n').to_owned()
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
