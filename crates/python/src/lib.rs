//! netcliff for Python: the extension module `netcliff._core`, which the package in `python/netcliff/` uses. It only
//! converts arguments, results and errors.
//!
//! | module | contents |
//! | --- | --- |
//! | `errors` | errors as exceptions, with the command line's sentences |
//! | `work` | computations without the interpreter's lock; Ctrl-C |
//! | `arguments` | texts with units, numbers with the unit in the name |
//! | `values` | `Host`, `Scheme`, `Traffic` |
//! | `engines` | a point by the model or in simulation, the cliff |
//! | `curve` | many points as columns of numbers |
//! | `advice` | `advise` |
//! | `plan` | experiment files |
//! | `places` | executors of replications: a Python function, or this machine within a time limit |
//! | `store` | the record store |

mod arguments;
mod curve;
mod engines;
mod errors;
mod places;
mod plan;
mod store;
mod values;
mod work;

use netcliff_core::host::{TABLE, Unit};
use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PRESETS", netcliff_core::host::PRESETS)?;
    module.add("HOST_KEYS", netcliff_core::host::KEYS)?;
    module.add("HOST_TEXT_KEYS", netcliff_core::host::TEXT_KEYS)?;
    let counts = TABLE.iter().filter(|key| !matches!(key.unit, Unit::Time | Unit::Text)).map(|key| key.name);
    module.add("HOST_COUNT_KEYS", counts.collect::<Vec<_>>())?;
    errors::register(module)?;
    module.add_class::<values::Host>()?;
    module.add_class::<values::Scheme>()?;
    module.add_class::<values::Traffic>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<plan::Answers>()?;
    module.add_class::<store::StoreFile>()?;
    module.add_class::<store::Run>()?;
    module.add_function(wrap_pyfunction!(values::remake_traffic, module)?)?;
    module.add_function(wrap_pyfunction!(engines::predict, module)?)?;
    module.add_function(wrap_pyfunction!(engines::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(engines::analyse, module)?)?;
    module.add_function(wrap_pyfunction!(curve::curve, module)?)?;
    module.add_function(wrap_pyfunction!(curve::measures, module)?)?;
    module.add_function(wrap_pyfunction!(advice::advise, module)?)?;
    module.add_function(wrap_pyfunction!(plan::experiment_text, module)?)?;
    module.add_function(wrap_pyfunction!(plan::figures, module)?)?;
    Ok(())
}

mod advice {
    //! `advise`, with the options of the command line.

    use netcliff_core::{Constraint, Goal, Host, Scheme as CoreScheme, Traffic as CoreTraffic};
    use netcliff_lab::advise::{Observer, Question, Settings, advise as lab_advise, candidates, offered_anywhere};
    use netcliff_model::ModelEngine;
    use netcliff_sim::SimEngine;
    use pyo3::prelude::*;

    use crate::errors::Fault;
    use crate::values::{Host as PyHost, Scheme, Traffic, read};
    use crate::work;

    /// Observer that shows no progress.
    struct Silent;

    impl Observer for Silent {
        fn stage(&mut self, _: &str) {}
        fn packets(&mut self, _: u64, _: u64) {}
    }

    /// Returns the given schemes; if none are given, all that a Linux driver can set.
    fn chosen(host: &Host, traffic: &CoreTraffic, schemes: Vec<Scheme>) -> Result<Vec<CoreScheme>, Fault> {
        if schemes.is_empty() {
            return Ok(candidates(host, traffic).into_iter().filter(offered_anywhere).collect());
        }
        let valid = |scheme: Scheme| scheme.inner.validate(host).map(|()| scheme.inner).map_err(Fault::from);
        schemes.into_iter().map(valid).collect()
    }

    /// Returns the best of some schemes for a goal under constraints, in JSON as `advise --json` prints it.
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
        let (host, load, traffic) = (host.inner.clone(), traffic.load, traffic.inner.clone());
        let goal: Goal = read(goal)?;
        let constraints: Vec<Constraint> = constraints.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
        let candidates = chosen(&host, &traffic, schemes)?;
        let settings = Settings { packets_each, packets_at_most, ..Settings::default() };
        let question = Question { host, traffic, load, goal, constraints, candidates, settings };
        let sim = SimEngine { seed, confidence: settings.confidence, ..SimEngine::default() };
        let provenance = crate::engines::provenance(command, Some(seed), Default::default());
        work::run(py, Some(work::threads(None)), move |_| {
            let mut advice = lab_advise(&question, &ModelEngine::default(), &sim, &mut Silent)?;
            advice.provenance = provenance;
            Ok(serde_json::to_string(&advice)?)
        })
    }
}
