//! Output of the commands. `netcliff find` prints [`brief`], and with `-v` [`finding`]. `stream` prints
//! [`stream_brief`] or [`stream()`], `rr` prints [`rr_brief`] or [`rr()`].

mod advice;
mod brief;
mod chart;
pub(crate) mod comparison;
mod cpus;
mod drops;
mod experiment;
pub(crate) mod forwarding;
mod headroom;
mod inspection;
mod learned;
mod limits;
pub mod live;
mod page;
mod plot;
mod profile;
pub(crate) mod rfc2544;
mod rr;
mod service;
mod stream;
pub(crate) mod transfers;
pub(crate) mod trend;

use netcliff_core::Finding;
use netcliff_core::record::OtherRun;

use crate::format::{self, Unit};
use crate::sheet::{self, Verdict};
use page::{Page, Tone};

pub use advice::{settings, settings_brief};
pub use brief::brief;
pub use comparison::{compare, compare_brief};
pub use drops::{drops, paths};
pub use experiment::{experiment, experiment_with};
pub use forwarding::forwarding;
pub use headroom::headroom;
pub use inspection::{inspection, inspection_brief};
pub use learned::{learned, learned_line};
pub use limits::{limits, limits_brief};
pub use plot::delivered as plot;
pub use profile::profile;
pub use rfc2544::{rfc2544, rfc2544_brief};
pub use rr::{rr, rr_brief};
pub use service::service;
pub use stream::{stream, stream_brief};
pub use transfers::transfers;
pub use trend::{level_change, trend};
pub use tuning::plan;

/// Half width of the mean's interval, as a share of the mean, above which the verdicts of `stream` and `rr` warn that
/// the mean is uncertain.
const WIDE: f64 = 0.1;
/// Remedy for such a mean.
const SURER: &str = "more repeats or --precision 5% narrow it";

/// Form of the text: width, escape codes, characters beyond ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Width of a line in columns; less than 48 counts as 48.
    pub width: usize,
    /// True: ANSI escape codes for weight and colour.
    pub colour: bool,
    /// False: netcliff's own text is ASCII only; names from the host are not changed.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false, unicode: true }
    }
}

/// The complete page. Lines have at most `style.width` columns and end in a newline.
///
/// In this order: verdict, cliff, disturbances, peak, twice the cliff (with a plot), latency, CPU split, losses,
/// bottleneck, suggestions, checks on other set-ups if there were any, host, configuration, generator, costs, missing
/// figures. A missing figure is "-" and listed at the end.
pub fn finding(finding: &Finding, style: Style) -> String {
    let mut page = Page::new(style);
    head(&mut page, finding);
    answer(&mut page, finding);
    figures(&mut page, finding);
    advice(&mut page, finding);
    checks(&mut page, finding);
    host(&mut page, finding);
    costs(&mut page, finding);
    not_had(&mut page, finding);
    page.finish()
}

fn head(page: &mut Page, finding: &Finding) {
    let provenance = &finding.provenance;
    let mut facts = vec![format::date_utc(provenance.started_unix_s)];
    facts.extend(provenance.elapsed_s.map(|elapsed_s| format!("took {elapsed_s:.0} s")));
    facts.extend(provenance.seed.map(|seed| format!("seed {seed}")));
    page.paragraph(0, Tone::Strong, &format!("netcliff {}: {}", provenance.version, facts.join(", ")));
    if finding.partial {
        page.paragraph(
            0,
            Tone::Alarm,
            "PARTIAL: stopped early. Results up to then are shown; the rest is listed at the end.",
        );
    }
}

/// Notes that another netcliff run was active during this run. They are shown next to the verdict.
fn beside(notes: &[String]) -> impl Iterator<Item = String> {
    notes.iter().filter(|note| OtherRun::read(note).is_some()).cloned()
}

/// The cliff as a line, and doubts about it.
fn answer(page: &mut Page, finding: &Finding) {
    page.paragraph(0, Tone::Strong, &format!("{}.", sheet::verdict(finding)));
    page.caution(&sheet::doubts(finding));
}

fn host(page: &mut Page, finding: &Finding) {
    let host = &finding.host;
    page.heading("HOST");
    for (name, fact) in
        [("cpu", &host.cpu), ("kernel", &host.kernel), ("testbed", &host.testbed), ("driver", &host.driver)]
    {
        page.fact(name, if fact.is_empty() { "-" } else { fact });
    }
    for (name, fact) in sheet::device(finding) {
        page.fact(name, &fact);
    }
    for (index, limit) in host.limits.iter().enumerate() {
        page.fact(if index == 0 { "limits" } else { "" }, limit);
    }
    page.heading("CONFIGURATION");
    for (name, fact) in sheet::setup(finding) {
        page.fact(name, &fact);
    }
    page.heading("GENERATOR");
    for (name, fact) in sheet::generator(finding) {
        page.fact(name, &fact);
    }
    let spent = sheet::time_spent(finding);
    if !spent.is_empty() {
        page.heading("TIME");
    }
    for (stage, seconds) in spent {
        page.paragraph(2, Tone::Plain, &format!("{stage}: {seconds}"));
    }
}

