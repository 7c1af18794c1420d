//! Solves the schemes, one file each: from [`Work`] (arrivals and costs) to [`Ring`] (the solution).

mod afford;
mod coalesce;
mod counted;
mod dim;
mod disable_enable;
mod gathered;
mod hybrid;
mod interrupt;
mod measured;
pub(crate) mod mmpp;
pub(crate) mod modulated;
mod napi;
mod napi_2007;
pub(crate) mod paused;
mod polling;
mod ticks;
mod timed;

use netcliff_core::host::MeasuredTimes;
use netcliff_core::{Scheme, Service};

use crate::answer::{Distribution, Quantiles, Ring};
use crate::queue::arrivals::TimeShape;
use crate::queue::qbd::Stationary;
pub(crate) use gathered::Gathering;
use modulated::{Chain, Modulated};
pub(crate) use napi::{
    AsTimer, LARGEST_WEIGHT, as_timer as napi_as_timer, at_random as napi_at_random, full_polls as napi_full_polls,
};
use netcliff_core::engine::Fidelity;
use num_complex::Complex64;
pub(crate) use ticks::{Ticked, Ticks};

/// Arrivals at the ring, and their costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// lambda: rate of Poisson arrivals (pps).
    pub arrival_pps: f64,
    /// 1/mu: mean protocol time per packet (s).
    pub service_s: f64,
    /// s: mean time of an interrupt (s).
    pub interrupt_s: f64,
    /// Mean time until an interrupt's handler begins, during which the CPU does other work (s); only NAPI's chain uses
    /// it.
    pub delivery_s: f64,
    /// m: one register write (s).
    pub mask_s: f64,
    /// o: overhead of a poll (s).
    pub poll_s: f64,
    /// B: slots of the ring, including the slot of the packet in service.
    pub places: u64,
    /// Distribution of interrupt, overhead and service times.
    pub shape: TimeShape,
    /// Mean frame size (bytes).
    pub frame_bytes: f64,
    /// Frame sizes as (share, protocol time / its mean); empty if only their mean is used.
    pub mixture: Vec<(f64, f64)>,
    /// True: compute latency quantiles, which take longer than everything else.
    pub quantiles: bool,
    /// Chains with an application also leave out events with a probability below this; 0: only what exact solutions
    /// leave out.
    pub left_out: f64,
}

impl Work {
    /// mu: service rate (pps).
    pub fn service_pps(&self) -> f64 {
        1.0 / self.service_s
    }

    /// Rate of an exponential stage with this mean; a mean of 0 is replaced by one that is negligible in doubles.
    pub(crate) fn stage_rate(&self, mean_s: f64) -> f64 {
        let shortest = 1e-18 * self.service_s.min(1.0 / self.arrival_pps);
        1.0 / mean_s.max(shortest)
    }
}

/// Distribution of a host's times.
pub fn shape(service: &Service) -> TimeShape {
    match service {
        Service::Exponential => TimeShape::Exponential,
        Service::Deterministic => TimeShape::Deterministic,
        Service::Lognormal { cv } => TimeShape::Lognormal(*cv),
        Service::Erlang { stages } => TimeShape::Erlang(*stages),
        Service::Hyperexponential { cv } => TimeShape::Hyperexponential(Service::balanced_phases(*cv)),
        Service::Empirical(_) => {
            TimeShape::Parts(measured::constants(service.measured().map_or(&[], MeasuredTimes::parts)))
        }
    }
}

/// True if some of a host's measured times are merged.
pub fn merges_times(service: &Service) -> bool {
    service.measured().is_some_and(|times| measured::merges(times.parts()))
}

/// Returns true if the scheme uses the distribution of frame sizes and not only their mean. These are the schemes
/// solved as M/G/1/K with a set-up.
pub fn takes_mixtures(scheme: &Scheme, fidelity: Fidelity) -> bool {
    match scheme {
        Scheme::Ideal | Scheme::DisableEnable { merged: false } => fidelity == Fidelity::Exact,
        Scheme::Coalesce(coalesce) => coalesce.masked && fidelity == Fidelity::Exact,
        _ => false,
    }
}

