//! Arguments as Python gives them: texts with units, or numbers whose unit is in the argument's name.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::errors::{Fault, UsageError};

/// Endings of names that carry a unit, with the unit as texts have it.
const UNITS: &[(&str, &str)] = &[("_pps", "pps"), ("_bps", "bit/s"), ("_bytes", "B"), ("_s", "s")];

/// `application_s` as the key `application` and the unit `s`.
pub(crate) fn unit(name: &str) -> Option<(&str, &'static str)> {
    UNITS.iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))
}

/// A number as a text that reads back to the same number.
pub(crate) fn number(value: f64, unit: &str) -> String {
    format!("{value}{unit}")
}

/// `KEY=VALUE` of a keyword argument: a text as it is, a number with the unit of its name, a count, None as `none`.
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
        (_, Ok(ratio)) if name == "socket_drop_cost" => Ok(format!("{name}={ratio}")),
        (_, Ok(figure)) => Err(refused(&format!(
            "has no unit: give a text such as {name}=\"20us\", or the number in seconds as {name}_s={figure}"
        ))),
        _ => Err(refused("expected a text with its unit such as \"20us\", or a number")),
    }
}

/// A text with its unit; `plain` is the argument that takes the number.
pub(crate) fn text(name: &str, plain: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    value.extract::<String>().map(Some).map_err(|_| {
        let shown = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
        UsageError::new_err(format!(
            "{name} = {shown}: expected a text with its unit, or the number as {plain}={shown}"
        ))
    })
}

/// The keyword arguments in their order.
pub(crate) fn assignments(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    given.iter().map(|(name, value)| assignment(&name.extract::<String>()?, &value)).collect()
}

/// A quantity that may be given in one of several forms under different names: exactly one, as a text.
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
