//! Evaluates many points in one call: takes columns of numbers and returns columns of figures, each as the bytes of
//! 64-bit floats (the stable interface of Python 3.10 has no buffers).

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::outcome::{Dimension, MEASURES};
use netcliff_core::{Engine, EngineKind, Figure, FrameSizes, Load, Outcome, Point};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{number, unit};
use crate::engines::{Simulation, kind, model, point};
use crate::errors::Fault;
use crate::values::{Host, Scheme, Traffic};
use crate::work;

/// A quantity that varies over the points.
struct Column {
    name: String,
    values: Vec<f64>,
}

impl Column {
    fn of(name: String, bytes: &[u8]) -> Self {
        let values = bytes.chunks_exact(8).map(|part| {
            let mut eight = [0; 8];
            eight.copy_from_slice(part);
            f64::from_ne_bytes(eight)
        });
        Self { values: values.collect(), name }
    }

    /// Sets this quantity of the point to the value with index `at`.
    fn apply(&self, at: usize, point: &mut Point) -> Result<(), Fault> {
        let value = self.values[at];
        match self.name.as_str() {
            "rate_pps" => point.load = Load::Pps(value),
            "rate_bps" => point.load = Load::Bps(value),
            "line_share" => point.load = Load::LineShare(value),
            "size_bytes" if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) => {
                point.traffic.size = FrameSizes::Fixed(value as u32);
            }
            "size_bytes" => return Err(Fault::usage(format!("size_bytes = {value}: expected a whole number"))),
            name => {
                let (key, unit) = unit(name).unwrap_or((name, ""));
                point.host.set(&format!("{key}={}", number(value, unit)))?;
            }
        }
        Ok(())
    }
}

/// One figure over all points: its key, its values and, if it was sampled, the ends of its intervals. A missing value
/// or end is NaN.
pub(crate) struct Found {
    key: &'static str,
    values: Vec<f64>,
    ends: Option<(Vec<f64>, Vec<f64>)>,
}

impl Found {
    fn new(key: &'static str, count: usize) -> Self {
        Self { key, values: vec![f64::NAN; count], ends: None }
    }

    fn put(&mut self, at: usize, figure: Figure) {
        self.values[at] = figure.value;
        if let Some(interval) = figure.interval {
            let count = self.values.len();
            let (low, high) = self.ends.get_or_insert_with(|| (vec![f64::NAN; count], vec![f64::NAN; count]));
            (low[at], high[at]) = (interval.low, interval.high);
        }
    }
}

fn put(columns: &mut [Found], at: usize, outcome: &Outcome) {
    for (column, measure) in columns.iter_mut().zip(MEASURES) {
        if let Some(figure) = measure.of(outcome) {
            column.put(at, figure);
        }
    }
}

/// A note, and the index of the point to which it applies.
type Note = (usize, String);

/// Evaluates the points one after the other.
fn answer(
    engine: &dyn Engine,
    base: &Point,
    columns: &[Column],
    count: usize,
    stop: &AtomicBool,
) -> Result<(Vec<Found>, Vec<Note>), Fault> {
    let mut found: Vec<Found> = MEASURES.iter().map(|measure| Found::new(measure.key, count)).collect();
    let mut notes = Vec::new();
    let mut point = base.clone();
    for at in 0..count {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::Interrupted("stopped before all points were finished".to_owned()));
        }
        columns.iter().try_for_each(|column| column.apply(at, &mut point))?;
        let outcome = engine.evaluate(&point)?;
        put(&mut found, at, &outcome);
        notes.extend(outcome.notes.into_iter().map(|note| (at, note.to_string())));
    }
    found.retain(|column| count == 0 || column.values.iter().any(|value| !value.is_nan()));
    Ok((found, notes))
}

fn bytes<'py>(py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, 8 * values.len(), |out| {
        for (place, value) in out.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })
}

type Columns<'py> = Vec<(&'static str, Bound<'py, PyBytes>, Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>)>;

/// Evaluates a base point with its quantities varied by `columns`, by one engine. Returns figures as columns, and notes
/// with the indices of their points.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a door of Python, called by one function of the package")]
pub(crate) fn curve<'py>(
    py: Python<'py>,
    engine: &str,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    columns: Vec<(String, Vec<u8>)>,
    fidelity: &str,
    simulation: Simulation,
    threads: Option<usize>,
) -> PyResult<(Columns<'py>, Vec<(usize, String)>)> {
    let base = point(host, scheme, traffic)?;
    let columns: Vec<Column> = columns.into_iter().map(|(name, bytes)| Column::of(name, &bytes)).collect();
    let count = columns.iter().map(|column| column.values.len()).min().unwrap_or(1);
    let (engine, threads): (Box<dyn Engine + Send>, _) = match kind(engine)? {
        EngineKind::Model => (Box::new(model(fidelity)?.0), None),
        EngineKind::Sim => (Box::new(simulation.engine()?.0), Some(work::threads(threads))),
        EngineKind::Wire => {
            return Err(
                Fault::Unsupported("engine wire: measurements are the command line's: netcliff run".into()).into()
            );
        }
    };
    let (found, notes) = work::run(py, threads, move |stop| answer(&*engine, &base, &columns, count, stop))?;
    let column = |column: &Found| {
        let ends = column.ends.as_ref().map(|(low, high)| Ok::<_, PyErr>((bytes(py, low)?, bytes(py, high)?)));
        Ok((column.key, bytes(py, &column.values)?, ends.transpose()?))
    };
    Ok((found.iter().map(column).collect::<PyResult<_>>()?, notes))
}

/// Returns the unit of a dimension in the notation of pint (a Python package).
fn pint(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Pps | Dimension::PerSecond => "1/s",
        Dimension::Bps => "bit/s",
        Dimension::Seconds => "s",
        Dimension::Bytes => "byte",
        Dimension::Share | Dimension::Number => "1",
    }
}

/// Lists every figure that an outcome can have: key, name, unit.
#[pyfunction]
pub(crate) fn measures() -> Vec<(&'static str, &'static str, &'static str)> {
    MEASURES.iter().map(|measure| (measure.key, measure.name, pint(measure.dimension))).collect()
}
