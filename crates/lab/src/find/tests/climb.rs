//! Where a search for the lowest load that loses begins, and trials at which an emulated host was slow.

use super::open::question;
use crate::bench::through::Through;
use crate::bench::{Counts, Highest};
use crate::find::cliff::{Climb, Question};
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

/// Every third trial has a host of a quarter of its speed, which its handlers tell: it is void and changes nothing.
#[test]
fn a_trial_in_which_an_emulated_host_was_slow_is_void() {
    let mut number = 0;
    let observe = |host: &mut Fake, spec: &TrialSpec, metered: bool| {
        number += 1;
        let slowness = if number % 3 == 0 { 4.0 } else { 1.0 };
        host.capacity_pps = 200e3 / slowness;
        let mut seen = crate::bench::Bench::observe(host, spec, metered)?;
        seen.counts = Some(Counts { interrupts: 1e3, interrupt_s: 5e-3 * slowness, ..Counts::default() });
        Ok(seen)
    };
    let mut host = Through { host: Fake { buffer: 10.0, ..Fake::new(200e3, 5) }, observe };
    let asked = Question { handler_s: Some(5e-6), ..question(Highest::of_sender(1e6)) };
    let cliffs = crate::find::cliff::search(&mut host, &asked).expect("trials");
    let found = cliffs.own().expect("a cliff").value;
    assert!((found / 200e3 - 1.0).abs() < 0.05, "{found}");
    let void = cliffs.summary().expect("searches").void;
    assert!(void.iter().all(|void| void.why.contains("less than half as fast")) && !void.is_empty(), "{void:?}");
}
