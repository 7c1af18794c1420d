//! `Host`, `Scheme` and `Traffic` as Python values: immutable and hashable; `eval(repr(value))` yields an equal value.

use std::hash::{DefaultHasher, Hash, Hasher};

use netcliff_core as core;
use netcliff_core::{Arrivals, Flows, FrameSizes, Load, units};
use netcliff_lab::costs;
use netcliff_lab::inputs;
use netcliff_lab::store;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{assignments, number, one_of, text, unit};
use crate::errors::Fault;

fn hash(text: &str) -> u64 {
    let mut state = DefaultHasher::new();
    text.hash(&mut state);
    state.finish()
}

/// Writes a text as a Python literal.
fn literal(py: Python<'_>, text: &str) -> PyResult<String> {
    Ok(pyo3::types::PyString::new(py, text).repr()?.to_string())
}

/// Costs (s) and sizes (packets) of a host: a preset, a TOML file or a stored `find` ("find:3", "last-find"), with
/// changes.
///
/// Changes are keys of `--set`, each with a text with its unit, a number with the unit in the key's name, or a count.
///
/// >>> Host("pentium4-2530mhz", application="2us", ring=64).get("ring")
/// 64.0
/// >>> Host(application="2us") == Host(application_s=2e-6)
/// True
#[pyclass(frozen, eq, module = "netcliff", name = "Host", from_py_object)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Host {
    pub(crate) inner: core::Host,
}

impl Host {
    pub(crate) fn changed(&self, changes: &[String]) -> Result<Self, Fault> {
        let mut inner = self.inner.clone();
        // The arguments of `Host` are not options of the command line, so that the message must not name `--set`.
        let plain = |error: core::ParseError| core::ParseError { what: error.what.replace("--set ", ""), ..error };
        changes.iter().try_for_each(|change| inner.set(change).map_err(plain))?;
        inputs::measured_times([&mut inner])?;
        inner.validate()?;
        Ok(Self { inner })
    }

    fn named(name: &str) -> Result<Self, Fault> {
        let place = || {
            let found = store::default_path(|name| std::env::var(name).ok());
            found.ok_or_else(|| "there is no record store: neither XDG_DATA_HOME nor HOME is set".to_owned())
        };
        let inner = costs::named(Some(name), place).map_err(Fault::usage)?.host;
        Ok(Self { inner })
    }
}

/// Converts keyword arguments to `KEY=VALUE`. A name that is not a key of a host is a `TypeError`, as is usual in
/// Python.
fn costs_of_host(given: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<String>> {
    for name in given.into_iter().flat_map(|given| given.keys()) {
        let name: String = name.extract()?;
        let key = unit(&name).map_or(name.as_str(), |(key, _)| key);
        if ![name.as_str(), key].iter().any(|name| core::host::KEYS.contains(name)) {
            let known = core::host::KEYS.join(", ");
            let why = format!("unexpected keyword argument '{name}'; expected one of {known}, or one of them with _s");
            return Err(PyTypeError::new_err(why));
        }
    }
    assignments(given)
}

#[pymethods]
impl Host {
    #[new]
    #[pyo3(signature = (name = "pentium4-2530mhz", **changes), text_signature = "(name='pentium4-2530mhz', **changes)")]
    fn new(name: &str, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self::named(name)?.changed(&costs_of_host(changes)?)?)
    }

    /// The same host with other costs or sizes.
    ///
    /// >>> Host().replace(ring=32).get("ring")
    /// 32.0
    #[pyo3(signature = (**changes))]
    fn replace(&self, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(self.changed(&costs_of_host(changes)?)?)
    }

    /// Value of a key (s, packets or a share). None if the key's value is a text, or if the host does not model it.
    fn get(&self, key: &str) -> PyResult<Option<f64>> {
        if !core::host::KEYS.contains(&key) {
            let known = core::host::KEYS.join(", ");
            return Err(Fault::usage(format!("key: cannot read \"{key}\": expected one of {known}")).into());
        }
        Ok(self.inner.get(key))
    }

    /// Name of the host: where its numbers come from.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The whole host as JSON, in the form of records.
    fn to_json(&self) -> PyResult<String> {
        Ok(serde_json::to_string(&self.inner).map_err(Fault::from)?)
    }

    /// Makes a host from the JSON of `to_json`.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let inner: core::Host = serde_json::from_str(text).map_err(Fault::from)?;
        Ok(Self { inner }.changed(&[])?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Some(preset) = core::Host::preset(&self.inner.name) else {
            return Ok(format!("netcliff.Host.from_json({})", literal(py, &self.to_json()?)?));
        };
        let mut parts = vec![literal(py, &self.inner.name)?];
        for change in self.inner.changes_from(&preset) {
            let (key, value) = change.split_once('=').unwrap_or((&change, ""));
            parts.push(format!("{key}={}", literal(py, value)?));
        }
        Ok(format!("netcliff.Host({})", parts.join(", ")))
    }

    fn __hash__(&self) -> PyResult<u64> {
        Ok(hash(&self.to_json()?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json()?,)))
    }
}

