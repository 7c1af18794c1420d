//! [`ServiceFinding`]: result of `netcliff find --service`: the highest load at which a user's own service keeps its
//! promise.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::finding::{CheckedSetting, Pauses};
use crate::outcome::Figure;
use crate::record::{Fingerprint, Provenance};
use crate::units;

/// The result, as `--json` prints it and the store stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceFinding {
    /// Always `service`.
    pub kind: String,
    /// The service, and how requests reach it.
    pub service: ServiceSummary,
    /// The promise that it must keep.
    pub promise: Promise,
    /// The configuration: (name, value).
    pub asked: Vec<(String, String)>,
    /// Highest measured load at which the promise is kept (requests/s), without requests that were affected by pauses of
    /// the service's CPUs, in which another program or the hypervisor had them; absent: see `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_rps: Option<Figure>,
    /// The same with these requests; absent: there were no such pauses, they are not visible, or the trials do not
    /// determine it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_with_pauses_rps: Option<Figure>,
    /// True: no higher load was judged, so that the cliff is a lower limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_limit: bool,
    /// The searches for the cliff.
    pub searches: Vec<ServiceSearch>,
    /// The cliff computed from the costs of a request; absent: see `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<ServicePrediction>,
    /// CPU time of a request on the service's CPUs, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<ServiceCost>,
    /// Pauses of the service: times without an answer although requests were due, longer than a request takes, in the
    /// valid trials at loads up to its capacity. The prediction includes them. Absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<Pauses>,
    /// The part that overloads first; absent: not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<ServiceBottleneck>,
    /// Load of the requester at the cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<RequesterSummary>,
    /// All trials in the order in which they were made, without the trials of the checks.
    pub trials: Vec<ServiceTrial>,
    /// Other set-ups (`--check`), predicted with these costs and then measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ServiceCheck>,
    /// How the set-up limits the result, a sentence each.
    pub limits: Vec<String>,
    /// Other notes that a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// Figures that could not be measured, and why, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Why the run ended early; absent: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Properties of host and software that explain a difference to another run.
    pub fingerprint: Fingerprint,
    /// Version, seed and settings of the run.
    pub provenance: Provenance,
}

/// A service, and how requests reach it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceSummary {
    /// The command that starts it; absent: it was already running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Address and port of the service.
    pub address: String,
    /// `dns`, `http`, `memcached`, `redis` or `udp`.
    pub protocol: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// Number of connections; over UDP the number of source ports.
    pub connections: u32,
    /// Most outstanding requests per connection; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// True: a new connection for each request.
    pub new_connections: bool,
    /// Number of different requests.
    pub requests: u64,
    /// Gaps between requests: `poisson`, `constant`, or `capture` for the gaps of a capture.
    #[serde(default)]
    pub arrivals: String,
    /// Agent on the service's host; absent: the service runs on this host, or is not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Path of the requests, in one line.
    pub testbed: String,
    /// CPU that the requester runs on.
    pub requester_cpu: u32,
    /// CPUs that the service runs on; empty: it is not restricted.
    pub service_cpus: Vec<u32>,
    /// Number of its processes when it was ready; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Number of their threads; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// A limit for a quantile of the response time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileLimit {
    /// Share of the requests that must be answered within the limit, above 0 and below 1.
    pub quantile: f64,
    /// The limit (s), from when a request was due.
    pub within_s: f64,
}

impl fmt::Display for QuantileLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered within {}", units::print_share(self.quantile), units::print_time_s(self.within_s))
    }
}

