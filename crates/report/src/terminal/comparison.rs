//! [`compare`]: output of `netcliff compare`.

use std::collections::BTreeSet;

use netcliff_core::{Figure, Interval};
use netcliff_lab::compare::{
    Change, Class, Comparison, Gate, Outcome, Quantity, Repetition, Row, Side, Verdict, point_title,
};

use super::Style;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// Most settings shown; the rest is in the JSON.
const CHANGES_SHOWN: usize = 40;
/// Most changes, figures, points and notes on a screen of 40 lines.
const BRIEF_CHANGES: usize = 3;
const BRIEF_ROWS: usize = 14;
const BRIEF_POINTS: usize = 3;

/// Largest numbers of changes, rows and points that a page shows.
#[derive(Clone, Copy)]
struct Most {
    changes: usize,
    rows: usize,
    points: usize,
    /// What shows the rest.
    rest: &'static str,
}

/// The complete page: the answer, both runs, every figure of the points that both have, the result against
/// `--fail-if-slower`, other changes, and notes.
pub fn compare(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    let most = Most { changes: CHANGES_SHOWN, rows: usize::MAX, points: usize::MAX, rest: "--json has all" };
    begin(&mut page, comparison, most);
    let method = comparison.is_tested().then(|| method(comparison));
    let notes: Vec<String> = method.into_iter().chain(comparison.notes.iter().cloned()).collect();
    page.list("NOTES", &notes);
    page.finish()
}

/// A comparison on one screen: the answer, and the beginning of long lists.
pub fn compare_brief(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    let most = Most { changes: BRIEF_CHANGES, rows: BRIEF_ROWS, points: BRIEF_POINTS, rest: "-v shows all" };
    begin(&mut page, comparison, most);
    let notes = comparison.notes.len();
    let notes = if notes == 1 { "1 note".to_owned() } else { format!("{notes} notes") };
    let tested = if comparison.is_tested() { ", how it was tested," } else { "" };
    page.paragraph(0, Tone::Faint, &format!("-v shows every figure and change{tested} and {notes}."));
    page.finish()
}

fn begin(page: &mut Page, comparison: &Comparison, most: Most) {
    let (alarm, sentence) = answer(comparison);
    page.paragraph(0, if alarm { Tone::Alarm } else { Tone::Strong }, &sentence);
    side(page, "A", &comparison.a);
    side(page, "B", &comparison.b);
    figures(page, comparison, most);
    bar(page, comparison, most);
    changed(page, comparison, most);
    for (which, points) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !points.is_empty() {
            page.heading(&format!("ONLY IN {which}"));
            let titles = points.iter().take(most.points).map(|point| point_title(comparison.kind, point));
            titles.for_each(|title| page.item("- ", &title));
            if let more @ 1.. = points.len().saturating_sub(most.points) {
                page.item("- ", &format!("and {more} more: {}", most.rest));
            }
        }
    }
}

/// Size of a row's relative change; 0 if the row has none.
fn size(row: &Row) -> f64 {
    row.change.as_ref().map_or(0.0, |change| change.value.abs())
}

/// True if B fails `--fail-if-slower` or, without that option, if a figure of B is significantly worse; and the answer
/// as a line. With `--fail-if-slower` the answer is that verdict. Otherwise it names the figures that differ
/// significantly, and the smallest difference that these repeats would have shown.
pub fn answer(comparison: &Comparison) -> (bool, String) {
    if comparison.gate.is_some() {
        return bar_verdict(comparison);
    }
    let tested: Vec<&Row> = comparison.rows.iter().filter(|row| row.p_corrected.is_some()).collect();
    let confidence = format::share_short(comparison.confidence);
    if tested.is_empty() {
        return (false, untested(comparison));
    }
    let count = |verdict| tested.iter().filter(|row| row.verdict == verdict).count();
    let (better, worse) = (count(Verdict::Better), count(Verdict::Worse));
    let of = if tested.len() == 1 { "1 tested figure".to_owned() } else { format!("{} tested figures", tested.len()) };
    if better + worse == 0 {
        return (false, format!("No difference is shown in {of} ({confidence}). {}.", would_show(comparison)));
    }
    let shown = tested.iter().filter(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse));
    let largest = shown.max_by(|a, b| size(a).total_cmp(&size(b)));
    let largest = largest.map_or(String::new(), |row| {
        format!(". Largest change: {}, {} {}", point_title(comparison.kind, &row.point), name(row), change(row))
    });
    let sentence = format!(
        "B is worse in {worse} and better in {better} of {of} ({confidence} confidence for all of them together){largest}. {}.",
        would_show(comparison)
    );
    (worse > 0, sentence)
}

