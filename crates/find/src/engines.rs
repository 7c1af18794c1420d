//! Predicts the cliff, and the outcome at a load, by model and simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use netcliff_core::note::Note;
use netcliff_core::scheme::Gap;
use netcliff_core::{Engine, EngineFailure, Figure, Host, Load, Outcome, Point, Scheme, Service, Traffic};
use netcliff_model::{CliffSearch, Fidelity, ModelEngine};
use netcliff_remote::load::OrderQueue;
use netcliff_sim::{Effort, SimEngine, Start, cliff_sim_unless};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Interval at which a waiting caller checks for a stop.
const ASKED: Duration = Duration::from_millis(20);
/// Relative width of the search for the model's cliff.
const WIDTH: f64 = 1e-4;

/// Model and simulator with the host, scheme and traffic that they predict for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Predictor {
    /// Costs and sizes.
    pub host: Host,
    /// Distribution of the host's packet, poll and interrupt times, as measured.
    pub times: Service,
    /// Scheme.
    pub scheme: Scheme,
    /// Traffic, at any load.
    #[serde(with = "netcliff_core::written::without_load")]
    pub traffic: Traffic,
    /// Loss fraction that defines the cliff.
    pub loss: f64,
    /// Seed of the simulator.
    pub seed: u64,
    /// Arrivals simulated per load.
    pub packets: u64,
    /// Expected cliff (pps), which saves evaluations of the engines that take up to a second each; `None`: unknown.
    pub near_pps: Option<f64>,
    /// Interrupt latencies by rising load, from trials (`delivery`).
    #[serde(default)]
    pub timing: Timing,
    /// Process that computes.
    #[serde(skip)]
    pub elsewhere: Elsewhere,
}

impl Predictor {
    /// The point at a load, for the model: with the measured distribution of times if the model supports that,
    /// otherwise with exponential times.
    pub fn point(&self, load_pps: f64) -> Point {
        let measured = self.sim_point(load_pps);
        Point { host: self.model_host(&measured.scheme), ..measured }
    }

    /// Host of [`Self::point`].
    fn model_host(&self, scheme: &Scheme) -> Host {
        let measured = self.sim_host();
        match ModelEngine::new(Fidelity::Exact).supports_shape(&measured, scheme, &self.traffic) {
            Ok(()) => measured,
            Err(_) => Host { service: Service::Exponential, ..measured },
        }
    }

    /// The host with the measured distribution of times.
    fn sim_host(&self) -> Host {
        Host { service: self.times.clone(), ..self.host.clone() }
    }

    /// The point at a load, for the simulator, which supports all distributions.
    pub fn sim_point(&self, load_pps: f64) -> Point {
        let scheme = with_gap_late(&self.scheme, at(&self.timing.gap_lates, load_pps));
        Point { host: self.sim_host(), scheme, traffic: self.traffic.clone(), load: Load::Pps(load_pps) }
    }

