//! [`culprit`]: the main cause of void trials, and its remedy.

use netcliff_core::Finding;
use netcliff_core::finding::{Disturbance, LatencyAt, Pauses, TaskTime};

use crate::format::{self, Unit};

/// Largest number of tasks that are named.
const NAMED: usize = 3;
/// Share of the time above which a cause is named. It is a tenth of the share of void trials that causes a doubt,
/// because a trial is void after a fraction of its time.
const LEAST: f64 = 0.001;

/// If the p99 at a lower load exceeds the p99 at a higher load by more than this factor, other work causes it.
const LONGER: f64 = 2.0;
/// If the measured and the simulated p99 differ by more than this factor, the page says why. Predicted percentiles of
/// response times are within 61 % of the measured ones at worst (docs/accuracy.md): a factor of 2 has another cause.
const APART: f64 = 2.0;
/// Share of the packets that are slower than the p99.
const SLOWER: f64 = 0.01;

/// A cause of void trials.
struct Cause {
    /// Share of the time.
    share: f64,
    /// The cause and the remedy, as a sentence.
    said: String,
}

/// The largest cause of void trials, by its share of the time of all trials, with the remedy. If no cause was measured,
/// the reason that the trials give.
pub fn culprit(finding: &Finding) -> String {
    let causes = finding.disturbance.as_ref().map(causes).unwrap_or_default();
    let largest = causes.into_iter().filter(|cause| cause.share >= LEAST).max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(cause) = largest {
        return cause.said;
    }
    let void = finding.searches.iter().flat_map(|searches| &searches.void);
    let why = void.max_by_key(|void| void.trials).map_or("the machine was not quiet", |void| void.why.as_str());
    format!("{why}; stop other programs (top shows them), then repeat")
}

fn causes(disturbance: &Disturbance) -> Vec<Cause> {
    let share = |pauses: &Option<Pauses>| pauses.as_ref().map_or(0.0, |pauses| pauses.share);
    let mut causes = Vec::new();
    let others = share(&disturbance.other_tasks);
    causes.push(Cause {
        share: others,
        said: format!(
            "other programs had the host's CPU for {} of the time{}: stop them or move them to other CPUs (taskset), then repeat",
            format::share_short(others),
            tasks(disturbance)
        ),
    });
    for (name, pauses) in [("host's", &disturbance.host), ("sender's", &disturbance.sender)] {
        let away = share(pauses);
        let steal = pauses.as_ref().and_then(|pauses| pauses.steal_share).filter(|steal| *steal > 0.0);
        let steal = steal.map_or(String::new(), |steal| format!(", steal clock {}", format::share_short(steal)));
        causes.push(Cause {
            share: away,
            said: format!(
                "the hypervisor took the {name} CPU for {} of the time{steal}: repeat when other guests are quiet, or on CPUs that are not shared",
                format::share_short(away)
            ),
        });
    }
    // Delays that the pauses of the sender's CPU explain are not stalls of the sender itself.
    let stalls = share(&disturbance.sender_stalls) - share(&disturbance.sender);
    causes.push(Cause {
        share: stalls,
        said: format!(
            "the sender was delayed {} of the time, probably by other programs on its CPU: stop them (top shows them) or give it another CPU \
             (--sender-cpu), then repeat",
            format::share_short(stalls.max(0.0))
        ),
    });
    causes
}

/// A sentence on the cause of the p99, if the p99 is longer at a lower load than at a higher one: other work then used
/// the CPU. `None` otherwise.
pub fn tail(finding: &Finding) -> Option<String> {
    let disturbance = finding.disturbance.as_ref()?;
    let p99 = |at: &LatencyAt| Some((at.share, at.latency_s.wire?.p99?.value));
    let loads: Vec<(f64, f64)> = finding.latency.iter().filter_map(p99).collect();
    let (low, high) = loads.iter().zip(loads.iter().skip(1)).find(|(low, high)| low.1 > LONGER * high.1)?;
    let times = |what: &str, pauses: &Pauses| {
        let longest = pauses
            .max_s
            .map_or(String::new(), |max_s| format!(", up to {} at a time", format::quantity(max_s, Unit::Seconds)));
        (pauses.count > 0)
            .then(|| format!("{what} had the host's CPU {} of the time{longest}", format::share_short(pauses.share)))
    };
    let whose = [
        disturbance.other_tasks.as_ref().and_then(|pauses| Some(times("other tasks", pauses)? + &tasks(disturbance))),
        disturbance.host.as_ref().and_then(|pauses| times("the hypervisor", pauses)),
    ];
    let whose: Vec<String> = whose.into_iter().flatten().collect();
    let [low_p99, high_p99] = [low.1, high.1].map(|p99_s| format::quantity(p99_s, Unit::Seconds));
    let [low, high] = [low.0, high.0].map(format::share_short);
    let cause = if whose.is_empty() { "other work on the CPU was not measured".to_owned() } else { whose.join("; ") };
    Some(format!(
        "p99 is {low_p99} at {low} of the cliff and {high_p99} at {high}, which the packets' work does not explain: {cause}"
    ))
}

