//! Computes the figures of the report from the sweep: peak, livelock, CPU shares, losses, bottleneck.

use netcliff_core::finding::EngineFigure;
use netcliff_core::finding::SweepPoint;
use netcliff_core::note::Note;
use netcliff_core::{CpuShares, EngineKind, Figure, Finding, Latency, Loss, Outcome, binding};

use super::missing;
use netcliff_stats as stats;
use netcliff_trial::bench::Observation;

/// Several repeats of one load, merged to one outcome.
pub struct Merged {
    outcome: Outcome,
    repeats: u32,
    kept_up: bool,
}

impl Merged {
    /// True if in at least one repeat the sender kept up with the load.
    pub fn was_offered(&self) -> bool {
        self.kept_up
    }

    /// The outcome as a point of the sweep.
    pub fn into_point(self, load_pps: f64) -> SweepPoint {
        SweepPoint {
            engine: EngineKind::Wire,
            load_pps,
            repeats: self.repeats,
            sender_kept_up: self.kept_up,
            outcome: self.outcome,
        }
    }
}

/// Merges the repeats of one load to means with intervals, from the valid repeats if there are any, otherwise from the
/// void ones. `None` without repeats.
pub fn merge(observations: &[Observation]) -> Option<Merged> {
    let good: Vec<&Observation> = observations.iter().filter(|o| o.void().is_none()).collect();
    let kept_up = !good.is_empty();
    let used: Vec<&Outcome> = if kept_up {
        good.iter().map(|o| &o.outcome).collect()
    } else {
        observations.iter().map(|o| &o.outcome).collect()
    };
    let last = *used.last()?;
    let over = |pick: &dyn Fn(&Outcome) -> Option<Figure>| {
        let values: Vec<f64> = used.iter().filter_map(|outcome| pick(outcome)).map(|figure| figure.value).collect();
        stats::mean(&values).map(Figure::not_negative)
    };
    let share = |pick: &dyn Fn(&Outcome) -> Option<Figure>| over(pick).map(Figure::as_share);
    let outcome = Outcome {
        offered_pps: over(&|o| o.offered_pps),
        throughput_pps: over(&|o| o.throughput_pps),
        goodput_bps: over(&|o| o.goodput_bps),
        loss_fraction: share(&|o| o.loss_fraction),
        loss: Some(Loss {
            ring: share(&|o| o.loss?.ring),
            socket: share(&|o| o.loss?.socket),
            sender: share(&|o| o.loss?.sender),
        }),
        latency_s: Some(Latency {
            mean: over(&|o| o.latency_s?.mean),
            p50: over(&|o| o.latency_s?.p50),
            p90: over(&|o| o.latency_s?.p90),
            p99: over(&|o| o.latency_s?.p99),
            p999: over(&|o| o.latency_s?.p999),
            max: over(&|o| o.latency_s?.max),
            done_mean: over(&|o| o.latency_s?.done_mean),
        }),
        latency_to: last.latency_to.clone(),
        cpu: last.cpu.is_some().then(|| CpuShares {
            interrupt: share(&|o| o.cpu?.interrupt),
            poll: share(&|o| o.cpu?.poll),
            protocol: share(&|o| o.cpu?.protocol),
            application: share(&|o| o.cpu?.application),
            paused: share(&|o| o.cpu?.paused),
            available: share(&|o| o.cpu?.available),
        }),
        cpu_method: last.cpu_method.clone(),
        interrupts_per_s: over(&|o| o.interrupts_per_s),
        polls_per_s: over(&|o| o.polls_per_s),
        packets_per_poll: over(&|o| o.packets_per_poll),
        transmitted: None,
        packets_in_system: None,
        precision: None,
        applications: Vec::new(),
        queues: Vec::new(),
        notes: notes(&used),
    };
    Some(Merged { outcome, repeats: used.len() as u32, kept_up })
}

