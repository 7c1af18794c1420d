//! The stages of `find`, in order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::finding::{LatencyAt, SweepPoint};
use netcliff_core::{EngineKind, Figure, Finding, Outcome, Record};

use super::engines::Computed;
use super::plan::{MULTIPLES, Plan, Progress};
use super::{FindOptions, Halt, base, conclude, missing, suggest};
use crate::bench::{Bench, Observation};
use crate::calibrate::{self, Calibrated};
use crate::search::{self, Cliff, Range, Verdict};
use crate::stats;
use crate::trial::{TrialError, TrialSpec};

/// First load of the rough search (pps) and the loss that ends it: far past any noise.
const ROUGH_START_PPS: f64 = 20e3;
const ROUGH_LOSS: f64 = 0.02;
const ROUGH_TRIAL_S: f64 = 0.15;
/// A load that lost this much has failed without a second look.
const CLEAR_FAILURE: f64 = 0.01;
/// Share of the sender's ceiling above which it cannot pace.
pub const PACED_SHARE: f64 = 0.95;
/// Shares of the cliff at which latency is told.
const LATENCY_SHARES: [f64; 2] = [0.5, 0.9];

/// A run under way.
pub struct Run<'a, 'p> {
    pub options: &'a FindOptions,
    pub plan: &'a Plan,
    pub bench: &'a mut dyn Bench,
    pub progress: &'a RefCell<Progress<'p>>,
    /// Set by the user to stop; computing looks at it between loads, measuring all the time.
    pub stop: &'a AtomicBool,
    pub finding: &'a mut Finding,
}

impl Run<'_, '_> {
    /// All stages; the calibration, if there is one, is for the checks that follow.
    pub fn all(&mut self) -> Option<Calibrated> {
        match self.stages() {
            Ok(calibrated) => calibrated,
            Err(halt) => {
                // A stop while a stage fails is a stop all the same.
                self.finding.partial = !matches!(halt, Halt::Failed(_)) || self.stop.load(Ordering::Relaxed);
                if let Halt::Failed(why) | Halt::Changed(why) = halt {
                    missing(self.finding, "wire", why);
                }
                conclude::all(self.finding);
                None
            }
        }
    }

    fn stage(&self, name: &str) {
        self.progress.borrow_mut().observer.stage(name);
    }

