use std::sync::Arc;

use netcliff_core::capture::{Capture, Captured};
use netcliff_core::note::Note;
use netcliff_core::{Host, Traffic};

use super::*;
use crate::engine::{Effort, SimEngine};

fn simulate(arrivals: &str) -> Outcome {
    let traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
    let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), "napi".parse().unwrap(), 60e3) };
    let figures = "throughput,latency,p50,cpu".parse().unwrap();
    let effort = Effort::Precision { relative: 0.1, packets_at_most: 4_000_000, figures };
    SimEngine { effort, ..SimEngine::default() }.simulate(&point).unwrap().outcome
}

/// For heavy tails (docs/theory/statistics.md), quantiles and the realised load are reported, but no precision of a
/// mean.
#[test]
fn heavy_tails_leave_quantiles_and_no_interval_of_a_mean() {
    let outcome = simulate("onoff");
    let latency = outcome.latency_s.unwrap();
    assert!(latency.mean.unwrap().interval.is_none() && latency.p50.unwrap().interval.is_some());
    assert!(outcome.throughput_pps.unwrap().interval.is_none());
    assert!(outcome.cpu.unwrap().available.unwrap().interval.is_none());
    let load = outcome.offered_pps.unwrap();
    assert!(load.interval.is_none());
    let is_said = |note: &Note| matches!(note, Note::HeavyTails(Some(loads)) if *loads == (load.value, 60e3));
    assert!(outcome.notes.iter().any(is_said), "{outcome:?}");
    let precision = outcome.precision.unwrap();
    assert!(!precision.reached, "means were asked for");
    for one in &precision.figures {
        let quantile = one.figure.key == "latency_p50_s";
        assert_eq!((one.reached, one.half_width.is_some()), (quantile, quantile), "{one:?}");
    }
}

#[test]
fn a_cutoff_earns_the_means_their_intervals() {
    let outcome = simulate("onoff:cutoff=1ms");
    assert!(outcome.latency_s.unwrap().mean.unwrap().interval.is_some());
    assert!(outcome.precision.unwrap().reached);
    assert!(!outcome.notes.iter().any(|note| matches!(note, Note::HeavyTails(_))), "{:?}", outcome.notes);
}

#[test]
fn what_rss_leaves_of_heavy_tails_is_heavy_tailed() {
    let heavy = |of: &str| is_heavy_tailed(&Arrivals::Thinned { keep: 0.25, of: Box::new(of.parse().unwrap()) });
    assert!(heavy("onoff") && !heavy("onoff:cutoff=1ms") && !heavy("poisson"));
    assert!(!is_heavy_tailed(&"onoff:alpha_on=2.5,alpha_off=2.5".parse().unwrap()));
}

/// A capture of bursts, each of `burst` packets at one time and 10 ms after the previous, as recorded.
fn bursts(host: Host, scheme: &str, burst: usize, count: usize) -> Point {
    let gap = |n: usize| if n.is_multiple_of(burst) { 10_000_000 } else { 0 };
    let packets = (0..burst * count).map(|n| Captured { gap_ns: gap(n), bytes: 64, flow: None }).collect();
    let capture = Arc::new(Capture { file: "x.pcap".to_owned(), packets, flows: Vec::new(), ..Capture::default() });
    let rate_pps = capture.rate_pps();
    let arrivals = Arrivals::Trace { file: "x.pcap".to_owned(), speed: None, once: false, capture: Some(capture) };
    let traffic = Traffic { arrivals, ..Traffic::default() };
    Point { traffic, ..Point::poisson(host, scheme.parse().unwrap(), rate_pps) }
}

/// If no time passes in a replication, because it lies within one burst, figures per time are absent, with the reason,
/// under every scheme and effort.
#[test]
fn arrivals_at_one_instant_leave_out_what_is_divided_by_time() {
    let precision = Effort::Precision { relative: 0.1, packets_at_most: 5000, figures: Aims::default() };
    for scheme in ["ideal", "interrupt", "polling:period=20us,quota=3", "napi", "coalesce:usecs=50us", "hybrid", "dim"]
    {
        for effort in [Effort::Packets(1000), Effort::Exactly(1000), precision] {
            let host = Host { application_s: Some(2e-6), ..Host::pentium4_2530mhz() };
            let point = bursts(host, scheme, 150_000, 2);
            let engine = SimEngine { effort, ..SimEngine::default() };
            let simulation = engine.simulate(&point).unwrap();
            let outcome = &simulation.outcome;
            outcome.check().unwrap_or_else(|error| panic!("{scheme}, {effort:?}: {error}"));
            assert_eq!((outcome.throughput_pps, outcome.offered_pps, outcome.interrupts_per_s), (None, None, None));
            assert_eq!(outcome.cpu.unwrap().available, None);
            let reason = outcome.notes.iter().any(|note| note.to_string().contains("have one arrival time"));
            assert!(reason && !simulation.settled, "{scheme}, {effort:?}: {:?}", outcome.notes);
            assert!(effort != precision || !simulation.precise, "{scheme}");
        }
        let point = bursts(Host::pentium4_2530mhz(), scheme, 150_000, 2);
        for one in SimEngine::with_packets(1, 1000).compare(&point, &point, |_| ()).unwrap() {
            assert!(one.first.value.is_finite() && one.difference.value.is_finite(), "{scheme}: {one:?}");
        }
    }
}

/// If the requested number of packets lies within one burst, more packets are simulated. Too few packets for the bursts
/// give no interval.
#[test]
fn replications_grow_until_time_passes() {
    for (burst, settled) in [(300, true), (4000, false)] {
        let point = bursts(Host::pentium4_2530mhz(), "napi", burst, 40);
        let simulation = SimEngine::with_packets(1, 1000).simulate(&point).unwrap();
        simulation.outcome.check().unwrap();
        let offered = simulation.outcome.offered_pps.unwrap();
        assert_eq!((simulation.settled, offered.interval.is_some()), (settled, settled), "{burst}: {offered:?}");
        let truth = point.rate_pps().unwrap();
        // Equal bursts have no variance: only rounding errors are left.
        let holds =
            offered.interval.is_none_or(|ends| ends.low <= truth * (1.0 + 1e-9) && truth <= ends.high * (1.0 + 1e-9));
        assert!(holds, "{burst}: {offered:?}, not {truth}");
    }
}
