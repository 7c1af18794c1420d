//! [`Pauses`]: times without answers in a run's trials, and the loads that a service carries with these pauses.
//!
//! Each trial has a highest load at which its pauses lose no more than is promised. The cliff is the quantile of these
//! loads that belongs to the share of failing trials that a search allows.
//!
//! In a pause the service does not run, and packets wait in its socket. The receive backlog fills only if the hypervisor
//! has the CPU or delivers its interrupts late: while another program has the CPU, softirqs go on. The eBPF meter tells
//! these apart: the CPU itself was paused if it made no transition for
//! [`PAUSE_NS`](netcliff_host::cpu::heartbeat::PAUSE_NS) although a request was sent, which interrupts it. Without this
//! meter, and if the service is on another host, each pause counts as a pause of the service alone.
//!
//! The simulator pauses the whole CPU, whose softirqs then have priority over the service until they have caught up. A
//! pause of the service alone of length L at load x is therefore simulated as one of the CPU of L (1 - x p) with a
//! backlog that does not overflow, p being the softirq time of a packet: the service continues after L, with as many
//! packets in its socket.

use netcliff_core::host::{Empirical, MeasuredTimes, PauseTimes};
use netcliff_core::{EngineFailure, Host, Invalid, Point, finding};
use netcliff_sim::{SimEngine, SimulatedTrial};

/// Shortest silence that is recorded (s): longer than most requests take, and less than a tenth of what a socket of the
/// default size bridges at 50 k requests/s.
pub const LEAST_SILENCE_S: f64 = 250e-6;
/// Shortest silence that counts as a pause, in times of a request: with exponentially distributed times, one of 22000
/// requests takes longer.
const REQUESTS: f64 = 10.0;
/// Packets in a queue that never overflows.
pub const NO_LIMIT: u64 = 1 << 16;

/// (start, length) of each pause (s), by start.
pub type Spans = Vec<(f64, f64)>;

/// Pauses in the window of a trial, as parts of the window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Silences {
    /// Times without an answer although requests were due, without the requester's own delays.
    pub service: Spans,
    /// Times in which the service's CPUs did not run: the hypervisor had them. Empty if nobody sees them.
    pub cpu: Spans,
    /// Times in which other programs had the service's CPUs. Empty if nobody sees them.
    pub others: Spans,
}

/// Pauses in a trial.
#[derive(Debug, Clone, PartialEq, Default)]
struct Trial {
    /// Pauses of the service.
    service: Spans,
    /// Pauses of the service's CPU during the service's pauses.
    cpu: Spans,
    /// Times in which other programs had this CPU.
    others: Spans,
}

impl Trial {
    fn is_of_cpu(&self, span: &(f64, f64)) -> bool {
        self.cpu.iter().any(|pause| common(pause, span).is_some())
    }

    /// True if the service itself did not cause the pause.
    fn is_from_outside(&self, span: &(f64, f64)) -> bool {
        self.is_of_cpu(span) || self.others.iter().any(|visit| common(visit, span).is_some())
    }

    /// Returns the service's pauses as pauses of a simulated CPU. A pause of the service alone is shortened by
    /// `softirqs`, the share of the CPU that softirqs use during it.
    fn for_socket(&self, softirqs: f64) -> Spans {
        let of =
            |span: &(f64, f64)| (span.0, span.1 * if self.is_of_cpu(span) { 1.0 } else { (1.0 - softirqs).max(0.0) });
        self.service.iter().map(of).filter(|(_, length_s)| *length_s > 0.0).collect()
    }
}

/// Pauses of a service in trials of one length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pauses {
    trials: Vec<Trial>,
    /// Length of a trial (s).
    trial_s: f64,
    /// Shortest pause that counts (s).
    least_s: f64,
}

