//! [`service`]: output of `netcliff find --service`.

use std::collections::BTreeMap;

use netcliff_core::Figure;
use netcliff_core::finding::{CheckedSetting, Pauses};
use netcliff_core::service::{
    Gives, Promise, QuantileLimit, RequesterSummary, ResponseTimes, ServiceBottleneck, ServiceCheck, ServiceCost,
    ServiceFinding, ServicePrediction, ServiceTrial, TrialPurpose,
};
use netcliff_core::units::print_time_s;

use super::Style;
use super::page::{Page, Tone};
use super::rfc2544::{table, words};
use crate::format::{self, Unit};

/// Largest number of loads in the table: those next to the cliff.
const LOADS: usize = 12;
/// Largest number of quantiles of response times in this table, and of limits that a load missed: the table has at most
/// 80 columns.
const MOST: usize = 3;
/// A quantile of response times and where trials record it.
type Recorded = (f64, fn(&ResponseTimes) -> f64);
/// Quantiles of response times that trials record.
const QUANTILES: [Recorded; 4] = [
    (0.5, |times| times.p50_s),
    (0.9, |times| times.p90_s),
    (0.99, |times| times.p99_s),
    (0.999, |times| times.p999_s),
];
/// Busy share from which the requester may itself be the limit. From about there the share hardly grows with the load,
/// because each turn of the requester's loop finds work: with nginx it was 0.97 at 68 k/s and at 128 k/s.
const NEARLY_FULL: f64 = 0.9;
/// Ratio of a measured 99th percentile to the predicted one above which a note says that they differ.
const FAR_OFF: f64 = 2.0;
/// Indent of a remark below a fact.
const BELOW: usize = 18;

/// The load to plan with, the cliff, measured and predicted, the bottleneck, the checks, the costs of a request, the
/// loads next to the cliff.
pub fn service(finding: &ServiceFinding, style: Style) -> String {
    let mut page = Page::new(style);
    page.head("service", &finding.provenance, finding.partial.is_some(), &[]);
    if let Some(plan) = plan(finding) {
        page.paragraph(0, Tone::Strong, &plan);
    }
    finding.asked.iter().for_each(|(name, fact)| page.fact(name, fact));
    answer(&mut page, finding);
    checks(&mut page, finding);
    costs(&mut page, finding);
    responses(&mut page, finding);
    loads(&mut page, finding);
    let partial = finding.partial.iter().map(|why| format!("the run ended early: {why}"));
    let missing: Vec<String> = finding.missing.iter().cloned().chain(partial).collect();
    page.list("NOT MEASURED", &missing);
    page.list("NOTES", &finding.notes);
    page.list("LIMITS", &finding.limits);
    page.finish()
}

/// A rate as text, in requests per second.
fn rate(value: f64) -> String {
    format::quantity(value, Unit::PerSecond).replace("/s", " requests/s")
}

fn figure(figure: &Figure) -> String {
    let ends = figure.interval.filter(|ends| ends.low.is_finite() && ends.high.is_finite());
    match ends {
        None => rate(figure.value),
        Some(ends) => {
            let range = format!(
                "{} to {}",
                format::quantity(ends.low, Unit::PerSecond),
                format::quantity(ends.high, Unit::PerSecond)
            );
            let sure = match ends.confidence {
                0.0 => "confidence unknown".to_owned(),
                known => format!("{} confidence", format::share_short(known)),
            };
            format!("{} ({range}, {sure})", rate(figure.value))
        }
    }
}

/// A measured cliff as text; if `lower_limit`, as `at least`.
fn at_least_if(lower_limit: bool, cliff: &Figure) -> String {
    if lower_limit {
        return format!("at least {}: the requester (netcliff's load generator) could send no more", rate(cliff.value));
    }
    figure(cliff)
}

fn answer(page: &mut Page, finding: &ServiceFinding) {
    page.heading("CLIFF");
    page.paragraph(2, Tone::Faint, &definition(&finding.promise));
    let is_paused = finding.checks.iter().any(|check| check.cliff_with_pauses_rps.is_some());
    if finding.cliff_with_pauses_rps.is_some() || is_paused {
        page.paragraph(2, Tone::Faint, WITH_PAUSES_NOTE);
    }
    match &finding.cliff_rps {
        Some(cliff) => page.fact("measured", &at_least_if(finding.lower_limit, cliff)),
        None => page.fact("measured", "-"),
    }
    let searches = finding.searches.len();
    if finding.cliff_rps.is_some() && !finding.lower_limit && searches > 1 {
        page.paragraph(BELOW, Tone::Faint, &origin(searches));
    }
    with_pauses(page, finding.cliff_with_pauses_rps, finding.predicted.as_ref());
    if let Some(predicted) = &finding.predicted {
        page.fact("predicted", &format!("{}: {}", figure(&predicted.cliff_rps), predicted.how));
        page.fact("capacity", &capacity(finding, &predicted.capacity_rps));
    }
    if let Some(pauses) = finding.pauses.as_ref().filter(|pauses| pauses.count > 0) {
        page.fact("pauses", &silences(pauses));
    }
    if let Some(bottleneck) = &finding.bottleneck {
        page.fact("bottleneck", &evidence(bottleneck, &finding.trials));
    }
    if let Some(summary) = &finding.requester {
        page.fact("requester", &requester(finding, summary));
    }
}

