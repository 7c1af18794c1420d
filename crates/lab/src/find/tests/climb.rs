//! Where a search for the lowest load that loses begins.

use super::open::question;
use crate::bench::Highest;
use crate::bench::through::Through;
use crate::find::cliff::Climb;
use crate::find::fake::Fake;
use crate::trial::TrialSpec;

/// Where it is, of a host that takes half of what comes in some trials: those that `slows` is true of, by load and number.
fn start_pps(slows: impl Fn(f64, u32) -> bool) -> f64 {
    let mut number = 0;
    let observe = |host: &mut Fake, spec: &TrialSpec, metered: bool| {
        number += 1;
        host.capacity_pps = if slows(spec.rate_pps, number) { 0.5 * spec.rate_pps } else { 200e3 };
        crate::bench::Bench::observe(host, spec, metered)
    };
    let mut host = Through { host: Fake { buffer: 10.0, ..Fake::new(200e3, 5) }, observe };
    Climb::of(&mut host, &question(Highest::of_sender(1e6))).expect("trials").start_pps
}

#[test]
fn it_is_at_the_lowest_load_that_loses_in_more_than_one_trial() {
    let within_a_step = |found_pps: f64, true_pps: f64| (found_pps / true_pps).ln().abs() <= 1.2_f64.ln();
    assert!(within_a_step(start_pps(|_, _| false), 200e3));
    assert!(within_a_step(start_pps(|load_pps, _| (80e3..100e3).contains(&load_pps)), 80e3));
    assert!(within_a_step(start_pps(|_, number| number == 3), 200e3));
}

/// Nothing loses up to what the sender can do: the search begins where the cliff is expected.
#[test]
fn without_a_load_that_loses_it_is_the_expected_cliff() {
    let mut host = Fake::new(200e3, 5);
    let asked = question(Highest::of_sender(150e3));
    assert_eq!(Climb::of(&mut host, &asked).expect("trials").start_pps, asked.near_pps);
}
