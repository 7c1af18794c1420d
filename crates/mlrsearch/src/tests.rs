use std::convert::Infallible;

use proptest::prelude::*;

use super::binary::{self, Binary};
use super::load::{Class, Load, Loads};
use super::mlr::{self, Mlr};
use super::*;
use crate::simulated::{Bench, Device};
use crate::trial::{Answer, Range, Request};
use netcliff_core::verdict::VoidReason;

const RANGE: Range = Range { min_pps: 10e3, max_pps: 1_488_095.0 };
const WIDTH: f64 = 0.005;

fn run_mlr(goals: &[Goal], mut bench: Bench) -> Searched {
    let mlr = Mlr { goals: goals.to_vec(), range: RANGE, start_pps: None, at_most_s: Some(20_000.0) };
    mlr.check().unwrap();
    let mut ask = |duration, load| Ok::<_, Infallible>(bench.trial(duration, load));
    mlr::search(&mlr, &mut ask).unwrap()
}

/// Like `run_mlr`, with a tester that ends a trial once its result is decided.
fn run_deciding(goals: &[Goal], mut bench: Bench) -> Searched {
    let mlr = Mlr { goals: goals.to_vec(), range: RANGE, start_pps: None, at_most_s: Some(20_000.0) };
    mlr::search_deciding(&mlr, &mut |request| Ok::<_, Infallible>(bench.trial_until(request))).unwrap()
}

fn run_binary(mut bench: Bench) -> Searched {
    let goal = Binary { trial_s: 60.0, loss_ratio: 0.0, width: WIDTH };
    binary::search(goal, RANGE, &mut |duration, load| Ok::<_, Infallible>(bench.trial(duration, load))).unwrap()
}

fn trial(duration_s: f64, loss_ratio: f64) -> Trial {
    let sent = 1_000_000 * duration_s as u64;
    Trial { load_pps: 1e6, duration_s, sent, lost: (sent as f64 * loss_ratio).round() as u64 }
}

/// The example of RFC 9971, appendices C and D: four goals, one load, six points in time.
#[test]
fn the_specification_s_example_is_classified_as_printed() {
    let goal = |final_trial_s, duration_sum_s, loss_ratio, exceed_ratio| Goal {
        final_trial_s,
        initial_trial_s: 1.0,
        duration_sum_s,
        loss_ratio,
        exceed_ratio,
        width: 0.005,
    };
    let goals = [
        goal(60.0, 60.0, 0.0, 0.0),
        goal(60.0, 120.0, 0.0, 0.5),
        goal(1.0, 120.0, 0.005, 0.5),
        goal(60.0, 60.0, 0.005, 0.2),
    ];
    let mut load = Load { pps: 1e6, trials: vec![] };
    let mut step = |count: usize, duration: f64, loss: f64| {
        load.trials.extend(std::iter::repeat_n(trial(duration, loss), count));
        goals.each_ref().map(|goal| load.class(goal))
    };
    use Class::{Lower, Undecided, Upper};
    assert_eq!(step(59, 1.0, 0.0), [Undecided; 4]);
    assert_eq!(step(1, 1.0, 0.01), [Upper, Undecided, Undecided, Undecided]);
    assert_eq!(step(59, 1.0, 0.01), [Upper, Undecided, Undecided, Upper]);
    assert_eq!(step(1, 1.0, 0.0), [Upper, Undecided, Lower, Upper]);
    // For the fourth goal, RFC 9971's tables print "Lower Bound" in the next two steps, next to exceed ratios of 42.857
    // % and 27.273 %. Its own code (appendix A) finds these above the goal's 20 %.
    assert_eq!(step(1, 60.0, 0.001), [Upper, Undecided, Lower, Upper]);
    assert_eq!(step(1, 60.0, 0.0), [Upper, Lower, Lower, Upper]);
    let throughput = goals.each_ref().map(|goal| load.conditional_pps(goal));
    assert_eq!(throughput[1..], [1e6, 1e6, 999e3]);
}

#[test]
fn a_lower_bound_above_an_upper_bound_is_not_relevant() {
    let goal = Goal::rfc2544(60.0, 0.0, WIDTH);
    let mut loads = Loads::default();
    for (load_pps, lost) in [(3e5, 0), (1e5, 0), (2e5, 1)] {
        loads.add(Trial { load_pps, duration_s: 60.0, sent: 100, lost });
    }
    assert_eq!(loads.bounds(&goal), (Some(1e5), Some(2e5)));
}

