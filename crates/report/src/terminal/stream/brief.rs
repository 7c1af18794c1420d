//! [`stream_brief`]: output of `netcliff stream` without `-v`: the answer, the figures to act on, and doubts.

use netcliff_core::Figure;
use netcliff_core::stream::{StreamReport, StreamRow, StreamSample, StreamWarning};
use netcliff_core::units;
use netcliff_lab::lasting;
use netcliff_stats as stats;
use netcliff_transfer::hosts::BUSY;

use super::wire::lost_at;
use super::{Page, Style, Tone, median, name};
use crate::format::{self, Unit};
use crate::terminal::{SURER, WIDE};

/// Width from which the table of a sweep shows the limit of each configuration (columns).
const WITH_LIMITS: usize = 100;

/// The verdict with doubts about it, the figures to act on, and the warnings. The rest is in
/// [`super::stream`].
pub fn stream_brief(report: &StreamReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.head("stream", &report.provenance, report.partial, &[]);
    answer(&mut page, report);
    let congestion = congestion(report).map(|name| format!("congestion control {name}"));
    let cpus = configured(report, "CPUs").map(|cpus| format!("CPUs: {cpus}"));
    let [channel, link] = ["channel", "link"].map(|name| configured(report, name).map(str::to_owned));
    let path: Vec<String> = [channel, link, congestion, cpus].into_iter().flatten().collect();
    if !path.is_empty() {
        page.paragraph(0, Tone::Plain, &path.join("; "));
    }
    match &report.rows[..] {
        [] => {}
        [row] => one(&mut page, row),
        rows => sweep(&mut page, rows),
    }
    super::many::agents(&mut page, report);
    super::probe::brief(&mut page, report);
    let (host, warnings): (Vec<String>, Vec<String>) =
        warnings(report).into_iter().partition(|warning| lasting(warning).is_some());
    page.list("WARNINGS", &warnings);
    page.list("NOT MEASURED", &not_measured(report));
    page.paragraph(0, Tone::Faint, "-v shows CPUs, rates on the wire, devices and the configuration.");
    let host: Vec<String> = host.iter().filter_map(|warning| lasting(warning)).collect();
    if !host.is_empty() {
        page.paragraph(
            0,
            Tone::Faint,
            &format!("Measured on {}: -v says how this limits the result.", host.join(", ")),
        );
    }
    page.finish()
}

/// A value of the configuration.
fn configured<'a>(report: &'a StreamReport, wanted: &str) -> Option<&'a str> {
    report.asked.iter().find(|(name, _)| name == wanted).map(|(_, fact)| fact.as_str())
}

/// Name of the congestion control in force. `None` if the channel has none.
fn congestion(report: &StreamReport) -> Option<&str> {
    report.in_force.iter().find(|(name, _)| name == "congestion").map(|(_, fact)| fact.as_str())
}

/// Adds the verdict and doubts about it, with which both pages (with and without `-v`) begin.
pub(super) fn answer(page: &mut Page, report: &StreamReport) {
    page.paragraph(0, Tone::Strong, &format!("{}.", verdict(report)));
    page.caution(&doubts(report));
}

/// The verdict: `Goodput 24.6 Gbit/s (mean of 5 repeats; 95 % interval 24.1-25.1); limited by the receiver's thread
/// (99 % of its CPU)`. For a sweep, the configuration with the highest goodput.
fn verdict(report: &StreamReport) -> String {
    let measured = report.rows.iter().filter_map(|row| Some((row, row.goodput_bps?.median)));
    let Some((best, _)) = measured.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return "No goodput was measured".to_owned();
    };
    let lead = match report.rows.len() {
        1 => "Goodput ".to_owned(),
        several => format!("Highest goodput of {several} configurations, {}: ", name(best)),
    };
    let loss = loss(best).map_or(String::new(), |loss| format!(", {} of the datagrams lost", format::loss(loss)));
    let limit = match &best.limited_by {
        Some(limit) => format!("; limited by {limit}"),
        None => format!(". {}", unknown_limit(report, best)),
    };
    format!("{lead}{}{loss}{limit}", goodput(best))
}

/// Says that no limit was reached, how busy the threads and the busiest CPU were, and what to try. The last sentence has
/// no full stop.
fn unknown_limit(report: &StreamReport, row: &StreamRow) -> String {
    let busiest = row.system.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let busiest =
        busiest.map_or(String::new(), |cpu| format!("; busiest CPU {}: {}", cpu.cpu, format::share_short(cpu.busy())));
    let [sender, receiver] = [share_of(row, |sample| sample.sender_cpu), share_of(row, |sample| sample.receiver_cpu)];
    let hint = match congestion(report) {
        Some(name) if name.starts_with("bbr") => {
            ". BBR sends at the rate that it estimates, even if nothing is full: compare with --congestion cubic"
        }
        Some(_) => ". Try more --flows",
        None => "",
    };
    let full = format::share_short(BUSY);
    format!(
        "The limit is unknown. No CPU, and on average no checked thread, was busy for more than {full} of the time (sender's \
         threads together {sender} of a CPU, receiver's {receiver}{busiest}), and no checked buffer or window was full{hint}"
    )
}

