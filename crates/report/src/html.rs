//! [`finding`]: one self-contained page that a browser shows without a network. A script in the page shows the values
//! of a figure at the pointer and enlarges parts of it. Without the script the page is complete, too.

mod compare;
mod experiment;
mod figure;
mod figures;
mod forwarding;
mod rfc2544;
mod tables;
mod transfers;
mod what_if;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use netcliff_core::{EngineKind, Finding};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::format::{self, Unit};
use crate::sheet::{self, Verdict};
use crate::svg;

pub use compare::compare;
pub use experiment::experiment;
pub use forwarding::forwarding;
pub use rfc2544::{rfc2544, rfc2544_figure};
pub use text::text;
pub use transfers::transfers;
pub use what_if::EXPLORER;

const STYLE: &str = include_str!("html/page.css");
/// The page fetches nothing, whatever the data contain. Only the page's own script runs, identified by its hash.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The page: the cliff in large, the figures, every number by engine, costs, sweep, fingerprint, provenance, and
/// the finding itself as JSON, embedded in `script#finding` and behind a download link.
pub fn finding(finding: &Finding) -> String {
    page(&format!("{} - netcliff find", headline(finding)), &body(finding))
}

/// Headline of the page: `Cliff of HOST: 216 kpps`.
fn headline(finding: &Finding) -> String {
    let host = if finding.host.cpu.is_empty() { "this host" } else { &finding.host.cpu };
    match finding.cliff_pps.wire.filter(|cliff| cliff.value.is_finite()) {
        Some(cliff) => format!("Cliff of {host}: {}", format::value(&cliff, Unit::Pps)),
        None => format!("Cliff of {host}: not measured"),
    }
}

/// The script in the form that a page contains: without indentation, comment lines and the word `export`.
fn script() -> String {
    let is_code = |line: &&str| !(line.is_empty() || ["//", "/*", "*"].iter().any(|mark| line.starts_with(mark)));
    let lines = figure::SCRIPTS.iter().flat_map(|script| script.lines()).map(str::trim_start).filter(is_code);
    let lines = lines.map(|line| line.strip_prefix("export ").unwrap_or(line));
    std::iter::once("\"use strict\";").chain(lines).collect::<Vec<_>>().join("\n")
}

/// A whole document around `body`; with the script if `body` has a figure.
fn page(title: &str, body: &Markup) -> String {
    let script = body.0.contains("<figure class=\"plot\"").then(script);
    let policy = match &script {
        Some(script) => {
            let hash = data_encoding::BASE64.encode(&Sha256::digest(script.as_bytes()));
            format!("{POLICY}; script-src 'sha256-{hash}'")
        }
        None => POLICY.to_owned(),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                @if let Some(script) = script { script { (PreEscaped(script)) } }
            }
        }
    };
    format::printable(&page.into_string())
}

fn body(finding: &Finding) -> Markup {
    let (plots, pauses) = svg::of_finding(finding);
    html! {
        header { (head(finding)) }
        main {
            (summary(finding))
            section #pictures aria-label="Figures" {
                @for plot in &plots { (figure::figure(plot, true)) }
                @if let Some(pauses) = &pauses { (figure::bars(pauses, true)) }
            }
            (figures::section(finding))
            (advice(finding))
            (not_had(finding))
            (tables::costs(finding))
            (tables::disturbance(finding))
            (tables::setup(finding))
            (tables::sweep(finding))
            (tables::fingerprint(finding))
            (tables::provenance(finding))
            (raw(finding))
        }
    }
}

fn head(finding: &Finding) -> Markup {
    let host = &finding.host;
    html! {
        p.kicker { "netcliff find · " (format::date_utc(finding.provenance.started_unix_s)) }
        h1 { (headline(finding)) }
        p.lead {
            @for (index, fact) in [&host.kernel, &host.testbed, &host.driver].iter().filter(|f| !f.is_empty()).enumerate() {
                @if index > 0 { " · " }
                (fact)
            }
        }
        @if let Some(link) = what_if::link(finding) { (link) }
        @if finding.partial {
            p.banner role="status" {
                strong { "Partial." } " The run was stopped early. Results up to then are shown; the rest is listed under "
                a href="#not-measured" { "not measured" } "."
            }
        }
    }
}