/// Conditions under which the service counts as able to carry a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Promise {
    /// Largest share of requests that are unanswered, answered wrongly, or answered after the timeout.
    pub loss: f64,
    /// Time after which a request counts as lost (s), from when it was due.
    pub timeout_s: f64,
    /// Limits of response times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<QuantileLimit>,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loss, timeout) = (units::print_share(self.loss), units::print_time_s(self.timeout_s));
        write!(f, "at most {loss} not answered within {timeout}")?;
        self.quantiles.iter().try_for_each(|limit| write!(f, ", {limit}"))
    }
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceSearch {
    /// Highest load that kept the promise, below all loads that broke it (requests/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_rps: Option<f64>,
    /// Lowest load that broke the promise (requests/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_rps: Option<f64>,
    /// How the search ended, as in `rfc2544` (RFC 9971).
    pub end: String,
    /// Number of valid trials.
    pub trials: u32,
    /// Number of trials that do not count because the requester was late.
    pub void_trials: u32,
}

/// Purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// To find the order of magnitude of the cliff.
    Scale,
    /// To measure the cost of a request.
    Calibration,
    /// To search for the cliff.
    Search,
    /// To find the part that overloads past the cliff.
    Bottleneck,
}

/// Response times, from when a request was due to the end of its answer (s).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponseTimes {
    /// Mean (s).
    pub mean_s: f64,
    /// Median (s).
    pub p50_s: f64,
    /// 90th percentile (s).
    pub p90_s: f64,
    /// 99th percentile (s).
    pub p99_s: f64,
    /// 99.9th percentile (s).
    pub p999_s: f64,
    /// Longest (s).
    pub max_s: f64,
}

/// One trial: requests at a constant rate during a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceTrial {
    /// Purpose of the trial.
    pub purpose: TrialPurpose,
    /// Intended load (requests/s).
    pub rate_rps: f64,
    /// Length of the measured window (s).
    pub window_s: f64,
    /// Requests due in the window, without `excluded`.
    pub requests: u64,
    /// Requests of the window that were answered correctly and within the timeout.
    pub answers: u64,
    /// Requests of the window that were answered after the timeout.
    pub late_answers: u64,
    /// Requests of the window that were answered wrongly: with an error of the service, or in an unexpected form.
    pub wrong_answers: u64,
    /// Requests of the window that were not answered.
    pub unanswered: u64,
    /// Requests of the window that do not count: a delay of the requester or a pause of the service's CPUs affected them,
    /// or the burst after it. Absent: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded: u64,
    /// Length of the pauses of the service's CPUs (s), in which another program or the hypervisor had them; absent: 0, or
    /// unknown.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub paused_s: f64,
    /// Response times; absent without answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<ResponseTimes>,
    /// True: the promise was kept.
    pub kept: bool,
    /// Whether it was also kept with requests that were affected by pauses of the service's CPUs; absent: as `kept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_with_pauses: Option<bool>,
    /// Why the trial does not count, one sentence; absent: it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// 99th percentile of the delay with which the requester handled due requests (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_s: Option<f64>,
    /// Share of the time that the requester was busy.
    pub requester_busy: f64,
    /// Share of the time that the service's CPUs were idle; absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_no_time(time_s: &f64) -> bool {
    *time_s == 0.0
}

impl ServiceTrial {
    /// Share of the requests without a correct answer in time; 0 without requests.
    pub fn loss(&self) -> f64 {
        let lost = self.requests.saturating_sub(self.answers);
        if self.requests == 0 { 0.0 } else { lost as f64 / self.requests as f64 }
    }
}

/// A computed cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServicePrediction {
    /// Highest load that would keep the promise (requests/s), without pauses of the service's CPUs.
    pub cliff_rps: Figure,
    /// The same with these pauses; absent: there were none, or they are not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_pauses_rps: Option<Figure>,
    /// Load at which the busiest CPU has no idle time, whatever the promise, from the CPU time of a request (requests/s).
    /// May be below the cliff: a request costs more while the socket is full, and a queue that grows slowly breaks no
    /// limit within a trial.
    pub capacity_rps: Figure,
    /// Response times at the calibrated loads that the service carries, in ascending order, without pauses; absent: not
    /// computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_times: Vec<PredictedResponse>,
    /// How the cliff was computed, one sentence.
    pub how: String,
}

