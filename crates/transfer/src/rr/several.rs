//! Request/response with several agents, from a common start on.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::thread;

use crate::bulk::Agent;
use crate::exchange::{AgentShare, OTHER_GAVE_UP, Rendezvous, Together};
use netcliff_core::stream::jain;
use netcliff_host::cpu::{Method, Preference};
use netcliff_packets::WireError;

use super::merge::histograms;
use super::{Cost, HostTicks, OneWay, Report, RrError, Settings, there_together};

/// Runs one repeat with several agents. Returns one report with the sums and each agent's results.
///
/// # Errors
/// An error of [`super::there`], with the agent's name.
pub fn several(
    settings: &Settings,
    agents: &mut [Agent],
    meter: Preference,
    stop: &AtomicBool,
) -> Result<Report, RrError> {
    let place = Rendezvous::new(agents.len());
    // The first meter sees this whole host; further meters would count the same CPU time again.
    let ticks = Preference::Only(Method::Procfs);
    let made: Vec<(String, Result<Report, RrError>)> = thread::scope(|scope| {
        let place = &place;
        let mut threads = Vec::new();
        for (number, agent) in agents.iter_mut().enumerate() {
            let meter = if number == 0 { meter } else { ticks };
            let Agent { name, session, address } = agent;
            let address: IpAddr = *address;
            let work = move || {
                let made = there_together(settings, (session, address), meter, stop, (None, Some(place)));
                if made.is_err() {
                    place.give_up();
                }
                made
            };
            threads.push((name.clone(), scope.spawn(work)));
        }
        let died = |_| Err(WireError::Far("the thread that asked it has died".into()).into());
        threads.into_iter().map(|(name, thread)| (name, thread.join().unwrap_or_else(died))).collect()
    });
    let mut reports = Vec::new();
    let mut failed = None;
    for (name, made) in made {
        match made {
            Ok(report) => reports.push((name, report)),
            // Prefer the error of an agent that failed itself to the error of an agent that only waited for it.
            Err(error) if failed.is_none() || !waited(&error) => {
                let first = failed.get_or_insert_with(|| (name.clone(), waited(&error), error.to_string()));
                if first.1 {
                    *first = (name, waited(&error), error.to_string());
                }
            }
            Err(_) => {}
        }
    }
    if let Some((name, _, why)) = failed {
        return Err(WireError::Far(format!("{name}: {why}").into()).into());
    }
    combined(&reports).ok_or_else(|| WireError::Far("there is no agent".into()).into())
}

/// Whether the error only says that this end waited for another end, which gave up.
fn waited(error: &RrError) -> bool {
    error.to_string().contains(OTHER_GAVE_UP)
}

/// Combines the reports of all agents in one repeat.
fn combined(reports: &[(String, Report)]) -> Option<Report> {
    let (_, first) = reports.first()?;
    let sum = |count: fn(&Report) -> u64| reports.iter().map(|(_, report)| count(report)).sum::<u64>();
    let begun = |report: &Report| report.began_ns;
    let first_ns = reports.iter().filter_map(|(_, report)| begun(report)).min();
    let after = |report: &Report| Some((begun(report)? - first_ns?) as f64 * 1e-9);
    let agents: Vec<AgentShare> = reports
        .iter()
        .map(|(name, report)| AgentShare {
            agent: name.clone(),
            transactions: report.transactions,
            rate_per_s: report.rate_per_s,
            timeouts: report.timeouts,
            latency: report.latency.clone(),
            began_after_s: after(report),
        })
        .collect();
    let rates: Vec<f64> = agents.iter().map(|agent| agent.rate_per_s).collect();
    let partial = reports.iter().find_map(|(name, report)| Some(format!("{name}: {}", report.partial.as_ref()?)));
    let mut notes: Vec<String> = Vec::new();
    for note in reports.iter().flat_map(|(_, report)| &report.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes.push("CPU time is not divided among several agents: it is left out".to_owned());
    let names: Vec<&str> = reports.iter().map(|(name, _)| name.as_str()).collect();
    Some(Report {
        settings: first.settings.clone(),
        path: format!("this host to {} agents, which are asked from one time on: {}", names.len(), names.join(", ")),
        window_s: first.window_s,
        transactions: sum(|report| report.transactions),
        rate_per_s: rates.iter().sum(),
        flow_rates_per_s: reports.iter().flat_map(|(_, report)| report.flow_rates_per_s.clone()).collect(),
        latency: histograms(reports.iter().map(|(_, report)| report.latency.as_ref())),
        lateness: histograms(reports.iter().map(|(_, report)| report.lateness.as_ref())),
        one_way: OneWay::NotAvailable("they are not reported of several agents".to_owned()),
        timeouts: sum(|report| report.timeouts),
        unsent: sum(|report| report.unsent),
        late_answers: sum(|report| report.late_answers),
        cost: Cost::default(),
        ticks: HostTicks { near: first.ticks.near.clone(), far: Vec::new() },
        refused: sum(|report| report.refused),
        partial,
        notes,
        began_ns: first_ns,
        together: Some(together(agents, &rates)),
    })
}

fn together(agents: Vec<AgentShare>, rates: &[f64]) -> Together {
    let start_skew_s = agents.iter().map(|agent| agent.began_after_s).collect::<Option<Vec<f64>>>();
    let start_skew_s = start_skew_s.and_then(|all| all.into_iter().reduce(f64::max));
    Together { jain: jain(rates), start_skew_s, agents }
}
