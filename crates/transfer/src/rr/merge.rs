//! Combines the repeats of a configuration: one sample for each repeat, and one report for all repeats.

use std::fmt;

use netcliff_core::stream::jain;
use netcliff_host::cpu::{CpuSplit, Method};
use netcliff_packets::latency::{LatencyRecord, LatencySummary};
use serde::{Deserialize, Serialize};

use super::{Cost, HostCost, HostCpus, HostTicks, OneWay, Receive, Report, ThreadCost};
use crate::exchange::{AgentShare, Together};
use crate::hosts::{BUSY, STEAL};
use netcliff_trial::repeats;

/// One repeat's figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RrSample {
    /// Length of the measured window (s).
    pub window_s: f64,
    /// Number of transactions in the window.
    pub transactions: u64,
    /// Transactions per second (1/s).
    pub rate_per_s: f64,
    /// Number of requests without an answer.
    pub timeouts: u64,
    /// Number of requests that were due and never sent.
    #[serde(default)]
    pub unsent: u64,
    /// Latency of the transactions; absent without a transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySummary>,
    /// CPU time of the client's threads per transaction (us).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_us_per_transaction: Option<f64>,
    /// CPU time of the server's threads per transaction (us).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_us_per_transaction: Option<f64>,
    /// CPU time of all CPUs of the near end's host per transaction (us).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_transaction: Option<f64>,
}

impl RrSample {
    /// Extracts the sample from the report of one repeat.
    pub fn of(report: &Report) -> Self {
        let threads = |cost: &Option<ThreadCost>| cost.map(|cost| cost.us_per_transaction);
        Self {
            window_s: report.window_s,
            transactions: report.transactions,
            rate_per_s: report.rate_per_s,
            timeouts: report.timeouts,
            unsent: report.unsent,
            latency: report.latency.as_ref().map(|latency| latency.summary),
            client_us_per_transaction: threads(&report.cost.client_threads),
            server_us_per_transaction: threads(&report.cost.server_threads),
            host_us_per_transaction: report.cost.client_host.as_ref().map(|cost| cost.us_per_transaction),
        }
    }
}

/// Combines all repeats into one report: sums of counts and histograms, rates over the sum of the windows, CPU time
/// over all transactions. The split by CPU is taken from the repeat with the median rate. `None` without a repeat.
pub fn merged(repeats: &[Report]) -> Option<Report> {
    let (first, more) = repeats.split_first()?;
    if more.is_empty() {
        return Some(first.clone());
    }
    let sum = |count: fn(&Report) -> u64| repeats.iter().map(count).sum::<u64>();
    let window_s: f64 = repeats.iter().map(|report| report.window_s).sum();
    let transactions = sum(|report| report.transactions);
    let flows = repeats.iter().map(|report| report.flow_rates_per_s.len()).max().unwrap_or(0);
    let flow_rate = |flow: usize| {
        let counted = repeats.iter().map(|r| r.flow_rates_per_s.get(flow).copied().unwrap_or(0.0) * r.window_s);
        counted.sum::<f64>() / window_s
    };
    Some(Report {
        settings: first.settings.clone(),
        path: first.path.clone(),
        window_s,
        transactions,
        rate_per_s: transactions as f64 / window_s,
        flow_rates_per_s: (0..flows).map(flow_rate).collect(),
        latency: histograms(repeats.iter().map(|report| report.latency.as_ref())),
        lateness: histograms(repeats.iter().map(|report| report.lateness.as_ref())),
        one_way: one_way(repeats).unwrap_or_else(|| first.one_way.clone()),
        timeouts: sum(|report| report.timeouts),
        unsent: sum(|report| report.unsent),
        late_answers: sum(|report| report.late_answers),
        cost: cost(repeats),
        ticks: HostTicks::default(),
        refused: sum(|report| report.refused),
        began_ns: None,
        together: agents(repeats),
        partial: repeats.iter().find_map(|report| report.partial.clone()),
        notes: notes(repeats),
    })
}

