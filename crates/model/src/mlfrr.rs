//! MLFRR, the maximum loss-free receive rate: the rate at which packets take all CPU time of a host.
//!
//! Two formulas (Slinkin 2018, section II): with interrupts, eq. (1), and with timed polling, eq. (2). The second has
//! two misprints, see [`polled_as_printed`]; [`polled`] is correct. Both are fluid bounds: they count work but no
//! queues, so that random arrivals lose packets at slightly lower rates.

use netcliff_core::Host;

/// Costs of one packet (s).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// T_intr = t_i^sw + t_i: context switch to the interrupt handler and the handler.
    pub interrupt_s: f64,
    /// t_p: protocol processing per packet.
    pub protocol_s: f64,
    /// t_a^sw: context switch to the application.
    pub switch_s: f64,
    /// t_a: application work per packet.
    pub application_s: f64,
}

impl Costs {
    /// Takes the costs of a host for frames of this length; a missing application costs nothing. All costs are
    /// lengthened by the share of time spent in pauses.
    pub fn of(host: &Host, frame_bytes: f64) -> Self {
        let longer = 1.0 / host.up_share();
        Self {
            interrupt_s: longer * host.interrupt_s,
            protocol_s: longer * host.service_s(frame_bytes),
            switch_s: longer * host.context_switch_s,
            application_s: longer * host.application_s.unwrap_or(0.0),
        }
    }

    /// Eq. (1): 1/(2 T_intr + t_p + t_a^sw + t_a) (pps). Each packet costs two interrupts: the NIC's interrupt and the
    /// softirq.
    pub fn interrupt_driven_pps(&self) -> f64 {
        1.0 / (2.0 * self.interrupt_s + self.protocol_s + self.switch_s + self.application_s)
    }

    /// Rate that the application receives of `offered_pps` with interrupts (pps): all packets up to eq. (1). Beyond
    /// that rate, interrupts and protocol processing, which have priority, leave the application less and less time.
    /// Zero is receive livelock.
    pub fn interrupt_driven_delivered_pps(&self, offered_pps: f64) -> f64 {
        let first_s = 2.0 * self.interrupt_s + self.protocol_s;
        let own_s = self.switch_s + self.application_s;
        if own_s == 0.0 {
            // Without an application, interrupts starve protocol processing.
            let left = (1.0 - offered_pps * 2.0 * self.interrupt_s).max(0.0);
            return offered_pps.min(left / self.protocol_s);
        }
        offered_pps.min(((1.0 - offered_pps * first_s) / own_s).max(0.0))
    }

    /// Rate from which on nothing is delivered (pps); `None` if no higher-priority work can starve delivery.
    pub fn livelock_pps(&self) -> Option<f64> {
        let own_s = self.switch_s + self.application_s;
        let first_s = 2.0 * self.interrupt_s + if own_s > 0.0 { self.protocol_s } else { 0.0 };
        (first_s > 0.0).then(|| 1.0 / first_s)
    }
}

/// Timed polling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Polling {
    /// T: period of the timer (s).
    pub period_s: f64,
    /// Q: most packets per timer period.
    pub quota: u64,
    /// k_p: packets per softirq, at most Q.
    pub batch: u64,
}

/// The two upper bounds of a polling host's rate; the lower one is its MLFRR.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolledBounds {
    /// Bound by timer and quota (pps).
    pub quota_pps: f64,
    /// Bound by the CPU (pps; but see [`polled_as_printed`]).
    pub cpu_pps: f64,
}

impl PolledBounds {
    /// The MLFRR (pps).
    pub fn pps(&self) -> f64 {
        self.quota_pps.min(self.cpu_pps)
    }

    /// True if the quota gives the lower bound, false if the CPU does.
    pub fn quota_binds(&self) -> bool {
        self.quota_pps <= self.cpu_pps
    }
}

/// Eq. (2) corrected: min(Q/T, k_p (1 - T_intr/T)/(k_p (t_p + t_a) + t_a^sw)) (pps).
///
/// In each period T the timer's interrupt takes T_intr. The rest of the period serves batches of k_p packets, each
/// batch with one context switch.
pub fn polled(costs: &Costs, polling: &Polling) -> PolledBounds {
    PolledBounds {
        quota_pps: polling.quota as f64 / polling.period_s,
        cpu_pps: polling.batch as f64 * batches_per_s(costs, polling),
    }
}