    fn stages(&mut self) -> Result<Option<Calibrated>, Halt> {
        self.stage("measuring the sender alone");
        let ceiling_pps = self.ceiling()?;
        self.stage("looking for the rough cliff");
        let rough_pps = self.rough(ceiling_pps)?;
        self.stage("calibrating");
        let calibrated = self.calibrate(rough_pps)?;
        let computed = calibrated.as_ref().map(|calibrated| self.computed(calibrated));
        if let Some(computed) = &computed {
            self.stage("predicting and simulating the cliff");
            self.computed_cliffs(computed)?;
        }
        self.stage("measuring the cliff");
        let start_pps = 0.6 * self.expected().unwrap_or(rough_pps);
        let measured = self.measure_cliff(start_pps, ceiling_pps)?;
        let centre_pps = measured.or_else(|| self.expected()).unwrap_or(rough_pps);
        self.stage("sweeping the load");
        self.sweep(centre_pps, ceiling_pps)?;
        if let Some(computed) = &computed {
            self.stage("the same loads on paper and in simulation");
            self.computed_sweep(computed, centre_pps)?;
        }
        self.latency(centre_pps);
        conclude::all(self.finding);
        if let Some(computed) = &computed {
            self.stage("looking for better settings");
            self.finding.suggestions = suggest::settings(computed, self.finding, self.stop);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Halt::Stopped);
            }
        }
        Ok(calibrated)
    }

    /// The cliff that simulation, or else the model, expects.
    fn expected(&self) -> Option<f64> {
        let cliff = &self.finding.cliff_pps;
        cliff.sim.or(cliff.model).map(|figure| figure.value)
    }

    fn computed(&self, calibrated: &Calibrated) -> Computed {
        Computed {
            host: calibrated.calibration.host.clone(),
            scheme: self.finding.setup.scheme.clone(),
            traffic: self.finding.setup.traffic.clone(),
            loss: self.options.loss,
            seed: self.options.seed,
            packets: self.plan.sim_packets,
        }
    }

    fn ceiling(&mut self) -> Result<f64, Halt> {
        let ceiling = self.bench.ceiling(self.options.frame_bytes)?;
        self.finding.generator.method = ceiling.method;
        self.finding.generator.ceiling_pps = stats::median(&ceiling.pps);
        stats::median(&ceiling.pps)
            .map(|figure| figure.value)
            .ok_or_else(|| Halt::Failed("the sender sent nothing".into()))
    }

    /// Where loss becomes gross, to a factor of 1.3.
    fn rough(&mut self, ceiling_pps: f64) -> Result<f64, Halt> {
        let range =
            Range { start_pps: ROUGH_START_PPS, ceiling_pps: PACED_SHARE * ceiling_pps, factor: 1.7, width: 0.3 };
        let base = TrialSpec { seconds: ROUGH_TRIAL_S, ..base(self.options, self.plan) };
        let bench = &mut *self.bench;
        let cliff = search::cliff(range, |rate_pps| -> Result<Verdict, TrialError> {
            let observation = bench.observe(&TrialSpec { rate_pps, ..base.clone() }, false)?;
            Ok(verdict(&observation, ROUGH_LOSS))
        })?;
        match cliff {
            Cliff::Bracket { passed_pps, .. } | Cliff::Above { passed_pps } => Ok(passed_pps),
            Cliff::Below { failed_pps } => Ok(failed_pps),
        }
    }

    fn calibrate(&mut self, rough_pps: f64) -> Result<Option<Calibrated>, Halt> {
        let plan = calibrate::Plan { rounds: self.plan.calibration_rounds, rough_pps };
        let base = base(self.options, self.plan);
        match calibrate::calibrate(self.bench, &base, plan) {
            Ok(calibrated) => {
                self.finding.calibration = Some(calibrated.calibration.clone());
                Ok(Some(calibrated))
            }
            Err(calibrate::CalibrationError::Trial(error @ (TrialError::Stopped | TrialError::Changed { .. }))) => {
                Err(error.into())
            }
            Err(error) => {
                for figure in ["calibration", "cliff_pps.model", "cliff_pps.sim"] {
                    missing(self.finding, figure, error.to_string());
                }
                Ok(None)
            }
        }
    }

    fn computed_cliffs(&mut self, computed: &Computed) -> Result<(), Halt> {
        for engine in [EngineKind::Model, EngineKind::Sim] {
            let cliff = computed.unless_stopped(self.stop, move |computed, unwanted| match engine {
                EngineKind::Sim => computed.sim_cliff(unwanted),
                _ => computed.model_cliff().map(Some),
            });
            match cliff.ok_or(Halt::Stopped)? {
                Ok(figure) => self.finding.cliff_pps.set(engine, figure),
                Err(error) => missing(self.finding, &format!("cliff_pps.{engine}"), error.to_string()),
            }
        }
        Ok(())
    }

    fn measure_cliff(&mut self, start_pps: f64, ceiling_pps: f64) -> Result<Option<f64>, Halt> {
        let base = base(self.options, self.plan);
        let range = Range { start_pps, ceiling_pps: PACED_SHARE * ceiling_pps, factor: 1.25, width: self.plan.width };
        let cliffs = cliffs(self.bench, &base, range, self.plan.searches, self.options.loss)?;
        match cliffs.figure(ceiling_pps, self.options.loss) {
            Ok(figure) => self.finding.cliff_pps.wire = Some(figure),
            Err(why) => missing(self.finding, "cliff_pps.wire", why),
        }
        if cliffs.stopped { Err(Halt::Stopped) } else { Ok(self.finding.cliff_pps.wire.map(|figure| figure.value)) }
    }

    /// Metered trials at multiples of the cliff, loads interleaved so that drift hits all alike.
    fn sweep(&mut self, centre_pps: f64, ceiling_pps: f64) -> Result<(), Halt> {
        let base = base(self.options, self.plan);
        let loads: Vec<f64> = MULTIPLES.iter().map(|multiple| multiple * centre_pps).collect();
        let mut seen: Vec<Vec<Observation>> = vec![Vec::new(); loads.len()];
        let mut outcome = Ok(());
        'rounds: for round in 0..self.plan.repeats {
            for (place, &rate_pps) in loads.iter().enumerate() {
                if rate_pps > ceiling_pps {
                    continue;
                }
                let seed = base.seed + 5000 + u64::from(round) * 101 + place as u64;
                match self.bench.observe(&TrialSpec { rate_pps, seed, ..base.clone() }, true) {
                    Ok(observation) => {
                        self.keep(&observation);
                        seen[place].push(observation);
                    }
                    Err(error) => {
                        outcome = Err(error.into());
                        break 'rounds;
                    }
                }
            }
        }
        for (load_pps, observations) in loads.iter().zip(&seen) {
            match conclude::merge(observations) {
                Some(merged) => self.finding.sweep.push(merged.into_point(*load_pps)),
                None if *load_pps > ceiling_pps => {
                    let why = format!("{load_pps:.0} pps is above the sender's ceiling of {ceiling_pps:.0} pps");
                    missing(self.finding, "sweep.wire", why);
                }
                None => {}
            }
        }
        let lateness = seen.iter().flatten().filter(|o| o.sender_kept_up).filter_map(|o| o.lateness_p99_s);
        self.finding.generator.lateness_p99_s = lateness.reduce(f64::max);
        outcome
    }

    fn keep(&self, observation: &Observation) {
        let record = self.record(EngineKind::Wire, observation.spec.rate_pps, observation.outcome.clone());
        if let Some(record) = record {
            self.progress.borrow_mut().observer.record(&record);
        }
    }

    /// A record at a load; None without a calibrated host, which a point must name.
    fn record(&self, engine: EngineKind, load_pps: f64, outcome: Outcome) -> Option<Record> {
        let host = self.finding.calibration.as_ref()?.host.clone();
        let setup = &self.finding.setup;
        let point =
            netcliff_core::Point { host, scheme: setup.scheme.clone(), traffic: setup.traffic.at_pps(load_pps) };
        Some(Record { point, engine, outcome, provenance: self.finding.provenance.clone() })
    }

    fn computed_sweep(&mut self, computed: &Computed, centre_pps: f64) -> Result<(), Halt> {
        for multiple in MULTIPLES {
            let load_pps = multiple * centre_pps;
            for engine in [EngineKind::Model, EngineKind::Sim] {
                self.progress.borrow_mut().trial(load_pps);
                let outcome = computed.unless_stopped(self.stop, move |computed, _| match engine {
                    EngineKind::Sim => computed.sim_at(load_pps),
                    _ => computed.model_at(load_pps),
                });
                match outcome.ok_or(Halt::Stopped)? {
                    Ok(outcome) => {
                        if let Some(record) = self.record(engine, load_pps, outcome.clone()) {
                            self.progress.borrow_mut().observer.record(&record);
                        }
                        let point = SweepPoint { engine, load_pps, repeats: 1, sender_kept_up: true, outcome };
                        self.finding.sweep.push(point);
                    }
                    Err(error) => missing(self.finding, &format!("sweep.{engine}"), error.to_string()),
                }
            }
        }
        Ok(())
    }

    fn latency(&mut self, centre_pps: f64) {
        for share in LATENCY_SHARES {
            let load_pps = share * centre_pps;
            let mut at = LatencyAt { share, load_pps, latency_s: Default::default() };
            for engine in [EngineKind::Model, EngineKind::Sim, EngineKind::Wire] {
                let curve = self.finding.curve(engine);
                let found = curve.iter().find(|point| (point.load_pps / load_pps - 1.0).abs() < 1e-6);
                at.latency_s.set(engine, found.and_then(|point| point.outcome.latency_s));
            }
            self.finding.latency.push(at);
        }
    }
}

