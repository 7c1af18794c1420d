//! Measures the most promising suggestion that can be applied here: searches for the cliff alternate between the
//! settings with and without the suggestion.

use netcliff_core::finding::{Change, Tried};
use netcliff_core::finding::{FigurePath, WholeFigure};
use netcliff_core::{Figure, Finding};

use super::cliff::{self, Question};
use super::later::{Later, highest};
use super::plan::{TRIED_ROUNDS, TRIED_ROUNDS_QUICK};
use super::recorder::{Recorder, Stage};
use super::{base, missing};
use netcliff_stats::contrast::Estimate;
use netcliff_stats::{CONFIDENCE, median};
use netcliff_trial::rig::RigOptions;
use netcliff_trial::trial::TrialShape;

/// Measures the first suggestion that can be applied here. The result is stored with the suggestion; if it cannot be
/// measured, the reason is stored in `missing`.
pub fn best(later: &mut Later<'_, '_>, finding: &mut Finding) {
    let found = finding.suggestions.iter().enumerate().find_map(|(place, tried)| Some((place, tried.change?)));
    let outcome = match (found, finding.cliff_pps.wire) {
        (Some((place, change)), Some(cliff)) => {
            later.stage(&format!("trying {}", finding.suggestions[place].setting));
            let gain = finding.suggestions[place].gain.map_or(0.0, |gain| gain.value);
            let near_pps = [cliff.value, cliff.value * (1.0 + gain)];
            rounds(later, change, near_pps, finding).map(|tried| (place, tried))
        }
        (None, _) if finding.suggestions.is_empty() => Err("no setting is expected to raise the cliff".to_owned()),
        (None, _) => Err("no suggestion can be tried on this testbed automatically".to_owned()),
        (_, None) => Err("no cliff was measured".to_owned()),
    };
    match outcome {
        Ok((place, tried)) => finding.suggestions[place].tried = Some(tried),
        Err(why) => missing(finding, FigurePath::Whole(WholeFigure::SuggestionTried), why),
    }
    later.is_stopped(finding);
}

fn rounds(later: &mut Later<'_, '_>, change: Change, near_pps: [f64; 2], finding: &Finding) -> Result<Tried, String> {
    let rounds = if later.options.settings.quick { TRIED_ROUNDS_QUICK } else { TRIED_ROUNDS };
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let mut pair = [0.0; 2];
        // Alternate the order of the two set-ups from round to round.
        for place in [round % 2, 1 - round % 2].map(|place| place as usize) {
            let SetUp { rig, shape } = SetUp::of(later, (place == 1).then_some(change), u64::from(round));
            pair[place] = later.on(&rig, |later, bench, _| cliff_pps(later, bench, shape, near_pps[place], finding))?;
        }
        pairs.push(pair);
    }
    Ok(medians(&pairs))
}

/// Medians of the cliffs with and without the suggestion, and the gain: geometric mean over the rounds of with /
/// without, minus 1.
fn medians(pairs: &[[f64; 2]]) -> Tried {
    let cliff = |place: usize| {
        let each: Vec<f64> = pairs.iter().map(|pair| pair[place]).collect();
        median(&each).unwrap_or(Figure::exact(each[0]))
    };
    let ratios: Vec<f64> = pairs.iter().map(|[without, with]| (with / without).ln()).collect();
    let mean = Estimate::of(&ratios).unwrap_or(Estimate::exact(ratios[0])).figure(CONFIDENCE);
    let gain = |ln_ratio: f64| ln_ratio.exp_m1();
    let gain = match mean.interval {
        Some(ends) => Figure::between(gain(mean.value), gain(ends.low), gain(ends.high), ends.confidence),
        None => Figure::exact(gain(mean.value)),
    };
    Tried { rounds: pairs.len() as u32, without_pps: cliff(0), with_pps: cliff(1), gain }
}

/// One of the two set-ups of a round.
struct SetUp {
    rig: RigOptions,
    shape: TrialShape,
}

impl SetUp {
    fn of(later: &Later<'_, '_>, change: Option<Change>, round: u64) -> Self {
        let mut rig = later.options.rig.clone();
        let mut shape = base(later.options, later.plan);
        // Both set-ups of a round have the same seed, so that their searches try the same loads relative to the
        // expected cliff.
        shape.seed += 300_000 + 7_919 * round;
        match change {
            None => {}
            Some(Change::NetdevMaxBacklog(packets)) => rig.sysctls.netdev_max_backlog = Some(packets),
            Some(Change::ReceiveBufferBytes(bytes)) => shape.receive_buffer_bytes = bytes,
        }
        Self { rig, shape }
    }
}

/// The cliff found by one search (pps).
fn cliff_pps(
    later: &Later<'_, '_>,
    bench: &mut Recorder<'_>,
    shape: TrialShape,
    near_pps: f64,
    finding: &Finding,
) -> Result<f64, String> {
    bench.enter(Stage::Search);
    let capacity_pps = later.basis.capacity_pps.max(near_pps);
    let own = later.plan.question(shape, highest(finding), near_pps, capacity_pps);
    let question = Question { searches: 1, ..own };
    let cliffs = cliff::search(bench, &question).map_err(|error| error.to_string())?;
    if cliffs.stopped {
        return Err("stopped before all rounds were made".to_owned());
    }
    cliffs.own().map(|cliff| cliff.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drift that affects both set-ups of a round equally cancels in their ratio.
    #[test]
    fn the_gain_is_that_of_the_rounds() {
        let tried = medians(&[[400e3, 440e3], [300e3, 330e3], [350e3, 385e3]]);
        assert!((tried.gain.value - 0.1).abs() < 1e-9);
        assert!(tried.gain.interval.is_none_or(|ends| ends.high - ends.low < 1e-6));
        assert_eq!((tried.rounds, tried.without_pps.value, tried.with_pps.value), (3, 350e3, 385e3));
        let ends = medians(&[[400e3, 440e3], [400e3, 420e3], [400e3, 460e3]]).gain.interval.expect("of three");
        assert!(ends.low < 0.05 && ends.high > 0.15, "{ends:?}");
    }
}
