//! [`text`]: the page of a run as the terminal has it, with a figure where its kind has one.

use maud::html;
use netcliff_core::Provenance;

use super::figure::figure;
use super::page;
use crate::drawing::Drawing;
use crate::{format, svg};

/// The figure, if it has curves, the terminal's page as it is, and where it comes from.
pub fn text(title: &str, terminal_page: &str, drawing: Option<&Drawing>, provenance: &Provenance) -> String {
    let drawing = drawing.filter(|drawing| !drawing.curves.is_empty());
    let body = html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(provenance.started_unix_s)) }
            h1 { (title) }
        }
        main {
            @if let Some(drawing) = drawing { (figure(&svg::experiment::plot(drawing, "figure"), false)) }
            section #page { pre tabindex="0" { (terminal_page) } }
            section #asked { h2 { "Command" } p { code { (provenance.command) } } }
        }
    };
    page(title, &body)
}
