//! Estimates the memory and time of a solution before it starts. A solution that needs more than a user would wait for
//! is refused with a reason.

use netcliff_core::units;

use super::Work;
use super::gathered::Gathering;
use crate::queue::arrivals::TimeShape;

/// Largest M/G/1/K that is solved (places); a dozen numbers are stored for each place.
const MOST_PLACES: u64 = 1 << 22;
/// Maximum number of additions in the recursion of M/G/1/K, which take some seconds.
const MOST_ADDITIONS: f64 = 5e9;
/// Longest mean wait for an interrupt that is accepted (s).
const LONGEST_WAIT_S: f64 = netcliff_core::bounds::LONGEST_S;

/// Checks that the M/G/1/K of the scheme with this name can be solved in acceptable memory and time. The error is the
/// reason why not.
pub fn mg1k(scheme: &str, work: &Work) -> Result<(), String> {
    if work.places > MOST_PLACES {
        return Err(format!(
            "{scheme} keeps a dozen numbers a slot: a ring of {} needs more memory than the {MOST_PLACES} it is solved with; use \
             a smaller ring, or the simulator",
            work.places
        ));
    }
    let places = work.places as f64;
    let mean_load = work.arrival_pps * work.service_s;
    let width = match &work.shape {
        TimeShape::Exponential | TimeShape::Hyperexponential(_) if work.mixture.len() <= 4 => 1.0,
        // Poisson tails become zero at this distance above their mean.
        TimeShape::Deterministic | TimeShape::Erlang(_) => {
            let largest = work.mixture.iter().map(|(_, factor)| *factor).fold(1.0, f64::max) * mean_load;
            (largest + 40.0 * largest.sqrt() + 300.0).min(places)
        }
        _ => places,
    };
    let additions = places * width;
    if additions > MOST_ADDITIONS {
        return Err(format!(
            "a ring of {} with times of this distribution needs {additions:.1e} additions: use a smaller ring, service = \
             exponential, or the simulator",
            work.places
        ));
    }
    Ok(())
}

/// Checks that a gathering of packets before an interrupt ends in acceptable time. The error is the reason why not.
pub fn gathering(work: &Work, gathering: Gathering) -> Result<(), String> {
    let Some(timer_s) = gathering.packet_timer_s else { return Ok(()) };
    let (_, mean_s, _) = gathering.solve(work.arrival_pps, work.places as usize);
    if mean_s <= LONGEST_WAIT_S {
        return Ok(());
    }
    Err(format!(
        "at {} every packet restarts the packet timer of {} before it fires, those that are dropped too: an interrupt comes \
         once in {mean_s:.1e} s. Set usecs or frames with it, or drops_interrupt=false",
        units::print_pps(work.arrival_pps),
        units::print_time_s(timer_s)
    ))
}
