//! The search for the highest load that keeps the promise: first its order of magnitude, then MLRsearch (RFC 9971).

use netcliff_core::service::{ServiceSearch, ServiceTrial, TrialPurpose};
use netcliff_core::{Figure, Interval};
use netcliff_mlrsearch::mlr::{self, Mlr};
use netcliff_mlrsearch::trial::{Range, Trial};
use netcliff_mlrsearch::{End, Goal, Searched};
use netcliff_stats as stats;

use crate::bench::{Conductor, Did};
use crate::error::FindError;
use crate::promise::smallest_share;

/// First load of a search if nothing is known about the service (requests/s).
pub const FIRST_RPS: f64 = 500.0;
/// Lowest load that is tried (requests/s).
const LOWEST_RPS: f64 = 1.0;
/// Highest load that is tried (requests/s).
const HIGHEST_RPS: f64 = 2e7;
/// Ratio of upper to lower bound at which the order of magnitude counts as known.
const NEAR: f64 = 1.3;
/// Smallest number of requests per trial, unless the longest window is too short for it.
const LEAST_REQUESTS: f64 = 40.0;
/// Shortest and longest window of the first trials (s).
const WINDOW_S: (f64, f64) = (0.2, 4.0);
/// Highest load of a search as a multiple of [`Scale::middle_rps`], if a load that breaks the promise was found before.
/// If even that load keeps the promise, the highest load is multiplied by it again and the search repeated.
const BEYOND: f64 = 3.0;
/// Fractional part of the golden ratio: multiples of it, modulo 1, spread the first loads of the searches evenly, so
/// that searches do not try the same loads.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Largest ratio between a search's first load and the rough cliff.
const DITHER: f64 = 1.15;
/// Total trial time after which a search ends with its present bounds, as a multiple of the trial time that decides on
/// one load.
const MOST_LOADS: f64 = 14.0;

/// Order of magnitude of the cliff.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Highest load that kept the promise (requests/s).
    pub kept_rps: f64,
    /// Lowest load that broke the promise (requests/s); `None`: no load did, up to the highest that the requester could
    /// offer.
    pub failed_rps: Option<f64>,
}

impl Scale {
    /// Geometric mean of both bounds (requests/s); the lower bound if there is no upper one.
    pub fn middle_rps(&self) -> f64 {
        self.failed_rps.map_or(self.kept_rps, |failed| (failed * self.kept_rps).sqrt())
    }
}

/// How a search decides on loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judging {
    /// Length of a trial (s).
    pub trial_s: f64,
    /// Total length of the trials that decide on a load (s).
    pub duration_sum_s: f64,
    /// Share of these trials that may break the promise.
    pub exceed: f64,
    /// Relative distance between the bounds at which a search ends.
    pub width: f64,
    /// Number of searches.
    pub searches: u32,
}

/// The measured cliff.
#[derive(Debug, Clone, PartialEq)]
pub struct Cliff {
    /// The cliff without pauses of the service's CPUs (requests/s); `None`: no load kept the promise.
    pub figure: Option<Figure>,
    /// The cliff with these pauses (requests/s); `None`: there were no pauses, or the trials do not determine it.
    pub with_pauses: Option<Figure>,
    /// True: `figure` is only a lower limit, because too few searches found a load that broke the promise.
    pub lower_limit: bool,
    /// The searches.
    pub searches: Vec<ServiceSearch>,
}

/// Finds the order of magnitude of the cliff: doubles the load from the first one until it fails, and then halves the
/// interval. `None`: even the lowest load failed.
///
/// # Errors
/// See [`Conductor::one`].
pub fn scale(conductor: &mut Conductor<'_>, first_rps: f64) -> Result<Option<Scale>, FindError> {
    let mut at = |rate_rps: f64| {
        let window_s = (LEAST_REQUESTS / rate_rps).clamp(WINDOW_S.0, WINDOW_S.1);
        conductor.did(TrialPurpose::Scale, rate_rps, window_s)
    };
    let (mut kept, mut failed) = (None, None);
    let mut rate_rps = first_rps.clamp(LOWEST_RPS, HIGHEST_RPS);
    while kept.is_none() || failed.is_none() {
        match at(rate_rps)? {
            Did::Kept => {
                kept = Some(rate_rps);
                rate_rps *= 2.0;
            }
            Did::Failed => {
                failed = Some(rate_rps);
                rate_rps /= 4.0;
            }
            Did::Void if kept.is_none() => rate_rps /= 4.0,
            Did::Void => return Ok(kept.map(|kept_rps| Scale { kept_rps, failed_rps: None })),
        }
        if rate_rps < LOWEST_RPS {
            return Ok(None);
        }
        if rate_rps > HIGHEST_RPS {
            return Ok(kept.map(|kept_rps| Scale { kept_rps, failed_rps: None }));
        }
    }
    let (Some(mut kept_rps), Some(mut failed_rps)) = (kept, failed) else { return Ok(None) };
    while failed_rps > NEAR * kept_rps {
        let middle_rps = (failed_rps * kept_rps).sqrt();
        match at(middle_rps)? {
            Did::Kept => kept_rps = middle_rps,
            Did::Failed | Did::Void => failed_rps = middle_rps,
        }
    }
    Ok(Some(Scale { kept_rps, failed_rps: Some(failed_rps) }))
}

