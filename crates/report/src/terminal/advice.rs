//! [`settings`]: output of `netcliff advise -v`; [`settings_brief`]: without `-v`.

mod answer;

use netcliff_core::advice::{Candidate, CandidateStatus, FRONT, Overall, Verdict};
use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
use netcliff_core::{Advice, Constraint, Dimension, EngineKind, Measure, Scheme, units};

use super::Style;
use super::chart::{chart, letter};
use super::page::{Page, Tone};
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use answer::{alike, commands, for_all, is_present, judged, present, verdict};

/// Largest number of listed settings that are not on the Pareto front, and of settings listed for all loads; JSON has
/// all.
const OTHERS: usize = 5;
/// Largest number of rows of the Pareto front that a screen shows.
const ROWS: usize = 12;
/// Widths of the columns before the setting: p99, loss, CPU idle, engine.
const FIGURES: [usize; 4] = [9, 8, 9, 6];

/// The complete page of one load. For several loads: a line for each, and the settings that lose least over all of
/// them. Lines have at most `style.width` columns and end in a newline. `costs`: name of the measured costs, such as
/// `find run 3`; `None`: those of the host by its name.
pub fn settings(all: &[Advice], overall: &[Overall], costs: Option<&str>, style: Style) -> String {
    let (mut page, first) = match begun(all, overall, costs, style) {
        Ok(begun) => begun,
        Err(nothing) => return nothing,
    };
    if let [one] = all {
        front(&mut page, one, usize::MAX);
        others(&mut page, one);
        page.block(&chart(&drawing(one), page.style()));
        let drawn = drawing(one);
        let legend: Vec<String> =
            drawn.names().iter().enumerate().map(|(place, name)| format!("{} {name}", letter(place))).collect();
        page.paragraph(2, Tone::Faint, &legend.join(", "));
        page.heading("METHOD");
        page.fact("candidates", &counts(one));
        page.fact("effort", &effort(one));
        remarks(&mut page, one);
    } else {
        by_load(&mut page, all);
        kept(&mut page, first, overall);
    }
    page.finish()
}

/// Advice about settings on a screen of 40 lines: the advice with its commands, and the front. `costs` as of
/// [`settings`].
pub fn settings_brief(all: &[Advice], overall: &[Overall], costs: Option<&str>, style: Style) -> String {
    let (mut page, first) = match begun(all, overall, costs, style) {
        Ok(begun) => begun,
        Err(nothing) => return nothing,
    };
    if let [one] = all {
        front(&mut page, one, ROWS);
        page.paragraph(
            0,
            Tone::Faint,
            &format!("-v shows all {} candidates, the figure and the notes.", one.candidates.len()),
        );
    } else {
        by_load(&mut page, all);
        kept(&mut page, first, overall);
    }
    page.finish()
}

/// The start of both pages: the advice, its commands, and the configuration.
///
/// # Errors
/// The page's text if there is no load.
fn begun<'a>(
    all: &'a [Advice],
    overall: &[Overall],
    costs: Option<&str>,
    style: Style,
) -> Result<(Page, &'a Advice), String> {
    let mut page = Page::new(style);
    let Some(first) = all.first() else { return Err("no load\n".to_owned()) };
    match all {
        [one] => {
            verdict(&mut page, one);
            alike(&mut page, one);
            present(&mut page, all);
            let advised = one.advised.iter().filter_map(|scheme| one.candidate(scheme));
            commands(&mut page, one, &advised.collect::<Vec<_>>());
            judged(&mut page, one);
            page.heading("GOAL");
        }
        _ => {
            let best = overall.first().filter(|best| best.infeasible == 0);
            match best {
                Some(best) => page.paragraph(0, Tone::Strong, &for_all(first, all.len(), best)),
                None => page.paragraph(0, Tone::Alarm, "No single setting meets the constraints at every load."),
            }
            present(&mut page, all);
            let kept = best.and_then(|best| first.candidate(&best.scheme));
            commands(&mut page, first, &kept.into_iter().collect::<Vec<_>>());
            page.heading("GOAL");
        }
    }
    // A calibration has no pauses from outside in it.
    if costs.is_some() {
        let meaning = format!(
            "Latencies are computed, with times that vary as {} (`netcliff simulate` takes the variation that a `find` measured), and \
             leave out pauses of the CPU from outside (hypervisor, other programs). Use them to rank settings, not as forecasts.",
            first.host.service
        );
        page.paragraph(2, Tone::Faint, &meaning);
    }
    page.fact("goal", &title(first));
    page.fact("host", costs.unwrap_or(&first.host.name));
    if let [one] = all {
        let traffic = &one.traffic;
        page.fact("traffic", &format!("{} of {}, {}", traffic.rate, traffic.size, traffic.arrivals));
    }
    Ok((page, first))
}