impl Pauses {
    /// Collects the pauses of trials that lasted `trial_s` (s) each. A pause of the CPU counts as far as the service was
    /// silent during it.
    pub fn of(trials: impl IntoIterator<Item = Silences>, trial_s: f64) -> Self {
        let trial = |Silences { service, cpu, others }: Silences| {
            let during = |silence: &(f64, f64)| cpu.iter().filter_map(|span| common(span, silence)).collect::<Vec<_>>();
            let cpu = service.iter().flat_map(during).collect();
            Trial { service, cpu, others }
        };
        Self { trials: trials.into_iter().map(trial).collect(), trial_s, least_s: LEAST_SILENCE_S }
    }

    /// Shortens each silence by `usual_s` (s), the time that an answer takes while nothing pauses, and removes those that
    /// are then too short to be recorded.
    #[must_use]
    pub fn after(mut self, usual_s: f64) -> Self {
        for trial in &mut self.trials {
            trial.service.iter_mut().for_each(|span| span.1 -= usual_s);
            trial.service.retain(|span| span.1 > LEAST_SILENCE_S);
        }
        self
    }

    /// Removes pauses so short that a single long request explains them; `request_s`: mean time of a request (s).
    #[must_use]
    pub fn beyond(mut self, request_s: f64) -> Self {
        self.least_s = self.least_s.max(REQUESTS * request_s);
        self.trials.iter_mut().for_each(|trial| trial.service.retain(|span| span.1 > self.least_s));
        self
    }

    /// True if the hypervisor or another program caused a pause.
    pub fn has_outside(&self) -> bool {
        self.trials.iter().any(|trial| trial.service.iter().any(|span| trial.is_from_outside(span)))
    }

    /// Removes the pauses that the service itself did not cause.
    #[must_use]
    pub fn without_outside(&self) -> Self {
        let own = |trial: &Trial| {
            let service = trial.service.iter().filter(|span| !trial.is_from_outside(span)).copied().collect();
            Trial { service, ..Trial::default() }
        };
        Self { trials: self.trials.iter().map(own).collect(), ..self.clone() }
    }

    fn lengths_s(&self) -> Vec<f64> {
        self.trials.iter().flat_map(|trial| &trial.service).map(|(_, length_s)| *length_s).collect()
    }

    fn measured_s(&self) -> f64 {
        self.trials.len() as f64 * self.trial_s
    }

    /// True if no trial had a pause.
    pub fn is_empty(&self) -> bool {
        self.trials.iter().all(|trial| trial.service.is_empty())
    }

    /// Number, rate and lengths of the pauses.
    pub fn summary(&self) -> finding::Pauses {
        finding::Pauses::of(&self.lengths_s(), self.measured_s(), self.least_s)
    }

    /// Share of the time in which the service paused and its CPU did not: the CPU ran other programs, or was idle.
    pub fn share_of_service_alone(&self) -> f64 {
        let alone = self.trials.iter().flat_map(|trial| trial.service.iter().filter(|span| !trial.is_of_cpu(span)));
        alone.map(|(_, length_s)| length_s).sum::<f64>() / self.measured_s().max(1e-9)
    }

    /// Returns the host with pauses of the whole CPU of the measured lengths and rate; unchanged if there were no
    /// pauses.
    pub fn on(&self, host: &Host) -> Host {
        let lengths_s = self.lengths_s();
        let times = MeasuredTimes::new(lengths_s.iter().map(|length_s| (*length_s, 1.0)).collect());
        let Some(times) = times.ok().filter(|_| !lengths_s.is_empty()) else { return host.clone() };
        let mean_s = lengths_s.iter().sum::<f64>() / lengths_s.len() as f64;
        let every_s = (self.measured_s() / lengths_s.len() as f64 - mean_s).max(mean_s * 1e-3);
        let times = PauseTimes::Empirical(Empirical { file: "calibration".to_owned(), times: Some(times.into()) });
        Host { pause_s: None, pause_every_s: Some(every_s), pause_times: Some(times), ..host.clone() }
    }

