//! `find`: calibrates this host, predicts its cliff by the model, confirms it in simulation, measures it with real
//! packets, and gathers the three into one [`Finding`].
//!
//! The stages are in `stages`; each adds its results to the finding, and to [`Finding::missing`] what it could not
//! measure, with the reason. After a stop, the finding contains what was measured so far.
//!
//! # How `find` answers
//!
//! `find` runs these stages: sender alone; rough search; calibration (uncertainty by bootstrap:
//! `calibrate/resample.rs`, propagated through the model: `sureness.rs`); predicted and simulated cliff; measured
//! cliffs (searches by MLRsearch, with a NIC from the lowest load that loses: `cliff/climb.rs`; each trial is evaluated
//! with and without disturbances, and `recorder.rs` records its disturbances and the machine's speed); model and
//! simulation again at the speed of these trials (`calibrate/present.rs`) and with the after-effects of disturbances
//! (`fluid.rs`); a sweep past twice the cliff, and the same loads by model and simulation; conclusions; suggestions.
//! Other set-ups (`check.rs`) and the best suggestion (`tried.rs`) follow, each on a new testbed (`later.rs`). Values
//! that could not be measured are in `Finding::missing` with the reason. If another host is under test, its agent runs
//! the stages, and the client that sends the load also computes model and simulation (`elsewhere.rs`). `lab::costs`
//! gives other commands the costs of a stored finding.
//!
//! `lab::store` stores each record when it is complete (SQLite, one transaction each) and the `Finding` at the end.
//! `netcliff run` takes points from a file instead: `core::experiment` expands the file to tasks, and `lab::run`
//! computes them on all cores. Each record is stored under its task, so that a run that was killed can be continued
//! (`store/experiments.rs`).

mod bookkeeping;
pub mod calibrate;
mod check;
mod cliff;
mod conclude;
mod contradict;
mod delivery;
mod elsewhere;
mod engines;
mod experienced;
#[cfg(test)]
mod fake;
pub mod far;
mod fluid;
mod idle;
mod later;
pub mod of;
mod plan;
mod reading;
mod recorder;
mod spent;
mod stages;
mod suggest;
mod sureness;
mod surroundings;
#[cfg(test)]
mod tests;
mod tried;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{FigurePath, GeneratorSummary, HostSummary, IdleModes, Missing, Setup, WholeFigure};
use netcliff_core::units::{print_pps, print_share, print_time_s};
use netcliff_core::{Capture, Finding, FrameSizes, Invalid, Provenance, Record, Traffic};
use netcliff_host::cpu::Preference;
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::nic;
use netcliff_packets::replay::Replay;

use netcliff_mlrsearch::Goal;
use netcliff_trial::account::Account;
use netcliff_trial::rig::{Between, Rig, RigError, RigOptions};
use netcliff_trial::trial::{TrialError, TrialShape};
use netcliff_trial::wire_bench::WireBench;

use idle::{HostIdle, Switch};
use later::Later;
use recorder::Recorder;

pub use check::CheckSetup;
pub use elsewhere::Elsewhere;
pub use engines::Predictor;
pub use idle::Idle;
pub use netcliff_core::finding::Settings;
pub use plan::Plan;
pub use scheme::of_kernel as kernel_scheme;

/// Options of `find`.
#[derive(Debug, Clone, Default)]
pub struct FindOptions {
    /// What is measured, and how precisely: the part of the options that a client can request from an agent.
    pub settings: Settings,
    /// A capture, as [`netcliff_packets::replay::replayable`] returns it, whose times, sizes and flows are sent instead
    /// of [`Settings::arrivals`] and [`Settings::frame_bytes`].
    pub capture: Option<Arc<Capture>>,
    /// Whether the host's CPU may halt.
    pub idle: Idle,
    /// Method of CPU accounting.
    pub cpu: Preference,
    /// The testbed.
    pub rig: RigOptions,
    /// Set-ups to predict with this calibration and then to measure.
    pub checks: Vec<CheckSetup>,
    /// Process in which the engines compute.
    pub engines: Elsewhere,
}

impl FindOptions {
    /// Length of every frame, FCS included (bytes); `None` if a capture is sent.
    fn one_length(&self) -> Option<u32> {
        self.capture.is_none().then_some(self.settings.frame_bytes)
    }

