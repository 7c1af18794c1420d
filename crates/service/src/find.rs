//! The run: starts the service, measures its order of magnitude, costs and cliff, and names what overloads first.

mod checks;
mod real;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::Settings;
use netcliff_core::service::{
    Gives, Promise, QuantileLimit, RequesterSummary, ServiceBottleneck, ServiceFinding, ServiceSummary, ServiceTrial,
    TrialPurpose,
};
use netcliff_core::{Provenance, units};
use netcliff_host::cpu::Preference;
use netcliff_packets::schedule::Arrivals;
use netcliff_remote::control::client::Session;
use netcliff_trial::rig::Place;

use crate::bench::{Conductor, Metered, Observer};
use crate::check::{Check, Possible, SetUp};
use crate::costs::{Costs, Goal};
use crate::error::FindError;
use crate::latency::Times;
use crate::pauses::Pauses;
use crate::protocol::{Match, Transport};
use crate::request::{RequestSpec, Workload};
use crate::requester::tls::{Client, Wanted};
use crate::search::{self, Judging, Scale};
use crate::{bottleneck, costs};

use real::Real;

/// Smallest length of a trial, as a multiple of the queueing time that breaks the promise, and largest length (s). With
/// 20, a load 5 % above the capacity breaks the promise within the trial.
const WAITS: f64 = 20.0;
const LONGEST_TRIAL_S: f64 = 5.0;
/// Share of the service's CPU above which other programs that use it are named in the report.
const MUCH: f64 = 0.05;
/// Number of times that the order of magnitude is determined again, if pauses of the CPU made it too low.
const RESCALES: u32 = 3;
/// Load of the trial that shows the bottleneck, relative to the cliff: high enough to overload the service all the
/// time.
const PAST: f64 = 1.2;

/// The service to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A command that starts the service.
    Start(String),
    /// A running service: its address, and its process if known.
    Running(SocketAddr, Option<u32>),
}

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is measured, and how precisely; what belongs to netcliff's own receiver is ignored.
    pub settings: Settings,
    /// The service to measure.
    pub target: Target,
    /// The requests.
    pub request: RequestSpec,
    /// Transport of the requests; `None`: the protocol's default.
    pub transport: Option<Transport>,
    /// Position of a request's number in datagrams; `None`: datagrams have no number.
    pub by: Option<Match>,
    /// Port of the service; `None`: the protocol's default.
    pub port: Option<u16>,
    /// Number of connections or source ports; `None`: the protocol's default.
    pub connections: Option<u32>,
    /// Most outstanding requests per connection.
    pub depth: u32,
    /// True: a new connection for each request.
    pub new_connections: bool,
    /// Settings of encrypted connections.
    pub tls: Wanted,
    /// Limits of response times; empty: for connections the default limit, for datagrams none.
    pub quantiles: Vec<QuantileLimit>,
    /// Time after which a request counts as lost (s).
    pub timeout_s: f64,
    /// Distribution of the times between requests. `None`: the times of the capture, or Poisson without a capture.
    pub arrivals: Option<Arrivals>,
    /// Set-ups to predict with the costs of this one and then to measure.
    pub checks: Vec<Check>,
    /// How CPU time is measured.
    pub cpu: Preference,
    /// Where requests travel: the testbed.
    pub place: Place,
    /// True: IPv6.
    pub ipv6: bool,
    /// CPU of the requester; `None`: the first one.
    pub requester_cpu: Option<u32>,
    /// CPUs of the service; empty: the last one.
    pub service_cpus: Vec<u32>,
    /// True: the CPUs of a service that netcliff starts never halt, because a loop of lowest priority runs on them.
    pub awake: bool,
    /// netcliff's version.
    pub version: String,
}

/// Default limit of response times for connections. Over connections no request is lost, so that without such a limit
/// there is no cliff.
const USUAL: QuantileLimit = QuantileLimit { quantile: 0.99, within_s: 0.01 };

impl Options {
    fn transport(&self) -> Transport {
        let usual = if self.has_tls() { Transport::Tcp } else { self.request.protocol.transport() };
        self.transport.unwrap_or(usual)
    }

