//! Loads of the sweep that contradict the measured cliff, and why.

use netcliff_core::Finding;
use netcliff_core::finding::{CliffBounds, Contradiction};

use super::reading::{self, Reading};
use netcliff_mlrsearch::Goal;
use netcliff_mlrsearch::trial::Answer;
use netcliff_trial::bench::Observation;

/// Factor around a load: the searches' trials at loads within this factor show how often the load passes.
const NEIGHBOURS: f64 = 1.1;
/// If the share of the searches' trials near a load (within [`NEIGHBOURS`]) that lose more than the target is between
/// this value and 1 minus this value, the result at the load is due to chance.
const CHANCE: f64 = 0.1;

/// Multiple of the target loss: a load up to the cliff that loses more contradicts the cliff, even inside the cliff's
/// interval.
const FAR_MISSED: f64 = 100.0;

/// Trials at a load.
struct At<'a> {
    load_pps: f64,
    /// (observation, reading, loss without disturbances) of valid trials.
    trials: Vec<(&'a Observation, Reading, f64)>,
}

/// Returns the loads of the sweep that contradict the cliff: loads below the interval of the host's own cliff at which
/// most trials lost more than the target, loads above it at which most did not, and loads up to the cliff itself that
/// lost far more.
pub fn all(
    swept: &[Observation],
    searched: &[(Observation, Reading)],
    finding: &Finding,
    goal: &Goal,
    capacity_pps: f64,
) -> Vec<Contradiction> {
    let Some(bounds) = finding.searches.as_ref().map(|searches| &searches.own) else { return Vec::new() };
    let cliff_pps = finding.cliff_pps.wire.map(|cliff| cliff.value);
    by_load(swept, capacity_pps)
        .iter()
        .filter_map(|at| contradiction(at, (bounds, cliff_pps), searched, goal))
        .collect()
}

fn by_load(swept: &[Observation], capacity_pps: f64) -> Vec<At<'_>> {
    let mut all: Vec<At<'_>> = Vec::new();
    for observation in swept {
        let reading = reading::read(observation, capacity_pps);
        let Some(loss) = loss(&reading.own) else { continue };
        let load_pps = observation.spec.rate_pps;
        match all.iter_mut().find(|at| at.load_pps == load_pps) {
            Some(at) => at.trials.push((observation, reading, loss)),
            None => all.push(At { load_pps, trials: vec![(observation, reading, loss)] }),
        }
    }
    all
}

fn loss(answer: &Answer) -> Option<f64> {
    match answer {
        Answer::Valid(trial) => Some(trial.loss_ratio()),
        Answer::Void { .. } => None,
    }
}

fn contradiction(
    at: &At<'_>,
    (bounds, cliff_pps): (&CliffBounds, Option<f64>),
    searched: &[(Observation, Reading)],
    goal: &Goal,
) -> Option<Contradiction> {
    let lost = at.trials.iter().filter(|(.., loss)| *loss > goal.loss_ratio).count() as f64;
    let failed = lost > goal.exceed_ratio * at.trials.len() as f64;
    let is_below = bounds.lower_pps.is_some_and(|lower| at.load_pps < lower);
    let is_above = bounds.upper_pps.is_some_and(|upper| at.load_pps > upper);
    let mean = at.trials.iter().map(|(.., loss)| loss).sum::<f64>() / at.trials.len() as f64;
    // Near the cliff, chance decides whether the target is met, but not the amount by which it is missed.
    let far_missed = failed && mean > FAR_MISSED * goal.loss_ratio.max(1e-5);
    let is_at = cliff_pps.is_some_and(|cliff_pps| at.load_pps <= cliff_pps * (1.0 + 1e-6));
    let by_chance = chance(at, searched, goal).is_some();
    if !(is_below && failed || is_above && !failed || is_at && far_missed && !by_chance) {
        return None;
    }
    Some(Contradiction { load_pps: at.load_pps, loss: mean, cause: cause(at, failed, searched, goal) })
}

/// Counts the searches' trials near this load: (trials that lost more than the target, all valid trials). `None` unless
/// both passing and failing are so frequent ([`CHANCE`]) that the result of one trial of the sweep is due to chance.
fn chance(at: &At<'_>, searched: &[(Observation, Reading)], goal: &Goal) -> Option<(usize, usize)> {
    let near = |pps: f64| (1.0 / NEIGHBOURS..NEIGHBOURS).contains(&(pps / at.load_pps));
    let neighbours: Vec<f64> = searched
        .iter()
        .filter(|(observation, _)| near(observation.spec.rate_pps))
        .filter_map(|(_, reading)| loss(&reading.own))
        .collect();
    let exceeding = neighbours.iter().filter(|loss| **loss > goal.loss_ratio).count();
    let share = exceeding as f64 / neighbours.len().max(1) as f64;
    (CHANCE..=1.0 - CHANCE).contains(&share).then_some((exceeding, neighbours.len()))
}

/// Describes the first cause in the order of this function that the measurements support.
fn cause(at: &At<'_>, failed: bool, searched: &[(Observation, Reading)], goal: &Goal) -> String {
    if let Some((exceeding, all)) = chance(at, searched, goal) {
        return format!(
            "{exceeding} of {all} trials of the searches within 10 % of this load lost more than the target: the host differs from trial to \
             trial, and the sweep has {} here",
            at.trials.len()
        );
    }
    if failed && at.trials.iter().any(|(observation, ..)| observation.slots.host_pauses.is_none()) {
        return "pauses of the host's CPU were not measured in this run and may have caused it; the searches' trials near this load did \
                not lose as much"
            .to_owned();
    }
    let speeds = [per_packet_s(at.trials.iter().map(|(o, ..)| *o)), per_packet_s(searched.iter().map(|(o, _)| o))];
    if let [Some(here_s), Some(there_s)] = speeds {
        let slower = here_s / there_s - 1.0;
        let direction = if slower > 0.0 { "more" } else { "less" };
        if (slower > 0.0) == failed && slower.abs() > 0.05 {
            return format!(
                "a packet's protocol work took {:.0} % {direction} time in this trial than in the searches: the machine's speed changed",
                100.0 * slower.abs()
            );
        }
    }
    "no pause, stall or change of speed was measured that explains it: the host was in another state than in the searches".to_owned()
}

/// Protocol time per packet (s); `None` if not metered.
fn per_packet_s<'a>(observations: impl Iterator<Item = &'a Observation>) -> Option<f64> {
    let (mut time_s, mut packets) = (0.0, 0.0);
    for counts in observations.filter_map(|observation| observation.counts.as_ref()) {
        time_s += counts.protocol_s;
        packets += counts.packets;
    }
    (packets > 0.0).then(|| time_s / packets)
}
