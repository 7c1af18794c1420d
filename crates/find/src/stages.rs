//! The stages of `find`, in order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::finding::{ByEngine, EngineFigure, FigurePath, WholeFigure};
use netcliff_core::finding::{LatencyAt, SweepPoint};
use netcliff_core::ledger::TrialLedger;
use netcliff_core::verdict;
use netcliff_core::{EngineKind, Finding, Load, Outcome, Record, Scheme};

use super::bookkeeping::{self, Seams};
use super::cliff::{self, Cliffs, Climb};
use super::delivery::{self, Timing};
use super::engines::Predictor;
use super::fluid::Measured;
use super::idle::{self, Idle, Switch};
use super::plan::{MULTIPLES, Plan, Progress};
pub(super) use super::plan::{highest, range};
use super::recorder::{Recorder, Stage};
use super::rough::{self, Rough};
use super::{FindOptions, Halt, Unresolved, base, conclude, contradict, experienced, missing, suggest};
use crate::calibrate::{self, Calibrated};
use netcliff_stats as stats;
use netcliff_trial::bench::{Bench, Highest, Observation};
use netcliff_trial::trial::{TrialError, TrialShape, TrialSpec};

/// Figures that need a calibration.
const UNCALIBRATED: [FigurePath; 3] = [
    FigurePath::Whole(WholeFigure::Calibration),
    FigurePath::Of(EngineFigure::Cliff, Some(EngineKind::Model), None),
    FigurePath::Of(EngineFigure::Cliff, Some(EngineKind::Sim), None),
];

/// The searches begin at the predicted cliff if it is within this factor of the rough cliff, otherwise at the rough
/// cliff.
const NEAR: f64 = 1.5;
/// Load of the trials in both idle modes, as a share of the cliff: the CPU still halts often, and pauses cause visible
/// queues.
const IDLE_SHARE: f64 = 0.75;
/// Number of loads computed in parallel: an evaluation by the model takes one CPU and 100 MB.
const AT_ONCE: usize = 4;
/// Shares of the cliff at which latency is reported.
const LATENCY_SHARES: [f64; 2] = [0.5, 0.9];

/// Results that the checks and the trial of a suggestion use.
#[derive(Debug, Clone)]
pub struct Basis {
    /// The costs.
    pub calibrated: Calibrated,
    /// Capacity of the calibrated host (pps).
    pub capacity_pps: f64,
    /// Interrupt timing, estimated from its trials.
    pub timing: Timing,
}

/// A run in progress.
pub struct Run<'a, 'p> {
    pub options: &'a FindOptions,
    pub plan: &'a Plan,
    pub bench: Recorder<'a>,
    pub progress: &'a RefCell<Progress<'p>>,
    /// Flag that ends the run. Computations check it between loads, measurements continually.
    pub stop: &'a AtomicBool,
    pub finding: &'a mut Finding,
    /// Share of the searches' time slots that the evaluation for the host's own cliff excludes.
    pub left_out: f64,
    /// Whether packets come from a NIC's own NAPI.
    pub behind_nic: bool,
    /// Whether packets come from a NIC whose moderation the scheme expresses, so that the latency of its interrupts can
    /// be estimated.
    pub behind_known_moderation: bool,
    /// Interrupt timing estimated so far; empty if the moderation is unknown.
    pub timing: Timing,
    /// Idle mode of the host's CPU in this run, and the switch that changes it; `None` if it cannot be changed.
    pub idle: Option<(&'a mut dyn Switch, Idle)>,
}

impl Run<'_, '_> {
    /// Runs all stages; returns the results that the checks use. `None` if the run ended early or has no calibration.
    pub fn all(&mut self) -> Result<Option<Basis>, Unresolved> {
        let outcome = self.stages();
        self.outside();
        match outcome {
            Ok(calibrated) => Ok(calibrated),
            Err(Halt::Unresolved(unresolved)) => Err(unresolved),
            Err(halt) => {
                // The run ended early, so some of its stages are missing.
                self.finding.partial = true;
                if let Halt::Failed(why) | Halt::Changed(why) = halt {
                    missing(self.finding, FigurePath::Engine(EngineKind::Wire), why);
                }
                conclude::all(self.finding);
                Ok(None)
            }
        }
    }

