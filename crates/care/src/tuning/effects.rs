//! [`effects`]: predicts what each step of a plan changes. Each kind of step has its own module: [`schemes`], steps
//! that the engines support as a scheme; [`spread`], the distribution of packets over queues; [`placing`], the CPUs
//! that do the work; [`room`], queue lengths; [`segments`], bytes per packet; [`power`], sleep and frequency. If none
//! of them has a prediction, the effect is "not predicted" with the reason ([`why_not`]).

mod placing;
mod power;
mod room;
mod schemes;
mod segments;
#[cfg(test)]
mod tests;

use std::fmt;

use netcliff_core::finding::Calibration;
use netcliff_core::{Host, Outcome};
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::nic::netdev::NapiKey;
use netcliff_host::setting::{Group, Setting, is_adaptive};
use netcliff_host::tune::{Plan, Step};

use netcliff_lab::costs::Found;

/// Frame size for which packet rates are reported (bytes with FCS).
const FRAME_BYTES: f64 = 64.0;

/// Sets the predicted effect of each step on `host`, from the calibrated costs. Does not change effects that the plan
/// states itself.
pub fn effects(plan: &mut Plan, host: &Inspection, found: &Found) {
    let run = found.name.to_string();
    let costs = costs(&found.calibration);
    let packets_per_interrupt = found.packets_per_interrupt().unwrap_or(f64::INFINITY);
    let known = Known { host, steps: &plan.steps, costs, packets_per_interrupt, run: &run };
    let effects: Vec<String> = plan.steps.iter().map(|step| known.effect(step)).collect();
    for (step, effect) in plan.steps.iter_mut().zip(effects) {
        step.proposal.effect.get_or_insert(effect);
    }
}

/// Data from which effects are computed.
struct Known<'a> {
    /// The host before the plan is applied.
    host: &'a Inspection,
    /// All steps of the plan, because some steps have an effect only together.
    steps: &'a [Step],
    /// The calibrated costs, then all costs at the low and at the high ends of their intervals.
    costs: [Host; 3],
    /// Packets per interrupt, measured near the cliff; infinite if not measured, so that interrupts cost nothing.
    packets_per_interrupt: f64,
    /// The run from which the costs come.
    run: &'a str,
}

impl Known<'_> {
    fn effect(&self, step: &Step) -> String {
        let answers = [schemes::effect, spread::effect, placing::effect, room::effect, segments::effect, power::effect];
        let found = answers.iter().find_map(|answer| answer(self, step));
        found.unwrap_or_else(|| format!("not predicted: {}", why_not(step)))
    }

    /// Returns the interface that a step changes.
    fn port(&self, step: &Step) -> Option<&Port> {
        self.host.port(step.setting.interface()?)
    }

    /// Largest load that one CPU serves with the measured number of packets per interrupt (pps).
    fn one_cpu_pps(&self, host: &Host) -> f64 {
        1.0 / (packet_s(host) + (host.interrupt_s + host.mask_s) / self.packets_per_interrupt)
    }

    /// Computes the range of a figure that depends on the costs.
    fn range(&self, of: impl Fn(&Host) -> f64) -> Range {
        Range::over(self.costs.iter().map(of))
    }
}

/// CPU time per packet: protocol work and the reading program (s).
fn packet_s(host: &Host) -> f64 {
    host.service_s(FRAME_BYTES) + host.application_s.unwrap_or(0.0)
}

/// A figure at the calibrated costs, with the smallest and the largest value within the intervals of the costs and
/// other uncertainties.
#[derive(Debug, Clone, Copy)]
struct Range {
    value: f64,
    low: f64,
    high: f64,
}

impl Range {
    /// Makes the range of several values: the first one is the figure; the smallest and the largest are the ends.
    fn over(values: impl IntoIterator<Item = f64>) -> Range {
        let mut values = values.into_iter();
        let value = values.next().unwrap_or(f64::NAN);
        values.fold(Range { value, low: value, high: value }, |range, next| Range {
            low: range.low.min(next),
            high: range.high.max(next),
            ..range
        })
    }

    /// Makes the range of a figure over outcomes, including the interval of each. `None` if an outcome lacks the
    /// figure.
    fn of_outcomes(outcomes: &[Outcome], read: fn(&Outcome) -> Option<netcliff_core::Figure>) -> Option<Range> {
        let figures: Vec<_> = outcomes.iter().map(read).collect::<Option<_>>()?;
        let ends = figures.iter().flat_map(|figure| {
            let interval = figure.interval.map(|interval| [interval.low, interval.high]);
            [figure.value].into_iter().chain(interval.into_iter().flatten())
        });
        Some(Range::over(ends))
    }