/// Searches for the cliff around its order of magnitude.
///
/// # Errors
/// See [`Conductor::one`].
pub fn cliff(conductor: &mut Conductor<'_>, scale: &Scale, judging: &Judging) -> Result<Cliff, FindError> {
    let goal = Goal {
        final_trial_s: judging.trial_s,
        initial_trial_s: judging.trial_s,
        duration_sum_s: judging.duration_sum_s,
        loss_ratio: smallest_share(conductor.promise()),
        exceed_ratio: judging.exceed,
        width: judging.width,
    };
    goal.check().map_err(FindError::Invalid)?;
    let middle_rps = scale.middle_rps();
    // Loads above the requester's limit cannot be offered.
    let highest = if scale.failed_rps.is_some() { BEYOND } else { 1.5 };
    let mut range = Range { min_pps: scale.kept_rps / 8.0, max_pps: highest * middle_rps };
    let mut searched: Vec<Searched> = Vec::new();
    while searched.len() < judging.searches as usize {
        let number = searched.len() as u32;
        let dither = DITHER.powf(2.0 * (f64::from(number) * GOLDEN).fract() - 1.0);
        let mlr = Mlr {
            goals: vec![goal],
            range,
            start_pps: Some(middle_rps * dither),
            at_most_s: Some(MOST_LOADS * judging.duration_sum_s),
        };
        let mut ask = |duration_s: f64, load_pps: f64| {
            let seen = conductor.one(TrialPurpose::Search, load_pps, duration_s)?;
            let (sent, lost) = (seen.report.counts.requests, seen.judged.lost);
            Ok::<_, FindError>(seen.report.answer(Trial { load_pps, duration_s, sent, lost }))
        };
        let one = mlr::search(&mlr, &mut ask)?;
        let is_beyond = one.found.iter().any(|found| found.end == End::AboveMaximum);
        if is_beyond && scale.failed_rps.is_some() && range.max_pps < HIGHEST_RPS {
            // Disturbed trials had made the cliff's order of magnitude too low.
            range.max_pps *= BEYOND;
        } else {
            searched.push(one);
        }
    }
    Ok(summary(&searched, &conductor.trials, judging))
}

/// Returns the result of these searches. The cliff is estimated from all valid trials of the searches' length, also
/// those of the calibration: if pauses decide about trials at random over a wide range of loads, a search with few
/// trials per load ends close to where it began, but the likelihood of its trials does not depend on how their loads
/// were chosen.
fn summary(searched: &[Searched], trials: &[ServiceTrial], judging: &Judging) -> Cliff {
    let found: Vec<_> = searched.iter().filter_map(|one| Some((one, one.found.first()?))).collect();
    let searches = found
        .iter()
        .map(|(one, found)| ServiceSearch {
            lower_rps: found.lower_pps,
            upper_rps: found.upper_pps,
            end: found.end.to_string(),
            trials: one.trials.len() as u32,
            void_trials: one.void_trials,
        })
        .collect();
    let brackets: Vec<_> = found
        .iter()
        .filter(|(_, found)| found.lower_pps.is_some() || found.upper_pps.is_some())
        .map(|(_, found)| (found.lower_pps, found.upper_pps))
        .collect();
    let lowest = brackets.iter().filter_map(|(lower, _)| *lower).reduce(f64::min);
    let (figure, lower_limit) = match stats::bracketed(&brackets) {
        Some(stats::Bracketed { value: Some(value), low, high, confidence }) => (
            Some(Figure::between(value, low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY), confidence)),
            high.is_none(),
        ),
        // In at least half of the searches no load broke the promise, so the cliff is only a lower limit.
        _ => (lowest.map(Figure::exact), true),
    };
    let estimate = |kept: fn(&ServiceTrial) -> bool| {
        let counts = |trial: &&ServiceTrial| trial.void.is_none() && trial.window_s == judging.trial_s;
        let counted: Vec<_> = trials.iter().filter(counts).map(|trial| (trial.rate_rps, !kept(trial))).collect();
        stats::quantile::crossing(&counted, judging.exceed)
    };
    let figure = estimate(|trial| trial.kept).filter(|_| !lower_limit).map(|cliff| wider(cliff, figure)).or(figure);
    let with_pauses = trials.iter().any(|trial| trial.kept_with_pauses.is_some());
    let with_pauses = with_pauses.then(|| estimate(|trial| trial.kept_with_pauses.unwrap_or(trial.kept))).flatten();
    let with_pauses = with_pauses.map(|cliff| wider(cliff, None));
    Cliff { figure, with_pauses, lower_limit: lower_limit && figure.is_some(), searches }
}