/// Combines the agents' results of several repeats: sums of counts, rates over the sum of the windows.
fn agents(repeats: &[Report]) -> Option<Together> {
    let all: Vec<(&Together, f64)> =
        repeats.iter().filter_map(|report| Some((report.together.as_ref()?, report.window_s))).collect();
    let (first, _) = all.first()?;
    let window_s: f64 = all.iter().map(|(_, window_s)| window_s).sum();
    let agent = |number: usize| {
        let of: Vec<&AgentShare> = all.iter().filter_map(|(together, _)| together.agents.get(number)).collect();
        let transactions = of.iter().map(|agent| agent.transactions).sum::<u64>();
        AgentShare {
            agent: first.agents[number].agent.clone(),
            transactions,
            rate_per_s: transactions as f64 / window_s,
            timeouts: of.iter().map(|agent| agent.timeouts).sum(),
            latency: histograms(of.iter().map(|agent| agent.latency.as_ref())),
            began_after_s: of.iter().filter_map(|agent| agent.began_after_s).reduce(f64::max),
        }
    };
    let agents: Vec<AgentShare> = (0..first.agents.len()).map(agent).collect();
    let rates: Vec<f64> = agents.iter().map(|agent| agent.rate_per_s).collect();
    let start_skew_s = all.iter().filter_map(|(together, _)| together.start_skew_s).reduce(f64::max);
    Some(Together { jain: jain(&rates), start_skew_s, agents })
}

pub(super) fn histograms<'a>(records: impl Iterator<Item = Option<&'a LatencyRecord>>) -> Option<LatencyRecord> {
    let merged = records.flatten().map(LatencyRecord::latency).reduce(|mut sum, next| {
        sum.merge(&next);
        sum
    })?;
    LatencyRecord::of(&merged)
}

fn one_way(repeats: &[Report]) -> Option<OneWay> {
    let delays = |pick: fn(&OneWay) -> Option<&LatencyRecord>| histograms(repeats.iter().map(|r| pick(&r.one_way)));
    let forth = delays(|one_way| if let OneWay::Delays { forth, .. } = one_way { Some(forth) } else { None });
    let back = delays(|one_way| if let OneWay::Delays { back, .. } = one_way { Some(back) } else { None });
    Some(OneWay::Delays { forth: forth?, back: back? })
}

fn cost(repeats: &[Report]) -> Cost {
    let threads = |pick: fn(&Cost) -> Option<ThreadCost>| -> Option<ThreadCost> {
        let (cpus, us_per_transaction) = whole(repeats, |cost| pick(cost).map(|cost| cost.cpus))?;
        let counted = |count: fn(&ThreadCost) -> Option<f64>| each(repeats, |cost| count(&pick(cost)?));
        Some(ThreadCost {
            cpus,
            us_per_transaction,
            cycles_per_transaction: counted(|cost| cost.cycles_per_transaction),
            instructions_per_transaction: counted(|cost| cost.instructions_per_transaction),
        })
    };
    let host = |pick: fn(&Cost) -> Option<&HostCost>| -> Option<HostCost> {
        let (busy_cpus, us_per_transaction) = whole(repeats, |cost| pick(cost).map(|cost| cost.busy_cpus))?;
        let mut by_rate: Vec<&Report> = repeats.iter().filter(|report| pick(&report.cost).is_some()).collect();
        by_rate.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
        let HostCost { method, split, .. } = pick(&by_rate.get(by_rate.len() / 2)?.cost)?.clone();
        Some(HostCost { method, busy_cpus, us_per_transaction, split })
    };
    Cost {
        client_threads: threads(|cost| cost.client_threads),
        server_threads: threads(|cost| cost.server_threads),
        client_host: host(|cost| cost.client_host.as_ref()),
        client_ticks: host(|cost| cost.client_ticks.as_ref()),
        server_host: host(|cost| cost.server_host.as_ref()),
        server_exact: host(|cost| cost.server_exact.as_ref()),
    }
}

/// Returns (mean number of busy CPUs, CPU time per transaction (us)) over the repeats for which `cpus` has a value;
/// `None` if no repeat has.
fn whole(repeats: &[Report], cpus: impl Fn(&Cost) -> Option<f64>) -> Option<(f64, f64)> {
    let known = || repeats.iter().filter_map(|report| Some((cpus(&report.cost)?, report)));
    let used_s: f64 = known().map(|(cpus, report)| cpus * report.window_s).sum();
    let window_s: f64 = known().map(|(_, report)| report.window_s).sum();
    let transactions: u64 = known().map(|(_, report)| report.transactions).sum();
    (window_s > 0.0).then(|| (used_s / window_s, used_s * 1e6 / transactions as f64))
}

/// A cost per transaction, over all transactions of the repeats that have it.
fn each(repeats: &[Report], figure: impl Fn(&Cost) -> Option<f64>) -> Option<f64> {
    let known = repeats.iter().filter_map(|report| Some((figure(&report.cost)?, report.transactions as f64)));
    let (sum, transactions) = known.fold((0.0, 0.0), |(sum, all), (each, count)| (sum + each * count, all + count));
    (transactions > 0.0).then(|| sum / transactions)
}