    /// True if connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.tls.tls || self.request.tls
    }

    /// The promise that the service must keep.
    pub fn promise(&self) -> Promise {
        let usual = self.quantiles.is_empty() && self.transport() == Transport::Tcp;
        let quantiles = if usual { vec![USUAL] } else { self.quantiles.clone() };
        Promise { loss: self.settings.loss, timeout_s: self.timeout_s, quantiles }
    }

    /// Whether the service's CPUs may halt, for the report.
    fn idle(&self) -> &'static str {
        match self.target {
            Target::Start(_) if self.awake => "kept from halting (--idle awake)",
            Target::Start(_) => "halts between requests as configured (--idle as-configured)",
            Target::Running(..) => "halts between requests as configured",
        }
    }

    fn goal<'a>(&self, promise: &'a Promise, basis: &'a Basis) -> Goal<'a> {
        let (exceed, seed) = (self.exceed(), self.settings.seed);
        Goal { promise, exceed, pauses: &basis.pauses, streams: basis.streams, seed }
    }

    /// Share of the trials that decide on a load which may break the promise.
    fn exceed(&self) -> f64 {
        self.settings.exceed.unwrap_or(Settings::EXCEED)
    }

    fn judging(&self) -> Judging {
        let given = &self.settings;
        let (trial_s, loads, width, searches) = if given.quick { (0.5, 1.0, 0.04, 3) } else { (1.0, 3.0, 0.02, 5) };
        let trial_s = given.trial_s.unwrap_or(trial_s);
        Judging {
            trial_s,
            duration_sum_s: given.duration_sum_s.unwrap_or(loads * trial_s).max(trial_s),
            exceed: self.exceed(),
            width: given.width.unwrap_or(width),
            searches: given.searches.unwrap_or(searches),
        }
    }

    /// Returns how a search decides on loads close to `rate_rps`. A load just above the cliff makes a queue grow
    /// slowly, so that trials must last many times the queueing time that breaks the promise.
    fn judging_at(&self, rate_rps: f64, socket_packets: u64) -> Judging {
        let judging = self.judging();
        if self.settings.trial_s.is_some() {
            return judging;
        }
        let promise = self.promise();
        let slowest_s = promise.quantiles.iter().map(|limit| limit.within_s).reduce(f64::max);
        // Without a limit of response times: the time until the socket is full, or the timeout.
        let wait_s = slowest_s.unwrap_or((socket_packets as f64 / rate_rps).min(promise.timeout_s));
        let longer = (WAITS * wait_s).min(LONGEST_TRIAL_S).max(judging.trial_s) / judging.trial_s;
        Judging { trial_s: longer * judging.trial_s, duration_sum_s: longer * judging.duration_sum_s, ..judging }
    }

    /// Refuses settings that are clearly impossible, before anything is started. If a capture has the requests, sets
    /// their protocol and transport.
    ///
    /// # Errors
    /// A value is out of its range, or a file with requests or certificates cannot be read.
    pub fn check(&mut self) -> Result<(), FindError> {
        let usage = |why: String| Err(FindError::Usage(why));
        if self.request.is_capture() {
            let workload = self.workload(self.to()?)?;
            (self.request.protocol, self.transport) = (workload.protocol, Some(workload.transport));
        }
        let promise = self.promise();
        if !(promise.loss > 0.0 && promise.loss < 1.0) {
            return usage(format!("--loss {}: expected above 0 and below 1, such as 1e-4", promise.loss));
        }
        if !(promise.timeout_s > 0.0 && promise.timeout_s <= 60.0) {
            let given = units::print_time_s(promise.timeout_s);
            return usage(format!("--timeout {given}: expected above 0s and at most 60s"));
        }
        for limit in &promise.quantiles {
            if !(limit.within_s > 0.0 && limit.within_s <= promise.timeout_s) {
                let (within, timeout) = (units::print_time_s(limit.within_s), units::print_time_s(promise.timeout_s));
                return usage(format!(
                    "a limit of response times of {within}: expected above 0s and at most the timeout of {timeout}; give a longer \
                     --timeout"
                ));
            }
        }
        if self.new_connections && self.transport() == Transport::Udp {
            return usage("--new-connections: requests travel by UDP, which has none; leave it out".to_owned());
        }
        let Wanted { insecure, ca_file, server_name, .. } = &self.tls;
        let given =
            [("--insecure", *insecure), ("--cacert", ca_file.is_some()), ("--server-name", server_name.is_some())];
        match (self.has_tls(), given.into_iter().find(|(_, given)| *given)) {
            (false, Some((option, _))) => {
                return usage(format!(
                    "{option}: nothing is encrypted; give --tls, or --request https:..., or leave it out"
                ));
            }
            (true, _) if !self.request.protocol.has_tls() => {
                let name = self.request.protocol.name();
                return usage(format!("--tls: netcliff encrypts dns and http, not {name}; leave it out"));
            }
            (true, _) if self.transport() == Transport::Udp => {
                return usage("--tls --transport udp: TLS travels by TCP; leave one of them out".to_owned());
            }
            _ => {}
        }
        let possible = Possible {
            starts_service: matches!(self.target, Target::Start(_)),
            streams: self.transport() == Transport::Tcp,
            interface: self.place != Place::Loopback,
        };
        self.checks.iter().try_for_each(|check| check.fits(&possible)).map_err(FindError::Usage)?;
        let to = self.to()?;
        if !self.request.is_capture() {
            self.workload(to)?;
        }
        self.client(to).map(drop)
    }

    /// Address of a running service; of another one, its port at any address.
    fn to(&self) -> Result<SocketAddr, FindError> {
        match self.target {
            Target::Running(to, _) => Ok(to),
            Target::Start(_) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()?))),
        }
    }

    /// Port that the service answers on.
    fn port(&self) -> Result<u16, FindError> {
        match self.target {
            Target::Running(to, _) => Ok(to.port()),
            Target::Start(_) => self.port.or(self.request.protocol.port(self.has_tls())).ok_or_else(|| {
                FindError::Usage(format!(
                    "--request {}: it has no port of its own; give the service's with --port",
                    self.request
                ))
            }),
        }
    }

    /// Reads the files: the requests to a service at this address, and the certificates.
    fn read(&self, to: SocketAddr) -> Result<(Workload, Option<Client>), FindError> {
        Ok((self.workload(to)?, self.client(to)?))
    }

    fn workload(&self, to: SocketAddr) -> Result<Workload, FindError> {
        let transport = if self.has_tls() { Some(Transport::Tcp) } else { self.transport };
        let host = self.tls.server_name.clone().unwrap_or_else(|| to.to_string());
        Ok(Workload::read(&self.request, transport, self.by, to.port(), &host)?)
    }

    fn client(&self, to: SocketAddr) -> Result<Option<Client>, FindError> {
        let tls = self.has_tls().then(|| Client::new(&self.tls, self.request.protocol, to.ip()));
        tls.transpose().map_err(FindError::Usage)
    }
}