fn front(page: &mut Page, advice: &Advice, most: usize) {
    let front: Vec<&Candidate> = advice.candidates.iter().filter(|one| one.front).collect();
    let all = grouped(&front);
    let shown = &all[..all.len().min(most)];
    let of = match shown.len() {
        count if count < all.len() => format!(", {count} OF {} SHOWN", all.len()),
        _ => String::new(),
    };
    page.heading(&format!("BEST TRADE-OFFS OF LATENCY, LOSS AND IDLE CPU (PARETO FRONT){of}"));
    head(page);
    rows(page, advice, shown);
    legend(page, advice, shown);
}

fn others(page: &mut Page, advice: &Advice) {
    let others: Vec<&Candidate> =
        advice.candidates.iter().filter(|one| !one.front && one.fate != CandidateStatus::Unanswered).collect();
    if !others.is_empty() {
        let all = grouped(&others);
        let shown = &all[..all.len().min(OTHERS)];
        page.heading(&format!("OFF THE FRONT, {} OF {} ROWS", shown.len(), all.len()));
        head(page);
        rows(page, advice, shown);
        legend(page, advice, shown);
    }
}

/// Meaning of the columns.
const COLUMNS: &str =
    "p99: of the latency; CPU idle: idle share of the receiving CPU's time; by: the engine that computed the row";

/// Adds the meaning of the marks of rows, and of the columns.
fn legend(page: &mut Page, advice: &Advice, shown: &[&[&Candidate]]) {
    let has = |what: char| shown.iter().flat_map(|same| same.iter()).any(|one| mark(advice, one) == what);
    let advised = match advice.verdict {
        Verdict::Picked => "* advised setting",
        Verdict::NotDecided => "* undecided between these",
        Verdict::NoneFeasible => "* closest to the constraints",
    };
    let marks = [('*', advised), ('=', "= present setting")];
    let meanings: Vec<&str> = marks.into_iter().filter(|(what, _)| has(*what)).map(|(_, meaning)| meaning).collect();
    let any = |is: fn(&Scheme) -> bool| shown.iter().flat_map(|same| same.iter()).any(|one| is(&one.scheme));
    let masked = any(|scheme| matches!(scheme, Scheme::Coalesce(coalesce) if coalesce.masked));
    let busy = any(|scheme| matches!(scheme, Scheme::Napi(napi) if napi.busy_poll));
    let parts = [
        (!meanings.is_empty()).then(|| meanings.join(", ")),
        Some(COLUMNS.to_owned()),
        masked.then(|| "masked=true: no interrupts until the ring is empty, as NAPI works".to_owned()),
        busy.then(|| "busy_poll=true: the application polls while it waits, which uses CPU time".to_owned()),
    ];
    page.paragraph(2, Tone::Faint, &parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
}

/// The goal in words: `lowest p99 latency with loss up to 0.01 %`.
fn title(advice: &Advice) -> String {
    let constraints: Vec<String> = advice.constraints.iter().map(bound).collect();
    let goal = format!("{} {}", if advice.goal.maximise { "highest" } else { "lowest" }, name(advice.goal.measure));
    match constraints[..] {
        [] => goal,
        _ => format!("{goal} with {}", constraints.join(" and ")),
    }
}

/// A constraint in words: `loss up to 0.01 %`, `CPU idle of at least 30 %`.
fn bound(constraint: &Constraint) -> String {
    let unit = Unit::of(constraint.measure.dimension);
    let end = match unit {
        Unit::Share => format::loss(constraint.bound),
        _ => format::quantity(constraint.bound, unit),
    };
    format!("{} {} {end}", name(constraint.measure), if constraint.at_least { "of at least" } else { "up to" })
}

/// Name of a figure, as the columns of the page have it.
fn name(measure: Measure) -> &'static str {
    match measure.key {
        "latency_p50_s" => "p50 latency",
        "latency_p90_s" => "p90 latency",
        "latency_p99_s" => "p99 latency",
        "latency_p999_s" => "p99.9 latency",
        "cpu_available" => "CPU idle",
        _ => measure.name,
    }
}

