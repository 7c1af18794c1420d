//! [`service`]: output of `netcliff find --service`.

use std::collections::BTreeMap;

use netcliff_core::Figure;
use netcliff_core::finding::{CheckedSetting, Pauses};
use netcliff_core::service::{
    Promise, QuantileLimit, ServiceCheck, ServiceFinding, ServicePrediction, ServiceTrial, TrialPurpose,
};
use netcliff_core::units::print_time_s;

use super::Style;
use super::page::{Page, Tone};
use super::rfc2544::{table, words};
use crate::format::{self, Unit};

/// Largest number of loads in the table: those next to the cliff.
const LOADS: usize = 12;

/// The cliff, measured and predicted, the bottleneck, the checks, the costs of a request, the loads next to the cliff.
pub fn service(finding: &ServiceFinding, style: Style) -> String {
    let mut page = Page::new(style);
    page.head("service", &finding.provenance, finding.partial.is_some(), &finding.asked);
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
            let sure = if ends.confidence > 0.0 {
                format!(", {} confidence", format::share_short(ends.confidence))
            } else {
                String::new()
            };
            format!("{} ({range}{sure})", rate(figure.value))
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
    with_pauses(page, finding.cliff_with_pauses_rps, finding.predicted.as_ref());
    if let Some(predicted) = &finding.predicted {
        page.fact("predicted", &format!("{}: {}", figure(&predicted.cliff_rps), predicted.how));
        let idle = "answers of the overloaded service, whose busiest CPU has no idle time";
        page.fact("capacity", &format!("{}: {idle}", figure(&predicted.capacity_rps)));
    }
    if let Some(pauses) = finding.pauses.as_ref().filter(|pauses| pauses.count > 0) {
        page.fact("pauses", &silences(pauses));
    }
    if let Some(bottleneck) = &finding.bottleneck {
        page.fact("bottleneck", &format!("{}: {}", bottleneck.gives, bottleneck.seen));
    }
    if let Some(requester) = &finding.requester {
        let late = requester.lateness_p99_s.map_or(String::new(), |late_s| {
            format!("; 99 % of the requests left within {} of their time", format::quantity(late_s, Unit::Seconds))
        });
        let (busy, most) = (format::share_short(requester.busy), rate(requester.ceiling_rps));
        let lead = "netcliff's load generator was busy";
        page.fact(
            "requester",
            &format!("{lead} {busy} of the time at the cliff, so it could send at most {most}{late}"),
        );
    }
}

/// What counts as the cliff, as a sentence.
fn definition(promise: &Promise) -> String {
    let limit = |limit: &QuantileLimit| {
        let (share, within) = (format::share_short(limit.quantile), print_time_s(limit.within_s));
        format!(", and at least {share} are answered within {within}")
    };
    let limits: String = promise.quantiles.iter().map(limit).collect();
    let (loss, timeout) = (format::loss(promise.loss), print_time_s(promise.timeout_s));
    format!("Highest load at which at most {loss} of the requests have no correct answer within {timeout}{limits}.")
}

/// Sentence that explains the fact `with pauses`.
const WITH_PAUSES_NOTE: &str = "\"with pauses\" also counts requests during pauses of the CPU, in which another program or the hypervisor had it; the other cliffs \
     leave these requests out.";