    pub(super) fn stage(&self, name: &str) {
        self.progress.borrow_mut().stage(name);
    }

    fn stages(&mut self) -> Result<Option<Basis>, Halt> {
        self.stage("measuring the sender alone");
        let highest = self.ceiling()?;
        self.stage("looking for the rough cliff");
        let rough = rough::search(&mut self.bench, &base(self.options, self.plan), range(highest))?;
        Unresolved::check(&self.plan.goal, rough.capacity_pps).map_err(Halt::Unresolved)?;
        self.stage("calibrating");
        self.bench.enter(Stage::Calibration);
        let calibrated = self.calibrate(rough.cliff_pps)?;
        if let Some(own) = &calibrated {
            self.timing = self.timing_below(own);
        }
        let computed = calibrated.as_ref().map(|calibrated| self.computed(calibrated, Some(rough.cliff_pps)));
        if let Some(computed) = &computed {
            self.stage("predicting and simulating the cliff");
            self.computed_cliffs(computed)?;
        }
        self.stage("measuring the cliff");
        self.bench.enter(Stage::Search);
        let cliffs = self.measure_cliff(&rough, highest)?;
        let present = calibrated.as_ref().and_then(|calibrated| self.at_present(calibrated));
        let computed = match (computed, &present) {
            (Some(computed), Some(present)) => Some(self.predicted_at_present(computed, present)?),
            (computed, _) => computed,
        };
        let simulated = self.finding.cliff_pps.sim;
        let pauses = self.bench.in_searches(self.plan.goal.final_trial_s);
        if let (Some(computed), Some(calibrated)) = (&computed, &calibrated) {
            self.stage("predicting and simulating the cliff with outside pauses");
            self.sure(computed, present.as_ref().unwrap_or(calibrated))?;
            self.as_experienced(computed, pauses.as_ref(), rough.capacity_pps)?;
        }
        let measured = self.finding.cliff_pps.wire.map(|figure| figure.value);
        let centre_pps = measured.or_else(|| self.expected()).unwrap_or(rough.cliff_pps);
        self.stage("sweeping the load");
        self.bench.enter(Stage::Sweep);
        let seams = calibrated.as_ref().map(|own| Seams::of(&own.costs));
        let swept = self.sweep(centre_pps, highest, seams)?;
        self.finding.cpu_measured = seams.and_then(|seams| bookkeeping::measured(&swept, seams));
        self.finding.contradictions =
            contradict::all(&swept, &cliffs.trials, self.finding, &self.plan.goal, rough.capacity_pps);
        self.ledger(centre_pps, highest.pps())?;
        self.round_trips(centre_pps, highest.pps())?;
        self.bench.enter(Stage::Idle);
        self.other_idle(IDLE_SHARE * centre_pps)?;
        if let Some(computed) = &computed {
            self.stage("the same loads by model and simulation");
            self.computed_sweep(computed, centre_pps)?;
        }
        self.latency(centre_pps);
        if let Some(computed) = &computed {
            self.finding.pause_budget = experienced::budget(computed, centre_pps, pauses.as_ref());
        }
        conclude::all(self.finding);
        if let Some(computed) = &computed {
            self.stage("looking for better settings");
            self.finding.suggestions = suggest::settings(computed, self.finding, simulated, self.stop);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Halt::Stopped);
            }
        }
        let calibrated = calibrated.map(|calibrated| match &present {
            Some(present) => calibrated.with_full_socket_of(present),
            None => calibrated,
        });
        Ok(calibrated.map(|calibrated| Basis {
            calibrated,
            capacity_pps: rough.capacity_pps,
            timing: std::mem::take(&mut self.timing),
        }))
    }

    /// Expected cliff (pps) by simulation, or else by the model; `None` if neither has one.
    fn expected(&self) -> Option<f64> {
        let cliff = &self.finding.cliff_pps;
        cliff.sim.or(cliff.model).map(|figure| figure.value)
    }

    pub(super) fn computed(&self, calibrated: &Calibrated, near_pps: Option<f64>) -> Predictor {
        Predictor {
            host: calibrated.calibration.host.clone(),
            times: calibrated.times(),
            scheme: self.finding.setup.scheme.clone(),
            traffic: self.finding.setup.traffic.clone(),
            loss: self.options.settings.loss,
            seed: self.options.settings.seed,
            packets: self.plan.sim_packets,
            near_pps,
            timing: delivery::curved(&self.timing),
            elsewhere: self.options.engines.clone(),
        }
    }

    fn ceiling(&mut self) -> Result<Highest, Halt> {
        let ceiling = self.bench.ceiling(self.options.settings.frame_bytes)?;
        let generator = &mut self.finding.generator;
        generator.method = ceiling.method;
        generator.ceiling_pps = stats::median(&ceiling.pps);
        generator.max_rate_pps = ceiling.most_pps;
        let highest = highest(self.finding).ok_or_else(|| Halt::Failed("the sender sent nothing".into()))?;
        self.finding.generator.limited_by_max_rate = highest.is_limited();
        Ok(highest)
    }

    fn calibrate(&mut self, rough_pps: f64) -> Result<Option<Calibrated>, Halt> {
        let queues = self.options.rig.between.as_ref().map_or(1, |between| between.sending.queues);
        if queues > 1 {
            let why = format!("--queues {queues}: costs are those of one queue on one CPU; several are measured only");
            for figure in UNCALIBRATED {
                missing(self.finding, figure, why.clone());
            }
            return Ok(None);
        }
        let backlog = !matches!(&self.finding.setup.scheme, Scheme::Napi(napi) if !napi.backlog);
        let plan = calibrate::Plan { rounds: self.plan.calibration_rounds, rough_pps, backlog };
        let base = base(self.options, self.plan);
        match calibrate::calibrate(&mut self.bench, &base, plan) {
            Ok(calibrated) => {
                self.finding.calibration = Some(calibrated.calibration.clone());
                self.bench.calibrated(calibrated.costs, base);
                Ok(Some(calibrated))
            }
            Err(calibrate::CalibrationError::Trial(error @ (TrialError::Stopped | TrialError::Changed { .. }))) => {
                Err(error.into())
            }
            Err(error) => {
                for figure in UNCALIBRATED {
                    missing(self.finding, figure, error.to_string());
                }
                Ok(None)
            }
        }
    }

    pub(super) fn computed_cliffs(&mut self, computed: &Predictor) -> Result<(), Halt> {
        let model = computed.begin(|computed, _| computed.model_cliff().map(Some));
        let sim = computed.begin(Predictor::sim_cliff);
        for (engine, cliff) in [(EngineKind::Model, model), (EngineKind::Sim, sim)] {
            match cliff.unless(self.stop).ok_or(Halt::Stopped)? {
                Ok(figure) => self.finding.cliff_pps.set(engine, figure),
                Err(error) => missing(self.finding, EngineFigure::Cliff.by(engine), error.to_string()),
            }
        }
        Ok(())
    }

    fn measure_cliff(&mut self, rough: &Rough, highest: Highest) -> Result<Cliffs, Halt> {
        let expected = self.expected().filter(|pps| (1.0 / NEAR..NEAR).contains(&(pps / rough.cliff_pps)));
        let base = base(self.options, self.plan);
        let near_pps = expected.unwrap_or(rough.cliff_pps);
        let mut question = self.plan.question(base, highest, near_pps, rough.capacity_pps);
        if self.behind_nic {
            question = Climb::of(&mut self.bench, &question)?.narrowed(question);
        }
        let cliffs = cliff::search(&mut self.bench, &question)?;
        match cliffs.own() {
            Ok(found) => self.finding.cliff_pps.wire = Some(found),
            Err(why) => missing(self.finding, EngineFigure::Cliff.by(EngineKind::Wire), why),
        }
        match cliffs.experienced() {
            Ok(found) => self.finding.cliff_experienced_pps.wire = Some(found),
            Err(why) => missing(self.finding, EngineFigure::CliffExperienced.by(EngineKind::Wire), why),
        }
        self.finding.searches = cliffs.summary();
        self.left_out = cliffs.left_out();
        if cliffs.stopped { Err(Halt::Stopped) } else { Ok(cliffs) }
    }

    /// Predicts both engines' cliffs including disturbances from the pauses in the searches' trials. If pauses were not
    /// measured, adds these cliffs to `missing`.
    fn as_experienced(
        &mut self,
        computed: &Predictor,
        measured: Option<&Measured>,
        capacity_pps: f64,
    ) -> Result<(), Halt> {
        let Some(measured) = measured else {
            for engine in [EngineKind::Model, EngineKind::Sim] {
                let figure = EngineFigure::CliffExperienced.by(engine);
                missing(self.finding, figure, "the pauses of the host's CPU were not measured");
            }
            return Ok(());
        };
        let goal = &self.plan.goal;
        let (found, failure) = experienced::by_engines(computed, &self.finding.cliff_pps, measured, goal, self.stop);
        self.finding.cliff_undisturbed_pps =
            experienced::disturbed(computed, &mut self.finding.cliff_pps, measured, goal, capacity_pps);
        let own = &self.finding.cliff_pps;
        self.finding.cliff_experienced_pps = ByEngine {
            model: found.model.map(|figure| experienced::at_most(figure, own.model)),
            sim: found.sim.map(|figure| experienced::at_most(figure, own.sim)),
            wire: self.finding.cliff_experienced_pps.wire,
        };
        if let Some(failure) = failure {
            missing(self.finding, EngineFigure::CliffExperienced.by(EngineKind::Sim), failure.to_string());
        }
        if self.stop.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Makes metered trials at multiples of the cliff, in rounds over all loads, so that drift affects all loads
    /// equally. Returns all trials, by load.
    fn sweep(&mut self, centre_pps: f64, highest: Highest, seams: Option<Seams>) -> Result<Vec<Observation>, Halt> {
        let base = TrialShape { seconds: self.plan.sweep_s, ..base(self.options, self.plan) };
        let loads: Vec<f64> = MULTIPLES.iter().map(|multiple| multiple * centre_pps).collect();
        let mut seen: Vec<Vec<Observation>> = vec![Vec::new(); loads.len()];
        let mut outcome = Ok(());
        'rounds: for round in 0..self.plan.repeats {
            for (place, &rate_pps) in loads.iter().enumerate() {
                if rate_pps > highest.pps() {
                    continue;
                }
                let seed = base.seed + 5000 + u64::from(round) * 101 + place as u64;
                match self.valid(&TrialShape { seed, ..base.clone() }.at(rate_pps)) {
                    Ok(mut observation) => {
                        if let Some(seams) = seams {
                            bookkeeping::rewrite(std::slice::from_mut(&mut observation), seams);
                        }
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
                None if *load_pps > highest.pps() => {
                    let (what, highest_pps) = (highest.in_words(), highest.pps());
                    let why = format!("{load_pps:.0} pps is above {what} of {highest_pps:.0} pps");
                    missing(self.finding, EngineFigure::Sweep.by(EngineKind::Wire), why);
                }
                None => {}
            }
        }
        let lateness = seen.iter().flatten().filter(|o| o.void().is_none()).filter_map(|o| o.lateness_p99_s);
        self.finding.generator.lateness_p99_s = lateness.reduce(f64::max);
        outcome.map(|()| seen.into_iter().flatten().collect())
    }

    /// Makes a trial beyond the cliff in which every packet is accounted for. It is separate from the others because
    /// tracing drops takes CPU time.
    fn ledger(&mut self, centre_pps: f64, ceiling_pps: f64) -> Result<(), Halt> {
        self.stage("accounting for the packets of a trial");
        let rate_pps = (2.0 * centre_pps).min(ceiling_pps);
        let spec =
            TrialShape { seed: self.options.settings.seed + 60_000, ..base(self.options, self.plan) }.at(rate_pps);
        match self.bench.ledger(&spec) {
            Ok(ledger) => self.finding.ledger = ledger.map(|ledger| TrialLedger { load_pps: rate_pps, ledger }),
            Err(error @ (TrialError::Stopped | TrialError::Changed { .. })) => return Err(error.into()),
            Err(error) => missing(self.finding, FigurePath::Whole(WholeFigure::Ledger), error.to_string()),
        }
        Ok(())
    }

    /// Makes a trial in each idle mode.
    fn other_idle(&mut self, rate_pps: f64) -> Result<(), Halt> {
        let Some((switch, idle)) = &mut self.idle else { return Ok(()) };
        let spec =
            TrialShape { seed: self.options.settings.seed + 70_000, ..base(self.options, self.plan) }.at(rate_pps);
        self.finding.idle = Some(idle::both_ways(&mut self.bench, &mut **switch, *idle, &spec)?);
        Ok(())
    }

    /// Repeats a void trial a few times. Returns the first valid trial, or the last void one.
    fn valid(&mut self, spec: &TrialSpec) -> Result<Observation, TrialError> {
        let mut observation = self.bench.observe(spec, true)?;
        for repeat in 1..=verdict::REPEATS {
            if observation.void().is_none() {
                break;
            }
            let seed = spec.shape.seed + 1_000_003 * u64::from(repeat);
            let shape = TrialShape { seed, ..spec.shape.clone() };
            observation = self.bench.observe(&shape.at(spec.rate_pps), true)?;
        }
        Ok(observation)
    }

    fn keep(&self, observation: &Observation) {
        let record = self.record(EngineKind::Wire, observation.spec.rate_pps, observation.outcome.clone());
        if let Some(record) = record {
            self.progress.borrow_mut().observer.record(&record);
        }
    }

    /// A record at a load; `None` without a calibrated host, which a record contains.
    fn record(&self, engine: EngineKind, load_pps: f64, outcome: Outcome) -> Option<Record> {
        let host =
            self.finding.searched_host.clone().or_else(|| Some(self.finding.calibration.as_ref()?.host.clone()))?;
        let setup = &self.finding.setup;
        let (scheme, traffic) = (setup.scheme.clone(), setup.traffic.clone());
        let point = netcliff_core::Point { host, scheme, traffic, load: Load::Pps(load_pps) };
        Some(Record { point, engine, outcome, provenance: self.finding.provenance.clone() })
    }

    fn computed_sweep(&mut self, computed: &Predictor, centre_pps: f64) -> Result<(), Halt> {
        let computed = Predictor { packets: self.plan.sweep_packets, ..computed.clone() };
        let begin = |multiple: &f64| {
            let load_pps = multiple * centre_pps;
            let model = computed.begin(move |computed, _| computed.model_at(load_pps));
            let sim = computed.begin(move |computed, _| computed.sim_at(load_pps));
            [(EngineKind::Model, load_pps, model), (EngineKind::Sim, load_pps, sim)]
        };
        for some in MULTIPLES.chunks(AT_ONCE) {
            let begun: Vec<_> = some.iter().flat_map(begin).collect();
            for (engine, load_pps, outcome) in begun {
                self.progress.borrow_mut().trial(load_pps);
                match outcome.unless(self.stop).ok_or(Halt::Stopped)? {
                    Ok(outcome) => {
                        if let Some(record) = self.record(engine, load_pps, outcome.clone()) {
                            self.progress.borrow_mut().observer.record(&record);
                        }
                        let point = SweepPoint { engine, load_pps, repeats: 1, sender_kept_up: true, outcome };
                        self.finding.sweep.push(point);
                    }
                    Err(error) => missing(self.finding, EngineFigure::Sweep.by(engine), error.to_string()),
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
