//! [`compare`]: what `netcliff compare` prints.

use netcliff_lab::compare::{Change, Class, Comparison, Gate, Outcome, Row, Side, Verdict};

use super::Style;
use super::page::{Page, Tone};
use crate::drawing::unit_of;
use crate::format::{self, Unit};

/// Most settings shown a run of facts: the rest is in the JSON.
const CHANGES_SHOWN: usize = 40;

/// The page: both runs, every figure of the points they share, the bar, what else changed, what a reader must know.
pub fn compare(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    page.paragraph(0, Tone::Strong, &format!("netcliff compare: {}", comparison.kind));
    side(&mut page, "A", &comparison.a);
    side(&mut page, "B", &comparison.b);
    figures(&mut page, comparison);
    bar(&mut page, comparison);
    changed(&mut page, comparison);
    for (which, points) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !points.is_empty() {
            page.heading(&format!("ONLY IN {which}"));
            points.iter().for_each(|point| page.item("- ", point));
        }
    }
    page.heading("NOTES");
    page.item("- ", &method(comparison));
    comparison.notes.iter().for_each(|note| page.item("- ", note));
    page.finish()
}

/// How it was tested, a sentence; for the page of the browser too.
pub fn method(comparison: &Comparison) -> String {
    let (speed, cost) = (tests(comparison, Class::Speed), tests(comparison, Class::Cost));
    let unbounded = comparison.rows.iter().any(|row| row.change.is_none());
    let unbounded = if unbounded { "; a change is \"-\" where A is so uncertain that it has no bounds" } else { "" };
    format!(
        "Welch's t over repeats; p is corrected by Holm over the {speed} tests of speed and the {cost} of cost, so that the \
         chance of even one false difference in either is at most {}; intervals are of each figure alone{unbounded}",
        format::share_short(1.0 - comparison.confidence)
    )
}

fn tests(comparison: &Comparison, class: Class) -> usize {
    comparison.rows.iter().filter(|row| row.quantity.class == class && row.p.is_some()).count()
}

fn side(page: &mut Page, which: &str, side: &Side) {
    let partial = if side.partial { " (partial)" } else { "" };
    let date = format::date_utc(side.provenance.started_unix_s);
    page.fact(which, &format!("{}{partial}, {date}: {}", side.name, side.provenance.command));
}

fn figures(page: &mut Page, comparison: &Comparison) {
    let confidence = format::share_short(comparison.confidence);
    page.heading(&format!("B AGAINST A (MEANS OF THE REPEATS; CHANGE WITH {confidence} INTERVAL, CORRECTED P)"));
    let mut lines = Vec::new();
    let mut point = "";
    for row in &comparison.rows {
        if row.point != point {
            point = &row.point;
            lines.push(format!("  {}", format::printable(point)));
        }
        lines.push(line(row));
    }
    page.block(&lines.join("\n"));
}

fn line(row: &Row) -> String {
    let unit = unit_of(row.quantity.dimension);
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::NotShown => "",
        Verdict::NotTested | Verdict::Computed => "",
    };
    let p_value = match row.p_corrected {
        Some(p_value) => p(p_value),
        None if matches!(row.verdict, Verdict::NotTested | Verdict::Computed) => "no test".to_owned(),
        None => "-".to_owned(),
    };
    let line = format!(
        "    {:<14}{:>12}{:>12} {:>22}{:>8} {verdict}",
        name(row),
        format::quantity(row.a.value, unit),
        format::quantity(row.b.value, unit),
        change(row),
        p_value
    );
    line.trim_end().to_owned()
}

/// The figure's name for people.
pub fn name(row: &Row) -> String {
    match row.quantity.name {
        "goodput_bps" => "goodput",
        "sender_us_per_kib" => "sender us/KiB",
        "receiver_us_per_kib" => "recv us/KiB",
        "system_us_per_kib" => "host us/KiB",
        "rate_per_s" => "rate",
        "client_us_per_transaction" => "client us each",
        "server_us_per_transaction" => "server us each",
        "host_us_per_transaction" => "host us each",
        "latency_p50_s" => "latency p50",
        "latency_p99_s" => "latency p99",
        "latency_mean_s" => "latency mean",
        "cliff_pps" => "cliff",
        "peak_pps" => "peak",
        "throughput_pps" => "throughput",
        other => other,
    }
    .to_owned()
}

/// The relative change in percent with its interval; "-" where A says too little.
pub fn change(row: &Row) -> String {
    row.change.as_ref().map_or("-".to_owned(), percent)
}

