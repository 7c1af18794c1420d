//! The calibrated host, scaled to its speed in later trials.
//!
//! Parts of a machine change their speed independently. If two virtual CPUs are moved to cores without a shared cache,
//! a packet's protocol work takes 1.4 times as long and the interrupt latency grows, while the application is as fast
//! as before (docs/accuracy.md): a single factor would miss that. Each trial with the calibrated frame and work gives
//! three figures without a fit: softirq time and application time, each relative to the time that the costs predict for
//! the trial's packets, polls, wake-ups and interrupts; and packets per poll, from which the interrupt latency follows.
//! Trials with high loss give the cost of a full socket. The cost of an interrupt to the application beyond its
//! handler, which only calibration measures, is scaled with the application.

use netcliff_core::Host;
use netcliff_core::host::Part;

use super::{Calibrated, Costs, latency_s};
use netcliff_stats as stats;
use netcliff_stats::chance::Chance;
use netcliff_trial::bench::{Counts, taken_from_polls_s};

/// Smallest number of trials for an estimate of the speed.
pub const FEWEST: usize = 5;
/// Smallest number of trials with a full socket for an estimate of its cost.
const FEWEST_FULL: usize = 3;

/// Trials with the calibrated frame and work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trials {
    /// Trials that lost almost nothing.
    pub empty: Vec<Counts>,
    /// Trials that kept the socket full; may be empty.
    pub full: Vec<Counts>,
}

impl Trials {
    fn by_the_clock(&self) -> Self {
        Self { empty: by_the_clock(&self.empty), full: by_the_clock(&self.full) }
    }
}

fn by_the_clock(trials: &[Counts]) -> Vec<Counts> {
    trials.iter().map(Counts::by_the_clock).collect()
}

/// A bootstrap replicate of the host, and its costs, which predict the CPU time of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Resampled {
    /// The host.
    pub host: Host,
    /// Costs of the host, which predict the CPU time of a trial.
    pub costs: Costs,
}

impl Calibrated {
    /// Returns the calibration scaled to the speed of these trials. `work_s`: part of a packet's application time (s)
    /// that was configured as a time and does not scale. `None` if there are too few trials.
    #[must_use]
    pub fn at_present(&self, trials: &Trials, work_s: f64, seed: u64) -> Option<Self> {
        if trials.empty.len() < FEWEST {
            return None;
        }
        // Corrected once, because each resampled host draws from them.
        let trials = &trials.by_the_clock();
        let mut present = self.clone();
        present.calibration.host = Present::of(&self.costs, trials, work_s)?.host(&self.calibration.host, work_s);
        let mut chance = Chance::new(seed);
        // The later trials are a sample, too, so they are resampled like the trials of the calibration.
        for resampled in &mut present.resampled {
            let mut drawn = |trials: &[Counts]| super::resample::drawn(trials, &mut chance);
            let drawn = Trials { empty: drawn(&trials.empty), full: drawn(&trials.full) };
            resampled.host = Present::of(&resampled.costs, &drawn, work_s)?.host(&resampled.host, work_s);
        }
        Some(present)
    }

    /// Returns the calibration with its host scaled to the speed of `trials`, all of which lost almost nothing. The
    /// bootstrap replicates stay unscaled, because the sample is small. `None` if the trials give no estimate. `work_s`
    /// as in [`Calibrated::at_present`].
    pub fn at_speed_of(&self, trials: &[Counts], work_s: f64) -> Option<Self> {
        let trials = Trials { empty: by_the_clock(trials), full: Vec::new() };
        let mut at_speed = self.clone();
        at_speed.calibration.host = Present::of(&self.costs, &trials, work_s)?.host(&self.calibration.host, work_s);
        Some(at_speed)
    }