fn devices() -> impl Strategy<Value = Device> {
    let capacity = (30e3f64.ln()..1.4e6f64.ln()).prop_map(f64::exp);
    prop_oneof![
        capacity.clone().prop_map(|capacity_pps| Device::Sharp { capacity_pps }),
        capacity.clone().prop_map(|capacity_pps| Device::Livelock { capacity_pps }),
        (capacity, 1.0..5000.0f64).prop_map(|(capacity_pps, buffer)| Device::Buffered { capacity_pps, buffer }),
    ]
}

proptest! {
    #[test]
    fn both_searches_bracket_a_device_without_noise(device in devices()) {
        let truth = device.throughput_pps(60.0).unwrap();
        let goals = [Goal::rfc2544(60.0, 0.0, WIDTH)];
        let bench = || Bench::new(device, 1);
        for searched in [run_binary(bench()), run_mlr(&goals, bench()), run_deciding(&goals, bench())] {
            let found = &searched.found[0];
            prop_assert_eq!(found.end, End::Regular, "{:?}", found);
            let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
            // Rounding may hide half a frame in 60 s.
            prop_assert!(lower <= truth + 0.01 && truth <= upper + 0.01, "{} in {}..{}", truth, lower, upper);
            prop_assert!(upper - lower <= WIDTH * upper * (1.0 + 1e-12));
            prop_assert_eq!(found.throughput_pps, Some(lower));
        }
    }

    #[test]
    fn every_search_ends(seed in 0u64..1000, spread in 0.0..0.3f64, per_s in 0.001..10.0f64) {
        let unsteady = Device::Unsteady { capacity_pps: 400e3, spread };
        let disturbed = Device::Disturbed { capacity_pps: 400e3, per_s, frames: 3 };
        let livelock = Device::UnsteadyLivelock { capacity_pps: 400e3, spread };
        let by_trial = Device::Steps { capacity_pps: 400e3, spread, step_s: f64::INFINITY };
        let modes = Device::TwoModes { capacity_pps: 400e3, drop: spread, share: 0.1 };
        for device in [unsteady, disturbed, livelock, by_trial, modes] {
            let goals = [Goal::rfc2544(60.0, 0.0, WIDTH), Goal::typical(0.0, WIDTH), Goal::typical(1e-3, WIDTH)];
            let searched = run_mlr(&goals, Bench::new(device, seed));
            for (found, goal) in searched.found.iter().zip(&goals) {
                prop_assert!(found.end != End::OutOfTime, "{:?}", found);
                if let (Some(lower), Some(upper), End::Regular) = (found.lower_pps, found.upper_pps, found.end) {
                    prop_assert!(upper - lower <= goal.width * upper * (1.0 + 1e-12), "{:?}", found);
                }
            }
            run_binary(Bench::new(device, seed));
        }
    }

    #[test]
    fn a_sender_that_is_too_slow_is_never_read_as_loss(sender in 20e3..1.4e6f64) {
        let bench = Bench::new(Device::Sharp { capacity_pps: 1e9 }, 1).with_sender(sender);
        for searched in [run_binary(bench.clone()), run_mlr(&[Goal::rfc2544(60.0, 0.0, WIDTH)], bench)] {
            let found = &searched.found[0];
            prop_assert_eq!(found.end, End::AboveSender);
            prop_assert!(found.upper_pps.is_none() && found.lower_pps.unwrap() >= 0.95 * sender);
            prop_assert!(searched.void_trials > 0);
        }
    }
}

/// If trials are void for another reason than a slow sender, the search does not end at the sender's ceiling.
#[test]
fn trials_that_are_void_above_a_load_are_not_the_senders_ceiling() {
    let goal = Goal { final_trial_s: 0.05, ..Goal::rfc2544(0.05, 0.0, 0.05) };
    for (why, end) in [
        (VoidReason::SenderTooSlow, End::AboveSender),
        (VoidReason::SenderUneven, End::AboveVoid),
        (VoidReason::SinkTooSlow, End::AboveVoid),
        (VoidReason::Disturbed, End::AboveVoid),
    ] {
        let answer = |duration_s: f64, load_pps: f64| {
            Ok::<_, Infallible>(if load_pps > 100e3 {
                Answer::Void { reached_pps: if why == VoidReason::SenderTooSlow { 100e3 } else { load_pps }, why }
            } else {
                Answer::Valid(Trial { load_pps, duration_s, sent: 1000, lost: 0 })
            })
        };
        let range = Range { min_pps: 1e3, max_pps: 1e6 };
        let mlr = Mlr { goals: vec![goal], range, start_pps: None, at_most_s: None };
        let found = mlr::search(&mlr, &mut answer.clone()).unwrap().found[0];
        assert_eq!((found.end, found.upper_pps), (end, None), "{why:?}");
        let rfc2544 = binary::Binary { trial_s: 0.05, loss_ratio: 0.0, width: 0.05 };
        assert_eq!(binary::search(rfc2544, range, &mut answer.clone()).unwrap().found[0].end, end, "{why:?}");
    }
}

