//! Experiments over points: the tasks that `netcliff run FILE` computes, one by one.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netcliff_core::experiment::{Experiment, Share, Task};
use netcliff_core::host::{KEYS, TEXT_KEYS};
use netcliff_core::outcome::MEASURES;
use netcliff_core::{EngineKind, Load, Record};
use netcliff_lab::inputs;
use netcliff_lab::run::{self, Answer, Changes};
use netcliff_sim::ReplicationRequest;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engines::provenance;
use crate::errors::Fault;
use crate::places::{Asked, Until, damaged};
use crate::values::read;
use crate::work;

/// Index of a task, its state, and a text: `done` with the record, `declined` or `failed` with the reason, or `long`
/// with an empty text (`answer_within`).
type TaskAnswer = (usize, &'static str, String);

fn task_answer(index: usize, answer: Answer) -> TaskAnswer {
    match answer {
        Answer::Had(record) => match serde_json::to_string(&record) {
            Ok(text) => (index, "done", text),
            Err(error) => (index, "failed", error.to_string()),
        },
        Answer::Declined(why) => (index, "declined", why),
        Answer::Failed(why) => (index, "failed", why),
    }
}

/// An experiment file with changes, expanded to tasks.
#[pyclass(frozen, module = "netcliff._core")]
pub(crate) struct Plan {
    pub(crate) inner: Arc<run::Plan>,
    pub(crate) path: String,
    text: String,
    changes: Changed,
    measured: bool,
}

/// Changes to the experiment's settings, as texts.
#[derive(Debug, Clone, Default, FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Changed {
    engines: Vec<String>,
    seed: Option<u64>,
    precision: Option<String>,
    packets: Option<u64>,
}

impl Changed {
    fn read(&self) -> Result<Changes, Fault> {
        Ok(Changes {
            engines: self.engines.iter().map(|name| read::<EngineKind>(name)).collect::<Result<_, _>>()?,
            seed: self.seed,
            precision: self.precision.as_deref().map(read::<Share>).transpose()?,
            packets: self.packets,
        })
    }
}

/// Returns the text of an experiment: of a file, or of an experiment that is included in netcliff.
#[pyfunction]
pub(crate) fn experiment_text(name: &str) -> PyResult<String> {
    Ok(inputs::experiment(name).map_err(Fault::from)?)
}

fn load(load: Load) -> (f64, &'static str) {
    match load {
        Load::Pps(pps) => (pps, "1/s"),
        Load::Bps(bps) => (bps, "bit/s"),
        Load::LineShare(share) => (share, "1"),
    }
}

impl Plan {
    fn known(&self, index: usize) -> PyResult<()> {
        let known = index < self.inner.tasks.len();
        if known { Ok(()) } else { Err(Fault::usage(format!("there is no task {index}")).into()) }
    }
}

#[pymethods]
impl Plan {
    /// Expands an experiment. With `measured`, tasks of the engine `wire` are accepted too; they are declined here,
    /// because hosts measure them.
    #[new]
    #[pyo3(signature = (path, text, changes, measured = false))]
    fn new(path: String, text: String, changes: Changed, measured: bool) -> PyResult<Self> {
        let experiment = Experiment::from_toml(&path, &text).map_err(Fault::from)?;
        let Experiment::Grid(grid) = experiment else {
            let why = format!("{path}: is no experiment of points; use the command line for it: netcliff run");
            return Err(Fault::Unsupported(why).into());
        };
        if !grid.devices.is_empty() {
            let why = format!("{path}: [[device]] boots guests; use the command line for it: netcliff run");
            return Err(Fault::Unsupported(why).into());
        }
        let plan = run::Plan::new(&path, &text, &grid, &changes.read()?).map_err(Fault::from)?;
        if !measured && plan.tasks.iter().any(|task| task.answerer.engine == EngineKind::Wire) {
            let why = format!(
                "{path}: engine wire measures with real packets; use the command line for it: netcliff run, or give hosts=[...] \
                 to netcliff.sweep, or ask for the engines model and sim only"
            );
            return Err(Fault::Unsupported(why).into());
        }
        Ok(Self { inner: Arc::new(plan), path, text, changes, measured })
    }

    fn __len__(&self) -> usize {
        self.inner.tasks.len()
    }

