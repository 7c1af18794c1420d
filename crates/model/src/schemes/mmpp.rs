//! MMPP-2 arrivals (a source that switches at random between two rates): the source is the environment of the scheme's
//! chain ([`super::modulated`]).

mod latency;

use netcliff_core::engine::Fidelity;
use netcliff_core::{Scheme, Service};
use num_complex::Complex64;

use super::modulated::{Modulated, Source};
use super::{Work, chain, exponential_only, modulated_ring, napi};
use crate::answer::{Quantiles, Ring};
use crate::queue::inversion::quantile;

/// Largest NAPI weight whose packets are counted. A chain has twice as many phases as the weight, so that larger
/// weights, unless treated as unlimited, would take minutes.
const LARGEST_WEIGHT: u64 = 64;

/// Checks that the scheme is supported with MMPP-2 arrivals; the error is the reason why not.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    if fidelity != Fidelity::Exact {
        return Err("the paper has Poisson arrivals only: use fidelity exact for mmpp".to_owned());
    }
    match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => {}
        Scheme::Napi(own) => {
            napi::supported_without_moderation(own, fidelity)?;
            if (LARGEST_WEIGHT + 1..=napi::LARGEST_WEIGHT).contains(&own.weight) {
                return Err(format!(
                    "napi under mmpp arrivals is solved for weights up to {LARGEST_WEIGHT}, not {}: use the simulator",
                    own.weight
                ));
            }
        }
        other => {
            return Err(format!(
                "mmpp arrivals are solved for ideal, interrupt, disable-enable and napi, not for {}; use the simulator",
                other.name()
            ));
        }
    }
    exponential_only(scheme, service)
}

/// Solves a supported scheme; the error is a reason for the user.
pub fn solve(scheme: &Scheme, work: &Work, source: Source) -> Result<Ring, String> {
    let chain = chain(scheme, work)?;
    let modulated = Modulated::new(work, &chain, source.environment());
    let solution = modulated.solution()?;
    let mut ring = modulated_ring(&modulated, scheme, &solution);
    if work.quantiles {
        let found = latency::Found::new(&modulated, source, scheme, &solution, ring.loss);
        ring.quantiles = found.and_then(|found| inverted(&|z| found.transform(z), ring.mean_latency_s));
    }
    Ok(ring)
}

/// The four quantiles of a latency by inversion; `None` if the inversion fails.
fn inverted(transform: &dyn Fn(Complex64) -> Complex64, mean_s: f64) -> Option<Quantiles> {
    let at = |share| quantile(transform, mean_s, share);
    Some(Quantiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p999: at(0.999)? })
}