/// A sentence on a measured p99 that differs from the simulated one by more than the factor [`APART`]: the likely
/// cause, and which one to plan with. `None` if both are near each other at all loads.
pub fn apart(finding: &Finding) -> Option<String> {
    let ratio = |at: &LatencyAt| {
        let ratio = at.latency_s.wire?.p99?.value / at.latency_s.sim?.p99?.value;
        (ratio.is_finite() && !(1.0 / APART..=APART).contains(&ratio)).then_some((at.share, ratio))
    };
    let apart: Vec<(f64, f64)> = finding.latency.iter().filter_map(ratio).collect();
    if apart.is_empty() {
        return None;
    }
    let each = |(place, (share, ratio)): (usize, &(f64, f64))| {
        let of = if place == 0 { format!(" {}", super::of_the_cliff(finding)) } else { String::new() };
        format!("{} times (at {}{of})", format::significant(*ratio), format::share_short(*share))
    };
    let each: Vec<String> = apart.iter().enumerate().map(each).collect();
    let all = interruptions(finding);
    let time: f64 = all.iter().map(|(share, _)| share).sum();
    // At a load of `share` of the cliff, the queue that grew during an interruption needs share / (1 - share) of its
    // length to empty: packets arrive during both.
    let delays = |(share, ratio): &(f64, f64)| *ratio > APART && time / (1.0 - share).max(SLOWER) >= SLOWER;
    let of_time: Vec<&str> = all.iter().map(|(_, said)| said.as_str()).collect();
    let method = finding.latency_method.as_ref().filter(|_| apart.iter().all(|(_, ratio)| *ratio < 1.0));
    let why = if tail(finding).is_some() {
        "plan with the measured one while the other work lasts, with the simulated one without it".to_owned()
    } else if apart.iter().all(delays) {
        format!(
            "the measured one includes interruptions (of the time: {}) and the queues after them; plan with it as long as there are such \
             interruptions, with the simulated one without them",
            of_time.join(", ")
        )
    } else if let Some(method) = method {
        format!("the measured one is {method}; plan with it for this part of the path only")
    } else {
        "the cause is unknown; plan with the measured one".to_owned()
    };
    Some(format!("the measured p99 is {} the simulated one: {why}", each.join(" and ")))
}

/// What interrupted the packets' work: the share of the time, and its name with this share. The largest is first.
fn interruptions(finding: &Finding) -> Vec<(f64, String)> {
    let Some(disturbance) = &finding.disturbance else { return Vec::new() };
    let share = |pauses: &Option<Pauses>| pauses.as_ref().map_or(0.0, |pauses| pauses.share);
    // Delays of the sender include those by pauses of its CPU.
    let late = share(&disturbance.sender_stalls).max(share(&disturbance.sender));
    let mut all = [
        (share(&disturbance.host), "the hypervisor"),
        (share(&disturbance.other_tasks), "other tasks on the host's CPU"),
        (late, "netcliff's own sender, late,"),
    ]
    .map(|(share, what)| (share, format!("{what} {}", format::share_short(share))))
    .to_vec();
    all.retain(|(share, _)| *share > 0.0);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

/// The tasks with their shares of the time, in parentheses: ` (cc1 8 %, rustc 3 %)`.
fn tasks(disturbance: &Disturbance) -> String {
    let each = |task: &TaskTime| {
        let share = if disturbance.measured_s > 0.0 { task.total_s / disturbance.measured_s } else { 0.0 };
        format!("{} {}", task.task, format::share_short(share))
    };
    let named: Vec<String> = disturbance.tasks.iter().take(NAMED).map(each).collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}
