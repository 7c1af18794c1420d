//! Facts about disturbances of a run from outside, and about the machine's speed.

use netcliff_core::finding::{
    Buffer, ByEngine, CliffReason, Disturbance, LengthBin, PauseBudget, Pauses, Speed, TaskTime, listed,
};
use netcliff_core::units::print_time_s;
use netcliff_core::{EngineKind, Figure, Finding};

use crate::format::{self, Unit};

/// If the service demand with a full socket exceeds the demand with an empty one by this factor, both are reported.
const MATTERS: f64 = 1.03;

/// The heading above [`disturbance`].
pub const DISTURBANCE: &str = "Disturbances from outside, and speed";

/// Each disturbance as a name and a sentence. Empty for findings of versions that did not measure disturbances.
pub fn disturbance(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut facts = finding.disturbance.as_ref().map(outside).unwrap_or_default();
    facts.extend(pause_budget(finding).map(|budget| ("pause budget", budget)));
    facts.extend(speed(finding).map(|speed| ("speed", speed)));
    facts.extend(computed_for(finding));
    facts
}

/// The cliffs of model and simulation, one line for each state of the host for which they were computed. Empty if there
/// is only one state.
fn computed_for(finding: &Finding) -> Vec<(&'static str, String)> {
    let states = finding.computed_cliffs();
    let row = |(cliffs, reasons): &(&ByEngine<Figure>, Vec<CliffReason>)| {
        let computed = cliffs.present().filter(|(engine, _)| *engine != EngineKind::Wire);
        let each = computed.map(|(engine, cliff)| format!("{engine} {}", format::value(cliff, Unit::Pps)));
        ("computed cliff", format!("{}: with {}", each.collect::<Vec<String>>().join(", "), listed(reasons)))
    };
    states.iter().map(row).collect()
}

/// The longest pauses of the host's CPU without loss.
fn pause_budget(finding: &Finding) -> Option<String> {
    let at = |budget: &PauseBudget| {
        let longest = format::quantity(budget.longest_s, Unit::Seconds);
        let share = format::share_short(budget.share);
        let longer = budget.longer.map_or(String::new(), |longer| format!(", {longer} in the searches were longer"));
        let first = match budget.first {
            Buffer::Ring => "ring",
            Buffer::Socket => "socket",
        };
        format!("{longest} at {share} of the cliff (then the {first} overflows{longer})")
    };
    let each: Vec<String> = finding.pause_budget.iter().map(at).collect();
    (!each.is_empty()).then(|| format!("longest pause without loss, from empty queues: {}", each.join("; ")))
}

fn outside(found: &Disturbance) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for (name, pauses) in [("CPU under test", &found.host), ("sender's CPU", &found.sender)] {
        if let Some(pauses) = pauses {
            facts.push((name, taken(pauses, found)));
        }
    }
    if let Some(others) = &found.other_tasks {
        facts.push(("other tasks", other_tasks(others, found)));
    }
    if let Some(stalls) = found.sender_stalls.as_ref().filter(|stalls| stalls.count > 0) {
        let all = lengths(stalls);
        facts.push(("sender", format!("delayed {} times for more than {}{all}", stalls.count, shortest(stalls))));
    }
    if found.left_out > 0.0 {
        let share = format::share(found.left_out);
        facts.push((
            "left out",
            format!("{share} of the searches' slots of 10 ms, for the cliff (not for the cliff with pauses)"),
        ));
    }
    for jump in &found.clock_jumps {
        facts.push(("clocks", format!("{:.0} s into the run: {}", jump.at_s, jump.what)));
    }
    facts
}