/// Returns the estimate with its interval widened to that of the searches, and with the confidence of that interval. The
/// confidence of the estimate's own interval is unknown (0), because the searches chose the loads.
fn wider(estimate: Figure, searches: Option<Figure>) -> Figure {
    let Some(ends) = estimate.interval else { return estimate };
    let other = searches.and_then(|figure| figure.interval).unwrap_or(Interval { confidence: 0.0, ..ends });
    Figure::between(estimate.value, ends.low.min(other.low), ends.high.max(other.high), other.confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, Metered, Observer, Spec};
    use crate::requester::{Counts, Report};
    use netcliff_core::service::{Promise, QuantileLimit};

    /// A service with a known capacity: at higher loads requests are lost, or answered late.
    struct Fake {
        capacity_rps: f64,
        late: bool,
        requester_rps: f64,
        /// Another program uses half of the service's CPU in all trials except each one whose seed is a multiple of
        /// this number; 0: in no trial.
        disturbed_of: u64,
        /// Loads at which delays of the requester affect all requests of trials below half a second.
        delayed_rps: std::ops::Range<f64>,
    }

    impl Default for Fake {
        fn default() -> Self {
            Self { capacity_rps: 50e3, late: false, requester_rps: 1e9, disturbed_of: 0, delayed_rps: 0.0..0.0 }
        }
    }

    impl Bench for Fake {
        fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
            let requests = (spec.rate_rps * spec.window_s) as u64;
            let others = if self.disturbed_of > 0 && !spec.seed.is_multiple_of(self.disturbed_of) { 0.5 } else { 0.0 };
            let good = (((1.0 - others) * self.capacity_rps * spec.window_s) as u64).min(requests);
            let mut counts = Counts { requests, answers: good, ..Counts::default() };
            counts.times.record_n_ns(1_000_000, good);
            if self.late {
                counts.times.record_n_ns(50_000_000, requests - good);
                counts.answers = requests;
            }
            let in_time = ((self.requester_rps * spec.window_s) as u64).min(requests);
            let mut report = Report { counts, others, in_time, window_s: spec.window_s, ..Report::default() };
            if in_time < requests || spec.window_s < 0.5 && self.delayed_rps.contains(&spec.rate_rps) {
                report.excluded = std::mem::take(&mut report.counts).requests;
            }
            Ok((report, None))
        }
    }

    struct Quiet;
    impl Observer for Quiet {
        fn stage(&mut self, _: &str) {}
        fn trial(&mut self, _: &ServiceTrial) {}
    }

    fn found(mut fake: Fake, quantiles: Vec<QuantileLimit>) -> Option<(Scale, Cliff)> {
        let promise = Promise { loss: 1e-3, timeout_s: 0.2, quantiles };
        let mut observer = Quiet;
        let mut conductor = Conductor::new(&mut fake, &promise, &mut observer, 1);
        let scale = scale(&mut conductor, FIRST_RPS).unwrap()?;
        let judging = Judging { trial_s: 1.0, duration_sum_s: 3.0, exceed: 0.5, width: 0.02, searches: 3 };
        let cliff = cliff(&mut conductor, &scale, &judging).unwrap();
        Some((scale, cliff))
    }

    #[test]
    fn a_known_capacity_is_found_from_tens_to_millions() {
        for capacity_rps in [40.0, 730.0, 51_300.0, 3.3e6] {
            let (_, cliff) = found(Fake { capacity_rps, ..Fake::default() }, Vec::new()).unwrap();
            let figure = cliff.figure.unwrap();
            assert!((figure.value / capacity_rps - 1.0).abs() < 0.03, "{capacity_rps}: {figure:?}");
            assert!(!cliff.lower_limit && cliff.searches.iter().all(|search| search.end == "regular"), "{cliff:?}");
        }
    }

    #[test]
    fn late_answers_are_a_cliff_where_a_quantile_is_promised() {
        let late = || Fake { capacity_rps: 20e3, late: true, ..Fake::default() };
        let limit = QuantileLimit { quantile: 0.99, within_s: 5e-3 };
        let (_, cliff) = found(late(), vec![limit]).unwrap();
        let value = cliff.figure.unwrap().value;
        // One request in a hundred may be late, so the cliff is 1 % above the capacity.
        assert!((value / 20e3 - 1.01).abs() < 0.03, "{value}");
    }

    #[test]
    fn beyond_the_requester_is_a_lower_limit() {
        let (scale, cliff) =
            found(Fake { capacity_rps: 1e9, requester_rps: 90e3, ..Fake::default() }, Vec::new()).unwrap();
        assert_eq!(scale.failed_rps, None);
        let value = cliff.figure.unwrap().value;
        assert!(cliff.lower_limit && (64e3..91e3).contains(&value), "{cliff:?}");
    }

    #[test]
    fn trials_that_other_programs_disturbed_do_not_lower_the_cliff() {
        let fake = |disturbed_of| Fake { disturbed_of, ..Fake::default() };
        let value = |disturbed_of| found(fake(disturbed_of), Vec::new()).unwrap().1.figure.unwrap().value;
        assert!((value(3) / 50e3 - 1.0).abs() < 0.03, "{}", value(3));
        // If other programs run in all trials, they are part of the host, and halve the cliff.
        assert!((value(u64::MAX) / 25e3 - 1.0).abs() < 0.03, "{}", value(u64::MAX));
    }

    #[test]
    fn a_service_that_never_answers_has_no_cliff() {
        assert!(found(Fake { capacity_rps: 0.0, ..Fake::default() }, Vec::new()).is_none());
    }

    /// At 3 to 10 k/s, each of the first, short trials is void because the requester was delayed.
    #[test]
    fn a_delayed_requester_is_not_the_limit() {
        let (scale, cliff) =
            found(Fake { delayed_rps: 3e3..10e3, capacity_rps: 15e3, ..Fake::default() }, Vec::new()).unwrap();
        assert!(scale.failed_rps.is_some() && !cliff.lower_limit, "{scale:?} {cliff:?}");
        assert!((cliff.figure.unwrap().value / 15e3 - 1.0).abs() < 0.05, "{cliff:?}");
    }

    /// At loads below the capacity of 50 k/s, the service itself pauses in 3 of 10 trials, which then lose requests.
    #[test]
    fn random_failures_do_not_pull_the_cliff_to_where_the_search_began() {
        struct Paused(Fake, netcliff_stats::chance::Chance);
        impl Bench for Paused {
            fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
                let (mut report, metered) = self.0.trial(spec)?;
                if self.1.uniform() < 0.3 {
                    let counts = &mut report.counts;
                    counts.answers = counts.answers.min(counts.requests - counts.requests / 100);
                }
                Ok((report, metered))
            }
        }
        let promise = Promise { loss: 1e-3, timeout_s: 0.2, quantiles: Vec::new() };
        let judging = Judging { trial_s: 1.0, duration_sum_s: 2.0, exceed: 0.5, width: 0.04, searches: 3 };
        let cliff_rps = |seed| {
            let mut bench = Paused(Fake::default(), netcliff_stats::chance::Chance::new(seed));
            let mut observer = Quiet;
            let mut conductor = Conductor::new(&mut bench, &promise, &mut observer, seed);
            let scale = Scale { kept_rps: 30e3, failed_rps: Some(40e3) };
            cliff(&mut conductor, &scale, &judging).unwrap().figure.map_or(0.0, |figure| figure.value)
        };
        let cliffs: Vec<f64> = (1..=21).map(cliff_rps).collect();
        let median = stats::median(&cliffs).unwrap().value;
        assert!((median / 50e3 - 1.0).abs() < 0.1, "{median} {cliffs:?}");
    }
}