/// How the measured cliff was estimated, and what its interval spans, in a sentence.
fn origin(searches: usize) -> String {
    format!(
        "estimated from all trials that count; the interval also spans the loads between which the {searches} searches put the cliff, and has \
         their confidence"
    )
}

/// What overloaded first, the load of the trial past the cliff that shows it, and the evidence.
fn evidence(bottleneck: &ServiceBottleneck, trials: &[ServiceTrial]) -> String {
    let past = trials.iter().rfind(|trial| trial.purpose == TrialPurpose::Bottleneck);
    let trial = past.map_or(String::new(), |trial| {
        let length = format::quantity(trial.window_s, Unit::Seconds);
        format!(", in a trial of {length} past the cliff, at {}", rate(trial.rate_rps))
    });
    format!("{}{trial}: {}", bottleneck.gives, bottleneck.seen)
}

/// The load to plan with: the lower end of the cliff with pauses or, if that is lower, of the cliff without them; of a
/// cliff above the capacity, the lower end of the capacity if that is lower still. `None` without a cliff.
fn plan(finding: &ServiceFinding) -> Option<String> {
    let low = |cliff: Figure| cliff.interval.map_or(cliff.value, |ends| ends.low);
    let own = low(finding.cliff_rps?);
    let paused = finding.cliff_with_pauses_rps.map(low).filter(|paused| *paused <= own);
    let load = paused.unwrap_or(own);
    if load <= 0.0 {
        let why = "No load to plan with: the interval of the cliff has no lower end; measure longer, without --quick.";
        return Some(why.to_owned());
    }
    let predicted = finding.predicted.as_ref();
    let cliff_rps = finding.cliff_rps?.value;
    let capacity = predicted.map(|predicted| predicted.capacity_rps).filter(|capacity| capacity.value < cliff_rps);
    let has_times = predicted.is_some_and(|predicted| !predicted.response_times.is_empty());
    let rise = if has_times { " Response times rise below it: see RESPONSE TIMES." } else { "" };
    if let Some(capacity) = capacity.filter(|capacity| low(*capacity) < load) {
        let what = match capacity.interval.map(|ends| ends.confidence) {
            Some(known) if known > 0.0 => {
                format!("the lower end of the {} interval of the capacity", format::share_short(known))
            }
            _ => "the lower end of the capacity".to_owned(),
        };
        return Some(format!(
            "Plan with at most {}, {what}. Above the capacity queues grow; a trial may end before requests are lost.{rise}",
            rate(low(capacity))
        ));
    }
    let what = match (paused, finding.lower_limit) {
        (Some(_), _) => "the lower end of the cliff with pauses",
        (None, false) => "the lower end of the measured cliff",
        (None, true) => "a lower limit of the cliff",
    };
    Some(format!("Plan with at most {}, {what}.{rise}", rate(load)))
}

/// The capacity, its meaning, and why a measured cliff may be above it.
fn capacity(finding: &ServiceFinding, capacity: &Figure) -> String {
    // By definition the whole CPU, other tasks included, divided by the requests.
    let each = format::quantity(1.0 / capacity.value, Unit::Seconds);
    let full = if finding.service.transport == "udp" {
        " It is measured in trials that fill the service's socket (if there are any), in which a request usually takes more CPU time than \
         in the table below."
    } else {
        ""
    };
    let is_exceeded = finding.cliff_rps.is_some_and(|cliff| cliff.value > capacity.value);
    let why = if is_exceeded {
        " The measured cliff is higher: the queue grows too slowly to break a limit before a trial ends, or a request costs less \
         CPU time in the searches than in the trials that measured it."
    } else {
        ""
    };
    format!(
        "{}: the load at which the busiest CPU has no idle time, because each request takes {each} of it, other tasks included.{full}{why}",
        figure(capacity)
    )
}

/// How busy the requester was at the cliff, which loads it could send, and whether the cliff may be its own.
fn requester(finding: &ServiceFinding, summary: &RequesterSummary) -> String {
    let counted = finding.trials.iter().filter(|trial| trial.void.is_none());
    let sent_rps = counted.map(|trial| trial.rate_rps).reduce(f64::max);
    let sent = sent_rps.map_or(String::new(), |rps| format!("; it sent up to {} in a trial that counts", rate(rps)));
    let late = summary.lateness_p99_s.map_or(String::new(), |late_s| {
        format!("; 99 % of the requests left within {} of their time", format::quantity(late_s, Unit::Seconds))
    });
    let gives = finding.bottleneck.as_ref().map(|bottleneck| bottleneck.gives);
    let is_unknown = matches!(gives, None | Some(Gives::Elsewhere | Gives::Requester));
    let verdict = match (summary.busy >= NEARLY_FULL && !finding.lower_limit, is_unknown) {
        (false, _) => "",
        (true, true) => ". The cliff may be the requester's: read it as \"at least\"",
        (true, false) => ". The requester is not the bottleneck",
    };
    let busy = format::share_short(summary.busy);
    let is_full = summary.busy >= NEARLY_FULL;
    let polls = if is_full { " (it polls in a loop: this share hardly grows with the load)" } else { "" };
    format!("netcliff's load generator was busy {busy} of the time at the cliff{polls}{sent}{late}{verdict}")
}

