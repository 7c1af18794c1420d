//! One file a scheme: [`Work`] in, [`Ring`] out.

mod disable_enable;
mod ideal;
mod interrupt;
mod napi;

use netcliff_core::{Scheme, Service};

use crate::answer::{Quantiles, Ring};
use crate::engine::Fidelity;
use crate::queue::inversion::quantile;
use num_complex::Complex64;

/// What arrives at the ring and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// lambda: Poisson arrivals [pps].
    pub arrival_pps: f64,
    /// 1/mu: mean protocol time a packet [s].
    pub service_s: f64,
    /// s: mean interrupt [s].
    pub interrupt_s: f64,
    /// m: one register write [s].
    pub mask_s: f64,
    /// o: overhead a poll [s].
    pub poll_s: f64,
    /// B: slots, the packet in service included.
    pub places: u64,
    /// Whether latency quantiles are wanted; they cost more than the rest.
    pub quantiles: bool,
}

impl Work {
    /// mu [pps].
    pub fn service_pps(&self) -> f64 {
        1.0 / self.service_s
    }

    /// The rate of a stage with this mean; a stage of no length is one too short for any double to notice.
    fn stage_rate(&self, mean_s: f64) -> f64 {
        let shortest = 1e-18 * self.service_s.min(1.0 / self.arrival_pps);
        1.0 / mean_s.max(shortest)
    }
}

/// Whether the scheme has an answer at this fidelity; if not, why.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: Service) -> Result<(), String> {
    if service != Service::Exponential && *scheme != Scheme::Ideal {
        return Err(format!("the chain of {} needs exponential times; service = {service} has none", scheme.name()));
    }
    match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => exponential_only(scheme, service),
        Scheme::Napi(napi) => napi::supported(napi, fidelity),
        other => Err(format!("{} has no analytic answer yet; use the simulator", other.name())),
    }
}

fn exponential_only(scheme: &Scheme, service: Service) -> Result<(), String> {
    if service == Service::Exponential {
        return Ok(());
    }
    Err(format!(
        "{} is solved for exponential times only, not for service = {service}; use the simulator",
        scheme.name()
    ))
}

/// Solves a supported scheme; an error is a reason for a user.
pub fn solve(scheme: &Scheme, fidelity: Fidelity, work: &Work) -> Result<Ring, String> {
    match (scheme, fidelity) {
        (Scheme::Ideal, _) => Ok(ideal::solve(work)),
        (Scheme::Interrupt { .. }, Fidelity::Paper) => Ok(interrupt::paper(work)),
        (Scheme::Interrupt { drops_interrupt }, Fidelity::Exact) => Ok(interrupt::exact(work, *drops_interrupt)),
        (Scheme::DisableEnable { .. }, Fidelity::Paper) => Ok(disable_enable::merged(work)),
        (Scheme::DisableEnable { merged: true }, _) => Ok(disable_enable::merged(work)),
        (Scheme::DisableEnable { merged: false }, _) => Ok(disable_enable::two_stage(work)),
        (Scheme::Napi(napi), _) => napi::solve(work, napi),
        (other, _) => Err(format!("{} has no analytic answer yet; use the simulator", other.name())),
    }
}

/// The four quantiles of a latency by inversion; None where the inversion gives none.
fn quantiles(transform: &dyn Fn(Complex64) -> Complex64, mean_s: f64) -> Option<Quantiles> {
    let at = |share| quantile(transform, mean_s, share);
    Some(Quantiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p999: at(0.999)? })
}

/// E[e^(-z S)] of an exponential time with this mean.
fn exponential(z: Complex64, mean_s: f64) -> Complex64 {
    1.0 / (1.0 + z * mean_s)
}
