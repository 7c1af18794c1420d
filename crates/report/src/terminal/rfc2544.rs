//! [`rfc2544`]: output of `netcliff rfc2544 -v`; [`rfc2544_brief`]: without `-v`.

pub mod brief;

use netcliff_core::stream::Spread;
use netcliff_mlrsearch::trial::Trial;
use netcliff_rfc2544::missing::MissingFigure;
use netcliff_rfc2544::report::{Limit, Rfc2544Report, SizeReport};
use netcliff_rfc2544::settings::{SearchBy, Settings};

use super::Style;
use super::page::Page;
use crate::format::{self, Unit};
use crate::sheet;
use crate::table::grouped;
use brief::answer;
pub(crate) use brief::{doubt, verdict};

pub use brief::rfc2544_brief;

/// The answer as a line, then a table for each test, missing figures, notes, and the set-up.
pub fn rfc2544(report: &Rfc2544Report, style: Style) -> String {
    let mut page = Page::new(style);
    answer(&mut page, report);
    for (heading, rows) in tables(report) {
        table(&mut page, &heading, &rows);
    }
    lacks(&mut page, report);
    page.heading("SET-UP");
    set_up(&mut page, report);
    page.list("NOTES", &notes(report));
    page.finish()
}

/// Tables with their headings, the first row of each names its columns.
pub type Tables = Vec<(String, Vec<Vec<String>>)>;

/// Every table that has rows, for the terminal and for the browser's page.
pub fn tables(report: &Rfc2544Report) -> Tables {
    let mut tables = Tables::new();
    let each =
        [throughput, unfinished, trials, goals, searches, predicted, latency, tagged, loss, bursts, ledger, pacing];
    each.into_iter().for_each(|add| add(&mut tables, report));
    tables.retain(|(_, rows)| rows.len() > 1);
    tables
}

/// Adds the figures that are only lower bounds, and those that were not measured.
pub(super) fn lacks(page: &mut Page, report: &Rfc2544Report) {
    page.list("ONLY A LOWER BOUND", &lower_bounds(report));
    page.list("NOT MEASURED", &missing(report));
}

/// Figures of each size that are only lower bounds, with the reasons, and how to send more.
pub fn lower_bounds(report: &Rfc2544Report) -> Vec<String> {
    let mut lines = lines_of(report, is_lower_bound);
    let by_tester = |size: &SizeReport| size.limit == Some(Limit::Tester) && report.asked.may_send_live(size.frame);
    if !lines.is_empty() && report.sizes.iter().any(by_tester) {
        lines.push("--send-by live (root, Linux 5.18 or later) usually sends a higher load".to_owned());
    }
    lines
}

/// Figures of each size that were not measured, and sizes at which no test began.
pub fn missing(report: &Rfc2544Report) -> Vec<String> {
    let begun = |frame| report.sizes.iter().any(|size| size.frame == frame);
    let left: Vec<String> =
        report.asked.frames.iter().filter(|frame| !begun(**frame)).map(ToString::to_string).collect();
    let left = (!left.is_empty()).then(|| format!("{}: not begun", left.join(", ")));
    lines_of(report, |line| !is_lower_bound(line)).into_iter().chain(left).collect()
}

fn is_lower_bound(missing: &MissingFigure) -> bool {
    matches!(missing, MissingFigure::LowerBound(_))
}

/// Reasons for which figures are missing or limited, each with the frame sizes that it applies to.
fn lines_of(report: &Rfc2544Report, fits: impl Fn(&MissingFigure) -> bool) -> Vec<String> {
    let each = report.sizes.iter().flat_map(|size| size.missing.iter().map(move |line| (line, size.frame.to_string())));
    let lines = grouped(each.filter(|(line, _)| fits(line)));
    lines.into_iter().map(|(line, sizes)| format!("{}: {line}", sizes.join(", "))).collect()
}

