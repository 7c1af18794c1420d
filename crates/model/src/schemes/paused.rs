//! A scheme on a CPU with pauses, during which it does no work: the scheme's chain x (working, stages of a pause).
//! Arrivals and their interrupts occur at all times. Exact for exponential times and for pause lengths made of
//! exponential stages.

use netcliff_core::host::Pauses;
use netcliff_core::note::Note;
use netcliff_core::{CpuShares, Figure, Outcome, Scheme, Service};

use super::modulated::{Environment, Modulated, stages};
use super::{Work, chain, exponential_only, modulated_ring, napi};
use crate::answer::Ring;
use netcliff_core::engine::Fidelity;

/// Maximum number of phases (stage, state) of a level: with this number, block reduction takes about a second per
/// hundred levels.
const MOST_PHASES: u64 = 140;

/// Checks that pauses are supported with this scheme; the error is the reason why not.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: &Service, pauses: &Pauses) -> Result<(), String> {
    if fidelity != Fidelity::Exact {
        return Err("the paper knows no pauses: use fidelity exact, or leave out pause and pause_every".to_owned());
    }
    let Some(pause_stages) = stages(&pauses.times) else {
        return Err(format!(
            "pauses are solved with lengths of exponential stages, not with pause_times={}: use exponential or erlang:K, or \
             the simulator",
            pauses.times
        ));
    };
    let scheme_stages = match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => 2,
        Scheme::Napi(own) => {
            napi::supported_without_moderation(own, fidelity)?;
            napi::chain_phases(own)
        }
        other => {
            return Err(format!(
                "pauses are solved for ideal, interrupt, disable-enable and napi, not for {}: use the simulator",
                other.name()
            ));
        }
    };
    let phases = scheme_stages * (1 + u64::from(pause_stages));
    if phases > MOST_PHASES {
        return Err(format!(
            "{} with pause_times={} has {phases} states a packet in the ring, more than the {MOST_PHASES} it is solved with: \
             use fewer stages or a smaller weight, or the simulator",
            scheme.name(),
            pauses.times
        ));
    }
    exponential_only(scheme, service)
}

/// Solves a supported scheme; the error is a reason for the user. CPU shares are relative to the time in which the CPU
/// works.
pub fn solve(scheme: &Scheme, work: &Work, pauses: &Pauses) -> Result<Ring, String> {
    let environment = Environment::of_pauses(pauses)
        .ok_or_else(|| format!("pauses with pause_times={} have no Markov chain: use the simulator", pauses.times))?;
    let chain = chain(scheme, work)?;
    let modulated = Modulated::new(work, &chain, environment);
    let mut ring = modulated_ring(&modulated, scheme, &modulated.solution()?);
    if work.quantiles {
        ring.notes.push(Note::NoQuantilesWithPauses);
    }
    Ok(ring)
}

/// Converts the outcome's CPU shares, which are relative to the time in which the CPU works, to shares of all time.
pub fn with_paused_time(outcome: &mut Outcome, pauses: &Pauses) {
    let Some(cpu) = &mut outcome.cpu else { return };
    let taken = pauses.share();
    let of_all = |share: Option<Figure>| share.map(|figure| figure.scaled(1.0 - taken));
    *cpu = CpuShares {
        interrupt: of_all(cpu.interrupt),
        poll: of_all(cpu.poll),
        protocol: of_all(cpu.protocol),
        application: of_all(cpu.application),
        paused: Some(Figure::exact(taken)),
        available: of_all(cpu.available),
    };
}