/// Checks that the scheme is supported at this fidelity; the error is the reason why not.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    solver(scheme, fidelity, service).map(drop)
}

/// Solves a scheme; the error is a reason for the user.
pub fn solve(scheme: &Scheme, fidelity: Fidelity, service: &Service, work: &Work) -> Result<Ring, String> {
    solver(scheme, fidelity, service)?(work)
}

/// Solves one scheme.
type Solver<'a> = Box<dyn Fn(&Work) -> Result<Ring, String> + 'a>;

/// Returns what solves the scheme at this fidelity; the error is the reason why nothing does. One row a scheme.
fn solver<'a>(scheme: &'a Scheme, fidelity: Fidelity, service: &'a Service) -> Result<Solver<'a>, String> {
    let is_exact = fidelity == Fidelity::Exact;
    let solver: Solver<'a> = match scheme {
        Scheme::Ideal => Box::new(move |work| by_first_frame(scheme, work, 0.0, ideal::solve)),
        Scheme::Interrupt { drops_interrupt } => {
            exponential_only(scheme, service)?;
            Box::new(move |work| match fidelity {
                Fidelity::Exact => Ok(interrupt::exact(work, *drops_interrupt)),
                Fidelity::Paper | Fidelity::Printed => Ok(interrupt::paper(work)),
            })
        }
        Scheme::DisableEnable { merged: false } if is_exact => Box::new(move |work| {
            by_first_frame(scheme, work, work.mask_s + work.interrupt_s, disable_enable::two_stage)
        }),
        Scheme::DisableEnable { .. } => {
            exponential_only(scheme, service)?;
            Box::new(|work| Ok(disable_enable::merged(work)))
        }
        Scheme::Coalesce(own) => {
            coalesce::supported(own, fidelity, service)?;
            Box::new(move |work| coalesce::solve(work, own, fidelity))
        }
        Scheme::Polling { period_s, quota } => {
            polling::supported(fidelity, service)?;
            Box::new(move |work| polling::solve(work, *period_s, *quota, fidelity))
        }
        Scheme::Hybrid(own) => {
            hybrid::supported(own, fidelity, service)?;
            Box::new(move |work| hybrid::solve(work, own, fidelity, service))
        }
        Scheme::Napi(own) => {
            napi::supported(own, fidelity)?;
            // With moderation by a NIC, times that are not made of phases are solved as M/G/1/K, which allows any
            // distribution.
            if !own.moderation.is_on() {
                phases_only(scheme, service)?;
            }
            Box::new(move |work| napi::solve(work, own))
        }
        Scheme::Napi2007(own) => {
            napi_2007::supported(own, fidelity)?;
            exponential_only(scheme, service)?;
            Box::new(move |work| napi_2007::Napi2007::new(work, own).solve())
        }
        Scheme::Dim(_) if !is_exact => return Err("the papers have no dim: use fidelity exact".to_owned()),
        Scheme::Dim(own) => Box::new(move |work| dim::solve(work, *own)),
        other => {
            let (name, unsolved) = (other.name(), other.properties().unsolved);
            let why = unsolved.unwrap_or("it has not been solved");
            return Err(format!("{name} has no Markov chain here, as {why}: use the simulator, or the scheme polling"));
        }
    };
    Ok(solver)
}

/// Solves a scheme that interrupts for the first frame: by its chain if all times are `exponential`, otherwise as
/// M/G/1/K with a set-up, which allows any distribution.
fn by_first_frame(
    scheme: &Scheme,
    work: &Work,
    interrupt_s: f64,
    exponential: fn(&Work) -> Ring,
) -> Result<Ring, String> {
    if work.shape == TimeShape::Exponential && work.mixture.is_empty() {
        return Ok(exponential(work));
    }
    afford::mg1k(scheme.name(), work)?;
    Ok(gathered::solve(work, Gathering::first_frame(), interrupt_s))
}

