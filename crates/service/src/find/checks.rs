//! Runs the checks: for each set-up, builds a testbed, starts the service, predicts the cliff, and then measures it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::Figure;
use netcliff_core::service::{ServiceCheck, ServiceFinding, ServicePrediction};
use netcliff_core::units::print_bytes;

use super::real::Real;
use super::{Basis, Calibration, Options, Target, calibrate, keep_working, overloaded, requester_limits};
use crate::bench::{Bench, Conductor, Observer};
use crate::check::{Check, Unpredicted};
use crate::costs::{self, Altered, Goal};
use crate::error::FindError;
use crate::search::{self, Judging, Scale};

/// Load at which the search for a check's order of magnitude begins, relative to the calibrated cliff.
const BELOW: f64 = 0.5;

/// Runs all checks; after a stop, or if the run itself `ended` early, the rest is left out, with the reason.
pub(super) fn all(
    options: &Options,
    basis: &Basis,
    finding: &mut ServiceFinding,
    ended: Option<&FindError>,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) {
    let mut left_out = ended.map(|why| format!("the run ended before: {why}"));
    for check in &options.checks {
        let name = check.to_string();
        let checked = match &left_out {
            Some(why) => ServiceCheck { name, unmeasured: Some(why.clone()), ..ServiceCheck::default() },
            None => {
                observer.stage(&format!("checking {check}"));
                one(check, options, basis, finding, stop, observer)
            }
        };
        finding.checks.push(checked);
        if stop.load(Ordering::Relaxed) && left_out.is_none() {
            left_out = Some(format!("the run ended before: {}", FindError::Stopped));
            finding.partial = Some(FindError::Stopped.to_string());
        }
    }
}

/// Makes one check: builds its testbed, starts the service, predicts and measures.
fn one(
    check: &Check,
    options: &Options,
    basis: &Basis,
    finding: &mut ServiceFinding,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> ServiceCheck {
    let mut checked = ServiceCheck { name: check.to_string(), ..ServiceCheck::default() };
    let set_up = check.set_up();
    let own = match check.command() {
        Some(command) => Options { target: Target::Start(command.to_owned()), ..options.clone() },
        None => options.clone(),
    };
    let mut real = match Real::start(&own, &set_up, None, Arc::clone(stop)) {
        Ok(real) => real,
        Err(why) => return ServiceCheck { unmeasured: Some(why.to_string()), ..checked },
    };
    checked.settings = real.changed();
    let socket_packets = real.socket_packets();
    checked.notes.extend(own_buffer(check, real.socket_bytes()));
    let switch_s = if check.is_threaded() { real.switch_s() } else { None };
    let of_host = |altered: Altered| Altered { switch_s, ..altered };
    match predicted(check.altered(socket_packets).map(of_host), basis, &own) {
        Ok(predicted) => {
            checked.predicted = Some(predicted);
        }
        Err(why) => checked.unpredicted = Some(why.to_string()),
    }
    let near = Near {
        calibrated: finding.cliff_rps,
        is_lower_limit: finding.lower_limit,
        socket_packets,
        altered: check.altered_host(socket_packets).ok().map(of_host).filter(|_| basis.costs.is_some()),
        is_other_program: check.command().is_some(),
        basis,
    };
    measure(&mut checked, &mut real, &own, &near, observer);
    checked.notes.extend(real.failure());
    checked.notes.extend(real.testbed_limits().filter(|limit| !finding.limits.contains(limit)).cloned());
    finding.limits.extend(real.end());
    checked
}

/// A note if the service's socket does not have the buffer of the check.
fn own_buffer(check: &Check, socket_bytes: Option<u32>) -> Option<String> {
    let (wanted, has) = (check.socket_buffer_bytes()?, socket_bytes?);
    let has_bytes = print_bytes(u64::from(has));
    (wanted != has)
        .then(|| format!("the service sets its own receive buffer ({has_bytes}), so socket-buffer has no effect"))
}

/// Predicts the cliff of a check; otherwise returns why it cannot be predicted.
fn predicted(
    altered: Result<Altered, Unpredicted>,
    basis: &Basis,
    options: &Options,
) -> Result<ServicePrediction, Unpredicted> {
    let altered = altered?;
    let costs = basis.costs.as_ref().ok_or(Unpredicted::NoCosts)?;
    let promise = options.promise();
    costs.predict_altered(&altered, &options.goal(&promise, basis)).map_err(Unpredicted::Engine)
}

/// Values known before a check is measured.
struct Near<'a> {
    /// The calibrated cliff (requests/s); `None`: not measured.
    calibrated: Option<Figure>,
    /// True: the calibrated cliff is a lower limit.
    is_lower_limit: bool,
    /// Datagrams that the service's socket holds.
    socket_packets: u64,
    /// The set-up in the form that the model has; `None`: the model does not have it, or the run has no costs.
    altered: Option<Altered>,
    /// True: another command starts the service.
    is_other_program: bool,
    /// The calibrated set-up.
    basis: &'a Basis,
}