/// CPU time of other tasks on the host's CPU.
fn other_tasks(others: &Pauses, found: &Disturbance) -> String {
    if others.count == 0 {
        return format!("none had the CPU under test for more than {}", shortest(others));
    }
    let each = |task: &TaskTime| format!("{} {}", task.task, format::quantity(task.total_s, Unit::Seconds));
    let named: Vec<String> = found.tasks.iter().map(each).collect();
    let times = times(others.count);
    let (shortest, lengths, named) = (shortest(others), lengths(others), named.join(", "));
    format!("had the CPU under test {times} for more than {shortest}{lengths} ({named})")
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn shortest(pauses: &Pauses) -> String {
    print_time_s(pauses.shortest_s)
}

/// How often and how long a CPU was paused.
fn taken(pauses: &Pauses, found: &Disturbance) -> String {
    let steal = match pauses.steal_share {
        Some(share) if share > 0.0 => format!("; the hypervisor's steal clock says {}", format::share(share)),
        _ => String::new(),
    };
    let span = format!("{:.0} s of trials", found.measured_s);
    if pauses.count == 0 {
        return format!("never away for more than {} in {span}{steal}", shortest(pauses));
    }
    let times = times(pauses.count);
    format!("away {times} for more than {} in {span}{}{steal}", shortest(pauses), lengths(pauses))
}

fn lengths(pauses: &Pauses) -> String {
    let length = |length_s: Option<f64>| length_s.map_or("-".to_owned(), |s| format::quantity(s, Unit::Seconds));
    format!(
        ", {} of the time; p50 {}, p99 {}, longest {}",
        format::share(pauses.share),
        length(pauses.p50_s),
        length(pauses.p99_s),
        length(pauses.max_s)
    )
}

/// Speed of the machine, and how that changed.
fn speed(finding: &Finding) -> Option<String> {
    let speed = finding.speed.as_ref()?;
    let mut said = Vec::new();
    if let Some(demand) = speed.demand_s {
        let busy = finding.cliff_pps.wire.map_or(String::new(), |cliff| {
            format!(": {} of the CPU at the cliff", format::share(cliff.value * demand.value))
        });
        said.push(format!("service demand {} a packet in the searches{busy}", format::figure(&demand, Unit::Seconds)));
    }
    said.extend(two_cliffs(speed));
    if let Some(packet) = speed.packet_s {
        said.push(format!("a packet's protocol work took {} in the searches", format::figure(&packet, Unit::Seconds)));
    }
    if let Some(slowness) = speed.slowness {
        let share = format::signed(slowness.value - 1.0, Unit::Share);
        said.push(format!("CPU times there were {share} against the calibrated costs"));
    }
    if let Some(turns) = speed.turns_per_s {
        said.push(format!(
            "speed of the CPU under test: {:.3} million turns of a fixed loop per second",
            turns.value * 1e-6
        ));
    }
    if let Some(drift) = &finding.drift {
        let ends =
            format::interval(&drift.share, Unit::Share, " to ").map_or(String::new(), |ends| format!(" ({ends})"));
        said.push(format!(
            "the CPU's speed drifted by {}{ends} over the run, with a scatter of {}",
            format::signed(drift.share.value, Unit::Share),
            format::share(drift.scatter)
        ));
        said.extend(
            drift
                .search_over_calibration
                .map(|share| format!("in the searches {} against calibration", format::signed(share, Unit::Share))),
        );
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// A sentence on the costs of a packet with an empty and with a full socket, if they differ. Packets of a full socket
/// are no longer in the caches and cost more, so a full socket empties only below a lower load.
fn two_cliffs(speed: &Speed) -> Option<String> {
    let (empty_s, full_s) = (speed.demand_empty_s?.value, speed.demand_full_s?.value);
    let quantity = |s: f64| format::quantity(s, Unit::Seconds);
    let load = |s: f64| format::quantity(1.0 / s, Unit::Pps);
    (full_s > empty_s * MATTERS).then(|| {
        format!(
            "service demand {} with an empty socket buffer and {} with a full one, because its packets have left the caches: once full, it stays full above about {}; \
             an empty one may stay empty up to {}; between these loads a disturbance decides whether it fills",
            quantity(empty_s),
            quantity(full_s),
            load(full_s),
            load(empty_s)
        )
    })
}

/// Name and counts by length of each distribution that has any, in the order of the page.
pub fn pause_lengths(finding: &Finding) -> Vec<(&'static str, &[LengthBin])> {
    let Some(found) = &finding.disturbance else { return Vec::new() };
    [
        ("CPU under test", &found.host),
        ("other tasks", &found.other_tasks),
        ("sender's CPU", &found.sender),
        ("sender delayed", &found.sender_stalls),
    ]
    .into_iter()
    .filter_map(|(name, pauses)| Some((name, pauses.as_ref()?.lengths.as_slice())))
    .filter(|(_, bins)| !bins.is_empty())
    .collect()
}

/// A bin as text: `500us-1ms`.
pub fn bin(bin: &LengthBin) -> String {
    format!("{}-{}", print_time_s(bin.from_s), print_time_s(2.0 * bin.from_s))
}