    /// Returns the calibration with the median of `latencies_s` (one per trial, s) as interrupt latency; `None` if
    /// `latencies_s` is empty.
    pub fn with_latency_of(&self, latencies_s: &[f64], seed: u64) -> Option<Self> {
        let median_s = |of: &[f64]| stats::median(of).map(|figure| figure.value);
        let mut host = self.clone();
        host.calibration.host.interrupt_latency_s = median_s(latencies_s)?;
        let mut chance = Chance::new(seed);
        for resampled in &mut host.resampled {
            resampled.host.interrupt_latency_s = median_s(&super::resample::drawn(latencies_s, &mut chance))?;
        }
        Some(host)
    }

    /// Returns the calibration with the costs of a full socket taken from `other`, which has more trials with a full
    /// socket.
    #[must_use]
    pub fn with_full_socket_of(mut self, other: &Self) -> Self {
        let take = |host: &mut Host, of: &Host| {
            host.cold_protocol_s = of.cold_protocol_s;
            host.cold_application_s = of.cold_application_s;
        };
        take(&mut self.calibration.host, &other.calibration.host);
        for (own, other) in self.resampled.iter_mut().zip(&other.resampled) {
            take(&mut own.host, &other.host);
        }
        self
    }
}

/// Speed of a host's parts, measured in trials.
struct Present {
    /// Softirq time relative to calibration.
    softirq: f64,
    /// Application time relative to calibration, without the configured work.
    application: f64,
    /// Cost of an interrupt to the application, and to a poll, including its hidden part (s); `None`: the trials had no
    /// interrupts.
    interrupt_s: Option<f64>,
    interrupt_polling_s: Option<f64>,
    /// Interrupt latency (s); `None` if it is not above zero or cannot be determined ([`Costs::backlog`]).
    latency_s: Option<f64>,
    /// Additional (protocol, application) time of a packet with a full socket (s); `None`: too few such trials.
    cold_s: Option<(f64, f64)>,
}

impl Present {
    fn of(costs: &Costs, trials: &Trials, work_s: f64) -> Option<Self> {
        let median = |of: &dyn Fn(&Counts) -> Option<f64>| median(&trials.empty, of);
        let taken_s = taken_from_polls_s(&trials.empty).unwrap_or(costs.hidden_polling_s);
        let softirq = median(&|c| ratio(c.own_protocol_s(taken_s), costs.softirq_time_s(c)))?;
        let application = median(&|c| {
            let work_s = work_s * c.delivered;
            ratio(c.application_s - work_s, costs.application_time_s(c) - work_s)
        })?;
        // Sums over all trials are divided: a trial with few interrupts, for example beyond the cliff, shows little
        // about handlers.
        let sum = |of: &dyn Fn(&Counts) -> f64| trials.empty.iter().map(of).sum::<f64>();
        let (handled_s, interrupts) = (sum(&|c| c.handlers().time_s), sum(&|c| c.handlers().count));
        let handled_s = (interrupts > 0.0).then(|| handled_s / interrupts);
        let interrupt_s = handled_s.map(|handled_s| handled_s + application * costs.hidden_s);
        let interrupt_polling_s = handled_s.map(|handled_s| handled_s + taken_s);
        let latency_s = median(&|c| {
            let service_s = softirq * (costs.protocol_s + costs.wakeup_s * c.wakeups / c.packets);
            latency_s(c, service_s, interrupt_s.unwrap_or(0.0) + softirq * costs.poll_s)
        });
        let latency_s = latency_s.filter(|latency_s| costs.backlog && *latency_s > 0.0);
        let present = Self { softirq, application, interrupt_s, interrupt_polling_s, latency_s, cold_s: None };
        Some(Self { cold_s: present.cold_s(costs, &trials.full, work_s), ..present })
    }

    /// Additional time of packets with a full socket, compared with an empty one at this speed (s); `None`: too few
    /// trials.
    fn cold_s(&self, costs: &Costs, full: &[Counts], work_s: f64) -> Option<(f64, f64)> {
        if full.len() < FEWEST_FULL {
            return None;
        }
        let (softirq, application) = (self.softirq, self.application);
        let protocol_s = median(full, &|c| Some(costs.protocol_of_s(c, softirq)))?;
        let reading_s = median(full, &|c| Some(costs.application_of_s(c, application)))?;
        let empty_s = application * (costs.application_s - work_s) + work_s;
        Some(((protocol_s - softirq * costs.protocol_s).max(0.0), (reading_s - empty_s).max(0.0)))
    }

