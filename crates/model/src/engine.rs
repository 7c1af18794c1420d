//! [`ModelEngine`]: the engine that evaluates points by the model.

use std::cell::RefCell;
use std::collections::BTreeMap;

use netcliff_core::host::Applications;
use netcliff_core::note::Note;
use netcliff_core::queues::{Map, Role};
use netcliff_core::{
    Arrivals, Engine, EngineFailure, EngineKind, Figure, FrameSizes, Host, Latency, Outcome, Point, Scheme, Traffic,
    Unsupported, queues,
};

use crate::answer::{APPROXIMATE, Distribution};
use crate::application;
use crate::bounds;
use crate::schemes::mmpp;
use crate::schemes::modulated::{Phases, Source};
use crate::schemes::paused;
use crate::schemes::{self, Work};

pub use netcliff_core::engine::Fidelity;

/// The analytic engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelEngine {
    /// Formulas to use: exact, or as printed in the papers.
    pub fidelity: Fidelity,
    /// True: compute latency quantiles. A search for a cliff needs none.
    pub quantiles: bool,
    /// True: chains with an application leave out events with a probability below `RARE` (1e-9), instead of below 1e-13
    /// to 1e-15.
    pub roughly: bool,
}

/// Events with a smaller probability are left out if [`ModelEngine::roughly`] is set.
const RARE: f64 = 1e-9;

/// Faster engine that narrows a cliff search before the exact one is evaluated: its cliffs are within some parts in 1e6
/// of the exact ones (test `a_search_is_guided_to_the_exact_cliff`), in about half the time.
static GUIDE: ModelEngine = ModelEngine { fidelity: Fidelity::Exact, quantiles: false, roughly: true };

impl Default for ModelEngine {
    fn default() -> Self {
        Self::new(Fidelity::Exact)
    }
}

/// Reason why queues that share a core are not supported.
const SHARED_CORE: &str = "queues that share a core wait for each other, which no chain here has: give each a core (leave out \
                           `on`), or use the simulator";

impl ModelEngine {
    /// The engine, computing quantiles.
    pub fn new(fidelity: Fidelity) -> Self {
        Self { fidelity, quantiles: true, roughly: false }
    }

    /// The same engine without latency quantiles, which take longer than everything else.
    #[must_use]
    pub fn without_quantiles(self) -> Self {
        Self { quantiles: false, ..self }
    }

    /// Checks that this engine can evaluate the host under the scheme and traffic, at any load.
    ///
    /// # Errors
    /// States why it cannot.
    pub fn supports_shape(&self, host: &Host, scheme: &Scheme, traffic: &Traffic) -> Result<(), Unsupported> {
        if let Some(queues) = &host.queues {
            if queues.share_cores() {
                return Err(Unsupported::new(EngineKind::Model, SHARED_CORE));
            }
            let (host, busiest, _) = queues::busiest(host, traffic);
            return self.supports_shape(&host, scheme, &busiest);
        }
        self.check(host, scheme, traffic).map_err(|reason| Unsupported::new(EngineKind::Model, reason))
    }

    fn check(&self, host: &Host, scheme: &Scheme, traffic: &Traffic) -> Result<(), String> {
        if let Some(xoff) = host.xoff {
            return Err(format!(
                "the chains take arrivals as independent of the ring, and flow control (xoff={xoff}) stops them by it: leave \
                 xoff out, or use the simulator"
            ));
        }
        if host.applications.as_ref().is_some_and(|applications| *applications != Applications::even(1)) {
            return Err("the chains have one application above one socket: set application and socket_buffer instead of applications, or use the simulator".to_owned());
        }
        if host.transmit_s.is_some() {
            return Err(
                "the chains take received packets as all that protocol processing does, and transmit completions \
                        would share it: set transmit=none, or use the simulator"
                    .to_owned(),
            );
        }
        if let Some(file) = host.service.unread() {
            return Err(format!("the measured times of {file} have not been read"));
        }
        if let Some(file) = host.unread_pauses() {
            return Err(format!("the lengths of pauses of {file} have not been read"));
        }
        let pauses = host.pauses();
        if pauses.is_some() && host.application_s.is_some() {
            return Err(
                "pauses are solved without an application only: set application=none, or use the simulator".to_owned()
            );
        }
        let schemes_answer = match &traffic.arrivals {
            other if pauses.is_some() && *other != Arrivals::Poisson => {
                return Err(format!(
                    "pauses are solved under Poisson arrivals only, not under {other}: use poisson, or the simulator"
                ));
            }
            Arrivals::Poisson => schemes::supported(scheme, self.fidelity, &host.service),
            Arrivals::Mmpp { .. } if host.application_s.is_some() => {
                return Err("mmpp arrivals are solved without an application only: set application=none, or use the \
                            simulator"
                    .to_owned());
            }
            Arrivals::Mmpp { .. } => mmpp::supported(scheme, self.fidelity, &host.service),
            other => {
                return Err(format!(
                    "only Poisson and mmpp arrivals have an analytic answer, not {other}; use the simulator"
                ));
            }
        };
        if traffic.size.mean_bytes().is_none() {
            return Err(format!("the frame sizes of {} have not been read", traffic.size));
        }
        schemes_answer?;
        pauses.map_or(Ok(()), |pauses| paused::supported(scheme, self.fidelity, &host.service, &pauses))
    }
}

