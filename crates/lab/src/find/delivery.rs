//! How long an interrupt takes to reach a host behind a NIC, by simulation.
//!
//! What a poll finds came while moderation held the interrupt back and while it was on its way. With the moderation known, the latency is
//! the one with which the simulator polls as often as the trial did: fewer times, the longer it is. Not by interrupts: those of a NIC that does
//! not mask come while NAPI polls, too, and other devices have theirs. It is sought in trials that lost next to
//! nothing; the median over those near the cliff counts for the cliff. Its interval is that of the trials, not of the other costs.
//!
//! Where what delivers it has to wait for a CPU it grows with the load: 0 at 7 kpps and 75 us at 40 in a guest whose devices waited for the sender
//! (docs/results/2026-11-26-vm). So a load is computed with what trials at loads like it told: calibration's, whose costs they are, and those near the cliff.

use std::sync::atomic::AtomicBool;

use super::engines::Predictor;
use crate::bench::{Counts, value};
use crate::calibrate::Calibrated;
use crate::stats;

/// Longest latency that is looked for (s), and how near it is found: in this many halvings, to 2 us.
const LONGEST_S: f64 = 1e-3;
const HALVINGS: u32 = 9;
/// Most trials of a kind that are asked, and fewest that tell it for the cliff.
const MOST_TRIALS: usize = 10;
const FEWEST_TRIALS: usize = 3;
/// Packets simulated for an answer: polls a second to half a percent.
const PACKETS: u64 = 50_000;
/// Loads within this share of each other are one.
const ALIKE: f64 = 0.15;

/// Interrupt latencies (s) by the loads (pps) of the trials that told them.
pub type Latencies = Vec<(f64, f64)>;

/// The host at present, or else as calibrated, with the latency that follows from these trials of what `computed` predicts with it, and the latencies;
/// where too few of them tell one, the host at present as it is.
pub fn told(
    calibrated: &Calibrated,
    present: Option<Calibrated>,
    trials: &[Counts],
    stop: &AtomicBool,
    computed: impl FnOnce(&Calibrated) -> Predictor,
) -> (Option<Calibrated>, Latencies) {
    let own = present.as_ref().unwrap_or(calibrated);
    let computed = computed(own);
    let latencies = of_trials(&computed, trials, stop).unwrap_or_default();
    if latencies.len() < FEWEST_TRIALS {
        return (present, latencies);
    }
    let each_s: Vec<f64> = latencies.iter().map(|(_, latency_s)| *latency_s).collect();
    (own.with_latency_of(&each_s, computed.seed).or(present), latencies)
}

/// What each of the trials tells, of up to so many; None after a stop.
pub fn of_trials(computed: &Predictor, trials: &[Counts], stop: &AtomicBool) -> Option<Latencies> {
    let tells = |counts: &&Counts| counts.polls > 0.0 && counts.packets > 0.0 && counts.elapsed_s > 0.0;
    let usable: Vec<&Counts> = trials.iter().filter(tells).collect();
    let step = usable.len().div_ceil(MOST_TRIALS).max(1);
    let mut begun = Vec::new();
    for counts in usable.into_iter().step_by(step) {
        let (load_pps, per_s) = (counts.packets / counts.elapsed_s, counts.polls / counts.elapsed_s);
        begun.push((load_pps, computed.begin(move |computed, _| latency_s(computed, load_pps, per_s))));
    }
    let mut found = Vec::new();
    for (load_pps, one) in begun {
        found.extend(one.unless(stop)?.map(|latency_s| (load_pps, latency_s)));
    }
    Some(found)
}

/// Medians over trials at loads that are alike, by rising load.
pub fn curve(mut found: Latencies) -> Latencies {
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let alike = |one: &(f64, f64), other: &(f64, f64)| other.0 <= (1.0 + ALIKE) * one.0;
    let median = |group: &[(f64, f64)]| {
        let of = |pick: fn(&(f64, f64)) -> f64| stats::median(&group.iter().map(pick).collect::<Vec<f64>>());
        Some((of(|told| told.0)?.value, of(|told| told.1)?.value))
    };
    found.chunk_by(alike).filter_map(median).collect()
}

/// The latency (s) at a load between those of a curve, or at its nearer end; None without one.
pub fn at(curve: &[(f64, f64)], load_pps: f64) -> Option<f64> {
    let above = curve.iter().position(|(own_pps, _)| *own_pps >= load_pps);
    Some(match above {
        None => curve.last()?.1,
        Some(0) => curve[0].1,
        Some(place) => {
            let ((low_pps, low_s), (high_pps, high_s)) = (curve[place - 1], curve[place]);
            low_s + (high_s - low_s) * (load_pps - low_pps) / (high_pps - low_pps)
        }
    })
}