/// CPU use of both ends' hosts by CPU: medians of the repeats.
pub(super) fn host_cpus(repeats: &[Report]) -> HostCpus {
    let exact = |host: fn(&Cost) -> Option<&HostCost>| {
        let splits = repeats.iter().filter_map(|report| host(&report.cost)).flat_map(|host| &host.split);
        repeats::exactly(splits.filter(|split: &&CpuSplit| split.method == Method::Ebpf))
    };
    let found = HostCpus {
        system: repeats::by_ticks(repeats.iter().flat_map(|report| &report.ticks.near)),
        far_system: repeats::by_ticks(repeats.iter().flat_map(|report| &report.ticks.far)),
        exact: exact(|cost| cost.client_host.as_ref()),
        far_exact: exact(|cost| cost.server_exact.as_ref()),
        cpu_methods: Vec::new(),
    };
    let had = [
        (repeats::SYSTEM, !found.system.is_empty()),
        (repeats::FAR_SYSTEM, !found.far_system.is_empty()),
        (repeats::EXACT, !found.exact.is_empty()),
        (repeats::FAR_EXACT, !found.far_exact.is_empty()),
    ];
    let methods = had.into_iter().filter(|(_, had)| *had).map(|(method, _)| repeats::method(method));
    HostCpus { cpu_methods: methods.collect(), ..found }
}

fn notes(repeats: &[Report]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in repeats.iter().flat_map(|report| &report.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

/// What limits the rate of a closed loop, as a noun: the end whose threads are fully busy, otherwise the round trip
/// itself. `None` for an open loop that the threads of neither end limit, and for ends that spin, which are always
/// busy.
pub fn limited_by(report: &Report) -> Option<String> {
    let settings = &report.settings;
    if settings.receive == Receive::Spin {
        return None;
    }
    let flows = f64::from(settings.flows.max(1));
    let ends = [("client", report.cost.client_threads), ("server", report.cost.server_threads)];
    let busy = ends.into_iter().filter_map(|(end, cost)| Some((end, cost?.cpus / flows)));
    let busiest = busy.max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((end, busy)) = busiest.filter(|(_, busy)| *busy > BUSY) {
        let (what, its) = if settings.flows == 1 { ("thread", "its CPU") } else { ("threads", "their CPUs") };
        return Some(format!("the {end}'s {what} ({:.0} % of {its})", busy.min(1.0) * 100.0));
    }
    let in_flight = u64::from(settings.flows) * u64::from(settings.depth);
    settings.rate_per_s.is_none().then(|| format!("the round trip, {in_flight} in flight"))
}

/// What limits a report's results; `Display` gives a sentence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubt {
    /// The thread of this end (`client` or `server`) was fully busy, and limited the rate.
    FullThread(&'static str),
    /// The hypervisor took this share of a CPU.
    Stolen(f64),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FullThread(end) => {
                write!(f, "the {end}'s thread used its CPU to the full: it is what limits the rate")
            }
            Self::Stolen(share) => write!(f, "the hypervisor took {:.1} % of a CPU", share * 100.0),
        }
    }
}