    /// A trial of this length (s), without its load.
    pub fn shape(&self, seconds: f64) -> TrialShape {
        let replay = self.capture.as_deref().map(|capture| Arc::new(Replay::of(capture)));
        TrialShape { replay, ..TrialShape::of(&self.settings, seconds) }
    }
}

/// Observer of a run.
pub trait Observer {
    /// A stage began.
    fn stage(&mut self, name: &str);
    /// A trial is running: its load (pps), its elapsed and its planned time (s).
    fn trial(&mut self, load_pps: f64, elapsed_s: f64, planned_s: f64);
    /// A record is complete and can be stored.
    fn record(&mut self, record: &Record);
}

/// Rounds up to two significant digits, so that the printed number can be given as an option.
fn two_digits_up(value: f64) -> f64 {
    let places = 1 - value.log10().floor() as i32;
    let unit = 10f64.powi(places.abs());
    if places >= 0 { (value * unit).ceil() / unit } else { (value / unit).ceil() * unit }
}

/// A trial is too short to resolve the loss that defines the cliff.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "--loss {}: a trial of {} at {}, about the most this host delivers, sends {packets:.0} packets, one of which is {} of them; give \
     --trial {} or longer, or --loss {} or more",
    print_share(*loss), print_time_s(*trial_s), print_pps((*load_pps / 100.0).round() * 100.0), print_share(two_digits_up(1.0 / packets)), print_time_s(*least_trial_s),
    print_share(two_digits_up(1.0 / packets))
)]
pub struct Unresolved {
    loss: f64,
    trial_s: f64,
    load_pps: f64,
    packets: f64,
    least_trial_s: f64,
}

impl Unresolved {
    /// Refuses a goal whose loss is less than one packet of a trial at this load (pps).
    fn check(goal: &Goal, load_pps: f64) -> Result<(), Self> {
        let (loss, trial_s) = (goal.loss_ratio, goal.final_trial_s);
        let packets = load_pps * trial_s;
        if loss * packets >= 1.0 {
            return Ok(());
        }
        Err(Self { loss, trial_s, load_pps, packets, least_trial_s: two_digits_up(1.0 / (loss * load_pps)) })
    }
}

/// Why there is no finding.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The testbed cannot be built.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The trials cannot resolve the loss that defines the cliff.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The search goal is invalid.
    #[error(transparent)]
    Goal(#[from] Invalid),
    /// A frame has no room for its headers.
    #[error(
        "frames of {bytes} B: with headers of {} and netcliff's own 18 bytes the smallest has {least} B, FCS included; give size \
         {least}B or more",
        if *least == Settings::least_frame_bytes(true) { "IPv6" } else { "IPv4" }
    )]
    Short {
        /// Requested frame size, FCS included (bytes).
        bytes: u32,
        /// Smallest frame size (bytes).
        least: u32,
    },
    /// A check changes a device's settings, but the testbed has no device whose settings may be changed.
    #[error(
        "--check {setup}: {key} is a setting of an interface, and the testbed's own are not changed: measure in a guest, \
         --testbed vm:e1000e, or between two hosts, --if IF --from HOST"
    )]
    NoDevice {
        /// Name of the check.
        setup: String,
        /// Name of the setting.
        key: &'static str,
    },
}

/// Refuses frames, of the run or of a check, that are too short for the headers of their address family.
///
/// # Errors
/// [`FindError::Short`].
pub fn check_frames(options: &FindOptions) -> Result<(), FindError> {
    let least = Settings::least_frame_bytes(options.settings.ipv6);
    let of_checks = options.checks.iter().filter_map(|setup| setup.frame_bytes(options));
    match options.one_length().into_iter().chain(of_checks).find(|bytes| *bytes < least) {
        Some(bytes) => Err(FindError::Short { bytes, least }),
        None => Ok(()),
    }
}

/// Checks options before anything is changed: frames that are too short, an invalid goal, CPUs that do not exist, a
/// testbed that is not permitted, checks that change a device whose settings may not be changed.
///
/// # Errors
/// The first of these that applies.
pub fn check(options: &FindOptions) -> Result<(), FindError> {
    check_frames(options)?;
    Plan::new(options).goal.check()?;
    for setup in &options.checks {
        match setup.settings().first() {
            Some(first) if options.rig.between.is_none() => {
                return Err(FindError::NoDevice { setup: setup.name().to_owned(), key: first.key.name() });
            }
            _ => setup.rig(options).check()?,
        }
    }
    Ok(options.rig.check()?)
}