/// Accepts schemes whose times may consist of exponential phases.
fn phases_only(scheme: &Scheme, service: &Service) -> Result<(), String> {
    if modulated::Phases::of(&shape(service)).is_some() {
        return Ok(());
    }
    Err(format!(
        "{} is solved for exponential, erlang, hyperexponential and deterministic times, not for service = {service}; use the simulator",
        scheme.name()
    ))
}

fn exponential_only(scheme: &Scheme, service: &Service) -> Result<(), String> {
    if *service == Service::Exponential {
        return Ok(());
    }
    Err(format!(
        "{} is solved for exponential times only, not for service = {service}; use the simulator",
        scheme.name()
    ))
}

/// Returns a scheme with a free-running timer as a chain between its ticks, for exponential times. `None` for other
/// schemes, or if it has too many phases.
pub(crate) fn ticked<'a>(scheme: &Scheme, work: &'a Work) -> Option<Box<dyn Ticked + 'a>> {
    match *scheme {
        Scheme::Polling { period_s, quota } => Some(Box::new(polling::Polling::new(work, period_s, quota).ok()?)),
        Scheme::Napi2007(ref scheme) => Some(Box::new(napi_2007::Napi2007::new(work, scheme))),
        _ => None,
    }
}

/// Returns the stages of a scheme without its arrivals; the error is a reason for the user.
pub(crate) fn chain(scheme: &Scheme, work: &Work) -> Result<Chain, String> {
    match scheme {
        Scheme::Ideal => Ok(Chain::ideal(work)),
        Scheme::Interrupt { drops_interrupt } => Ok(Chain::interrupt(work, *drops_interrupt)),
        Scheme::DisableEnable { merged: true } => Ok(Chain::merged(work)),
        Scheme::DisableEnable { merged: false } => Ok(Chain::two_stage(work)),
        Scheme::Napi(own) => Ok(napi::modulated(work, own)),
        other => Err(format!("{} has no Markov chain for modulated arrivals", other.name())),
    }
}

/// Returns the figures of a scheme's chain in an environment, without quantiles; adds notes on the approximations of
/// NAPI's chain.
fn modulated_ring(modulated: &Modulated<'_>, scheme: &Scheme, solution: &Stationary) -> Ring {
    let mut ring = modulated.ring(scheme, solution);
    if let Scheme::Napi(own) = scheme {
        napi::qualify(&mut ring, own);
    }
    ring
}

/// The four quantiles of a latency by inversion; `None` if its distribution is unknown or the inversion fails.
fn quantiles(latencies: Option<&Distribution>) -> Option<Quantiles> {
    Distribution::quantiles(&[(1.0, latencies?)])
}

/// E[e^(-z S)] of an exponential time S with this mean.
fn exponential(z: Complex64, mean_s: f64) -> Complex64 {
    1.0 / (1.0 + z * mean_s)
}

mod ideal {
    //! ideal: no costs of interrupts; M/M/1/B.

    use num_complex::Complex64;

    use super::{Work, exponential, quantiles};
    use crate::answer::{Distribution, Ring, Shares};
    use crate::queue::birth_death::Mm1b;

    /// Solves the queue M/M/1/B.
    pub fn solve(work: &Work) -> Ring {
        let queue = Mm1b::new(work.arrival_pps, work.service_pps(), work.places);
        let mean_latency_s = queue.mean_sojourn();
        // An accepted packet finds n packets with truncated geometric weights, and leaves after n + 1 services.
        let (found, service_s) = (queue.found(), work.service_s);
        let transform = move |z: Complex64| {
            let service = exponential(z, service_s);
            found.transform(service) * service
        };
        let latencies = work.quantiles.then(|| Distribution::new(mean_latency_s, transform));
        Ring {
            throughput_pps: queue.throughput(),
            loss: queue.blocking(),
            mean_present: queue.mean_present(),
            mean_latency_s,
            quantiles: quantiles(latencies.as_ref()),
            latencies,
            interrupts_per_s: 0.0,
            cycles_per_s: work.arrival_pps * queue.idle(),
            clocked: false,
            polls_per_s: None,
            shares: Shares { protocol: queue.busy(), available: queue.idle(), ..Shares::default() },
            exact: true,
            notes: Vec::new(),
        }
    }
}