/// What limits a report's results.
pub fn doubts(report: &Report) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    // An end that spins is always fully busy.
    if report.settings.flows == 1 && report.settings.receive != Receive::Spin {
        for (end, cost) in [("client", report.cost.client_threads), ("server", report.cost.server_threads)] {
            if cost.is_some_and(|cost| cost.cpus > BUSY) {
                doubts.push(Doubt::FullThread(end));
            }
        }
    }
    let cpus = report.cost.client_host.iter().flat_map(|host| &host.split);
    let steal = cpus.filter_map(|cpu| cpu.shares.steal).fold(0.0, f64::max);
    if steal > STEAL {
        doubts.push(Doubt::Stolen(steal));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rr::Settings;
    use netcliff_host::cpu::system::SystemShares;
    use netcliff_packets::latency::Latency;

    fn report(rate_per_s: f64, window_s: f64, each_ns: u64) -> Report {
        let transactions = (rate_per_s * window_s) as u64;
        let mut latency = Latency::new();
        latency.record_n_ns(each_ns, transactions);
        let cost = ThreadCost {
            cpus: 0.5,
            us_per_transaction: 0.5e6 / rate_per_s,
            cycles_per_transaction: Some(1e6 / rate_per_s),
            instructions_per_transaction: None,
        };
        Report {
            settings: Settings::default(),
            path: "loopback".to_owned(),
            window_s,
            transactions,
            rate_per_s,
            flow_rates_per_s: vec![rate_per_s],
            latency: LatencyRecord::of(&latency),
            lateness: None,
            one_way: OneWay::NotAvailable("no clock".to_owned()),
            timeouts: 1,
            unsent: 0,
            late_answers: 0,
            cost: Cost { client_threads: Some(cost), ..Cost::default() },
            ticks: HostTicks::default(),
            refused: 0,
            began_ns: None,
            together: None,
            partial: None,
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn repeats_add_up() {
        let merged = merged(&[report(1000.0, 1.0, 10_000), report(3000.0, 2.0, 30_000)]).expect("two repeats");
        assert_eq!((merged.transactions, merged.timeouts, merged.window_s), (7000, 2, 3.0));
        assert!((merged.rate_per_s - 7000.0 / 3.0).abs() < 1e-9);
        assert!((merged.flow_rates_per_s[0] - 7000.0 / 3.0).abs() < 1e-9);
        let latency = merged.latency.expect("transactions");
        assert_eq!(latency.summary.count, 7000);
        assert!((latency.summary.mean_s - (1000.0 * 10e-6 + 6000.0 * 30e-6) / 7000.0).abs() < 1e-7);
        assert!((latency.summary.p50_s - 30e-6).abs() < 1e-7);
        let cost = merged.cost.client_threads.expect("known");
        assert!((cost.cpus - 0.5).abs() < 1e-12 && (cost.us_per_transaction - 1.5e6 / 7000.0).abs() < 1e-9);
        // 1000 transactions take 1000 cycles each, and 6000 take a third of that.
        assert!((cost.cycles_per_transaction.expect("known") - 3_000_000.0 / 7000.0).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.instructions_per_transaction, None);
        assert_eq!(merged.notes, ["a note"]);
        assert_eq!(super::merged(&[]), None);
    }

    #[test]
    fn each_cpu_has_the_median_of_its_repeats() {
        let share = |cpu, softirq| SystemShares {
            cpu,
            counted_s: 1.0,
            user: 0.0,
            nice: 0.1,
            system: 0.0,
            irq: 0.0,
            softirq,
            steal: 0.0,
            idle: 0.9 - softirq,
        };
        let with = |softirq, far: &[f64]| {
            let far = far.iter().map(|softirq| share(0, *softirq)).collect();
            Report {
                ticks: HostTicks { near: vec![share(0, 0.0), share(1, softirq)], far },
                ..report(1000.0, 1.0, 10_000)
            }
        };
        let found = host_cpus(&[with(0.3, &[]), with(0.5, &[]), with(0.1, &[])]);
        assert_eq!(found.system.iter().map(|row| (row.cpu, row.softirq)).collect::<Vec<_>>(), [(0, 0.0), (1, 0.3)]);
        assert_eq!(found.cpu_methods.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["system"]);
        assert!(found.far_system.is_empty() && found.exact.is_empty());
        let found = host_cpus(&[with(0.3, &[0.2]), with(0.5, &[0.4])]);
        assert_eq!(found.far_system.len(), 1);
        assert!((found.far_system[0].softirq - 0.3).abs() < 1e-12, "{found:?}");
        assert_eq!(found.cpu_methods[1].0, "far system");
    }

    #[test]
    fn an_end_that_is_busy_is_told() {
        let mut busy = report(1000.0, 1.0, 10_000);
        assert_eq!(doubts(&busy), []);
        busy.cost.client_threads = busy.cost.client_threads.map(|cost| ThreadCost { cpus: 0.99, ..cost });
        assert_eq!(doubts(&busy), [Doubt::FullThread("client")]);
        let said = Doubt::FullThread("client").to_string();
        assert!(said.contains("client's thread used its CPU to the full"), "{said}");
        for settings in
            [Settings { receive: Receive::Spin, ..Settings::default() }, Settings { flows: 2, ..Settings::default() }]
        {
            assert_eq!(doubts(&Report { settings, ..busy.clone() }), []);
        }
    }

    #[test]
    fn what_limits_a_closed_loop() {
        let mut idle = report(1000.0, 1.0, 10_000);
        idle.settings.depth = 4;
        assert_eq!(limited_by(&idle).as_deref(), Some("the round trip, 4 in flight"));
        let busy = |cpus| idle.cost.client_threads.map(|cost| ThreadCost { cpus, ..cost });
        let full = busy(1.01);
        idle.cost.server_threads = full;
        assert_eq!(limited_by(&idle).as_deref(), Some("the server's thread (100 % of its CPU)"));
        // Two threads have two CPUs.
        idle.settings.flows = 2;
        assert_eq!(limited_by(&idle).as_deref(), Some("the round trip, 8 in flight"));
        let open = Settings { rate_per_s: Some(10.0), ..Settings::default() };
        assert_eq!(limited_by(&Report { settings: open, cost: Cost::default(), ..idle }), None);
    }
}