/// Measures the cliff and what overloads first; where the prediction does not agree, also what a request costs.
fn measure(
    checked: &mut ServiceCheck,
    bench: &mut dyn Bench,
    options: &Options,
    near: &Near<'_>,
    observer: &mut dyn Observer,
) {
    let promise = options.promise();
    let mut conductor = Conductor::new(bench, &promise, observer, options.settings.seed);
    let searched = searched(checked, &mut conductor, options, near);
    checked.compare(near.calibrated.filter(|_| !near.is_lower_limit));
    match (searched, near.altered) {
        (Err(why), _) => checked.unmeasured = Some(why.to_string()),
        (Ok(judging), Some(altered)) if checked.agrees != Some(true) => {
            predict_again(checked, &mut conductor, options, near, (&altered, &judging));
        }
        (Ok(_), _) => {}
    }
    checked.trials = std::mem::take(&mut conductor.trials);
}

/// Returns how the search decided on loads.
fn searched(
    checked: &mut ServiceCheck,
    conductor: &mut Conductor<'_>,
    options: &Options,
    near: &Near<'_>,
) -> Result<Judging, FindError> {
    let first_rps = near.calibrated.map_or(search::FIRST_RPS, |cliff| BELOW * cliff.value);
    let none = || FindError::NoCliff;
    let scale = search::scale(conductor, first_rps)?.ok_or_else(none)?;
    let judging = options.judging_at(scale.middle_rps(), near.socket_packets);
    let cliff = search::cliff(conductor, &scale, &judging)?;
    (checked.lower_limit, checked.searches) = (cliff.lower_limit, cliff.searches);
    let figure: Figure = cliff.figure.ok_or_else(none)?;
    (checked.cliff_rps, checked.cliff_with_pauses_rps) = (Some(figure), cliff.with_pauses);
    checked.bottleneck =
        if cliff.lower_limit { Some(requester_limits()) } else { overloaded(conductor, figure.value, &judging)? };
    Ok(judging)
}

