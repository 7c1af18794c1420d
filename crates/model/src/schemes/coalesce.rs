//! coalesce: interrupts delayed by a packet count, timers or a minimum gap.
//!
//! Exact with masked interrupts ([`gathered`]), and with unmasked ones if there is a count ([`counted`]) or one
//! deterministic time ([`timed`]). Otherwise the paper's approximation of the unmasked scheme: one interrupt per tau_e
//! frames slows all services equally.

use netcliff_core::math;
use netcliff_core::note::Note;
use netcliff_core::{Coalesce, Service};

use super::counted;
use super::gathered::{self, Gathering};
use super::timed::{self, Ending};
use super::{Work, afford};
use crate::answer::{Ring, Shares};
use crate::queue::birth_death::Mm1b;
use netcliff_core::engine::Fidelity;

/// Whether the scheme is supported; if not, the reason.
pub fn supported(coalesce: &Coalesce, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    match (coalesce.masked, fidelity) {
        (_, Fidelity::Exact) if coalesce.free_timer => {
            Err("coalesce with free_timer=true has no Markov chain here, as its ticks fall anywhere in the gathering: use fidelity \
                 paper (an approximation) or the simulator"
                .to_owned())
        }
        (true, Fidelity::Exact) if Gathering::of(coalesce).is_some() => Ok(()),
        (true, Fidelity::Exact) => Err("masked coalescing is solved with a frame count and one timer; both timers \
                                        together or a minimum gap need the simulator"
            .to_owned()),
        (true, Fidelity::Paper | Fidelity::Printed) => {
            Err("the paper has no masked coalescing: use fidelity exact, or coalesce with masked=false".to_owned())
        }
        (false, _) if *service != Service::Exponential => {
            Err(format!("unmasked coalescing is solved for exponential times only, not for service = {service}"))
        }
        (false, Fidelity::Printed) if printed_frames(1.0, coalesce).is_none() => {
            Err("the paper prints coalescing by a count or by one timer (frames or usecs): leave out the rest, or use fidelity \
                 paper or exact"
                .to_owned())
        }
        (false, _) if coalesce.min_gap_s.is_some() && effective_timers(coalesce) => {
            Err("a minimum gap together with frames or timers has no formula here: use one of them, or the simulator"
                .to_owned())
        }
        (false, _) => Ok(()),
    }
}

fn effective_timers(coalesce: &Coalesce) -> bool {
    coalesce.frames.is_some_and(|frames| frames > 1)
        || coalesce.absolute_timer_s.is_some_and(|seconds| seconds > 0.0)
        || coalesce.packet_timer_s.is_some_and(|seconds| seconds > 0.0)
}

/// Solves the scheme.
pub fn solve(work: &Work, coalesce: &Coalesce, fidelity: Fidelity) -> Result<Ring, String> {
    if coalesce.masked {
        afford::mg1k("coalesce", work)?;
        let gathering = Gathering::of(coalesce).ok_or("masked coalescing with a packet timer or a gap")?;
        afford::gathering(work, gathering)?;
        return Ok(gathered::solve(work, gathering, work.mask_s + work.interrupt_s));
    }
    match fidelity {
        Fidelity::Exact => {}
        Fidelity::Paper => return unmasked(work, coalesce, Note::CoalesceOfPaper),
        Fidelity::Printed => {
            let frames = printed_frames(work.arrival_pps, coalesce).unwrap_or(1);
            let counted = Coalesce { frames: Some(frames), ..Coalesce::default() };
            let timer = coalesce.absolute_timer_s.is_some_and(|seconds| seconds > 0.0);
            return unmasked(
                work,
                &counted,
                if timer { Note::CoalesceAsPrinted(frames) } else { Note::CoalesceOfPaper },
            );
        }
    }
    let gap = coalesce.min_gap_s.is_some_and(|gap_s| gap_s > 0.0);
    // With a count of one frame no timer matters: the interrupt comes with the first frame.
    let timers = coalesce.frames != Some(1) && effective_timers(&Coalesce { frames: None, ..coalesce.clone() });
    if gap || timers {
        let ending = Ending::of(coalesce).ok_or_else(|| no_chain(coalesce))?;
        return timed::solve(work, ending, coalesce.drops_interrupt);
    }
    counted::solve(work, coalesce.frames.unwrap_or(1), coalesce.drops_interrupt).unwrap_or_else(|| {
        Err(format!(
            "unmasked coalescing by {} frames makes too large a chain: use masked=true, fewer frames, fidelity paper or the \
             simulator",
            coalesce.frames.unwrap_or(1)
        ))
    })
}