/// What counts as the cliff, as a sentence.
fn definition(promise: &Promise) -> String {
    format!("Highest load at which {}.", limits(promise))
}

/// The limits of loss and response times, as a clause.
fn limits(promise: &Promise) -> String {
    let limit = |limit: &QuantileLimit| {
        let (share, within) = (format::share_short(limit.quantile), print_time_s(limit.within_s));
        format!(", and at least {share} are answered within {within}")
    };
    let limits: String = promise.quantiles.iter().map(limit).collect();
    let (loss, timeout) = (format::loss(promise.loss), print_time_s(promise.timeout_s));
    format!("at most {loss} of the requests have no correct answer within {timeout}{limits}")
}

/// Sentence that explains the fact `with pauses`.
const WITH_PAUSES_NOTE: &str = "\"with pauses\" also counts requests during pauses of the CPU, in which another program or the hypervisor had it; the other cliffs \
     leave these requests out.";

/// Adds the cliff that includes pauses of the service's CPUs.
fn with_pauses(page: &mut Page, measured: Option<Figure>, predicted: Option<&ServicePrediction>) {
    let Some(measured) = measured else { return };
    let predicted = predicted.and_then(|predicted| Some((predicted.with_pauses_rps?, predicted.cliff_rps)));
    let predicted = predicted.map_or(String::new(), |(cliff, own)| {
        if cliff == own {
            return "; the prediction is not lower with pauses".to_owned();
        }
        format!("; predicted {}", figure(&cliff))
    });
    page.fact("with pauses", &format!("{}{predicted}", figure(&measured)));
}

/// A sentence on the pauses of the service, which are times without answers.
fn silences(pauses: &Pauses) -> String {
    let seconds = |value: f64| format::quantity(value, Unit::Seconds);
    let lengths = pauses.p50_s.zip(pauses.max_s);
    let lengths = lengths.map(|(half_s, longest_s)| {
        format!(": half of them longer than {}, the longest {}", seconds(half_s), seconds(longest_s))
    });
    let often = format::quantity(pauses.per_s, Unit::PerSecond);
    format!("{often}, each of at least {} without an answer{}", seconds(pauses.shortest_s), lengths.unwrap_or_default())
}

/// Sentences above the checks: what they are, the meaning of "agrees", and what to do where they do not agree.
const CHECK_NOTE: &str = "A check is a changed setting (--check): its cliff is predicted with the costs of this run, then measured. The two agree \
     if their intervals overlap.";
const DISAGREEMENT_NOTE: &str = "Where they do not agree, plan with the lower end of the measured cliff.";
const COSTS_NOTE: &str = "Where they do not agree, or another command starts the service, netcliff also measures what a request costs in that setting, and \
     predicts with that: if this agrees, the change alters the cost; otherwise the model lacks an effect of the change.";

/// Adds the checks: other set-ups of the service, predicted and measured.
fn checks(page: &mut Page, finding: &ServiceFinding) {
    if finding.checks.is_empty() {
        return;
    }
    page.heading("CHECKS");
    page.paragraph(2, Tone::Faint, CHECK_NOTE);
    if finding.checks.iter().any(|check| check.agrees == Some(false)) {
        page.paragraph(2, Tone::Faint, DISAGREEMENT_NOTE);
    }
    if finding.checks.iter().any(|check| !check.costs.is_empty()) {
        page.paragraph(2, Tone::Faint, COSTS_NOTE);
    }
    for check in &finding.checks {
        page.paragraph(2, Tone::Strong, &check.name);
        let unmeasured = check.unmeasured.as_deref().unwrap_or("no reason was recorded");
        match &check.predicted {
            Some(predicted) => {
                // The method is printed once if it is that of the prediction above.
                let is_above = finding.predicted.as_ref().is_some_and(|above| above.how == predicted.how);
                let how = if is_above { String::new() } else { format!(": {}", predicted.how) };
                page.fact("predicted", &format!("{}{how}", figure(&predicted.cliff_rps)));
            }
            // Without a reason of its own, the check did not start.
            None => page.fact("not predicted", check.unpredicted.as_deref().unwrap_or(unmeasured)),
        }
        match &check.cliff_rps {
            Some(cliff) => page.fact("measured", &measured(check, cliff)),
            None => page.fact("not measured", unmeasured),
        }
        with_pauses(page, check.cliff_with_pauses_rps, check.predicted.as_ref());
        own_costs(page, &finding.costs, check);
        if let Some(bottleneck) = &check.bottleneck {
            page.fact("bottleneck", &evidence(bottleneck, &check.trials));
        }
        for setting in &check.settings {
            let CheckedSetting { name, found, requested, effective } = setting;
            let asked = if requested == effective { String::new() } else { format!(", requested {requested}") };
            page.fact("changed", &format!("{name}: {effective} instead of {found}{asked}"));
        }
        check.notes.iter().for_each(|note| page.fact("note", note));
    }
}

