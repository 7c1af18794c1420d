//! Estimates by simulation how long an interrupt takes to reach a host with a NIC (its latency), and how late the NIC
//! ends a gap between two interrupts.
//!
//! A poll finds the packets that arrived while moderation delayed the interrupt, and while it was being delivered. If
//! the moderation is known, the latency is estimated as the value with which the simulator polls as often as the trial
//! did: the longer the latency, the fewer polls. It is estimated from trials that lost almost nothing; at the cliff,
//! the median over trials near the cliff is used. Its interval includes the spread of the trials, not the uncertainty
//! of the other costs.
//!
//! If the delivery has to wait for a CPU, the latency grows with the load: 0 at 7 kpps and 75 us at 40 kpps in a guest
//! whose devices waited for the sender (docs/accuracy.md). So a load is computed with the latency from trials at
//! similar loads, either of the calibration or near the cliff. Each trial is evaluated at its own speed, because polls
//! of a slower host find more packets without any latency.
//!
//! An emulated NIC ends its gap by a timer of its host, which fires late: by 30 us in the median in QEMU
//! (docs/accuracy.md), by less if the thread that runs its timers is busy. If polls do not mask interrupts
//! ([`Gap::Echo`]), the number of interrupts shows this lateness separately from the polls; otherwise interrupts and
//! polls are equally many, and the lateness is part of the latency.

use std::sync::atomic::AtomicBool;

use netcliff_core::Scheme;
use netcliff_core::scheme::Gap;

pub use super::engines::Timing;
use super::engines::{ByLoad, Predictor};
use crate::calibrate::Calibrated;
use netcliff_stats as stats;
use netcliff_trial::bench::{Counts, value};

/// Longest latency that is searched for (s): a longer time is not a delivery time but shows a host in another state,
/// whose ksoftirqd polls.
const LONGEST_S: f64 = 250e-6;
/// Number of halvings of this range: they determine the latency to 2 us.
const HALVINGS: u32 = 7;
/// Largest number of trials of a kind that are evaluated.
const MOST_TRIALS: usize = 10;
/// Smallest number of estimates from which the latency at the cliff is taken.
const FEWEST_TRIALS: usize = 3;
/// Packets simulated per evaluation, which give the polls per second to half a percent.
const PACKETS: u64 = 50_000;
/// Relative difference up to which loads count as equal.
const ALIKE: f64 = 0.15;
/// Largest number of trials from which the lateness of a gap's end is estimated: each estimate takes as long as ten
/// estimates of the latency.
const MOST_FOR_GAP: usize = 4;

/// Returns `timing` with the estimates of similar loads merged to their median, by rising load.
pub fn curved(timing: &Timing) -> Timing {
    Timing { latencies: curve(timing.latencies.clone()), gap_lates: curve(timing.gap_lates.clone()) }
}

/// Function that returns the predictor scaled to the speed of given trials; `None` if the speed cannot be estimated
/// from them.
pub type AtSpeed<'a> = &'a dyn Fn(&[Counts]) -> Option<Predictor>;

/// Returns `present` (or `calibrated` if `present` is `None`) with the interrupt latency set to the median of the
/// estimates from `trials`, and all estimates. With fewer than [`FEWEST_TRIALS`] estimates, returns `present`
/// unchanged. `computed` makes the predictor for trials whose speed cannot be estimated.
pub fn estimated(
    calibrated: &Calibrated,
    present: Option<Calibrated>,
    trials: &[Counts],
    stop: &AtomicBool,
    computed: impl FnOnce(&Calibrated) -> Predictor,
    at_speed_of: AtSpeed<'_>,
) -> (Option<Calibrated>, Timing) {
    let own = present.as_ref().unwrap_or(calibrated);
    let computed = computed(own);
    let estimates = of_trials(&computed, trials, at_speed_of, stop).unwrap_or_default();
    if estimates.latencies.len() < FEWEST_TRIALS {
        return (present, estimates);
    }
    let each_s: Vec<f64> = estimates.latencies.iter().map(|(_, latency_s)| *latency_s).collect();
    (own.with_latency_of(&each_s, computed.seed).or(present), estimates)
}