/// Mean of the goodput over the repeats, and the number of repeats that have it.
fn mean(row: &StreamRow) -> Option<(Figure, usize)> {
    let values: Vec<f64> = row.samples.iter().filter_map(|sample| sample.goodput_bps).collect();
    Some((stats::mean(&values)?.not_negative(), values.len()))
}

/// The mean with its interval, or the reason why it is absent.
fn goodput(row: &StreamRow) -> String {
    let Some((mean, repeats)) = mean(row) else { return median(row.goodput_bps, Unit::Bps) };
    let value = format::value(&mean, Unit::Bps);
    match (format::interval(&mean, Unit::Bps, "-"), mean.interval) {
        (Some(ends), Some(interval)) => {
            let confidence = format::share_short(interval.confidence);
            format!("{value} (mean of {repeats} repeats; {confidence} interval {ends})")
        }
        _ => format!("{value} (one repeat, no interval)"),
    }
}

/// Doubts about the verdict, a sentence each.
fn doubts(report: &StreamReport) -> Vec<String> {
    let other_runs = report.warnings.iter().filter(|warning| matches!(warning, StreamWarning::OtherRun(_)));
    let mut said: Vec<String> = other_runs.map(ToString::to_string).collect();
    let widths = report.rows.iter().filter_map(|row| row.known.as_ref()?.half_width);
    if let Some(width) = widths.reduce(f64::max).filter(|width| *width > WIDE) {
        let which = if report.rows.len() > 1 { "a" } else { "the" };
        let width = format::share_short(width);
        said.push(format!("{which} mean goodput may be off by {width}: {SURER}"));
        let pinned = configured(report, "CPUs").is_none_or(|cpus| !cpus.contains("any"));
        if !pinned {
            said.push(
                "the threads were not pinned (--cpu), so that repeats differ by the CPUs that the scheduler chose"
                    .to_owned(),
            );
        }
    }
    if report.rows.iter().any(|row| row.limited_by_others().is_some()) {
        said.push("other programs used the CPUs: repeat it on a quiet machine".to_owned());
    }
    let repeats = report.rows.iter().map(|row| row.samples.len()).min().unwrap_or(0);
    if repeats == 1 {
        said.push("one repeat gives no interval: add --repeats 5".to_owned());
    }
    said
}

/// Share of the sent datagrams that were lost.
fn loss(row: &StreamRow) -> Option<f64> {
    let counts = row.datagrams.filter(|counts| counts.sent > 0)?;
    Some(counts.lost as f64 / counts.sent as f64)
}

fn one(page: &mut Page, row: &StreamRow) {
    let how = in_words(&row.path).map_or(String::new(), |how| format!(" ({how})"));
    page.heading(&format!("Send path {}{how}, blocks of {}", row.path, units::print_bytes(row.block_bytes)));
    if let Some(spread) = row.goodput_bps.filter(|_| row.samples.len() > 1) {
        let [least, middle, most] = [spread.min, spread.median, spread.max].map(|bps| format::quantity(bps, Unit::Bps));
        page.fact("goodput", &format!("min {least}, median {middle}, max {most}"));
    }
    let ends: [(&str, Pick, Pick); 2] = [
        ("sender", |sample| sample.sender_cpu, |sample| sample.sender_us_per_kib),
        ("receiver", |sample| sample.receiver_cpu, |sample| sample.receiver_us_per_kib),
    ];
    for (end, busy, us_per_kib) in ends {
        let us_per_kib = mean_of(row, us_per_kib).map_or("-".to_owned(), format::significant);
        page.fact(end, &format!("{} of a CPU, CPU time {us_per_kib} us/KiB", share_of(row, busy)));
    }
    if let Some(tcp) = &row.tcp {
        let rtt = median(tcp.rtt_s, Unit::Seconds);
        page.fact("TCP", &format!("{} segments retransmitted, median smoothed RTT at end {rtt}", tcp.retransmissions));
    }
    if let Some(counts) = row.datagrams {
        let loss = loss(row).map_or("-".to_owned(), format::loss);
        let at = if counts.lost > 0 { format!(": {}", lost_at(&counts)) } else { String::new() };
        page.fact(
            "datagrams",
            &format!("{} sent, {} reordered, {} lost ({loss}){at}", counts.sent, counts.reordered, counts.lost),
        );
    }
    let of = if row.samples.len() > 1 { "; means of the repeats, except goodput" } else { "" };
    let counts = if row.datagrams.is_some() { "; datagrams: all that were sent, also in warm-ups" } else { "" };
    page.paragraph(2, Tone::Faint, &format!("{OF_THREADS}{of}{counts}"));
}