/// Finds the cliff. The finding contains whatever could be measured, also if `stop` ends the run.
pub fn find(options: &FindOptions, stop: Arc<AtomicBool>, observer: &mut dyn Observer) -> Result<Finding, FindError> {
    check(options)?;
    let plan = Plan::new(options);
    observer.stage("building the testbed");
    let rig = Rig::build(&options.rig, Arc::clone(&stop))?;
    rig.between().map_or(Ok(()), |between| between.fits(options.settings.frame_bytes)).map_err(RigError::from)?;
    let mut finding = blank(options, &plan, &rig);
    let progress = std::cell::RefCell::new(plan::Progress::new(&plan, observer));
    let watch = |load_pps: f64, _: u64, _: u64| progress.borrow_mut().trial(load_pps);
    let mut bench = WireBench::new(&rig, options.cpu, Box::new(watch));
    finding.host.limits.extend(bench.passed_over.iter().cloned());
    let mut switch = HostIdle::new(rig.host_cpu, bench.host_heartbeat());
    let mut idle = options.idle;
    if let Err(why) = switch.set(idle) {
        finding.host.limits.push(why);
        idle = Idle::AsConfigured;
    }
    finding.idle = Some(IdleModes { mode: idle.name().to_owned(), this: None, other: None });
    let mut run = stages::Run {
        options,
        idle: Some((&mut switch, idle)),
        plan: &plan,
        bench: Recorder::of_run(&mut bench, &progress),
        left_out: 0.0,
        timing: Default::default(),
        behind_nic: rig.between().is_some_and(|between| !between.is_backlog()),
        behind_known_moderation: rig
            .between()
            .is_some_and(|between| scheme::has_known_moderation(between, options.one_length())),
        progress: &progress,
        stop: &stop,
        finding: &mut finding,
    };
    let basis = run.all()?;
    drop(run);
    add_account(&mut finding, &rig, bench.account());
    drop(bench);
    // The checks build their own testbeds, and only one testbed may exist at a time.
    drop(rig);
    let later = basis.as_ref().map(|basis| Later {
        options,
        plan: &plan,
        basis,
        switch: &mut switch,
        stop: &stop,
        progress: &progress,
        left: Vec::new(),
    });
    measure_later(later, options, &mut finding);
    finding.time_spent = progress.borrow().clock.spent();
    finding.provenance.elapsed_s = Some(progress.borrow().elapsed_s());
    Ok(finding)
}

/// Makes all requested measurements that follow the stages. If a check or the measurement of the suggestion is not
/// reached, `missing` has the reason.
fn measure_later(later: Option<Later<'_, '_>>, options: &FindOptions, finding: &mut Finding) {
    let tries = options.settings.try_suggestions;
    let stopped = finding.partial;
    let Some(mut later) = later.filter(|_| !stopped) else {
        let (check, suggest) = match stopped {
            true => (STOPPED, STOPPED),
            false => ("the run has no calibration to predict from", "the run has no calibration to suggest from"),
        };
        check::unreached(&options.checks, finding, check);
        return missing_try(tries, finding, suggest);
    };
    check::all(&mut later, finding);
    if finding.partial {
        missing_try(tries, finding, STOPPED);
    } else if tries {
        tried::best(&mut later, finding);
    }
    finding.host.limits.append(&mut later.left);
}

/// Why a measurement was not made after a stop.
const STOPPED: &str = "the run was stopped before";

fn missing_try(tries: bool, finding: &mut Finding, why: &str) {
    if tries {
        missing(finding, FigurePath::Whole(WholeFigure::SuggestionTried), why);
    }
}

/// Method of latency measurements between two hosts; their clocks are not compared.
const LATENCY_METHOD: &str = "one-way within the host under test: kernel receive timestamp to the application's read, one clock; the wire and \
                              the sender are not in it; round trips: a frame's intended send time to the arrival of the application's answer \
                              at the host that sends, its clock";

/// Adds the counters of generators on other hosts and of the device under test.
fn add_account(finding: &mut Finding, rig: &Rig, account: &Account) {
    let Some(between) = rig.between() else { return };
    finding.generator.each = account.generators();
    finding.device = Some(account.device(&between.nic().name));
    finding.host.limits.extend(account.allowance());
}