impl Engine for ModelEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Model
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.supports_shape(&point.host, &point.scheme, &point.traffic)
    }

    fn guide(&self, host: &Host) -> Option<&dyn Engine> {
        let is_exact = self.fidelity == Fidelity::Exact && !self.roughly;
        (is_exact && host.application_s.is_some()).then_some(&GUIDE as &dyn Engine)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        point.validate()?;
        self.supports(point)?;
        if point.host.queues.is_some() { self.several(point) } else { Ok(self.one(point)?.0) }
    }
}

impl ModelEngine {
    /// Evaluates a host with several queues, each on a separate core. Latency quantiles are quantiles of the mixture of
    /// the queues' latency distributions.
    fn several(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        // Equal queues are computed once.
        let known = RefCell::new(Vec::<(Point, Outcome, Option<Distribution>)>::new());
        let latencies = RefCell::new(BTreeMap::new());
        let alone = |number: usize, part: &Point| {
            let same = known.borrow().iter().find(|(asked, ..)| asked == part).cloned();
            let (_, outcome, own) = match same {
                Some(found) => found,
                None => {
                    part.validate()?;
                    let (outcome, own) = self.one(part)?;
                    known.borrow_mut().push((part.clone(), outcome.clone(), own.clone()));
                    (part.clone(), outcome, own)
                }
            };
            latencies.borrow_mut().insert(number, own);
            Ok(outcome)
        };
        let joint = |_: &[(usize, Point)]| Err(Unsupported::new(EngineKind::Model, SHARED_CORE).into());
        let mut outcome = queues::evaluate(point, &alone, &joint)?;
        let latencies = latencies.into_inner();
        let received = outcome.queues.iter().enumerate().filter(|(_, queue)| queue.role == Role::Receive);
        let parts: Option<Vec<(f64, &Distribution)>> = received
            .filter_map(|(number, queue)| Some((number, queue.outcome.as_ref()?.throughput_pps?.value)))
            .map(|(number, weight)| Some((weight, latencies.get(&number)?.as_ref()?)))
            .collect();
        let found = parts.filter(|parts| !parts.is_empty()).and_then(|parts| Distribution::quantiles(&parts));
        if let (Some(found), Some(latency)) = (found, &mut outcome.latency_s) {
            let exact = |value: f64| Some(Figure::exact(value));
            (latency.p50, latency.p90) = (exact(found.p50), exact(found.p90));
            (latency.p99, latency.p999) = (exact(found.p99), exact(found.p999));
            outcome.notes.retain(|note| !matches!(note, Note::Interpolated));
        }
        // Approximation: sibling threads are assumed to be busy independently, and transmit completions on another core
        // to be a Poisson stream.
        if point.host.queues.as_ref().is_some_and(|queues| queues.transmit_s.is_some() && queues.map != Map::Pairing) {
            outcome.cpu_method = Some(APPROXIMATE.to_owned());
        }
        Ok(outcome)
    }