/// Returns tau as printed in the paper: the count, or ceil(lambda T) for a timer T. `None` if the paper gives no
/// formula.
fn printed_frames(arrival_pps: f64, coalesce: &Coalesce) -> Option<u64> {
    let on = |timer: Option<f64>| timer.filter(|seconds| *seconds > 0.0);
    let frames = coalesce.frames.filter(|frames| *frames > 1);
    match (frames, on(coalesce.absolute_timer_s), on(coalesce.packet_timer_s).or(on(coalesce.min_gap_s))) {
        (frames, None, None) => Some(frames.unwrap_or(1)),
        (None, Some(timer_s), None) => Some((arrival_pps * timer_s).ceil().max(1.0) as u64),
        _ => None,
    }
}

/// Reason why an unmasked scheme with these timers is not supported.
fn no_chain(coalesce: &Coalesce) -> String {
    let lacking = if coalesce.packet_timer_s.is_some_and(|seconds| seconds > 0.0) {
        "a packet timer, which every packet restarts, has no Markov chain here with preempted services"
    } else {
        "with drops_interrupt=true dropped frames count together with a timer or a gap, for which there is no Markov chain here"
    };
    format!("unmasked coalescing: {lacking}; use masked=true, fidelity paper (an approximation) or the simulator")
}

/// Solves the paper's approximation of the unmasked scheme with tau_e frames per interrupt (docs/theory/chains.md).
fn unmasked(work: &Work, coalesce: &Coalesce, note: Note) -> Result<Ring, String> {
    let lambda = work.arrival_pps;
    let (frames, wait_s) = frames_an_interrupt(lambda, coalesce);
    // U, the CPU's interrupt share, = lambda/(lambda + tau_e r) = (lambda s / tau_e)/(1 + lambda s / tau_e).
    let per_frame = lambda * work.interrupt_s / frames;
    let left = 1.0 / (1.0 + per_frame);
    let queue = Mm1b::new(lambda, work.service_pps() * left, work.places);
    // The formula has no place in the ring for packets that wait for the interrupt. It does not apply if these packets
    // alone would fill half the ring.
    if lambda * wait_s > 0.5 * work.places as f64 {
        return Err(format!(
            "the paper's approximation leaves the ring out of account while frames wait for an interrupt: here {:.1e} of them \
             would, more than half the ring of {}; use fidelity exact, a larger ring or the simulator",
            lambda * wait_s,
            work.places
        ));
    }
    let mean_latency_s = wait_s + work.interrupt_s + queue.mean_sojourn();
    Ok(Ring {
        throughput_pps: queue.throughput(),
        loss: queue.blocking(),
        // By Little's law.
        mean_present: queue.throughput() * mean_latency_s,
        mean_latency_s,
        quantiles: None,
        latencies: None,
        interrupts_per_s: lambda / frames * left,
        cycles_per_s: lambda * left * queue.idle(),
        clocked: true,
        polls_per_s: None,
        shares: Shares {
            interrupt: per_frame * left,
            poll: 0.0,
            protocol: left * queue.busy(),
            available: left * queue.idle(),
        },
        exact: false,
        notes: vec![note],
    })
}

/// Returns tau_e, the mean number of frames per interrupt, and the mean wait of a frame for the interrupt (s).
fn frames_an_interrupt(lambda: f64, coalesce: &Coalesce) -> (f64, f64) {
    let on = |timer: Option<f64>| timer.filter(|seconds| *seconds > 0.0);
    if let Some(gap) = on(coalesce.min_gap_s) {
        let load = lambda * gap;
        // Interrupts are a renewal process with interval max(gap, first arrival): a frame within the gap waits for the
        // end of the gap.
        let frames = load + math::exp(-load);
        return (frames, 0.5 * load * gap / frames);
    }
    let absolute = on(coalesce.absolute_timer_s);
    if let Some(period) = coalesce.free_period_s()
        && coalesce.frames.is_none_or(|frames| frames == 1)
        && on(coalesce.packet_timer_s).is_none()
    {
        // Mean frames in a period with at least one frame; each frame waits for half a period on average.
        let load = lambda * period;
        let some = -math::exp_m1(-load);
        return (if some > 0.0 { load / some } else { 1.0 }, 0.5 * period);
    }
    let timers = match (on(coalesce.packet_timer_s), absolute) {
        (None, None) => None,
        (None, Some(timer)) => {
            let load = lambda * timer;
            Some((1.0 + load, (timer + 0.5 * load * timer) / (1.0 + load)))
        }
        (Some(quiet), limit) => Some(packet_timer(lambda, quiet, limit)),
    };
    let counted = |frames: u64| (frames as f64, (frames as f64 - 1.0) / (2.0 * lambda));
    match (coalesce.frames.filter(|frames| *frames > 1), timers) {
        (None, None) => (1.0, 0.0),
        (Some(frames), None) => counted(frames),
        (None, Some(timers)) => timers,
        // Count or timer, whichever comes first: exact with an absolute timer, where the number of frames is 1 +
        // min(tau - 1, Poisson); otherwise the smaller of the two means.
        (Some(frames), Some(timers)) => match (coalesce.packet_timer_s, absolute) {
            (None, Some(timer)) => count_or_timer(lambda, frames, timer),
            _ if (frames as f64) < timers.0 => counted(frames),
            _ => timers,
        },
    }
}