    /// Identifier of text, changes and version, as in `netcliff run`.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    #[getter]
    fn title(&self) -> &str {
        &self.inner.grid.title
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// The text of the file.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The changes to the file's settings: engines, seed, precision, packets.
    #[getter]
    fn changes(&self) -> Changed {
        self.changes.clone()
    }

    /// Returns the coordinates of a task's point: curve, engine, scheme, traffic, load and costs.
    fn task<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        let task = self.inner.tasks.get(index).ok_or_else(|| Fault::usage(format!("there is no task {index}")))?;
        let (point, about) = (&task.point, PyDict::new(py));
        let (rate, rate_unit) = load(point.load);
        about.set_item("curve", &task.curve)?;
        about.set_item("engine", task.answerer.to_string())?;
        about.set_item("scheme", point.scheme.to_string())?;
        about.set_item("arrivals", point.traffic.arrivals.to_string())?;
        about.set_item("size", point.traffic.size.to_string())?;
        about.set_item("flows", point.traffic.flows.as_ref().map_or_else(String::new, ToString::to_string))?;
        about.set_item("rate", rate)?;
        about.set_item("rate_unit", rate_unit)?;
        let costs = PyDict::new(py);
        for key in KEYS {
            match TEXT_KEYS.contains(key) {
                true => costs.set_item(*key, point.host.text(key).unwrap_or_default())?,
                false => costs.set_item(*key, point.host.get(key))?,
            }
        }
        about.set_item("host", costs)?;
        Ok(about)
    }

    /// Computes one task on one thread.
    fn answer(&self, py: Python<'_>, index: usize, command: String) -> PyResult<TaskAnswer> {
        let plan = Arc::clone(&self.inner);
        self.known(index)?;
        let provenance = provenance(command, None, Default::default());
        work::run(py, Some(1), move |_| Ok(task_answer(index, plan.answer(&plan.tasks[index], &provenance))))
    }

    /// Computes one task, with its replications computed by `fetch`. This function gets the parts of a request, as
    /// bytes for `replicate`, and returns their answers in the same order, or raises. The number of replications is
    /// decided here, so that the result has the same bits as the result of `answer`.
    fn answer_elsewhere(
        &self,
        py: Python<'_>,
        index: usize,
        threads: u64,
        fetch: Py<PyAny>,
        command: String,
    ) -> PyResult<TaskAnswer> {
        let plan = Arc::clone(&self.inner);
        self.known(index)?;
        let provenance = provenance(command, None, Default::default());
        let place = Asked { fetch, threads, raised: Mutex::new(None) };
        work::run(py, None, move |_| {
            let answer = plan.answer_at(&plan.tasks[index], &provenance, &place);
            match (answer, place.raised.into_inner().unwrap_or_else(PoisonError::into_inner)) {
                (_, Some(why)) => Err(Fault::Failed(why)),
                (Some(answer), None) => Ok(task_answer(index, answer)),
                (None, None) => Err(Fault::Failed("what came back does not fill the order".to_owned())),
            }
        })
    }