fn summary(finding: &Finding) -> Markup {
    html! {
        section #summary aria-label="Summary" {
            div.cards {
                @for engine in [EngineKind::Wire, EngineKind::Sim, EngineKind::Model] { (card(finding, engine)) }
            }
            p.note {
                "The cliff is the " (sheet::cliff_note(finding)) "."
                @if let Some(sentence) = sheet::confidences(finding) { " " (sentence) }
            }
            @if let Some(none) = sheet::no_cliff(finding) { p { strong { (none) "." } } }
            @let doubts = sheet::doubts(finding);
            @if !doubts.is_empty() { div .callout { p { strong { "Caution: " } (doubts.join("; ")) "." } } }
            @if let Some(plan) = sheet::to_plan_with(finding) { p { (plan) } }
            @for sentence in sheet::searched(finding) { p.note { (sentence) "." } }
            @for sentence in sheet::contradictions(finding) { div .callout { p { (sentence) } } }
            @if let Some(livelock) = sheet::livelock(finding) {
                div .callout .alarm[livelock.verdict == Verdict::Livelock] {
                    p { strong { (livelock.text) } }
                    @if let Some(why) = livelock.why { p { (why) } }
                }
            }
            @if let Some(binding) = &finding.binding { p.binding { strong { "Bottleneck: " } (binding) } }
        }
    }
}

fn card(finding: &Finding, engine: EngineKind) -> Markup {
    let name = match engine {
        EngineKind::Wire => "Cliff, measured",
        EngineKind::Sim => "Cliff, simulated",
        EngineKind::Model => "Cliff, predicted by the model",
    };
    let figure = finding.cliff_pps.get(engine).filter(|figure| figure.value.is_finite());
    html! {
        div .card .first[engine == EngineKind::Wire] .(engine.name()) {
            h2 { (name) }
            p.big { (figure.map_or("-".to_owned(), |figure| format::value(figure, Unit::Pps))) }
            p.small {
                @match figure {
                    None => { "not measured; see " a href="#not-measured" { "why" } },
                    Some(figure) => {
                        @if let Some(ends) = format::interval(figure, Unit::Pps, "–") { (ends) }
                        @if let Some(error) = sheet::error_of(&finding.cliff_pps, engine) {
                            @if figure.interval.is_some() { "; " }
                            (format::signed(error, Unit::Share)) " against the measured cliff"
                        }
                    }
                }
            }
        }
    }
}

fn advice(finding: &Finding) -> Markup {
    html! {
        section #try {
            h2 { "Suggestions" }
            @if finding.suggestions.is_empty() {
                p { "No suggestion." }
            } @else {
                ol {
                    @for suggestion in finding.suggestions.iter().take(sheet::SUGGESTIONS) {
                        li {
                            code { (suggestion.setting) } br;
                            (suggestion.why) ". "
                            @match &suggestion.expected_cliff_pps {
                                Some(cliff) => { "Simulated cliff: " (format::figure(cliff, Unit::Pps)) "." },
                                None => "Not simulated.",
                            }
                            @for sentence in sheet::gains(suggestion) { " " (sentence) }
                        }
                    }
                }
            }
        }
    }
}

fn not_had(finding: &Finding) -> Markup {
    let groups = sheet::not_had(finding);
    html! {
        section #not-measured {
            h2 { "Not measured" }
            @if groups.is_empty() { p { "No value of this page is missing." } }
            @else {
                ul {
                    @for group in groups {
                        li {
                            (group.in_words().join(", ")) ": " (group.why)
                        }
                    }
                }
            }
        }
    }
}

