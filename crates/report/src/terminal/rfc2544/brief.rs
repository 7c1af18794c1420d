//! The answer as a line, and a line for each frame size and test.

use netcliff_rfc2544::report::{Limit, Rfc2544Report, SizeReport};

use super::{
    Tables, add_goals, between, bursts, ended_early, goals, lacks, latency, lost, notes, pps, searched, table,
    throughput, throughput_of, unfinished, words,
};
use crate::format;
use crate::terminal::Style;
use crate::terminal::page::{Page, Tone};

/// The page that `netcliff rfc2544` prints without `-v`: a line for each frame size and test.
pub fn rfc2544_brief(report: &Rfc2544Report, style: Style) -> String {
    let mut page = Page::new(style);
    answer(&mut page, report);
    let mut tables = Tables::new();
    let each = [throughput, unfinished, goals, latency, loss_in_brief, bursts];
    each.into_iter().for_each(|add| add(&mut tables, report));
    tables.iter().for_each(|(heading, rows)| table(&mut page, heading, rows));
    lacks(&mut page, report);
    page.heading("SET-UP");
    page.fact("device", &report.device);
    page.fact("search", &searched(report));
    page.fact("after a trial", &between(&report.asked));
    add_goals(&mut page, &report.asked);
    let notes = notes(report).len();
    page.paragraph(
        0,
        Tone::Faint,
        &format!("-v shows the tester, what was predicted, the loss at every load, and {notes} notes on the method."),
    );
    page.finish()
}

/// Adds the title, the verdict, and a doubt about it.
pub(super) fn answer(page: &mut Page, report: &Rfc2544Report) {
    let title = format!("netcliff {}: forwarding by RFC 2544", report.provenance.version);
    page.paragraph(0, Tone::Strong, &title);
    if let Some(why) = ended_early(report) {
        page.paragraph(0, Tone::Alarm, &format!("PARTIAL: {why}"));
    }
    page.paragraph(0, Tone::Strong, &verdict(report));
    if let Some(doubt) = doubt(report) {
        page.paragraph(0, Tone::Alarm, &doubt);
    }
}

/// Throughput by frame size as a line, with its limits: `Throughput without loss: 64B 400 kpps, 1518B >= 350 kpps
/// (limit: the tester).`
pub(crate) fn verdict(report: &Rfc2544Report) -> String {
    if !report.asked.tests.throughput {
        let clean = |size: &SizeReport| {
            let curve = size.loss.as_ref()?;
            let clean = curve.trials.iter().filter(|trial| trial.lost == 0).map(|trial| trial.load_pps);
            let highest = clean.reduce(f64::max).map_or("no load".to_owned(), |load| pps(Some(load)));
            Some(format!("{} {highest}", size.frame))
        };
        let all: Vec<String> = report.sizes.iter().filter_map(clean).collect();
        return format!("Highest load without loss: {}.", if all.is_empty() { "-".to_owned() } else { all.join(", ") });
    }
    let goal = report.asked.goal();
    let lost = if goal.loss_ratio > 0.0 {
        format!("at up to {} loss", format::loss(goal.loss_ratio))
    } else {
        "without loss".to_owned()
    };
    let of = |size: &SizeReport| {
        let limit = match size.limit {
            Some(Limit::Tester) => " (limit: the tester)",
            Some(Limit::Asked) => " (the highest load allowed, --max)",
            Some(Limit::Device) => "",
            None if size.forwarded_pps().is_none() && size.unfinished.is_some() => " (search ended early)",
            None if report.partial.is_some() && size.throughput.is_none() => " (not searched)",
            None => " (not found)",
        };
        format!("{} {}{limit}", size.frame, throughput_of(size))
    };
    let all: Vec<String> = report.sizes.iter().map(of).collect();
    let rests = match report.asked.searches {
        1 => "one search per frame size, so without a confidence interval".to_owned(),
        several => format!("mean of {several} searches with its 95 % interval"),
    };
    match all.is_empty() {
        true => "Throughput: nothing was measured.".to_owned(),
        false => format!("Throughput {lost}: {}; {rests}.", all.join(", ")),
    }
}

/// Share of void trials above which their figures are in doubt.
const MANY_VOID: f64 = 0.25;

/// A reason to doubt the figures. `None` if at most a quarter of the trials are void.
pub(crate) fn doubt(report: &Rfc2544Report) -> Option<String> {
    let (void, all) =
        report.sizes.iter().fold((0, 0), |(void, all), size| (void + size.seen.void_trials, all + size.seen.trials));
    (void as f64 > MANY_VOID * all as f64).then(|| {
        let (does, left) = (if void == 1 { "does" } else { "do" }, all.saturating_sub(void));
        format!(
            "In doubt: {void} of {all} trials {does} not count, because the tester's sender or receiver was delayed; the result uses {left}. Stop other programs (top shows them), then repeat."
        )
    })
}

/// A line a size: the highest load without loss, and the loss at the highest load.
fn loss_in_brief(tables: &mut Tables, report: &Rfc2544Report) {
    let mut rows = vec![words(&["size", "no loss up to", "of highest load", "lost at highest load", "void loads*"])];
    for size in &report.sizes {
        let Some(curve) = &size.loss else { continue };
        let clean = curve.trials.iter().filter(|trial| trial.lost == 0).map(|trial| trial.load_pps).reduce(f64::max);
        let highest = curve.trials.iter().max_by(|a, b| a.load_pps.total_cmp(&b.load_pps));
        let share = clean.map_or("-".to_owned(), |load| format::share(load / size.max_pps));
        let lost = highest.map_or("-".to_owned(), |trial| format!("{} at {}", lost(trial), pps(Some(trial.load_pps))));
        rows.push(vec![size.frame.to_string(), pps(clean), share, lost, curve.void_pps.len().to_string()]);
    }
    tables.push(("FRAME LOSS (26.3); *: loads at which the tester was too slow".to_owned(), rows));
}
