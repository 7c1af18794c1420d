//! Determines what overloads first, from a trial past the cliff.

use netcliff_core::service::{Gives, ServiceBottleneck};

use crate::bench::Metered;

/// Share of idle time below which a CPU counts as fully busy: pauses and the meter take the rest.
const NO_IDLE: f64 = 0.05;
/// Share of a CPU above which other tasks that use it count as the bottleneck.
const MOST_OTHERS: f64 = 0.3;
/// Share of the time above which a thread counts as always running.
const FULL_THREAD: f64 = 0.93;

/// Returns what overloaded first. `None` if the trial was not metered.
pub fn of(metered: &Metered) -> Option<ServiceBottleneck> {
    let idle = metered.cpus.iter().filter_map(|cpu| Some((metered.idle_of(cpu)?, cpu.cpu)));
    let (least_idle, cpu) = idle.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let full = queues(metered);
    let backlog: u64 = metered.cpus.iter().filter_map(|cpu| cpu.counters.softnet_dropped).sum();
    let thread = metered.busiest.as_ref().map(|(used_s, name)| (used_s / metered.loaded_s.max(1e-9), name));
    let said = |gives: Gives, seen: String| Some(ServiceBottleneck { gives, seen });
    let free = format!("CPU {cpu} is {} idle", percent(least_idle));
    if least_idle < NO_IDLE {
        let spent = shares(metered, cpu);
        if others(metered, cpu) > MOST_OTHERS {
            return said(
                Gives::OtherPrograms,
                format!("CPU {cpu} has no idle time{spent}: end the other programs, and repeat"),
            );
        }
        return said(Gives::Cpu, format!("CPU {cpu} has no idle time{spent}{full}"));
    }
    if let Some((share, name)) = thread.filter(|(share, _)| *share >= FULL_THREAD) {
        return said(Gives::Thread, format!("thread `{name}` runs {} of the time while {free}{full}", percent(share)));
    }
    if metered.network.full_accept_queues > 0 {
        return said(
            Gives::AcceptQueue,
            format!("{free}{full}: the service accepts too slowly, or listens with a short queue"),
        );
    }
    if backlog > 0 {
        return said(
            Gives::Backlog,
            format!(
                "{free}, and {backlog} packets were dropped because the receive backlog was full: bursts exceed it"
            ),
        );
    }
    if metered.network.full_sockets > 0 {
        return said(Gives::SocketBuffer, format!("{free}{full}: bursts or pauses exceed it"));
    }
    let seen = format!(
        "{free}, no thread is busy all the time and no queue overflowed: a lock, a disk, another host, or a limit in the service"
    );
    said(Gives::Elsewhere, seen)
}

/// A share with a decimal, without it if it is 0: `40.3 %`, `20 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// Share of a CPU that other tasks used.
fn others(metered: &Metered, cpu: usize) -> f64 {
    metered.cpus.iter().find(|split| split.cpu == cpu).and_then(|split| split.shares.other).unwrap_or(0.0)
}

/// The largest parts of a CPU's time, in words.
fn shares(metered: &Metered, cpu: usize) -> String {
    let Some(split) = metered.cpus.iter().find(|split| split.cpu == cpu) else { return String::new() };
    let shares = &split.shares;
    let parts =
        [shares.application, shares.protocol, shares.interrupt, shares.softirq_other, shares.transmit, shares.other];
    let busy: f64 = parts.into_iter().flatten().sum();
    // Shares are relative to the time in which the CPU worked: after the load has ended, it still serves queued
    // requests.
    let of_loaded = |share: f64| share / busy.max(1e-9);
    let named = [
        ("the service", shares.application),
        ("receiving", shares.protocol),
        ("interrupts", shares.interrupt),
        ("other tasks", shares.other),
    ];
    let named = named
        .into_iter()
        .filter_map(|(name, share)| Some((name, share.map(of_loaded).filter(|share| *share >= 0.01)?)));
    let parts: Vec<String> = named.map(|(name, share)| format!("{} {name}", percent(share))).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn queues(metered: &Metered) -> String {
    let network = &metered.network;
    let counted = [
        (network.full_sockets, "datagrams dropped because the socket buffer was full"),
        (network.full_accept_queues, "connections refused because the accept queue was full"),
    ];
    counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::NetworkCounts;
    use netcliff_host::cpu::{Counters, CpuSplit, Method, Shares};

    fn metered(idle: f64) -> Metered {
        let shares = Shares { idle: Some(idle), application: Some(0.6), ..Shares::default() };
        let cpu = CpuSplit {
            cpu: 1,
            method: Method::Ebpf,
            elapsed_s: 1.0,
            shares,
            available: None,
            counters: Counters::default(),
            resolution_share: 0.0,
            overhead_share: None,
            polls: None,
            notes: Vec::new(),
        };
        Metered { elapsed_s: 1.0, loaded_s: 1.0, cpus: vec![cpu], ..Metered::default() }
    }

    /// The time in which the last answers are awaited does not count as idle time under load.
    #[test]
    fn the_end_of_a_trial_is_left_out() {
        let metered = Metered { loaded_s: 0.8, ..metered(0.21) };
        assert!((metered.idle().unwrap() - 0.0125).abs() < 1e-9);
        assert_eq!(of(&metered).map(|one| one.gives), Some(Gives::Cpu));
    }

    #[test]
    fn each_limit_is_told_by_what_it_shows() {
        let gives = |metered: &Metered| of(metered).map(|one| one.gives);
        let network = |full_sockets, full_accept_queues| NetworkCounts { full_sockets, full_accept_queues };
        assert_eq!(gives(&metered(0.01)), Some(Gives::Cpu));
        let mut disturbed = metered(0.0);
        disturbed.cpus[0].shares.other = Some(0.4);
        assert_eq!(gives(&disturbed), Some(Gives::OtherPrograms));
        let thread = Some((0.97, "worker".to_owned()));
        assert_eq!(gives(&Metered { busiest: thread, ..metered(0.5) }), Some(Gives::Thread));
        assert_eq!(gives(&Metered { network: network(5, 0), ..metered(0.5) }), Some(Gives::SocketBuffer));
        assert_eq!(gives(&Metered { network: network(5, 9), ..metered(0.5) }), Some(Gives::AcceptQueue));
        assert_eq!(gives(&metered(0.5)), Some(Gives::Elsewhere));
        assert_eq!(gives(&Metered::default()), None);
        let seen = of(&Metered { network: network(7, 0), ..metered(0.0) }).unwrap().seen;
        assert!(seen.contains("100 % the service") && seen.contains("7 datagrams"), "{seen}");
    }
}