fn costs(page: &mut Page, finding: &Finding) {
    let confidence = sheet::confidence(finding).map(|c| format!(" ({} intervals)", format::share_short(c)));
    page.heading(&format!("COSTS OF THIS HOST{}", confidence.unwrap_or_default()));
    let Some(calibration) = &finding.calibration else {
        return page.paragraph(2, Tone::Plain, "-");
    };
    for cost in sheet::costs(finding) {
        page.cost(&cost);
    }
    let fit = calibration
        .r_squared
        .map(|r2| format!("; the regression explains {} of the variance of softirq time", format::share(r2)));
    page.fact("CPU meter", &format!("{}{}", calibration.cpu_method, fit.unwrap_or_default()));
    for sentence in sheet::rests_on(finding) {
        page.paragraph(2, Tone::Faint, &sentence);
    }
}

fn figures(page: &mut Page, finding: &Finding) {
    page.columns("CLIFF");
    page.paragraph(
        2,
        Tone::Faint,
        &format!("{}; error: of the prediction against the measured cliff", sheet::cliff_note(finding)),
    );
    page.rows(&sheet::cliff(finding));
    if let Some(sentence) = sheet::confidences(finding) {
        page.paragraph(2, Tone::Faint, &sentence);
    }
    for sentence in sheet::searched(finding) {
        page.paragraph(2, Tone::Faint, &sentence);
    }
    for sentence in sheet::to_plan_with(finding).iter().chain(&sheet::contradictions(finding)) {
        page.paragraph(2, Tone::Plain, sentence);
    }
    disturbance(page, finding);
    page.columns("PEAK THROUGHPUT");
    page.rows(&sheet::peak(finding));
    page.columns("AT TWICE THE CLIFF");
    page.rows(&sheet::at_twice(finding));
    livelock(page, finding);
    page.block(&plot::delivered(finding, page.style()));
    page.columns("LATENCY");
    if !finding.latency.is_empty() {
        page.paragraph(2, Tone::Faint, sheet::LATENCY_NOTE);
    }
    for at in &finding.latency {
        let load = format::quantity(at.load_pps, Unit::Pps);
        page.paragraph(
            2,
            Tone::Faint,
            &format!("at {} {}, {load}", format::share_short(at.share), sheet::of_the_cliff(finding)),
        );
        page.rows(&sheet::latency(at));
    }
    if finding.latency.is_empty() {
        page.paragraph(2, Tone::Plain, "-");
    }
    for at in &finding.round_trips {
        page.paragraph(2, Tone::Faint, &sheet::round_trips_heading(at, finding));
        page.rows(&sheet::round_trips(at));
    }
    page.columns("CPU AT THE CLIFF");
    page.rows(&sheet::cpu_at_cliff(finding));
    if let Some(note) = sheet::cpu_note(finding) {
        page.paragraph(2, Tone::Faint, &note);
    }
    page.columns("LOST");
    page.paragraph(2, Tone::Faint, "at twice the cliff, as shares of the offered packets");
    page.rows(&sheet::loss(&finding.loss_at_twice));
    if let Some(at) = &finding.ledger {
        page.heading("WHERE EVERY PACKET WENT");
        let load = format::quantity(at.load_pps, Unit::Pps);
        page.paragraph(2, Tone::Faint, &format!("packets of one trial at {load}, warm-up included"));
        drops::ledger(page, &at.ledger);
    }
}

fn disturbance(page: &mut Page, finding: &Finding) {
    let facts = sheet::disturbance(finding);
    if facts.is_empty() {
        return;
    }
    page.heading(&sheet::DISTURBANCE.to_uppercase());
    for (name, fact) in facts {
        page.fact(name, &fact);
    }
    page.block(&pauses::lengths(finding, page.style()));
}

fn livelock(page: &mut Page, finding: &Finding) {
    let Some(livelock) = sheet::livelock(finding) else { return };
    let tone = if livelock.verdict == Verdict::Livelock { Tone::Alarm } else { Tone::Strong };
    page.paragraph(2, tone, &livelock.text);
    if let Some(why) = livelock.why {
        page.paragraph(2, Tone::Plain, &why);
    }
}

