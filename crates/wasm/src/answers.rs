//! The questions that need a computation, and their answers by [`ModelEngine`] and [`SimEngine`].

use std::collections::BTreeMap;

use netcliff_core::engine::Fidelity;
use netcliff_core::{
    Analysis, Engine, EngineFailure, EngineKind, Figure, Load, Outcome, Point, Provenance, Record, Unsupported,
    binding, host, units, warning, written,
};
use netcliff_model::{ModelEngine, Question};
use netcliff_sim::{Effort, SimEngine};
use serde::{Deserialize, Serialize};

use crate::question::{Refused, Setting, check_load, option, rates};

/// A question without parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Version, presets and host keys that questions may use.
#[derive(Debug, Serialize)]
pub struct About {
    version: &'static str,
    presets: &'static [&'static str],
    keys: &'static [&'static str],
    text_keys: &'static [&'static str],
}

/// Returns version, presets and host keys.
pub fn about(_: Nothing) -> Result<About, Refused> {
    Ok(About {
        version: env!("CARGO_PKG_VERSION"),
        presets: host::PRESETS,
        keys: host::KEYS,
        text_keys: host::TEXT_KEYS,
    })
}

/// A setting to check, with the loads if it is a sweep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckQuestion {
    setting: Setting,
    #[serde(default)]
    rates: Option<String>,
}

/// A checked setting, in netcliff's own notation.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// The point at the first load; for a setting without loads see [`written::Traffic::new`].
    point: written::Point,
    /// Value of each host key (s, packets, a share).
    figures: BTreeMap<&'static str, f64>,
    /// Settings that are valid but probably a mistake.
    warnings: Vec<String>,
    /// Line rate of the frames (pps).
    line_rate_pps: Option<f64>,
    /// Mean frame size (bytes).
    frame_bytes: Option<f64>,
    /// Reason why the model does not support the setting; `None` if it does.
    model: Option<String>,
    /// Reason why the simulator does not support the setting; `None` if it does.
    sim: Option<String>,
    /// The loads of the sweep (pps).
    loads_pps: Vec<f64>,
}

/// Checks a setting.
pub fn check(asked: CheckQuestion) -> Result<Checked, Refused> {
    let loads = asked.rates.as_deref().map(rates).transpose()?.unwrap_or_default();
    let (host, scheme, traffic) = asked.setting.parts()?;
    let first = loads.first().copied();
    first.map_or(Ok(()), |load| check_load(&traffic, load))?;
    let why = |supported: Result<(), Unsupported>| supported.err().map(|error| error.to_string());
    let fits = |load: &Load| traffic.fits_link(*load, true);
    let (carried, beyond): (Vec<Load>, Vec<Load>) = loads.iter().partition(|load| fits(load).is_ok());
    let left_out = beyond.first().and_then(|load| fits(load).err());
    let left_out = left_out.map(|why| format!("{} of {} loads are left out: {why}", beyond.len(), loads.len()));
    let warnings = warning::warnings(&host, &scheme, &traffic, first.and_then(|load| traffic.rate_pps(load)));
    Ok(Checked {
        figures: host::KEYS.iter().filter_map(|key| Some((*key, host.get(key)?))).collect(),
        warnings: warnings.into_iter().map(|note| note.to_string()).chain(left_out).collect(),
        line_rate_pps: traffic.line_rate_pps(),
        frame_bytes: traffic.size.mean_bytes(),
        model: why(ModelEngine::default().supports_shape(&host, &scheme, &traffic)),
        sim: why(SimEngine::default().supports_at(&host, &scheme, &traffic, first)),
        loads_pps: carried.iter().filter_map(|load| traffic.rate_pps(*load)).collect(),
        point: written::Point { host, scheme, traffic: written::Traffic::new(traffic, first) },
    })
}

fn failed(error: EngineFailure) -> Refused {
    Refused::of("engine", error)
}