/// Why no figure was tested, with a remedy, and what the intervals then cover.
fn untested(comparison: &Comparison) -> String {
    let not_tested = |row: &&Row| row.verdict == Verdict::NotTested;
    let why = if comparison.rows.iter().filter(not_tested).any(|row| !row.is_open()) {
        format!("Not enough repeats to tell whether B differs from A: {}.", repeat(comparison))
    } else if comparison.rows.iter().any(|row| row.verdict == Verdict::NotTested) {
        "Whether B differs from A is unknown: the lower value of each figure is only a lower limit.".to_owned()
    } else {
        "No figure was tested: the model or the simulator computed them, and only measured figures are tested."
            .to_owned()
    };
    let intervals = if has_intervals(comparison) || comparison.rows.iter().any(|row| own_intervals(row).is_some()) {
        " Intervals cover errors within each run (of computed figures: errors of the costs, not of the model), not changes of the host."
    } else {
        ""
    };
    why + intervals
}

/// Whether any change has an interval.
fn has_intervals(comparison: &Comparison) -> bool {
    comparison.rows.iter().filter_map(|row| row.change).any(|change| change.interval.is_some())
}

/// Remedy if nothing could be tested; with the command, if both runs have the same.
fn repeat(comparison: &Comparison) -> String {
    let not_tested = || comparison.rows.iter().filter(|row| row.verdict == Verdict::NotTested);
    let all_open = not_tested().all(Row::is_open);
    let few = not_tested().filter(|row| all_open || !row.is_open());
    let ways: BTreeSet<Repetition> = few.map(|row| Repetition::of(comparison.kind, row.quantity)).collect();
    let options: Vec<&str> = ways.iter().filter_map(|way| way.option()).collect();
    if options.is_empty() {
        let longer = ways.contains(&Repetition::Time);
        let how = if longer { "for a longer time" } else { "with more repeats" };
        return format!("measure each again {how}");
    }
    let more = options.iter().map(|option| format!("{option} 5")).collect::<Vec<_>>().join(" ");
    let command = &comparison.a.provenance.command;
    let has_one = options.iter().any(|option| command.contains(option));
    if command.is_empty() || *command != comparison.b.provenance.command || has_one {
        return format!("run each again with {more}");
    }
    format!(
        "run `{command} {more}` for A, for B and for A again; if the two runs of A differ as much as A and B, the host changed"
    )
}

/// Smallest change that these repeats would have shown.
fn would_show(comparison: &Comparison) -> String {
    match comparison.detectable {
        Some(share) => {
            format!(
                "These repeats would show a slow-down of {} or more with a probability of 80 %",
                format::share_short(share)
            )
        }
        None => "For some rate or latency these repeats cannot show a slow-down, however large".to_owned(),
    }
}

/// Explanations of the figures, for the terminal and the HTML page.
pub fn legends(comparison: &Comparison) -> Vec<String> {
    legend(comparison).map(str::to_owned).into_iter().chain(without_interval(comparison)).collect()
}

