//! The cliff and the curve on paper and in simulation.

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::{Engine, EngineFailure, Figure, Host, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::{SimEngine, cliff_sim_unless};

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

    fn sim(&self) -> SimEngine {
        SimEngine { confidence: crate::stats::CONFIDENCE, ..SimEngine::with_packets(self.seed, self.packets) }
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