/// A sweep by the model: setting, loads and fidelity.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictQuestion {
    setting: Setting,
    rates: String,
    #[serde(default)]
    fidelity: Option<String>,
    /// Whether latency quantiles are computed (they take longer than all other figures).
    #[serde(default = "yes")]
    quantiles: bool,
}

fn yes() -> bool {
    true
}

/// One load of a sweep, with its outcome.
#[derive(Debug, Serialize)]
pub struct CurvePoint {
    load_pps: f64,
    outcome: Outcome,
}

/// The points of a sweep.
#[derive(Debug, Serialize)]
pub struct Curve {
    points: Vec<CurvePoint>,
}

fn fidelity(text: Option<&str>) -> Result<Fidelity, Refused> {
    text.map_or(Ok(Fidelity::default()), |text| option("fidelity", text))
}

fn points(setting: &Setting, loads: &str) -> Result<Vec<Point>, Refused> {
    let loads = rates(loads)?;
    let Some(first) = loads.first() else { return Ok(Vec::new()) };
    let first = setting.point(*first)?;
    let at = |load: Load| {
        let point = Point { load, ..first.clone() };
        point.validate().map(|()| point).map_err(|error| Refused::of("rates", error))
    };
    loads.into_iter().map(at).collect()
}

/// Evaluates the model at each load.
pub fn predict(asked: PredictQuestion) -> Result<Curve, Refused> {
    let mut engine = ModelEngine::new(fidelity(asked.fidelity.as_deref())?);
    engine.quantiles = asked.quantiles;
    let answer = |point: Point| {
        let outcome = engine.evaluate(&point).map_err(failed)?;
        Ok(CurvePoint { load_pps: point.rate_pps().unwrap_or(0.0), outcome })
    };
    let points: Result<_, Refused> = points(&asked.setting, &asked.rates)?.into_iter().map(answer).collect();
    Ok(Curve { points: points? })
}

/// A search for the cliff by the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CliffQuestion {
    setting: Setting,
    /// Loss fraction that defines the cliff.
    #[serde(default = "usual_loss")]
    loss: f64,
    #[serde(default)]
    fidelity: Option<String>,
}

fn usual_loss() -> f64 {
    1e-4
}

/// The cliff, and the host's behaviour beyond it.
#[derive(Debug, Serialize)]
pub struct Fall {
    /// Highest load with a loss of at most the bound (pps).
    cliff_pps: f64,
    /// The same load as text.
    cliff: String,
    /// Livelock index: throughput at twice the cliff over the peak; 1: no livelock, 0: receive livelock.
    livelock: f64,
    /// The bottleneck at 1.2 times the cliff, in words.
    binding: Option<String>,
}

/// Load at which the bottleneck is determined, as a multiple of the cliff. It is near the first load beyond the cliff
/// in a sweep of `find`.
const PAST: f64 = 1.2;

/// Computes the cliff by the model.
pub fn cliff(asked: CliffQuestion) -> Result<Fall, Refused> {
    let engine = ModelEngine::new(fidelity(asked.fidelity.as_deref())?).without_quantiles();
    let (host, scheme, traffic) = asked.setting.parts()?;
    let cliff_pps = netcliff_model::cliff(&engine, &host, &scheme, &traffic, asked.loss).map_err(failed)?.pps;
    let livelock = netcliff_model::livelock_index(&engine, &host, &scheme, &traffic, cliff_pps).map_err(failed)?;
    let past_pps = PAST * cliff_pps;
    let past = Point { host, scheme, traffic, load: Load::Pps(past_pps) };
    let binding = engine.evaluate(&past).map(|outcome| binding::at(past_pps, &outcome, Figure::exact(cliff_pps)));
    Ok(Fall {
        cliff_pps,
        cliff: units::print_pps(units::three_digits(cliff_pps)),
        livelock,
        binding: binding.map_err(failed)?,
    })
}

/// A record with its analysis, as `predict --sensitivities --json` writes it.
#[derive(Debug, Serialize)]
pub struct Analysed {
    #[serde(flatten)]
    record: Record,
    #[serde(flatten)]
    analysis: Analysis,
}

