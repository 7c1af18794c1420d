//! [`rr_brief`]: output of `netcliff rr` without `-v`: the answer, the figures to act on, and doubts.

use netcliff_lab::lasting;
use netcliff_transfer::rr::{
    Doubt, OneWay, Report, RrRecord, RrRun, RrSample, ThreadCost, doubts as of_host, limited_by,
};

use super::{Page, Style, Tone, asked, load, over_repeats, overview};
use crate::format::{self, Unit};
use crate::terminal::{SURER, WIDE, beside};

/// Largest number of repeats that are shown one by one.
const FEW_REPEATS: usize = 5;

/// The page: the verdict with doubts about it and the figures to act on. For several configurations, one line each. The
/// rest is in [`super::rr`].
pub fn rr_brief(run: &RrRun, style: Style) -> String {
    let mut page = Page::new(style);
    match &run.rows[..] {
        [record] => {
            head(&mut page, record);
            answer(&mut page, record);
            of_what(&mut page, &record.report);
            figures(&mut page, record);
            super::agents::agents(&mut page, record);
        }
        rows => {
            rows.first().iter().for_each(|record| head(&mut page, record));
            page.paragraph(0, Tone::Strong, &format!("{}.", most(rows)));
            overview(&mut page, run);
            page.caution(&doubts_of_several(rows));
        }
    }
    page.list("NOT MEASURED", &run.not_had);
    let all =
        run.rows.iter().map(|record| &record.report.notes[..]).max_by_key(|notes| notes.len()).unwrap_or_default();
    let host: Vec<String> = all.iter().filter_map(|note| lasting(note)).collect();
    let notes = match all.len() - host.len() {
        0 => String::new(),
        1 => ", with a note".to_owned(),
        several => format!(", with {several} notes"),
    };
    page.paragraph(0, Tone::Faint, &format!("-v shows CPUs, all percentiles of latency, the method{notes}."));
    if !host.is_empty() {
        let host = host.join(", ");
        page.paragraph(0, Tone::Faint, &format!("Measured on {host}: -v says how this limits the result."));
    }
    page.finish()
}

fn head(page: &mut Page, record: &RrRecord) {
    page.head("request/response", &record.provenance, false, &[]);
    if let Some(why) = &record.report.partial {
        page.paragraph(0, Tone::Alarm, &format!("PARTIAL: {why}. Results up to then are shown."));
    }
}

/// Adds the verdict and doubts about it, with which both pages (with and without `-v`) begin.
pub(super) fn answer(page: &mut Page, record: &RrRecord) {
    page.paragraph(0, Tone::Strong, &format!("{}.", verdict(record)));
    page.caution(&doubts(record));
}

fn of_what(page: &mut Page, report: &Report) {
    page.paragraph(
        0,
        Tone::Plain,
        &format!("{}; {}; {}", asked(&report.settings), load(&report.settings), report.path),
    );
}

/// The verdict: `45.2 k transactions/s (mean of 5 repeats; 95 % interval 44.9-45.5), round trip: median 21.3 us, p99
/// 38 us (all repeats together); limited by the server's thread (99 % of its CPU)`. For an open loop, the latency comes
/// first, because its rate is the requested one.
fn verdict(record: &RrRecord) -> String {
    let report = &record.report;
    if report.transactions == 0 {
        return "No request was answered".to_owned();
    }
    let repeats = record.repeats.len();
    let sure = |pick: fn(&RrSample) -> Option<f64>, unit, plain: String, of: &str| {
        let figure = over_repeats(record, pick).filter(|_| repeats > 1);
        let ends = figure.and_then(|figure| Some((figure, format::interval(&figure, unit, "-")?, figure.interval?)));
        ends.map_or(format!("{plain} (one repeat, no interval)"), |(figure, ends, interval)| {
            let confidence = format::share_short(interval.confidence);
            let value = format::value(&figure, unit);
            format!("{value} (mean of {of}{repeats} repeats; {confidence} interval {ends})")
        })
    };
    let summary = report.latency.as_ref().map(|latency| &latency.summary);
    let time = |time_s: Option<f64>| time_s.map_or("-".to_owned(), |time_s| format::quantity(time_s, Unit::Seconds));
    let (p50, p99) = (time(summary.map(|summary| summary.p50_s)), time(summary.map(|summary| summary.p99_s)));
    let rate = format::quantity(report.rate_per_s, Unit::Transactions);
    let limit = limited_by(report).map_or(String::new(), |limit| format!("; limited by {limit}"));
    match report.settings.rate_per_s {
        Some(_) => {
            let median = sure(|sample| Some(sample.latency?.p50_s), Unit::Seconds, p50, "the medians of ");
            format!("Latency: median {median}, p99 {p99}, at {rate}{limit}")
        }
        None => {
            let rate = sure(|sample| Some(sample.rate_per_s), Unit::Transactions, rate, "");
            let over = if repeats > 1 { " (all repeats together)" } else { "" };
            format!("{rate}, round trip: median {p50}, p99 {p99}{over}{limit}")
        }
    }
}

/// The configuration with the highest rate, and its verdict.
fn most(rows: &[RrRecord]) -> String {
    let Some(best) = rows.iter().max_by(|a, b| a.report.rate_per_s.total_cmp(&b.report.rate_per_s)) else {
        return "No request was answered".to_owned();
    };
    let settings = &best.report.settings;
    let (flows, depth) = (settings.flows, settings.depth);
    format!("Highest of {} configurations, flows {flows}, depth {depth}: {}", rows.len(), verdict(best))
}