/// What cliff, peak and livelock mean; `None` without a livelock.
fn legend(comparison: &Comparison) -> Option<&'static str> {
    let livelock = comparison.rows.iter().any(|row| row.quantity.name == "livelock");
    livelock.then_some(
        "cliff: highest load within the loss limit; peak: highest delivered rate; left at 2x: rate delivered at twice the cliff, as a share of the peak.",
    )
}

/// Which changes have an interval; `None` if each has one, or if the reason is another.
fn without_interval(comparison: &Comparison) -> Option<String> {
    let is_single = |row: &&Row| [row.a_repeats, row.b_repeats].contains(&Some(1));
    let lacks = |row: &&Row| row.change.is_some_and(|change| change.interval.is_none());
    let not_tested = comparison.rows.iter().filter(|row| row.verdict == Verdict::NotTested);
    let rows: Vec<&Row> = not_tested.filter(is_single).filter(lacks).collect();
    if rows.is_empty() {
        return None;
    }
    let options: BTreeSet<&str> =
        rows.iter().filter_map(|row| Repetition::of(comparison.kind, row.quantity).option()).collect();
    let with = if options.is_empty() {
        "two or more repeats".to_owned()
    } else {
        format!("{} 2 or more", options.into_iter().collect::<Vec<_>>().join(" and "))
    };
    Some(format!("Measured changes have an interval if both runs have {with}."))
}

/// The intervals of both runs if one of them has its own for a value without repeats; otherwise `None`.
fn own_intervals(row: &Row) -> Option<String> {
    if row.own_intervals == [None, None] {
        return None;
    }
    let unit = Unit::of(row.quantity.dimension);
    let of = |figure: &Figure| {
        let Interval { high, confidence, .. } = figure.interval?;
        let lead = if figure.value == 0.0 { high } else { figure.value };
        let ends = format::interval(figure, unit, "-")?;
        let sure = if confidence > 0.0 { format!(" ({})", format::share_short(confidence)) } else { String::new() };
        Some(format!("{ends}{}{sure}", unit.scale(lead).1))
    };
    let or_none = |figure: &Figure, repeats: Option<u32>| {
        let none = if repeats == Some(1) { "none (measured once)" } else { "none" };
        of(figure).unwrap_or_else(|| none.to_owned())
    };
    let [a, b] = row.figures();
    let (a, b) = (or_none(&a, row.a_repeats), or_none(&b, row.b_repeats));
    Some(format!("interval of A {a}, of B {b}"))
}

