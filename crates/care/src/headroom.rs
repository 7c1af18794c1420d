//! [`headroom`]: compares the load of a [`Moment`] with the cliff of a `find`.
//!
//! A cliff applies to one CPU: the packets/s above which the CPU loses packets. A CPU's closeness to the cliff is the
//! largest of three shares: its packets/s over the cliff; its time in interrupts and softirqs over that time at the
//! cliff; and its time that is neither idle nor used by programs of low priority (nice). The first share is exact for
//! packets like the packets of the calibration, which one device receives. The kernel's count (`processed` of
//! /proc/net/softnet_stat) increases once for each device of this host that receives a packet (net/core/dev.c,
//! __netif_receive_skb_core), and once for packets that GRO merged. The second is higher for packets that cost more (longer frames, a
//! firewall, decryption), for which the calibrated cliff is too high. The third includes the programs that read the
//! packets. A thread cannot use more than one CPU. If the busiest thread of a program with sockets uses more CPU time
//! than its CPU is busy (because it moves between CPUs), the thread's share counts. Most kernels' /proc/stat counts
//! softirq time by ticks: over a second it is accurate to a few hundredths.
//!
//! A link, a token bucket and a cgroup's CPU quota also limit a host. Each has its own share; the host's share is the
//! largest of all.
//!
//! The first two shares assume packets like the packets of the calibration. While no packets are lost, the load is
//! below the cliff: these two shares are then limited to 1.

use std::sync::PoisonError;

use netcliff_core::headroom::{Bound, CpuHeadroom, Headroom, Nearest, QueueHeadroom};
use netcliff_core::watch::{CpuMoment, InterfaceMoment, Moment, ProgramMoment, QueueMoment};
use netcliff_core::{CpuShares, Engine, EngineKind, Figure, Latency, Point};
use netcliff_model::ModelEngine;

use netcliff_lab::costs::{Found, unfit, unusual};

/// Largest number of CPUs whose latency is predicted (the most loaded ones): computing a chain takes milliseconds.
const MOST_PREDICTED: usize = 8;
/// Relative step of the loads whose latencies are computed and stored, so that a query by the monitoring system a few
/// seconds later finds most of them.
const STEP: f64 = 0.01;
/// Maximum number of stored loads.
const MOST_KNOWN: usize = 1024;
/// A calibration of at least this age is reported as old (s): 30 days.
const OLD_S: f64 = 30.0 * 86_400.0;
/// CPUs whose shares differ by at most this count as equally loaded, because the kernel's ticks are coarse.
const ALIKE: f64 = 0.05;

/// Engines, the most trustworthy first.
const ENGINES: [EngineKind; 3] = [EngineKind::Wire, EngineKind::Sim, EngineKind::Model];

/// Returns the cliff with which loads are compared, and the engine that determined it. `None` if the finding has no
/// cliff.
pub fn cliff(found: &Found) -> Option<(EngineKind, Figure)> {
    let cliff = &found.finding.cliff_pps;
    let of = |engine: EngineKind| Some((engine, *cliff.get(engine).filter(|cliff| cliff.value > 0.0)?));
    ENGINES.into_iter().find_map(of)
}

/// Share of the CPU that interrupts, polls and protocol work use at the cliff; `None` if it was not determined.
fn softirq_at_cliff(found: &Found) -> Option<f64> {
    let shares = ENGINES.into_iter().find_map(|engine| found.finding.cpu_at_cliff.get(engine))?;
    let CpuShares { interrupt, poll, protocol, .. } = shares;
    let sum: f64 = [interrupt, poll, protocol].into_iter().flatten().map(|figure| figure.value).sum();
    (protocol.is_some() && sum > 0.0).then_some(sum)
}

/// This machine at present, to check whether a calibration applies to it.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// Seconds since the epoch.
    pub unix_s: f64,
    /// Kernel version, in the form in which `find` stores it.
    pub kernel: &'a str,
    /// CPU model, in the form in which `find` stores it.
    pub cpu: &'a str,
}

