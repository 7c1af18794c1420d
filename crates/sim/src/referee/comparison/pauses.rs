//! A CPU with pauses, under every scheme.

use netcliff_core::Host;
use netcliff_core::host::{Empirical, MeasuredTimes, PauseTimes};

use super::applications::applications;
use super::sides::{any, busy, busy_napi, flow_control, linux, transmissions};
use super::{Rng, dim, hybrid, many_over, many_with};
use crate::tally::{Account, Counts};

/// Adds random pauses, rare or frequent, from much shorter than a service to long enough to overflow the ring.
pub(super) fn pauses(rng: &mut Rng, host: &mut Host) {
    let length = |rng: &mut Rng| 1e-7 * 10.0_f64.powf(4.0 * rng.roll());
    host.pause_s = Some(length(rng));
    host.pause_every_s = Some(1e-6 * 10.0_f64.powf(3.5 * rng.roll()));
    host.pause_times = match rng.up_to(5) {
        1 => None,
        2 => Some(PauseTimes::Constant),
        3 => Some(PauseTimes::Erlang(3)),
        4 => Some(PauseTimes::Exponential),
        _ => {
            host.pause_s = None;
            let lengths = vec![(0.0, 0.5), (length(rng), 1.0), (length(rng), 2.0)];
            let times = Some(std::sync::Arc::new(MeasuredTimes::new(lengths).unwrap()));
            Some(PauseTimes::Empirical(Empirical { file: "made".to_owned(), times }))
        }
    };
}

fn paused(counts: &Counts) -> f64 {
    counts.cpu[Account::Paused as usize] as f64 / counts.at as f64
}

fn all_kinds(runs: &[Counts]) {
    let share = |of: &dyn Fn(&Counts) -> bool| runs.iter().filter(|one| of(one)).count() as f64 / runs.len() as f64;
    assert!(share(&|counts| paused(counts) > 0.5) > 0.1, "long pauses");
    assert!(share(&|counts| (1e-9..0.1).contains(&paused(counts))) > 0.1, "short pauses");
    assert!(share(&|counts| counts.dropped_ring > 0) > 0.1, "losses");
}

#[test]
fn paused_schemes_agree_packet_for_packet() {
    all_kinds(&many_with(1500, any, pauses));
}

#[test]
fn paused_linux_agrees_packet_for_packet() {
    all_kinds(&many_with(1000, |rng| linux(rng, true), pauses));
    many_with(400, busy_napi, |rng, host| {
        busy(rng, host);
        pauses(rng, host);
    });
}

#[test]
fn paused_applications_agree_packet_for_packet() {
    let more = |rng: &mut Rng, host: &mut Host| {
        applications(rng, host);
        pauses(rng, host);
    };
    many_with(400, any, more);
    many_with(400, |rng| linux(rng, true), more);
}

#[test]
fn pauses_beside_flow_control_and_transmissions_agree_packet_for_packet() {
    let more = |rng: &mut Rng, host: &mut Host| {
        flow_control(rng, host);
        transmissions(rng, host);
        pauses(rng, host);
    };
    many_with(500, any, more);
    many_with(300, |rng| linux(rng, false), more);
}

#[test]
fn long_paused_runs_of_adaptive_schemes_agree_packet_for_packet() {
    many_over(20_000, 10, hybrid, pauses);
    many_over(20_000, 10, dim, pauses);
}
