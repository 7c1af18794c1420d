//! Converts the measured CPU shares to the categories of the engines (model and simulator).
//!
//! The meter records the context in which the CPU ran: interrupt handler, softirq, application, idle. The engines
//! divide CPU time by its cause. Costs of an interrupt beyond its handler (leaving and entering a virtual machine, cold
//! caches) appear to the meter as time of the application, of softirqs or of idling, whichever was interrupted; in the
//! engines they belong to the interrupt. A NET_RX softirq is one context to the meter, but the engines separate its
//! polls from its packets. So for each counted interrupt its calibrated hidden cost is moved from the share of the
//! interrupted context to the interrupt share, and for each counted poll its calibrated cost is moved to the poll
//! share. The sum stays the same. CPU time that the engines do not model (other tasks, other softirqs, with a NIC the
//! timer's interrupts) is reported separately.

use netcliff_core::finding::{CpuBesides, CpuMeasured};
use netcliff_core::{CpuShares, Figure};

use crate::calibrate::Costs;
use netcliff_stats as stats;
use netcliff_trial::bench::{Counts, Observation};

/// Calibrated costs that the meter counts in one category and the engines in another; [`like_engines`] moves them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seams {
    /// Cost of an interrupt to the application that it interrupts, beyond its handler (s).
    pub hidden_s: f64,
    /// Cost of an interrupt to the poll that it interrupts, beyond its handler (s).
    pub hidden_polling_s: f64,
    /// Cost of a poll without its packets (s).
    pub poll_s: f64,
}

impl Seams {
    /// Selects the costs to move. With a NIC `hidden_s` is 0: the engines, too, charge to the application what it pays
    /// when it continues after an interrupt (`interrupt_resume`).
    pub fn of(costs: &Costs) -> Self {
        let hidden_s = if costs.backlog { costs.hidden_s } else { 0.0 };
        Self { hidden_s, hidden_polling_s: costs.hidden_polling_s, poll_s: costs.poll_s }
    }
}

/// CPU shares of a trial in the engines' categories.
pub fn like_engines(counts: &Counts, seams: Seams) -> CpuShares {
    let share = |time_s: f64| Figure::exact(time_s / counts.elapsed_s);
    let busy = counts.busy_interrupts.min(counts.interrupts);
    let softirq_interrupts = counts.softirq_interrupts.min(counts.interrupts - busy);
    let hidden = |each_s: f64, interrupts: f64, of_s: f64| (each_s * interrupts).clamp(0.0, of_s.max(0.0));
    let on_application_s = hidden(seams.hidden_s, busy, counts.application_s);
    let on_softirq_s = hidden(seams.hidden_polling_s, softirq_interrupts, counts.protocol_s);
    let on_idle_s = hidden(seams.hidden_s, counts.interrupts - busy - softirq_interrupts, counts.idle_s);
    let own_protocol_s = counts.protocol_s - on_softirq_s;
    let poll_s = (seams.poll_s * counts.polls).clamp(0.0, own_protocol_s);
    CpuShares {
        interrupt: Some(share(counts.handlers().time_s + on_application_s + on_softirq_s + on_idle_s)),
        poll: Some(share(poll_s)),
        protocol: Some(share(own_protocol_s - poll_s)),
        application: Some(share(counts.application_s - on_application_s)),
        paused: None,
        available: Some(share(counts.idle_s - on_idle_s)),
    }
}

/// Converts the CPU shares of trials to the engines' categories; trials without counts stay unchanged.
pub fn rewrite(observations: &mut [Observation], seams: Seams) {
    for observation in observations {
        if let Some(counts) = &observation.counts {
            observation.outcome.cpu = Some(like_engines(counts, seams));
        }
    }
}