    /// Computes the answer to a part of a request of this task, on one thread.
    fn replicate<'py>(&self, py: Python<'py>, index: usize, order: Vec<u8>) -> PyResult<Bound<'py, PyBytes>> {
        let plan = Arc::clone(&self.inner);
        self.known(index)?;
        let filled = work::run(py, Some(1), move |_| {
            let order: ReplicationRequest = postcard::from_bytes(&order).map_err(damaged)?;
            postcard::to_allocvec(&order.fill(&plan.tasks[index].point, plan.sim.seed)).map_err(damaged)
        })?;
        Ok(PyBytes::new(py, &filled))
    }

    /// Computes tasks on one thread, each within a time limit (s). A task that takes longer has the state `long` and no
    /// answer.
    fn answer_within(
        &self,
        py: Python<'_>,
        tasks: Vec<usize>,
        limit_s: f64,
        command: String,
    ) -> PyResult<Vec<TaskAnswer>> {
        tasks.iter().try_for_each(|index| self.known(*index))?;
        let limit = Duration::try_from_secs_f64(limit_s).map_err(|error| Fault::usage(format!("limit_s: {error}")))?;
        let provenance = provenance(command, None, Default::default());
        let plan = Arc::clone(&self.inner);
        work::run(py, None, move |stop| {
            let answer =
                move |plan: &run::Plan, task: &Task| plan.answer_at(task, &provenance, &Until::from_now(limit));
            let mut answers = Vec::new();
            run::compute_by(&plan, tasks, 1, stop, answer, |index, answered: Option<Option<Answer>>| {
                answers.push(match answered {
                    Some(Some(answer)) => task_answer(index, answer),
                    Some(None) => (index, "long", String::new()),
                    None => (index, "failed", run::DIED.to_owned()),
                });
            });
            Ok(answers)
        })
    }

    /// Computes tasks on several threads; the caller iterates the stream of answers on its own thread.
    #[pyo3(signature = (pending, threads, command))]
    fn compute(&self, pending: Vec<usize>, threads: Option<usize>, command: String) -> PyResult<Answers> {
        let provenance = provenance(command, None, Default::default());
        let (sender, answers) = channel();
        let (plan, stop) = (Arc::clone(&self.inner), work::Stop::default());
        pending.iter().try_for_each(|index| self.known(*index))?;
        let (theirs, threads) = (Arc::clone(&stop), work::threads(threads));
        std::thread::spawn(move || {
            run::compute(&plan, pending, threads, &provenance, &theirs, |index, answer| {
                // Sending fails only if the reader has gone, which has set `stop`.
                let _ = sender.send(task_answer(index, answer));
            });
        });
        Ok(Answers { answers: std::sync::Mutex::new(answers), stop })
    }

    /// Estimates how long a task takes (s), only for grouping tasks: from the packets with which a simulation starts,
    /// and a typical speed.
    fn expected_s(&self, index: usize) -> PyResult<f64> {
        /// Seconds per simulated packet, of one replication on one core. The order of magnitude suffices, because it
        /// only decides how points are grouped.
        const PACKET_S: f64 = 60e-9;
        /// Seconds per point by the model: closed forms take microseconds, chains up to tenths of a second.
        const MODEL_S: f64 = 5e-3;
        let task = self.inner.tasks.get(index).ok_or_else(|| Fault::usage(format!("there is no task {index}")))?;
        if task.answerer.engine != EngineKind::Sim {
            return Ok(MODEL_S);
        }
        Ok(match self.inner.sim.effort {
            netcliff_sim::Effort::Packets(packets) | netcliff_sim::Effort::Exactly(packets) => {
                packets as f64 * PACKET_S
            }
            // A precision of 5 % takes about 200 thousand packets; 2.5 % takes four times that number.
            netcliff_sim::Effort::Precision { relative, packets_at_most, .. } => {
                (200e3 * (0.05 / relative).powi(2)).min(packets_at_most as f64) * PACKET_S
            }
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String, String, Changed, bool)) {
        let Self { path, text, changes, measured, .. } = slf.get();
        (slf.get_type().into_any(), (path.clone(), text.clone(), changes.clone(), *measured))
    }
}

/// Stream of answers as they are computed.
#[pyclass(frozen, module = "netcliff._core")]
pub(crate) struct Answers {
    answers: std::sync::Mutex<Receiver<TaskAnswer>>,
    stop: work::Stop,
}

#[pymethods]
impl Answers {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<TaskAnswer>> {
        // If two threads read one stream, they would wait for each other while holding the interpreter's lock.
        let Ok(mut answers) = self.answers.try_lock() else {
            return Err(Fault::usage("this stream of answers is read by another thread").into());
        };
        work::next(py, &mut answers, &self.stop)
    }

    /// Stops the computation; tasks that have not begun are not computed.
    fn close(&self) {
        stop(&self.stop);
    }
}

fn stop(flag: &AtomicBool) {
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
}

impl Drop for Answers {
    fn drop(&mut self) {
        stop(&self.stop);
    }
}

/// Returns the figures of a record's outcome by key: (key, value, low, high). The ends are NaN if the value was
/// computed and not sampled.
#[pyfunction]
pub(crate) fn figures(record: &str) -> PyResult<Vec<(&'static str, f64, f64, f64)>> {
    let record: Record = serde_json::from_str(record).map_err(Fault::from)?;
    let figure = |measure: &netcliff_core::Measure| {
        let figure = measure.of(&record.outcome)?;
        let (low, high) = figure.interval.map_or((f64::NAN, f64::NAN), |ends| (ends.low, ends.high));
        Some((measure.key, figure.value, low, high))
    };
    Ok(MEASURES.iter().filter_map(figure).collect())
}