/// Two of three short trials are void, because other work took the sender's CPU for most of the trial.
#[test]
fn a_sender_that_is_held_up_now_and_then_limits_nothing() {
    let goal = Goal {
        final_trial_s: 0.05,
        initial_trial_s: 0.05,
        duration_sum_s: 1.05,
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        width: 0.05,
    };
    for (sender_pps, end) in [(1e9, End::Regular), (200e3, End::AboveSender)] {
        let mut bench = Bench::new(Device::Sharp { capacity_pps: 400e3 }, 1).with_sender(sender_pps);
        let mut asked = 0_u32;
        let mut ask = |duration, load: f64| {
            asked += 1;
            let held_up = !asked.is_multiple_of(3);
            Ok::<_, Infallible>(if held_up {
                Answer::Void { reached_pps: 0.02 * load, why: VoidReason::SenderTooSlow }
            } else {
                bench.trial(duration, load)
            })
        };
        let mlr = Mlr { goals: vec![goal], range: RANGE, start_pps: None, at_most_s: None };
        let searched = mlr::search(&mlr, &mut ask).unwrap();
        let truth = sender_pps.min(400e3);
        assert_eq!(searched.found[0].end, end);
        let lower = searched.found[0].lower_pps.unwrap();
        assert!(lower <= truth && lower >= 0.9 * truth, "{lower} of {truth}");
    }
}

#[test]
fn the_ends_of_the_range_are_named() {
    let fast = Device::Sharp { capacity_pps: 2e6 };
    let slow = Device::Sharp { capacity_pps: 5e3 };
    let goals = [Goal::rfc2544(60.0, 0.0, WIDTH)];
    for (device, end) in [(fast, End::AboveMaximum), (slow, End::BelowMinimum)] {
        assert_eq!(run_mlr(&goals, Bench::new(device, 1)).found[0].end, end);
        assert_eq!(run_binary(Bench::new(device, 1)).found[0].end, end);
    }
    let asleep = Bench::new(fast, 1).with_sender(1e3);
    assert_eq!(run_mlr(&goals, asleep.clone()).found[0].end, End::SenderTooSlow);
    assert_eq!(run_binary(asleep).found[0].end, End::SenderTooSlow);
}

#[test]
fn mlrsearch_takes_at_most_three_tenths_of_the_binary_search_s_time() {
    let goals = [Goal::rfc2544(60.0, 0.0, WIDTH)];
    for capacity_pps in [50e3, 123e3, 400e3, 777e3, 1.2e6] {
        // A buffer that hides less than the width from short trials; a larger one costs full trials.
        let buffered = Device::Buffered { capacity_pps, buffer: 1e-3 * capacity_pps };
        for device in [Device::Sharp { capacity_pps }, Device::Livelock { capacity_pps }, buffered] {
            let binary = run_binary(Bench::new(device, 1));
            for mlr in [run_mlr(&goals, Bench::new(device, 1)), run_deciding(&goals, Bench::new(device, 1))] {
                let share = mlr.trial_time_s / binary.trial_time_s;
                assert!(share <= 0.3, "{device:?}: {} s against {} s", mlr.trial_time_s, binary.trial_time_s);
            }
        }
    }
}

fn median_s(seeds: u64, search: impl Fn(u64) -> Searched) -> f64 {
    let mut times_s: Vec<f64> = (0..seeds).map(|seed| search(seed).trial_time_s).collect();
    times_s.sort_by(f64::total_cmp);
    times_s[times_s.len() / 2]
}

/// Compares medians over seeds 0 to 100 with the binary search. Whole trials: at most a third of its time up to a
/// spread of twice the width. For larger spreads at most 0.42, because bounds one width apart are both random, and
/// learning the device takes longer (bench/rfc2544 has the time of a search that knows the device). Trials that end
/// once their result is decided: at most three tenths.
#[test]
fn mlrsearch_takes_at_most_three_tenths_of_the_binary_search_s_time_on_unsteady_devices_too() {
    let goals = [Goal::rfc2544(60.0, 0.0, WIDTH)];
    let third = 1.0 / 3.0;
    for (spread, most_whole) in [(0.001, third), (0.003, third), (0.01, third), (0.02, 0.42), (0.05, 0.42)] {
        let unsteady = [87e3, 400e3, 1.2e6].map(|capacity_pps| Device::Unsteady { capacity_pps, spread });
        // The search detects that the forwarding rate falls only if the highest load is far above the capacity.
        let livelock = [87e3, 400e3].map(|capacity_pps| Device::UnsteadyLivelock { capacity_pps, spread });
        for device in unsteady.into_iter().chain(livelock) {
            let whole_s = median_s(101, |seed| run_mlr(&goals, Bench::new(device, seed)));
            let decided_s = median_s(101, |seed| run_deciding(&goals, Bench::new(device, seed)));
            let binary_s = median_s(101, |seed| run_binary(Bench::new(device, seed)));
            assert!(whole_s <= most_whole * binary_s, "{device:?}: {whole_s} s against {binary_s} s");
            assert!(decided_s <= 0.3 * binary_s, "{device:?}: {decided_s} s against {binary_s} s");
        }
    }
}