/// Doubts about the verdict, a sentence each.
fn doubts(record: &RrRecord) -> Vec<String> {
    let report = &record.report;
    let mut said: Vec<String> = beside(&report.notes).collect();
    if let Some(width) = wide(record) {
        let width = format::share_short(width);
        said.push(format!("{} may be off by {width}: {SURER}", mean_of(record)));
    }
    said.extend(counted(record));
    said
}

/// Doubts about several configurations. A doubt that several of them share is given once, with the worst value.
fn doubts_of_several(rows: &[RrRecord]) -> Vec<String> {
    let mut said = Vec::new();
    let widths: Vec<f64> = rows.iter().filter_map(wide).collect();
    if let Some(worst) = widths.iter().copied().reduce(f64::max) {
        let worst = format::share_short(worst);
        said.push(format!("{} of {} means may be off by up to {worst}: {SURER}", widths.len(), rows.len()));
    }
    for record in rows {
        let settings = &record.report.settings;
        for doubt in beside(&record.report.notes).chain(counted(record)) {
            said.push(format!("flows {}, depth {}: {doubt}", settings.flows, settings.depth));
        }
    }
    said
}

/// The mean whose precision is known. The rate of an open loop is the requested one.
fn mean_of(record: &RrRecord) -> &'static str {
    match record.report.settings.rate_per_s {
        Some(_) => "the mean of the median latencies",
        None => "the mean rate",
    }
}

/// The rate of each repeat, or the median latency of an open loop: `rates`, `17.1, 15.9, 20.1 k transactions/s, one a
/// repeat`. `None` for one repeat or many.
fn each_repeat(record: &RrRecord) -> Option<(&'static str, String)> {
    let is_open = record.report.settings.rate_per_s.is_some();
    let (name, unit) = if is_open { ("medians", Unit::Seconds) } else { ("rates", Unit::Transactions) };
    let pick: fn(&RrSample) -> Option<f64> =
        if is_open { |sample| Some(sample.latency?.p50_s) } else { |sample| Some(sample.rate_per_s) };
    let values: Vec<f64> = record.repeats.iter().filter_map(pick).collect();
    let (factor, suffix) = unit.scale(values.iter().copied().reduce(f64::max)?);
    let numbers: Vec<String> = values.iter().map(|value| format::significant(value / factor)).collect();
    let text = format!("{}{suffix}, one a repeat", numbers.join(", "));
    (2..=FEW_REPEATS).contains(&values.len()).then_some((name, text))
}

/// Half the width of the mean's interval if it is worth mentioning.
fn wide(record: &RrRecord) -> Option<f64> {
    record.known.as_ref().and_then(|known| known.half_width).filter(|width| *width > WIDE)
}

/// Doubts from the counts and the host's CPUs.
fn counted(record: &RrRecord) -> Vec<String> {
    let report = &record.report;
    let mut said = Vec::new();
    if record.repeats.len() == 1 {
        said.push("with one repeat it is unknown how much the next would differ".to_owned());
    }
    if report.timeouts > 0 {
        said.push(format!(
            "{} without an answer in time, left out of every latency",
            format::counted(report.timeouts, "request")
        ));
    }
    if report.unsent > 0 {
        said.push(format!("{} due but never sent", format::counted(report.unsent, "request")));
    }
    // The verdict names a fully busy thread as the limit.
    said.extend(of_host(report).iter().filter(|doubt| !matches!(doubt, Doubt::FullThread(_))).map(ToString::to_string));
    said
}

fn figures(page: &mut Page, record: &RrRecord) {
    let report = &record.report;
    page.heading("FIGURES");
    if let Some((name, values)) = each_repeat(record) {
        page.fact(name, &values);
    }
    if let Some(latency) = &report.latency {
        let summary = &latency.summary;
        let time = |time_s| format::quantity(time_s, Unit::Seconds);
        let [mean, p50, p99] = [summary.mean_s, summary.p50_s, summary.p99_s].map(time);
        let [p999, max] = [summary.p999_s, summary.max_s].map(time);
        let over = if record.repeats.len() > 1 { "; all repeats together" } else { "" };
        page.fact("latency", &format!("mean {mean}, p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}{over}"));
    }
    if let OneWay::Delays { forth, back } = &report.one_way {
        let [forth, back] = [forth, back].map(|way| format::quantity(way.summary.p50_s, Unit::Seconds));
        page.fact("one way", &format!("request {forth}, response {back} (medians)"));
    }
    counts(page, report);
    let ends = [("client", report.cost.client_threads), ("server", report.cost.server_threads)];
    for (end, cost) in ends.into_iter().filter_map(|(end, cost)| Some((end, cost?))) {
        page.fact(end, &threads(cost));
    }
}

fn counts(page: &mut Page, report: &Report) {
    let lost = (report.timeouts > 0).then(|| {
        let share = report.timeouts as f64 / report.asked().max(1) as f64;
        format!("; {} more requests without an answer ({})", report.timeouts, format::loss(share))
    });
    page.fact("responses", &format!("{}{}", report.transactions, lost.unwrap_or_default()));
}

fn threads(cost: ThreadCost) -> String {
    let each = format::quantity(cost.us_per_transaction * 1e-6, Unit::Seconds);
    format!("{} of a CPU, CPU time {each} a transaction", format::share_short(cost.cpus))
}