/// Measures what a request costs in this set-up, and predicts its cliff with these costs: the result distinguishes costs
/// that the change alters from an error of the model.
fn predict_again(
    checked: &mut ServiceCheck,
    conductor: &mut Conductor<'_>,
    options: &Options,
    near: &Near<'_>,
    (altered, judging): (&Altered, &Judging),
) {
    let Some(cliff) = checked.cliff_rps else { return };
    conductor.stage("measuring what a request costs in this set-up");
    let scale = Scale { kept_rps: cliff.value, failed_rps: None };
    let fitted = calibrate(conductor, options, &scale, judging).map_err(|error| error.to_string());
    let fitted = fitted.and_then(|Calibration { mut metered, .. }| {
        keep_working(&mut metered);
        costs::fit(&metered, near.socket_packets, near.basis.streams)
    });
    let costs = match fitted {
        Ok(costs) => costs,
        Err(why) => {
            checked.notes.push(format!("what a request costs in this set-up is unknown: {why}"));
            return;
        }
    };
    // Another program has pauses of its own.
    let own = near.is_other_program.then(|| {
        let most_rps = costs.capacity_rps().value.max(cliff.value);
        conductor.pauses(judging.trial_s, most_rps).beyond(costs.request_s())
    });
    let goal = options.goal(conductor.promise(), near.basis);
    match costs.predict_altered(altered, &Goal { pauses: own.as_ref().unwrap_or(goal.pauses), ..goal }) {
        Ok(predicted) => checked.predicted_with_costs = Some(predicted),
        Err(why) => checked.notes.push(format!("not predicted with what a request costs in this set-up: {why}")),
    }
    checked.costs = costs.parts;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Metered, Spec};
    use crate::requester::{Counts, Report};
    use netcliff_core::service::{Gives, ServiceTrial};

    /// A service with this capacity; the requester offers at most 90 k/s.
    struct Fake(f64);

    impl Bench for Fake {
        fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
            let requests = (spec.rate_rps * spec.window_s) as u64;
            let mut counts = Counts { requests, ..Counts::default() };
            counts.answers = ((self.0 * spec.window_s) as u64).min(requests);
            counts.times.record_n_ns(1_000_000, counts.answers);
            let in_time = ((90e3 * spec.window_s) as u64).min(requests);
            let mut report = Report { counts, in_time, window_s: spec.window_s, ..Report::default() };
            if in_time < requests {
                report.excluded = std::mem::take(&mut report.counts).requests;
            }
            Ok((report, None))
        }
    }

    struct Quiet(Vec<String>);
    impl Observer for Quiet {
        fn stage(&mut self, name: &str) {
            self.0.push(name.to_owned());
        }
        fn trial(&mut self, _: &ServiceTrial) {}
    }

    fn options() -> Options {
        crate::find::tests::options("udp:00", Vec::new())
    }

    fn near(basis: &Basis, altered: Option<Altered>) -> Near<'_> {
        Near {
            calibrated: Some(Figure::exact(40e3)),
            is_lower_limit: false,
            socket_packets: 277,
            altered,
            is_other_program: false,
            basis,
        }
    }

    fn measured(capacity_rps: f64) -> ServiceCheck {
        let mut checked = ServiceCheck::default();
        let basis = Basis::default();
        measure(&mut checked, &mut Fake(capacity_rps), &options(), &near(&basis, None), &mut Quiet(Vec::new()));
        checked
    }

    #[test]
    fn cliffs_above_and_below_the_calibrated_one_are_measured() {
        for capacity_rps in [9e3, 41e3, 70e3] {
            let checked = measured(capacity_rps);
            let cliff = checked.cliff_rps.unwrap_or_else(|| panic!("{checked:?}"));
            assert!((cliff.value / capacity_rps - 1.0).abs() < 0.05, "{cliff:?}");
            assert!(!checked.lower_limit && checked.unmeasured.is_none() && !checked.trials.is_empty());
        }
        let most = measured(1e6);
        assert!(most.lower_limit && most.bottleneck.is_some_and(|one| one.gives == Gives::Requester));
        let none = measured(0.0);
        assert!(none.unmeasured.is_some_and(|why| why.contains("not kept")) && none.cliff_rps.is_none());
    }

    /// A service that is metered: 8 us of CPU time per request, and up to 1.5 us for an interrupt and a wake-up.
    struct Metering;

    impl Bench for Metering {
        fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
            let (report, _) = Fake(100e3).trial(spec)?;
            let rps = spec.rate_rps.min(100e3);
            Ok((report, spec.is_metered().then(|| costs::tests::metered(rps, 1.0 - rps / 100e3))))
        }
    }

    #[test]
    fn a_check_that_disagrees_is_predicted_again_with_its_own_costs() {
        let measured = |bench: &mut dyn Bench, altered: Option<Altered>, predicted_rps: Option<f64>, streams: bool| {
            let predicted = predicted_rps.map(|rps| ServicePrediction {
                cliff_rps: Figure::exact(rps),
                with_pauses_rps: None,
                capacity_rps: Figure::exact(rps),
                response_times: Vec::new(),
                how: String::new(),
            });
            let mut checked = ServiceCheck { predicted, ..ServiceCheck::default() };
            let basis = Basis { streams, socket_packets: 277, ..Basis::default() };
            measure(&mut checked, bench, &options(), &near(&basis, altered), &mut Quiet(Vec::new()));
            checked
        };
        let softirq = |checked: &ServiceCheck| checked.costs.iter().find(|cost| cost.part == "softirq").cloned();
        let altered = Some(Altered::default());
        for (predicted_rps, streams) in [(Some(40e3), false), (None, false)] {
            let checked = measured(&mut Metering, altered, predicted_rps, streams);
            let softirq = softirq(&checked).unwrap_or_else(|| panic!("{checked:?}"));
            assert!((softirq.request_s.value / 2e-6 - 1.0).abs() < 0.01, "{softirq:?}");
            let again = checked.predicted_with_costs.as_ref().unwrap().cliff_rps.value;
            assert!((90e3..123e3).contains(&again), "{again}");
            assert!(checked.notes.is_empty(), "{:?}", checked.notes);
        }
        // Over connections without a limit of response times nothing defines a cliff.
        let undefined = measured(&mut Metering, altered, Some(40e3), true);
        assert!(softirq(&undefined).is_some() && undefined.predicted_with_costs.is_none(), "{undefined:?}");
        assert!(undefined.notes[0].starts_with("not predicted with what a request costs"), "{:?}", undefined.notes);
        let agrees = measured(&mut Metering, altered, Some(98e3), false);
        assert!(agrees.agrees == Some(true) && agrees.costs.is_empty(), "{agrees:?}");
        let not_in_the_model = measured(&mut Metering, None, Some(40e3), false);
        assert!(not_in_the_model.costs.is_empty() && not_in_the_model.notes.is_empty());
        let unmetered = measured(&mut Fake(100e3), altered, Some(40e3), false);
        assert!(unmetered.costs.is_empty() && unmetered.notes[0].contains("fewer than three trials"), "{unmetered:?}");
    }

    #[test]
    fn a_buffer_that_the_service_sets_itself_is_noted() {
        let check: Check = "socket-buffer=1MiB".parse().unwrap();
        assert_eq!(own_buffer(&check, Some(1 << 20)), None);
        assert!(own_buffer(&check, Some(2 << 20)).unwrap().contains("2MiB"));
        assert_eq!(own_buffer(&"backlog=9".parse().unwrap(), Some(7)), None);
    }
}