/// A trial that ends with the frame that decides its result classifies the load as the whole trial does.
#[test]
fn an_ended_trial_is_decided_as_the_whole_one() {
    let (duration_s, load_pps) = (60.0, 410e3);
    for loss_ratio in [0.0, 1e-3] {
        let goal = Goal::rfc2544(duration_s, loss_ratio, WIDTH);
        let most_lost = Some((loss_ratio * duration_s * load_pps) as u64);
        let mut ended = 0;
        for seed in 0..200 {
            let device = match seed % 3 {
                0 => Device::Unsteady { capacity_pps: 420e3, spread: 0.01 },
                1 => Device::Disturbed { capacity_pps: 1e6, per_s: 0.02, frames: 30_000 },
                _ => Device::Buffered { capacity_pps: 409e3, buffer: 50_000.0 },
            };
            let of = |most_lost| match Bench::new(device, seed).trial_until(Request { duration_s, load_pps, most_lost })
            {
                Answer::Valid(trial) => trial,
                Answer::Void { .. } => unreachable!("the sender reaches every load"),
            };
            let class = |trial| Load { pps: load_pps, trials: vec![trial] }.class(&goal);
            let (whole, early) = (of(None), of(most_lost));
            assert_eq!(class(early), class(whole), "{device:?}: {early:?} of {whole:?}");
            assert!(early.duration_s <= whole.duration_s && early.lost <= whole.lost && early.lost <= early.sent);
            ended += u32::from(early.duration_s < whole.duration_s);
        }
        assert!((20..180).contains(&ended), "{ended} of 200 ended early");
    }
}

/// A goal that allows some trials to lose weighs trials by their length, so that none may end early.
#[test]
fn trials_end_early_only_where_one_fails_a_load_for_every_goal() {
    let strict = Goal::rfc2544(60.0, 0.0, WIDTH);
    let device = Device::Unsteady { capacity_pps: 400e3, spread: 0.02 };
    for (goals, ends) in [(vec![strict], true), (vec![strict, Goal::typical(0.0, WIDTH)], false)] {
        let mut bench = Bench::new(device, 3);
        let mlr = Mlr { goals, range: RANGE, start_pps: None, at_most_s: None };
        let mut may_end = false;
        let searched = mlr::search_deciding(&mlr, &mut |request| {
            may_end |= request.most_lost.is_some();
            Ok::<_, Infallible>(bench.trial_until(request))
        });
        assert_eq!(may_end, ends);
        let whole = |trial: &Trial| [1.0, 15.0, 60.0].contains(&trial.duration_s);
        assert_eq!(searched.unwrap().trials.iter().all(whole), !ends);
    }
}

#[test]
fn an_error_ends_a_search() {
    let mlr = Mlr { goals: vec![Goal::typical(0.0, WIDTH)], range: RANGE, start_pps: None, at_most_s: None };
    assert_eq!(mlr::search(&mlr, &mut |_, _| Err("stopped")), Err("stopped"));
    let goal = Binary { trial_s: 60.0, loss_ratio: 0.0, width: WIDTH };
    assert_eq!(binary::search(goal, RANGE, &mut |_, _| Err("stopped")), Err("stopped"));
    let mut late = |_, _| Ok::<Answer, Infallible>(Answer::Void { reached_pps: 0.0, why: VoidReason::SenderTooSlow });
    assert_eq!(mlr::search(&mlr, &mut late).unwrap().found[0].end, End::SenderTooSlow);
}

#[test]
fn goals_that_cannot_be_are_refused_with_their_value() {
    let good = Goal::rfc2544(60.0, 0.0, WIDTH);
    for (goal, what) in [
        (Goal { duration_sum_s: 30.0, ..good }, "duration sum = 30"),
        (Goal { initial_trial_s: 0.0, ..good }, "initial trial = 0"),
        (Goal { loss_ratio: 1.0, ..good }, "loss ratio = 1"),
        (Goal { exceed_ratio: 1.0, ..good }, "exceed ratio = 1"),
        (Goal { width: 0.0, ..good }, "width = 0"),
    ] {
        let error = goal.check().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