/// A finding with host and configuration, and without results.
fn blank(options: &FindOptions, plan: &Plan, rig: &Rig) -> Finding {
    let inventory = Inventory::of_this_host();
    let nics = rig.in_host(|| nic::read_all(Path::new("/sys"))).ok().and_then(Result::ok).unwrap_or_default();
    let mut fingerprint = fingerprint::of_host(&inventory, &nics);
    if let Some(between) = rig.between() {
        between.add_senders(&mut fingerprint);
    }
    let (scheme, left_out) = match rig.between() {
        Some(between) => scheme::of_device(&inventory, between.nic(), between.is_backlog(), options.one_length()),
        None => (scheme::of_kernel(&inventory, true), Vec::new()),
    };
    let mut host = summary(&inventory, rig);
    host.limits.extend(left_out);
    let (repeats, trial_s) = (plan.repeats, plan.sweep_s);
    let setup = Setup { scheme, traffic: traffic(options), repeats, trial_s, ..Setup::of(&options.settings) };
    Finding {
        host,
        generator: GeneratorSummary {
            frame_bytes: options.settings.frame_bytes,
            flows: rig.between().map(Between::flows),
            ..GeneratorSummary::default()
        },
        latency_method: rig.between().map(|_| LATENCY_METHOD.to_owned()),
        definition: Some(plan.definition()),
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: Some(options.settings.seed),
            command: options.settings.command.clone(),
            started_unix_s: options.settings.started_unix_s,
            elapsed_s: None,
            fingerprint_id: Some(fingerprint.id()),
            settings: Default::default(),
        },
        fingerprint,
        ..Finding::blank(setup, options.settings.loss)
    }
}

/// Describes a host's CPUs for its findings: `2 x AMD EPYC`.
pub fn cpu_name(inventory: &Inventory) -> String {
    format!("{} x {}", inventory.cpu.online.len(), inventory.cpu.model.as_deref().unwrap_or("unknown CPU"))
}

/// Describes a host's kernel for its findings: `Linux 6.18.44`.
pub fn kernel_name(inventory: &Inventory) -> String {
    format!("Linux {}", inventory.kernel.release.as_deref().unwrap_or("of unknown release"))
}

fn summary(inventory: &Inventory, rig: &Rig) -> HostSummary {
    HostSummary {
        cpu: cpu_name(inventory),
        kernel: kernel_name(inventory),
        testbed: rig.describe() + if rig.is_ipv6() { ", IPv6" } else { "" },
        driver: rig.driver(),
        limits: rig.limits.clone(),
        at: None,
    }
}

/// Poisson or constant arrivals of the requested frames.
fn traffic(options: &FindOptions) -> Traffic {
    if let Some(capture) = &options.capture {
        let (file, capture) = (capture.file.clone(), Some(Arc::clone(capture)));
        return Traffic {
            size: FrameSizes::Trace(capture.clone()),
            arrivals: netcliff_core::Arrivals::Trace { file, speed: None, once: false, capture },
            link_bps: 10e9,
            flows: None,
        };
    }
    Traffic {
        arrivals: options.settings.arrivals.into(),
        size: FrameSizes::Fixed(options.settings.frame_bytes),
        link_bps: 10e9,
        flows: None,
    }
}

/// The trial that all others vary, without its load.
fn base(options: &FindOptions, plan: &Plan) -> TrialShape {
    options.shape(plan.trial_s)
}

/// Why a stage ended early.
enum Halt {
    /// The user stopped the run.
    Stopped,
    /// A trial failed: the run ends here.
    Failed(String),
    /// The testbed or its CPUs changed during the run.
    Changed(String),
    /// The trials cannot resolve the loss that defines the cliff.
    Unresolved(Unresolved),
}