fn measured(check: &ServiceCheck, cliff: &Figure) -> String {
    let mut text = at_least_if(check.lower_limit, cliff);
    if let Some(share) = check.of_calibrated {
        text.push_str(&format!("; {share:.2} times the cliff above"));
    }
    match (check.ratio, check.agrees) {
        (Some(ratio), Some(true)) => text.push_str(&format!("; {ratio:.2} times the prediction: agrees")),
        (Some(ratio), Some(false)) => text.push_str(&format!("; {ratio:.2} times the prediction: DOES NOT AGREE")),
        (None, Some(true)) => text.push_str("; does not contradict the prediction"),
        (None, Some(false)) => text.push_str("; more than predicted: DOES NOT AGREE"),
        (_, None) => {}
    }
    if let Some(why) = &check.unmeasured {
        text.push_str(&format!("; ended early: {why}"));
    }
    text
}

/// Share of a request's cost by which a part must differ to be named.
const NAMED: f64 = 0.05;

/// Adds what a request costs in a check's setting, compared with `calibrated`, and the cliff predicted with it.
fn own_costs(page: &mut Page, calibrated: &[ServiceCost], check: &ServiceCheck) {
    if check.costs.is_empty() {
        return;
    }
    let seconds = |value: f64| format::quantity(value, Unit::Seconds);
    let sum_s = |costs: &[ServiceCost]| costs.iter().map(|cost| cost.request_s.value).sum::<f64>();
    let (own_s, calibrated_s) = (sum_s(&check.costs), sum_s(calibrated));
    let mut text = format!("a request takes {} of CPU time in this setting", seconds(own_s));
    if calibrated_s > 0.0 {
        text.push_str(&format!(", {} in the run's own", seconds(calibrated_s)));
        let both = check.costs.iter().filter_map(|cost| {
            let other = calibrated.iter().find(|other| other.part == cost.part)?;
            let differs = (cost.request_s.value - other.request_s.value).abs() > NAMED * calibrated_s;
            let [here, there] = [cost, other].map(|cost| seconds(cost.request_s.value));
            differs.then(|| format!("{} {here} instead of {there}", cost.part))
        });
        let both: Vec<String> = both.collect();
        if !both.is_empty() {
            text.push_str(&format!(": {}", both.join(", ")));
        }
    }
    page.fact("costs", &text);
    if let Some(predicted) = &check.predicted_with_costs {
        let (name, not) = match check.predicted {
            Some(_) => ("predicted again", ": DOES NOT AGREE, either"),
            None => ("then predicted", ": DOES NOT AGREE"),
        };
        let agrees = match (check.agrees_with(Some(predicted)), check.lower_limit) {
            (Some(true), false) => ": agrees",
            (Some(true), true) => ": does not contradict the measured one",
            (Some(false), _) => not,
            (None, _) => "",
        };
        page.fact(name, &format!("{}, with these costs{agrees}", figure(&predicted.cliff_rps)));
    }
}

fn costs(page: &mut Page, finding: &ServiceFinding) {
    let mut rows = vec![words(&["part", "per request", "of a CPU without load"])];
    for cost in &finding.costs {
        let request = format::plus_minus(&cost.request_s, Unit::Seconds);
        rows.push(vec![cost.part.clone(), request, format::share_short(cost.constant)]);
    }
    table(page, "CPU TIME OF THE SERVICE'S HOST", &rows);
    let known = finding.costs.iter().find_map(|cost| cost.request_s.interval).map(|ends| ends.confidence);
    if let Some(known) = known.filter(|known| *known > 0.0) {
        let note = format!(
            "per request: with its {} interval, at loads that the service carries; of a CPU without load: CPU time that does not grow with \
             the load",
            format::share_short(known)
        );
        page.paragraph(2, Tone::Faint, &note);
    }
}

/// Trials of one load together.
#[derive(Default)]
struct Row {
    trials: u32,
    kept: u32,
    requests: u64,
    answers: u64,
    wrong: u64,
    times: Vec<ResponseTimes>,
    missed: Vec<String>,
}

