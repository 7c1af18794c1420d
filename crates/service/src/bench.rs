//! [`Bench`]: makes trials, so that the search can be tested on an exact fake; [`Conductor`] judges and stores each
//! trial.

use netcliff_core::service::{Promise, ResponseTimes, ServiceTrial, TrialPurpose};
use netcliff_core::verdict::{Void, VoidClass};
use netcliff_host::cpu::CpuSplit;

use crate::error::FindError;
use crate::pauses::{Pauses, Silences};
use crate::process::NetworkCounts;
use crate::promise::{Judged, judge};
use crate::requester::Report;

/// Number of void trials at a load after which no further trial is made at this load.
const VOID_REPEATS: u32 = 3;
/// A trial counts as disturbed if other programs use more than this share of the loaded time on the service's CPU. A
/// disturbed trial that broke the promise is repeated [`DISTURBED_REPEATS`] times. If other programs always use the
/// CPU, this is a property of the host, and the last trial counts.
const DISTURBED: f64 = 0.03;
const DISTURBED_REPEATS: u32 = 3;

/// Settings of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Requests per second.
    pub rate_rps: f64,
    /// Length of the window (s).
    pub window_s: f64,
    /// Seed of the times between requests.
    pub seed: u64,
    /// Purpose of the trial.
    pub purpose: TrialPurpose,
}

impl Spec {
    /// Whether CPU time is measured. Metering itself costs CPU time, so that searches do not meter.
    pub fn is_metered(&self) -> bool {
        matches!(self.purpose, TrialPurpose::Calibration | TrialPurpose::Bottleneck)
    }
}

/// Activity of the service's CPUs during a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metered {
    /// Length of the measured time (s).
    pub elapsed_s: f64,
    /// Part of `elapsed_s` in which requests came (s). In the rest, the last answers are awaited, and the service has
    /// little to do.
    pub loaded_s: f64,
    /// Number of answers in `elapsed_s`.
    pub answers: u64,
    /// CPU time of each CPU.
    pub cpus: Vec<CpuSplit>,
    /// CPU time of the service (user mode, kernel mode) in ticks.
    pub ticks: (u64, u64),
    /// (CPU time (s), name) of the busiest thread of the service; `None` if its threads are unknown.
    pub busiest: Option<(f64, String)>,
    /// Queues that overflowed.
    pub network: NetworkCounts,
}

impl Metered {
    /// Share of the loaded time in which a CPU was idle; `None` if the meter cannot tell.
    pub fn idle_of(&self, cpu: &CpuSplit) -> Option<f64> {
        let after_s = (self.elapsed_s - self.loaded_s).max(0.0);
        let idle_s = cpu.shares.idle? * cpu.elapsed_s - after_s;
        Some((idle_s / self.loaded_s.max(1e-9)).clamp(0.0, 1.0))
    }

    /// Removes the counts of all CPUs except `cpus`.
    pub fn keep(&mut self, cpus: &[usize]) {
        self.cpus.retain(|split| cpus.contains(&split.cpu));
    }

    /// Mean of the CPUs' idle shares; `None` without CPUs, or if the meter cannot tell idle time.
    pub fn idle(&self) -> Option<f64> {
        let idle: Option<Vec<f64>> = self.cpus.iter().map(|cpu| self.idle_of(cpu)).collect();
        idle.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
    }
}

/// A service that trials can be made with.
pub trait Bench {
    /// Makes one trial.
    ///
    /// # Errors
    /// The service ended, the requester failed, or the user stopped the run.
    fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError>;
}

/// Receives the progress of a run.
pub trait Observer {
    /// A stage begins.
    fn stage(&mut self, name: &str);
    /// A trial has been made.
    fn trial(&mut self, trial: &ServiceTrial);
}

/// A trial, and whether it kept the promise (the user's limits of loss and response times).
#[derive(Debug)]
pub struct Seen {
    /// The trial's counts.
    pub report: Report,
    /// Whether the trial kept the promise, and its losses.
    pub judged: Judged,
    /// Why the trial does not count; `None`: it counts.
    pub void: Option<Void>,
    /// Activity of the CPUs, if it was measured.
    pub metered: Option<Metered>,
}

impl Seen {
    /// True: other programs used much of the service's CPU.
    pub fn is_disturbed(&self) -> bool {
        self.report.others > DISTURBED
    }
}

/// Result of a load, after repeating void trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// The promise was kept.
    Kept,
    /// The promise was broken.
    Failed,
    /// The requester could not offer the load.
    Void,
}

/// Makes trials, judges and stores them.
pub struct Conductor<'a> {
    bench: &'a mut dyn Bench,
    promise: &'a Promise,
    observer: &'a mut dyn Observer,
    seed: u64,
    /// Every trial so far.
    pub trials: Vec<ServiceTrial>,
    /// When the service was silent in each trial of `trials`.
    pub silences: Vec<Silences>,
}

