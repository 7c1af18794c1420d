//! Where a search for the lowest load that loses begins.

use super::open::question;
use crate::bench::Highest;
use crate::bench::through::Through;
use crate::find::cliff::{self, Climb};
use crate::find::fake::Fake;
use crate::trial::TrialSpec;

/// Where the search after it begins, of a host that takes half of what comes in some trials: those that `slows` is true of, by load and number.
fn start_pps(slows: impl Fn(f64, u32) -> bool) -> f64 {
    let mut number = 0;
    let observe = |host: &mut Fake, spec: &TrialSpec, metered: bool| {
        number += 1;
        host.capacity_pps = if slows(spec.rate_pps, number) { 0.5 * spec.rate_pps } else { 200e3 };
        crate::bench::Bench::observe(host, spec, metered)
    };
    let mut host = Through { host: Fake { buffer: 10.0, ..Fake::new(200e3, 5) }, observe };
    let asked = question(Highest::of_sender(1e6));
    Climb::of(&mut host, &asked).expect("trials").narrowed(asked).near_pps
}

/// A host that loses half from 90 kpps on, in two trials of three, and from 200 kpps on always: the cliff is the lower one.
#[test]
fn trials_that_pass_by_chance_lead_to_no_cliff_above() {
    let mut number = 0;
    let observe = |host: &mut Fake, spec: &TrialSpec, metered: bool| {
        number += 1;
        let slows = spec.rate_pps > 90e3 && number % 3 > 0;
        host.capacity_pps = if slows { 0.5 * spec.rate_pps } else { 200e3 };
        crate::bench::Bench::observe(host, spec, metered)
    };
    let mut host = Through { host: Fake { buffer: 10.0, ..Fake::new(200e3, 5) }, observe };
    let asked = question(Highest::of_sender(1e6));
    let narrowed = Climb::of(&mut host, &asked).expect("trials").narrowed(asked);
    let found_pps = cliff::search(&mut host, &narrowed).expect("trials").own().expect("a cliff").value;
    assert!((90e3..130e3).contains(&found_pps), "{found_pps}");
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
    let climb = Climb::of(&mut host, &asked).expect("trials");
    let narrowed = climb.narrowed(asked.clone());
    assert_eq!((narrowed.near_pps, narrowed.range.max_pps), (asked.near_pps, asked.range.max_pps));
    assert!(narrowed.known.is_empty() && climb.losing_pps.is_none());
}
