//! How often CPUs and sender were paused, by length.

use netcliff_core::Finding;

use super::finding;
use crate::plot::Bars;
use crate::plot::bars::{Group, Row};
use crate::sheet;

/// A bar a bin; None if there were no pauses, or none were measured.
pub fn pauses(finding: &Finding) -> Option<String> {
    bars(finding).map(|bars| bars.document())
}

pub(crate) fn bars(finding: &Finding) -> Option<Bars> {
    let all = sheet::pause_lengths(finding);
    if all.is_empty() {
        return None;
    }
    let words: Vec<String> =
        sheet::disturbance(finding).iter().map(|(name, fact)| format!("{name}: {fact}.")).collect();
    let groups = all.into_iter().map(|(name, bins)| {
        let rows = bins.iter().map(|bin| Row {
            name: sheet::bin(bin),
            value: bin.count as f64,
            interval: None,
            written: bin.count.to_string(),
            firm: true,
            tone: 2,
        });
        Group { name: name.to_owned(), rows: rows.collect() }
    });
    Some(Bars {
        slug: "pauses".to_owned(),
        title: "Pauses of CPUs and sender, by length".to_owned(),
        origin: finding::origin(finding),
        words: words.join(" "),
        groups: groups.collect(),
        notes: Vec::new(),
        columns: ["who", "length", "count"],
    })
}