/// Estimates interrupt latency and lateness of gaps from each trial, up to a maximum number, at the trial's own speed,
/// or with `computed` if that speed cannot be estimated. `None` after a stop.
pub fn of_trials(
    computed: &Predictor,
    trials: &[Counts],
    at_speed_of: AtSpeed<'_>,
    stop: &AtomicBool,
) -> Option<Timing> {
    let tells = |counts: &&Counts| counts.polls > 0.0 && counts.packets > 0.0 && counts.elapsed_s > 0.0;
    let usable: Vec<&Counts> = trials.iter().filter(tells).collect();
    let step = usable.len().div_ceil(MOST_TRIALS).max(1);
    let asked = |counts: &Counts| {
        let own = at_speed_of(std::slice::from_ref(counts)).unwrap_or_else(|| computed.clone());
        Asked::of(counts, Predictor { packets: PACKETS, timing: Timing::default(), ..own })
    };
    let mut asked: Vec<Asked> = usable.into_iter().step_by(step).map(asked).collect();
    let mut gap_lates = Vec::new();
    if echoes(&computed.scheme) {
        let step = asked.len().div_ceil(MOST_FOR_GAP).max(1);
        let some: Vec<Asked> = asked.iter().step_by(step).cloned().collect();
        gap_lates = each(&some, stop, Asked::gap_late_s)?;
        let known = curve(gap_lates.clone());
        asked.iter_mut().for_each(|one| one.computed.timing.gap_lates.clone_from(&known));
    }
    let latencies = each(&asked, stop, Asked::latency_s)?;
    Some(Timing { latencies, gap_lates })
}

/// A trial, and the predictor that evaluates it.
#[derive(Debug, Clone)]
struct Asked {
    /// The predictor at the trial's speed.
    computed: Predictor,
    load_pps: f64,
    polls_per_s: f64,
    raised_per_s: Option<f64>,
}

impl Asked {
    fn of(counts: &Counts, computed: Predictor) -> Self {
        let per_s = |count: f64| count / counts.elapsed_s;
        Self {
            computed,
            load_pps: per_s(counts.packets),
            polls_per_s: per_s(counts.polls),
            raised_per_s: counts.raised.map(per_s),
        }
    }

    /// The latency (s) with which the simulator polls as often as the trial did; `None` if it polls more often even at
    /// `LONGEST_S`.
    fn latency_s(&self) -> Option<f64> {
        sought_s(self.polls_per_s, |latency_s| {
            let mut asked = self.computed.clone();
            asked.host.interrupt_latency_s = latency_s;
            value(asked.sim_at(self.load_pps).ok()?.polls_per_s)
        })
    }

    /// Lateness (s) of a gap's end with which the simulator interrupts as often as the trial, using a latency that
    /// gives as many polls.
    fn gap_late_s(&self) -> Option<f64> {
        sought_s(self.raised_per_s?, |late_s| {
            let mut asked = self.clone();
            asked.computed.timing.gap_lates = vec![(self.load_pps, late_s)];
            asked.computed.host.interrupt_latency_s = asked.latency_s()?;
            value(asked.computed.sim_at(self.load_pps).ok()?.interrupts_per_s)
        })
    }
}

/// (load (pps), estimate (s)) of each trial that has an estimate, computed in parallel; `None` after a stop.
fn each(asked: &[Asked], stop: &AtomicBool, answer: fn(&Asked) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
    let begin = |one: &Asked| {
        let own = one.clone();
        (one.load_pps, one.computed.begin(move |_, _| answer(&own)))
    };
    let begun: Vec<_> = asked.iter().map(begin).collect();
    let mut found = Vec::new();
    for (load_pps, one) in begun {
        found.extend(one.unless(stop)?.map(|seconds| (load_pps, seconds)));
    }
    Some(found)
}

/// Merges estimates at similar loads to their median; sorted by rising load.
fn curve(mut found: ByLoad) -> ByLoad {
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let alike = |one: &(f64, f64), other: &(f64, f64)| other.0 <= (1.0 + ALIKE) * one.0;
    let median = |group: &[(f64, f64)]| {
        let of = |pick: fn(&(f64, f64)) -> f64| stats::median(&group.iter().map(pick).collect::<Vec<f64>>());
        Some((of(|estimate| estimate.0)?.value, of(|estimate| estimate.1)?.value))
    };
    found.chunk_by(alike).filter_map(median).collect()
}

/// True if the number of interrupts shows how late a gap ends.
fn echoes(scheme: &Scheme) -> bool {
    matches!(scheme, Scheme::Napi(napi) if napi.moderation.quirk.gap == Gap::Echo)
}

