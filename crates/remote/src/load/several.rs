//! [`Several`]: several far generators that share a load.

use std::thread;

use super::near::{FarSource, far_ceiling};
use super::{Carrier, LoadRequest, far_failure};
use netcliff_packets::error::WireError;
use netcliff_packets::generator::{Ceiling, SenderFailure, SenderReport, Window};
use netcliff_packets::source::{Part, Source, Timing};

/// Far generators that start together for one measurement. Each has its own run id, schedule and window.
pub struct Several<'a> {
    sources: Vec<FarSource<'a>>,
    windows: Vec<Window>,
}

impl<'a> Several<'a> {
    /// Combines these generators; `sources` is not empty.
    pub fn new(sources: Vec<FarSource<'a>>) -> Self {
        Self { sources, windows: Vec::new() }
    }

    /// Highest rate that all generators together offer in equal shares [packets/s]. `None` if no generator has a limit.
    pub fn most_pps(&self) -> Option<f64> {
        let least = self.sources.iter().filter_map(|source| source.most_pps).reduce(f64::min);
        least.map(|least_pps| least_pps * self.sources.len() as f64)
    }
}

impl Source for Several<'_> {
    fn prepare(&mut self, timing: Timing) -> Result<Vec<Window>, WireError> {
        // All requests leave at once, because each generator starts a fixed time after its request.
        let outcomes: Vec<Result<Vec<Window>, WireError>> = match &mut self.sources[..] {
            [only] => vec![only.prepare(timing)],
            all => thread::scope(|scope| {
                let asked: Vec<_> = all.iter_mut().map(|source| scope.spawn(move || source.prepare(timing))).collect();
                let joined = |outcome: thread::Result<_>| {
                    outcome.unwrap_or_else(|panic| Err(WireError::died("generator", &*panic)))
                };
                asked.into_iter().map(|asked| joined(asked.join())).collect()
            }),
        };
        match outcomes.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(windows) => {
                self.windows = windows.concat();
                Ok(self.windows.clone())
            }
            Err(error) => {
                self.stop();
                Err(error)
            }
        }
    }

    fn start(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    fn sent(&mut self) -> u64 {
        self.sources.iter_mut().map(FarSource::sent).sum()
    }

    fn is_finished(&mut self) -> bool {
        let over: Vec<bool> = self.sources.iter_mut().map(FarSource::is_finished).collect();
        // If one generator fails, the remaining load is not the one requested: stop the others.
        if self.sources.iter().any(FarSource::has_failed) {
            self.stop();
        }
        over.into_iter().all(|over| over)
    }

    fn stop(&mut self) {
        self.sources.iter_mut().for_each(FarSource::stop);
    }

    fn finish(&mut self) -> Result<SenderReport, SenderFailure> {
        let first_ns = self.windows.first().map_or(0, |window| window.from_ns);
        let ahead_ns = |place: usize| self.windows.get(place).map_or(0, |own| own.from_ns as i64 - first_ns as i64);
        let mut whole: Option<SenderReport> = None;
        let mut failed = None;
        for (place, source) in self.sources.iter_mut().enumerate() {
            let report = match source.finish() {
                Ok(report) => report,
                Err(SenderFailure { reason, measured }) => {
                    failed.get_or_insert(reason);
                    let Some(report) = measured else { continue };
                    *report
                }
            };
            match &mut whole {
                Some(whole) => whole.add(&report, ahead_ns(place)),
                None => whole = Some(report),
            }
        }
        match (failed, whole) {
            (None, Some(report)) => Ok(report),
            (reason, whole) => Err(SenderFailure {
                reason: reason.unwrap_or_else(|| far_failure("there was no generator")),
                measured: whole.map(Box::new),
            }),
        }
    }

    fn parts(&self) -> Vec<Part> {
        self.sources.iter().flat_map(FarSource::parts).collect()
    }

    fn shares_clock(&self) -> bool {
        self.sources.iter().all(FarSource::shares_clock)
    }
}

/// Measures the highest rates of far generators that send at once. The load in each request is the time to send.
///
/// # Errors
/// The first error of any generator, see [`far_ceiling`].
pub fn far_ceilings(
    asked: Vec<(&mut dyn Carrier, LoadRequest)>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<Ceiling>, WireError> {
    thread::scope(|scope| {
        let begun: Vec<_> = asked
            .into_iter()
            .map(|(carrier, request)| scope.spawn(move || far_ceiling(carrier, &request, &|| stop())))
            .collect();
        let joined =
            |outcome: thread::Result<_>| outcome.unwrap_or_else(|panic| Err(WireError::died("generator", &*panic)));
        begun.into_iter().map(|begun| joined(begun.join())).collect()
    })
}