/// Computed response times at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedResponse {
    /// Load (requests/s).
    pub rate_rps: f64,
    /// Median (s).
    pub p50_s: f64,
    /// 99th percentile (s).
    pub p99_s: f64,
}

/// CPU time of one part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceCost {
    /// `interrupt`, `softirq`, `system`, `user` or `other`.
    pub part: String,
    /// CPU time per request (s), which grows with the load.
    pub request_s: Figure,
    /// CPU time that does not grow with the load, as a share of one CPU.
    pub constant: f64,
}

/// The part that overloads first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// The service's CPUs have no idle time.
    Cpu,
    /// Other programs use most of one of the service's CPUs.
    OtherPrograms,
    /// One thread of the service is always busy, while its CPUs have idle time.
    Thread,
    /// A socket's receive buffer overflows, while CPUs and threads have idle time.
    SocketBuffer,
    /// The queue of connections waiting to be accepted overflows.
    AcceptQueue,
    /// The backlog between network and protocols overflows.
    Backlog,
    /// No part listed above: the service waits for something else, such as a lock, a disk or another host.
    Elsewhere,
    /// The requester, which cannot send faster.
    Requester,
}

impl fmt::Display for Gives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::OtherPrograms => "other programs",
            Self::Thread => "a thread",
            Self::SocketBuffer => "the socket buffer",
            Self::AcceptQueue => "the accept queue",
            Self::Backlog => "the receive backlog",
            Self::Elsewhere => "something the service waits for",
            Self::Requester => "the requester",
        })
    }
}

/// The part that overloads first, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceBottleneck {
    /// The part that overloads.
    pub gives: Gives,
    /// Evidence past the cliff, one sentence.
    pub seen: String,
}

/// A set-up that was not calibrated: predicted with the costs of this run, then measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceCheck {
    /// The difference to the run, as the user gave it: `socket-buffer=1MiB`, `service=COMMAND`.
    pub name: String,
    /// Settings of the host, of the testbed's interface and of the service's socket that the check changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<CheckedSetting>,
    /// The predicted cliff; absent: see `unpredicted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<ServicePrediction>,
    /// Why nothing is predicted, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpredicted: Option<String>,
    /// CPU time of a request by part, measured in this set-up; empty: the prediction agrees, the model does not have the
    /// set-up, or CPU time was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<ServiceCost>,
    /// The cliff predicted with these costs; absent: they were not measured, or the model does not have the set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_with_costs: Option<ServicePrediction>,
    /// Highest measured load at which the promise is kept (requests/s); absent: see `unmeasured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_rps: Option<Figure>,
    /// The same with requests that were affected by pauses of the service's CPUs; absent: as in the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_with_pauses_rps: Option<Figure>,
    /// True: no higher load was judged, so that the cliff is a lower limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_limit: bool,
    /// Why nothing was measured, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<String>,
    /// Measured cliff divided by the predicted one; absent: one of them is missing, or the measured one is a lower
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// True: the intervals of measured and predicted cliff overlap; absent: one of them is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
    /// Measured cliff divided by the cliff of the calibrated set-up; absent: one of them is a lower limit, or was not
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_calibrated: Option<f64>,
    /// The part that overloads first; absent: not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<ServiceBottleneck>,
    /// The searches for the cliff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<ServiceSearch>,
    /// All trials of the check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<ServiceTrial>,
    /// Other notes that a reader must know, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ServiceCheck {
    /// Compares the measured cliff with the predicted cliff and with the cliff of the calibrated set-up. `calibrated`:
    /// the cliff of that set-up; `None` if it is unknown or a lower limit.
    pub fn compare(&mut self, calibrated: Option<Figure>) {
        let Some(measured) = self.cliff_rps else { return };
        let over = |other: Figure| (other.value > 0.0 && !self.lower_limit).then(|| measured.value / other.value);
        self.of_calibrated = calibrated.and_then(over);
        let predicted = self.predicted.as_ref().map(|one| one.cliff_rps);
        self.ratio = predicted.and_then(over);
        self.agrees = self.agrees_with(self.predicted.as_ref());
    }

    /// Whether the intervals of the measured cliff and of `predicted` overlap; `None` if one of them is missing.
    pub fn agrees_with(&self, predicted: Option<&ServicePrediction>) -> Option<bool> {
        let ends = |figure: Figure| {
            let interval = figure.interval.map(|ends| (ends.low, ends.high));
            interval.unwrap_or((figure.value, figure.value))
        };
        let ((low, high), (from, to)) = (ends(predicted?.cliff_rps), ends(self.cliff_rps?));
        // For a lower limit, only the lower end is known.
        Some(high >= from && (self.lower_limit || low <= to))
    }
}