/// Compares the load of a host at one moment with its cliff.
///
/// # Errors
/// A sentence: the finding has no cliff, or no CPU was counted.
pub fn headroom(moment: &Moment, found: &Found, here: Here<'_>) -> Result<Headroom, String> {
    let Some((engine, cliff_pps)) = cliff(found) else {
        return Err(format!("{} found no cliff: repeat `netcliff find`", found.name));
    };
    let at_cliff = softirq_at_cliff(found);
    let loses = moment.lost_per_s() > 0.0;
    let of = |cpu: &CpuMoment| {
        let softirq = cpu.irq + cpu.softirq;
        let busy = (1.0 - cpu.idle - cpu.niced).clamp(0.0, 1.0);
        let programs = busiest_thread(moment, cpu.cpu).max(busy);
        let most = if loses { f64::INFINITY } else { 1.0 };
        let by_packets = (cpu.packets_per_s / cliff_pps.value).min(most);
        let by_softirq = at_cliff.map_or(0.0, |at_cliff| softirq / at_cliff).min(most);
        let shares = [(by_packets, Nearest::Packets), (by_softirq, Nearest::Softirq), (programs, Nearest::Programs)];
        let (share, by) = shares.into_iter().fold(shares[0], |best, one| if one.0 > best.0 { one } else { best });
        CpuHeadroom {
            cpu: cpu.cpu,
            packets_per_s: cpu.packets_per_s,
            softirq,
            busy,
            share,
            by,
            dropped_per_s: cpu.dropped_per_s,
            latency_s: None,
        }
    };
    let mut cpus: Vec<CpuHeadroom> = moment.cpus.iter().map(of).collect();
    let Some(nearest) = nearest(&cpus, moment) else { return Err("no CPU was counted".to_owned()) };
    let links = moment.interfaces.iter().flat_map(InterfaceMoment::fillings).map(Bound::Link);
    let mut bounds: Vec<Bound> = links
        .chain(moment.quotas.iter().cloned().map(Bound::Quota))
        .chain(moment.conntrack.map(Bound::Conntrack))
        .collect();
    bounds.sort_by(|a, b| b.share().total_cmp(&a.share()));
    let share = bounds.first().map_or(0.0, Bound::share).max(nearest.share);
    let cpu = nearest.cpu;
    predict(&mut cpus, found);
    let queue = |interface: &InterfaceMoment, queue: &QueueMoment| QueueHeadroom {
        interface: interface.whole_name(),
        queue: queue.queue,
        packets_per_s: queue.packets_per_s,
        share: queue.packets_per_s / cliff_pps.value,
        cpu: taker(moment, &interface.name, queue.queue).filter(|_| interface.namespace.is_none()),
        dropped_per_s: queue.dropped_per_s,
    };
    let of_interface =
        |one| InterfaceMoment::receive_queues(one).map(move |each| queue(one, each)).collect::<Vec<QueueHeadroom>>();
    let cautions = cautions(found, engine, here);
    Ok(Headroom {
        seconds: moment.seconds,
        run: found.run,
        cliff_of: found.name.clone(),
        cliff_why: found.why.clone(),
        cliff_valid: cautions.is_empty(),
        calibrated_unix_s: found.finding.provenance.started_unix_s,
        age_s: age_s(found, here.unix_s).filter(|age_s| *age_s >= 0.0),
        cliff_pps,
        engine,
        frame_bytes: found.frame_bytes,
        softirq_at_cliff: at_cliff,
        share,
        cpu,
        bounds,
        cpus,
        queues: moment.interfaces.iter().flat_map(of_interface).collect(),
        lost_per_s: moment.lost_per_s(),
        lost: moment.lost(),
        unclaimed: moment.unclaimed(),
        losses: moment.losses.clone(),
        programs: moment.programs.clone(),
        cautions,
    })
}

/// Share of one CPU used by the busiest thread, among programs with sockets that last ran on this CPU; 0 if there is no
/// such program.
fn busiest_thread(moment: &Moment, cpu: u32) -> f64 {
    let serving = moment.programs_of(cpu).filter(|program| program.serves());
    serving.map(|program| program.busiest_thread).fold(0.0, f64::max)
}

