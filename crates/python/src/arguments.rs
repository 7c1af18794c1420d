//! Converts arguments given in Python: texts with units, or numbers whose unit is in the argument's name.

use netcliff_core::host::{TABLE, Unit};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::errors::{Fault, UsageError};

/// Suffixes of argument names that state a unit, each with the unit as it is written in texts.
const UNITS: &[(&str, &str)] = &[("_pps", "pps"), ("_bps", "bit/s"), ("_bytes", "B"), ("_s", "s")];

/// Splits `application_s` into the key `application` and the unit `s`; `None` if the name has no unit.
pub(crate) fn unit(name: &str) -> Option<(&str, &'static str)> {
    UNITS.iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))
}

/// Writes a number with its unit as a text that is parsed to exactly the same number.
pub(crate) fn number(value: f64, unit: &str) -> String {
    format!("{value}{unit}")
}

/// Converts a keyword argument to `KEY=VALUE`: a text as it is, a number with the unit of its name, a count, and
/// Python's None as `none`.
pub(crate) fn assignment(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok(format!("{name}=none"));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(format!("{name}={text}"));
    }
    let refused = |why: &str| {
        let shown = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
        UsageError::new_err(format!("{name} = {shown}: {why}"))
    };
    if value.is_instance_of::<PyBool>() {
        return Err(refused("expected a text with its unit such as \"20us\", or a number"));
    }
    if let Some((key, unit)) = unit(name) {
        let figure: f64 = value.extract().map_err(|_| refused("expected a number"))?;
        return Ok(format!("{key}={}", number(figure, unit)));
    }
    match (value.extract::<u64>(), value.extract::<f64>()) {
        (Ok(count), _) => Ok(format!("{name}={count}")),
        (_, Ok(ratio)) if TABLE.iter().any(|key| key.name == name && key.unit == Unit::Ratio) => {
            Ok(format!("{name}={ratio}"))
        }
        (_, Ok(figure)) => Err(refused(&format!(
            "has no unit: give a text such as {name}=\"20us\", or the number in seconds as {name}_s={figure}"
        ))),
        _ => Err(refused("expected a text with its unit such as \"20us\", or a number")),
    }
}

/// Extracts a text with its unit; `plain` is the name of the argument for a plain number, for the error message.
pub(crate) fn text(name: &str, plain: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    value.extract::<String>().map(Some).map_err(|_| {
        let shown = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
        UsageError::new_err(format!(
            "{name} = {shown}: expected a text with its unit, or the number as {plain}={shown}"
        ))
    })
}

/// Converts all keyword arguments to `KEY=VALUE`, in their order.
pub(crate) fn assignments(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    given.iter().map(|(name, value)| assignment(&name.extract::<String>()?, &value)).collect()
}

/// Returns the value of a quantity that has several argument names, one per form. Error: more than one is given. `None`
/// if none is given.
pub(crate) fn one_of(forms: Vec<(&str, Option<String>)>) -> Result<Option<String>, Fault> {
    let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
    let mut given = forms.iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let (first, second) = (given.next(), given.next());
    match (first, second) {
        (Some((one, _)), Some((other, _))) => {
            Err(Fault::usage(format!("{one} and {other} are both given; give one of {}", names.join(", "))))
        }
        (first, _) => Ok(first.map(|(_, value)| value)),
    }
}
