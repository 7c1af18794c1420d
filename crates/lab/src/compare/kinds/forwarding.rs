//! Converts results of forwarding: set-ups of an experiment, and RFC 2544's tests of a device.

use netcliff_core::Fingerprint;
use netcliff_rfc2544::tester::stamps::Stamps;
use serde_json::Value;

use super::super::quantity::{
    BURST, LATENCY_P50, LATENCY_P999, LATENCY_TAGGED, LATENCY_TAGGED_HARDWARE, LATENCY_TAGGED_KERNEL, THROUGHPUT,
};
use super::super::{Measured, MeasuredPoint, Reading};
use netcliff_rfc2544::forwarding::{Bound, ForwardingReport, ForwardingRow, SetUpReport};
use netcliff_rfc2544::procedures::LatencyRepeat;
use netcliff_rfc2544::report::{Rfc2544Report, SizeReport};

/// Converts an experiment of forwarding: one point for each set-up and frame size, one repeat for each round.
pub fn forwarding(name: String, report: ForwardingReport) -> Measured {
    let point = |row: &ForwardingRow| {
        let throughput = Reading::of(THROUGHPUT, row.samples.iter().map(|sample| sample.throughput_pps));
        let lower_limit = row.bound == Some(Bound::Tester);
        MeasuredPoint {
            name: format!("{}, {}", row.set_up, row.frame),
            figures: throughput.map(|reading| Reading { lower_limit, ..reading }).into_iter().collect(),
        }
    };
    let asked = report.asked.iter().map(|(name, fact)| (format!("asked.{name}"), fact.clone()));
    Measured {
        name,
        kind: "forwarding",
        clock: None,
        points: report.rows.iter().map(point).collect(),
        facts: asked.chain(report.set_ups.iter().flat_map(set_up_facts)).collect(),
        calibrated: Vec::new(),
        partial: report.partial,
        others: None,
        fingerprint: Some(report.fingerprint),
        far_fingerprint: None,
        provenance: report.provenance,
    }
}

/// The settings of a set-up.
fn set_up_facts(set_up: &SetUpReport) -> Vec<(String, String)> {
    let fact = |name: &str, fact: String| (format!("{}.{name}", set_up.name), fact);
    let mut facts = vec![fact("forwarding", set_up.forwarding.clone())];
    facts.extend(set_up.tune.clone().map(|objective| fact("tune", objective)));
    if let Some(about) = &set_up.about {
        facts.push(fact("device", about.device.clone()));
        facts.push(fact("tester", about.tester.clone()));
        facts.extend(about.settings.iter().map(|change| fact(&change.name, change.after.clone())));
    }
    facts
}

/// Converts the tests of a device: one point for each frame size. The searches are the repeats of a throughput. A
/// single search gives no estimate of the variation between searches.
pub fn rfc2544(name: String, report: Rfc2544Report, fingerprint: Option<Fingerprint>) -> Measured {
    let mut facts = vec![("device".to_owned(), report.device.clone()), ("tester".to_owned(), report.tester.clone())];
    facts.extend(asked(&report));
    Measured {
        name,
        kind: "rfc2544",
        clock: None,
        points: report.sizes.iter().map(size_point).collect(),
        facts,
        calibrated: Vec::new(),
        partial: report.partial.is_some(),
        others: None,
        fingerprint: report.fingerprint.or(fingerprint),
        far_fingerprint: None,
        provenance: report.provenance,
    }
}

/// The configuration by name, without the frame sizes, which are the points.
fn asked(report: &Rfc2544Report) -> Vec<(String, String)> {
    let Ok(Value::Object(asked)) = serde_json::to_value(&report.asked) else { return Vec::new() };
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    asked
        .into_iter()
        .filter(|(key, _)| key != "frames")
        .map(|(key, value)| (format!("asked.{key}"), text(value)))
        .collect()
}

fn size_point(size: &SizeReport) -> MeasuredPoint {
    let repeats = size.latency.as_ref().map(|latency| latency.repeats.as_slice()).unwrap_or_default();
    let latency =
        |quantity, figure: fn(&LatencyRepeat) -> f64| Reading::of(quantity, repeats.iter().map(|r| Some(figure(r))));
    // Latencies by different clocks are different figures.
    let clock = size.latency.as_ref().map(|latency| latency.clock).unwrap_or_default();
    let tagged = |quantity, by: Stamps| Reading::of(quantity, repeats.iter().map(|r| r.tagged_by(by, clock)));
    let throughput = Reading::of_bounds(THROUGHPUT, &size.bounds());
    let bursts = size.back_to_back.iter().flat_map(|bursts| &bursts.bursts);
    let figures = [
        throughput.map(|reading| Reading { lower_limit: size.is_lower_limit(), ..reading }),
        tagged(LATENCY_TAGGED, Stamps::Application),
        tagged(LATENCY_TAGGED_KERNEL, Stamps::Kernel),
        tagged(LATENCY_TAGGED_HARDWARE, Stamps::Hardware),
        latency(LATENCY_P50, |repeat| repeat.p50_s),
        latency(LATENCY_P999, |repeat| repeat.p999_s),
        Reading::of(BURST, bursts.map(|frames| Some(*frames as f64))),
    ];
    MeasuredPoint { name: size.frame.to_string(), figures: figures.into_iter().flatten().collect() }
}