/// Departures from RFC 2544, limits of the run, and limits of the ledgers.
pub fn notes(report: &Rfc2544Report) -> Vec<String> {
    let mut notes = [&report.notes[..], &report.limits].concat();
    let ledgers = report.sizes.iter().filter_map(|size| size.ledger.as_ref());
    let of_ledgers = ledgers.flat_map(|at| at.ledger.limits.iter().map(|limit| format!("where frames went: {limit}")));
    for note in of_ledgers {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Why a run is partial, and after how much.
pub fn ended_early(report: &Rfc2544Report) -> Option<String> {
    let why = report.partial.as_ref()?;
    let trials: u64 = report.sizes.iter().map(|size| size.seen.trials).sum();
    let trials = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
    Some(format!("ended early after {trials}: {why}. Results up to then are shown."))
}

fn set_up(page: &mut Page, report: &Rfc2544Report) {
    let asked = &report.asked;
    page.fact("device", &report.device);
    page.fact("tester", &report.tester);
    if let Some(stamped) = report.instruments.as_ref().map(|all| &all.stamped).filter(|stamped| !stamped.is_empty()) {
        page.fact("stamps", stamped);
    }
    let family = if asked.ipv6 { "IPv6" } else { "IPv4" };
    let ways = if asked.both_ways { "both ways at once, figures each way" } else { "one way" };
    let replayed =
        asked.pcap.as_ref().map(|pcap| format!("flows of {} by {} source ports", pcap.file, pcap.source_ports));
    let flows = if let Some(replayed) = replayed {
        replayed
    } else if asked.flows == 1 {
        "1 flow".to_owned()
    } else {
        format!("{} flows", asked.flows)
    };
    let to = |count: u32, what: &str| if count > 1 { format!(" to {count} {what}") } else { String::new() };
    let to = [to(asked.destinations, "addresses"), to(asked.destination_ports, "ports")].concat();
    let tag = asked.vlan.map_or(String::new(), |id| format!(", VLAN {id}"));
    page.fact("frames", &format!("{family}, UDP, {flows}{to}{tag}, {ways}"));
    page.fact("search", &searched(report));
    page.fact("after a trial", &between(asked));
    add_goals(page, asked);
}

/// Adds the goals that the command line gave, under the numbers that tables have for them.
pub(super) fn add_goals(page: &mut Page, asked: &Settings) {
    for (at, goal) in asked.goals.iter().enumerate() {
        page.fact(&format!("goal {}", at + 1), &goal.to_string());
    }
}

/// The method of the search for throughput, and how long it took.
fn searched(report: &Rfc2544Report) -> String {
    let spent_s: f64 = report.sizes.iter().map(SizeReport::searched_s).sum();
    let spent = if spent_s > 0.0 {
        format!("; all its trials, void ones included, took {}", time(spent_s))
    } else {
        String::new()
    };
    format!("{}{spent}", search(&report.asked))
}

/// The method of the search for throughput, and its goal if the command line gave none.
fn search(asked: &Settings) -> String {
    let rounds = rounds(asked.searches);
    let by = match (asked.search, asked.goals.len()) {
        (SearchBy::Mlr, 1) => return format!("MLRsearch{rounds}"),
        (SearchBy::Mlr, goals @ 2..) => return format!("MLRsearch with {goals} goals{rounds}"),
        (SearchBy::Binary, _) => "RFC 2544's bisection",
        (SearchBy::Mlr, _) => "MLRsearch with RFC 2544's goal",
        (SearchBy::MlrTypical, _) => "MLRsearch, half of 21 short trials may lose frames",
    };
    let goal = asked.goal();
    let tolerated = if goal.loss_ratio > 0.0 { format::loss(goal.loss_ratio) } else { "none".to_owned() };
    let (trials, width) = (time(goal.final_trial_s), format::share(goal.width));
    format!("{by}{rounds}; trial duration {trials}, loss allowed: {tolerated}, ends at bounds {width} apart")
}

/// Waiting times after each trial, and RFC 2544's times if those are longer.
fn between(asked: &Settings) -> String {
    let short = if asked.settle_s < 2.0 || asked.rest_s < 5.0 { " (RFC 2544, section 23: 2 s, 5 s)" } else { "" };
    format!("at most {} for residual frames, then {} to restabilize{short}", time(asked.settle_s), time(asked.rest_s))
}

/// Number of searches of each size, if it is more than one.
fn rounds(searches: u32) -> String {
    if searches > 1 { format!(", {searches} a size, round by round over the sizes") } else { String::new() }
}

/// Adds a table; the first column is aligned to the left.
pub(super) fn table(page: &mut Page, heading: &str, rows: &[Vec<String>]) {
    if rows.len() < 2 {
        return;
    }
    let columns = rows[0].len();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    page.heading(heading);
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| match at {
            0 => format!("  {cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        cells.collect::<String>()
    };
    page.lines(rows.iter().map(line));
}

pub(super) fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

fn pps(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format::quantity(value, Unit::Pps))
}

fn time(value: f64) -> String {
    format::quantity(value, Unit::Seconds)
}

fn throughput(tables: &mut Tables, report: &Rfc2544Report) {
    let several = report.asked.searches > 1;
    // With several searches, the interval of the mean replaces the column of the failed load.
    let found = if several { &["throughput"][..] } else { &["throughput", "failed at"] };
    let mut rows = vec![words(&[&["size"], found, &["wire bit/s"]].concat())];
    rows[0].extend(report.line_bps.map(|line_bps| format!("of {}G", line_bps / 1e9)));
    rows[0].push("limit".to_owned());
    for size in &report.sizes {
        let Some(searched) = &size.throughput else { continue };
        let bits = size.forwarded_pps().map(|pps| pps * 8.0 * (size.mean_bytes + 20.0));
        let mut row = vec![size.frame.to_string(), throughput_of(size)];
        // A load that was not offered did not fail.
        let failed = || searched.found.first().filter(|_| !size.is_lower_limit()).and_then(|found| found.upper_pps);
        row.extend((!several).then(|| pps(failed())));
        row.push(bits.map_or("-".to_owned(), |bits| format::quantity(bits, Unit::Bps)));
        let share = |line_bps: f64| size.forwarded_pps().map(|pps| pps / size.frame.line_pps(line_bps));
        row.extend(report.line_bps.map(|line_bps| share(line_bps).map_or("-".to_owned(), format::share)));
        row.push(size.limit.map_or("-".to_owned(), |limit| limit.to_string()));
        rows.push(row);
    }
    let of = if several { ", mean of the searches with 95 %" } else { "" };
    let share = if report.line_bps.is_some() { ", and its share of the line" } else { "" };
    tables.push((format!("THROUGHPUT (26.1){of}{share}"), rows));
}

/// Bounds of searches that ended early, which are no throughput.
fn unfinished(tables: &mut Tables, report: &Rfc2544Report) {
    let goal = if report.asked.goals.len() > 1 { &["goal"][..] } else { &[] };
    let counts = &["valid trials", "void trials", "passed at", "failed at"];
    let mut rows = vec![words(&[&["size"], goal, counts].concat())];
    for (size, turn) in report.sizes.iter().filter_map(|size| Some((size, size.unfinished.as_ref()?))) {
        let searched = &turn.searched;
        for (at, found) in searched.found.iter().enumerate() {
            let mut row = vec![size.frame.to_string()];
            row.extend(goal.iter().map(|_| (at + 1).to_string()));
            row.extend([searched.trials.len().to_string(), searched.void_trials.to_string()]);
            row.extend([found.lower_pps, found.upper_pps].map(pps));
            rows.push(row);
        }
    }
    tables.push(("SEARCH ENDED EARLY: bounds so far, no throughput".to_owned(), rows));
}

/// Trials of searches that ended early.
fn trials(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "load", "length", "sent", "lost"])];
    for (size, turn) in report.sizes.iter().filter_map(|size| Some((size, size.unfinished.as_ref()?))) {
        rows.extend(turn.searched.trials.iter().map(|trial| {
            let mut row = vec![size.frame.to_string(), pps(Some(trial.load_pps)), time(trial.duration_s)];
            row.extend([trial.sent.to_string(), lost(trial)]);
            row
        }));
    }
    tables.push(("TRIALS of the search that ended early".to_owned(), rows));
}