/// Adds the cliff that includes pauses of the service's CPUs.
fn with_pauses(page: &mut Page, measured: Option<Figure>, predicted: Option<&ServicePrediction>) {
    let Some(measured) = measured else { return };
    let predicted = predicted.and_then(|predicted| predicted.with_pauses_rps);
    let predicted = predicted.map_or(String::new(), |cliff| format!("; predicted {}", figure(&cliff)));
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
const DISAGREEMENT_NOTE: &str = "Where they do not agree, plan with the measured cliff, and repeat the run: if they still do not agree, the change \
     also alters what a request costs, which the prediction does not know.";

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
        if let Some(bottleneck) = &check.bottleneck {
            page.fact("bottleneck", &format!("{}: {}", bottleneck.gives, bottleneck.seen));
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

fn costs(page: &mut Page, finding: &ServiceFinding) {
    let mut rows = vec![words(&["part", "per request", "without load"])];
    for cost in &finding.costs {
        let request = format::plus_minus(&cost.request_s, Unit::Seconds);
        rows.push(vec![cost.part.clone(), request, format::share_short(cost.constant)]);
    }
    table(page, "CPU TIME OF THE SERVICE'S HOST", &rows);
}

/// Trials of one load together.
#[derive(Default)]
struct Row {
    trials: u32,
    kept: u32,
    requests: u64,
    answers: u64,
    late: u64,
    wrong: u64,
    p50_s: Vec<f64>,
    p99_s: Vec<f64>,
}

/// Adds the response times at the calibrated loads, measured and predicted.
fn responses(page: &mut Page, finding: &ServiceFinding) {
    let predicted = finding.predicted.iter().flat_map(|predicted| &predicted.response_times);
    let mut rows = vec![words(&["load", "of the cliff", "p50", "predicted", "p99", "predicted"])];
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
        rows.push(vec![
            format::quantity(own.rate_rps, Unit::PerSecond),
            of_cliff.unwrap_or("-".to_owned()),
            median(times.iter().map(|times| times.p50_s).collect()),
            time(own.p50_s),
            median(times.iter().map(|times| times.p99_s).collect()),
            time(own.p99_s),
        ]);
    }
    table(page, "RESPONSE TIMES (WITHOUT PAUSES)", &rows);
}

/// Median of the times (s) as text; `-` without times.
fn median(mut times_s: Vec<f64>) -> String {
    times_s.sort_by(f64::total_cmp);
    times_s.get(times_s.len() / 2).map_or("-".to_owned(), |time_s| format::quantity(*time_s, Unit::Seconds))
}

fn loads(page: &mut Page, finding: &ServiceFinding) {
    let counted = |trial: &&ServiceTrial| trial.purpose != TrialPurpose::Bottleneck && trial.void.is_none();
    let mut by_load: BTreeMap<u64, Row> = BTreeMap::new();
    for trial in finding.trials.iter().filter(counted) {
        let row = by_load.entry(trial.rate_rps.to_bits()).or_default();
        row.trials += 1;
        row.kept += u32::from(trial.kept);
        row.requests += trial.requests;
        row.answers += trial.answers;
        row.late += trial.late_answers;
        row.wrong += trial.wrong_answers;
        row.p50_s.extend(trial.times.map(|times| times.p50_s));
        row.p99_s.extend(trial.times.map(|times| times.p99_s));
    }
    let mut all: Vec<(f64, Row)> = by_load.into_iter().map(|(bits, row)| (f64::from_bits(bits), row)).collect();
    if let Some(cliff) = finding.cliff_rps {
        let off = |rps: f64| (rps / cliff.value).ln().abs();
        all.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    }
    all.truncate(LOADS);
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows = vec![words(&["load", "passed", "answered", "late", "wrong", "p50", "p99"])];
    for (rps, row) in all {
        let share = |count: u64| format::loss(count as f64 / row.requests.max(1) as f64);
        rows.push(vec![
            format::quantity(rps, Unit::PerSecond),
            format!("{} of {}", row.kept, row.trials),
            format::quantity(row.answers as f64 / row.requests.max(1) as f64, Unit::Share),
            share(row.late),
            share(row.wrong),
            median(row.p50_s),
            median(row.p99_s),
        ]);
    }
    table(page, "LOADS NEXT TO THE CLIFF (REQUESTS A SECOND)", &rows);
    let void = finding.trials.iter().filter(|trial| trial.void.is_some()).count() as u64;
    if void > 0 {
        let why = finding.trials.iter().find_map(|trial| trial.void.clone()).unwrap_or_default();
        page.fact("void", &format!("{} (not counted): {why}", format::counted(void, "trial")));
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::service::{Gives, PredictedResponse, Promise, ResponseTimes, ServiceBottleneck, ServiceSummary};
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
        let why = |sentence: &str| Some(sentence.to_owned());
        let small = ServiceCheck {
            settings: vec![setting("net.core.rmem_default", "16384")],
            bottleneck: Some(ServiceBottleneck { gives: Gives::SocketBuffer, seen: "CPU 1 is 20 % idle".to_owned() }),
            ..check("socket-buffer=16KiB", Some(51e3), Some(50e3))
        };
        let other = ServiceCheck {
            unpredicted: why("this command may run another program, whose costs this run did not measure"),
            notes: vec!["the first request that failed: SERVFAIL".to_owned()],
            ..check("service=nsd -d -c other.conf", None, Some(90e3))
        };
        let threaded = check("threaded=on", Some(60e3), Some(40e3));
        let mut most = ServiceCheck {
            lower_limit: true,
            unpredicted: why("the requester's CPU then receives the packets, and this run did not measure its costs"),
            ..check("rps=off", None, Some(70e3))
        };
        most.compare(Some(Figure::exact(65e3)));
        let late =
            ServiceCheck { unmeasured: why("the run was stopped before this check"), ..check("gro=on", None, None) };
        let page = service(&finding(vec![small, other, threaded, most, late]), Style::default());
        insta::assert_snapshot!(page);
        assert!(!service(&finding(Vec::new()), Style::default()).contains("CHECKS"));
    }

    #[test]
    fn response_times_are_predicted_and_measured_side_by_side() {
        let times = |us: f64| ResponseTimes {
            mean_s: 1.1e-6 * us,
            p50_s: 1e-6 * us,
            p90_s: 2e-6 * us,
            p99_s: 4e-6 * us,
            p999_s: 5e-6 * us,
            max_s: 6e-6 * us,
        };
        let trial = |purpose: TrialPurpose, rate_rps: f64, us: f64| ServiceTrial {
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
            times: Some(times(us)),
            kept: true,
            kept_with_pauses: None,
            void: None,
            lateness_p99_s: None,
            requester_busy: 0.3,
            idle: None,
        };
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
        let table = page.split_once("RESPONSE TIMES").map(|(_, rest)| rest.split("\n\n").next().unwrap_or(rest));
        insta::assert_snapshot!(table.unwrap(), @r"
         (WITHOUT PAUSES)
          load      of the cliff      p50  predicted     p99  predicted
          16.0 k/s        24.6 %  28.0 us    27.0 us  112 us     135 us
          32.0 k/s        49.2 %  33.0 us    30.0 us  132 us     150 us
        ");
    }
}