    /// Returns the calibrated host at this speed: each time is scaled by the factor of its part (softirq or
    /// application), except the times that these trials measure directly, and times of which only a share scales.
    fn host(&self, calibrated: &Host, work_s: f64) -> Host {
        let (softirq, application) = (self.softirq, self.application);
        let mut host = calibrated.clone();
        host.scale_times(|role| match role.part? {
            Part::Softirq => Some(softirq),
            Part::Application => Some(application),
        });
        let (cold_protocol_s, cold_application_s) =
            self.cold_s.unwrap_or((host.cold_protocol_s, host.cold_application_s));
        // Masking is part of polls and of interrupts, and scales with polls.
        let interrupt_s = self.interrupt_s.unwrap_or(calibrated.interrupt_s + calibrated.mask_s);
        let mask_s = host.mask_s.min(interrupt_s);
        Host {
            interrupt_s: interrupt_s - mask_s,
            mask_s,
            interrupt_polling_s: host.interrupt_polling_s.map(|own_s| self.interrupt_polling_s.unwrap_or(own_s)),
            interrupt_latency_s: self.latency_s.unwrap_or(host.interrupt_latency_s),
            poll_s: softirq * (calibrated.poll_s + calibrated.mask_s) - mask_s,
            cold_protocol_s,
            application_s: calibrated.application_s.map(|own_s| application * (own_s - work_s) + work_s),
            cold_application_s,
            ..host
        }
    }
}

fn median(trials: &[Counts], of: &dyn Fn(&Counts) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter_map(of).collect();
    stats::median(&values).map(|figure| figure.value)
}