impl<'a> Conductor<'a> {
    /// A conductor without trials yet.
    pub fn new(bench: &'a mut dyn Bench, promise: &'a Promise, observer: &'a mut dyn Observer, seed: u64) -> Self {
        Self { bench, promise, observer, seed, trials: Vec::new(), silences: Vec::new() }
    }

    /// Begins a stage with this name.
    pub fn stage(&mut self, name: &str) {
        self.observer.stage(name);
    }

    /// Pauses of the service in the valid trials of length `window_s` (s) at loads up to `most_rps`. The usual time of an
    /// answer, which is no pause, is that of the trial with the fastest answers, because queues make others slower.
    pub fn pauses(&self, window_s: f64, most_rps: f64) -> Pauses {
        let counts =
            |trial: &ServiceTrial| trial.void.is_none() && trial.window_s == window_s && trial.rate_rps <= most_rps;
        let all = || self.trials.iter().zip(&self.silences).filter(|(trial, _)| counts(trial));
        let usual_s = all().filter_map(|(trial, _)| Some(trial.times?.p90_s)).reduce(f64::min);
        Pauses::of(all().map(|(_, silences)| silences.clone()), window_s).after(usual_s.unwrap_or(0.0))
    }

    /// The promise that trials must keep.
    pub fn promise(&self) -> &Promise {
        self.promise
    }

    /// Makes one trial, and repeats it if it broke the promise while other programs disturbed it.
    ///
    /// # Errors
    /// As [`Bench::trial`].
    pub fn one(&mut self, purpose: TrialPurpose, rate_rps: f64, window_s: f64) -> Result<Seen, FindError> {
        for _ in 0..DISTURBED_REPEATS {
            let seen = self.once(purpose, rate_rps, window_s)?;
            if seen.judged.kept || !seen.is_disturbed() {
                return Ok(seen);
            }
            if let Some(trial) = self.trials.last_mut() {
                let share = netcliff_core::units::print_share((seen.report.others * 100.0).round() / 100.0);
                trial.void = Some(format!("other programs had {share} of the service's CPU"));
            }
        }
        self.once(purpose, rate_rps, window_s)
    }

    fn once(&mut self, purpose: TrialPurpose, rate_rps: f64, window_s: f64) -> Result<Seen, FindError> {
        self.seed = self.seed.wrapping_add(1);
        let spec = Spec { rate_rps, window_s, seed: self.seed, purpose };
        let (report, metered) = self.bench.trial(&spec)?;
        let judged = judge(self.promise, &report.counts);
        let void = report.void();
        let trial = described(self.promise, &spec, &report, judged, metered.as_ref());
        self.observer.trial(&trial);
        self.trials.push(trial);
        self.silences.push(report.silences.clone());
        Ok(Seen { report, judged, void, metered })
    }

    /// Makes trials at a load until one keeps the promise, two break it, or too many are void. If the requester did not
    /// fall behind in most void trials, but it or the service was only delayed, a higher load can be offered, and this
    /// one counts as failed.
    ///
    /// # Errors
    /// As [`Bench::trial`].
    pub fn did(&mut self, purpose: TrialPurpose, rate_rps: f64, window_s: f64) -> Result<Did, FindError> {
        let (mut failed, mut behind, mut delayed) = (0, 0, 0);
        loop {
            let seen = self.one(purpose, rate_rps, window_s)?;
            match seen.void.map(|void| void.why.class()) {
                None if seen.judged.kept => return Ok(Did::Kept),
                None => failed += 1,
                Some(VoidClass::Delay) => delayed += 1,
                Some(VoidClass::Sender | VoidClass::Sink) => behind += 1,
            }
            if failed == 2 {
                return Ok(Did::Failed);
            }
            if behind + delayed == VOID_REPEATS {
                return Ok(if behind > delayed { Did::Void } else { Did::Failed });
            }
        }
    }
}

fn described(
    promise: &Promise,
    spec: &Spec,
    report: &Report,
    judged: Judged,
    metered: Option<&Metered>,
) -> ServiceTrial {
    let Report { counts, excluded, with_pauses, .. } = report;
    let times = counts.times.summary().map(|summary| ResponseTimes {
        mean_s: summary.mean_s,
        p50_s: summary.p50_s,
        p90_s: summary.p90_s,
        p99_s: summary.p99_s,
        p999_s: summary.p999_s,
        max_s: summary.max_s,
    });
    ServiceTrial {
        purpose: spec.purpose,
        rate_rps: spec.rate_rps,
        window_s: spec.window_s,
        requests: counts.requests,
        answers: counts.answers,
        late_answers: counts.late_answers,
        wrong_answers: counts.wrong_answers,
        unanswered: counts.unanswered(),
        excluded: *excluded,
        paused_s: report.paused_s,
        times,
        kept: judged.kept,
        kept_with_pauses: with_pauses.as_ref().map(|counts| judge(promise, counts).kept),
        void: report.void().map(|void| void.why.of("requester")),
        lateness_p99_s: report.lateness.quantile_s(0.99),
        requester_busy: report.busy,
        idle: metered.and_then(Metered::idle),
    }
}
