//! Steps at the host: sysctls, frequency, idle states.

use super::Draft;
use crate::{
    inspect::{
        Port,
        rules::{self, Pressure},
    },
    setting::Setting,
};
use netcliff_core::inspection::Objective;

/// Exit latency (us) above which idle states are switched off for latency; the rule `idle-deep` has the same limit.
const DEEP_US: u64 = 10;
/// The kernel's default backlog (packets; net/core/hotdata.c).
const DEFAULT_BACKLOG: u64 = 1000;
const DEFAULT_BUDGET: u64 = 300;

/// Proposes sysctls that follow from the state of this host.
pub(super) fn sysctls(draft: &mut Draft<'_>, ports: &[&Port]) {
    pressure(draft);
    if draft.wants(Objective::Throughput) {
        buffers(draft, ports);
    }
    // A software device has no queue that a reader could poll.
    let can_be_polled = |port: &&Port| port.nic.is_physical() || !port.irqs.is_empty();
    if draft.wants(Objective::Latency) && (ports.is_empty() || ports.iter().any(can_be_polled)) {
        let reason =
            "a reader polls the device this many us before it sleeps: no interrupt and no wake-up, for CPU time";
        for name in ["net.core.busy_read", "net.core.busy_poll"] {
            propose(draft, name, |_| "50".to_owned(), reason, "Documentation/admin-guide/sysctl/net.rst, busy_poll");
        }
    }
}

fn propose(draft: &mut Draft<'_>, name: &str, new: impl Fn(&str) -> String, reason: &str, source: &str) {
    if let Some(old) = draft.inspection.host.sysctls.get(name).cloned() {
        draft.propose(Setting::sysctl(name), &old, &new(&old), reason, source);
    }
}

/// Proposes a larger backlog and budget, only if the present ones were too small.
fn pressure(draft: &mut Draft<'_>) {
    // Counts since boot say nothing about a value that has been raised since.
    let counts = |pressure: Option<Pressure>, name: &str, default: u64| {
        let raised = draft.inspection.sysctl(name).is_some_and(|value| value > default);
        pressure.filter(|pressure| pressure.rising || !raised)
    };
    let since = |pressure: &Pressure| if pressure.rising { "while netcliff watched" } else { "since boot" };
    let dropped = counts(rules::backlog_losses(draft.inspection), "net.core.netdev_max_backlog", DEFAULT_BACKLOG);
    let squeezed = counts(rules::squeezes(draft.inspection), "net.core.netdev_budget", DEFAULT_BUDGET);
    let doubled = |old: &str| old.parse::<u64>().map_or(old.to_owned(), |old| (old * 2).to_string());
    let sysctl_page = "Documentation/admin-guide/sysctl/net.rst";
    // A longer backlog lengthens the wait of delivered packets, so it is not proposed for latency.
    if let Some(dropped) = dropped.filter(|_| !draft.wants(Objective::Latency)) {
        let reason = format!("{} packets dropped at CPU backlogs {}", dropped.count, since(&dropped));
        propose(draft, "net.core.netdev_max_backlog", doubled, &reason, sysctl_page);
    }
    if let Some(squeezed) = squeezed.filter(|_| draft.wants(Objective::Throughput)) {
        let reason = format!("{} softirq rounds cut short {}", squeezed.count, since(&squeezed));
        propose(draft, "net.core.netdev_budget", doubled, &reason, sysctl_page);
        propose(draft, "net.core.netdev_budget_usecs", doubled, &reason, sysctl_page);
    }
}

/// Proposes TCP buffers with space for the bytes in flight on the fastest link.
fn buffers(draft: &mut Draft<'_>, ports: &[&Port]) {
    let fastest_bps = ports.iter().filter_map(|port| port.link_bps()).fold(0.0, f64::max);
    let needed = (fastest_bps * draft.wish.rtt_s / 8.0).ceil() as u64;
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        if draft.inspection.sysctl(name).is_none_or(|most| most >= needed) {
            continue;
        }
        let raised = |old: &str| {
            let words: Vec<&str> = old.split(' ').take(2).collect();
            format!("{} {needed}", words.join(" "))
        };
        let reason = format!(
            "at {:.0} Mbit/s and a round-trip time of {} ms (--rtt), {needed} bytes are in flight",
            fastest_bps / 1e6,
            draft.wish.rtt_s * 1e3
        );
        propose(draft, name, raised, &reason, "RFC 7323, section 1.1");
    }
}

/// Proposes the frequency governor for full speed.
pub(super) fn frequency(draft: &mut Draft<'_>) {
    if draft.wants(Objective::Cpu) {
        return;
    }
    for (policy, governor) in &draft.inspection.host.cpu.policy_governors {
        let setting = Setting::file(format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"));
        let reason = "the CPU runs at full frequency at once, not only after it has been busy";
        draft.propose(setting, governor, "performance", reason, "Documentation/admin-guide/pm/cpufreq.rst");
    }
}

/// Proposes deep idle states off, for latency.
pub(super) fn idle(draft: &mut Draft<'_>) {
    if !draft.wants(Objective::Latency) {
        return;
    }
    let states = draft.inspection.host.cpu.idle_states.iter().enumerate();
    let deep: Vec<(usize, &[u32], String)> = states
        .filter(|(_, state)| !state.disabled && state.exit_latency_us.is_some_and(|us| us > DEEP_US))
        .map(|(number, state)| {
            (
                number,
                &state.only_on[..],
                format!("{} takes {} us to leave", state.name, state.exit_latency_us.unwrap_or(0)),
            )
        })
        .collect();
    for cpu in draft.inspection.usable_cpus() {
        for (number, only_on, reason) in &deep {
            if !only_on.is_empty() && !only_on.contains(&cpu) {
                continue;
            }
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/disable");
            draft.propose(Setting::file(file), "0", "1", reason, "Documentation/admin-guide/pm/cpuidle.rst");
        }
    }
}