/// Returns the CPU shares at `load_pps` that the engines do not model (other tasks, other softirqs, the meter itself);
/// `None` if no trial was metered.
pub fn besides(observations: &[&Observation], load_pps: f64) -> Option<CpuBesides> {
    let counts = || observations.iter().filter_map(|observation| observation.counts.as_ref());
    let shares =
        |of: fn(&Counts) -> Option<f64>| -> Vec<f64> { counts().filter_map(|c| Some(of(c)? / c.elapsed_s)).collect() };
    Some(CpuBesides {
        load_pps,
        other: stats::mean(&shares(|c| Some(c.elsewhere_s())))?.as_share(),
        meter: stats::mean(&shares(|c| c.meter_s)).map(Figure::as_share),
    })
}

/// Returns the costs that were moved, and for each load of the sweep the CPU shares that the engines do not model. Void
/// trials are excluded. `None` if no valid trial was metered.
pub fn measured(swept: &[Observation], seams: Seams) -> Option<CpuMeasured> {
    let mut loads: Vec<f64> = swept.iter().map(|observation| observation.spec.rate_pps).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let at = |load_pps: f64| {
        let here = |o: &&Observation| o.spec.rate_pps == load_pps && o.void().is_none();
        besides(&swept.iter().filter(here).collect::<Vec<_>>(), load_pps)
    };
    let besides: Vec<CpuBesides> = loads.into_iter().filter_map(at).collect();
    let Seams { hidden_s, hidden_polling_s, poll_s } = seams;
    (!besides.is_empty()).then_some(CpuMeasured { hidden_s, hidden_softirq_s: Some(hidden_polling_s), poll_s, besides })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that spends 0.4 s of a second in NET_RX, 0.3 s in the application, 0.05 s in handlers, 0.2 s idle and
    /// 0.05 s in other work.
    fn counts() -> Counts {
        Counts {
            elapsed_s: 1.0,
            protocol_s: 0.4,
            interrupt_s: 0.05,
            application_s: 0.3,
            idle_s: 0.2,
            other_s: 0.05,
            meter_s: Some(0.02),
            polls: 1e5,
            interrupts: 8e4,
            busy_interrupts: 6e4,
            softirq_interrupts: 5e3,
            ..Counts::default()
        }
    }

    fn values(cpu: CpuShares) -> [f64; 5] {
        [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available].map(|figure| figure.unwrap().value)
    }

    #[test]
    fn what_is_moved_between_rows_keeps_the_sum() {
        let seams = Seams { hidden_s: 1e-6, hidden_polling_s: 2e-6, poll_s: 5e-7 };
        let rows = values(like_engines(&counts(), seams));
        let expected = [0.05 + 0.085, 0.05, 0.4 - 0.05 - 0.01, 0.3 - 0.06, 0.2 - 0.015];
        for (found, expected) in rows.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{rows:?}");
        }
        assert!((rows.iter().sum::<f64>() - 0.95).abs() < 1e-12, "all but other work: {rows:?}");
    }

    /// With a NIC no time moves from the application's share to the interrupts' share, as in the simulator.
    #[test]
    fn what_an_application_pays_behind_a_nic_is_its_own() {
        let costs = Costs { hidden_s: 1e-6, hidden_polling_s: 2e-6, poll_s: 5e-7, ..crate::calibrate::tests::COSTS };
        let rows = |backlog| values(like_engines(&counts(), Seams::of(&Costs { backlog, ..costs })));
        assert!((rows(true)[3] - 0.24).abs() < 1e-12 && (rows(false)[3] - 0.3).abs() < 1e-12);
        assert!((rows(false)[4] - 0.2).abs() < 1e-12, "nor from idle time");
    }

    #[test]
    fn no_row_gives_more_than_it_has() {
        let rows = values(like_engines(&counts(), Seams { hidden_s: 1e-3, hidden_polling_s: 1e-3, poll_s: 1e-3 }));
        assert_eq!([rows[2], rows[3], rows[4]], [0.0; 3]);
        assert!((rows.iter().sum::<f64>() - 0.95).abs() < 1e-12, "{rows:?}");
    }
}