    /// Mean size of the frames (bytes); 64, the smallest, if a file of sizes was not read.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.traffic.size.mean_bytes().unwrap_or(64.0)
    }

    fn sim(&self) -> SimEngine {
        SimEngine { confidence: netcliff_stats::CONFIDENCE, ..SimEngine::with_packets(self.seed, self.packets) }
    }

    /// Starts a computation in a separate thread: an engine may need seconds, for which a stop does not wait. `compute`
    /// gets a flag that is set when its result is no longer wanted.
    pub fn begin<T: Send + 'static>(&self, compute: impl FnOnce(&Self, &AtomicBool) -> T + Send + 'static) -> Begun<T> {
        let (asked, unwanted) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let (sender, answer) = channel();
        let flag = Arc::clone(&unwanted);
        let thread = std::thread::spawn(move || {
            // After a stop nobody waits for the result, and sending it fails.
            let _ = sender.send(compute(&asked, &flag));
        });
        Begun { answer, unwanted, thread }
    }

    /// Result of `compute`; `None` once `stop` is set.
    pub fn unless_stopped<T: Send + 'static>(
        &self,
        stop: &AtomicBool,
        compute: impl FnOnce(&Self, &AtomicBool) -> T + Send + 'static,
    ) -> Option<T> {
        self.begin(compute).unless(stop)
    }

    /// The predicted cliff (pps).
    ///
    /// # Errors
    /// The model does not support the point.
    pub fn model_cliff(&self) -> Result<Figure, EngineFailure> {
        if let Some(answer) = self.elsewhere.ask(|| Job::ModelCliff(self.boxed())) {
            return answer;
        }
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let search = CliffSearch { near_pps: self.near_pps, width: WIDTH };
        let scheme = with_gap_late(&self.scheme, self.timing.gap_lates.first().map(|(_, late_s)| *late_s));
        let cliff = search.cliff(&engine, &self.model_host(&scheme), &scheme, &self.traffic, self.loss)?;
        Ok(Figure::exact(cliff.pps))
    }

    fn boxed(&self) -> Box<Self> {
        Box::new(self.clone())
    }

    /// Predicted loss of several points, computed together.
    ///
    /// # Errors
    /// The model does not support one of the points.
    pub fn losses(&self, points: &[Point]) -> Result<Vec<f64>, EngineFailure> {
        let answer = self.elsewhere.ask(|| Job::Losses(points.to_vec()));
        answer.unwrap_or_else(|| Self::losses_here(points))
    }

    pub(super) fn losses_here(points: &[Point]) -> Result<Vec<f64>, EngineFailure> {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let loss = |point: &Point| Ok(engine.evaluate(point)?.loss_fraction.map_or(0.0, |figure| figure.value));
        points.par_iter().map(loss).collect()
    }

    /// The simulated cliff (pps); `None` if `stop` was set.
    ///
    /// # Errors
    /// The simulator does not support the point.
    pub fn sim_cliff(&self, stop: &AtomicBool) -> Result<Option<Figure>, EngineFailure> {
        if let Some(answer) = self.elsewhere.ask(|| Job::SimCliff(self.boxed())) {
            return answer;
        }
        let stopped = || stop.load(Ordering::Relaxed);
        let engine = SimEngine { effort: Effort::Exactly(self.packets), ..self.sim() };
        let point_at = |load_pps| self.at_its_latency(load_pps).sim_point(load_pps);
        let start = self.near_pps.map_or_else(|| Start::guess(&self.host, &self.traffic), Start::Near);
        let found = cliff_sim_unless(&engine, &point_at, self.loss, start, &stopped)?;
        Ok(found.map(|cliff| cliff.load_pps))
    }

    /// Outcome at a load by the model.
    ///
    /// # Errors
    /// The model does not support the point.
    pub fn model_at(&self, load_pps: f64) -> Result<Outcome, EngineFailure> {
        let answer = self.elsewhere.ask(|| Job::ModelAt(self.boxed(), load_pps));
        answer.unwrap_or_else(|| {
            self.with_its_latency(load_pps, |own| ModelEngine::new(Fidelity::Exact).evaluate(&own.point(load_pps)))
        })
    }

    /// Outcome at a load by simulation.
    ///
    /// # Errors
    /// The simulator does not support the point.
    pub fn sim_at(&self, load_pps: f64) -> Result<Outcome, EngineFailure> {
        let answer = self.elsewhere.ask(|| Job::SimAt(self.boxed(), load_pps));
        answer.unwrap_or_else(|| self.with_its_latency(load_pps, |own| own.sim().evaluate(&own.sim_point(load_pps))))
    }

    /// The predictor with the interrupt latency of this load.
    fn at_its_latency(&self, load_pps: f64) -> Self {
        let mut own = self.clone();
        let told_s = at(&self.timing.latencies, load_pps);
        own.host.interrupt_latency_s = told_s.unwrap_or(self.host.interrupt_latency_s);
        own
    }

    /// Evaluates `answer` with the interrupt latency of this load and adds a note on it; without estimated latencies,
    /// with the host's own.
    fn with_its_latency(
        &self,
        load_pps: f64,
        answer: impl FnOnce(&Self) -> Result<Outcome, EngineFailure>,
    ) -> Result<Outcome, EngineFailure> {
        let Some(latency_s) = at(&self.timing.latencies, load_pps) else { return answer(self) };
        let mut outcome = answer(&self.at_its_latency(load_pps))?;
        outcome.notes.push(Note::AtLatency(latency_s, at(&self.timing.gap_lates, load_pps)));
        Ok(outcome)
    }
}