/// Share of the scheduled rate that must really have been offered for a trial to say anything about the receiver.
const OFFERED: f64 = 0.99;

/// Reads a trial. A sender that offered the load but late, in bursts, made it harder: what passed has passed, and a
/// clear failure is the receiver's; a failure by little is nobody's.
fn verdict(observation: &Observation, target: f64) -> Verdict {
    if observation.offered_share < OFFERED {
        return Verdict::SenderLimited;
    }
    match observation.loss {
        loss if loss <= target => Verdict::Passed,
        loss if loss >= CLEAR_FAILURE || observation.sender_kept_up => Verdict::Failed,
        _ => Verdict::SenderLimited,
    }
}

/// Searches that were made.
pub struct Cliffs {
    found: Vec<Cliff>,
    /// True: the user ended them; what was found until then is here.
    pub stopped: bool,
}

/// Searches for the cliff `repeats` times. A load that fails by little is tried twice more, and the majority
/// counts: other tenants of the machine make single trials fail.
pub fn cliffs(
    bench: &mut dyn Bench,
    base: &TrialSpec,
    range: Range,
    repeats: u32,
    loss: f64,
) -> Result<Cliffs, TrialError> {
    let mut found = Vec::new();
    for repeat in 0..repeats {
        let mut trials = 0;
        let mut once = |rate_pps: f64| {
            trials += 1;
            let seed = base.seed + 20_000 + 997 * u64::from(repeat) + trials;
            bench.observe(&TrialSpec { rate_pps, seed, ..base.clone() }, false)
        };
        let cliff = search::cliff(range, |rate_pps| -> Result<Verdict, TrialError> {
            let first = once(rate_pps)?;
            match verdict(&first, loss) {
                Verdict::Failed if first.loss < CLEAR_FAILURE => {}
                decided => return Ok(decided),
            }
            let again = [verdict(&once(rate_pps)?, loss), verdict(&once(rate_pps)?, loss)];
            let passed = again.iter().filter(|verdict| **verdict == Verdict::Passed).count();
            Ok(if passed == again.len() { Verdict::Passed } else { Verdict::Failed })
        });
        match cliff {
            Ok(cliff) => found.push(cliff),
            Err(TrialError::Stopped) => return Ok(Cliffs { found, stopped: true }),
            Err(error) => return Err(error),
        }
    }
    Ok(Cliffs { found, stopped: false })
}

impl Cliffs {
    /// The median of the searches with its interval, or why there is none.
    pub fn figure(&self, ceiling_pps: f64, loss: f64) -> Result<Figure, String> {
        let passed: Vec<f64> = self.found.iter().filter_map(Cliff::passed_pps).collect();
        match stats::median(&passed) {
            Some(figure) if passed.len() * 2 > self.found.len() => Ok(figure),
            _ if self.found.is_empty() => Err("stopped before a search was finished".to_owned()),
            _ if self.found.iter().any(|cliff| matches!(cliff, Cliff::Below { .. })) => {
                Err(format!("even the lowest load tried lost more than {loss:e} of its packets"))
            }
            _ => Err(format!(
                "the sender's ceiling of {ceiling_pps:.0} pps was reached before the host lost more than {loss:e}: the \
                 cliff lies above"
            )),
        }
    }
}
