//! `netcliff find --service`: one point, the cliff, with what a request costs.

use netcliff_core::ServiceFinding;

use super::super::quantity::{CLIFF_RPS, REQUEST_US};
use super::super::{Measured, MeasuredPoint, Reading};

/// The measured cliff, the predicted one and the CPU time of a request.
pub fn service(name: String, finding: ServiceFinding) -> Measured {
    let searches = finding.searches.len() as u32;
    let measured = finding.cliff_rps.and_then(|figure| Reading::of_figure(CLIFF_RPS, &figure, Some(searches)));
    let measured = measured.map(|reading| Reading { lower_limit: finding.lower_limit, ..reading });
    let predicted = finding.predicted.as_ref().and_then(|one| Reading::of_computed(CLIFF_RPS, &one.cliff_rps));
    let cost_s: f64 = finding.costs.iter().map(|cost| cost.request_s.value).sum();
    let cost = (cost_s > 0.0).then(|| Reading::of(REQUEST_US, [Some(1e6 * cost_s)])).flatten();
    let point = |name: &str, figures: Vec<Reading>| MeasuredPoint { name: name.to_owned(), figures };
    let points = [
        point("cliff wire", measured.into_iter().chain(cost).collect()),
        point("cliff model", predicted.into_iter().collect()),
    ];
    Measured {
        name,
        kind: "service",
        clock: None,
        points: points.into_iter().filter(|point| !point.figures.is_empty()).collect(),
        facts: finding.asked.iter().map(|(name, fact)| (format!("asked.{name}"), fact.clone())).collect(),
        calibrated: Vec::new(),
        partial: finding.partial.is_some(),
        others: None,
        fingerprint: Some(finding.fingerprint),
        far_fingerprint: None,
        provenance: finding.provenance,
    }
}