/// Numbers of candidates: all, dropped by the model, simulated, and without an engine that supports them.
fn counts(advice: &Advice) -> String {
    let count = |keep: &dyn Fn(&Candidate) -> bool| advice.candidates.iter().filter(|one| keep(one)).count();
    let simulated = count(&|one| one.engine == Some(EngineKind::Sim));
    let by_model = count(&|one| one.engine == Some(EngineKind::Model));
    let unanswered = count(&|one| one.fate == CandidateStatus::Unanswered);
    let mut parts = vec![
        format!("{}", advice.candidates.len()),
        format!("{by_model} dropped by the model (margin {})", format::share_short(advice.margin)),
        format!("{simulated} simulated"),
    ];
    if unanswered > 0 {
        parts.push(format!("{unanswered} without an answer"));
    }
    parts.join(", ")
}

fn effort(advice: &Advice) -> String {
    let millions = |packets: u64| format::significant(packets as f64 / 1e6);
    format!(
        "{} million packets simulated, at most {} million; {} replications of {} packets for each candidate, a quarter of them for one \
         that is clearly worse",
        millions(advice.packets),
        millions(advice.packets_at_most),
        advice.first_stage,
        advice.packets_each
    )
}

/// Adds the names of the columns.
fn head(page: &mut Page) {
    let [latency, loss, cpu, by] = FIGURES;
    page.block(&format!("    {:>latency$}{:>loss$}{:>cpu$}  {:<by$}setting", "p99", "lost", "CPU idle", "by"));
}

/// Settings by row: settings with equal figures that are next to each other share a row.
fn grouped<'a, 'b>(candidates: &'b [&'a Candidate]) -> Vec<&'b [&'a Candidate]> {
    let alike = |a: &&Candidate, b: &&Candidate| figures(a) == figures(b) && a.not_offered == b.not_offered;
    candidates.chunk_by(alike).collect()
}

/// Mark of a setting: advised, or present on the device.
fn mark(advice: &Advice, candidate: &Candidate) -> char {
    match (advice.advised.contains(&candidate.scheme), is_present(candidate)) {
        (true, _) => '*',
        (false, true) => '=',
        (false, false) => ' ',
    }
}

/// Adds the rows of [`grouped`].
fn rows(page: &mut Page, advice: &Advice, groups: &[&[&Candidate]]) {
    for same in groups {
        // The mark of a row is that of its first setting that has one.
        let marked = same.iter().find(|one| mark(advice, one) != ' ').unwrap_or(&same[0]);
        let mark = mark(advice, marked);
        let more =
            if same.len() > 1 { format!(" (and {} more with these figures)", same.len() - 1) } else { String::new() };
        let no = if marked.not_offered.is_some() { " (no Linux setting)" } else { "" };
        page.item(&format!("{mark} {}", figures(marked)), &format!("{}{no}{more}", brief(&marked.scheme)));
    }
}