/// Returns mean number and mean wait (s) of frames per interrupt, if the interrupt comes with a count or a timer: the
/// number is 1 + min(tau - 1, N), with N Poisson over the timer.
fn count_or_timer(lambda: f64, frames: u64, timer_s: f64) -> (f64, f64) {
    let counts = crate::queue::arrivals::ArrivalCounts::new(
        &crate::queue::arrivals::TimeShape::Deterministic,
        lambda * timer_s,
        frames as usize,
    );
    // The mean time with i frames gathered is P(N >= i) / lambda (a gap between frames, cut by the timer); during it, i
    // frames wait.
    let reached = |i: usize| if i == 0 { 1.0 } else { counts.above[i - 1] };
    let further = frames as usize - 1;
    let mean: f64 = 1.0 + (1..=further).map(reached).sum::<f64>();
    let waited: f64 = (1..=further).map(|i| i as f64 * reached(i)).sum::<f64>() / lambda;
    (mean, waited / mean)
}

/// Returns tau_e and the mean wait (s) for a packet timer P, restarted by every frame, and an absolute timer A if
/// given: tau_e = 1 + lambda integral_0^A S(t) dt, where S(t) = P(the interrupt has not come t after the first frame).
fn packet_timer(lambda: f64, quiet_s: f64, limit_s: Option<f64>) -> (f64, f64) {
    let load = lambda * quiet_s;
    let Some(limit_s) = limit_s else {
        // The number F of frames until a gap longer than P is geometric with mean exp(lambda P). The i-th frame waits
        // for all gaps after it, on average E[F(F-1)]/(2 E[F]) = exp(lambda P) - 1 gaps, and then for P.
        let more = math::exp_m1(load).min(1e300);
        let gap_s = if load < 1e-6 { 0.5 * quiet_s } else { 1.0 / lambda - quiet_s / math::exp_m1(load) };
        return (1.0 + more, quiet_s + more * gap_s);
    };
    let integral = survival_integral(lambda, quiet_s, limit_s);
    let frames = 1.0 + lambda * integral;
    // Assumes that frames are spread evenly over the gathering: the first frame waits for all of it, the others on
    // average for half of it.
    (frames, integral * (1.0 + 0.5 * lambda * integral) / frames)
}

/// Integral of the survival function S over 0..A: S = 1 below P, a drop by exp(-lambda P) at P, then S'(t) = -lambda
/// exp(-lambda P) S(t-P). Trapezoid rule with 4000 steps; error below 1e-6 of A.
fn survival_integral(lambda: f64, quiet_s: f64, limit_s: f64) -> f64 {
    if limit_s <= quiet_s {
        return limit_s;
    }
    const STEPS: usize = 4000;
    let step = limit_s / STEPS as f64;
    let drop = math::exp(-lambda * quiet_s);
    let mut cumulative = vec![0.0; STEPS + 1];
    let mut survival: f64 = 1.0;
    for i in 1..=STEPS {
        let t = i as f64 * step;
        let next = if t <= quiet_s {
            1.0
        } else {
            // S(t) = 1 - drop - lambda drop integral_0^(t-P) S.
            let place = (t - quiet_s) / step;
            let (whole, part) = (place as usize, place.fract());
            let area = cumulative[whole] + part * (cumulative[(whole + 1).min(i - 1)] - cumulative[whole]);
            (1.0 - drop - lambda * drop * area).max(0.0)
        };
        cumulative[i] = cumulative[i - 1] + 0.5 * step * (survival + next);
        survival = next;
    }
    cumulative[STEPS]
}