/// A request for the cliff and its sensitivities.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SensitivityQuestion {
    setting: Setting,
    /// Load at which latency and CPU are evaluated; `None`: half the cliff.
    #[serde(default)]
    rate: Option<String>,
    #[serde(default = "usual_loss")]
    loss: f64,
    #[serde(default)]
    fidelity: Option<String>,
    #[serde(default)]
    origin: Origin,
}

/// Entries of the provenance that the caller supplies.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The equivalent command line.
    #[serde(default)]
    command: String,
    /// Seconds since the epoch (UTC).
    #[serde(default)]
    started_unix_s: f64,
}

impl Origin {
    fn provenance(&self, seed: Option<u64>, settings: BTreeMap<String, String>) -> Provenance {
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            command: self.command.clone(),
            started_unix_s: self.started_unix_s,
            settings,
            ..Provenance::default()
        }
    }
}

fn by_model(fidelity: Fidelity) -> BTreeMap<String, String> {
    [("fidelity".to_owned(), fidelity.to_string())].into()
}

/// Computes how cliff, latency and CPU change with each cost.
pub fn sensitivities(asked: SensitivityQuestion) -> Result<Analysed, Refused> {
    let fidelity = fidelity(asked.fidelity.as_deref())?;
    let engine = ModelEngine::new(fidelity);
    let load = asked.rate.as_deref().map(|rate| option::<Load>("rate", rate)).transpose()?;
    let (host, scheme, traffic) = asked.setting.parts()?;
    load.map_or(Ok(()), |load| check_load(&traffic, load))?;
    let question = Question { loss: asked.loss, sensitivities: true };
    let (point, analysis) =
        netcliff_model::analyse(&engine.without_quantiles(), &host, &scheme, &traffic, load, question)
            .map_err(failed)?;
    let outcome = engine.evaluate(&point).map_err(failed)?;
    let provenance = asked.origin.provenance(None, by_model(fidelity));
    Ok(Analysed { record: Record { point, engine: EngineKind::Model, outcome, provenance }, analysis })
}

/// A request for the records of a sweep by the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsQuestion {
    setting: Setting,
    rates: String,
    #[serde(default)]
    fidelity: Option<String>,
    #[serde(default)]
    origin: Origin,
}

/// Computes one record per load.
pub fn records(asked: RecordsQuestion) -> Result<Vec<Record>, Refused> {
    let fidelity = fidelity(asked.fidelity.as_deref())?;
    let engine = ModelEngine::new(fidelity);
    let record = |point: Point| {
        let outcome = engine.evaluate(&point).map_err(failed)?;
        let provenance = asked.origin.provenance(None, by_model(fidelity));
        Ok(Record { point, engine: EngineKind::Model, outcome, provenance })
    };
    points(&asked.setting, &asked.rates)?.into_iter().map(record).collect()
}

/// A simulation of one load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulateQuestion {
    setting: Setting,
    rate: String,
    seed: u64,
    packets: u64,
    #[serde(default = "usual_confidence")]
    confidence: f64,
    #[serde(default)]
    origin: Origin,
}

fn usual_confidence() -> f64 {
    0.95
}

/// A simulated record, and whether its replications were long enough.
#[derive(Debug, Serialize)]
pub struct Simulated {
    #[serde(flatten)]
    record: Record,
    /// Number of arrivals simulated, which may exceed the requested number if the figures needed more.
    packets: u64,
    /// False: the replications are too short for their figures.
    settled: bool,
}

/// Simulates one load.
pub fn simulate(asked: SimulateQuestion) -> Result<Simulated, Refused> {
    let point = asked.setting.point(option("rate", &asked.rate)?)?;
    let engine = SimEngine {
        seed: asked.seed,
        effort: Effort::Packets(asked.packets),
        confidence: asked.confidence,
        ..SimEngine::default()
    };
    let simulation = engine.simulate(&point).map_err(failed)?;
    simulation
        .outcome
        .check()
        .map_err(|unsound| failed(EngineFailure::Unsound { engine: EngineKind::Sim, unsound }))?;
    let settings = [("packets".to_owned(), asked.packets.to_string())].into();
    let provenance = asked.origin.provenance(Some(asked.seed), settings);
    Ok(Simulated {
        packets: simulation.packets,
        settled: simulation.settled,
        record: Record { point, engine: EngineKind::Sim, outcome: simulation.outcome, provenance },
    })
}

