//! [`text`]: the page of a run whose kind has no page of its own.

use maud::html;
use netcliff_core::Provenance;

use super::page;
use crate::format;

/// The terminal's page as it is, with where it comes from.
pub fn text(title: &str, terminal_page: &str, provenance: &Provenance) -> String {
    let body = html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(provenance.started_unix_s)) }
            h1 { (title) }
        }
        main {
            section #page { pre tabindex="0" { (terminal_page) } }
            section #asked { h2 { "Command" } p { code { (provenance.command) } } }
        }
    };
    page(title, &body)
}