    /// Returns the highest load (requests/s) of each trial at which its pauses lose at most `loss`; at most `own_rps`,
    /// the cliff without pauses. `point_at`: the point of a host at a load. Empty if there were no trials.
    ///
    /// # Errors
    /// The simulator does not support the host.
    pub fn highest(
        &self,
        host: &Host,
        point_at: impl Fn(&Host, f64) -> Point,
        (own_rps, loss): (f64, f64),
        seed: u64,
    ) -> Result<Vec<f64>, EngineFailure> {
        let engine = SimEngine { seed, ..SimEngine::default() };
        let deep = Host { ring: host.ring.max(NO_LIMIT), ..host.clone() };
        let packet_s = host.packet_s() + host.interrupt_s;
        let of = |(number, trial): (usize, &Trial)| {
            let simulated = SimulatedTrial { number: number as u64, length_s: self.trial_s, loss };
            let highest = |most_rps: f64, paused: &dyn Fn(f64) -> Result<Host, Invalid>| {
                let at = |rps: f64| Ok(point_at(&paused(rps)?, rps));
                Ok::<_, EngineFailure>(
                    engine.highest_of_trial(&simulated, most_rps, &at, &|| false)?.unwrap_or(most_rps),
                )
            };
            let mut highest_rps = own_rps;
            if !trial.service.is_empty() {
                let paused = |rps: f64| deep.with_pauses_at(&trial.for_socket(rps * packet_s), self.trial_s);
                highest_rps = highest(highest_rps, &paused)?;
            }
            if !trial.cpu.is_empty() {
                highest_rps = highest(highest_rps, &|_| host.with_pauses_at(&trial.cpu, self.trial_s))?;
            }
            Ok(highest_rps)
        };
        self.trials.iter().enumerate().map(of).collect()
    }
}