/// The method of the tests as a sentence, for the terminal and the HTML page.
pub fn method(comparison: &Comparison) -> String {
    let (speed, cost) = (tests(comparison, Class::Speed), tests(comparison, Class::Cost));
    let unbounded = comparison.rows.iter().any(|row| row.change.is_none());
    let unbounded = if unbounded { "; a change is \"-\" where A is so uncertain that it has no bounds" } else { "" };
    format!(
        "Welch's t-test over repeats; p is corrected by Holm over the {speed} tests of rates and latencies and over the {cost} tests of costs, so that the chance of even one false difference in either group is at most {}; each interval is for its figure alone{unbounded}",
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

fn figures(page: &mut Page, comparison: &Comparison, most: Most) {
    let tested = comparison.is_tested();
    let how = if tested { "MEANS OF THE REPEATS; P CORRECTED BY HOLM" } else { "WITHOUT A TEST" };
    page.heading(&format!("CHANGES FROM A TO B ({how})"));
    let change = if has_intervals(comparison) {
        format!("change ({})", format::share_short(comparison.confidence))
    } else {
        "change".to_owned()
    };
    let p = if tested { "p" } else { "" };
    let head = format!("    {:<14}{:>12}{:>12} {change:>22}{p:>8}", "", "A", "B");
    let mut lines = vec![head.trim_end().to_owned()];
    let mut point = "";
    let shown = shown_rows(comparison, most.rows);
    for row in &shown {
        if row.point != point {
            point = &row.point;
            lines.push(format!("  {}", format::printable(&point_title(comparison.kind, point))));
        }
        lines.push(line(row, tested));
        lines.extend(own_intervals(row).map(|own| format!("      {own}")));
    }
    page.block(&lines.join("\n"));
    if let Some(hidden) = hidden_rows(comparison, &shown) {
        page.paragraph(2, Tone::Plain, &format!("{hidden}: {}", most.rest));
    }
    let legends = legends(comparison);
    if !legends.is_empty() {
        page.paragraph(2, Tone::Faint, &legends.join(" "));
    }
}

fn is_significant(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Better | Verdict::Worse)
}

/// The rows that a page with room for `most` shows, in their order. If there are more rows, those with a significant
/// difference or, if nothing was tested, all; of these the largest changes.
fn shown_rows(comparison: &Comparison, most: usize) -> Vec<&Row> {
    let all = comparison.rows.len() <= most || !comparison.is_tested();
    let mut shown: Vec<(usize, &Row)> =
        comparison.rows.iter().enumerate().filter(|(_, row)| all || is_significant(row)).collect();
    if shown.len() > most {
        shown.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
        shown.truncate(most);
        shown.sort_by_key(|(at, _)| *at);
    }
    shown.into_iter().map(|(_, row)| row).collect()
}

/// The numbers of figures that are not shown, by their result; `None` if all are shown.
fn hidden_rows(comparison: &Comparison, shown: &[&Row]) -> Option<String> {
    let hidden = |which: &dyn Fn(&Row) -> bool| {
        let all = comparison.rows.iter().filter(|row| which(row)).count();
        all - shown.iter().filter(|row| which(row)).count()
    };
    if !comparison.is_tested() {
        return match hidden(&|_| true) {
            0 => None,
            more => Some(format!("{} more, with smaller changes", format::counted(more as u64, "figure"))),
        };
    }
    let parts = [
        (hidden(&is_significant), "with a smaller significant difference"),
        (hidden(&|row| row.verdict == Verdict::NotShown), "without a significant difference"),
        (hidden(&|row| matches!(row.verdict, Verdict::NotTested | Verdict::Computed)), "not tested"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (!parts.is_empty()).then(|| format!("More figures: {}", parts.join(", ")))
}

fn line(row: &Row, tested: bool) -> String {
    let unit = Unit::of(row.quantity.dimension);
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::NotShown => "",
        Verdict::NotTested | Verdict::Computed => "",
    };
    let p_value = match row.p_corrected {
        Some(p_value) => p(p_value),
        None if !tested => String::new(),
        None if matches!(row.verdict, Verdict::NotTested | Verdict::Computed) => "no test".to_owned(),
        None => "-".to_owned(),
    };
    let line = format!(
        "    {:<14}{:>12}{:>12} {:>22}{:>8} {verdict}",
        name(row),
        format::quantity(row.a.value, unit),
        format::quantity(row.b.value, unit),
        // A change in points has no room for its interval.
        row.difference.map_or_else(|| change(row), |difference| points(&Figure::exact(difference.value))),
        p_value
    );
    line.trim_end().to_owned()
}

/// Name of the figure on screens.
pub fn name(row: &Row) -> String {
    words_of(&row.quantity)
}

/// Name of a quantity on screens.
pub fn words_of(quantity: &Quantity) -> String {
    match quantity.name {
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
        "livelock" => "left at 2x",
        "cliff_rps" => "cliff",
        "request_us" => "CPU us/request",
        "per_packet_s" => "CPU a packet",
        "share" => "share of CPU",
        "latency_p999_s" => "latency p99.9",
        "latency_tagged_s" => "tagged latency",
        "latency_tagged_kernel_s" => "tagged, kernel",
        "latency_tagged_hardware_s" => "tagged, ports",
        "burst_frames" => "longest burst",
        "wire_bps" => "rate on wire",
        "delivered_wire_bps" => "wire, received",
        "link_share" => "of link rate",
        "system_cpus" => "busy CPUs",
        "sender_cpu" => "sender's CPU",
        "receiver_cpu" => "receiver's CPU",
        "sender_kernel_share" => "sender kernel",
        "receiver_kernel_share" => "recv kernel",
        other => other,
    }
    .to_owned()
}

/// The change with its interval: of a share in percentage points, else in percent; "-" if A is too uncertain.
pub fn change(row: &Row) -> String {
    row.difference.as_ref().map_or_else(|| relative(row), points)
}

/// The relative change in percent with its interval; "-" if A is too uncertain.
fn relative(row: &Row) -> String {
    row.change.as_ref().map_or("-".to_owned(), percent)
}

/// A relative change in percent with its interval.
pub fn percent(change: &Figure) -> String {
    signed(change, "%")
}

/// The difference of two shares in percentage points with its interval.
fn points(difference: &Figure) -> String {
    signed(difference, "points")
}

fn signed(share: &Figure, unit: &str) -> String {
    let hundredths = |share: f64| {
        let hundredths = share * 100.0;
        let decimals = if hundredths.abs() < 9.995 { 2 } else { usize::from(hundredths.abs() < 99.95) };
        format!("{hundredths:+.decimals$}")
    };
    let value = hundredths(share.value);
    match share.interval {
        Some(ends) => format!("{value} {unit} ({}..{})", hundredths(ends.low), hundredths(ends.high)),
        None => format!("{value} {unit}"),
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

fn bar(page: &mut Page, comparison: &Comparison, most: Most) {
    let Some(share) = comparison.fail_if_slower else { return };
    let mut open: Vec<&Row> = open_rows(comparison).collect();
    open.sort_by(|a, b| size(b).total_cmp(&size(a)));
    if open.is_empty() {
        return;
    }
    page.heading(&format!("SLOWER BY MORE THAN {}", format::share_short(share)));
    open.iter().take(most.points).for_each(|row| page.item("- ", &bar_line(comparison, row)));
    if let more @ 1.. = open.len().saturating_sub(most.points) {
        page.item("- ", &format!("and {more} more with smaller changes: {}", most.rest));
    }
}

/// The figures for which B does not pass `--fail-if-slower`: slower by more than the limit, or not shown to be slower
/// by less.
pub fn open_rows(comparison: &Comparison) -> impl Iterator<Item = &Row> {
    comparison.rows.iter().filter(|row| row.bar.is_some_and(|bar| !bar.within))
}

/// Whether B fails `--fail-if-slower`, and the verdict as a sentence.
pub fn bar_verdict(comparison: &Comparison) -> (bool, String) {
    let Some(gate) = comparison.gate else { return (false, String::new()) };
    let verdict = match gate.outcome {
        Outcome::Passed => {
            let share = format::share_short(comparison.fail_if_slower.unwrap_or_default());
            format!(
                "PASSED: every rate and latency is shown to be worse by less than {share}, if at all. {}.",
                would_show(comparison)
            )
        }
        Outcome::Failed => {
            let shown = comparison.rows.iter().filter(|row| row.bar.is_some_and(|bar| bar.shown)).count();
            let share = format::share_short(comparison.fail_if_slower.unwrap_or_default());
            format!(
                "FAILED: {shown} of {} rates and latencies are shown to be worse by more than {share}.",
                gate.figures
            )
        }
        Outcome::Inconclusive => inconclusive(comparison, gate),
    };
    (comparison.failed, verdict)
}

fn inconclusive(comparison: &Comparison, gate: Gate) -> String {
    if gate.figures == 0 {
        return "INCONCLUSIVE: the runs have no measured rate or latency.".to_owned();
    }
    if gate.tested == 0 {
        return format!("INCONCLUSIVE: no rate or latency could be tested; {}.", repeat(comparison));
    }
    let detectable = match gate.detectable {
        Some(share) => format!("a slow-down of {} or more", format::share_short(share)),
        None => "no slow-down, however large,".to_owned(),
    };
    format!(
        "INCONCLUSIVE: a slow-down is neither shown nor excluded. For the least certain figure these repeats would show {detectable} with a probability of 80 %: measure with more repeats."
    )
}

/// A figure as a sentence, with its result against `--fail-if-slower`.
pub fn bar_line(comparison: &Comparison, row: &Row) -> String {
    let bar = row.bar;
    let verdict = match bar.and_then(|bar| Some((bar, bar.p_corrected?))) {
        Some((bar, p_value)) if bar.shown => format!("slower by more (p {})", p(p_value)),
        Some((bar, p_value)) if bar.beyond => format!("slower by more may be chance (p {})", p(p_value)),
        Some((bar, _)) => format!("slower by more is not excluded (p {})", bar.p_within.map_or("-".to_owned(), p)),
        None if row.is_open() => "a lower limit: not tested".to_owned(),
        None => "fewer than 2 repeats on a side: not tested".to_owned(),
    };
    // The limit is relative, also for a share.
    let relative = if row.difference.is_some() { format!(", {} of A", relative(row)) } else { String::new() };
    let point = point_title(comparison.kind, &row.point);
    format!("{point}, {}: {}{relative}; {verdict}", name(row), change(row))
}

/// The other differences: settings and facts in their order, then costs, the largest relative change first.
pub fn by_size(comparison: &Comparison) -> Vec<&Change> {
    let mut changes: Vec<&Change> = comparison.changed.iter().collect();
    let size = |change: &Change| change.change.map_or(f64::INFINITY, f64::abs);
    changes.sort_by(|a, b| size(b).total_cmp(&size(a)));
    changes
}

/// What the other differences are that a page has no room for.
fn hidden_changes(shown: &[&Change], hidden: &[&Change]) -> String {
    let of_costs = |changes: &[&Change]| changes.iter().filter(|change| change.change.is_some()).count();
    let costs = of_costs(hidden);
    let costs_named = format::counted(costs as u64, "cost");
    match (hidden.len() - costs, costs) {
        (settings, 0) => format!("and {} more", format::counted(settings as u64, "setting")),
        (0, _) if of_costs(shown) > 0 => {
            format!("and {costs_named} more, with smaller changes")
        }
        (0, _) => format!("and {costs_named}"),
        (settings, _) => format!("and {} and {costs_named} more", format::counted(settings as u64, "setting")),
    }
}

fn changed(page: &mut Page, comparison: &Comparison, most: Most) {
    page.heading("OTHER DIFFERENCES");
    if comparison.changed.is_empty() {
        page.paragraph(2, Tone::Plain, "None of what netcliff records (kernel, settings, devices).");
    }
    let changes = by_size(comparison);
    let (shown, hidden) = changes.split_at(changes.len().min(most.changes));
    shown.iter().for_each(|change| page.item("- ", &changed_line(change)));
    if !hidden.is_empty() {
        page.item("- ", &format!("{}: {}", hidden_changes(shown, hidden), most.rest));
    }
    if comparison.costs_differ() {
        page.paragraph(
            2,
            Tone::Plain,
            "Calibrated costs differ: the host or its speed may have changed. The cliff follows their sum, in which changes of single costs can cancel.",
        );
    }
}

/// A setting with both values.
pub fn changed_line(change: &Change) -> String {
    let (a, b) = sides(change);
    format!("{}: {a} -> {b}", change.name)
}

/// Values of a setting in both runs; the second with its relative change if it is a number.
pub fn sides(change: &Change) -> (String, String) {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
    let share = change.change.map_or(String::new(), |share| format!(" ({:+.0} %)", share * 100.0));
    (value(&change.a), value(&change.b) + &share)
}

/// A figure of `A` or `B` with its interval, for the HTML page.
pub fn value(figure: &Figure, unit: Unit) -> String {
    format::plus_minus(figure, unit)
}
