use netcliff_core::note::Note;
use netcliff_core::{Host, Traffic};

use super::*;
use crate::engine::{Effort, SimEngine};

fn simulate(arrivals: &str) -> Outcome {
    let traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::poisson(60e3) };
    let point = Point { host: Host::pentium4_2530mhz(), scheme: "napi".parse().unwrap(), traffic };
    let figures = "throughput,latency,p50,cpu".parse().unwrap();
    let effort = Effort::Precision { relative: 0.1, packets_at_most: 4_000_000, figures };
    SimEngine { effort, ..SimEngine::default() }.simulate(&point).unwrap().outcome
}

/// Heavy tails (docs/theory/statistics.md): quantiles and the realised load are reported, but no precision of a mean.
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
