//! Makes the report from the counts of the flows.

use netcliff_host::cpu::system::SystemShares;
use netcliff_host::cpu::{CpuSplit, Method};

use super::{Measured, Near};
use crate::bulk::hardware::{self, Hardware};
use crate::exchange::STAMPED_BYTES;
use crate::exchange::flow::Counts;
use crate::exchange::report::{Cost, HostCost, HostTicks, OneWay, Report, ServerCount, ThreadCost, recorded};
use crate::exchange::server::busy_share;
use crate::exchange::settings::{Receive, Settings};
use netcliff_packets::latency::Latency;

pub(super) fn report(settings: &Settings, near: &Near<'_>, measured: Measured) -> Report {
    let window_s = measured.closed_ns.saturating_sub(measured.window.opens_ns) as f64 * 1e-9;
    let rate = |transactions: u64| if window_s > 0.0 { transactions as f64 / window_s } else { 0.0 };
    let transactions = measured.flows.iter().map(|flow| flow.transactions).sum();
    let sum = |of: fn(&Counts) -> u64| measured.flows.iter().map(of).sum();
    Report {
        settings: settings.clone(),
        path: near.path.clone(),
        window_s,
        transactions,
        rate_per_s: rate(transactions),
        flow_rates_per_s: measured.flows.iter().map(|flow| rate(flow.transactions)).collect(),
        latency: recorded(&merged(&measured.flows, |flow| &flow.latency)),
        lateness: recorded(&merged(&measured.flows, |flow| &flow.lateness)),
        one_way: one_way(settings, near, &measured.flows),
        timeouts: sum(|flow| flow.timeouts),
        unsent: sum(|flow| flow.unsent),
        late_answers: sum(|flow| flow.late_answers),
        cost: cost(near, &measured, window_s, transactions),
        ticks: HostTicks { near: measured.ticks.clone(), far: far_ticks(near, &measured).unwrap_or_default().to_vec() },
        refused: measured.far.1.as_ref().map_or(0, |far| far.refused),
        began_ns: measured.flows.iter().filter_map(|flow| flow.began_ns).min(),
        together: None,
        partial: partial(&measured),
        notes: notes(settings, near, &measured),
    }
}

fn merged(flows: &[Counts], of: fn(&Counts) -> &Latency) -> Latency {
    let mut all = Latency::new();
    flows.iter().for_each(|flow| all.merge(of(flow)));
    all
}

fn one_way(settings: &Settings, near: &Near<'_>, flows: &[Counts]) -> OneWay {
    if !near.same_clock {
        let why = "the two ends have no common clock, and hardware timestamps are not used";
        return OneWay::NotAvailable(why.to_owned());
    }
    if settings.response_bytes < STAMPED_BYTES {
        return OneWay::NotAvailable(format!(
            "the response has to hold its times: --response {STAMPED_BYTES}B or more"
        ));
    }
    let forth = recorded(&merged(flows, |flow| &flow.forth));
    match forth.zip(recorded(&merged(flows, |flow| &flow.back))) {
        Some((forth, back)) => OneWay::Delays { forth, back },
        None => OneWay::NotAvailable("there was no transaction".to_owned()),
    }
}

fn partial(measured: &Measured) -> Option<String> {
    let mut ended: Vec<String> = measured.flows.iter().filter_map(|flow| flow.ended.clone()).collect();
    let flows = ended.len();
    ended.dedup();
    let flows =
        (flows > 0).then(|| format!("{flows} of {} flows ended early: {}", measured.flows.len(), ended.join("; ")));
    match (measured.stopped, flows) {
        (Some("all flows ended"), flows) => flows,
        (Some(why), Some(flows)) => Some(format!("{why}; {flows}")),
        (Some(why), None) => Some(why.to_owned()),
        (None, flows) => flows,
    }
}

fn cost(near: &Near<'_>, measured: &Measured, window_s: f64, transactions: u64) -> Cost {
    let client_s = measured.flows.iter().map(|flow| flow.cpu_ns).sum::<u64>() as f64 * 1e-9;
    let far = measured.far.0.as_ref().zip(measured.far.1.as_ref());
    let server = far.and_then(|(from, to)| {
        let used = to.hardware.zip(from.hardware).map(|(to, from)| to.since(from));
        threads(to.threads_s - from.threads_s, used, to.at_s - from.at_s, to.responses - from.responses)
    });
    let exact = measured.splits.first().is_some_and(|split| split.method != Method::Procfs);
    let elsewhere = far.filter(|_| !near.same_host);
    Cost {
        client_threads: threads(client_s, used_by(&measured.flows), window_s, transactions),
        server_threads: server,
        client_host: host(&measured.splits, transactions),
        client_ticks: ticks(&measured.ticks, window_s, transactions).filter(|_| exact),
        server_host: elsewhere.and_then(|(from, to)| far_host(from, to)),
        server_exact: elsewhere.and_then(|(from, to)| host(to.cpu.as_ref()?.splits(), to.responses - from.responses)),
    }
}