/// How a send path over UDP sends. `None` for a path whose name says it.
fn in_words(path: &str) -> Option<&'static str> {
    match path {
        "single" => Some("one datagram a call"),
        "batch" => Some("several datagrams a call"),
        "gso" => Some("UDP_SEGMENT and UDP_GRO"),
        "gso-tx" => Some("UDP_SEGMENT alone"),
        "gro-rx" => Some("UDP_GRO alone"),
        _ => None,
    }
}

/// What the CPU shares and times of both ends are.
const OF_THREADS: &str = "sender, receiver: time of their threads, without softirqs that ran elsewhere";

/// Adds one line for each configuration.
fn sweep(page: &mut Page, rows: &[StreamRow]) {
    let datagrams = rows.iter().any(|row| row.datagrams.is_some());
    let limits = page.style().width >= WITH_LIMITS;
    let lost = if datagrams { "lost" } else { "retr" };
    page.heading("CONFIGURATIONS (goodput: mean of the repeats, 95 % interval)");
    let mut lines = vec![format!(
        "  {:<16}{:>21}{:>10}{:>10}{:>10}{lost:>9}{}",
        "path, block",
        "goodput",
        "sender",
        "receiver",
        "us/KiB",
        if limits { "  limited by" } else { "" }
    )];
    for row in rows {
        let mean = mean(row).map_or("-".to_owned(), |(mean, _)| format::plus_minus(&mean, Unit::Bps));
        let lost = match (datagrams, &row.tcp) {
            (true, _) => loss(row).map_or("-".to_owned(), format::loss),
            (false, Some(tcp)) => tcp.retransmissions.to_string(),
            (false, None) => "-".to_owned(),
        };
        let limit = row.limited_by.as_deref().filter(|_| limits).map_or(String::new(), |limit| {
            // Only the name of the limit; the verdict and -v also have its evidence, in parentheses.
            format!("  {}", limit.split(" (").next().unwrap_or(limit))
        });
        lines.push(format!(
            "  {:<16}{mean:>21}{:>10}{:>10}{:>10}{lost:>9}{limit}",
            name(row),
            share_of(row, |sample| sample.sender_cpu),
            share_of(row, |sample| sample.receiver_cpu),
            mean_of(row, |sample| sample.system_us_per_kib).map_or("-".to_owned(), format::significant),
        ));
    }
    page.block(&lines.join("\n"));
    let of_datagrams = "lost: share of the datagrams, warm-ups included";
    let lost = if datagrams { of_datagrams } else { "retr: TCP segments retransmitted" };
    let about = format!(
        "{OF_THREADS}, as a share of a CPU; us/KiB: CPU time of the whole host per KiB moved (means of the repeats); {lost}"
    );
    page.paragraph(2, Tone::Faint, &about);
}

/// A figure of a repeat.
type Pick = fn(&StreamSample) -> Option<f64>;

/// Mean of a figure over the repeats, as `compare` computes it.
fn mean_of(row: &StreamRow, pick: Pick) -> Option<f64> {
    let values: Vec<f64> = row.samples.iter().filter_map(pick).collect();
    Some(stats::mean(&values)?.value)
}

fn share_of(row: &StreamRow, pick: Pick) -> String {
    mean_of(row, pick).map_or("-".to_owned(), format::share_short)
}

/// The warnings that the verdict does not already contain.
fn warnings(report: &StreamReport) -> Vec<String> {
    let others = report.warnings.iter().filter_map(|warning| match warning {
        StreamWarning::FullThreads(_) | StreamWarning::FullCpus(_) | StreamWarning::OtherRun(_) => None,
        StreamWarning::Other(sentence) => Some(sentence.clone()),
    });
    others.collect()
}

/// Configurations that ended early and, for a partial run or one without results, the settings that were not possible.
/// The page with `-v` shows the missing figures of each configuration.
fn not_measured(report: &StreamReport) -> Vec<String> {
    let cut =
        report.rows.iter().filter_map(|row| Some(format!("{}: ended early: {}", name(row), row.cut_short.as_ref()?)));
    let gone = report.not_had.iter().filter(|_| report.partial || report.rows.is_empty());
    gone.cloned().chain(cut).collect()
}
