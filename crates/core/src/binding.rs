//! Names the bottleneck at the cliff: in which queue packets are lost, and how much CPU time was left there.

use crate::engine::EngineKind;
use crate::finding::{Finding, SweepPoint};
use crate::outcome::{CpuShares, Figure, Outcome};

/// Describes the bottleneck in a few sentences, from the lowest load at or past the cliff that loses more than the target.
/// Prefers measured points to simulated ones and simulated points to predicted ones, and says which it used. None if no
/// engine has such a point.
pub fn sentence(finding: &Finding) -> Option<String> {
    [EngineKind::Wire, EngineKind::Sim, EngineKind::Model].into_iter().find_map(|engine| {
        let said = of(finding, engine)?;
        Some(match engine {
            EngineKind::Wire => said,
            EngineKind::Sim => format!("Simulated, not measured. {said}"),
            EngineKind::Model => format!("By the model, not measured. {said}"),
        })
    })
}

fn of(finding: &Finding, engine: EngineKind) -> Option<String> {
    let cliff = finding.cliff_pps.get(engine)?;
    let losing =
        finding.curve(engine).into_iter().find(|point| point.load_pps >= cliff.value && loses(point, finding))?;
    at(losing.load_pps, &losing.outcome, *cliff)
}

/// Describes the bottleneck, from the outcome at a load past the cliff. None if nothing is lost there, or
/// the outcome has no CPU shares.
pub fn at(load_pps: f64, outcome: &Outcome, cliff: Figure) -> Option<String> {
    let (place, share) = place(outcome)?;
    let cpu = outcome.cpu?;
    let available = value(cpu.available);
    let lost = format!("{} of the loss at this load is in the {place}", percent(share));
    // Rate (pps) that a fully busy CPU would carry at the present work per packet.
    let whole_pps = outcome.throughput_pps?.value / (1.0 - available).max(1e-9);
    let upper_pps = cliff.interval.map_or(cliff.value, |interval| interval.high);
    Some(if whole_pps > upper_pps && available >= CpuShares::LEAST_PRINTED {
        format!(
            "The CPU is not full past the cliff: at {:.0} kpps it is {} idle, enough for {:.0} kpps. {lost}: bursts or \
             pauses overflow this queue before the CPU is full.",
            load_pps / 1e3,
            percent(available),
            whole_pps / 1e3
        )
    } else {
        let load = format!("at {:.0} kpps it is {} idle", load_pps / 1e3, percent(available));
        format!("The CPU is full past the cliff: {load}, and {lost}. {}.", parts(&cpu))
    })
}

fn loses(point: &SweepPoint, finding: &Finding) -> bool {
    point.sender_kept_up && point.outcome.loss_fraction.is_some_and(|loss| loss.value > finding.loss_target)
}

/// Queue that loses most packets, and its share of all losses.
fn place(outcome: &Outcome) -> Option<(&'static str, f64)> {
    let loss = outcome.loss?;
    let places =
        [("backlog or ring", value(loss.ring)), ("socket buffer", value(loss.socket)), ("sender", value(loss.sender))];
    let sum: f64 = places.iter().map(|(_, lost)| lost).sum();
    let most = places.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (sum > 0.0).then_some((most.0, most.1 / sum))
}

fn parts(cpu: &CpuShares) -> String {
    let interrupt = value(cpu.interrupt) + value(cpu.poll);
    let rest = cpu.rest().filter(|rest| *rest >= CpuShares::LEAST_PRINTED);
    let rest = rest.map_or(String::new(), |rest| {
        format!(", other work at this load (other tasks, other softirqs or pauses) {}", percent(rest))
    });
    format!(
        "Protocol processing takes {} of the CPU, the application {}, interrupts and polls {}{rest}",
        percent(value(cpu.protocol)),
        percent(value(cpu.application)),
        percent(interrupt)
    )
}

fn value(figure: Option<Figure>) -> f64 {
    figure.map_or(0.0, |figure| figure.value)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