/// A relative change in percent with its interval.
pub fn percent(change: &netcliff_core::Figure) -> String {
    let percent = |share: f64| {
        let percent = share * 100.0;
        let decimals = if percent.abs() < 9.995 { 2 } else { usize::from(percent.abs() < 99.95) };
        format!("{percent:+.decimals$}")
    };
    match change.interval {
        Some(ends) => format!("{} % ({}..{})", percent(change.value), percent(ends.low), percent(ends.high)),
        None => format!("{} %", percent(change.value)),
    }
}

/// A p value in few digits.
pub fn p(p: f64) -> String {
    match p {
        p if p < 1e-4 => "<0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.2}"),
    }
}

fn bar(page: &mut Page, comparison: &Comparison) {
    let Some(share) = comparison.fail_if_slower else { return };
    page.heading(&format!("SLOWER BY MORE THAN {}", format::share_short(share)));
    let (tone, verdict) = bar_verdict(comparison);
    page.paragraph(2, if tone { Tone::Alarm } else { Tone::Strong }, &verdict);
    for row in open_rows(comparison) {
        page.item("- ", &bar_line(row));
    }
}

/// The figures that keep B from passing: slower by more than the bar, or not shown to be slower by less.
pub fn open_rows(comparison: &Comparison) -> impl Iterator<Item = &Row> {
    comparison.rows.iter().filter(|row| row.bar.is_some_and(|bar| !bar.within))
}

/// Whether B fails its bar, and the verdict in a sentence.
pub fn bar_verdict(comparison: &Comparison) -> (bool, String) {
    let Some(gate) = comparison.gate else { return (false, String::new()) };
    let verdict = match gate.outcome {
        Outcome::Passed => {
            "PASSED: every figure of speed is shown to be slower by less than that, if at all.".to_owned()
        }
        Outcome::Failed => {
            let shown = comparison.rows.iter().filter(|row| row.bar.is_some_and(|bar| bar.shown)).count();
            format!("FAILED: shown of {shown} of {} figures of speed.", gate.figures)
        }
        Outcome::Inconclusive => inconclusive(gate),
    };
    (comparison.failed, verdict)
}

fn inconclusive(gate: Gate) -> String {
    if gate.tested == 0 {
        return "INCONCLUSIVE: no figure of speed could be tested.".to_owned();
    }
    let detectable = match gate.detectable {
        Some(share) => format!("a slow-down of {} or more", format::share_short(share)),
        None => "no slow-down, however large,".to_owned(),
    };
    format!(
        "INCONCLUSIVE: neither shown nor excluded. Of the least known figure these repeats show {detectable} four times in five: \
         measure with more repeats."
    )
}

/// A figure in a sentence, with how it stands to the bar.
pub fn bar_line(row: &Row) -> String {
    let bar = row.bar;
    let verdict = match bar.and_then(|bar| Some((bar, bar.p_corrected?))) {
        Some((bar, p_value)) if bar.shown => format!("slower by more (p {})", p(p_value)),
        Some((bar, p_value)) if bar.beyond => format!("slower by more may be chance (p {})", p(p_value)),
        Some((bar, _)) => format!("slower by more is not excluded (p {})", bar.p_within.map_or("-".to_owned(), p)),
        None if row.is_open() => "a lower limit: not tested".to_owned(),
        None => "fewer than 2 repeats on a side: not tested".to_owned(),
    };
    format!("{}, {}: {}; {verdict}", row.point, name(row), change(row))
}

fn changed(page: &mut Page, comparison: &Comparison) {
    page.heading("WHAT ELSE CHANGED");
    if comparison.changed.is_empty() {
        page.paragraph(2, Tone::Plain, "Nothing that was recorded.");
    }
    for change in comparison.changed.iter().take(CHANGES_SHOWN) {
        page.item("- ", &changed_line(change));
    }
    if let more @ 1.. = comparison.changed.len().saturating_sub(CHANGES_SHOWN) {
        page.item("- ", &format!("and {more} more; --json has all"));
    }
}

/// A setting with both values.
pub fn changed_line(change: &Change) -> String {
    let (a, b) = sides(change);
    format!("{}: {a} -> {b}", change.name)
}

/// What a setting is in both runs; the second with how far a number moved.
pub fn sides(change: &Change) -> (String, String) {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
    let share = change.change.map_or(String::new(), |share| format!(" ({:+.0} %)", share * 100.0));
    (value(&change.a), value(&change.b) + &share)
}

/// A figure as `A` or `B` had it, for the page of the browser.
pub fn value(figure: &netcliff_core::Figure, unit: Unit) -> String {
    format::plus_minus(figure, unit)
}