    /// Evaluates a host with one queue. Also returns the distribution of its latency, `None` if unknown.
    fn one(&self, point: &Point) -> Result<(Outcome, Option<Distribution>), EngineFailure> {
        let unsupported = |reason: String| Unsupported::new(EngineKind::Model, reason);
        let Point { host, scheme, traffic, .. } = point;
        let frame_bytes =
            traffic.size.mean_bytes().ok_or_else(|| unsupported("frame sizes are not known".to_owned()))?;
        let arrival_pps = point.rate_pps().ok_or_else(|| unsupported("the offered rate is not known".to_owned()))?;
        let source = Source::of(&traffic.arrivals);
        let pauses = host.pauses();
        let service_s = host.mean_service_s(&traffic.size);
        let mixture = if source.is_none() && pauses.is_none() && schemes::takes_mixtures(scheme, self.fidelity) {
            service_mixture(host, &traffic.size, service_s)
        } else {
            Vec::new()
        };
        let mean_only = mixture.is_empty() && !matches!(traffic.size, FrameSizes::Fixed(_)) && host.is_by_size();
        let work = Work {
            arrival_pps,
            service_s,
            interrupt_s: host.interrupt_s,
            delivery_s: if matches!(scheme, Scheme::Napi(_)) { host.interrupt_latency_s } else { 0.0 },
            mask_s: host.mask_s,
            poll_s: host.poll_s,
            places: host.ring,
            shape: schemes::shape(&host.service),
            frame_bytes,
            mixture,
            quantiles: self.quantiles,
            left_out: if self.roughly { RARE } else { 0.0 },
        };
        let solve = |work: &Work| {
            let ring = match (source, &pauses) {
                (_, Some(pauses)) => paused::solve(scheme, work, pauses),
                (Some(source), None) => mmpp::solve(scheme, work, source),
                (None, None) => schemes::solve(scheme, self.fidelity, &host.service, work),
            };
            ring.map_err(unsupported)
        };
        let mut latencies = None;
        let mut outcome = match host.application_s {
            None => {
                let ring = solve(&work)?;
                latencies = ring.latencies.clone().filter(|_| !mean_only);
                ring.outcome(frame_bytes)
            }
            Some(application_s) => {
                let together = source.is_none() && self.fidelity == Fidelity::Exact;
                let scheme = together.then_some(scheme);
                let above = application::Above { host, scheme, application_s, frame_bytes };
                application::outcome(&above, &work, &solve)?
            }
        };
        if let Some(pauses) = &pauses {
            paused::with_paused_time(&mut outcome, pauses);
        }
        if matches!(scheme, Scheme::Napi(napi) if napi.ksoftirqd) && host.application_s.is_some() {
            outcome.notes.push(Note::NoKsoftirqd);
        }
        outcome.notes.splice(0..0, point.warnings());
        let unchecked = outcome.bounds().and_then(|bounds| bounds::unchecked(bounds, host));
        outcome.notes.extend(unchecked);
        // Answers that use the papers' printed formulas or the approximations below are not exact.
        let mut exact = self.fidelity == Fidelity::Exact;
        if mean_only {
            exact = false;
            outcome.latency_s = outcome.latency_s.map(|known| Latency { mean: known.mean, ..Latency::default() });
            outcome.notes.push(mean_only_note(host, &traffic.size, service_s));
        }
        if matches!(scheme, Scheme::Napi(napi) if napi.gro_normal_batch > 1) {
            exact = false;
            outcome.notes.push(Note::NoGroBatch);
        }
        if host.interrupt_latency_s > 0.0 && scheme.properties().interrupts && !matches!(scheme, Scheme::Napi(_)) {
            exact = false;
            outcome.notes.push(Note::NoInterruptLatency);
        }
        if schemes::merges_times(&host.service) {
            exact = false;
            outcome.notes.push(Note::MergedTimes);
        }
        if matches!(scheme, Scheme::Napi(napi) if !napi.moderation.is_on())
            && let Some(note) = Phases::note(&work.shape)
        {
            exact = false;
            outcome.notes.push(note);
        }
        if !exact {
            outcome.cpu_method = Some(APPROXIMATE.to_owned());
        }
        Ok((outcome, latencies))
    }
}

/// Note that only the mean of the frame sizes is used. Waits grow with the second moment of the service, which the
/// sizes increase by the factor E[f^2], where f = service time of a size / mean.
fn mean_only_note(host: &Host, sizes: &FrameSizes, mean_s: f64) -> Note {
    let square: f64 = service_mixture(host, sizes, mean_s).iter().map(|(share, factor)| share * factor * factor).sum();
    Note::MeanSizeOnly((square - 1.0).max(0.0))
}

/// Returns (share, protocol time / mean protocol time `mean_s`) of each frame size; empty if all sizes take the same
/// time.
fn service_mixture(host: &Host, sizes: &FrameSizes, mean_s: f64) -> Vec<(f64, f64)> {
    let parts = sizes.mixture().filter(|parts| parts.len() > 1 && host.is_by_size()).unwrap_or_default();
    parts.into_iter().map(|(bytes, share)| (share, host.service_s(f64::from(bytes)) / mean_s)).collect()
}