/// Returns the CPU with the largest share. Among equally loaded CPUs, prefers one whose first program has sockets in
/// this network namespace.
fn nearest<'a>(cpus: &'a [CpuHeadroom], moment: &Moment) -> Option<&'a CpuHeadroom> {
    let largest = cpus.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let serves = |cpu: u32| moment.programs_of(cpu).next().is_some_and(ProgramMoment::serves);
    let alike = cpus.iter().filter(|cpu| cpu.share >= largest.share - ALIKE && serves(cpu.cpu));
    Some(alike.max_by(|a, b| a.share.total_cmp(&b.share)).unwrap_or(largest))
}

/// Returns the CPU that handled a queue's interrupt, found by the number at the end of the interrupt's name
/// (`eth0-rx-3`, `virtio0-input.3`). `None` if no name fits, or if several do.
fn taker(moment: &Moment, interface: &str, queue: u32) -> Option<u32> {
    let sends = |name: &str| name.contains("output") || name.contains("tx") && !name.to_lowercase().contains("txrx");
    let ends_with = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        name[name.len() - digits..].parse() == Ok(queue)
    };
    let mut fit = moment
        .interrupts
        .iter()
        .filter(|irq| irq.interface == interface && ends_with(&irq.name) && !sends(&irq.name.to_lowercase()));
    let one = fit.next()?;
    if fit.next().is_some() { None } else { one.cpu }
}

/// Predicts the latency on the most loaded CPUs, by the model.
fn predict(cpus: &mut [CpuHeadroom], found: &Found) {
    let finding = &found.finding;
    let host = finding.searched_host.as_ref().unwrap_or(&found.calibration.host);
    let mut order: Vec<usize> = (0..cpus.len()).filter(|&at| cpus[at].packets_per_s >= 1.0).collect();
    order.sort_by(|&a, &b| cpus[b].packets_per_s.total_cmp(&cpus[a].packets_per_s));
    for at in order.into_iter().take(MOST_PREDICTED) {
        let step = (cpus[at].packets_per_s.ln() / STEP).round() as i32;
        let mut known = found.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        cpus[at].latency_s = *known.entry(step).or_insert_with(|| {
            let (setup, pps) = (&finding.setup, (f64::from(step) * STEP).exp());
            latency(&Point::of(host, &setup.scheme, &setup.traffic, pps))
        });
    }
}

fn latency(point: &Point) -> Option<Latency> {
    let engine = ModelEngine::default();
    engine.supports(point).ok()?;
    engine.evaluate(point).ok()?.latency_s
}

/// Time since the calibration (s), negative if the calibration is in the future. `None` for costs that were given,
/// which have no date.
fn age_s(found: &Found, now_unix_s: f64) -> Option<f64> {
    let started_unix_s = found.finding.provenance.started_unix_s;
    (started_unix_s > 0.0).then_some(now_unix_s - started_unix_s)
}

fn cautions(found: &Found, engine: EngineKind, here: Here<'_>) -> Vec<String> {
    let mut said = Vec::new();
    let finding = &found.finding;
    // Given costs do not belong to a machine; the engine states the reasons against them.
    let given = finding.host.cpu.is_empty();
    if !given && let Some(why) = unfit(finding, here.cpu).or_else(|| unusual(finding)) {
        said.push(format!("{} would not be chosen automatically: {why}.", found.name));
    }
    if engine != EngineKind::Wire {
        said.push(format!("The cliff was not measured: it is that of the {engine}."));
    }
    let then = &found.finding.host.kernel;
    if !then.is_empty() && !here.kernel.is_empty() && then != here.kernel {
        said.push(format!("The cliff was measured under {then}; this is {}: repeat `netcliff find`.", here.kernel));
    }
    match age_s(found, here.unix_s) {
        Some(age_s) if age_s > OLD_S => {
            said.push(format!("The cliff was measured {:.0} days ago: repeat `netcliff find`.", age_s / 86_400.0));
        }
        Some(age_s) if age_s < 0.0 => {
            said.push("The cliff's date lies in the future: one of the clocks was or is wrong.".to_owned());
        }
        _ => {}
    }
    if found.finding.partial {
        said.push(format!("{} was stopped early.", found.name));
    }
    said
}

#[cfg(test)]
mod tests;
