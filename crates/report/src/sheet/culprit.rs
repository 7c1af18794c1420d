//! [`culprit`]: what made trials void, and what to do about it.

use netcliff_core::Finding;
use netcliff_core::finding::{Disturbance, Pauses, TaskTime};

use crate::format;

/// Tasks that are named.
const NAMED: usize = 3;
/// Share of the time from which a cause is named (a tenth of the share of trials from which their number is a doubt: a trial is void by a
/// fraction of its time).
const LEAST: f64 = 0.001;

/// A cause of void trials.
struct Cause {
    /// Share of the time.
    share: f64,
    /// What happened, and what to do.
    said: String,
}

/// The largest cause of void trials, by its share of the time of all trials, with the remedy; where none was measured, the reason that the
/// trials give.
pub fn culprit(finding: &Finding) -> String {
    let causes = finding.disturbance.as_ref().map(causes).unwrap_or_default();
    let largest = causes.into_iter().filter(|cause| cause.share >= LEAST).max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(cause) = largest {
        return cause.said;
    }
    let void = finding.searches.iter().flat_map(|searches| &searches.void);
    let why = void.max_by_key(|void| void.trials).map_or("the machine was not quiet", |void| void.why.as_str());
    format!("{why}; end other programs (top shows them), then repeat")
}

fn causes(told: &Disturbance) -> Vec<Cause> {
    let share = |pauses: &Option<Pauses>| pauses.as_ref().map_or(0.0, |pauses| pauses.share);
    let mut causes = Vec::new();
    let others = share(&told.other_tasks);
    causes.push(Cause {
        share: others,
        said: format!(
            "other programs had the host's CPU for {} of the time{}: end them or move them to other CPUs (taskset), then repeat",
            format::share_short(others),
            tasks(told)
        ),
    });
    for (name, pauses) in [("host's", &told.host), ("sender's", &told.sender)] {
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
    // What its CPU's pauses explain is no stall of its own.
    let stalls = share(&told.sender_stalls) - share(&told.sender);
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

/// ` (cc1 8 %, rustc 3 %)`.
fn tasks(told: &Disturbance) -> String {
    let each = |task: &TaskTime| {
        let share = if told.measured_s > 0.0 { task.total_s / told.measured_s } else { 0.0 };
        format!("{} {}", task.task, format::share_short(share))
    };
    let named: Vec<String> = told.tasks.iter().take(NAMED).map(each).collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}
