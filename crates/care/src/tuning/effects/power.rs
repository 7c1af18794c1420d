//! Steps that keep a CPU awake and fast: idle states and the frequency governor. The effects are upper bounds from what
//! the kernel reports about the CPU.

use std::path::Path;

use netcliff_host::setting::Setting;
use netcliff_host::tune::Step;

use super::{Known, packet_s};

const CPUS: &str = "/sys/devices/system/cpu";

/// Returns the predicted effect of the step. `None` for other steps, and if the kernel does not report the necessary
/// values.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    let Setting::File { path } = &step.setting else { return None };
    let below = path.strip_prefix(CPUS).ok()?;
    governor(known, below, step).or_else(|| idle(known, below, step))
}

/// Returns the CPU and the idle state that a file switches; `None` for other files.
fn idle_state(below: &Path) -> Option<(u32, usize)> {
    let mut parts = below.iter().map(|part| part.to_str().unwrap_or_default());
    let cpu = parts.next()?.strip_prefix("cpu")?.parse().ok()?;
    let state = (parts.next()? == "cpuidle").then(|| parts.next()?.strip_prefix("state")?.parse().ok()).flatten()?;
    (parts.next()? == "disable").then_some((cpu, state))
}

/// A packet that arrives at a sleeping CPU waits until the CPU has left its idle state
/// (Documentation/admin-guide/pm/cpuidle.rst): at most the longest exit latency of the states in use on that CPU,
/// before the plan and after all its steps.
fn idle(known: &Known<'_>, below: &Path, step: &Step) -> Option<String> {
    let (cpu, state) = idle_state(below)?;
    known.host.host.cpu.idle_states.get(state)?.exit_latency_us.filter(|_| step.proposal.new == "1")?;
    let switched_off = |number: usize| {
        known.steps.iter().any(|other| {
            let Setting::File { path } = &other.setting else { return false };
            path.strip_prefix(CPUS).ok().and_then(idle_state) == Some((cpu, number)) && other.proposal.new == "1"
        })
    };
    let longest = |planned: bool| {
        let states = known.host.host.cpu.idle_states.iter().enumerate();
        let in_use = states.filter(|(number, state)| {
            let here = state.only_on.is_empty() || state.only_on.contains(&cpu);
            !state.disabled && here && !(planned && switched_off(*number))
        });
        in_use.filter_map(|(_, state)| state.exit_latency_us).max().unwrap_or(0)
    };
    let wait = format!("a packet that wakes CPU {cpu} waits up to {} -> {} us for it", longest(false), longest(true));
    Some(format!(
        "{wait} (exit latencies that the kernel reports, an upper bound: which state it finds, the load decides)"
    ))
}

/// A governor may leave a CPU at its lowest frequency. Work that takes a number of cycles then takes longer by the
/// ratio of the frequencies.
fn governor(known: &Known<'_>, below: &Path, step: &Step) -> Option<String> {
    let policy = below.strip_prefix("cpufreq").ok()?.parent()?.to_str()?;
    if !below.ends_with("scaling_governor") || step.proposal.new != "performance" {
        return None;
    }
    let (lowest_hz, highest_hz) = *known.host.host.cpu.policy_frequencies_hz.get(policy)?;
    let slower = highest_hz as f64 / (lowest_hz > 0).then_some(lowest_hz as f64)?;
    let cost_us = known.range(|host| 1e6 * packet_s(host));
    Some(format!(
        "CPU time of a packet {:.2} -> {:.2} us at most, where it finds its CPU at the lowest frequency ({:.2} of {:.2} GHz) and all of it scales with \
         the frequency (predicted, an upper bound; costs of {}, taken for those at the highest, ranges from their intervals)",
        cost_us.times(slower),
        cost_us,
        lowest_hz as f64 / 1e9,
        highest_hz as f64 / 1e9,
        known.run
    ))
}
