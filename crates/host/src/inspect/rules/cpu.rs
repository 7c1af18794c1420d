//! Finds CPUs that sleep deeply or run slowly.

use super::{Aim, Look, Rule, Seen, seen};
use crate::{inspect::Inspection, inventory::disturbs};
use netcliff_core::inspection::{Objective, Severity};

/// Wake-up time from which an idle state is called deep (us): about the time that one 64-byte packet takes on a slow
/// CPU in docs/theory (5.3 us for the protocol and 3.7 us for the interrupt).
const DEEP_US: u64 = 10;
/// The limit if low latency is not the objective (us): as long as usual interrupt delays.
const VERY_DEEP_US: u64 = 100;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "idle-deep",
        why: "the first packets after a pause wait until a core wakes, and find its caches cold",
        source: "Gasparakis and Waskiewicz 2010, CPU Architecture Considerations; Documentation/admin-guide/pm/cpuidle.rst",
        look: Look::Host(idle),
    },
    Rule {
        id: "governor-powersave",
        why: "the CPU runs below its full speed until it has been busy for a while: packets cost more time, and the cliff is lower",
        source: "Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst",
        look: Look::Host(governor),
    },
    Rule {
        id: "services-disturb",
        why: "a service may overwrite settings that were tuned, and the CPU time that it takes is missing for packets",
        source: "Gasparakis and Waskiewicz 2010, Identifying the Bottlenecks (needless daemons, the X server)",
        look: Look::Host(services),
    },
];

fn services(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let running = &inspection.host.load.services;
    let one = |(name, pid): (&String, &u32)| format!("{name} (pid {pid}) {}", disturbs(name).unwrap_or("runs"));
    if running.is_empty() {
        return None;
    }
    seen(
        Severity::Note,
        running.iter().map(one).collect::<Vec<_>>().join("; "),
        ["# while measuring: systemctl stop the services of these processes (systemctl status PID names each)"
            .to_owned()],
    )
}

fn idle(inspection: &Inspection, aim: &Aim) -> Option<Seen> {
    let wished = aim.objective == Some(Objective::Latency);
    let limit = if wished { DEEP_US } else { VERY_DEEP_US };
    let states = inspection.host.cpu.idle_states.iter().enumerate();
    let deep: Vec<(usize, String)> = states
        .filter(|(_, state)| !state.disabled && state.exit_latency_us.is_some_and(|us| us > limit))
        .map(|(place, state)| {
            let cpus = crate::procfs::list_of_cpus(&state.only_on);
            let on = if cpus.is_empty() { String::new() } else { format!(", on CPUs {cpus}") };
            (place, format!("{} ({} us{on})", state.name, state.exit_latency_us.unwrap_or(0)))
        })
        .collect();
    if deep.is_empty() || aim.objective == Some(Objective::Cpu) {
        return None;
    }
    let names: Vec<&str> = deep.iter().map(|(_, name)| name.as_str()).collect();
    let off = |(place, _): &(usize, String)| {
        format!("for f in /sys/devices/system/cpu/cpu*/cpuidle/state{place}/disable; do echo 1 > $f; done")
    };
    seen(
        if wished { Severity::Warning } else { Severity::Note },
        format!("idle states that take longer than {limit} us to leave: {}", names.join(", ")),
        deep.iter().map(off),
    )
}

fn governor(inspection: &Inspection, aim: &Aim) -> Option<Seen> {
    if !inspection.host.cpu.governors.iter().any(|governor| governor == "powersave") {
        return None;
    }
    let driver = inspection.host.cpu.frequency_driver.as_deref().unwrap_or("an unnamed driver");
    // In active mode intel_pstate's powersave governor follows the load; with other drivers powersave means the lowest
    // frequency.
    let follows = driver.starts_with("intel_pstate") || driver.starts_with("amd-pstate-epp");
    let severity = match (follows, aim.objective) {
        (false, _) => Severity::Fault,
        (true, Some(Objective::Latency | Objective::Throughput)) => Severity::Warning,
        (true, _) => Severity::Note,
    };
    let meaning = if follows { "the frequency follows the load" } else { "the lowest frequency always" };
    seen(
        severity,
        format!("governor powersave of {driver}: {meaning}"),
        ["for f in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do echo performance > $f; done"
            .to_owned()],
    )
}