fn figures(candidate: &Candidate) -> String {
    let value = |key: &str, write: &dyn Fn(f64) -> String| {
        let measure: Option<Measure> = key.parse().ok();
        let figure = measure.and_then(|measure| candidate.figure(measure));
        figure.map_or("-".to_owned(), |figure| write(figure.value))
    };
    let [latency, loss, cpu, by] = FIGURES;
    format!(
        "{:>latency$}{:>loss$}{:>cpu$}  {:<by$}",
        value(FRONT[0], &|value| format::quantity(value, Unit::Seconds)),
        value(FRONT[1], &|value| if value < 1e-12 { "0 %".to_owned() } else { format::loss(value) }),
        value(FRONT[2], &|value| format::quantity(value, Unit::Share)),
        candidate.engine.map_or("-", EngineKind::name),
    )
}

fn remarks(page: &mut Page, advice: &Advice) {
    let unanswered: Vec<&Candidate> =
        advice.candidates.iter().filter(|one| one.fate == CandidateStatus::Unanswered).collect();
    if !unanswered.is_empty() {
        page.heading("WITHOUT AN ANSWER");
        unanswered.iter().for_each(|one| page.item("- ", &format!("{}: {}", brief(&one.scheme), one.why)));
    }
    if !advice.notes.is_empty() {
        page.heading("NOTES");
        advice.notes.iter().for_each(|note| page.item("- ", note));
    }
}

fn by_load(page: &mut Page, all: &[Advice]) {
    page.heading("ADVICE BY LOAD");
    let [latency, loss, cpu, by] = FIGURES;
    page.block(&format!(
        "  {:>10}{:>latency$}{:>loss$}{:>cpu$}  {:<by$}setting",
        "load", "p99", "lost", "CPU idle", "by"
    ));
    for advice in all {
        let load = match advice.traffic.rate_pps() {
            Some(pps) => format::quantity(pps, Unit::Pps),
            None => advice.traffic.rate.to_string(),
        };
        if advice.verdict == Verdict::NoneFeasible {
            page.item(&format!("{load:>10}  "), "no setting meets the constraints; closest:");
        }
        if advice.verdict == Verdict::NotDecided {
            page.item(&format!("{load:>10}  "), "undecided between:");
        }
        for candidate in advice.advised.iter().filter_map(|scheme| advice.candidate(scheme)) {
            let load = if advice.verdict == Verdict::Picked { load.as_str() } else { "" };
            page.item(&format!("{load:>10}{}", figures(candidate)), &brief(&candidate.scheme));
        }
    }
    page.paragraph(2, Tone::Faint, COLUMNS);
}

/// Adds the best settings over all loads (the first of `overall`), one line each: largest shortfall, the load that has
/// it, and the number of loads at which a constraint is violated.
fn kept(page: &mut Page, advice: &Advice, overall: &[Overall]) {
    if overall.is_empty() {
        return;
    }
    page.heading("ONE SETTING FOR ALL LOADS");
    let of = if advice.goal.measure.is_cpu() { "of one CPU" } else { "of the best of the load" };
    page.paragraph(
        2,
        Tone::Plain,
        &format!("Columns: largest shortfall against the best setting for a load ({of}); that load; number of loads at which a constraint is not met; setting."),
    );
    for one in overall.iter().take(OTHERS) {
        let load = one.worst_pps.map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps));
        let lead = format!("{:>9} {load:>10} {:>3}  ", format::share(one.shortfall), one.infeasible);
        page.item(&lead, &brief(&one.scheme));
    }
}

/// The scheme without the parameters that have their default values.
fn brief(scheme: &Scheme) -> String {
    let text = scheme.to_string();
    let Some((name, params)) = text.split_once(':') else { return text };
    let written = |params: &[&str]| match params {
        [] => name.to_owned(),
        _ => format!("{name}:{}", params.join(",")),
    };
    let mut kept: Vec<&str> = params.split(',').collect();
    let mut place = 0;
    while place < kept.len() {
        let mut without = kept.clone();
        without.remove(place);
        if written(&without).parse::<Scheme>().as_ref() == Ok(scheme) {
            kept = without;
        } else {
            place += 1;
        }
    }
    written(&kept)
}