fn advice(page: &mut Page, finding: &Finding) {
    page.heading("BOTTLENECK");
    page.paragraph(2, Tone::Plain, finding.binding.as_deref().unwrap_or("-"));
    page.heading("SUGGESTIONS");
    if finding.suggestions.is_empty() {
        page.paragraph(2, Tone::Plain, "no suggestion");
    }
    for (index, suggestion) in finding.suggestions.iter().take(sheet::SUGGESTIONS).enumerate() {
        page.item(&format!("{}. ", index + 1), &sheet::suggestion(suggestion));
    }
}

fn checks(page: &mut Page, finding: &Finding) {
    if finding.checks.is_empty() {
        return;
    }
    page.columns("CHECKS");
    page.paragraph(2, Tone::Faint, sheet::CHECK_NOTE);
    for check in &finding.checks {
        page.paragraph(2, Tone::Strong, &check.name);
        page.rows(&sheet::check(check));
        for note in sheet::check_notes(check) {
            page.paragraph(2, Tone::Faint, &format!("{note}."));
        }
    }
}

fn not_had(page: &mut Page, finding: &Finding) {
    let groups = sheet::not_had(finding);
    if groups.is_empty() {
        return;
    }
    page.heading("MISSING FIGURES");
    for group in groups {
        page.item("- ", &format!("{}: {}", group.in_words().join(", "), group.why));
    }
}

mod pauses {
    //! Lengths of pauses as bars of characters.

    use netcliff_core::Finding;

    use super::Style;
    use crate::sheet;

    /// Cells of the longest bar.
    const LONGEST: u64 = 30;

    /// Each distribution with one line per bin. Empty if there were no pauses.
    pub fn lengths(finding: &Finding, style: Style) -> String {
        let block = if style.unicode { "█" } else { "#" };
        let mut text = String::new();
        for (name, bins) in sheet::pause_lengths(finding) {
            let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
            text.push_str(&format!("{name}, by length\n"));
            for bin in bins {
                // Rounded up, so that a small count has a visible bar.
                let cells = if most > LONGEST { (bin.count * LONGEST).div_ceil(most) } else { bin.count };
                let bar = block.repeat(cells as usize);
                text.push_str(format!("  {:>14} {bar} {}", sheet::bin(bin), bin.count).trim_end());
                text.push('\n');
            }
        }
        text
    }
}

mod tuning {
    //! [`plan`]: output of `netcliff tune plan`.

    use netcliff_core::tuning::{PlanSheet, in_short};

    use super::Style;
    use super::page::{Page, Tone};

    /// An effect that is longer than this (bytes) is printed only once, because it exceeds a line.
    const LONG: usize = 80;

    /// The commands for this plan; each setting with its reason, its source and its expected effect; then the settings
    /// that the plan does not change, and why. `options`: the options of the command line that name this plan; `None`:
    /// no commands are shown.
    pub fn plan(plan: &PlanSheet, options: Option<&str>, style: Style) -> String {
        let mut page = Page::new(style);
        let count = plan.proposals.len();
        let settings = if count == 1 { "1 setting".to_owned() } else { format!("{count} settings") };
        let objective = plan.objective.name();
        let why = match count {
            0 => "; each setting that this host has and the planner knows already has the proposed value",
            _ => "",
        };
        page.paragraph(0, Tone::Strong, &format!("For {objective}: {settings} to change{why}."));
        if let Some(options) = options.filter(|_| count > 0) {
            page.fact("measure effect", &format!("netcliff tune try {options} -- COMMAND"));
            page.fact("apply", &format!("netcliff tune apply {options}"));
            page.fact("undo", "netcliff tune undo");
        }
        for (place, one) in plan.proposals.iter().enumerate() {
            page.paragraph(2, Tone::Strong, &format!("{}: {} -> {}", one.name, in_short(&one.old), in_short(&one.new)));
            page.paragraph(4, Tone::Plain, &format!("why: {} [{}]", one.reason, one.source));
            if let Some(effect) = &one.effect {
                // Several settings that work as one are explained once.
                let said = plan.proposals[..place]
                    .iter()
                    .find(|before| before.effect.as_ref() == Some(effect) && effect.len() > LONG);
                let expected = said.map_or_else(|| effect.clone(), |before| format!("as for {}", before.name));
                page.paragraph(4, Tone::Plain, &format!("expected: {expected}"));
            }
            page.command(4, &one.command);
        }
        if !plan.notes.is_empty() {
            page.heading("NOTES");
            plan.notes.iter().for_each(|note| page.item("- ", note));
        }
        page.finish()
    }
}
