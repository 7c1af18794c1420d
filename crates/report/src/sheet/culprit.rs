//! [`culprit`]: the main cause of void trials, and its remedy.

use std::fmt;

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
            "other programs had the CPU under test for {} of the time{}: stop them or move them to other CPUs (taskset), then repeat",
            format::share_short(others),
            tasks(disturbance)
        ),
    });
    for (name, pauses) in [("CPU under test", &disturbance.host), ("sender's CPU", &disturbance.sender)] {
        let away = share(pauses);
        let steal = pauses.as_ref().and_then(|pauses| pauses.steal_share).filter(|steal| *steal > 0.0);
        let steal = steal.map_or(String::new(), |steal| format!(", steal clock {}", format::share_short(steal)));
        causes.push(Cause {
            share: away,
            said: format!(
                "the hypervisor took the {name} for {} of the time{steal}: repeat when other guests are quiet, or on CPUs that are not shared",
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

/// A measured p99 that is longer at a lower load than at a higher one: other work then used the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Both values with their loads: `9.37 ms at 50 % of the cliff (190 kpps) and 2.55 ms at 90 % (342 kpps)`.
    values: String,
    /// The work, with its share of the time. `None`: it was not measured.
    cause: Option<String>,
}

/// The sentence on the page of the measurement.
impl fmt::Display for Tail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "p99 is {}, which the load does not explain: {}", self.values, self.cause())
    }
}

impl Tail {
    /// The sentence above latencies that are computed from the run's costs.
    pub fn of_computed(&self) -> String {
        format!(
            "it measured a p99 of {}, which the load does not explain: {}. Latencies that are computed from its costs leave out such pauses \
             of the CPU: while they occur, expect a p99 like the measured ones",
            self.values,
            self.cause()
        )
    }

    fn cause(&self) -> &str {
        self.cause.as_deref().unwrap_or("other work on the CPU was not measured")
    }
}

/// The p99 at two loads and what lengthened the first, if the p99 is longer at a lower load than at a higher one.
/// `None` otherwise.
pub fn tail(finding: &Finding) -> Option<Tail> {
    let disturbance = finding.disturbance.as_ref()?;
    let p99 = |at: &LatencyAt| Some((at.share, at.load_pps, at.latency_s.wire?.p99?.value));
    let loads: Vec<(f64, f64, f64)> = finding.latency.iter().filter_map(p99).collect();
    let (low, high) = loads.iter().zip(loads.iter().skip(1)).find(|(low, high)| low.2 > LONGER * high.2)?;
    let times = |what: &str, pauses: &Pauses| {
        let longest = pauses
            .max_s
            .map_or(String::new(), |max_s| format!(", up to {} at a time", format::quantity(max_s, Unit::Seconds)));
        (pauses.count > 0).then(|| {
            format!("{what} had the CPU under test {} of the time{longest}", format::share_short(pauses.share))
        })
    };
    let whose = [
        disturbance.other_tasks.as_ref().and_then(|pauses| Some(times("other tasks", pauses)? + &tasks(disturbance))),
        disturbance.host.as_ref().and_then(|pauses| times("the hypervisor", pauses)),
    ];
    let whose: Vec<String> = whose.into_iter().flatten().collect();
    let at = |(share, load_pps, p99_s): &(f64, f64, f64), of: &str| {
        let (p99, load) = (format::quantity(*p99_s, Unit::Seconds), format::quantity(*load_pps, Unit::Pps));
        format!("{p99} at {}{of} ({load})", format::share_short(*share))
    };
    let of = format!(" {}", super::of_the_cliff(finding));
    Some(Tail {
        values: format!("{} and {}", at(low, &of), at(high, "")),
        cause: (!whose.is_empty()).then(|| whose.join("; ")),
    })
}

/// Loads, as shares of the cliff, at which the measured p99 differs from the simulated one by more than the factor
/// [`APART`], with the ratio of the two.
fn ratios(finding: &Finding) -> Vec<(f64, f64)> {
    let ratio = |at: &LatencyAt| {
        let ratio = at.latency_s.wire?.p99?.value / at.latency_s.sim?.p99?.value;
        (ratio.is_finite() && !(1.0 / APART..=APART).contains(&ratio)).then_some((at.share, ratio))
    };
    finding.latency.iter().filter_map(ratio).collect()
}