/// Adds the response times at the calibrated loads, measured and predicted.
fn responses(page: &mut Page, finding: &ServiceFinding) {
    let predicted = finding.predicted.iter().flat_map(|predicted| &predicted.response_times);
    let mut rows = vec![words(&["load", "of the cliff", "p50", "predicted", "p99", "predicted"])];
    let mut far_off: Option<(f64, f64)> = None;
    for own in predicted {
        let counts = |trial: &&ServiceTrial| {
            trial.purpose == TrialPurpose::Calibration && trial.void.is_none() && trial.rate_rps == own.rate_rps
        };
        let times: Vec<_> = finding.trials.iter().filter(counts).filter_map(|trial| trial.times).collect();
        if times.is_empty() {
            continue;
        }
        let time = |time_s: f64| format::quantity(time_s, Unit::Seconds);
        let of_cliff = finding.cliff_rps.map(|cliff| format::share_short(own.rate_rps / cliff.value));
        let measured_s = middle(times.iter().map(|times| times.p99_s).collect());
        let ratio = measured_s.map(|measured_s| measured_s / own.p99_s).filter(|ratio| *ratio > FAR_OFF);
        far_off = far_off.or(ratio.map(|ratio| (own.rate_rps, ratio)));
        rows.push(vec![
            format::quantity(own.rate_rps, Unit::PerSecond),
            of_cliff.unwrap_or("-".to_owned()),
            median(times.iter().map(|times| times.p50_s).collect()),
            time(own.p50_s),
            median(times.iter().map(|times| times.p99_s).collect()),
            time(own.p99_s),
        ]);
    }
    table(page, "RESPONSE TIMES (WITHOUT PAUSES; MEDIANS OF THE TRIALS)", &rows);
    if let Some((rate_rps, ratio)) = far_off {
        let capacity_rps = finding.predicted.as_ref().map_or(f64::INFINITY, |predicted| predicted.capacity_rps.value);
        let why = match rate_rps > 0.9 * capacity_rps {
            true => " So near the capacity a small error of a request's CPU time changes the queue much.",
            false => "",
        };
        let (load, ratio) = (rate(rate_rps), format::significant(ratio));
        let note =
            format!("At {load} the measured p99 is {ratio} times the predicted one: use the measured times.{why}");
        page.paragraph(2, Tone::Faint, &note);
    }
}

/// The upper median of the times (s); `None` without times.
fn middle(mut times_s: Vec<f64>) -> Option<f64> {
    times_s.sort_by(f64::total_cmp);
    times_s.get(times_s.len() / 2).copied()
}

/// Median of the times (s) as text; `-` without times.
fn median(times_s: Vec<f64>) -> String {
    middle(times_s).map_or("-".to_owned(), |time_s| format::quantity(time_s, Unit::Seconds))
}

