//! Runs the checks: for each set-up, builds a testbed, starts the service, predicts the cliff, and then measures it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::Figure;
use netcliff_core::service::{ServiceCheck, ServiceFinding, ServicePrediction};
use netcliff_core::units::print_bytes;

use super::real::Real;
use super::{Basis, Options, Target, calibrate, keep_working, overloaded, requester_limits};
use crate::bench::{Bench, Conductor, Observer};
use crate::check::{Check, Unpredicted};
use crate::costs::{self, Altered, Costs};
use crate::error::FindError;
use crate::search::{self, Scale};

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
    match predicted(check, basis, socket_packets, &own) {
        Ok(predicted) => {
            checked.predicted = Some(predicted);
        }
        Err(why) => checked.unpredicted = Some(why.to_string()),
    }
    let calibrated = finding.cliff_rps.filter(|_| !finding.lower_limit);
    let near = Near { calibrated_rps: finding.cliff_rps.map(|cliff| cliff.value), socket_packets };
    measure(&mut checked, &mut real, &own, &near, observer);
    checked.compare(calibrated);
    if checked.agrees != Some(true) {
        let with_costs = |costs: &Costs| predicted_with(costs, check.altered_host(socket_packets)?, basis, &own);
        measure_costs(&mut checked, &mut real, &own, (basis.streams, socket_packets), with_costs, observer);
    }
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
    check: &Check,
    basis: &Basis,
    socket_packets: u64,
    options: &Options,
) -> Result<ServicePrediction, Unpredicted> {
    let altered = check.altered(socket_packets)?;
    predicted_with(basis.costs.as_ref().ok_or(Unpredicted::NoCosts)?, altered, basis, options)
}

/// Predicts the cliff of an altered set-up in which a request has these costs.
fn predicted_with(
    costs: &Costs,
    altered: Altered,
    basis: &Basis,
    options: &Options,
) -> Result<ServicePrediction, Unpredicted> {
    let promise = options.promise();
    costs.predict_altered(&altered, &options.goal(&promise, basis)).map_err(Unpredicted::Engine)
}

/// Values known before a check is measured.
struct Near {
    /// The calibrated cliff (requests/s); `None`: not measured.
    calibrated_rps: Option<f64>,
    /// Datagrams that the service's socket holds.
    socket_packets: u64,
}

/// Measures the cliff and what overloads first.
fn measure(
    checked: &mut ServiceCheck,
    bench: &mut dyn Bench,
    options: &Options,
    near: &Near,
    observer: &mut dyn Observer,
) {
    let promise = options.promise();
    let mut conductor = Conductor::new(bench, &promise, observer, options.settings.seed);
    checked.unmeasured = searched(checked, &mut conductor, options, near).err().map(|why| why.to_string());
    checked.trials = std::mem::take(&mut conductor.trials);
}

fn searched(
    checked: &mut ServiceCheck,
    conductor: &mut Conductor<'_>,
    options: &Options,
    near: &Near,
) -> Result<(), FindError> {
    let first_rps = near.calibrated_rps.map_or(search::FIRST_RPS, |cliff_rps| BELOW * cliff_rps);
    let none = || FindError::NoCliff;
    let scale = search::scale(conductor, first_rps)?.ok_or_else(none)?;
    let judging = options.judging_at(scale.middle_rps(), near.socket_packets);
    let cliff = search::cliff(conductor, &scale, &judging)?;
    (checked.lower_limit, checked.searches) = (cliff.lower_limit, cliff.searches);
    let figure: Figure = cliff.figure.ok_or_else(none)?;
    (checked.cliff_rps, checked.cliff_with_pauses_rps) = (Some(figure), cliff.with_pauses);
    checked.bottleneck =
        if cliff.lower_limit { Some(requester_limits()) } else { overloaded(conductor, figure.value, &judging)? };
    Ok(())
}

/// Measures what a request costs in this set-up, and predicts its cliff with these costs: the result tells costs that
/// the change alters from an error of the model. `(streams, socket_packets)`: whether requests travel over connections,
/// and how many datagrams the service's socket holds.
fn measure_costs(
    checked: &mut ServiceCheck,
    bench: &mut dyn Bench,
    options: &Options,
    (streams, socket_packets): (bool, u64),
    predict: impl Fn(&Costs) -> Result<ServicePrediction, Unpredicted>,
    observer: &mut dyn Observer,
) {
    let Some(cliff) = checked.cliff_rps else { return };
    let scale = Scale { kept_rps: cliff.value, failed_rps: None };
    let judging = options.judging_at(cliff.value, socket_packets);
    let promise = options.promise();
    let mut conductor = Conductor::new(bench, &promise, observer, options.settings.seed);
    let calibration = calibrate(&mut conductor, options, &scale, &judging);
    checked.trials.append(&mut conductor.trials);
    let costs = calibration.map_err(|error| error.to_string()).and_then(|calibration| {
        let mut metered = calibration.metered;
        keep_working(&mut metered);
        costs::fit(&metered, socket_packets, streams)
    });
    match costs {
        Ok(costs) => {
            checked.predicted_with_costs = predict(&costs).ok();
            checked.costs = costs.parts;
        }
        Err(why) => checked.notes.push(format!("what a request costs in this set-up is unknown: {why}")),
    }
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

    fn measured(capacity_rps: f64) -> ServiceCheck {
        let mut checked = ServiceCheck::default();
        let near = Near { calibrated_rps: Some(40e3), socket_packets: 277 };
        measure(&mut checked, &mut Fake(capacity_rps), &options(), &near, &mut Quiet(Vec::new()));
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

    /// A service that is measured, with 8 us of CPU time per request and up to 1 us for its wake-up.
    struct Metering;

    impl Bench for Metering {
        fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
            let (report, _) = Fake(100e3).trial(spec)?;
            let rps = spec.rate_rps.min(100e3);
            Ok((report, Some(costs::tests::metered(rps, 1.0 - rps / 100e3))))
        }
    }

    #[test]
    fn what_a_request_costs_in_a_check_is_measured_there() {
        let measured = |bench: &mut dyn Bench, streams: bool| {
            let mut checked = ServiceCheck { cliff_rps: Some(Figure::exact(90e3)), ..ServiceCheck::default() };
            let capacity = |costs: &Costs| {
                let cliff_rps = costs.capacity_rps();
                Ok(ServicePrediction {
                    cliff_rps,
                    with_pauses_rps: None,
                    capacity_rps: cliff_rps,
                    response_times: Vec::new(),
                    how: String::new(),
                })
            };
            measure_costs(&mut checked, bench, &options(), (streams, 277), capacity, &mut Quiet(Vec::new()));
            checked
        };
        let checked = measured(&mut Metering, true);
        let softirq = checked.costs.iter().find(|cost| cost.part == "softirq").unwrap_or_else(|| panic!("{checked:?}"));
        assert!((softirq.request_s.value / 2e-6 - 1.0).abs() < 0.01, "{softirq:?}");
        let predicted = checked.predicted_with_costs.as_ref().unwrap().cliff_rps.value;
        assert!((predicted / (0.97 / 8e-6) - 1.0).abs() < 0.05, "{predicted}");
        assert!(!checked.trials.is_empty() && checked.notes.is_empty(), "{:?}", checked.notes);
        let unmetered = measured(&mut Fake(100e3), true);
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
