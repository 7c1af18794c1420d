use std::convert::Infallible;

use super::*;
use netcliff_core::verdict::VoidReason;
use netcliff_mlrsearch::simulated::{Bench, Device};

fn missing(curve: &LossCurve) -> Vec<String> {
    curve.missing().iter().map(ToString::to_string).collect()
}

#[test]
fn a_loss_curve_ends_at_two_clean_trials() {
    let mut bench = Bench::new(Device::Sharp { capacity_pps: 640e3 }, 1);
    let mut ask = |duration, load| Ok::<_, Infallible>(bench.trial(duration, load));
    let curve = loss_curve(1e6, 0.1, 60.0, &mut ask).0;
    let lost: Vec<f64> = curve.trials.iter().map(|trial| (trial.loss_ratio() * 1e3).round() / 1e3).collect();
    assert_eq!(lost, [0.36, 0.289, 0.2, 0.086, 0.0, 0.0]);
    assert!(curve.clean);
    let mut none = Bench::new(Device::Disturbed { capacity_pps: 1e9, per_s: 100.0, frames: 1 }, 1);
    let mut ask = |duration, load| Ok::<_, Infallible>(none.trial(duration, load));
    let curve = loss_curve(1e6, 0.1, 60.0, &mut ask).0;
    // Ten steps, then halves of the last step down to a thousandth.
    let shares: Vec<f64> = curve.trials.iter().map(|trial| (trial.load_pps * 10.0).round() / 1e7).collect();
    assert_eq!(shares[9..], [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125, 0.0015625, 0.001]);
    assert!(!curve.clean && !curve.nothing_came(), "{curve:?}");
    assert_eq!(
        missing(&curve),
        ["loss: no two trials in a row were without loss, down to a thousandth of the highest load"]
    );
}

#[test]
fn a_loss_curve_goes_on_below_its_last_step_until_two_trials_are_clean() {
    let mut bench = Bench::new(Device::Sharp { capacity_pps: 30e3 }, 1);
    let mut ask = |duration, load| Ok::<_, Infallible>(bench.trial(duration, load));
    let curve = loss_curve(1e6, 0.1, 60.0, &mut ask).0;
    assert!(curve.clean && curve.missing().is_empty() && curve.trials.len() == 13, "{curve:?}");
    // With the finest step, the steps end at a thousandth, where halving would start.
    let mut none = |duration_s, load_pps| Ok::<_, Infallible>(lost_whole(duration_s, load_pps));
    let curve = loss_curve(1e6, 0.001, 60.0, &mut none).0;
    assert_eq!(curve.trials.len(), 1000);
}

fn lost_whole(duration_s: f64, load_pps: f64) -> Answer {
    let sent = (load_pps * duration_s) as u64;
    Answer::Valid(Trial { load_pps, duration_s, sent, lost: sent })
}

#[test]
fn a_loss_curve_of_nothing_says_so() {
    let mut none = |duration_s, load_pps| Ok::<_, Infallible>(lost_whole(duration_s, load_pps));
    let curve = loss_curve(1e6, 0.1, 60.0, &mut none).0;
    assert!(curve.nothing_came() && missing(&curve)[0].contains("not one frame came through"), "{curve:?}");
    let mut void =
        |_, load_pps| Ok::<_, Infallible>(Answer::Void { reached_pps: load_pps, why: VoidReason::SenderTooSlow });
    let curve = loss_curve(1e6, 0.1, 60.0, &mut void).0;
    let missing = missing(&curve);
    assert!(curve.nothing_came() && missing[0].contains("nothing is known"), "{curve:?}");
    assert!(missing[1].contains("17 loads are void"), "{missing:?}");
}

#[test]
fn loads_beyond_the_sender_are_no_loss() {
    let mut bench = Bench::new(Device::Sharp { capacity_pps: 640e3 }, 1).with_sender(850e3);
    let mut ask = |duration, load| Ok::<_, Infallible>(bench.trial(duration, load));
    let curve = loss_curve(1e6, 0.1, 60.0, &mut ask).0;
    assert_eq!(curve.void_pps, [1e6, 900e3]);
    assert_eq!(curve.trials.len(), 4);
    assert_eq!(missing(&curve), ["loss: 2 loads are void: the sender or the sink did not keep up"]);
}

#[test]
fn the_corrected_buffer_is_what_was_stored() {
    let (line_pps, throughput_pps, buffer) = (14_880_952.0, 8_750_000.0, 11_000.0);
    // A device with a buffer: a burst of b frames at the line rate fills it with b (1 - throughput / line) frames.
    let passes = |burst: u64| burst as f64 * (1.0 - throughput_pps / line_pps) <= buffer;
    let bursts = Bursts { longest: 1 << 20, resolution: 1, repeats: 3 };
    let result = back_to_back(bursts, line_pps, throughput_pps, |burst| Ok::<_, Infallible>(passes(burst)));
    let result = result.0.unwrap();
    assert_eq!(result.bursts[0], (buffer / (1.0 - throughput_pps / line_pps)) as u64);
    assert!((result.corrected_buffer_s - buffer / line_pps).abs() < 1.0 / line_pps, "{result:?}");
    assert_eq!((result.deviation, result.capped), (Some(0.0), 0));
}

#[test]
fn a_burst_that_never_loses_is_said_to_be_capped() {
    let bursts = Bursts { longest: 5000, resolution: 10, repeats: 2 };
    let all = back_to_back(bursts, 1e6, 1e5, |_| Ok::<_, Infallible>(true)).0.unwrap();
    assert_eq!((all.bursts, all.capped), (vec![5000, 5000], 2));
    assert_eq!(back_to_back(bursts, 1e6, 1e5, |_| Ok::<_, Infallible>(false)).0, None);
    assert_eq!(back_to_back(bursts, 1e6, 1e5, |_| Err("stopped")), (None, Some("stopped")));
}

#[test]
fn latency_needs_a_repeat() {
    assert_eq!(latency(1e5, 60.0, vec![]), None);
    let repeats = [1e-5, 3e-5]
        .map(|s| LatencyRepeat { tagged_s: s, p50_s: s / 2.0, p999_s: 2.0 * s, ..LatencyRepeat::default() })
        .to_vec();
    let result = latency(1e5, 60.0, repeats).unwrap();
    assert_eq!(result.mean_s, 2e-5);
    assert_eq!((result.typical_s.median, result.worst_s.max), (1e-5, 6e-5));
}