/// Eq. (2) as printed: min(Q/(2 T), (1 - T_intr/T)/(T_p + T_a)), T_p = k_p t_p, T_a = k_p t_a + t_a^sw.
///
/// Its first term is half the rate of a host with one poll per period. Its second term counts batches, not packets, so
/// that the printed minimum compares packets with batches. Only for comparison with the paper's numbers.
pub fn polled_as_printed(costs: &Costs, polling: &Polling) -> PolledBounds {
    PolledBounds { quota_pps: 0.5 * polling.quota as f64 / polling.period_s, cpu_pps: batches_per_s(costs, polling) }
}

/// Batches that the CPU can process per second.
fn batches_per_s(costs: &Costs, polling: &Polling) -> f64 {
    let left = (1.0 - costs.interrupt_s / polling.period_s).max(0.0);
    let batch = polling.batch as f64;
    left / (batch * (costs.protocol_s + costs.application_s) + costs.switch_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        Costs { interrupt_s: 4e-6, protocol_s: 5e-6, switch_s: 2e-6, application_s: 3e-6 }
    }

    #[test]
    fn the_first_form_is_where_delivery_bends() {
        let costs = costs();
        let mlfrr = costs.interrupt_driven_pps();
        assert!((mlfrr * 18e-6 - 1.0).abs() < 1e-12);
        for share in [0.1, 0.9, 1.0 - 1e-9] {
            let offered = share * mlfrr;
            assert_eq!(costs.interrupt_driven_delivered_pps(offered), offered);
        }
        let (beyond, far) = (1.05 * mlfrr, 1.2 * mlfrr);
        let delivered = costs.interrupt_driven_delivered_pps(beyond);
        assert!(delivered < mlfrr && costs.interrupt_driven_delivered_pps(far) < delivered);
        let livelock = costs.livelock_pps().unwrap();
        assert!((livelock * 13e-6 - 1.0).abs() < 1e-12);
        assert_eq!(costs.interrupt_driven_delivered_pps(livelock * 1.001), 0.0);
    }

    /// At the MLFRR the host is always busy: delivered packets take all of its time.
    #[test]
    fn all_time_is_spent_at_the_bound_of_the_cpu() {
        let (costs, polling) = (costs(), Polling { period_s: 100e-6, quota: 64, batch: 8 });
        let bounds = polled(&costs, &polling);
        assert!(!bounds.quota_binds());
        let (ticks, batches) = (1.0 / polling.period_s, bounds.pps() / 8.0);
        let spent = ticks * costs.interrupt_s
            + bounds.pps() * (costs.protocol_s + costs.application_s)
            + batches * costs.switch_s;
        assert!((spent - 1.0).abs() < 1e-12, "{spent}");
    }

    /// Slinkin (2018), eq. (2), in docs/theory/misprints.md: a deterministic host with Q = 3 every 20 us achieves Q/T,
    /// 150.0 kpps; Q/(2T) is half.
    #[test]
    fn the_quota_of_the_paper() {
        let costs = Costs { interrupt_s: 1.59e-6, protocol_s: 5.34e-6, switch_s: 0.0, application_s: 0.0 };
        let polling = Polling { period_s: 20e-6, quota: 3, batch: 3 };
        let bounds = polled(&costs, &polling);
        assert!(bounds.quota_binds() && (bounds.pps() - 150e3).abs() < 1e-6);
        assert!((polled_as_printed(&costs, &polling).quota_pps - 75e3).abs() < 1e-6);
        assert!((polled_as_printed(&costs, &polling).cpu_pps * 3.0 - bounds.cpu_pps).abs() < 1e-6);
    }

    #[test]
    fn a_timer_shorter_than_its_interrupt_leaves_nothing() {
        let polling = Polling { period_s: 3e-6, quota: 3, batch: 3 };
        assert_eq!(polled(&costs(), &polling).pps(), 0.0);
    }

    #[test]
    fn protocol_processing_alone_can_starve() {
        let costs = Costs { application_s: 0.0, switch_s: 0.0, ..costs() };
        assert_eq!(costs.interrupt_driven_delivered_pps(50e3), 50e3);
        assert_eq!(costs.interrupt_driven_delivered_pps(126e3), 0.0);
        assert!((costs.livelock_pps().unwrap() - 125e3).abs() < 1e-6);
    }
}