/// Measured time / expected time; `None` unless both are positive.
fn ratio(measured_s: f64, expected_s: f64) -> Option<f64> {
    (measured_s > 0.0 && expected_s > 0.0).then(|| measured_s / expected_s)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{COSTS, Exact, base};
    use super::super::{Plan, calibrate};
    use super::*;
    use netcliff_trial::bench::Bench;

    fn calibrated() -> Calibrated {
        calibrate(&mut Exact::default(), &base(), Plan { rounds: 2, rough_pps: 400e3, backlog: true }).unwrap()
    }

    fn at(exact: &mut Exact, rates_pps: [f64; 6]) -> Vec<Counts> {
        let spec = |rate_pps| base().at(rate_pps);
        rates_pps.into_iter().filter_map(|rate_pps| exact.observe(&spec(rate_pps), true).unwrap().counts).collect()
    }

    fn trials(exact: &mut Exact) -> Trials {
        Trials { empty: at(exact, [200e3, 210e3, 220e3, 230e3, 240e3, 250e3]), full: Vec::new() }
    }

    #[test]
    fn a_host_that_stays_as_it_is_is_found_as_it_was() {
        let calibrated = calibrated();
        let present = calibrated.at_present(&trials(&mut Exact::default()), 0.0, 1).expect("six trials");
        let (before, now) = (&calibrated.calibration.host, &present.calibration.host);
        for (before, now) in [
            (before.protocol_s, now.protocol_s),
            (before.interrupt_s, now.interrupt_s),
            (before.interrupt_latency_s, now.interrupt_latency_s),
            (before.application_s.unwrap(), now.application_s.unwrap()),
        ] {
            assert!((now / before - 1.0).abs() < 1e-6, "{now:e} after {before:e}");
        }
        let mut few = trials(&mut Exact::default());
        few.empty.truncate(4);
        assert!(calibrated.at_present(&few, 0.0, 1).is_none(), "four tell nothing");
        assert!(calibrated.at_speed_of(&[], 0.0).is_none(), "none tells nothing");
    }

    /// Softirqs take 1.4 times as long, handlers 1.2 times, and the interrupt latency is doubled; the application is as
    /// fast as before.
    #[test]
    fn each_part_has_its_own_speed() {
        let mut slow = Exact { softirq: 1.4, handler: 1.2, latency: 2.0, ..Exact::default() };
        let present = calibrated().at_present(&trials(&mut slow), 0.0, 1).expect("six trials");
        let (before, now) = (calibrated().calibration.host, present.calibration.host.clone());
        let near = |now: f64, expected: f64| assert!((now / expected - 1.0).abs() < 1e-6, "{now:e}, not {expected:e}");
        near(now.protocol_s, 1.4 * before.protocol_s);
        near(now.poll_s, 1.4 * before.poll_s);
        near(now.wakeup_s, 1.4 * before.wakeup_s);
        near(now.cold_protocol_s, 1.4 * before.cold_protocol_s);
        near(now.interrupt_latency_s, 2.0 * before.interrupt_latency_s);
        near(now.interrupt_s, before.interrupt_s + 0.2 * (before.interrupt_s - COSTS.hidden_s));
        near(now.application_s.unwrap(), before.application_s.unwrap());
        near(now.context_switch_s, before.context_switch_s);
        let by_one = calibrated().at_speed_of(&trials(&mut slow).empty[..1], 0.0).expect("a trial").calibration.host;
        near(by_one.protocol_s, now.protocol_s);
        near(by_one.interrupt_s, now.interrupt_s);
        // The replicates are scaled, too.
        assert!(present.resampled.iter().all(|drawn| (drawn.host.protocol_s / now.protocol_s - 1.0).abs() < 1e-3));
    }

    #[test]
    fn work_that_is_asked_for_as_a_time_keeps_it() {
        let mut slow = Exact { application: 1.5, ..Exact::default() };
        let with = |counts: Counts| Counts { application_s: counts.application_s + 1e-6 * counts.delivered, ..counts };
        let empty = trials(&mut slow).empty.into_iter().map(with).collect();
        let with_work = Trials { empty, full: Vec::new() };
        let mut calibrated = calibrated();
        calibrated.costs.application_s += 1e-6;
        calibrated.calibration.host.application_s = Some(COSTS.application_s + 1e-6);
        let present = calibrated.at_present(&with_work, 1e-6, 1).expect("six trials").calibration.host;
        let application_s = present.application_s.unwrap();
        assert!((application_s / (1.5 * COSTS.application_s + 1e-6) - 1.0).abs() < 1e-6, "{application_s:e}");
    }

    /// A calibration that lacks the cost of a full socket takes it from later trials with a full socket, at their
    /// speed.
    #[test]
    fn what_a_full_socket_costs_is_told_by_trials_that_lost_much() {
        let mut blind = calibrated();
        (blind.calibration.host.cold_protocol_s, blind.calibration.host.cold_application_s) = (0.0, 0.0);
        let mut slow = Exact { softirq: 1.4, ..Exact::default() };
        let full = at(&mut slow, [500e3, 510e3, 520e3, 530e3, 540e3, 550e3]);
        let present = blind.at_present(&Trials { full, ..trials(&mut slow) }, 0.0, 1).expect("six trials");
        let host = &present.calibration.host;
        // The additional cost of the fake's full socket has not changed.
        assert!((host.cold_protocol_s / COSTS.cold_protocol_s - 1.0).abs() < 1e-4, "{:e}", host.cold_protocol_s);
        assert!(
            (host.cold_application_s / COSTS.cold_application_s - 1.0).abs() < 1e-4,
            "{:e}",
            host.cold_application_s
        );
        let taken = blind.with_full_socket_of(&present);
        assert_eq!(taken.calibration.host.cold_application_s, host.cold_application_s);
        assert_eq!(taken.resampled[7].host.cold_protocol_s, present.resampled[7].host.cold_protocol_s);
    }
}
