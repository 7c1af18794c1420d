//! Costs, set-up, sweep, fingerprint and provenance as tables.

use maud::{Markup, html};
use netcliff_core::finding::SweepPoint;
use netcliff_core::{Figure, Finding, Latency, Outcome};

use super::figures::content;
use super::stack::{Cell as Column, figure, stack, wide_stack, words};
use crate::format::{self, Unit};
use crate::sheet::{self, Cell};

pub fn costs(finding: &Finding) -> Markup {
    html! {
        section #costs {
            h2 { "Costs of this host" }
            @match &finding.calibration {
                None => p { "-" },
                Some(calibration) => {
                    @let row = |cost: sheet::CostLine| vec![words(&cost.name), Column::Figure(content(cost.cell.as_ref())), words(&cost.how), words(&cost.key)];
                    (stack(&["cost", "value", "method", "key"], sheet::costs(finding).into_iter().map(row)))
                    p.note {
                        "CPU meter: " (calibration.cpu_method) "."
                        @if let Some(r2) = calibration.r_squared {
                            " The regression explains " (format::share(r2)) " of the variance of softirq time."
                        }
                        @for sentence in sheet::rests_on(finding) { " " (sentence) }
                    }
                }
            }
        }
    }
}

pub fn disturbance(finding: &Finding) -> Markup {
    let rows = sheet::disturbance(finding);
    html! {
        @if !rows.is_empty() {
            section #disturbance {
                h2 { (sheet::DISTURBANCE) }
                (facts(rows.into_iter()))
            }
        }
    }
}

pub fn setup(finding: &Finding) -> Markup {
    let limits = &finding.host.limits;
    html! {
        section #setup {
            h2 { "Configuration and host" }
            (facts(sheet::setup(finding).into_iter().chain(sheet::generator(finding).into_iter().map(prefixed)).chain(sheet::device(finding))))
            @if !limits.is_empty() {
                h3 { "Limits of this run" }
                ul { @for limit in limits { li { (limit) } } }
            }
        }
    }
}

fn prefixed((name, fact): (&'static str, String)) -> (&'static str, String) {
    let name = match name {
        "ceiling" => "generator's ceiling",
        "method" => "generator's method",
        "lateness" => "generator's lateness",
        other => other,
    };
    (name, fact)
}

/// A figure's column in the table of the sweep.
type Sweep = (&'static str, Unit, fn(&Outcome) -> Option<Figure>);

const SWEEP: &[Sweep] = &[
    ("offered", Unit::Pps, |o| o.offered_pps),
    ("delivered", Unit::Pps, |o| o.throughput_pps),
    ("lost", Unit::Share, |o| o.loss_fraction),
    ("latency p50", Unit::Seconds, |o| latency(o)?.p50),
    ("latency p99", Unit::Seconds, |o| latency(o)?.p99),
    ("CPU idle", Unit::Share, |o| o.cpu?.available),
];

fn latency(outcome: &Outcome) -> Option<Latency> {
    outcome.latency_s
}

pub fn sweep(finding: &Finding) -> Markup {
    let heads: Vec<&str> =
        ["engine", "load", "repeats"].into_iter().chain(SWEEP.iter().map(|(name, ..)| *name)).collect();
    html! {
        section #sweep {
            h2 { "Sweep over the offered load" }
            @if finding.sweep.is_empty() { p { "-" } }
            @else { details {
                summary { (finding.sweep.len()) " points: model, simulation, measurement" }
                @let points = sheet::ENGINES.into_iter().flat_map(|engine| finding.curve(engine));
                (wide_stack("The sweep", &heads, points.map(sweep_row)))
                p.note { "* The sender did not reach this load: packets that it did not send are not losses of the host under test." }
            } }
        }
    }
}

fn sweep_row(point: &SweepPoint) -> Vec<Column> {
    let cell = |(_, unit, get): &Sweep| get(&point.outcome).and_then(|figure| Cell::of(&figure, *unit));
    let late = if point.sender_kept_up { "" } else { " *" };
    let load = format!("{}{late}", format::quantity(point.load_pps, Unit::Pps));
    let own = [figure(sheet::column(point.engine)), figure(load), figure(point.repeats.to_string())];
    own.into_iter().chain(SWEEP.iter().map(|column| Column::Figure(content(cell(column).as_ref())))).collect()
}

pub fn fingerprint(finding: &Finding) -> Markup {
    let known = &finding.fingerprint.facts;
    html! {
        section #fingerprint {
            h2 { "Fingerprint of the host" }
            @if known.is_empty() { p { "-" } }
            @else {
                details {
                    summary { (known.len()) " facts, id " code { (finding.fingerprint.id()) } }
                    (facts(known.iter().map(|(name, fact)| (name.as_str(), fact.clone()))))
                }
            }
        }
    }
}

pub fn provenance(finding: &Finding) -> Markup {
    let provenance = &finding.provenance;
    let mut known = vec![
        ("command", provenance.command.clone()),
        ("version", provenance.version.clone()),
        ("seed", provenance.seed.map_or("-".to_owned(), |seed| seed.to_string())),
        ("started", format::date_utc(provenance.started_unix_s)),
    ];
    known.extend(provenance.elapsed_s.map(|elapsed_s| ("took", format::quantity(elapsed_s, Unit::Seconds))));
    let settings = provenance.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
    html! {
        section #provenance {
            h2 { "Command, version and time" }
            (facts(known.into_iter().chain(settings)))
        }
    }
}

/// A table of names and values.
pub(super) fn facts<'a>(facts: impl Iterator<Item = (&'a str, String)>) -> Markup {
    html! {
        div.scroll {
            table.facts.stack {
                tbody { @for (name, fact) in facts { tr { th scope="row" { (name) } td.words { (fact) } } } }
            }
        }
    }
}
