//! `advise`, as the command line asks it.

use netcliff_core::{Constraint, Goal, Host, Scheme as CoreScheme, Traffic as CoreTraffic};
use netcliff_lab::advise::{Observer, Question, Settings, advise as lab_advise, candidates, offered_anywhere};
use netcliff_model::ModelEngine;
use netcliff_sim::SimEngine;
use pyo3::prelude::*;

use crate::errors::Fault;
use crate::values::{Host as PyHost, Scheme, Traffic, read};
use crate::work;

/// Progress is not shown.
struct Silent;

impl Observer for Silent {
    fn stage(&mut self, _: &str) {}
    fn packets(&mut self, _: u64, _: u64) {}
}

/// The schemes given, else all that a driver can set.
fn chosen(host: &Host, traffic: &CoreTraffic, schemes: Vec<Scheme>) -> Result<Vec<CoreScheme>, Fault> {
    if schemes.is_empty() {
        return Ok(candidates(host, traffic).into_iter().filter(offered_anywhere).collect());
    }
    let valid = |scheme: Scheme| scheme.inner.validate(host).map(|()| scheme.inner).map_err(Fault::from);
    schemes.into_iter().map(valid).collect()
}

/// The best of some schemes for a goal under constraints, in JSON as `advise --json`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a door of Python, called by one function of the package")]
pub(crate) fn advise(
    py: Python<'_>,
    host: &PyHost,
    traffic: &Traffic,
    goal: &str,
    constraints: Vec<String>,
    schemes: Vec<Scheme>,
    seed: u64,
    packets_each: u64,
    packets_at_most: u64,
    command: String,
) -> PyResult<String> {
    let (host, traffic) = (host.inner.clone(), traffic.inner.clone());
    let goal: Goal = read(goal)?;
    let constraints: Vec<Constraint> = constraints.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    let candidates = chosen(&host, &traffic, schemes)?;
    let settings = Settings { packets_each, packets_at_most, ..Settings::default() };
    let question = Question { host, traffic, goal, constraints, candidates, settings };
    let sim = SimEngine { seed, confidence: settings.confidence, ..SimEngine::default() };
    let provenance = crate::engines::provenance(command, Some(seed), Default::default());
    work::run(py, Some(work::threads(None)), move |_| {
        let mut advice = lab_advise(&question, &ModelEngine::default(), &sim, &mut Silent)?;
        advice.provenance = provenance;
        Ok(serde_json::to_string(&advice)?)
    })
}
