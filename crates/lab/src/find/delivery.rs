//! How long an interrupt takes to reach a host behind a NIC, by simulation.
//!
//! What a poll finds came while moderation held the interrupt back and while it was on its way. With the moderation known, the latency is
//! the one with which the simulator interrupts as often as the trial did: fewer, the longer it is. It is sought in trials that lost next to
//! nothing; the median over them counts. Its interval is that of the trials, not of the other costs.

use std::sync::atomic::AtomicBool;

use super::engines::Predictor;
use crate::bench::{Counts, value};
use crate::calibrate::Calibrated;

/// Longest latency that is looked for (s), and how near it is found: in this many halvings, to 2 us.
const LONGEST_S: f64 = 1e-3;
const HALVINGS: u32 = 9;
/// Most trials that are asked, and fewest.
const MOST_TRIALS: usize = 8;
const FEWEST_TRIALS: usize = 3;
/// Packets simulated for an answer: interrupts a second to half a percent.
const PACKETS: u64 = 50_000;

/// The host at present, or else as calibrated, with the latency that follows from these trials of what `computed` predicts with it; where too few of
/// them tell one, the host at present as it is.
pub fn told(
    calibrated: &Calibrated,
    present: Option<Calibrated>,
    trials: &[Counts],
    stop: &AtomicBool,
    computed: impl FnOnce(&Calibrated) -> Predictor,
) -> Option<Calibrated> {
    let own = present.as_ref().unwrap_or(calibrated);
    let computed = computed(own);
    let latencies_s = latencies_s(&computed, trials, stop);
    latencies_s.and_then(|each_s| own.with_latency_of(&each_s, computed.seed)).or(present)
}

/// The latency (s) that each of the trials tells; None if they are too few, or after a stop.
fn latencies_s(computed: &Predictor, trials: &[Counts], stop: &AtomicBool) -> Option<Vec<f64>> {
    let interrupts = |counts: &Counts| counts.own_interrupts.unwrap_or(counts.interrupts);
    let tells = |counts: &&Counts| interrupts(counts) > 0.0 && counts.packets > 0.0 && counts.elapsed_s > 0.0;
    let usable: Vec<&Counts> = trials.iter().filter(tells).collect();
    let step = usable.len().div_ceil(MOST_TRIALS).max(1);
    let mut begun = Vec::new();
    for counts in usable.into_iter().step_by(step) {
        let (load_pps, per_s) = (counts.packets / counts.elapsed_s, interrupts(counts) / counts.elapsed_s);
        begun.push(computed.begin(move |computed, _| latency_s(computed, load_pps, per_s)));
    }
    let mut found = Vec::new();
    for one in begun {
        found.extend(one.unless(stop)?);
    }
    (found.len() >= FEWEST_TRIALS).then_some(found)
}

/// The latency (s) with which `per_s` interrupts come at a load; None where none up to the longest does.
fn latency_s(computed: &Predictor, load_pps: f64, per_s: f64) -> Option<f64> {
    let simulated = |latency_s: f64| {
        let mut asked = Predictor { packets: PACKETS, ..computed.clone() };
        asked.host.interrupt_latency_s = latency_s;
        value(asked.sim_at(load_pps).ok()?.interrupts_per_s)
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
    use crate::stats;
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
        let interrupts = value(outcome.interrupts_per_s).expect("it counts them");
        Counts { elapsed_s: 1.0, packets: load_pps, interrupts, ..Counts::default() }
    }

    /// With a gap, and without one; the trials are simulated from another seed.
    #[test]
    fn the_latency_behind_moderation_is_found() {
        for scheme in ["napi:weight=64,min_gap=128us,gap=direct", "napi:weight=64,rx_usecs=50us", "napi:weight=64"] {
            let truth = Predictor { seed: 7, packets: 200_000, ..Predictor::of(host(60e-6), scheme) };
            let trials: Vec<Counts> = [8e3, 12e3, 16e3, 20e3].map(|load_pps| trial(&truth, load_pps)).to_vec();
            let asked = Predictor::of(host(0.0), scheme);
            let found = latencies_s(&asked, &trials, &AtomicBool::new(false)).expect("four trials");
            let median_s = stats::median(&found).expect("four").value;
            assert!((median_s / 60e-6 - 1.0).abs() < 0.1, "{scheme}: {found:?}");
        }
    }

    #[test]
    fn too_few_trials_tell_nothing() {
        let asked = Predictor::of(host(0.0), "napi:weight=64");
        let one = Counts { elapsed_s: 1.0, packets: 1e4, interrupts: 8e3, ..Counts::default() };
        assert_eq!(latencies_s(&asked, &[one.clone(), one.clone()], &AtomicBool::new(false)), None);
        // More interrupts than without any latency.
        let often = Counts { interrupts: 1e6, ..one };
        assert_eq!(
            latencies_s(&asked, &[often.clone(), often.clone(), often], &AtomicBool::new(false)),
            Some(vec![0.0; 3])
        );
    }
}