/// Load of the requester at the cliff.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequesterSummary {
    /// Share of the time that it was busy.
    pub busy: f64,
    /// Extrapolated load at which the requester would always be busy (requests/s).
    pub ceiling_rps: f64,
    /// 99th percentile of the delay with which the requester handled due requests (s); absent: there were no due
    /// requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_a_sentence() {
        let within = |quantile, within_s| QuantileLimit { quantile, within_s };
        let promise = Promise { loss: 1e-4, timeout_s: 0.2, quantiles: vec![within(0.99, 5e-3)] };
        assert_eq!(promise.to_string(), "at most 0.01% not answered within 200ms, 99% answered within 5ms");
    }

    #[test]
    fn a_check_agrees_where_the_intervals_overlap() {
        let predicted = |value| ServicePrediction {
            with_pauses_rps: None,
            cliff_rps: Figure::between(value, 0.9 * value, 1.1 * value, 0.95),
            capacity_rps: Figure::exact(value),
            response_times: Vec::new(),
            how: String::new(),
        };
        let compared = |predicted_rps, measured: Figure, lower_limit| {
            let predicted = Some(predicted(predicted_rps));
            let mut check =
                ServiceCheck { predicted, cliff_rps: Some(measured), lower_limit, ..ServiceCheck::default() };
            check.compare(Some(Figure::exact(50e3)));
            (check.ratio, check.agrees, check.of_calibrated)
        };
        let measured = Figure::between(100e3, 95e3, 105e3, 0.75);
        assert_eq!(compared(80e3, measured, false), (Some(1.25), Some(false), Some(2.0)));
        assert_eq!(compared(100e3, measured, false), (Some(1.0), Some(true), Some(2.0)));
        // A measured cliff of at least 100 k/s contradicts a prediction of 80 k/s, but not one of 200 k/s.
        assert_eq!(compared(200e3, Figure::exact(100e3), true), (None, Some(true), None));
        assert_eq!(compared(80e3, Figure::exact(100e3), true), (None, Some(false), None));
        let mut alone = ServiceCheck { cliff_rps: Some(measured), ..ServiceCheck::default() };
        alone.compare(None);
        assert_eq!((alone.ratio, alone.agrees, alone.of_calibrated), (None, None, None));
    }

    #[test]
    fn what_is_not_answered_rightly_in_time_is_lost() {
        let trial = ServiceTrial {
            purpose: TrialPurpose::Search,
            rate_rps: 100.0,
            window_s: 1.0,
            requests: 100,
            answers: 90,
            late_answers: 3,
            wrong_answers: 4,
            unanswered: 3,
            excluded: 0,
            paused_s: 0.0,
            kept_with_pauses: None,
            times: None,
            kept: false,
            void: None,
            lateness_p99_s: None,
            requester_busy: 0.1,
            idle: None,
        };
        assert!((trial.loss() - 0.1).abs() < 1e-12);
        assert!((ServiceTrial { requests: 0, answers: 0, ..trial }).loss() == 0.0);
    }
}