impl From<TrialError> for Halt {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Stopped => Self::Stopped,
            TrialError::Changed { .. } => Self::Changed(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

fn missing(finding: &mut Finding, figure: FigurePath, why: impl Into<String>) {
    let missing = Missing { figure, why: why.into() };
    // Otherwise every load of a sweep would add the same reason.
    if !finding.missing.contains(&missing) {
        finding.missing.push(missing);
    }
}

mod rough {
    //! A rough estimate of the load at which loss becomes heavy, and of the host's capacity: start of calibration and
    //! search.

    use netcliff_core::verdict::VoidClass;

    use netcliff_mlrsearch::Goal;
    use netcliff_mlrsearch::mlr::{self, Mlr};
    use netcliff_mlrsearch::trial::{Answer, Range, Trial};
    use netcliff_trial::bench::{Bench, Observation};
    use netcliff_trial::trial::{TrialError, TrialShape};

    /// Goal of the rough search: a single short trial decides on a load, so the permitted loss is far above any noise.
    const GOAL: Goal = Goal {
        final_trial_s: 0.15,
        initial_trial_s: 0.15,
        duration_sum_s: 0.15,
        loss_ratio: 0.02,
        exceed_ratio: 0.5,
        width: 0.2,
    };
    /// Duration of load before the first trial (s): an idle host is slow at first, because of its clock rate and
    /// caches, or because an emulator translates code when it first executes it.
    pub const WARM_UP_S: f64 = 2.0;
    /// Total time of trials after which the search ends with its present bounds (s).
    const AT_MOST_S: f64 = 4.0;

    /// Estimates from a few short trials.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Rough {
        /// Load at which loss becomes heavy (pps), within a fifth.
        pub cliff_pps: f64,
        /// Highest delivered rate (pps).
        pub capacity_pps: f64,
    }

    /// Searches the loads in `range`.
    pub fn search(bench: &mut dyn Bench, base: &TrialShape, range: Range) -> Result<Rough, TrialError> {
        let warm_up = TrialShape { seconds: WARM_UP_S, ..base.clone() }.at(range.max_pps);
        let start_pps = carried_pps(&bench.observe(&warm_up, false)?);
        let mut number = 0;
        let mut ask = |seconds: f64, rate_pps: f64| -> Result<Answer, TrialError> {
            number += 1;
            let spec = TrialShape { seconds, seed: base.seed + number, ..base.clone() }.at(rate_pps);
            let observation = bench.observe(&spec, false)?;
            // The result is only a starting point: a delayed sender does not make the trial void, but a sender that did
            // not reach the load does.
            let trial =
                Trial { load_pps: rate_pps, duration_s: seconds, sent: observation.sent, lost: observation.sides.lost };
            let too_slow = observation.void().filter(|void| void.why.class() == VoidClass::Sender);
            Ok(Answer::of(trial, too_slow))
        };
        let mlr = Mlr { goals: vec![GOAL], range, start_pps, at_most_s: Some(AT_MOST_S) };
        let searched = mlr::search(&mlr, &mut ask)?;
        let (lower, upper) = searched.found.first().map_or((None, None), |found| (found.lower_pps, found.upper_pps));
        let cliff_pps = match (lower, upper) {
            (Some(lower), Some(upper)) => (lower * upper).sqrt(),
            (Some(bound), None) | (None, Some(bound)) => bound,
            (None, None) => searched.trials.last().map_or(range.min_pps, |trial| trial.forwarding_pps()),
        };
        let served = searched.trials.iter().map(|trial| trial.forwarding_pps());
        Ok(Rough { cliff_pps, capacity_pps: served.fold(cliff_pps, f64::max) })
    }

    /// Estimated capacity of a host after a trial far above it: geometric mean of the delivered and the offered rate
    /// (pps), because a livelock lowers the delivered rate. `None` if nothing was delivered.
    fn carried_pps(seen: &Observation) -> Option<f64> {
        let (sent_pps, share) = (seen.sent as f64 / seen.spec.shape.seconds, 1.0 - seen.loss());
        Some(sent_pps * share.sqrt()).filter(|pps| *pps > 0.0)
    }
}

mod round_trips {
    //! Round trips between two hosts, measured in separate trials, because an answer takes CPU time of the host under
    //! test.

    use netcliff_core::finding::RoundTripsAt;

    use netcliff_core::finding::{FigurePath, WholeFigure};

    use super::plan::{ROUND_TRIP_S, ROUND_TRIP_SHARES};
    use super::stages::Run;
    use super::{Halt, base, missing};
    use netcliff_trial::bench::{Bench, RoundTrips};
    use netcliff_trial::trial::{TrialError, TrialShape};