/// How packets reach the CPU: `NAME[:key=value,...]`, as `--scheme` takes it.
///
/// >>> Scheme("napi:weight=32").name
/// 'napi'
#[pyclass(frozen, eq, module = "netcliff", name = "Scheme", from_py_object)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scheme {
    pub(crate) inner: core::Scheme,
}

#[pymethods]
impl Scheme {
    #[new]
    #[pyo3(signature = (name, **parameters), text_signature = "(name, **parameters)")]
    fn new(name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let given = assignments(parameters)?;
        let text = match (given.is_empty(), name.contains(':')) {
            (true, _) => name.to_owned(),
            (false, true) => format!("{name},{}", given.join(",")),
            (false, false) => format!("{name}:{}", given.join(",")),
        };
        Ok(Self { inner: text.parse().map_err(Fault::from)? })
    }

    /// The name without parameters.
    #[getter]
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("netcliff.Scheme({})", literal(py, &self.inner.to_string())?))
    }

    fn __hash__(&self) -> u64 {
        hash(&self.inner.to_string())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().__str__(),))
    }
}

/// Arrivals, frame sizes and offered load over a link.
///
/// >>> Traffic("40%", size="imix").rate_pps > 100e3
/// True
/// >>> Traffic(rate_pps=120e3) == Traffic("120kpps")
/// True
#[pyclass(frozen, eq, module = "netcliff", name = "Traffic", from_py_object)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) inner: core::Traffic,
    pub(crate) load: Load,
}

/// Parses a text in the command line's notation.
pub(crate) fn read<T: std::str::FromStr<Err = core::ParseError>>(text: &str) -> Result<T, Fault> {
    Ok(text.trim().parse::<T>()?)
}

