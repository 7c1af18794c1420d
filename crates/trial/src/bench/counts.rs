//! [`Counts`]: times and events on the host's CPU during a trial.

/// Times and events on the host's CPU during a metered trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Length of the interval (s).
    pub elapsed_s: f64,
    /// Time in protocol processing: NET_RX softirqs (s).
    pub protocol_s: f64,
    /// Time in hard interrupts, including the timer's (s).
    pub interrupt_s: f64,
    /// Handlers of interrupts of all devices. `None` if packets arrive through a backlog, or if no interrupts of the
    /// device under test were counted.
    pub devices: Option<Handlers>,
    /// Time of the application's thread, without interrupts and softirqs that interrupted it (s).
    pub application_s: f64,
    /// Idle time (s).
    pub idle_s: f64,
    /// Time in other tasks and other softirqs (s).
    pub other_s: f64,
    /// Time of the meter itself, included in the other times (s); `None` if not measured.
    pub meter_s: Option<f64>,
    /// Packets processed by softirqs.
    pub packets: f64,
    /// Polls.
    pub polls: f64,
    /// Interrupts that announce packets: from other CPUs and from devices.
    pub interrupts: f64,
    /// All interrupts of the device under test; `None` if they are not listed.
    pub raised: Option<f64>,
    /// Packets read by the application.
    pub delivered: f64,
    /// Time of the configured work per packet while nothing interrupted it (s); `None` if unknown.
    pub undisturbed_work_s: Option<f64>,
    /// Number of times that the application blocked and was woken.
    pub wakeups: f64,
    /// Interrupts during which the application was running.
    pub busy_interrupts: f64,
    /// NIC interrupts during which a softirq was running; 0 if not counted.
    pub softirq_interrupts: f64,
    /// Durations of polls, by packets per poll.
    pub poll_times: Vec<PollTime>,
    /// Time in softirqs after their last poll (s).
    pub tail_s: f64,
    /// Number of looks. A look is the part of a poll from its start until the driver passes the first packet of its
    /// ring to GRO.
    pub looks: f64,
    /// Total time of the looks (s).
    pub look_s: f64,
    /// Number of looks that the NIC interrupted.
    pub hit_looks: f64,
    /// Total time of the interrupted looks, without the NIC's handlers (s).
    pub hit_look_s: f64,
    /// Number of NIC interrupts during looks.
    pub look_hits: f64,
}

/// Handlers of hard interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Handlers {
    /// Time in handlers (s).
    pub time_s: f64,
    /// Number of handler calls.
    pub count: f64,
}

/// A CPU that was idle for less than this share of the time counts as fully busy.
const FULLY_BUSY: f64 = 0.01;
/// Minimum number of NIC interrupts during looks from which the cost of an interrupt to a poll is estimated.
const FEWEST_HITS: f64 = 50.0;

/// Cost of a NIC interrupt to the poll that it interrupts, beyond its handler (s): the additional time of interrupted
/// looks compared with the mean of the other looks of the same trial, per interrupt, over all trials. `None` with fewer
/// than 50 interrupts.
pub fn taken_from_polls_s(trials: &[Counts]) -> Option<f64> {
    let more_s = |c: &Counts| Some(c.hit_look_s - c.hit_looks * c.own_look_s()?);
    let interrupted = || trials.iter().filter_map(|c| Some((more_s(c)?, c.look_hits)));
    let hits: f64 = interrupted().map(|(_, hits)| hits).sum();
    (hits >= FEWEST_HITS).then(|| (interrupted().map(|(more_s, _)| more_s).sum::<f64>() / hits).max(0.0))
}

impl Counts {
    /// Mean time of the looks that the NIC did not interrupt (s); `None` without such looks.
    pub fn own_look_s(&self) -> Option<f64> {
        let own = self.looks - self.hit_looks;
        (own > 0.0).then(|| (self.look_s - self.hit_look_s) / own)
    }

    /// Time in protocol processing (s), minus `taken_s` (s) for each NIC interrupt during it; at least 0.
    pub fn own_protocol_s(&self, taken_s: f64) -> f64 {
        (self.protocol_s - taken_s * self.softirq_interrupts).max(0.0)
    }

    /// Whether the CPU was fully busy, i.e. idle for less than 1 % of the time.
    pub fn is_saturated(&self) -> bool {
        self.idle_s < FULLY_BUSY * self.elapsed_s
    }

    /// Time and number of the handlers of interrupts caused by packets: the devices' interrupts. If the meter does not
    /// distinguish them, the time of all hard interrupts, including the timer's, and the number of interrupts that
    /// announce packets.
    pub fn handlers(&self) -> Handlers {
        self.devices.unwrap_or(Handlers { time_s: self.interrupt_s, count: self.interrupts })
    }