/// Name of a quantile: `p50`, `p99.9`.
fn quantile_name(quantile: f64) -> String {
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

/// Whether two quantiles are the same but for rounding.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

/// The recorded quantiles to show, in ascending order: those of the promise, then the 99th percentile and the median.
fn shown(promise: &Promise) -> Vec<Recorded> {
    let is_promised = |quantile: f64| promise.quantiles.iter().any(|limit| is_same(limit.quantile, quantile));
    let (mut shown, others): (Vec<_>, Vec<_>) = QUANTILES.into_iter().partition(|(quantile, _)| is_promised(*quantile));
    let usual = others.into_iter().rev().filter(|(quantile, _)| [0.99, 0.5].contains(quantile));
    shown.reverse();
    shown.extend(usual);
    shown.truncate(MOST);
    shown.sort_by(|a, b| a.0.total_cmp(&b.0));
    shown
}

/// The limits that a trial missed: `loss`, or the quantile of response times. Where none of the recorded figures shows
/// it, a limit of a quantile that is not recorded was missed.
fn missed(promise: &Promise, trial: &ServiceTrial) -> Vec<String> {
    if trial.kept {
        return Vec::new();
    }
    let recorded =
        |limit: &QuantileLimit| QUANTILES.into_iter().find(|(quantile, _)| is_same(*quantile, limit.quantile));
    let is_slow = |limit: &&QuantileLimit| {
        let time_s = recorded(limit).zip(trial.times).map(|((_, of), times)| of(&times));
        time_s.is_some_and(|time_s| time_s > limit.within_s)
    };
    let name = |limit: &QuantileLimit| quantile_name(limit.quantile);
    let loss = (trial.loss() > promise.loss * (1.0 + 1e-9)).then(|| "loss".to_owned());
    let mut missed: Vec<String> = loss.into_iter().chain(promise.quantiles.iter().filter(is_slow).map(name)).collect();
    if missed.is_empty() {
        missed.extend(promise.quantiles.iter().filter(|limit| recorded(limit).is_none()).map(name));
    }
    missed
}

/// Adds the loads next to the cliff, and below them the meaning of their columns.
fn loads(page: &mut Page, finding: &ServiceFinding) {
    let promise = &finding.promise;
    let counted = |trial: &&ServiceTrial| trial.purpose != TrialPurpose::Bottleneck && trial.void.is_none();
    let mut by_load: BTreeMap<u64, Row> = BTreeMap::new();
    for trial in finding.trials.iter().filter(counted) {
        let row = by_load.entry(trial.rate_rps.to_bits()).or_default();
        row.trials += 1;
        row.kept += u32::from(trial.kept);
        row.requests += trial.requests;
        row.answers += trial.answers;
        row.wrong += trial.wrong_answers;
        row.times.extend(trial.times);
        for limit in missed(promise, trial) {
            if !row.missed.contains(&limit) {
                row.missed.push(limit);
            }
        }
    }
    let mut all: Vec<(f64, Row)> = by_load.into_iter().map(|(bits, row)| (f64::from_bits(bits), row)).collect();
    if let Some(cliff) = finding.cliff_rps {
        let off = |rps: f64| (rps / cliff.value).ln().abs();
        all.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    }
    all.truncate(LOADS);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let quantiles = shown(promise);
    let names: Vec<String> = quantiles.iter().map(|(quantile, _)| quantile_name(*quantile)).collect();
    let mut rows = vec![words(&["load", "passed", "lost", "wrong"])];
    rows[0].extend(names.iter().cloned());
    rows[0].push("limit missed".to_owned());
    for (rps, row) in all {
        let share = |count: u64| format::loss(count as f64 / row.requests.max(1) as f64);
        let mut cells = vec![
            format::quantity(rps, Unit::PerSecond),
            format!("{} of {}", row.kept, row.trials),
            share(row.requests.saturating_sub(row.answers)),
            share(row.wrong),
        ];
        cells.extend(quantiles.iter().map(|(_, of)| median(row.times.iter().map(of).collect())));
        let missed = row.missed.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
        cells.push(if missed.is_empty() { "-".to_owned() } else { missed });
        rows.push(cells);
    }
    let is_shown = rows.len() > 1;
    table(page, "LOADS NEXT TO THE CLIFF (REQUESTS A SECOND)", &rows);
    if is_shown {
        let is_partial = finding.trials.iter().filter(counted).any(|trial| trial.excluded > 0);
        let left_out = " Requests that a pause of the CPU or a delay of the requester affected do not count.";
        let timeout = print_time_s(promise.timeout_s);
        page.paragraph(
            2,
            Tone::Faint,
            &format!(
                "passed: of all trials at the load (searches, calibration), those in which {}.{} lost: no correct answer within {timeout}; wrong: those of them that were answered wrongly; {}: \
                 response time; limit missed: by trials that did not pass.",
                limits(promise),
                if is_partial { left_out } else { "" },
                names.join(", ")
            ),
        );
    }
    let void = finding.trials.iter().filter(|trial| trial.void.is_some()).count() as u64;
    if void > 0 {
        let why = finding.trials.iter().find_map(|trial| trial.void.clone()).unwrap_or_default();
        page.fact("void", &format!("{} (not counted): {why}", format::counted(void, "trial")));
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::service::{PredictedResponse, ServiceSummary};
    use netcliff_core::{Fingerprint, Provenance};

    use super::*;

    fn finding(checks: Vec<ServiceCheck>) -> ServiceFinding {
        ServiceFinding {
            kind: "service".to_owned(),
            service: ServiceSummary::default(),
            promise: Promise { loss: 1e-4, timeout_s: 0.2, quantiles: Vec::new() },
            asked: vec![("service".to_owned(), "nsd -d -c nsd.conf".to_owned())],
            cliff_rps: Some(Figure::between(65e3, 62e3, 68.3e3, 0.95)),
            cliff_with_pauses_rps: Some(Figure::between(61e3, 50e3, 64e3, 0.95)),
            lower_limit: false,
            searches: Vec::new(),
            predicted: None,
            costs: Vec::new(),
            pauses: None,
            bottleneck: None,
            requester: None,
            trials: Vec::new(),
            checks,
            limits: Vec::new(),
            notes: Vec::new(),
            missing: Vec::new(),
            partial: None,
            fingerprint: Fingerprint::default(),
            provenance: Provenance { version: "0.1.0".to_owned(), ..Provenance::default() },
        }
    }

    fn check(name: &str, predicted_rps: Option<f64>, measured_rps: Option<f64>) -> ServiceCheck {
        let near = |rps: f64| Figure::between(rps, 0.95 * rps, 1.05 * rps, 0.95);
        let predicted = predicted_rps.map(|rps| ServicePrediction {
            cliff_rps: near(rps),
            with_pauses_rps: Some(near(0.8 * rps)),
            capacity_rps: Figure::exact(rps),
            response_times: Vec::new(),
            how: "beyond it more than 0.01% of the requests are lost, by the model".to_owned(),
        });
        let mut check = ServiceCheck {
            name: name.to_owned(),
            predicted,
            cliff_rps: measured_rps.map(near),
            cliff_with_pauses_rps: measured_rps.map(|rps| near(0.75 * rps)),
            ..ServiceCheck::default()
        };
        check.compare(Some(Figure::exact(65e3)));
        check
    }

    #[test]
    fn checks_are_predicted_and_measured_side_by_side() {
        let setting = |name: &str, effective: &str| CheckedSetting {
            name: name.to_owned(),
            found: "212992".to_owned(),
            requested: "16384".to_owned(),
            effective: effective.to_owned(),
        };
        let cost = |part: &str, request_s| ServiceCost {
            part: part.to_owned(),
            request_s: Figure::exact(request_s),
            constant: 0.0,
        };
        let why = |sentence: &str| Some(sentence.to_owned());
        let small = ServiceCheck {
            settings: vec![setting("net.core.rmem_default", "16384")],
            bottleneck: Some(ServiceBottleneck { gives: Gives::SocketBuffer, seen: "CPU 1 is 20 % idle".to_owned() }),
            ..check("socket-buffer=16KiB", Some(51e3), Some(50e3))
        };
        let other = ServiceCheck {
            unpredicted: why("this command may run another program, whose costs this run did not measure"),
            notes: vec!["the first request that failed: SERVFAIL".to_owned()],
            costs: vec![cost("softirq", 6e-6), cost("user", 4e-6)],
            predicted_with_costs: check("", Some(99e3), None).predicted,
            ..check("service=nsd -d -c other.conf", None, Some(90e3))
        };
        let threaded = ServiceCheck {
            costs: vec![cost("softirq", 9.5e-6), cost("user", 6e-6)],
            predicted_with_costs: check("", Some(42e3), None).predicted,
            ..check("threaded=on", Some(60e3), Some(40e3))
        };
        let mut most = ServiceCheck {
            lower_limit: true,
            unpredicted: why("the requester's CPU then receives the packets, and this run did not measure its costs"),
            ..check("rps=off", None, Some(70e3))
        };
        most.compare(Some(Figure::exact(65e3)));
        let late =
            ServiceCheck { unmeasured: why("the run was stopped before this check"), ..check("gro=on", None, None) };
        let mut run = finding(vec![small, other, threaded, most, late]);
        run.costs = vec![cost("softirq", 6e-6), cost("user", 6e-6)];
        let page = service(&run, Style::default());
        insta::assert_snapshot!(page);
        assert!(!service(&finding(Vec::new()), Style::default()).contains("CHECKS"));
    }

    /// A trial that kept the promise, with a median response time of `us` microseconds.
    fn trial(purpose: TrialPurpose, rate_rps: f64, us: f64) -> ServiceTrial {
        let times = ResponseTimes {
            mean_s: 1.1e-6 * us,
            p50_s: 1e-6 * us,
            p90_s: 2e-6 * us,
            p99_s: 4e-6 * us,
            p999_s: 5e-6 * us,
            max_s: 6e-6 * us,
        };
        ServiceTrial {
            purpose,
            rate_rps,
            window_s: 0.5,
            requests: 1000,
            answers: 1000,
            late_answers: 0,
            wrong_answers: 0,
            unanswered: 0,
            excluded: 0,
            paused_s: 0.0,
            times: Some(times),
            kept: true,
            kept_with_pauses: None,
            void: None,
            lateness_p99_s: None,
            requester_busy: 0.3,
            idle: None,
        }
    }

    /// The load to plan with is the lower of the two lower ends.
    #[test]
    fn the_load_to_plan_with_is_a_lower_end() {
        let of = |own: Figure, paused: Option<Figure>, lower_limit| {
            let base = finding(Vec::new());
            plan(&ServiceFinding { cliff_rps: Some(own), cliff_with_pauses_rps: paused, lower_limit, ..base }).unwrap()
        };
        let between = |low: f64, high: f64| Figure::between(70e3, low, high, 0.75);
        let (narrow, wide) = (between(68e3, 72e3), between(60e3, 73e3));
        assert_eq!(
            of(narrow, Some(wide), false),
            "Plan with at most 60.0 k requests/s, the lower end of the cliff with pauses."
        );
        assert_eq!(
            of(wide, Some(narrow), false),
            "Plan with at most 60.0 k requests/s, the lower end of the measured cliff."
        );
        assert_eq!(
            of(Figure::exact(9e4), None, true),
            "Plan with at most 90.0 k requests/s, a lower limit of the cliff."
        );
        assert!(of(between(0.0, 72e3), None, false).contains("has no lower end"));
        let predicted = check("", Some(67e3), None).predicted;
        let over =
            ServiceFinding { cliff_rps: Some(narrow), cliff_with_pauses_rps: None, predicted, ..finding(Vec::new()) };
        let text = plan(&over).unwrap();
        assert!(text.starts_with("Plan with at most 67.0 k requests/s, the lower end of the capacity. A"), "{text}");
        assert_eq!(plan(&ServiceFinding { cliff_rps: None, ..finding(Vec::new()) }), None);
    }

    #[test]
    fn a_load_shows_which_limit_it_missed() {
        let limit = |quantile, within_s| QuantileLimit { quantile, within_s };
        let mut run = finding(Vec::new());
        run.promise.quantiles = vec![limit(0.5, 0.01), limit(0.95, 0.02)];
        let slow = ServiceTrial { kept: false, ..trial(TrialPurpose::Search, 70e3, 12e3) };
        let tail = ServiceTrial { rate_rps: 66e3, ..slow.clone() };
        let tail = ServiceTrial { times: trial(TrialPurpose::Search, 66e3, 8e3).times, excluded: 9, ..tail };
        let lossy = ServiceTrial { rate_rps: 80e3, answers: 900, wrong_answers: 20, unanswered: 80, ..slow.clone() };
        run.trials = vec![trial(TrialPurpose::Search, 60e3, 500.0), tail, slow, lossy];
        let page = service(&run, Style::default());
        let table = page.split_once("LOADS NEXT").map(|(_, rest)| rest.split("\n\n").next().unwrap_or(rest));
        insta::assert_snapshot!(table.unwrap(), @r"
         TO THE CLIFF (REQUESTS A SECOND)
          load      passed  lost  wrong      p50      p99  limit missed
          60.0 k/s  1 of 1   0 %    0 %   500 us  2.00 ms             -
          66.0 k/s  0 of 1   0 %    0 %  8.00 ms  32.0 ms           p95
          70.0 k/s  0 of 1   0 %    0 %  12.0 ms  48.0 ms           p50
          80.0 k/s  0 of 1  10 %    2 %  12.0 ms  48.0 ms     loss, p50
          passed: of all trials at the load (searches, calibration), those in which at
          most 0.01 % of the requests have no correct answer within 200ms, and at least
          50 % are answered within 10ms, and at least 95 % are answered within 20ms.
          Requests that a pause of the CPU or a delay of the requester affected do not
          count. lost: no correct answer within 200ms; wrong: those of them that were
          answered wrongly; p50, p99: response time; limit missed: by trials that did
          not pass.
        ");
    }

    /// The busy requester is the limit only if nothing of the service is.
    #[test]
    fn the_requester_may_be_the_limit_where_the_service_has_none() {
        let said = |busy: f64, gives: Option<Gives>| {
            let bottleneck = gives.map(|gives| ServiceBottleneck { gives, seen: String::new() });
            let summary = RequesterSummary { busy, ceiling_rps: 70e3, lateness_p99_s: None };
            let trials = vec![trial(TrialPurpose::Search, 76e3, 50.0)];
            requester(&ServiceFinding { bottleneck, trials, ..finding(Vec::new()) }, &summary)
        };
        let full = "netcliff's load generator was busy 97 % of the time at the cliff (it polls in a loop: this share hardly grows with the \
                    load); it sent up to 76.0 k requests/s in a trial that counts";
        assert_eq!(said(0.97, Some(Gives::Cpu)), format!("{full}. The requester is not the bottleneck"));
        assert_eq!(said(0.97, None), format!("{full}. The cliff may be the requester's: read it as \"at least\""));
        assert!(said(0.97, Some(Gives::Elsewhere)).contains("may be the requester's"));
        assert!(said(0.5, None).ends_with("cliff; it sent up to 76.0 k requests/s in a trial that counts"));
    }

    /// A measured cliff above the capacity is explained.
    #[test]
    fn a_capacity_below_the_cliff_says_why() {
        let of = |rps: f64| capacity(&finding(Vec::new()), &Figure::exact(rps));
        assert!(of(60e3).contains("The measured cliff is higher"), "{}", of(60e3));
        assert!(of(70e3).ends_with("takes 14.3 us of it, other tasks included."), "{}", of(70e3));
    }

    #[test]
    fn response_times_are_predicted_and_measured_side_by_side() {
        let predicted = |rate_rps: f64, us: f64| PredictedResponse { rate_rps, p50_s: 1e-6 * us, p99_s: 5e-6 * us };
        let mut run = finding(Vec::new());
        let base = check("", Some(66e3), Some(65e3)).predicted;
        let response_times = vec![predicted(16e3, 27.0), predicted(32e3, 30.0)];
        run.predicted = base.map(|predicted| ServicePrediction { response_times, ..predicted });
        run.trials = vec![
            trial(TrialPurpose::Calibration, 16e3, 26.0),
            trial(TrialPurpose::Calibration, 16e3, 28.0),
            trial(TrialPurpose::Calibration, 32e3, 33.0),
            // Not predicted, as it is past the capacity; and not calibrated.
            trial(TrialPurpose::Calibration, 80e3, 4000.0),
            trial(TrialPurpose::Search, 16e3, 99.0),
        ];
        let page = service(&run, Style::default());
        let table = page.split_once("\nRESPONSE TIMES").map(|(_, rest)| rest.split("\n\n").next().unwrap_or(rest));
        insta::assert_snapshot!(table.unwrap(), @r"
         (WITHOUT PAUSES; MEDIANS OF THE TRIALS)
          load      of the cliff      p50  predicted     p99  predicted
          16.0 k/s        24.6 %  28.0 us    27.0 us  112 us     135 us
          32.0 k/s        49.2 %  33.0 us    30.0 us  132 us     150 us
        ");
    }
}