/// Ratios of p99 in words: `5.49 times the simulated one at 50 % of the cliff and 31.9 times at 90 %`.
fn listed(ratios: &[(f64, f64)], finding: &Finding) -> String {
    let each = |(place, (share, ratio)): (usize, &(f64, f64))| {
        let (one, of) = match place {
            0 => (" the simulated one", format!(" {}", super::of_the_cliff(finding))),
            _ => ("", String::new()),
        };
        format!("{} times{one} at {}{of}", format::significant(*ratio), format::share_short(*share))
    };
    ratios.iter().enumerate().map(each).collect::<Vec<_>>().join(" and ")
}

/// The sentence above a p99 that is computed from the run's costs, if the run measured a longer p99 than it simulated.
/// `None` otherwise.
pub fn longer_than_computed(finding: &Finding) -> Option<String> {
    let longer: Vec<(f64, f64)> = ratios(finding).into_iter().filter(|(_, ratio)| *ratio > 1.0).collect();
    let values = (!longer.is_empty()).then(|| listed(&longer, finding))?;
    Some(format!("it measured a p99 of {values}: a real p99 may exceed a computed one by as much"))
}

/// Sentences on a measured p99 that differs from the simulated one by more than the factor [`APART`], without the last
/// full stop: the likely cause, and which one to expect. `None` if both are near each other at all loads.
pub fn apart(finding: &Finding) -> Option<String> {
    let apart = ratios(finding);
    if apart.is_empty() {
        return None;
    }
    let interruptions = Interruptions::of(finding);
    let time = interruptions.share();
    // At a load of `share` of the cliff, the queue that grew during an interruption needs share / (1 - share) of its
    // length to empty: packets arrive during both.
    let delays = |(share, ratio): &(f64, f64)| *ratio > APART && time / (1.0 - share).max(SLOWER) >= SLOWER;
    let method = finding.latency_method.as_ref().filter(|_| apart.iter().all(|(_, ratio)| *ratio < 1.0));
    let why = if tail(finding).is_some() {
        ": while the other work lasts, expect the measured one, without it the simulated one".to_owned()
    } else if apart.iter().all(delays) {
        format!(". {interruptions}")
    } else if let Some(method) = method {
        format!(": the measured one is {method}; expect it for this part of the path only")
    } else {
        ": the cause is unknown; expect the measured one".to_owned()
    };
    Some(format!("the measured p99 is {}{why}", listed(&apart, finding)))
}

/// What interrupted the packets' work or made them arrive in bursts, as shares of the time. `Display` says what this
/// means for the measured latency, without the last full stop.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Interruptions {
    /// The hypervisor had the CPU under test.
    hypervisor: f64,
    /// Other tasks had the CPU under test.
    others: f64,
    /// The sender was late. Delays of the sender include those by pauses of its CPU.
    late: f64,
}

impl Interruptions {
    fn of(finding: &Finding) -> Self {
        let Some(disturbance) = &finding.disturbance else { return Self::default() };
        let share = |pauses: &Option<Pauses>| pauses.as_ref().map_or(0.0, |pauses| pauses.share);
        Self {
            hypervisor: share(&disturbance.host),
            others: share(&disturbance.other_tasks),
            late: share(&disturbance.sender_stalls).max(share(&disturbance.sender)),
        }
    }

    /// Share of the time of all.
    fn share(self) -> f64 {
        self.hypervisor + self.others + self.late
    }
}

impl fmt::Display for Interruptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = vec![(self.others, "other tasks"), (self.hypervisor, "the hypervisor")];
        own.retain(|(share, _)| *share > 0.0);
        own.sort_by(|a, b| b.0.total_cmp(&a.0));
        let said = |(place, (share, who)): (usize, &(f64, &str))| {
            let (had, of) = if place == 0 { (" had the CPU under test", " of the time") } else { ("", "") };
            format!("{who}{had} {}{of}", format::share_short(*share))
        };
        let own: Vec<String> = own.iter().enumerate().map(said).collect();
        if !own.is_empty() {
            write!(
                out,
                "The simulated p99 leaves interruptions out; in this run {}. These interruptions delay your packets, too: while they go on, do not \
                 count on the simulated p99",
                own.join(", ")
            )?;
        }
        if self.late > 0.0 {
            let gap = if own.is_empty() { "" } else { ". " };
            let late = format::share_short(self.late);
            write!(
                out,
                "{gap}netcliff's own sender was late {late} of the time and then sent bursts, which the simulation does not have: this is an \
                 error of the measurement, by which the measured p99 may be too long"
            )?;
        }
        Ok(())
    }
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