fn lost(trial: &Trial) -> String {
    if trial.lost == 0 { "none".to_owned() } else { format::loss(trial.loss_ratio()) }
}

/// The throughput with its half width if there were several searches. A lower limit is marked by `>=`.
pub fn throughput_of(size: &SizeReport) -> String {
    let Some(found) = size.forwarded() else { return "-".to_owned() };
    let mark = if size.is_lower_limit() { ">= " } else { "" };
    format!("{mark}{}", format::plus_minus(&found, Unit::Pps))
}

/// Adds the table of throughput by goal. It has rows only if several goals were requested.
fn goals(tables: &mut Tables, report: &Rfc2544Report) {
    let several = report.asked.searches > 1;
    let found = if several { &["throughput"][..] } else { &["throughput", "failed at", "conditional"] };
    let mut rows = vec![words(&[&["size", "goal"], found, &["limit"]].concat())];
    for size in &report.sizes {
        for (at, of) in size.goals.iter().enumerate() {
            let mark = if of.is_lower_limit() { ">= " } else { "" };
            let lower = of.lower_pps.map(|found| format!("{mark}{}", format::plus_minus(&found, Unit::Pps)));
            let mut row = vec![size.frame.to_string(), (at + 1).to_string(), lower.unwrap_or_else(|| "-".to_owned())];
            row.extend([of.upper_pps, of.conditional_pps].map(pps).into_iter().filter(|_| !several));
            row.push(of.limit.map_or("-".to_owned(), |limit| limit.to_string()));
            rows.push(row);
        }
    }
    tables.push(("THROUGHPUT BY GOAL; the other tables are for goal 1".to_owned(), rows));
}