    /// Mean time of one call of [`Self::handlers`] (s); `None` without interrupts.
    pub fn handler_s(&self) -> Option<f64> {
        let Handlers { time_s, count } = self.handlers();
        (count > 0.0).then(|| time_s / count)
    }

    /// Time in other tasks, other softirqs, and interrupts not caused by packets (s).
    pub fn elsewhere_s(&self) -> f64 {
        self.other_s + self.interrupt_s - self.handlers().time_s
    }

    /// Converts CPU times to elapsed times: the time spent elsewhere ([`Self::elsewhere_s`]) is added to the other
    /// times in proportion to them, because packets experience the work together with its interruptions. In an emulated
    /// guest, for example, the timer alone takes 3 to 4 % of the CPU. Returns the counts unchanged if the meter does
    /// not distinguish interrupts of devices, or if the counts are converted already.
    #[must_use]
    pub fn by_the_clock(&self) -> Self {
        let own_s = self.elapsed_s - self.elsewhere_s();
        let (Some(devices), true) = (self.devices, own_s > 0.0) else { return self.clone() };
        let times = self.elapsed_s / own_s;
        let devices = Handlers { time_s: times * devices.time_s, ..devices };
        let longer = |time: &PollTime| PollTime {
            mean_s: times * time.mean_s,
            variance_s2: times.powi(2) * time.variance_s2,
            ..*time
        };
        Self {
            protocol_s: times * self.protocol_s,
            interrupt_s: devices.time_s,
            devices: Some(devices),
            application_s: times * self.application_s,
            idle_s: times * self.idle_s,
            other_s: 0.0,
            undisturbed_work_s: self.undisturbed_work_s.map(|work_s| times * work_s),
            poll_times: self.poll_times.iter().map(longer).collect(),
            tail_s: times * self.tail_s,
            look_s: times * self.look_s,
            hit_look_s: times * self.hit_look_s,
            ..self.clone()
        }
    }

    /// Service demand: CPU time of interrupts and softirqs per packet processed, plus CPU time of the application per
    /// packet read (s); `None` without packets.
    pub fn demand_s(&self) -> Option<f64> {
        let some = self.packets > 0.0 && self.delivered > 0.0;
        some.then(|| (self.interrupt_s + self.protocol_s) / self.packets + self.application_s / self.delivered)
    }
}

/// All polls of a trial with the same number of packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollTime {
    /// Packets per poll.
    pub packets: f64,
    /// Number of such polls.
    pub polls: f64,
    /// Mean duration (s).
    pub mean_s: f64,
    /// Variance of the duration (s^2).
    pub variance_s2: f64,
    /// Whether the CPU was idle before, so that the poll also woke the application.
    pub from_idle: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts over half a second. Hard interrupts took 30 ms, of which the timer's took 20 ms; other tasks took 30 ms.
    fn counts() -> Counts {
        Counts {
            elapsed_s: 0.5,
            protocol_s: 0.2,
            interrupt_s: 0.03,
            devices: Some(Handlers { time_s: 0.01, count: 2000.0 }),
            application_s: 0.14,
            idle_s: 0.1,
            other_s: 0.03,
            interrupts: 2500.0,
            poll_times: vec![PollTime {
                packets: 1.0,
                polls: 10.0,
                mean_s: 9e-6,
                variance_s2: 81e-12,
                from_idle: false,
            }],
            ..Counts::default()
        }
    }

    #[test]
    fn a_handler_is_the_device_s_alone() {
        assert!((counts().handler_s().unwrap() - 5e-6).abs() < 1e-12);
        let untold = Counts { devices: None, ..counts() };
        assert!((untold.handler_s().unwrap() - 12e-6).abs() < 1e-12, "over those that announce packets");
        assert!((counts().elsewhere_s() - 0.05).abs() < 1e-12);
        assert!((untold.elsewhere_s() - 0.03).abs() < 1e-12);
    }

    #[test]
    fn by_the_clock_what_the_timer_and_others_take_is_in_what_they_interrupt() {
        let clocked = counts().by_the_clock();
        let sum_s = clocked.protocol_s + clocked.interrupt_s + clocked.application_s + clocked.idle_s;
        assert!((sum_s - 0.5).abs() < 1e-12 && clocked.other_s == 0.0, "{clocked:?}");
        assert!((clocked.protocol_s - 0.2 / 0.9).abs() < 1e-12);
        assert!((clocked.handler_s().unwrap() - 5e-6 / 0.9).abs() < 1e-12);
        let [time] = clocked.poll_times[..] else { panic!("{clocked:?}") };
        assert!((time.mean_s - 1e-5).abs() < 1e-12 && (time.variance_s2 - 1e-10).abs() < 1e-16);
        assert_eq!(clocked.by_the_clock(), clocked, "it is already");
        let backlog = Counts { devices: None, ..counts() };
        assert_eq!(backlog.by_the_clock(), backlog);
    }
}
