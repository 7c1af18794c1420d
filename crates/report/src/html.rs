//! [`finding`]: one self-contained page that a browser shows without a network and without JavaScript.

mod compare;
mod experiment;
mod figures;
mod forwarding;
mod of_file;
mod rfc2544;
mod tables;
mod transfers;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use netcliff_core::{EngineKind, Finding};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::format::{self, Unit};
use crate::sheet::{self, Verdict};
use crate::svg;

pub use compare::compare;
pub use experiment::experiment;
pub use forwarding::forwarding;
pub use rfc2544::rfc2544;
pub use transfers::transfers;

const STYLE: &str = include_str!("html/page.css");
/// Nothing is fetched, whatever stands in the data.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The page: the cliff in large, four pictures, every figure by engine, costs, sweep, fingerprint, provenance, and
/// the finding itself as JSON, embedded in `script#finding` and behind a download link.
pub fn finding(finding: &Finding) -> String {
    let title = format!("netcliff: {}", if finding.host.cpu.is_empty() { "a host" } else { &finding.host.cpu });
    page(&title, &body(finding))
}

/// A whole document around `body`.
fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    format::printable(&page.into_string())
}

fn body(finding: &Finding) -> Markup {
    html! {
        header { (head(finding)) }
        main {
            (summary(finding))
            section #pictures aria-label="Pictures" {
                (picture(svg::delivered(finding)))
                (picture(svg::latency(finding)))
                (picture(svg::cpu(finding)))
                (picture(svg::loss(finding)))
                @if let Some(pauses) = svg::pauses(finding) { (picture(pauses)) }
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
        h1 {
            "Cliff of " (if host.cpu.is_empty() { "this host" } else { host.cpu.as_str() })
            @if let Some(cliff) = finding.cliff_pps.wire { ": " (format::value(&cliff, Unit::Pps)) }
        }
        p.lead {
            @for (index, fact) in [&host.kernel, &host.testbed, &host.driver].iter().filter(|f| !f.is_empty()).enumerate() {
                @if index > 0 { " · " }
                (fact)
            }
        }
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
                            (format::signed(error, Unit::Share)) " against the measured"
                        }
                    }
                }
            }
        }
    }
}

/// A picture in its frame; the SVG carries its own title and words.
fn picture(svg: String) -> Markup {
    html! { figure { (PreEscaped(svg)) } }
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
        section #not-had {
            h2 { "Not measured" }
            @if groups.is_empty() { p { "Every figure of this page was measured." } }
            @else {
                ul {
                    @for group in groups {
                        li {
                            @for (index, figure) in group.figures.iter().enumerate() {
                                @if index > 0 { ", " }
                                code { (figure) }
                            }
                            ": " (group.why)
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
    // Inside a script element only "<" could end it; as an escape it is the same JSON.
    let embedded = json.replace('<', "\\u003c");
    html! {
        section #raw {
            h2 { "Data" }
            p {
                a download="netcliff-finding.json" href=(href) { "Download the finding as JSON" }
                " (" (json.len() / 1000 + 1) " kB). It is also in this page, in " code { "script#finding" } "."
            }
            script type="application/json" id="finding" { (PreEscaped(embedded)) }
        }
    }
}
