//! A trial of whose frames the application answers some.

use std::num::NonZeroU64;

use netcliff_wire::latency::Latency;
use netcliff_wire::load::LoadRequest;
use netcliff_wire::run::{SinkWith, Timing, WireFailure, run_to};

use crate::bench::RoundTrips;
use crate::rig::{Between, Rig};
use crate::trial::{Sending, TrialError, TrialSpec, ends, undisturbed, until_started};

/// Answers a second: each is work for the host under test, some microseconds of a second's.
const ANSWERS_PER_S: f64 = 200.0;

/// Round trips at this load; None where the sender is on this host.
///
/// # Errors
/// See [`TrialError`].
pub(super) fn of_trial(rig: &Rig, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
    until_started(|| once(rig, spec))
}

fn once(rig: &Rig, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
    let timing = Timing::measured(spec.seconds);
    let (Sending::There(between, requests), sinks) = ends(rig, spec, timing) else { return Ok(None) };
    let failed = |source: WireFailure| TrialError::Wire { rate_pps: spec.rate_pps, source: Box::new(source) };
    let requests = requests.into_iter().map(|request| LoadRequest { round_trips: true, ..request }).collect();
    let mut with: Vec<SinkWith> = Vec::new();
    for mut sink in sinks {
        // By number, not by time: the first packet after a pause of the answers has waited longer than others.
        sink.answer_each = NonZeroU64::new((spec.rate_pps / ANSWERS_PER_S).ceil() as u64);
        let application = sink.work.application(&sink.heartbeat).map_err(|reason| failed(reason.into()))?;
        with.push((sink, application));
    }
    let run = {
        let mut carriers = between.carriers();
        run_to(&mut Between::source(&mut carriers, requests), with, timing, &rig.stop, |_, _| {})
    };
    undisturbed(rig, spec.rate_pps)?;
    let run = run.map_err(failed)?;
    let times = run.sender.round_trips.as_ref().and_then(Latency::summary);
    Ok(Some(RoundTrips { answers: run.sink.answers, times }))
}