#[pymethods]
impl Traffic {
    #[new]
    #[pyo3(signature = (rate = None, *, arrivals = "poisson", size = None, link = None, flows = None, rate_pps = None,
                        rate_bps = None, size_bytes = None, link_bps = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn new(
        rate: Option<Bound<'_, PyAny>>,
        arrivals: &str,
        size: Option<Bound<'_, PyAny>>,
        link: Option<Bound<'_, PyAny>>,
        flows: Option<&str>,
        rate_pps: Option<f64>,
        rate_bps: Option<f64>,
        size_bytes: Option<u32>,
        link_bps: Option<f64>,
    ) -> PyResult<Self> {
        let given = |figure: Option<f64>, unit: &str| figure.map(|figure| number(figure, unit));
        let (rate, size, link) =
            (text("rate", "rate_pps", rate)?, text("size", "size_bytes", size)?, text("link", "link_bps", link)?);
        let rate =
            one_of(vec![("rate", rate), ("rate_pps", given(rate_pps, "pps")), ("rate_bps", given(rate_bps, "bit/s"))])?;
        let size = one_of(vec![("size", size), ("size_bytes", size_bytes.map(|bytes| format!("{bytes}B")))])?;
        let link = one_of(vec![("link", link), ("link_bps", given(link_bps, "bit/s"))])?;
        let rate = rate.map(|text| read::<Load>(&text)).transpose()?;
        let arrivals: Arrivals = read(arrivals)?;
        let traced = matches!(arrivals, Arrivals::Trace { .. });
        let usual = if traced { FrameSizes::Trace(None) } else { FrameSizes::Fixed(64) };
        let size = size.map(|text| read::<FrameSizes>(&text)).transpose()?.unwrap_or(usual);
        let named = link.is_some();
        let link_bps = units::parse_bps(link.as_deref().unwrap_or("1Gbit/s")).map_err(Fault::from)?;
        if rate.is_none() && !traced {
            return Err(Fault::usage("no offered load: give rate=\"100kpps\" or rate_pps=100e3").into());
        }
        let traffic = inputs::traffic(&arrivals, &size, link_bps).map_err(Fault::from)?;
        let load = inputs::load(&traffic, rate).map_err(Fault::from)?;
        let flows = flows.map(read::<Flows>).transpose()?;
        let flows = flows.as_ref().map(inputs::flows).transpose().map_err(Fault::from)?;
        let inner = core::Traffic { flows, ..traffic };
        inner.validate().map_err(Fault::from)?;
        inner.admits(load, named).map_err(Fault::from)?;
        Ok(Self { inner, load })
    }

    /// Offered packets a second.
    #[getter]
    fn rate_pps(&self) -> Option<f64> {
        self.inner.rate_pps(self.load)
    }

    /// Line rate of these frames (pps).
    #[getter]
    fn line_rate_pps(&self) -> Option<f64> {
        self.inner.line_rate_pps()
    }

    /// Mean frame size, FCS included (bytes).
    #[getter]
    fn frame_bytes(&self) -> Option<f64> {
        self.inner.size.mean_bytes()
    }

    /// The same traffic at another load (pps).
    fn at_pps(&self, rate_pps: f64) -> PyResult<Self> {
        let load = Load::Pps(rate_pps);
        self.inner.validate_load(load).map_err(Fault::from)?;
        Ok(Self { inner: self.inner.clone(), load })
    }

    /// The keyword arguments that make this traffic.
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let core::Traffic { arrivals, size, link_bps, flows } = &self.inner;
        let arguments = PyDict::new(py);
        // A capture's own load is part of its speed, so that no load is given in addition.
        if !matches!(arrivals, Arrivals::Trace { speed: Some(_), .. }) {
            arguments.set_item("rate", self.load.to_string())?;
        }
        arguments.set_item("arrivals", arrivals.to_string())?;
        // Sizes that were read from a table are written as their values.
        arguments.set_item("size", size.to_string())?;
        arguments.set_item("link", units::print_bps(*link_bps))?;
        if let Some(flows) = flows {
            arguments.set_item("flows", flows.to_string())?;
        }
        Ok(arguments)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let arguments = self.arguments(py)?;
        let part = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<String> {
            Ok(format!("{}={}", key.extract::<String>()?, value.repr()?))
        };
        let parts: Vec<String> = arguments.iter().map(part).collect::<PyResult<_>>()?;
        Ok(format!("netcliff.Traffic({})", parts.join(", ")))
    }

    fn __hash__(&self) -> PyResult<u64> {
        let written = core::written::Traffic::new(self.inner.clone(), Some(self.load));
        Ok(hash(&serde_json::to_string(&written).map_err(Fault::from)?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let remake = slf.py().import("netcliff._core")?.getattr("remake_traffic")?;
        Ok((remake, (slf.get().arguments(slf.py())?,)))
    }
}

/// Makes a traffic from its keyword arguments; used for unpickling.
#[pyfunction]
pub(crate) fn remake_traffic(py: Python<'_>, arguments: &Bound<'_, PyDict>) -> PyResult<Traffic> {
    py.get_type::<Traffic>().call((), Some(arguments))?.extract().map_err(PyErr::from)
}
