//! netcliff for Python: the module `netcliff._core`, on which the package in `python/netcliff/` stands. No logic here.
//!
//! | module | holds |
//! | --- | --- |
//! | `errors` | errors as exceptions, with the command line's sentences |
//! | `work` | computations without the interpreter's lock; Ctrl-C |
//! | `arguments` | texts with units, numbers with the unit in the name |
//! | `values` | `Host`, `Scheme`, `Traffic` |
//! | `engines` | a point by the model or in simulation, the cliff |
//! | `curve` | many points as columns of numbers |
//! | `advice` | `advise` |
//! | `plan` | experiment files |
//! | `store` | the record store |

mod advice;
mod arguments;
mod curve;
mod engines;
mod errors;
mod places;
mod plan;
mod store;
mod values;
mod work;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PRESETS", netcliff_core::host::PRESETS)?;
    module.add("HOST_KEYS", netcliff_core::host::KEYS)?;
    module.add("HOST_TEXT_KEYS", netcliff_core::host::TEXT_KEYS)?;
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
