//! [`of_file`]: what the pages of measurements that a file describes have in common.

use maud::{Markup, html};

use super::experiment::titled;
use super::page;
use super::tables::facts;
use crate::drawing::Drawing;
use crate::format;

/// Notes of a measurement beside its figures.
pub(super) struct Lists<'a> {
    /// What was requested and is missing.
    pub not_had: &'a [String],
    /// Warnings: what limits the figures.
    pub warnings: &'a [String],
}

/// A whole page: title, whether it is complete, the `answers`, what was not measured, the configuration, the file. A file without a
/// title is shown by its `kind`.
pub(super) fn of_file(
    kind: &str,
    drawing: &Drawing,
    partial: bool,
    asked: &[(String, String)],
    lists: &Lists<'_>,
    answers: &Markup,
) -> String {
    let provenance = &drawing.provenance;
    let title = if drawing.title.is_empty() { format!("An experiment of {kind}") } else { drawing.title.clone() };
    let body = html! {
        header {
            p.kicker { "netcliff run · " (format::date_utc(provenance.started_unix_s)) }
            h1 { (title) }
            @if partial {
                p.banner role="status" { strong { "Partial." } " Not all that was asked for was measured. Results up to then are shown." }
            }
        }
        main {
            (answers)
            @for (heading, lines) in [("Not measured", lists.not_had), ("Warnings", lists.warnings)] {
                @if !lines.is_empty() {
                    section { h2 { (heading) } ul { @for line in lines { li { (line) } } } }
                }
            }
            section #asked {
                h2 { "Configuration" }
                (facts(asked.iter().map(|(name, fact)| (name.as_str(), fact.clone()))))
                p { code { (provenance.command) } }
            }
            @if !drawing.source.is_empty() {
                section #file { h2 { "The file" } pre { code { (drawing.source) } } }
            }
        }
    };
    page(&titled(&title, "netcliff run"), &body)
}