/// Bisects for the time (s) at which the simulated event rate falls to `per_s`. `None` if it stays above even at
/// `LONGEST_S`.
fn sought_s(per_s: f64, simulated: impl Fn(f64) -> Option<f64>) -> Option<f64> {
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
    use crate::engines::at;
    use netcliff_core::Host;
    use netcliff_core::note::Note;

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
        let (polls, raised) = (value(outcome.polls_per_s).expect("it counts them"), value(outcome.interrupts_per_s));
        Counts { elapsed_s: 1.0, packets: load_pps, polls, raised, ..Counts::default() }
    }

    /// Estimates a known latency, with a gap between interrupts and without one. The trials are simulated with another
    /// seed.
    #[test]
    fn the_latency_behind_moderation_is_found() {
        for scheme in ["napi:weight=64,min_gap=128us,gap=direct", "napi:weight=64,rx_usecs=50us", "napi:weight=64"] {
            let truth = Predictor { seed: 7, packets: 200_000, ..Predictor::of(host(60e-6), scheme) };
            let trials: Vec<Counts> = [8e3, 12e3, 16e3, 20e3].map(|load_pps| trial(&truth, load_pps)).to_vec();
            let asked = Predictor::of(host(0.0), scheme);
            let found = of_trials(&asked, &trials, &|_| None, &AtomicBool::new(false)).expect("four trials");
            let each_s: Vec<f64> = found.latencies.iter().map(|told| told.1).collect();
            let median_s = stats::median(&each_s).expect("four").value;
            assert!((median_s / 60e-6 - 1.0).abs() < 0.1, "{scheme}: {found:?}");
        }
    }

    /// The latency grows with the load, so each load is computed with its own latency.
    #[test]
    fn a_latency_that_grows_with_the_load_is_followed() {
        let scheme = "napi:weight=64,min_gap=128us,gap=direct";
        let grows_s = |load_pps: f64| 5e-9 * load_pps;
        let truth =
            |load_pps: f64| Predictor { seed: 7, packets: 200_000, ..Predictor::of(host(grows_s(load_pps)), scheme) };
        let loads_pps = [8e3, 8.1e3, 12e3, 16e3, 20e3];
        let trials: Vec<Counts> = loads_pps.map(|load_pps| trial(&truth(load_pps), load_pps)).to_vec();
        let found = of_trials(&Predictor::of(host(0.0), scheme), &trials, &|_| None, &AtomicBool::new(false))
            .expect("five trials");
        let curve = curve(found.latencies);
        assert_eq!(curve.len(), 4, "two loads are alike: {curve:?}");
        for load_pps in [10e3, 12e3, 18e3] {
            let told_s = at(&curve, load_pps).expect("a curve");
            assert!((told_s / grows_s(load_pps) - 1.0).abs() < 0.25, "{told_s} at {load_pps}");
        }
        assert_eq!((at(&curve, 1.0), at(&curve, 1e6)), (Some(curve[0].1), Some(curve[3].1)));
        assert_eq!(at(&[], 1e3), None);
        let fixed = Predictor::of(host(300e-6), scheme);
        let timing = Timing { latencies: curve, gap_lates: Vec::new() };
        let with = Predictor { timing, ..fixed.clone() };
        let interrupts =
            |computed: &Predictor| value(computed.sim_at(12e3).expect("an answer").interrupts_per_s).expect("some");
        let truly = interrupts(&truth(12e3));
        assert!((interrupts(&with) / truly - 1.0).abs() < 0.05 && interrupts(&fixed) < 0.8 * truly);
        assert!(with.sim_at(12e3).expect("an answer").notes.iter().any(|note| matches!(note, Note::AtLatency(..))));
    }

    /// The latency is estimated from the number of polls, the lateness of a gap's end from the number of interrupts, of
    /// which each gap has two.
    #[test]
    fn how_late_a_gap_ends_is_found_beside_the_latency() {
        let asked = Predictor::of(host(0.0), "napi:weight=64,gro_normal_batch=8,min_gap=81.92us,gap=echo");
        for (latency_s, late_s) in [(0.0, 30e-6), (40e-6, 30e-6), (40e-6, 0.0)] {
            let timing = Timing { gap_lates: vec![(1.0, late_s)], ..Timing::default() };
            let truth = Predictor { host: host(latency_s), timing, packets: 200_000, ..asked.clone() };
            let trials: Vec<Counts> = [6e3, 9e3, 12e3, 15e3].map(|load_pps| trial(&truth, load_pps)).to_vec();
            let found = of_trials(&asked, &trials, &|_| None, &AtomicBool::new(false)).expect("four trials");
            assert!(found.gap_lates.len() == 4, "it echoes: {found:?}");
            let told = |(_, found_s): &(f64, f64)| (found_s - late_s).abs() < 9e-6;
            assert!(found.gap_lates.iter().all(told), "{latency_s} {late_s}: {found:?}");
            let median_s = |told: &ByLoad| {
                let each_s: Vec<f64> = told.iter().map(|(_, found_s)| *found_s).collect();
                stats::median(&each_s).expect("four").value
            };
            assert!((median_s(&found.gap_lates) - late_s).abs() < 6e-6, "{latency_s} {late_s}: {found:?}");
            assert!((median_s(&found.latencies) - latency_s).abs() < 6e-6, "{latency_s} {late_s}: {found:?}");
            // Without counts of the NIC's interrupts, the lateness is not estimated.
            let unlisted: Vec<Counts> = trials.iter().map(|one| Counts { raised: None, ..one.clone() }).collect();
            let found = of_trials(&asked, &unlisted, &|_| None, &AtomicBool::new(false)).expect("four trials");
            assert_eq!(found.gap_lates, []);
        }
        let timing = Timing { latencies: vec![(6e3, 0.0)], gap_lates: vec![(6e3, 30e-6), (12e3, 20e-6)] };
        let with = Predictor { timing, ..asked.clone() };
        assert_eq!(with.sim_point(6e3).scheme.record(), format!("{},gap_late=30us", asked.scheme.record()));
        assert_eq!(with.sim_point(9e3).scheme.record(), format!("{},gap_late=25us", asked.scheme.record()));
        let notes = with.sim_at(6e3).expect("an answer").notes;
        assert!(notes.iter().any(|note| note.to_string().contains("a gap that ends 30us late")), "{notes:?}");
    }

    /// A trial on a host half as fast as calibrated gives its latency at that speed.
    #[test]
    fn a_trial_is_asked_at_its_own_speed() {
        let scheme = "napi:weight=64,min_gap=128us,gap=direct";
        let half_as_fast = |latency_s: f64| {
            let own = host(latency_s);
            let twice = |seconds: f64| 2.0 * seconds;
            Host {
                interrupt_s: twice(own.interrupt_s),
                protocol_s: twice(own.protocol_s),
                per_byte_s: twice(own.per_byte_s),
                poll_s: twice(own.poll_s),
                application_s: own.application_s.map(twice),
                ..own
            }
        };
        let truth = Predictor { seed: 7, packets: 200_000, ..Predictor::of(half_as_fast(40e-6), scheme) };
        let trials: Vec<Counts> = [8e3, 10e3, 12e3].map(|load_pps| trial(&truth, load_pps)).to_vec();
        let (asked, stop) = (Predictor::of(host(0.0), scheme), AtomicBool::new(false));
        let median_s = |told: Timing| {
            let each_s: Vec<f64> = told.latencies.iter().map(|told| told.1).collect();
            stats::median(&each_s).expect("three").value
        };
        let own = |_: &[Counts]| Some(Predictor::of(half_as_fast(0.0), scheme));
        let at_own_s = median_s(of_trials(&asked, &trials, &own, &stop).expect("three trials"));
        assert!((at_own_s / 40e-6 - 1.0).abs() < 0.15, "{at_own_s:e}");
        let as_calibrated_s = median_s(of_trials(&asked, &trials, &|_| None, &stop).expect("three trials"));
        assert!(as_calibrated_s > 1.5 * at_own_s, "{as_calibrated_s:e}");
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
        let (present, two) =
            estimated(&calibrated, None, &trials, &AtomicBool::new(false), |_| asked.clone(), &|_| None);
        assert!(present.is_none() && two.latencies.len() == 2);
        // A trial with more polls than the simulator makes without latency gives a latency of 0.
        let often = Counts { polls: 1e6, ..one };
        let found = of_trials(&asked, &[often.clone(), often.clone(), often], &|_| None, &AtomicBool::new(false));
        assert_eq!(found.map(|told| told.latencies), Some(vec![(1e4, 0.0); 3]));
    }
}
