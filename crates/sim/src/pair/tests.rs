use netcliff_core::{Host, Traffic};

use super::*;

fn point(scheme: &str) -> Point {
    Point { host: Host::pentium4_2530mhz(), scheme: scheme.parse().unwrap(), traffic: Traffic::poisson(100e3) }
}

fn engine() -> SimEngine {
    SimEngine { confidence: 0.999, replications: 20, ..SimEngine::with_packets(5, 400_000) }
}

fn named<'a>(differences: &'a [Difference], figure: &str) -> &'a Difference {
    differences.iter().find(|one| one.figure == figure).unwrap()
}

/// docs/theory/chains.md: the two chains of disable-enable differ by 17.28 - 15.69 us with m + s = 4.23 us, the value
/// of the preset.
#[test]
fn the_difference_of_two_chains_is_in_the_interval() {
    let differences =
        engine().compare(&point("disable-enable:merged=false"), &point("disable-enable:merged=true")).unwrap();
    let latency = named(&differences, "latency_s.mean");
    assert!(latency.difference.covers(1.59e-6) && latency.is_significant(), "{latency:?}");
}

/// Common packets give a smaller variance than independent ones: this is why they are used.
#[test]
fn common_packets_reduce_the_variance() {
    let differences = engine().compare(&point("ideal"), &point("disable-enable:merged=false")).unwrap();
    for figure in ["latency_s.mean", "cpu.available"] {
        let found = named(&differences, figure);
        assert!(found.variance_reduction.unwrap() > 2.0 && found.is_significant(), "{found:?}");
    }
    assert!(differences.iter().all(|one| one.figure != "cpu.application"), "no application, no figure");
}

/// A scheme does not differ from itself: the interval is exactly 0.
#[test]
fn a_scheme_does_not_differ_from_itself() {
    for one in engine().compare(&point("napi"), &point("napi")).unwrap() {
        assert_eq!((one.difference.value, one.variance_reduction), (0.0, None), "{one:?}");
    }
}
