use netcliff_core::note::Note;
use netcliff_core::{Figure, Host, Outcome, Point};

use super::*;
use crate::engine::{Effort, SimEngine};

fn point(scheme: &str, pps: f64) -> Point {
    Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), pps)
}

fn mean(outcome: &Outcome) -> Figure {
    outcome.latency_s.unwrap().mean.unwrap()
}

fn engine(effort: Effort) -> SimEngine {
    SimEngine { effort, confidence: 0.99, ..SimEngine::default() }
}

/// The ring is full after a millisecond, and a packet leaves it after 36 ms. With a million arrivals in ten
/// replications of 67 ms each, the mean was 0.0286 (0.0282 to 0.0289) s, which is too low.
#[test]
fn packets_that_stay_long_are_followed_until_they_leave() {
    // Exact value of the chain: `netcliff predict --scheme interrupt --rate 1.488Mpps`.
    let exact = 0.035_79;
    let simulation = engine(Effort::Packets(1_000_000)).simulate(&point("interrupt", 1.488e6)).unwrap();
    assert!(simulation.settled && simulation.packets > 1_000_000);
    let found = mean(&simulation.outcome);
    assert!(
        found.relative_half_width() < 0.05 && (found.value - exact).abs() < 6e-6 + found.relative_half_width() * exact
    );
}

/// With exactly this number of arrivals, a note says that they are too few; if a precision was requested, there is no
/// interval.
#[test]
fn what_is_too_short_says_so() {
    let simulation = engine(Effort::Exactly(200_000)).simulate(&point("interrupt", 1.488e6)).unwrap();
    assert!(!simulation.settled && mean(&simulation.outcome).interval.is_some());
    assert!(simulation.outcome.notes.iter().any(|note| matches!(note, Note::TooShort(..))), "{:?}", simulation.outcome);
    let figures = "latency".parse().unwrap();
    let effort = Effort::Precision { relative: 0.05, packets_at_most: 200_000, figures };
    let outcome = engine(effort).simulate(&point("interrupt", 1.488e6)).unwrap().outcome;
    assert_eq!(mean(&outcome).interval, None);
    let precision = outcome.precision.unwrap();
    assert!(!precision.reached && precision.figures.iter().all(|one| one.half_width.is_none()), "{precision:?}");
}

/// Softirqs starve an application: it takes 248 packets/s, so that a packet spends 64 ms in the socket of 16 packets.
/// The expected mean latency follows from Little's law for the full socket.
#[test]
fn a_starved_application_is_waited_for() {
    let mut point = point("napi", 300e3);
    point.host = Host { application_s: Some(2e-6), socket_buffer: 16, ring: 32, ..point.host };
    let simulation = engine(Effort::Packets(200_000)).simulate(&point).unwrap();
    assert!(simulation.settled, "{:?}", simulation.outcome.notes);
    let outcome = simulation.outcome;
    let by_little = 16.0 / outcome.throughput_pps.unwrap().value;
    let found = mean(&outcome);
    assert!(found.interval.is_some() && (found.value / by_little - 1.0).abs() < 0.05, "{found:?} and {by_little}");
}

/// The autocorrelation time of an autoregression is (1 + a)/(1 - a) steps.
#[test]
fn the_autocorrelation_time_of_an_autoregression() {
    for memory in [0.0, 0.5, 0.9_f64] {
        let mut state = 12_345_u64;
        let mut level = 0.0;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            level = memory * level + (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
            (10.0 + level, 1.0)
        };
        let series: Vec<Vec<(f64, f64)>> = (0..10).map(|_| (0..CELLS).map(|_| next()).collect()).collect();
        let exact = (1.0 + memory) / (1.0 - memory);
        let found = autocorrelation_cells(&series, 0);
        // The relative standard error is about sqrt(2 (2 W + 1) / 5000), where W is the window of 5 times: 0.05, 0.08
        // and 0.2.
        let error = (2.0 * (2.0 * WINDOW * exact + 1.0) / 5000.0_f64).sqrt();
        assert!((found / exact - 1.0).abs() < 4.0 * error, "{memory}: {found} and {exact}");
    }
}

/// Replications that stay at different levels are recognised: they are correlated over their whole length.
#[test]
fn replications_that_do_not_forget_are_found_out() {
    let apart: Vec<Vec<(f64, f64)>> = (0..10).map(|n| vec![(f64::from(n), 1.0); CELLS]).collect();
    assert!(autocorrelation_cells(&apart, 0) > CELLS as f64 / STRETCHES);
    assert_eq!(autocorrelation_cells(&vec![vec![(3.0, 1.0); CELLS]; 10], 0), 1.0, "nothing changes");
}