    /// Converts the unit by `factor`, which is above 0.
    fn times(self, factor: f64) -> Range {
        Range { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// Formats `12.3 (11.0 to 13.1)`, with the requested number of decimals (default 0).
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        write!(f, "{:.digits$}", self.value)?;
        if self.high - self.low < 0.5 * 10_f64.powi(-(digits as i32)) {
            return Ok(());
        }
        write!(f, " ({:.digits$} to {:.digits$})", self.low, self.high)
    }
}

/// Returns the calibrated host, and two copies with all costs at the low or at the high ends of their intervals.
fn costs(calibration: &Calibration) -> [Host; 3] {
    let end = |pick: fn(&netcliff_core::Interval) -> f64| {
        let mut host = calibration.host.clone();
        for cost in calibration.costs.iter().filter(|cost| matches!(cost.unit.as_str(), "s" | "s/B")) {
            if let Some(interval) = &cost.figure.interval {
                // A cost that is not a key of a host (only reported) changes nothing.
                let _ = host.set(&format!("{}={}s", cost.key, pick(interval).max(0.0)));
            }
        }
        host
    };
    [calibration.host.clone(), end(|interval| interval.low), end(|interval| interval.high)]
}

/// The file name of a setting that is a file.
fn file_name(setting: &Setting) -> Option<&str> {
    match setting {
        Setting::File { path } => path.file_name()?.to_str(),
        _ => None,
    }
}

/// Returns the reason why a step has no prediction.
fn why_not(step: &Step) -> &'static str {
    const SENDING: &str = "`netcliff find` measures what receiving costs, not sending";
    const NO_RECEPTION: &str =
        "no receive queue is known to be behind it, and `netcliff find` measures what receiving costs, not sending";
    const SUSPENSION: &str =
        "interrupts are suspended only for an application that asks for it (busy polling by epoll)";
    let file = file_name(&step.setting).unwrap_or_default();
    match &step.setting {
        Setting::Ethtool { group: Group::Coalesce, key, .. } if is_adaptive(key) => {
            "which delays the driver chose while it adapted is not known"
        }
        Setting::Ethtool { group: Group::Features, key, .. } if key == "rx-lro" => {
            "how much the device merged depends on the flows; forwarding needs it off whatever it costs"
        }
        Setting::Ethtool { group: Group::Features, .. } => SENDING,
        Setting::Ethtool { group: Group::Channels, key, .. } if key == "tx" => SENDING,
        Setting::Ethtool { group: Group::Rings, .. } => "the link does not report its speed, or nothing delays a poll",
        Setting::RssTable { .. } => "over which queues the driver spreads by itself is not known",
        Setting::Napi { key: NapiKey::IrqSuspendTimeout, .. } => SUSPENSION,
        Setting::Napi { key: NapiKey::DeferHardIrqs | NapiKey::GroFlushTimeout, .. } => ALONE,
        Setting::Interrupt { .. } => NO_RECEPTION,
        _ => match file {
            "napi_defer_hard_irqs" | "gro_flush_timeout" => ALONE,
            "xps_cpus" => SENDING,
            "smp_affinity_list" => NO_RECEPTION,
            "rps_cpus" => "on which CPUs its packets are worked on is not known: no interrupt is reported for a queue",
            "netdev_max_backlog" => "the length of the bursts that overflowed is unknown",
            "busy_poll" => "it serves poll() and select(); what it does to read() stands at net.core.busy_read",
            "scaling_governor" => "this kernel does not report the frequencies that it may choose",
            "disable" => "the kernel does not report how long the state takes to leave",
            _ => "neither model nor simulator has this setting",
        },
    }
}

/// Reason why a deferral step without the other setting has no prediction.
const ALONE: &str = "deferral is two settings, and the value of the other is not in the plan";

mod spread {
    //! Steps that redistribute packets over queues: the RSS table and the number of channels. The busiest queue
    //! decides.
    //!
    //! By utilisation (docs/theory/queues.md), a queue with a share p of the packets on a separate core is fully loaded
    //! at a total load of 1 / (p c), where c is the cost of a packet. With many flows of similar weight, the share of
    //! the packets is the share of the table's entries.

    use netcliff_host::setting::{Group, Setting};
    use netcliff_host::tune::Step;

    use super::{Known, Range};

    /// Share of the packets of each queue.
    type Shares = Vec<f64>;

    /// Returns the predicted effect of the step. `None` for other steps, and for values that are not a distribution
    /// over queues.
    pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
        let of: fn(&str) -> Option<Shares> = match &step.setting {
            Setting::RssTable { .. } => table,
            Setting::Ethtool { group: Group::Channels, key, .. } if key == "combined" || key == "rx" => even,
            _ => return None,
        };
        let (before, after) = (of(&step.proposal.old)?, of(&step.proposal.new)?);
        let share = |shares: &Shares| format!("{:.1} % of the packets", 100.0 * busiest(shares));
        Some(format!(
            "the busiest queue gets {} -> {} and its core is full at {} -> {} kpps (predicted from CPU time alone, which is not the cliff: \
         loss can begin earlier; costs of {}, ranges from their intervals; many flows of similar weight, one core per queue)",
            share(&before),
            share(&after),
            full(known, &before),
            full(known, &after),
            known.run,
        ))
    }

    /// Returns equal shares for this number of queues; `None` if the text is not a number.
    fn even(count: &str) -> Option<Shares> {
        let count: usize = count.parse().ok().filter(|count| *count > 0)?;
        Some(vec![1.0 / count as f64; count])
    }

    /// Returns the queues' shares of the entries of an RSS table; `None` if the text is not a table.
    fn table(text: &str) -> Option<Shares> {
        let entries: Vec<usize> = text.split(',').map(|entry| entry.trim().parse().ok()).collect::<Option<_>>()?;
        let mut shares = vec![0.0; entries.iter().max()? + 1];
        entries.iter().for_each(|queue| shares[*queue] += 1.0 / entries.len() as f64);
        Some(shares)
    }

    fn busiest(shares: &Shares) -> f64 {
        shares.iter().copied().fold(0.0, f64::max)
    }

    /// Total load at which the core of the busiest queue is fully loaded (kpps).
    fn full(known: &Known<'_>, shares: &Shares) -> Range {
        known.range(|host| 1e-3 * known.one_cpu_pps(host) / busiest(shares))
    }
}