fn raw(finding: &Finding) -> Markup {
    let json = serde_json::to_string(finding).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    let href = format!("data:application/json;charset=utf-8,{}", utf8_percent_encode(&json, NON_ALPHANUMERIC));
    // Inside a script element only a "<" could end it. JSON permits to escape it.
    let embedded = json.replace('<', "\\u003c");
    html! {
        section #raw {
            h2 { "Data" }
            p {
                a download="netcliff-finding.json" href=(href) { "Download this result as JSON" }
                " (" (json.len() / 1000 + 1) " kB). It is also in this page, in " code { "script#finding" } "."
            }
            script type="application/json" id="finding" { (PreEscaped(embedded)) }
        }
    }
}

mod of_file {
    //! [`of_file`]: the common parts of pages about measurements that a file describes.

    use maud::{Markup, html};

    use super::experiment::titled;
    use super::page;
    use super::tables::facts;
    use crate::drawing::Drawing;
    use crate::format;

    /// The notes of a measurement, next to its figures.
    pub(super) struct Lists<'a> {
        /// Requested figures that are missing.
        pub not_had: &'a [String],
        /// Warnings: limits of the figures.
        pub warnings: &'a [String],
    }

    /// A whole page: title, whether it is complete, the `answers`, the figures that were not measured, the
    /// configuration, the file. A file without a title is shown with its `kind`.
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
                    p.banner role="status" { strong { "Partial." } " Some measurements are missing. Results up to the end of the run are shown." }
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
                    section #file { h2 { "Experiment file" } pre { code { (drawing.source) } } }
                }
            }
        };
        page(&titled(&title, "netcliff run"), &body)
    }
}

mod stack {
    //! [`stack`]: a table whose rows become cards on a phone, where each value carries its column's name.

    use maud::{Markup, html};

    /// A cell of a table, and whether its text may be broken into lines.
    pub enum Cell {
        /// A figure, on one line if there is room.
        Figure(Markup),
        /// Words, on as many lines as they need.
        Words(Markup),
    }

    /// A cell with a figure.
    pub fn figure(text: impl AsRef<str>) -> Cell {
        Cell::Figure(html! { (text.as_ref()) })
    }

    /// A cell with words.
    pub fn words(text: impl AsRef<str>) -> Cell {
        Cell::Words(html! { (text.as_ref()) })
    }

    /// A table with its columns' names; the first cell of a row names the row.
    pub fn stack<'a>(heads: &[impl AsRef<str>], rows: impl IntoIterator<Item = Vec<Cell>> + 'a) -> Markup {
        html! {
            div.scroll {
                table.stack {
                    thead { tr { @for head in heads { th scope="col" { (head.as_ref()) } } } }
                    tbody { @for row in rows { (line(heads, row)) } }
                }
            }
        }
    }

    /// Like [`stack`], for a table that may be wider than any screen: keys can scroll it, and it has a name.
    pub fn wide_stack<'a>(
        name: &str,
        heads: &[impl AsRef<str>],
        rows: impl IntoIterator<Item = Vec<Cell>> + 'a,
    ) -> Markup {
        html! { div.wide-table tabindex="0" role="region" aria-label=(name) { (stack(heads, rows)) } }
    }

    fn line(heads: &[impl AsRef<str>], row: Vec<Cell>) -> Markup {
        html! {
            tr {
                @for (at, cell) in row.into_iter().enumerate() {
                    @let head = heads.get(at).map_or("", AsRef::as_ref);
                    @match (at, cell) {
                        (0, Cell::Figure(content) | Cell::Words(content)) => th scope="row" { (content) },
                        (_, Cell::Figure(content)) => td data-label=(head) { (content) },
                        (_, Cell::Words(content)) => td.words data-label=(head) { (content) },
                    }
                }
            }
        }
    }
}

mod text {
    //! [`text`]: the terminal's page of a run as HTML, with a figure if its kind of run has one.

    use maud::html;
    use netcliff_core::Provenance;

    use super::figure::figure;
    use super::page;
    use crate::drawing::Drawing;
    use crate::{format, svg};

    /// The page of a run: the figure if it has curves, the terminal's page unchanged, and its origin.
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
}