/// Measures with settings that [`Options::check`] accepts. `agent`: a session with an agent on the host of a running
/// service, which meters the service there.
///
/// # Errors
/// There is no testbed, no service, or no answer. Results before a later error are returned, with the error in
/// `partial`.
pub fn find(
    options: &Options,
    agent: Option<&mut Session>,
    stop: Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Result<ServiceFinding, FindError> {
    observer.stage("starting the service");
    let mut real = Real::start(options, &SetUp::default(), agent, Arc::clone(&stop))?;
    let promise = options.promise();
    let mut basis = Basis { streams: real.is_stream(), socket_packets: real.socket_packets(), ..Basis::default() };
    let mut finding = ServiceFinding {
        kind: "service".to_owned(),
        service: real.summary(),
        asked: asked(options, &real.summary()),
        promise: promise.clone(),
        cliff_rps: None,
        cliff_with_pauses_rps: None,
        lower_limit: false,
        searches: Vec::new(),
        predicted: None,
        costs: Vec::new(),
        pauses: None,
        bottleneck: None,
        requester: None,
        trials: Vec::new(),
        checks: Vec::new(),
        limits: real.limits(),
        notes: real.notes(),
        missing: Vec::new(),
        partial: None,
        fingerprint: real.fingerprint(),
        provenance: Provenance {
            version: options.version.clone(),
            seed: Some(options.settings.seed),
            command: options.settings.command.clone(),
            started_unix_s: options.settings.started_unix_s,
            ..Provenance::default()
        },
    };
    let mut conductor = Conductor::new(&mut real, &promise, observer, options.settings.seed);
    let ended = stages(&mut conductor, options, &mut finding, &mut basis).err();
    finding.trials = std::mem::take(&mut conductor.trials);
    finding.requester = finding.cliff_rps.and_then(|cliff| requester(&finding.trials, cliff.value));
    finding.notes.extend(real.failure());
    finding.limits.extend(real.end());
    // Each check builds its own testbed, and only one testbed may exist at a time.
    checks::all(options, &basis, &mut finding, ended.as_ref(), &stop, observer);
    if let Some(error) = ended {
        finding.partial = Some(error.to_string());
        // Results before the error may still be useful.
        if finding.trials.is_empty() {
            return Err(error);
        }
    }
    Ok(finding)
}

/// Properties of the calibrated set-up that predictions need.
#[derive(Default)]
struct Basis {
    /// True: requests travel over connections.
    streams: bool,
    /// Datagrams that the service's socket holds.
    socket_packets: u64,
    /// Costs of a request; `None`: not measured.
    costs: Option<Costs>,
    /// Pauses of the service at loads that it carries.
    pauses: Pauses,
}

fn stages(
    conductor: &mut Conductor<'_>,
    options: &Options,
    finding: &mut ServiceFinding,
    basis: &mut Basis,
) -> Result<(), FindError> {
    conductor.stage("looking for the order of magnitude");
    let Some(mut scale) = search::scale(conductor, search::FIRST_RPS)? else {
        finding.missing.push(no_scale(conductor));
        return Ok(());
    };
    conductor.stage("measuring what a request costs");
    let mut judging = options.judging_at(scale.middle_rps(), basis.socket_packets);
    let mut calibration = calibrate(conductor, options, &scale, &judging)?;
    for _ in 0..RESCALES {
        if !calibration.is_too_low {
            break;
        }
        let Some(higher) = search::scale(conductor, costs::HIGHEST * scale.middle_rps())? else { break };
        scale = higher;
        judging = options.judging_at(scale.middle_rps(), basis.socket_packets);
        calibration = calibrate(conductor, options, &scale, &judging)?;
    }
    if judging.trial_s > options.judging().trial_s {
        let longer = units::print_time_s(round_3(judging.trial_s));
        finding.notes.push(format!(
            "trials take {longer}: with a slowly growing queue the limits are exceeded only late in a trial"
        ));
        finding.asked.iter_mut().filter(|(name, _)| name == TRIALS).for_each(|(_, fact)| *fact = trials(&judging));
    }
    cost(calibration.metered, finding, basis);
    conductor.stage("measuring the cliff");
    let cliff = search::cliff(conductor, &scale, &judging);
    conductor.stage("predicting the cliff");
    let measured = cliff.as_ref().ok().and_then(|cliff| cliff.figure);
    if !matches!(cliff, Err(FindError::Stopped)) {
        let cliff_rps = measured.map_or(scale.middle_rps(), |figure| figure.value);
        predict(conductor, options, finding, (&judging, cliff_rps), basis);
    }
    let cliff = cliff?;
    (finding.cliff_rps, finding.lower_limit, finding.searches) = (cliff.figure, cliff.lower_limit, cliff.searches);
    finding.cliff_with_pauses_rps = cliff.with_pauses;
    let Some(figure) = finding.cliff_rps else {
        finding.missing.push("the cliff: no load met the limits of response times and loss in the searches".to_owned());
        return Ok(());
    };
    if finding.lower_limit {
        finding.bottleneck = Some(requester_limits());
        return Ok(());
    }
    conductor.stage("looking for the bottleneck");
    finding.bottleneck = overloaded(conductor, figure.value, &judging)?;
    if finding.bottleneck.is_none() {
        finding.missing.push("the bottleneck: CPU time was not measured".to_owned());
    }
    Ok(())
}

/// Determines what overloads first, by a trial past the cliff; `None`: CPU time was not metered.
fn overloaded(
    conductor: &mut Conductor<'_>,
    cliff_rps: f64,
    judging: &Judging,
) -> Result<Option<ServiceBottleneck>, FindError> {
    let mut past = conductor.one(TrialPurpose::Bottleneck, PAST * cliff_rps, judging.trial_s.max(1.0))?;
    if let Some(metered) = &mut past.metered {
        let working = costs::working(std::slice::from_ref(metered));
        metered.keep(&working);
    }
    Ok(past.metered.as_ref().and_then(bottleneck::of))
}

/// The bottleneck to report if the requester cannot offer more requests.
fn requester_limits() -> ServiceBottleneck {
    let seen = "the requester cannot send faster: the cliff is at least this rate".to_owned();
    ServiceBottleneck { gives: Gives::Requester, seen }
}

/// Trials from which costs are computed.
struct Calibration {
    metered: Vec<Metered>,
    /// True: even the highest load met the promise, so the loads are far below the cliff.
    is_too_low: bool,
}

fn calibrate(
    conductor: &mut Conductor<'_>,
    options: &Options,
    scale: &Scale,
    judging: &Judging,
) -> Result<Calibration, FindError> {
    let mut calibration = Calibration { metered: Vec::new(), is_too_low: false };
    for round in 0..if options.settings.quick { 2 } else { 4 } {
        for share in costs::LOADS {
            let mut seen = conductor.one(TrialPurpose::Calibration, share * scale.middle_rps(), judging.trial_s)?;
            // A disturbed trial is repeated once: other programs also change the caches, which the costs would include.
            if seen.is_disturbed() {
                seen = conductor.one(TrialPurpose::Calibration, share * scale.middle_rps(), judging.trial_s)?;
            }
            calibration.is_too_low = seen.void.is_none() && seen.judged.kept;
            calibration.metered.extend(seen.metered.filter(|one| !one.cpus.is_empty()));
        }
        if round == 0 && calibration.is_too_low {
            return Ok(calibration);
        }
    }
    Ok(calibration)
}

/// Leaves only the CPUs that do the service's work in the trials; returns them if there are others.
fn keep_working(metered: &mut [Metered]) -> Option<Vec<usize>> {
    let (all, working) = (metered.first()?.cpus.len(), costs::working(metered));
    (working.len() < all).then(|| {
        metered.iter_mut().for_each(|one| one.keep(&working));
        working
    })
}

/// Computes the costs of a request from the calibration's trials.
fn cost(mut metered: Vec<Metered>, finding: &mut ServiceFinding, basis: &mut Basis) {
    if metered.is_empty() {
        finding.missing.push("costs and prediction: CPU time was not measured".to_owned());
        return;
    }
    if let Some(working) = keep_working(&mut metered) {
        let names: Vec<String> = working.iter().map(ToString::to_string).collect();
        finding.notes.push(format!("the service ran on CPU {}", names.join(", ")));
    }
    match costs::fit(&metered, basis.socket_packets, basis.streams) {
        Ok(costs) => {
            finding.costs.clone_from(&costs.parts);
            if costs.others() > MUCH {
                let share = units::print_share((costs.others() * 100.0).round() / 100.0);
                finding.notes.push(format!(
                    "other programs had {share} of the service's CPU while costs were measured: the prediction is for a CPU shared with \
                     them, and the cliff may have been measured without them"
                ));
            }
            basis.costs = Some(costs);
        }
        Err(why) => finding.missing.push(format!("costs and prediction: {why}")),
    }
}

/// Predicts the cliff with the pauses of the trials so far, at loads up to the service's capacity: an overloaded service
/// is silent for other reasons. Trials only up to `cliff_rps`, the measured cliff, would have too few pauses, because
/// those with pauses made the search end there.
fn predict(
    conductor: &Conductor<'_>,
    options: &Options,
    finding: &mut ServiceFinding,
    (judging, cliff_rps): (&Judging, f64),
    basis: &mut Basis,
) {
    let Some(costs) = &basis.costs else { return };
    let most_rps = costs.capacity_rps().value.max(cliff_rps);
    basis.pauses = conductor.pauses(judging.trial_s, most_rps).beyond(costs.request_s());
    finding.pauses = Some(basis.pauses.summary());
    match costs.predict(&options.goal(&finding.promise, basis)) {
        Ok(mut predicted) => {
            let valid =
                conductor.trials.iter().filter(|trial| trial.void.is_none() && trial.window_s == judging.trial_s);
            let calibrated = valid.filter(|trial| trial.purpose == TrialPurpose::Calibration);
            let measured = Times::by_load(calibrated);
            predicted.response_times = costs.responses(&options.goal(&finding.promise, basis), &measured);
            finding.predicted = Some(predicted);
            finding.notes.push(costs::ASSUMED.to_owned());
        }
        Err(why) => finding.missing.push(format!("the predicted cliff: {why}")),
    }
}

/// Explains, by the result of the lowest load, why the cliff's order of magnitude is unknown.
fn no_scale(conductor: &Conductor<'_>) -> String {
    let Some(last) = conductor.trials.last() else { return "the cliff: no request was sent".to_owned() };
    let rate = last.rate_rps;
    if let Some(void) = &last.void {
        return format!("the cliff: even at the lowest load tried, {rate} requests/s, {void}");
    }
    let times = last.times.map_or("none was answered".to_owned(), |times| {
        format!("99% of the answers came within {}", units::print_time_s(round_3(times.p99_s)))
    });
    format!(
        "the cliff: the limits are not met even at the lowest load tried, {rate} requests/s: of {} requests {} were not answered, {} wrongly, {} late; {times}",
        last.requests, last.unanswered, last.wrong_answers, last.late_answers
    )
}

fn round_3(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// How busy the requester itself was in valid search trials close to the cliff. `None` without such a trial.
fn requester(trials: &[ServiceTrial], cliff_rps: f64) -> Option<RequesterSummary> {
    let counted = trials.iter().filter(|trial| trial.purpose == TrialPurpose::Search && trial.void.is_none());
    let off = |trial: &&ServiceTrial| (trial.rate_rps / cliff_rps).ln().abs();
    let nearest = counted.min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(RequesterSummary {
        busy: nearest.requester_busy,
        ceiling_rps: nearest.rate_rps / nearest.requester_busy.max(1e-6),
        lateness_p99_s: nearest.lateness_p99_s,
    })
}

/// Name of the line that says how long trials are.
const TRIALS: &str = "trials";

fn trials(judging: &Judging) -> String {
    let [trial, load] = [judging.trial_s, judging.duration_sum_s].map(|time_s| units::print_time_s(round_3(time_s)));
    format!("{trial} each; a search decides on a load after {load} of trials")
}

fn asked(options: &Options, service: &ServiceSummary) -> Vec<(String, String)> {
    let connections = match (options.new_connections, service.depth) {
        (true, _) => format!("one for each request, {} at most at once", service.connections),
        (false, Some(1)) => format!("{}, one request at a time on each", service.connections),
        (false, Some(depth)) => format!("{}, up to {depth} requests at a time on each", service.connections),
        (false, None) => format!("{} source ports", service.connections),
    };
    let all = [
        ("service", service.command.clone().unwrap_or_else(|| "already running when the test began".to_owned())),
        ("address", format!("{} ({})", service.address, service.transport)),
        ("requests", format!("{} ({} different)", options.request, service.requests)),
        ("connections", connections),
        ("promise", options.promise().to_string()),
        (TRIALS, trials(&options.judging())),
        ("testbed", service.testbed.clone()),
        ("idle CPU", options.idle().to_owned()),
    ];
    all.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, Spec};
    use crate::requester::{Counts, Report};

    pub(super) fn options(request: &str, quantiles: Vec<QuantileLimit>) -> Options {
        Options {
            settings: Settings { quick: true, ..Settings::default() },
            target: Target::Start("true".to_owned()),
            request: request.parse().unwrap(),
            transport: None,
            by: None,
            port: None,
            connections: None,
            depth: 1,
            new_connections: false,
            tls: Wanted::default(),
            quantiles,
            timeout_s: 0.2,
            arrivals: None,
            checks: Vec::new(),
            cpu: Preference::Best,
            place: Place::Best,
            ipv6: false,
            requester_cpu: None,
            service_cpus: Vec::new(),
            awake: false,
            version: String::new(),
        }
    }

    /// A service that carries 50 k requests/s, but loses requests in the first four trials from 4 k/s on.
    struct Paused(u32);

    impl Bench for Paused {
        fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
            let requests = (spec.rate_rps * spec.window_s) as u64;
            let is_paused = spec.rate_rps > 4e3 && self.0 > 0;
            self.0 -= u32::from(is_paused);
            let most = if is_paused { requests / 2 } else { (50e3 * spec.window_s) as u64 };
            let counts = Counts { requests, answers: requests.min(most), ..Counts::default() };
            let (in_time, window_s) = (requests, spec.window_s);
            Ok((Report { counts, in_time, offered: requests, window_s, ..Report::default() }, None))
        }
    }

    struct Quiet;

    impl Observer for Quiet {
        fn stage(&mut self, _: &str) {}
        fn trial(&mut self, _: &ServiceTrial) {}
    }

    /// Pauses made the order of magnitude far too low: then the highest calibration load keeps the promise.
    #[test]
    fn a_calibration_far_below_the_cliff_is_noticed() {
        let (options, mut bench, mut observer) = (options("udp:00", Vec::new()), Paused(4), Quiet);
        let promise = options.promise();
        let mut conductor = Conductor::new(&mut bench, &promise, &mut observer, 1);
        let low = search::scale(&mut conductor, search::FIRST_RPS).unwrap().unwrap();
        assert!(low.middle_rps() < 10e3, "{low:?}");
        let judging = options.judging_at(low.middle_rps(), 250);
        assert!(calibrate(&mut conductor, &options, &low, &judging).unwrap().is_too_low);
        let higher = search::scale(&mut conductor, costs::HIGHEST * low.middle_rps()).unwrap().unwrap();
        assert!((40e3..60e3).contains(&higher.middle_rps()), "{higher:?}");
        assert!(!calibrate(&mut conductor, &options, &higher, &judging).unwrap().is_too_low);
    }

    #[test]
    fn connections_have_a_limit_of_response_times() {
        assert_eq!(options("http:/", Vec::new()).promise().quantiles, [USUAL]);
        assert!(options("udp:00", Vec::new()).promise().quantiles.is_empty());
        let long = QuantileLimit { quantile: 0.99, within_s: 0.5 };
        let secret = |request: &str, tls: Wanted| Options { tls, ..options(request, Vec::new()) };
        let on = Wanted { tls: true, ..Wanted::default() };
        assert_eq!(secret("dns:a", on.clone()).promise().quantiles, [USUAL], "DNS over TLS has connections");
        // Independent of the system's certificates.
        let unchecked = Wanted { insecure: true, ..Wanted::default() };
        assert!(secret("https:/", unchecked.clone()).check().is_ok());
        assert!(secret("redis:", on).check().unwrap_err().to_string().contains("not redis"));
        let mut bare = secret("http:/", unchecked);
        assert!(bare.check().unwrap_err().to_string().contains("--insecure: nothing is encrypted"));
        assert!(options("http:/", vec![long]).check().unwrap_err().to_string().contains("--timeout"));
    }

    #[test]
    fn a_capture_decides_on_the_transport() {
        let get = b"GET / HTTP/1.1\r\n\r\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), crate::request::tests::tcp_pcap(8000, &[(1, get), (2, get)])).unwrap();
        let request = format!("pcap:{}", file.path().display());
        let mut of_capture = Options { port: Some(8000), new_connections: true, ..options(&request, Vec::new()) };
        of_capture.check().unwrap();
        assert_eq!(of_capture.promise().quantiles, [USUAL]);
        assert_eq!(of_capture.request.protocol.name(), "http");
        of_capture.transport = Some(Transport::Udp);
        assert!(of_capture.check().unwrap_err().to_string().contains("UDP datagrams to port 8000"));
    }

    #[test]
    fn trials_are_longer_where_a_queue_grows_slowly() {
        let trial_s = |options: &Options, rate_rps| options.judging_at(rate_rps, 277).trial_s;
        let dns = options("udp:00", Vec::new());
        assert_eq!((trial_s(&dns, 70e3), trial_s(&dns, 250.0)), (0.5, 4.0));
        let within = |within_s| options("http:/", vec![QuantileLimit { quantile: 0.99, within_s }]);
        assert_eq!((trial_s(&within(0.01), 1e3), trial_s(&within(0.1), 1e3)), (0.5, 2.0));
        let given = Settings { trial_s: Some(0.3), ..dns.settings.clone() };
        assert_eq!(trial_s(&Options { settings: given, ..dns }, 250.0), 0.3);
    }
}
