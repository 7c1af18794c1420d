//! Evaluates one point by an engine; results are records in JSON, as `--json` prints them.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use netcliff_core::engine::validate;
use netcliff_core::experiment::{PACKETS_RANGE, Share};
use netcliff_core::{Aims, Analysis, Engine, EngineKind, Fidelity, Load, Point, Provenance, Record};
use netcliff_model::{ModelEngine, Question};
use netcliff_sim::{Effort, SimEngine};
use pyo3::prelude::*;

use crate::errors::Fault;
use crate::values::{Host, Scheme, Traffic, read};
use crate::work;

/// Makes a point of its parts, and validates it.
pub(crate) fn point(host: &Host, scheme: &Scheme, traffic: &Traffic) -> Result<Point, Fault> {
    let Traffic { inner: traffic, load } = traffic.clone();
    let point = Point { host: host.inner.clone(), scheme: scheme.inner.clone(), traffic, load };
    point.validate()?;
    Ok(point)
}

/// Makes the provenance of a result: version, seed, command, time and settings.
pub(crate) fn provenance(command: String, seed: Option<u64>, settings: BTreeMap<String, String>) -> Provenance {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        command,
        started_unix_s: now.as_secs_f64(),
        settings,
        ..Provenance::default()
    }
}

/// Settings of a simulation: the options of the command `simulate`.
#[derive(Debug, Clone, FromPyObject)]
pub(crate) struct Simulation {
    pub(crate) seed: u64,
    pub(crate) packets: u64,
    pub(crate) precision: Option<String>,
    pub(crate) figures: String,
    pub(crate) packets_at_most: u64,
    pub(crate) confidence: String,
}

impl Simulation {
    /// Makes the simulator, and the settings for the provenance.
    pub(crate) fn engine(&self) -> Result<(SimEngine, BTreeMap<String, String>), Fault> {
        let packets = |name: &str, asked: u64| match PACKETS_RANGE.contains(&asked) {
            true => Ok(asked),
            false => Err(Fault::usage(format!(
                "{name} = {asked}: expected a whole number from {} to {}",
                PACKETS_RANGE.start(),
                PACKETS_RANGE.end()
            ))),
        };
        let confidence = read::<Share>(&self.confidence)?.0;
        let (effort, settings) = match &self.precision {
            None => {
                let effort = Effort::Packets(packets("packets", self.packets)?);
                (effort, vec![("packets", self.packets.to_string())])
            }
            Some(text) => {
                let (share, figures): (Share, Aims) = (read(text)?, read(&self.figures)?);
                let packets_at_most = packets("packets_at_most", self.packets_at_most)?;
                let settings = vec![
                    ("precision", share.to_string()),
                    ("precision_for", figures.to_string()),
                    ("packets_at_most", packets_at_most.to_string()),
                ];
                (Effort::Precision { relative: share.0, packets_at_most, figures }, settings)
            }
        };
        let engine = SimEngine { seed: self.seed, effort, confidence, ..SimEngine::default() };
        Ok((engine, settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
    }
}

fn record(engine: &dyn Engine, point: Point, mut provenance: Provenance) -> Result<Record, Fault> {
    let started = Instant::now();
    let outcome = engine.evaluate(&point)?;
    provenance.elapsed_s = Some(started.elapsed().as_secs_f64());
    provenance.settings.extend(point.digests());
    Ok(Record { point, engine: engine.kind(), outcome, provenance })
}

pub(crate) fn model(fidelity: &str) -> Result<(ModelEngine, BTreeMap<String, String>), Fault> {
    let fidelity: Fidelity = read(fidelity)?;
    Ok((ModelEngine::new(fidelity), [("fidelity".to_owned(), fidelity.to_string())].into()))
}

/// Evaluates a point by the model.
#[pyfunction]
pub(crate) fn predict(
    py: Python<'_>,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    fidelity: &str,
    command: String,
) -> PyResult<String> {
    let point = point(host, scheme, traffic)?;
    let (engine, settings) = model(fidelity)?;
    let provenance = provenance(command, None, settings);
    work::run(py, None, move |_| Ok(serde_json::to_string(&record(&engine, point, provenance)?)?))
}

/// Evaluates a point by simulation.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    simulation: Simulation,
    command: String,
    threads: Option<usize>,
) -> PyResult<String> {
    let point = point(host, scheme, traffic)?;
    let (engine, settings) = simulation.engine()?;
    let provenance = provenance(command, Some(simulation.seed), settings);
    let job = move |_: &_| Ok(serde_json::to_string(&record(&engine, point, provenance)?)?);
    work::run(py, Some(work::threads(threads)), job)
}

#[derive(serde::Serialize)]
struct Analysed {
    #[serde(flatten)]
    record: Record,
    #[serde(flatten)]
    analysis: Analysis,
}

/// Computes the cliff by the model and, with `sensitivities`, how it changes with each cost. Latency and CPU are
/// evaluated at `rate` or, without it, at half the cliff. Of `traffic` everything but the load is used.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a door of Python, called by one function of the package")]
pub(crate) fn analyse(
    py: Python<'_>,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    rate: Option<&str>,
    loss: f64,
    sensitivities: bool,
    fidelity: &str,
    command: String,
) -> PyResult<String> {
    let load = rate.map(read::<Load>).transpose()?;
    let (host, scheme, traffic) = (host.inner.clone(), scheme.inner.clone(), traffic.inner.clone());
    validate(&host, &scheme, &traffic).map_err(Fault::from)?;
    load.map_or(Ok(()), |load| traffic.validate_load(load)).map_err(Fault::from)?;
    let (engine, settings) = model(fidelity)?;
    let provenance = provenance(command, None, settings);
    let question = Question { loss, sensitivities };
    work::run(py, None, move |_| {
        let (point, analysis) =
            netcliff_model::analyse(&engine.without_quantiles(), &host, &scheme, &traffic, load, question)?;
        Ok(serde_json::to_string(&Analysed { record: record(&engine, point, provenance)?, analysis })?)
    })
}

/// Parses the name of an engine.
pub(crate) fn kind(name: &str) -> Result<EngineKind, Fault> {
    read(name)
}
