//! `netcliff results show`: a stored run as page, data, document or figure.

use netcliff_core::{Point, Record};
use netcliff_lab::store::RunSummary;
use netcliff_lab::stored::Stored;
use netcliff_report as report;
use netcliff_report::drawing::Drawing;
use netcliff_report::{Style, csv, html, svg, terminal};

use super::plain;
use crate::output;

/// Columns of a terminal's page within a page for the browser.
pub const PAGE_COLUMNS: usize = 100;

/// Prints a run to stdout.
pub(super) fn show(run: &RunSummary, stored: &Stored, verbose: bool, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&stored.json()?);
    }
    output::page(&text(run, stored, verbose, output::style()))
}

/// The page of a run for the terminal.
fn text(run: &RunSummary, stored: &Stored, verbose: bool, style: Style) -> String {
    match stored {
        Stored::Finding(finding) if verbose => terminal::finding(finding, style),
        Stored::Finding(finding) => terminal::brief(finding, style),
        Stored::Service(found) => terminal::service(found, style),
        Stored::Records(records) if verbose && !records.is_empty() => {
            let drawing = Drawing::of_records(&title(run), records, run.state != "done");
            terminal::experiment(&drawing, style) + "\n" + &report::table::outcomes(&in_order(records), style)
        }
        Stored::Records(records) => report::table::outcomes(&in_order(records), style),
        Stored::Rfc2544(found) if verbose => terminal::rfc2544(found, style),
        Stored::Rfc2544(found) => terminal::rfc2544_brief(found, style),
        Stored::Forwarding(found) => terminal::forwarding(found, style),
        Stored::Transfers(found) => terminal::transfers(found, style),
        Stored::Stream(found) if verbose => terminal::stream(found, style),
        Stored::Stream(found) => terminal::stream_brief(found, style),
        Stored::Rr(found) if verbose => terminal::rr(found, style),
        Stored::Rr(found) => terminal::rr_brief(found, style),
        Stored::Learned(found) => terminal::learned(found, style),
        Stored::Profile(found) => terminal::profile(found, style),
    }
}

/// Sorts records by engine, scheme, host and traffic, and then by load. A run stores them in the order of computation.
pub(super) fn in_order(records: &[Record]) -> Vec<Record> {
    let rest = |record: &Record| {
        let Point { host, scheme, traffic, .. } = &record.point;
        let host = serde_json::to_string(host).unwrap_or_default();
        (record.engine, scheme.to_string(), host, traffic.arrivals.to_string(), traffic.size.to_string())
    };
    let mut records = records.to_vec();
    // The bits of positive numbers are ordered as the numbers are.
    records.sort_by_cached_key(|record| (rest(record), record.point.load.amount().to_bits()));
    records
}

/// The rows of CSV for a run that has no records.
pub(super) fn rows(stored: &Stored) -> anyhow::Result<String> {
    Ok(match stored {
        Stored::Records(records) => csv::records(&in_order(records)),
        Stored::Rfc2544(found) => csv::rfc2544(found),
        Stored::Forwarding(found) => csv::forwarding(found),
        Stored::Transfers(found) => csv::transfers(found),
        Stored::Finding(found) => csv::flat(&serde_json::to_value(found)?),
        Stored::Service(found) => csv::flat(&serde_json::to_value(found)?),
        Stored::Stream(found) => csv::flat(&serde_json::to_value(found)?),
        Stored::Rr(found) => csv::flat(&serde_json::to_value(found)?),
        Stored::Learned(found) => csv::flat(&serde_json::to_value(found)?),
        Stored::Profile(found) => csv::profile(found),
    })
}

/// The page for a browser, for a run of any kind.
pub fn page(run: &RunSummary, stored: &Stored) -> String {
    match stored {
        Stored::Finding(finding) => html::finding(finding),
        Stored::Rfc2544(found) => html::rfc2544(found),
        Stored::Forwarding(found) => html::forwarding(found, &Drawing::of_forwarding(found)),
        Stored::Transfers(found) => html::transfers(found, &Drawing::of_transfers(found)),
        Stored::Records(records) => html::experiment(&Drawing::of_records(&title(run), records, run.state != "done")),
        Stored::Service(_) | Stored::Stream(_) | Stored::Rr(_) | Stored::Learned(_) | Stored::Profile(_) => {
            let style = Style { width: PAGE_COLUMNS, ..Style::default() };
            let provenance = stored.provenance().cloned().unwrap_or_default();
            let drawing = of_times(run, stored);
            html::text(&title(run), &text(run, stored, true, style), drawing.as_ref(), &provenance)
        }
    }
}

/// A plot of the latencies of `rr` or of a service.
fn of_times(run: &RunSummary, stored: &Stored) -> Option<Drawing> {
    match stored {
        Stored::Rr(answers) => Some(Drawing::of_rr(&title(run), answers)),
        Stored::Service(finding) => Some(Drawing::of_service(&title(run), finding)),
        _ => None,
    }
}

/// The figure of a run.
///
/// # Errors
/// The run's kind has no figure, or nothing of the figure was measured.
pub(super) fn figure(run: &RunSummary, stored: &Stored) -> anyhow::Result<String> {
    let drawn = |drawing: Drawing| (!drawing.curves.is_empty()).then(|| svg::experiment(&drawing));
    let figure = match stored {
        Stored::Finding(finding) => Some(svg::delivered(finding)),
        Stored::Rfc2544(found) => html::rfc2544_figure(found),
        Stored::Forwarding(found) => drawn(Drawing::of_forwarding(found)),
        Stored::Transfers(found) => drawn(Drawing::of_transfers(found)),
        Stored::Records(records) => drawn(Drawing::of_records(&title(run), records, run.state != "done")),
        Stored::Rr(_) | Stored::Service(_) => of_times(run, stored).and_then(drawn),
        Stored::Stream(_) | Stored::Learned(_) | Stored::Profile(_) => None,
    };
    let kind = &run.kind;
    figure.ok_or_else(|| {
        output::usage(format!("--svg: run {} (`{kind}`) has no figure; --html and --csv have its values", run.id))
    })
}

/// Title of a run's page.
fn title(run: &RunSummary) -> String {
    match &run.name {
        Some(name) => format!("{} (run {}: {})", plain(name), run.id, run.kind),
        None => format!("run {}: {}", run.id, run.kind),
    }
}