#[cfg(test)]
impl Predictor {
    /// Returns a predictor of Poisson arrivals at `host`; `scheme` is the scheme's text form.
    pub fn of(host: Host, scheme: &str) -> Self {
        let scheme = Scheme::of_record(scheme).expect("a scheme");
        let traffic = Traffic::default();
        let times = Service::Exponential;
        Self {
            host,
            times,
            scheme,
            traffic,
            loss: 1e-4,
            seed: 1,
            packets: 100_000,
            near_pps: None,
            timing: Timing::default(),
            elsewhere: Elsewhere::default(),
        }
    }
}

/// (load of the trial (pps), estimated time (s)).
pub type ByLoad = Vec<(f64, f64)>;

/// Interrupt timing, estimated from trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Interrupt latencies by load; empty: the host's latency applies at every load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: ByLoad,
    /// Lateness of the NIC's end of a gap between interrupts; empty: unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gap_lates: ByLoad,
}

impl Timing {
    /// Adds the estimates of further trials.
    pub fn extend(&mut self, further: Self) {
        self.latencies.extend(further.latencies);
        self.gap_lates.extend(further.gap_lates);
    }
}

/// Returns the time (s) at a load, interpolated on `curve`; outside the curve, the time at its nearer end. `None` if
/// `curve` is empty.
pub fn at(curve: &[(f64, f64)], load_pps: f64) -> Option<f64> {
    let above = curve.iter().position(|(own_pps, _)| *own_pps >= load_pps);
    Some(match above {
        None => curve.last()?.1,
        Some(0) => curve[0].1,
        Some(place) => {
            let ((low_pps, low_s), (high_pps, high_s)) = (curve[place - 1], curve[place]);
            low_s + (high_s - low_s) * (load_pps - low_pps) / (high_pps - low_pps)
        }
    })
}

/// Returns `scheme` with `late_s`, the time by which its NIC ends a gap between interrupts late (s); unchanged unless
/// the scheme has [`Gap::Echo`].
pub fn with_gap_late(scheme: &Scheme, late_s: Option<f64>) -> Scheme {
    let mut scheme = scheme.clone();
    if let (Scheme::Napi(napi), Some(_)) = (&mut scheme, late_s)
        && napi.moderation.quirk.gap == Gap::Echo
    {
        napi.moderation.quirk.gap_late_s = late_s;
    }
    scheme
}

/// Where the engines compute: in this process, or at the client behind a queue (`super::elsewhere`).
#[derive(Debug, Clone, Default)]
pub struct Elsewhere(Option<Arc<OrderQueue>>);

impl Elsewhere {
    /// Computes at the client behind this queue.
    pub fn client_of(desk: Arc<OrderQueue>) -> Self {
        Self(Some(desk))
    }

    /// Sends a computation to the process that computes for this one, and returns its result; `None` if this process
    /// computes itself.
    pub(super) fn ask<T: DeserializeOwned, J: Serialize>(
        &self,
        job: impl FnOnce() -> J,
    ) -> Option<Result<T, EngineFailure>> {
        let desk = self.0.as_ref()?;
        Some(asked(desk, &job()))
    }
}