/// The common part of two spans; `None` if they do not overlap.
fn common(one: &(f64, f64), other: &(f64, f64)) -> Option<(f64, f64)> {
    let (from, to) = (one.0.max(other.0), (one.0 + one.1).min(other.0 + other.1));
    (from < to).then_some((from, to - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::{Napi, Scheme};

    /// A host whose requests take 10 us each, and whose socket holds 100 of them.
    fn host() -> Host {
        Host { protocol_s: 1e-6, application_s: Some(9e-6), ring: 1000, socket_buffer: 100, ..Host::default() }
    }

    fn point_at(host: &Host, rps: f64) -> Point {
        let scheme = Scheme::Napi(Napi { backlog: true, ..Napi::default() });
        Point::poisson(host.clone(), scheme, rps)
    }

    fn median(loads: &[f64]) -> f64 {
        netcliff_stats::median(loads).unwrap().value
    }

    /// Highest load of each trial.
    fn highest(pauses: &Pauses, loss: f64) -> Vec<f64> {
        pauses.highest(&host(), point_at, (90e3, loss), 1).unwrap()
    }

    /// Trials of 0.5 s with these silences, during which softirqs went on.
    fn silent(trials: Vec<Spans>) -> Pauses {
        Pauses::of(trials.into_iter().map(|service| Silences { service, ..Silences::default() }), 0.5)
    }

    #[test]
    fn a_pause_fills_the_socket_at_the_load_that_a_fluid_has() {
        // In a pause of 4 ms, 100 requests arrive at 25 k/s, which fill the socket; at 30 k/s 20 more arrive and are
        // lost, of 15000 in the trial.
        let pauses = silent(vec![vec![(0.2, 4e-3)]; 9]);
        let strict = median(&highest(&pauses, 1e-4));
        assert!((20e3..26.5e3).contains(&strict), "{strict}");
        // A load x loses 4 ms x - 100 of 0.5 s x: 0.2 % at 33 k/s.
        let loose = median(&highest(&pauses, 2e-3));
        assert!((29e3..36e3).contains(&loose), "{loose}");
    }

    #[test]
    fn the_backlog_fills_only_while_the_cpu_is_away() {
        let spans = vec![(0.2, 4e-3)];
        let shallow = Host { ring: 20, socket_buffer: 4000, ..host() };
        let of = |cpu: Spans| {
            let pauses = Pauses::of([Silences { service: spans.clone(), cpu, ..Silences::default() }], 0.5);
            assert_eq!(highest(&pauses.without_outside(), 1e-4).len(), 1);
            pauses.highest(&shallow, point_at, (90e3, 1e-4), 1).unwrap()[0]
        };
        assert_eq!(of(Vec::new()), 90e3, "400 requests fit into the socket");
        let paused = of(spans.clone());
        assert!((3e3..7e3).contains(&paused), "20 packets in 4 ms: {paused}");
        assert_eq!(of(vec![(0.3, 4e-3)]), 90e3, "nobody waited then");
    }

    #[test]
    fn a_trial_without_a_pause_carries_the_service_s_own_cliff() {
        let loads = highest(&silent(vec![vec![(0.1, 8e-3)], Vec::new()]), 1e-4);
        assert!(loads[0] < 20e3 && loads[1] == 90e3, "{loads:?}");
        assert!(highest(&silent(Vec::new()), 1e-4).is_empty());
    }

    /// Of 4 ms without a transition, the service was silent only in the last millisecond.
    #[test]
    fn a_still_cpu_is_paused_only_while_requests_are_due() {
        let silences = Silences {
            service: vec![(0.103, 3e-3), (0.3, 2e-3), (0.4, 1e-3)],
            cpu: vec![(0.1, 4e-3), (0.2, 9e-3)],
            others: vec![(0.4, 9e-4)],
        };
        let pauses = Pauses::of([silences], 0.5);
        let [(from_s, length_s)] = pauses.trials[0].cpu[..] else { panic!("{pauses:?}") };
        assert!((from_s - 0.103).abs() < 1e-12 && (length_s - 1e-3).abs() < 1e-12, "{pauses:?}");
        assert!(pauses.has_outside() && !pauses.without_outside().has_outside());
        assert_eq!(pauses.without_outside().lengths_s(), [2e-3]);
    }

    /// If the path to the service takes 1 ms, each answer takes 1 ms, which is no pause.
    #[test]
    fn the_usual_time_of_an_answer_is_no_pause() {
        let pauses = silent(vec![vec![(0.1, 1e-3), (0.2, 4e-3)], Vec::new()]).after(1e-3);
        assert_eq!(pauses.lengths_s(), [3e-3]);
    }

    #[test]
    fn silences_of_slow_requests_are_no_pauses() {
        let pauses = silent(vec![vec![(0.1, 4e-3), (0.2, 12e-3)], Vec::new()]);
        assert_eq!(pauses.clone().beyond(1e-3).lengths_s(), [12e-3]);
        assert_eq!(pauses.clone().beyond(1e-5), pauses);
        let summary = pauses.summary();
        assert_eq!((summary.count, summary.per_s), (2, 2.0));
        assert!((pauses.share_of_service_alone() - 0.016).abs() < 1e-12);
        assert_eq!(pauses.beyond(1e-3).summary().shortest_s, 10e-3);
    }

    #[test]
    fn a_host_gets_pauses_as_often_and_as_long_as_measured() {
        let pauses = silent(vec![vec![(0.1, 4e-3), (0.2, 12e-3)], Vec::new()]);
        let host_with = pauses.on(&host());
        assert_eq!(host_with.validate(), Ok(()));
        let with = host_with.pauses().unwrap();
        assert!((with.share() - pauses.summary().share).abs() < 1e-9 && (with.per_s() - 2.0).abs() < 1e-9, "{with:?}");
        assert_eq!(silent(vec![Vec::new()]).on(&host()), host());
    }
}
