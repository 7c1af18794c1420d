//! Every figure by engine, in one table.

use maud::{Markup, html};
use netcliff_core::Finding;
use netcliff_core::ledger::TrialLedger;

use crate::format::{self, Unit};
use crate::sheet::{self, Cell, ENGINES, Row};

pub fn section(finding: &Finding) -> Markup {
    html! {
        section #figures {
            h2 { "Predicted, simulated and measured values" }
            div.scroll {
                table.engines.stack {
                    thead {
                        tr {
                            td {}
                            @for engine in ENGINES { th scope="col" { (sheet::column(engine)) } }
                        }
                    }
                    (group("Cliff, and error of the prediction against the measured cliff", &sheet::cliff(finding)))
                    (group("Peak throughput", &sheet::peak(finding)))
                    (group(&sheet::at_twice_heading(), &sheet::at_twice(finding)))
                    @for at in &finding.latency {
                        @let load = format::quantity(at.load_pps, Unit::Pps);
                        (group(&format!("Latency at {} {}, {load}", format::share_short(at.share), sheet::of_the_cliff(finding)), &sheet::latency(at)))
                    }
                    @for at in &finding.round_trips { (group(&sheet::round_trips_heading(at, finding), &sheet::round_trips(at))) }
                    (group("CPU at the cliff, shares of the CPU under test", &sheet::cpu_at_cliff(finding)))
                    (group("CPU at twice the cliff, shares of the CPU under test", &sheet::cpu_at_twice(finding)))
                    (group("Lost at twice the cliff, of the offered packets", &sheet::loss(&finding.loss_at_twice)))
                    @for check in &finding.checks {
                        (group(&format!("Check {}", check.name), &sheet::check(check)))
                    }
                }
            }
            @if let Some(at) = &finding.ledger { (ledger(at)) }
            @if !finding.latency.is_empty() { p.note { "Latency, " (sheet::LATENCY_NOTE) "." } }
            @if let Some(note) = sheet::cpu_note(finding) { p.note { "CPU, " (note) "." } }
            @if !finding.checks.is_empty() { p.note { "Checks: " (sheet::CHECK_NOTE) "." } }
            @for check in &finding.checks {
                @for note in sheet::check_notes(check) { p.note { "Check " (check.name) ": " (note) "." } }
            }
        }
    }
}

fn group(name: &str, rows: &[Row]) -> Markup {
    html! {
        tbody {
            tr.group { th colspan="4" scope="rowgroup" { (name) } }
            @for row in rows {
                tr {
                    th scope="row" { (row.label) }
                    @for (engine, cell) in ENGINES.into_iter().zip(&row.cells) {
                        td data-label=(sheet::column(engine)) { (content(cell.as_ref())) }
                    }
                }
            }
        }
    }
}

/// The figure with its interval in small print. A missing figure is a dash, which a screen reader reads as missing.
pub fn content(cell: Option<&Cell>) -> Markup {
    html! {
        @match cell {
            None => span.absent aria-label="not measured" { "-" },
            Some(cell) => {
                (cell.value)
                @if let Some(ends) = &cell.interval { " " span.interval { (ends) } }
            }
        }
    }
}

/// Where the packets of a trial above the cliff went: delivered, lost by place, unexplained.
fn ledger(at: &TrialLedger) -> Markup {
    let ledger = &at.ledger;
    html! {
        h3 { "Where every packet went" }
        table {
            thead { tr { th { "of " (ledger.sent) " packets at " (format::quantity(at.load_pps, Unit::Pps)) } th { "packets" } th { "share" } th { "counted by" } } }
            tbody {
                @for [what, packets, share, by] in sheet::ledger::rows(ledger) {
                    tr { th { (what) } td { (packets) } td { (share) } td { (by) } }
                }
            }
        }
        @for limit in &ledger.limits { p.note { (limit) "." } }
    }
}