/// Adds the table of sizes with several searches: mean, smallest and largest result.
fn searches(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "searches", "succeeded", "mean", "least", "greatest", "spread"])];
    for size in report.sizes.iter().filter(|size| !size.searches.is_empty()) {
        let found = size.bounds();
        let mut row = vec![size.frame.to_string(), size.searches.len().to_string(), found.len().to_string()];
        let spread = Spread::of(found.into_iter().map(|(lower, _)| lower));
        row.extend([size.forwarded_pps(), spread.map(|all| all.min), spread.map(|all| all.max)].map(pps));
        let apart = spread.zip(size.forwarded_pps()).map(|(all, mean)| format::share((all.max - all.min) / mean));
        row.push(apart.unwrap_or_else(|| "-".to_owned()));
        rows.push(row);
    }
    tables.push(("SEARCHES, round by round over the sizes".to_owned(), rows));
}

fn predicted(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "CPU/frame", "CPU/poll", "model", "simulated", "measured", "error"])];
    for size in &report.sizes {
        let Some((predicted, measured)) = size.predicted.zip(size.forwarded_pps()) else { continue };
        let mut row = vec![size.frame.to_string(), time(predicted.frame_s), time(predicted.poll_s)];
        row.extend([Some(predicted.server_pps), predicted.simulated_pps, Some(measured)].map(pps));
        // If the tester was the limit, the measured figure is not the device's throughput.
        let of_device = size.limit == Some(Limit::Device);
        let off = predicted.simulated_pps.filter(|_| of_device).map(|simulated| 100.0 * (simulated / measured - 1.0));
        row.push(off.map_or("-".to_owned(), |off| format!("{off:+.0} %")));
        rows.push(row);
    }
    tables.push(("PREDICTED THROUGHPUT, from the router's CPU time; error of the simulated one".to_owned(), rows));
}

fn latency(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "load", "mean of tagged", "typical", "worst case"])];
    for size in &report.sizes {
        let Some(latency) = &size.latency else { continue };
        let mut row = vec![size.frame.to_string(), pps(Some(latency.load_pps)), time(latency.mean_s)];
        row.extend([latency.typical_s.median, latency.worst_s.median].map(time));
        rows.push(row);
    }
    tables.push(("LATENCY (26.2; typical and worst case by RFC 8219)".to_owned(), rows));
    let mut rows = vec![words(&["size", "p50", "p99", "p99.9", "max"])];
    for size in &report.sizes {
        let Some(all) = size.latency_frames.as_ref().map(|record| record.summary) else { continue };
        let figures = [all.p50_s, all.p99_s, all.p999_s, all.max_s].map(time);
        rows.push([size.frame.to_string()].into_iter().chain(figures).collect());
    }
    tables.push(("LATENCY OF ALL FRAMES at the throughput".to_owned(), rows));
}

/// Latency of tagged frames, if it has an uncertainty or the application's mean: the clock, its uncertainty, and the
/// tester's own share.
fn tagged(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "clock", "mean", "off by", "kernel", "application", "share", "absent"])];
    let known = |value: Option<f64>| value.map_or("-".to_owned(), time);
    for size in &report.sizes {
        let Some(latency) = size.latency.as_ref().filter(|all| all.uncertainty_s.or(all.application_mean_s).is_some())
        else {
            continue;
        };
        let mut row = vec![size.frame.to_string(), latency.clock.to_string(), time(latency.mean_s)];
        let others =
            [latency.uncertainty_s, latency.by_kernel_s(), latency.application_mean_s, latency.tester_share_s()];
        row.extend(others.map(known));
        row.push(latency.absent_stamps().map_or("-".to_owned(), |count| count.to_string()));
        rows.push(row);
    }
    tables.push(("TAGGED FRAMES by clock; share: what the tester adds; absent: no time stamps".to_owned(), rows));
}

