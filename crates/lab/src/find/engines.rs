//! The cliff and the curve on paper and in simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use netcliff_core::{Engine, EngineFailure, Figure, Host, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::{SimEngine, cliff_sim_unless};

/// How often a computation asks whether it is still wanted.
const ASKED: Duration = Duration::from_millis(20);

/// Model and simulator with what they are asked about.
#[derive(Debug, Clone)]
pub struct Computed {
    /// Costs and sizes.
    pub host: Host,
    /// Scheme.
    pub scheme: Scheme,
    /// Traffic; its load is replaced.
    pub traffic: Traffic,
    /// Loss fraction that defines the cliff.
    pub loss: f64,
    /// Seed of the simulator.
    pub seed: u64,
    /// Arrivals simulated a load.
    pub packets: u64,
}

impl Computed {
    /// The point at a load.
    pub fn point(&self, load_pps: f64) -> Point {
        Point { host: self.host.clone(), scheme: self.scheme.clone(), traffic: self.traffic.at_pps(load_pps) }
    }

    /// Mean size of a frame (bytes); that of the smallest where the traffic has none.
    pub fn frame_bytes(&self) -> f64 {
        match &self.traffic.size {
            netcliff_core::FrameSizes::Fixed(bytes) => f64::from(*bytes),
            _ => 64.0,
        }
    }

    fn sim(&self) -> SimEngine {
        SimEngine { confidence: crate::stats::CONFIDENCE, ..SimEngine::with_packets(self.seed, self.packets) }
    }

    /// What `compute` gives; None once `stop` is set: one run of either engine can take seconds, and who stops does not wait
    /// for it. It goes on for nobody until it looks at the flag that it is handed, or the process ends.
    pub fn unless_stopped<T: Send + 'static>(
        &self,
        stop: &AtomicBool,
        compute: impl FnOnce(&Self, &AtomicBool) -> T + Send + 'static,
    ) -> Option<T> {
        let (asked, unwanted) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let (told, answer) = channel();
        let told_off = Arc::clone(&unwanted);
        let thread = std::thread::spawn(move || {
            // Nobody listens any more after a stop.
            let _ = told.send(compute(&asked, &told_off));
        });
        while !stop.load(Ordering::Relaxed) {
            match answer.recv_timeout(ASKED) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if let Err(panic) = thread.join() {
                        std::panic::resume_unwind(panic);
                    }
                    return None;
                }
            }
        }
        unwanted.store(true, Ordering::Relaxed);
        None
    }

    /// The cliff on paper (pps).
    ///
    /// # Errors
    /// The model does not support the point.
    pub fn model_cliff(&self) -> Result<Figure, EngineFailure> {
        let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
        let cliff = netcliff_model::cliff(&engine, &self.host, &self.scheme, &self.traffic, self.loss)?;
        Ok(Figure::exact(cliff.pps))
    }

    /// The cliff in simulation (pps); None if `stop` was set meanwhile.
    ///
    /// # Errors
    /// The simulator does not support the point.
    pub fn sim_cliff(&self, stop: &AtomicBool) -> Result<Option<Figure>, EngineFailure> {
        let stopped = || stop.load(Ordering::Relaxed);
        let found = cliff_sim_unless(&self.sim(), &self.point(1.0), self.loss, &stopped)?;
        Ok(found.map(|cliff| cliff.load_pps))
    }

    /// One load on paper.
    ///
    /// # Errors
    /// The model does not support the point.
    pub fn model_at(&self, load_pps: f64) -> Result<Outcome, EngineFailure> {
        ModelEngine::new(Fidelity::Exact).evaluate(&self.point(load_pps))
    }

    /// One load in simulation.
    ///
    /// # Errors
    /// The simulator does not support the point.
    pub fn sim_at(&self, load_pps: f64) -> Result<Outcome, EngineFailure> {
        self.sim().evaluate(&self.point(load_pps))
    }
}