fn notes(used: &[&Outcome]) -> Vec<Note> {
    let mut notes: Vec<Note> = used.iter().flat_map(|outcome| outcome.notes.clone()).collect();
    notes.sort_by_cached_key(ToString::to_string);
    notes.dedup();
    notes
}

/// Adds the figures that follow from the sweep.
pub fn all(finding: &mut Finding) {
    for engine in [EngineKind::Model, EngineKind::Sim, EngineKind::Wire] {
        let curve: Vec<SweepPoint> = finding.curve(engine).into_iter().cloned().collect();
        // At the cliff, all packets but the accepted loss are delivered; the sweep's load may differ slightly from the
        // cliff.
        let cliff = finding.cliff_pps.get(engine).copied().filter(|_| !curve.is_empty());
        let delivered = curve.iter().filter_map(|point| point.outcome.throughput_pps).chain(cliff);
        let peak = delivered.max_by(|a, b| a.value.total_cmp(&b.value));
        let centre_pps = finding.cliff_pps.wire.or(finding.cliff_pps.sim).or(finding.cliff_pps.model).map(|f| f.value);
        let at = |multiple: f64| {
            let load_pps = multiple * centre_pps?;
            curve.iter().find(|point| (point.load_pps / load_pps - 1.0).abs() < 1e-6 && point.sender_kept_up)
        };
        let (cliff, twice) = (at(1.0), at(2.0));
        finding.peak_pps.set(engine, peak);
        let livelock = peak.and_then(|peak| Some(twice?.outcome.throughput_pps?.scaled(1.0 / peak.value)));
        finding.livelock.set(engine, livelock);
        finding.cpu_at_cliff.set(engine, cliff.and_then(|point| point.outcome.cpu));
        finding.cpu_at_twice.set(engine, twice.and_then(|point| point.outcome.cpu));
        finding.loss_at_twice.set(engine, twice.and_then(|point| point.outcome.loss));
    }
    if finding.livelock.wire.is_none() {
        finding.livelock.wire = finding.delivered_in_ledger();
        finding.livelock_by_ledger = finding.livelock.wire.is_some();
    }
    if !finding.partial {
        unreached(finding);
    }
    finding.binding = binding::sentence(finding);
}

/// Adds to `missing` the measured figures whose load has no valid trial, with this reason.
fn unreached(finding: &mut Finding) {
    let why = |load: &str| format!("no trial at {load} in which the sender offered that load");
    let curve = finding.curve(EngineKind::Wire);
    let tried = |load_pps: f64| {
        curve.iter().any(|point| (point.load_pps / load_pps - 1.0).abs() < 1e-6 && point.sender_kept_up)
    };
    let mut reasons = Vec::new();
    for at in finding.latency.iter().filter(|at| at.latency_s.wire.is_none() && !tried(at.load_pps)) {
        reasons.push((EngineFigure::Latency, why(&format!("{:.0} % of the cliff", 100.0 * at.share))));
    }
    if finding.cpu_at_cliff.wire.is_none() {
        match finding.cliff_pps.wire {
            None => reasons.push((EngineFigure::CpuAtCliff, "no cliff was measured".to_owned())),
            Some(cliff) if !tried(cliff.value) => reasons.push((EngineFigure::CpuAtCliff, why("the cliff"))),
            Some(_) => {}
        }
    }
    let at_twice = [
        (EngineFigure::Livelock, finding.livelock.wire.is_none()),
        (EngineFigure::CpuAtTwice, finding.cpu_at_twice.wire.is_none()),
        (EngineFigure::LossAtTwice, finding.loss_at_twice.wire.is_none()),
    ];
    let tried_twice = finding.cliff_pps.wire.is_some_and(|cliff| tried(2.0 * cliff.value));
    for (figure, _) in at_twice.into_iter().filter(|(_, lacks)| *lacks && !tried_twice) {
        reasons.push((figure, why("twice the cliff")));
    }
    for (figure, why) in reasons {
        missing(finding, figure.by(EngineKind::Wire), why);
    }
}