fn threads(cpu_s: f64, used: Option<Hardware>, elapsed_s: f64, count: u64) -> Option<ThreadCost> {
    let each = |used: u64| used as f64 / count as f64;
    (count > 0 && elapsed_s > 0.0).then(|| ThreadCost {
        cpus: cpu_s / elapsed_s,
        us_per_transaction: cpu_s * 1e6 / count as f64,
        cycles_per_transaction: used.map(|used| each(used.cycles)),
        instructions_per_transaction: used.map(|used| each(used.instructions)),
    })
}

/// Sum of the hardware counters of all flows. `None` if one flow has no counters.
fn used_by(flows: &[Counts]) -> Option<Hardware> {
    flows.iter().map(|flow| flow.hardware).reduce(|sum, next| Some(sum?.plus(next?))).flatten()
}

/// CPU cost of the host, by the kernel's ticks.
fn ticks(shares: &[SystemShares], window_s: f64, transactions: u64) -> Option<HostCost> {
    let busy_s = shares.iter().map(SystemShares::used_s).sum();
    by_ticks(busy_s, window_s, transactions).filter(|_| !shares.is_empty())
}

fn by_ticks(busy_s: f64, elapsed_s: f64, transactions: u64) -> Option<HostCost> {
    (elapsed_s > 0.0 && transactions > 0).then(|| HostCost {
        method: Method::Procfs.to_string(),
        busy_cpus: busy_s / elapsed_s,
        us_per_transaction: busy_s * 1e6 / transactions as f64,
        split: Vec::new(),
    })
}

fn host(splits: &[CpuSplit], transactions: u64) -> Option<HostCost> {
    let first = splits.first().filter(|_| transactions > 0)?;
    let share = |split: &CpuSplit| busy_share(split.shares.idle, split.shares.steal);
    let busy_cpus: f64 = splits.iter().map(share).sum();
    Some(HostCost {
        method: first.method.to_string(),
        busy_cpus,
        us_per_transaction: busy_cpus * first.elapsed_s * 1e6 / transactions as f64,
        split: splits.to_vec(),
    })
}

fn far_host(from: &ServerCount, to: &ServerCount) -> Option<HostCost> {
    by_ticks(to.host_busy_s? - from.host_busy_s?, to.at_s - from.at_s, to.responses - from.responses)
}

/// Ticks of the far end's host. `None` if it is this host, or does not report them.
fn far_ticks<'a>(near: &Near<'_>, measured: &'a Measured) -> Option<&'a [SystemShares]> {
    measured.far.1.as_ref().filter(|_| !near.same_host)?.ticks.as_deref()
}

fn notes(settings: &Settings, near: &Near<'_>, measured: &Measured) -> Vec<String> {
    let mut notes = Vec::new();
    if settings.connect_each {
        notes.push("Connections are closed by a reset, so that the host does not run out of ports (TIME_WAIT).".into());
    }
    if settings.receive == Receive::Spin && settings.shares_a_cpu() {
        notes.push(
            "Both ends of a flow spin on the same CPU: each waits for the scheduler to take the other off it.".into(),
        );
    }
    let flows = settings.flows as usize;
    if settings.receive == Receive::Spin && flows > 1 {
        notes.push(format!("{flows} flows spin at each end: with fewer CPUs than that they wait for one another."));
    }
    if near.same_host {
        notes.push("Both ends are on this host: its CPU time is that of both.".into());
    }
    if !near.same_host && measured.far.1.is_some() && far_ticks(near, measured).is_none() {
        let why = "its agent does not report them; install the same version on both hosts";
        notes.push(format!("CPUs of the far end's host by ticks: not available: {why}"));
    }
    notes.extend(measured.far.1.as_ref().and_then(|far| far.cpu.as_ref()?.refusal()));
    notes.extend(hardware::refusal());
    let mut meters: Vec<String> = measured.splits.iter().flat_map(|split| split.notes.clone()).collect();
    meters.dedup();
    notes.extend(meters.into_iter().take(2));
    if let Some(share) = measured.splits.iter().filter_map(|split| split.overhead_share).reduce(f64::max) {
        notes.push(format!("The meter itself took up to {:.2} % of a CPU, contained in the figures.", share * 100.0));
    }
    notes
}