/// p99 by available CPU: three curves of points, for candidates not on the Pareto front, candidates on it, and advised
/// candidates.
fn drawing(advice: &Advice) -> Drawing {
    let axis = |name: &str, dimension, scale| Axis { name: name.to_owned(), dimension, scale, range: None };
    let dot = |candidate: &Candidate| {
        let value = |key: &str| candidate.figure(key.parse().ok()?);
        Some(Dot { x: value(FRONT[2])?.value, y: value(FRONT[0])? })
    };
    let curve = |name: &str, keep: &dyn Fn(&Candidate) -> bool| {
        let dots = advice.candidates.iter().filter(|one| keep(one)).filter_map(dot).collect();
        Curve { name: name.to_owned(), answerer: None, dots }
    };
    let advised = |candidate: &Candidate| advice.advised.contains(&candidate.scheme);
    let curves = vec![
        curve("off the Pareto front", &|one| !one.front && !advised(one)),
        curve("on the Pareto front", &|one| one.front && !advised(one)),
        curve("advised setting", &advised),
    ];
    Drawing {
        title: title(advice),
        axes: Axes {
            x: axis("CPU idle", Dimension::Share, Scale::Linear),
            y: axis("99th percentile of latency", Dimension::Seconds, Scale::Log),
        },
        curves: curves.into_iter().filter(|curve| !curve.dots.is_empty()).collect(),
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: vec![("rate".to_owned(), advice.traffic.rate_pps().map(units::print_pps).unwrap_or_default())],
        source: String::new(),
        provenance: advice.provenance.clone(),
        partial: false,
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::advice::{Judged, Standing};
    use netcliff_core::{Figure, Host, Load, Provenance, Traffic, written};

    use super::*;

    fn candidate(scheme: &str, fate: CandidateStatus, p99_us: f64, available: f64) -> Candidate {
        let figures = [("latency_p99_s", p99_us * 1e-6), ("loss_fraction", 0.0), ("cpu_available", available)];
        Candidate {
            scheme: scheme.parse().expect("a scheme"),
            engine: Some(EngineKind::Sim),
            fate,
            why: String::new(),
            figures: figures.map(|(key, value)| (key.to_owned(), Figure::exact(value))).into(),
            constraints: Vec::new(),
            replications: 20,
            front: true,
            commands: Some(vec!["ethtool -C DEV rx-usecs 10".to_owned()]),
            not_offered: None,
        }
    }

    /// A real advice, shortened: the second setting is within the indifference zone, but not shown to be as good.
    fn example() -> Advice {
        let mut candidates = vec![
            candidate("coalesce:frames=8,usecs=10us,masked=true", CandidateStatus::Picked, 72.1, 0.224),
            candidate("coalesce:usecs=10us,masked=true", CandidateStatus::Worse, 72.1, 0.224),
            candidate("coalesce:frames=8,usecs=20us,masked=true", CandidateStatus::Worse, 72.7, 0.322),
            candidate("napi:defer_hard_irqs=2,gro_flush_timeout=50us", CandidateStatus::Worse, 101.0, 0.433),
        ];
        let constraint: Constraint = "loss<=1e-4".parse().expect("a constraint");
        candidates[0].constraints = vec![Judged { constraint, standing: Standing::Met, interval: None }];
        let loss = Figure::between(0.0, 0.0, 2.27e-6, 0.95);
        candidates[0].figures.insert("loss_fraction".to_owned(), loss);
        Advice {
            host: Host { name: "calibrated".to_owned(), ..Host::pentium4_2530mhz() },
            traffic: written::Traffic::new(Traffic::default(), Some(Load::Pps(200e3))),
            goal: "minimise latency_p99_s".parse().expect("a goal"),
            constraints: vec![constraint],
            confidence: 0.95,
            indifference: Some(1.41e-6),
            margin: 0.25,
            first_stage: 20,
            packets_each: 50_000,
            packets: 4_000_000,
            packets_at_most: 200_000_000,
            verdict: Verdict::Picked,
            advised: vec![candidates[0].scheme.clone()],
            alike: vec![candidates[1].scheme.clone()],
            candidates,
            notes: Vec::new(),
            device: None,
            provenance: Provenance::default(),
        }
    }

    /// The page of one load at 80 columns, in one line.
    fn page(advice: &Advice, costs: Option<&str>) -> String {
        let style = Style { width: 80, colour: false, unicode: false };
        let text = settings_brief(std::slice::from_ref(advice), &[], costs, style);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn settings_within_the_zone_are_all_named() {
        let text = page(&example(), Some("find run 32"));
        for part in [
            "with 95 % confidence no candidate is better by more than 1.41 us.",
            "Equally good, at most 1.41 us worse on the same packets (95 % confidence): coalesce:usecs=10us,masked=true.",
            "Not shown to be equally good, although the difference of the mean p99 latency is at most 1.41 us: \
             coalesce:frames=8,usecs=20us,masked=true (72.7 us).",
            "To compare with the present setting, name its device (--if DEVICE)",
            "masked=true needs no command:",
            "- loss up to 0.01 %: met, 0 % (0-0.000227 %)",
            "goal lowest p99 latency with loss up to 0.01 %",
            "host find run 32",
            "(and 1 more with these figures)",
            "napi:defer_hard_irqs=2, gro_flush_timeout=50us * advised setting",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("ROWS"), "all rows are shown: {text}");
        assert!(page(&example(), None).contains("host calibrated"));
    }

    /// A candidate for which nothing has to be set is the present setting of the device.
    #[test]
    fn the_present_setting_is_next_to_the_advice() {
        let mut one = example();
        one.device = Some("eth0".to_owned());
        let text = page(&one, None);
        assert!(text.contains("The present setting of eth0 is not among the candidates: `--candidates all"), "{text}");
        one.candidates[3].commands = Some(Vec::new());
        let text = page(&one, None);
        let now = "Now eth0 has napi:defer_hard_irqs=2,gro_flush_timeout=50us: p99 101 us, lost 0 %, CPU idle 43.3 %.";
        for part in [now, "= 101 us 0 % 43.3 % sim", "* advised setting, = present setting"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        one.candidates[0].commands = Some(Vec::new());
        one.candidates[3].commands = None;
        let text = page(&one, None);
        assert!(!text.contains("Now eth0") && text.contains("none: eth0 has these settings already"), "{text}");
    }

    #[test]
    fn a_screen_counts_rows() {
        let mut many = example();
        for step in 0..20 {
            let scheme = format!("coalesce:usecs={}us,masked=true", 30 + step);
            many.candidates.push(candidate(&scheme, CandidateStatus::Worse, 120.0 + f64::from(step), 0.5));
        }
        // 24 settings are in 23 rows: the first two have equal figures.
        assert!(page(&many, None).contains("(PARETO FRONT), 12 OF 23 SHOWN"));
    }

    #[test]
    fn a_scheme_is_written_without_its_defaults() {
        for (text, wanted) in [
            ("interrupt", "interrupt"),
            ("interrupt:drops_interrupt=false", "interrupt:drops_interrupt=false"),
            ("napi:weight=64,budget=300", "napi"),
            (
                "napi:weight=16,defer_hard_irqs=2,gro_flush_timeout=20us",
                "napi:weight=16,defer_hard_irqs=2,gro_flush_timeout=20us",
            ),
            ("polling:period=20us,quota=4", "polling:quota=4"),
            ("hybrid:period=50us,quota=5", "hybrid:period=50us,quota=5"),
            ("ideal", "ideal"),
        ] {
            assert_eq!(brief(&text.parse().unwrap()), wanted);
        }
    }
}
