//! Settings worth trying: candidates ranked on paper, the best two simulated.

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::Suggestion;
use netcliff_core::{Figure, Finding};

use super::engines::Computed;

/// A gain below this is not worth a try: the noise of a measurement is larger.
const WORTHWHILE: f64 = 1.03;
/// How many are told.
const TOLD: usize = 2;
/// A throughput at twice the cliff below this share of the peak is worth mending.
const LIVELOCK: f64 = 0.7;

struct Candidate {
    setting: String,
    why: String,
    changed: Computed,
}

/// The two most promising settings, by simulated cliff; none if nothing helps. After `stop` without their cliffs.
pub fn settings(now: &Computed, finding: &Finding, stop: &AtomicBool) -> Vec<Suggestion> {
    let Some(base_pps) = finding.cliff_pps.sim.or(finding.cliff_pps.model) else { return Vec::new() };
    let livelocks = finding.livelock.wire.or(finding.livelock.sim).is_some_and(|figure| figure.value < LIVELOCK);
    let mut ranked: Vec<(f64, Candidate)> = candidates(now, livelocks)
        .into_iter()
        .filter_map(|candidate| {
            let cliff = candidate.changed.unless_stopped(stop, |changed, _| changed.model_cliff());
            Some((cliff?.ok()?.value, candidate))
        })
        .filter(|(pps, _)| *pps > WORTHWHILE * base_pps.value)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked
        .into_iter()
        .take(TOLD)
        .map(|(_, candidate)| {
            let cliff = candidate.changed.unless_stopped(stop, Computed::sim_cliff);
            let expected: Option<Figure> = cliff.and_then(|cliff| cliff.ok().flatten());
            Suggestion { setting: candidate.setting, why: candidate.why, expected_cliff_pps: expected }
        })
        .collect()
}

fn candidates(now: &Computed, livelocks: bool) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |setting: String, why: &str, change: &dyn Fn(&mut Computed)| {
        let mut changed = now.clone();
        change(&mut changed);
        all.push(Candidate { setting, why: why.to_owned(), changed });
    };
    let why = if livelocks {
        "softirq work then no longer takes the application's CPU, which also ends the livelock"
    } else {
        "softirq and application then no longer share one CPU"
    };
    add(
        "run the application on another CPU than the one that receives (taskset, or RPS/IRQ affinity)".to_owned(),
        why,
        &|c| {
            // Two stages on two CPUs: the slower one binds, and protocol processing alone is what one CPU then does.
            c.host.protocol_s = c.host.protocol_s.max(c.host.application_s.unwrap_or(0.0) - 64.0 * c.host.per_byte_s);
            c.host.application_s = None;
        },
    );
    add(
        format!("a socket buffer of {} packets (SO_RCVBUF, net.core.rmem_max)", 4 * now.host.socket_buffer),
        "bursts and pauses of the application then fit",
        &|c| c.host.socket_buffer *= 4,
    );
    add(format!("sysctl net.core.netdev_max_backlog={}", 4 * now.host.ring), "bursts then fit the backlog", &|c| {
        c.host.ring *= 4
    });
    all
}