/// The latency (s) with which there are `per_s` polls a second at a load; None where none up to the longest does.
fn latency_s(computed: &Predictor, load_pps: f64, per_s: f64) -> Option<f64> {
    let simulated = |latency_s: f64| {
        let mut asked = Predictor { packets: PACKETS, ..computed.clone() };
        asked.host.interrupt_latency_s = latency_s;
        asked.latencies.clear();
        value(asked.sim_at(load_pps).ok()?.polls_per_s)
    };
    if simulated(0.0)? <= per_s {
        return Some(0.0);
    }
    let (mut low_s, mut high_s) = (0.0, LONGEST_S);
    if simulated(high_s)? > per_s {
        return None;
    }
    for _ in 0..HALVINGS {
        let middle_s = 0.5 * (low_s + high_s);
        if simulated(middle_s)? > per_s {
            low_s = middle_s;
        } else {
            high_s = middle_s;
        }
    }
    Some(0.5 * (low_s + high_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::Host;

    fn host(latency_s: f64) -> Host {
        Host {
            interrupt_latency_s: latency_s,
            interrupt_s: 5e-6,
            protocol_s: 9e-6,
            poll_s: 20e-6,
            application_s: Some(6e-6),
            ..Host::preset("pentium4-2530mhz").expect("a preset")
        }
    }

    fn trial(computed: &Predictor, load_pps: f64) -> Counts {
        let outcome = computed.sim_at(load_pps).expect("the simulator answers");
        let polls = value(outcome.polls_per_s).expect("it counts them");
        Counts { elapsed_s: 1.0, packets: load_pps, polls, ..Counts::default() }
    }

    /// With a gap, and without one; the trials are simulated from another seed.
    #[test]
    fn the_latency_behind_moderation_is_found() {
        for scheme in ["napi:weight=64,min_gap=128us,gap=direct", "napi:weight=64,rx_usecs=50us", "napi:weight=64"] {
            let truth = Predictor { seed: 7, packets: 200_000, ..Predictor::of(host(60e-6), scheme) };
            let trials: Vec<Counts> = [8e3, 12e3, 16e3, 20e3].map(|load_pps| trial(&truth, load_pps)).to_vec();
            let asked = Predictor::of(host(0.0), scheme);
            let found = of_trials(&asked, &trials, &AtomicBool::new(false)).expect("four trials");
            let each_s: Vec<f64> = found.iter().map(|told| told.1).collect();
            let median_s = stats::median(&each_s).expect("four").value;
            assert!((median_s / 60e-6 - 1.0).abs() < 0.1, "{scheme}: {found:?}");
        }
    }

    /// The interrupt takes longer the higher the load: each load is computed with its own.
    #[test]
    fn a_latency_that_grows_with_the_load_is_followed() {
        let scheme = "napi:weight=64,min_gap=128us,gap=direct";
        let grows_s = |load_pps: f64| 5e-9 * load_pps;
        let truth =
            |load_pps: f64| Predictor { seed: 7, packets: 200_000, ..Predictor::of(host(grows_s(load_pps)), scheme) };
        let loads_pps = [8e3, 8.1e3, 12e3, 16e3, 20e3];
        let trials: Vec<Counts> = loads_pps.map(|load_pps| trial(&truth(load_pps), load_pps)).to_vec();
        let found =
            of_trials(&Predictor::of(host(0.0), scheme), &trials, &AtomicBool::new(false)).expect("five trials");
        let curve = curve(found);
        assert_eq!(curve.len(), 4, "two loads are alike: {curve:?}");
        for load_pps in [10e3, 12e3, 18e3] {
            let told_s = at(&curve, load_pps).expect("a curve");
            assert!((told_s / grows_s(load_pps) - 1.0).abs() < 0.25, "{told_s} at {load_pps}");
        }
        assert_eq!((at(&curve, 1.0), at(&curve, 1e6)), (Some(curve[0].1), Some(curve[3].1)));
        assert_eq!(at(&[], 1e3), None);
        let fixed = Predictor::of(host(300e-6), scheme);
        let with = Predictor { latencies: curve, ..fixed.clone() };
        let interrupts =
            |computed: &Predictor| value(computed.sim_at(12e3).expect("an answer").interrupts_per_s).expect("some");
        let truly = interrupts(&truth(12e3));
        assert!((interrupts(&with) / truly - 1.0).abs() < 0.05 && interrupts(&fixed) < 0.8 * truly);
        assert!(with.sim_at(12e3).expect("an answer").notes.iter().any(|note| note.contains("interrupt latency")));
    }

    #[test]
    fn too_few_trials_tell_nothing() {
        let asked = Predictor::of(host(0.0), "napi:weight=64");
        let one = Counts { elapsed_s: 1.0, packets: 1e4, polls: 8e3, ..Counts::default() };
        let plan = crate::calibrate::Plan { rounds: 2, rough_pps: 400e3, backlog: false };
        let mut exact = crate::calibrate::tests::Exact::default();
        let calibrated =
            crate::calibrate::calibrate(&mut exact, &crate::calibrate::tests::base(), plan).expect("costs");
        let trials = [one.clone(), one.clone()];
        let (present, latencies) = told(&calibrated, None, &trials, &AtomicBool::new(false), |_| asked.clone());
        assert!(present.is_none() && latencies.len() == 2);
        // More polls than without any latency.
        let often = Counts { polls: 1e6, ..one };
        let found = of_trials(&asked, &[often.clone(), often.clone(), often], &AtomicBool::new(false));
        assert_eq!(found, Some(vec![(1e4, 0.0); 3]));
    }
}
