//! [`ServiceFinding`]: what `netcliff find --service` finds: the load that a user's own service answers as promised.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;
use crate::record::{Fingerprint, Provenance};
use crate::units;

/// The record of a run, as `--json` prints it and the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceFinding {
    /// `service`.
    pub kind: String,
    /// The service and how it is reached.
    pub service: ServiceSummary,
    /// What it has to keep.
    pub promise: Promise,
    /// The configuration, by name.
    pub asked: Vec<(String, String)>,
    /// Highest load that keeps the promise, measured (requests/s); absent: `missing` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_rps: Option<Figure>,
    /// True: no higher load was judged, so the cliff is a lower limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_limit: bool,
    /// The searches behind the cliff.
    pub searches: Vec<ServiceSearch>,
    /// The cliff that follows from the costs of a request, with how it was computed; absent: `missing` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<ServicePrediction>,
    /// CPU time that a request takes of the service's CPUs, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<ServiceCost>,
    /// What gives out first, with what was seen of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<ServiceBottleneck>,
    /// The requester at the cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<RequesterSummary>,
    /// Every trial, in the order they were made.
    pub trials: Vec<ServiceTrial>,
    /// How the set-up limits the result, a sentence each.
    pub limits: Vec<String>,
    /// What else a reader must know, a sentence each.
    pub notes: Vec<String>,
    /// What could not be measured and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Everything that explains a difference to another run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
}

/// A service and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceSummary {
    /// The command that starts it; absent: it ran already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Address and port that requests go to.
    pub address: String,
    /// `dns`, `http`, `memcached`, `redis` or `udp`.
    pub protocol: String,
    /// `tcp` or `udp`.
    pub transport: String,
    /// Number of connections or, over UDP, of source ports.
    pub connections: u32,
    /// Requests under way on a connection at most; absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// True: a connection for each request.
    pub new_connections: bool,
    /// Number of different requests.
    pub requests: u64,
    /// Gaps between requests: `poisson`, `constant`, or `capture` for those of a capture.
    #[serde(default)]
    pub arrivals: String,
    /// Where requests travel, in a line.
    pub testbed: String,
    /// CPU of the requester.
    pub requester_cpu: u32,
    /// CPUs of the service; empty: those that it chooses.
    pub service_cpus: Vec<u32>,
    /// Processes that it had when it was ready; absent: they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Threads that these had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// A quantile of the response time and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileLimit {
    /// Share of the requests that are answered in time, above 0 and below 1.
    pub quantile: f64,
    /// Their longest response time, from when a request was due (s).
    pub within_s: f64,
}

impl fmt::Display for QuantileLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered within {}", units::print_share(self.quantile), units::print_time_s(self.within_s))
    }
}

/// What a load has to keep to count as carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Promise {
    /// Largest share of requests that are not answered, or wrongly, or after the timeout.
    pub loss: f64,
    /// Time after which a request counts as lost, from when it was due (s).
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
    /// Highest load that kept the promise below every load that did not (requests/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_rps: Option<f64>,
    /// Lowest load that did not (requests/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_rps: Option<f64>,
    /// How it ended, as searches of `rfc2544` do (RFC 9971).
    pub end: String,
    /// Valid trials.
    pub trials: u32,
    /// Trials that do not count, since the requester was late.
    pub void_trials: u32,
}

/// Why a trial was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// To find the order of magnitude.
    Scale,
    /// To measure what a request costs.
    Calibration,
    /// To find the cliff.
    Search,
    /// To see what gives out past the cliff.
    Bottleneck,
}

/// Response times, from when a request was due to its whole answer (s).
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

/// One trial: requests at one rate for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceTrial {
    /// Why it was made.
    pub purpose: TrialPurpose,
    /// Intended load (requests/s).
    pub rate_rps: f64,
    /// Length of the window in which requests count (s).
    pub window_s: f64,
    /// Requests that were due in it.
    pub requests: u64,
    /// Of these, answered rightly and within the timeout.
    pub answers: u64,
    /// Of these, answered after the timeout.
    pub late_answers: u64,
    /// Of these, answered wrongly: an error of the service, or an answer of another form.
    pub wrong_answers: u64,
    /// Of these, not answered.
    pub unanswered: u64,
    /// Times of the answers; absent without answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<ResponseTimes>,
    /// True: the promise was kept.
    pub kept: bool,
    /// Why it does not count, a sentence; absent: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// 99th percentile of how late the requester took up requests (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_p99_s: Option<f64>,
    /// Share of the time that the requester worked.
    pub requester_busy: f64,
    /// Share of the service's CPUs that was idle; absent: not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
}

impl ServiceTrial {
    /// Share of the requests that were not answered rightly in time; 0 without requests.
    pub fn loss(&self) -> f64 {
        let lost = self.requests.saturating_sub(self.answers);
        if self.requests == 0 { 0.0 } else { lost as f64 / self.requests as f64 }
    }
}

/// A computed cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServicePrediction {
    /// Highest load that would keep the promise (requests/s).
    pub cliff_rps: Figure,
    /// Load at which the busiest CPU has no time left, whatever is promised (requests/s).
    pub capacity_rps: Figure,
    /// How it was computed, a sentence.
    pub how: String,
}

/// CPU time by part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceCost {
    /// `interrupt`, `softirq`, `system`, `user` or `other`.
    pub part: String,
    /// What grows with the load, a request (s).
    pub request_s: Figure,
    /// What does not grow, as a share of a CPU.
    pub constant: f64,
}

/// What gives out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// The service's CPUs have no time left.
    Cpu,
    /// Other programs have most of a CPU of the service.
    OtherPrograms,
    /// One thread of the service has no time left, while a CPU has.
    Thread,
    /// A socket's receive buffer overflows, while CPUs and threads have time.
    SocketBuffer,
    /// The queue of connections that wait to be accepted overflows.
    AcceptQueue,
    /// The queue between network and protocols overflows.
    Backlog,
    /// None of these: the service waits for something else.
    Elsewhere,
    /// The requester: it cannot ask faster.
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

/// What gives out first, and how that shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceBottleneck {
    /// What.
    pub gives: Gives,
    /// What was seen past the cliff, a sentence.
    pub seen: String,
}

/// The requester at the cliff.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequesterSummary {
    /// Share of the time that it worked.
    pub busy: f64,
    /// The load at which it would work all the time, by that (requests/s).
    pub ceiling_rps: f64,
    /// 99th percentile of how late it took up requests (s); absent: it took up none.
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