fn loss(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "load", "of highest load", "lost"])];
    for size in &report.sizes {
        let Some(curve) = &size.loss else { continue };
        let valid = curve.trials.iter().map(|trial| (trial.load_pps, lost(trial)));
        let mut loads: Vec<(f64, String)> =
            valid.chain(curve.void_pps.iter().map(|load| (*load, "void".to_owned()))).collect();
        loads.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        rows.extend(loads.into_iter().map(|(load_pps, lost)| {
            vec![size.frame.to_string(), pps(Some(load_pps)), format::share(load_pps / size.max_pps), lost]
        }));
    }
    tables.push(("FRAME LOSS (26.3)".to_owned(), rows));
}

fn bursts(tables: &mut Tables, report: &Rfc2544Report) {
    let header = ["size", "mean", "min", "max", "sent at", "buffer time", "corrected"];
    let mut rows = vec![words(&header)];
    for size in &report.sizes {
        let Some(found) = &size.back_to_back else { continue };
        let Spread { min, max, .. } = found.spread;
        let mut row = vec![size.frame.to_string()];
        row.extend([found.mean, min, max].map(|frames| format!("{frames:.0}")));
        let mark = if found.corrected_at_most { "<= " } else { "" };
        let corrected = format!("{mark}{}", time(found.corrected_buffer_s));
        row.extend([pps(Some(found.burst_pps)), time(found.implied_buffer_s), corrected]);
        rows.push(row);
    }
    tables.push(("BACK-TO-BACK FRAMES (26.4, RFC 9004): lossless burst in frames, over repeats".to_owned(), rows));
}

fn ledger(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "load", "what", "packets", "share", "counted by"])];
    for size in &report.sizes {
        let Some(at) = &size.ledger else { continue };
        let load = pps(Some(at.load_pps));
        let sent = ["sent".to_owned(), at.ledger.sent.to_string(), String::new(), "the sender".to_owned()];
        let all = [sent].into_iter().chain(sheet::ledger::rows(&at.ledger));
        rows.extend(all.map(|row| [size.frame.to_string(), load.clone()].into_iter().chain(row).collect()));
    }
    tables.push(("WHERE EVERY FRAME WENT, in a separate trial".to_owned(), rows));
}

fn pacing(tables: &mut Tables, report: &Rfc2544Report) {
    let header = ["size", "max rate", "late p99", "gap p50", "gap p99", "void", "dup", "reorder", "corrupt"];
    let mut rows = vec![words(&header)];
    rows.extend(report.sizes.iter().map(tester_row));
    let batch = |size: &SizeReport| Some((size.pacing?.batch_frames?, size.pacing?.batch_s?));
    if report.sizes.iter().any(|size| batch(size).is_some()) {
        rows[0].push("batch".to_owned());
        for (row, size) in rows[1..].iter_mut().zip(&report.sizes) {
            row.push(batch(size).map_or("-".to_owned(), |(frames, length_s)| format!("{frames}, {}", time(length_s))));
        }
    }
    tables.push(("TESTER: highest rate, lateness, errors of gaps, void trials, unexpected frames".to_owned(), rows));
}

fn tester_row(size: &SizeReport) -> Vec<String> {
    // If the run ended early, it possibly sent no frame of this size.
    let mut row = vec![size.frame.to_string(), pps(Some(size.sender_pps).filter(|pps| *pps > 0.0))];
    let pacing = size.pacing.map(|one| [one.lateness_p99_s, one.gap_error_p50_s, one.gap_error_p99_s].map(time));
    row.extend(pacing.unwrap_or_else(|| ["-"; 3].map(str::to_owned)));
    row.push(format!("{} of {}", size.seen.void_trials, size.seen.trials));
    row.extend([size.seen.duplicates, size.seen.reordered, size.seen.corrupt].map(|count| count.to_string()));
    row
}