    impl Run<'_, '_> {
        /// Measures round trips at shares of this cliff (pps), as far as these do not exceed the highest load (pps).
        /// Does nothing if the load does not come from another host.
        pub(super) fn round_trips(&mut self, centre_pps: f64, highest_pps: f64) -> Result<(), Halt> {
            if self.options.rig.between.is_none() {
                return Ok(());
            }
            self.stage("measuring round trips");
            let base = base(self.options, self.plan);
            for (share, number) in ROUND_TRIP_SHARES.into_iter().zip(80_000..) {
                let rate_pps = share * centre_pps;
                if rate_pps > highest_pps {
                    break;
                }
                let (seconds, seed) = (base.seconds.max(ROUND_TRIP_S), base.seed + number);
                match self.bench.round_trips(&TrialShape { seconds, seed, ..base.clone() }.at(rate_pps)) {
                    Ok(seen) => match seen.and_then(|seen| at(share, rate_pps, &seen)) {
                        Some(one) => self.finding.round_trips.push(one),
                        None => {
                            let why = "no answer of the application came, or a clock was set during the trial";
                            missing(self.finding, FigurePath::Whole(WholeFigure::RoundTrips), why);
                        }
                    },
                    Err(error @ (TrialError::Stopped | TrialError::Changed { .. })) => return Err(error.into()),
                    Err(error) => {
                        missing(self.finding, FigurePath::Whole(WholeFigure::RoundTrips), error.to_string());
                        break;
                    }
                }
            }
            Ok(())
        }
    }

    fn at(share: f64, load_pps: f64, seen: &RoundTrips) -> Option<RoundTripsAt> {
        let times = seen.times?;
        Some(RoundTripsAt {
            share,
            load_pps,
            answers: seen.answers,
            samples: times.count,
            min_s: times.min_s,
            p50_s: times.p50_s,
            p90_s: times.p90_s,
            p99_s: times.p99_s,
            max_s: times.max_s,
        })
    }
}

mod scheme {
    //! The reception scheme of the host under test, from the settings of its kernel and device.

    use netcliff_core::Scheme;
    use netcliff_host::inventory::Inventory;
    use netcliff_host::nic::Nic;
    use netcliff_host::nic::moderation::Word;
    use netcliff_host::nic::scheme::AsNapi;

    use netcliff_trial::rig::Between;

    /// The scheme of process_backlog if `backlog`, else of a device's NAPI, with this kernel's weight and budget.
    pub fn of_kernel(inventory: &Inventory, backlog: bool) -> Scheme {
        Scheme::Napi(inventory.napi(backlog))
    }

    /// The scheme of reception by a device, with its moderation, and sentences on settings that the scheme cannot
    /// express. `frame_bytes`: length of all frames, if they have one length; with it an adaptive `rx-usecs` may reach
    /// a fixed value, which the scheme then has.
    pub(super) fn of_device(
        inventory: &Inventory,
        device: &Nic,
        backlog: bool,
        frame_bytes: Option<u32>,
    ) -> (Scheme, Vec<String>) {
        let AsNapi { napi, lacks, beside } = under(device, frame_bytes).napi_scheme(&inventory.napi(backlog));
        let word = frame_bytes.filter(|_| !backlog).and_then(|bytes| word_of(device, bytes));
        let lacks = lacks.map(|why| format!("the scheme lacks a setting of {}: {why}", device.name));
        let beside = beside.map(|what| format!("the scheme of {} leaves out {what}", device.name));
        (Scheme::Napi(napi), word.into_iter().chain(lacks).chain(beside).collect())
    }

    /// Whether the scheme can express all of the device's interrupt moderation.
    pub(super) fn has_known_moderation(between: &Between, frame_bytes: Option<u32>) -> bool {
        !between.is_backlog() && under(between.nic(), frame_bytes).napi_moderation().is_ok()
    }

    /// The device with the fixed value that an adaptive `rx-usecs` reaches under these frames.
    pub(super) fn under(nic: &Nic, frame_bytes: Option<u32>) -> Nic {
        frame_bytes.map_or_else(|| nic.clone(), |bytes| nic.under(bytes))
    }

    /// Describes the fixed value that an adaptive `rx-usecs` reaches under frames of this length; `None` if it reaches
    /// none.
    fn word_of(device: &Nic, frame_bytes: u32) -> Option<String> {
        let Word { word, usecs } = device.word_under(frame_bytes)?;
        let driver = device.driver.as_deref().unwrap_or("its driver");
        Some(format!(
            "rx-usecs {word} is {driver}'s word for a gap that it chooses: where all frames have {frame_bytes} bytes it comes to rx-usecs {usecs}, which the scheme has"
        ))
    }
}