fn asked<T: DeserializeOwned>(desk: &OrderQueue, job: &impl Serialize) -> Result<T, EngineFailure> {
    let failed = |why: String| EngineFailure::Failed(why.into());
    let job = serde_json::to_value(job).map_err(|e| failed(e.to_string()))?;
    let answer = desk.compute(job).map_err(|e| failed(e.to_string()))?;
    let answer: Answer<T> = serde_json::from_value(answer).map_err(|e| failed(e.to_string()))?;
    match answer {
        Answer::Found(found) => Ok(found),
        Answer::Failed(why) => Err(failed(why)),
    }
}

/// A computation of the engines, as sent to the computing process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Job {
    /// [`Predictor::model_cliff`].
    ModelCliff(Box<Predictor>),
    /// [`Predictor::losses`].
    Losses(Vec<Point>),
    /// [`Predictor::sim_cliff`].
    SimCliff(Box<Predictor>),
    /// [`Predictor::model_at`].
    ModelAt(Box<Predictor>, f64),
    /// [`Predictor::sim_at`].
    SimAt(Box<Predictor>, f64),
}

/// Result of a computation.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer<T> {
    /// The computed result.
    Found(T),
    /// Why there is no result.
    Failed(String),
}

/// A computation that is running.
#[derive(Debug)]
pub struct Begun<T> {
    answer: Receiver<T>,
    unwanted: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl<T> Begun<T> {
    /// Waits for the result; `None` once `stop` is set. The computation then continues until it checks its flag, or the
    /// process ends.
    pub fn unless(self, stop: &AtomicBool) -> Option<T> {
        while !stop.load(Ordering::Relaxed) {
            match self.answer.recv_timeout(ASKED) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if let Err(panic) = self.thread.join() {
                        std::panic::resume_unwind(panic);
                    }
                    return None;
                }
            }
        }
        self.unwanted.store(true, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed() -> Predictor {
        let host = Host {
            interrupt_latency_s: 0.0,
            application_s: Some(3e-6),
            ..Host::preset("pentium4-2530mhz").expect("a preset")
        };
        Predictor::of(host, "napi:weight=64,budget=300,backlog=true")
    }

    /// Whatever the sizes are, the mean size gives the mean cost of a packet.
    #[test]
    fn frames_of_several_sizes_cost_what_their_mean_costs() {
        for sizes in ["64B", "1518B", "imix", "mci1998-like", "mixture:64=1,1518=1"] {
            let size: netcliff_core::FrameSizes = sizes.parse().unwrap();
            let mean_s = |host: &Host| {
                let mixture = size.mixture().expect("sizes");
                mixture.iter().map(|(bytes, share)| share * host.service_s(f64::from(*bytes))).sum::<f64>()
            };
            let own = Predictor { traffic: Traffic { size: size.clone(), ..Traffic::default() }, ..computed() };
            assert!(own.host.per_byte_s > 0.0);
            let ratio = own.host.mean_service_s(&own.traffic.size) / mean_s(&own.host);
            assert!((ratio - 1.0).abs() < 1e-9, "{sizes}: {ratio}");
        }
    }

    /// Both engines use the measured variation where they support it. The model's Markov chains for pauses and for some
    /// schemes, such as `interrupt`, support exponential times only.
    #[test]
    fn the_model_takes_measured_times_where_it_has_an_answer() {
        let erlang = Service::Erlang { stages: 4 };
        let varied = Predictor { times: erlang.clone(), ..computed() };
        assert_eq!(varied.point(1e5).host.service, erlang);
        let (model, sim) = (varied.model_at(1e5).unwrap(), varied.sim_at(1e5).unwrap());
        let read = |outcome: &Outcome| outcome.throughput_pps.unwrap().value;
        assert!((read(&model) / read(&sim) - 1.0).abs() < 0.02, "{} {}", read(&model), read(&sim));
        let interrupt = Predictor { scheme: "interrupt".parse().unwrap(), ..varied };
        assert_eq!(interrupt.point(1e5).host.service, Service::Exponential);
        assert_eq!(interrupt.sim_point(1e5).host.service, erlang);
    }
}