/// A quick simulation of one load: the second half of one replication.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewQuestion {
    setting: Setting,
    rate: String,
    seed: u64,
    packets: u64,
}

/// Simulates one replication of this number of packets, within milliseconds; the figures have no intervals.
pub fn preview(asked: PreviewQuestion) -> Result<CurvePoint, Refused> {
    let point = asked.setting.point(option("rate", &asked.rate)?)?;
    let engine = SimEngine { seed: asked.seed, ..SimEngine::default() };
    let found = engine.replicas(&point, 0..1, asked.packets).map_err(failed)?.pop();
    let replica = found.ok_or_else(|| Refused::of("engine", "no replication was made"))?;
    Ok(CurvePoint { load_pps: point.rate_pps().unwrap_or(0.0), outcome: replica.outcome })
}

/// A search for the cliff by simulation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedCliffQuestion {
    setting: Setting,
    #[serde(default = "usual_loss")]
    loss: f64,
    seed: u64,
    /// Largest number of arrivals per load.
    packets: u64,
}

/// The cliff by simulation.
#[derive(Debug, Serialize)]
pub struct SimulatedCliff {
    cliff_pps: Figure,
    /// The bottleneck, in words, at the lowest simulated load beyond the cliff.
    binding: Option<String>,
}

/// Searches for the cliff by simulation.
pub fn simulated_cliff(asked: SimulatedCliffQuestion) -> Result<SimulatedCliff, Refused> {
    let (host, scheme, traffic) = asked.setting.parts()?;
    let engine = SimEngine { seed: asked.seed, effort: Effort::Exactly(asked.packets), ..SimEngine::default() };
    let found = netcliff_sim::cliff_sim(&engine, &host, &scheme, &traffic, asked.loss).map_err(failed)?;
    let loses = |outcome: &Outcome| outcome.loss_fraction.is_some_and(|loss| loss.value > asked.loss);
    let beyond = |(load_pps, outcome): &&(f64, Outcome)| *load_pps >= found.load_pps.value && loses(outcome);
    let binding = found.sweep.iter().find(beyond).and_then(|(pps, outcome)| binding::at(*pps, outcome, found.load_pps));
    Ok(SimulatedCliff { cliff_pps: found.load_pps, binding })
}

/// A request for the events of a run's first arrivals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceQuestion {
    setting: Setting,
    rate: String,
    seed: u64,
    packets: u64,
}

/// A trace as arrays of numbers, which [`netcliff_sim::Trace`] describes.
#[derive(Debug, Serialize)]
pub struct Moments {
    /// CPU activity: (activity, from (s), to (s)).
    cpu: Vec<(&'static str, f64, f64)>,
    /// Packets: (time (s), in the ring, in the socket, lost at the ring, lost at the socket).
    levels: Vec<(f64, u64, u64, u64, u64)>,
    timers_s: Vec<f64>,
    end_s: f64,
}

/// Simulates a short run and returns its events.
pub fn trace(asked: TraceQuestion) -> Result<Moments, Refused> {
    let point = asked.setting.point(option("rate", &asked.rate)?)?;
    let engine = SimEngine { seed: asked.seed, ..SimEngine::default() };
    let trace = engine.trace(&point, asked.packets).map_err(failed)?;
    Ok(Moments {
        cpu: trace.cpu.iter().map(|span| (span.activity.name(), span.from_s, span.to_s)).collect(),
        levels: trace
            .levels
            .iter()
            .map(|(at, level)| (*at, level.ring, level.socket, level.dropped_ring, level.dropped_socket))
            .collect(),
        timers_s: trace.timers_s,
        end_s: trace.end_s,
    })
}
