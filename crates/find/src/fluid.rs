//! Model of a trial as a fluid: packets arrive at a load, wait in the ring and then in the socket. Protocol processing
//! has priority and moves packets from the ring to the socket; the application has the remaining time. The fuller the
//! socket is, the longer both take per packet.

use netcliff_model::pauses;
use netcliff_packets::generator::SLOT_NS;

use super::engines::Predictor;
use netcliff_trial::bench::Span;

/// Length of a slot (s).
pub const SLOT_S: f64 = SLOT_NS as f64 * 1e-9;
/// Number of steps per slot. A step is 0.1 ms, a tenth of the time in which a ring of 1000 packets fills at 1 Mpps.
const STEPS: usize = 100;
const STEP_S: f64 = SLOT_S / STEPS as f64;

/// An interval without the CPU, or without the application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Away {
    /// The CPU was paused, so that nothing ran.
    Cpu(Span),
    /// Another task had the CPU: softirqs ran, and the application did not.
    Application(Span),
}

impl Away {
    /// The interval.
    pub fn at(&self) -> &Span {
        match self {
            Self::Cpu(at) | Self::Application(at) => at,
        }
    }

    /// The part of the interval between 0 and `trial_s`; its length is 0 or negative if there is no overlap.
    pub fn within(self, trial_s: f64) -> Self {
        let clip = |at: Span| {
            let from_s = at.from_s.max(0.0);
            Span { from_s, length_s: (at.from_s + at.length_s).min(trial_s) - from_s }
        };
        match self {
            Self::Cpu(at) => Self::Cpu(clip(at)),
            Self::Application(at) => Self::Application(clip(at)),
        }
    }
}

/// Intervals in which the application could not use the host's CPU, in trials of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Intervals of each trial, by start.
    pub trials: Vec<Vec<Away>>,
    /// Length of a trial (s).
    pub trial_s: f64,
}

impl Measured {
    /// Clips the intervals to their trials.
    pub fn of(trials: Vec<Vec<Away>>, trial_s: f64) -> Self {
        let clipped = |trial: Vec<Away>| {
            let within = trial.into_iter().map(|away| away.within(trial_s));
            let mut within: Vec<Away> = within.filter(|away| away.at().length_s > 0.0).collect();
            within.sort_by(|a, b| a.at().from_s.total_cmp(&b.at().from_s));
            within
        };
        Self { trials: trials.into_iter().map(clipped).collect(), trial_s }
    }

    /// Lengths of the CPU's pauses (s).
    pub fn lengths_s(&self) -> Vec<f64> {
        let paused = |away: &Away| matches!(away, Away::Cpu(_)).then(|| away.at().length_s);
        self.trials.iter().flatten().filter_map(paused).collect()
    }

    /// At most `count` of the trials, chosen evenly from the least to the most disturbed.
    pub fn some(&self, count: usize) -> Vec<&Vec<Away>> {
        let away_s = |trial: &[Away]| trial.iter().map(|away| away.at().length_s).sum::<f64>();
        let mut trials: Vec<&Vec<Away>> = self.trials.iter().collect();
        trials.sort_by(|a, b| away_s(a).total_cmp(&away_s(b)));
        let middle = |number: usize| (2 * number + 1) * trials.len() / (2 * count);
        (0..count).filter_map(|number| trials.get(middle(number)).copied()).collect()
    }
}

/// A host under a load.
pub struct Fluid {
    pub load_pps: f64,
    /// Protocol time of a packet with an empty socket (s).
    pub service_s: f64,
    /// Additional protocol time of a packet if the socket is full (s).
    pub cold_service_s: f64,
    /// Application time of a packet with an empty socket (s); `None`: no application is modelled.
    pub application_s: Option<f64>,
    /// Additional application time of a packet if the socket is full (s).
    pub cold_application_s: f64,
    pub ring: f64,
    pub socket: f64,
}

/// Packets in both queues.
#[derive(Debug, Default)]
struct Queues {
    ring: f64,
    socket: f64,
}

impl Fluid {
    /// A host that serves `served_pps` while its socket is empty. CPU time for anything except protocol processing and
    /// application is added to both in proportion.
    pub fn of(computed: &Predictor, served_pps: f64, load_pps: f64) -> Self {
        let host = &computed.host;
        let (service_s, application_s) = (host.mean_service_s(&computed.traffic.size), host.mean_application_s());
        let spread = 1.0 / served_pps / (service_s + application_s.unwrap_or(0.0));
        Self {
            load_pps,
            service_s: spread * service_s,
            cold_service_s: host.cold_protocol_s,
            application_s: application_s.map(|own_s| spread * own_s),
            cold_application_s: host.cold_application_s,
            ring: host.ring as f64,
            socket: pauses::first_full_socket(host),
        }
    }

    /// Packets lost in each slot of a trial with these intervals.
    pub fn lost(&self, trial: &[Away], trial_s: f64) -> Vec<f64> {
        let steps = (trial_s / STEP_S).round() as usize;
        let paused_s = taken_s(trial.iter().filter(|away| matches!(away, Away::Cpu(_))), steps);
        let visited_s = taken_s(trial.iter().filter(|away| matches!(away, Away::Application(_))), steps);
        let (mut queues, mut slots) = (Queues::default(), vec![0.0; steps.div_ceil(STEPS)]);
        for step in 0..steps {
            let cpu_s = STEP_S - paused_s[step];
            slots[step / STEPS] += self.step(&mut queues, cpu_s, cpu_s.min(STEP_S - visited_s[step]));
        }
        slots
    }

    /// Packets lost in a step in which the CPU runs for `cpu_s` (s), of which the application may use at most
    /// `at_most_s`.
    fn step(&self, queues: &mut Queues, cpu_s: f64, at_most_s: f64) -> f64 {
        let full = (queues.socket / self.socket).min(1.0);
        let service_s = self.service_s + full * self.cold_service_s;
        queues.ring += self.load_pps * STEP_S;
        let taken = queues.ring.min(cpu_s / service_s);
        queues.ring -= taken;
        let mut lost = overflow(&mut queues.ring, self.ring);
        if let Some(application_s) = self.application_s {
            let left_s = (cpu_s - taken * service_s).min(at_most_s).max(0.0);
            queues.socket += taken;
            queues.socket -= queues.socket.min(left_s / (application_s + full * self.cold_application_s));
            lost += overflow(&mut queues.socket, self.socket);
        }
        lost
    }
}

fn overflow(queue: &mut f64, places: f64) -> f64 {
    let lost = (*queue - places).max(0.0);
    *queue -= lost;
    lost
}

/// Time that these intervals take from each step (s).
fn taken_s<'a>(trial: impl Iterator<Item = &'a Away>, steps: usize) -> Vec<f64> {
    let mut taken_s: Vec<f64> = vec![0.0; steps];
    for away in trial {
        let (from_s, to_s) = (away.at().from_s, away.at().from_s + away.at().length_s);
        let first = (from_s / STEP_S).floor().max(0.0) as usize;
        for (step, taken_s) in taken_s.iter_mut().enumerate().skip(first) {
            let begin_s = step as f64 * STEP_S;
            if begin_s >= to_s {
                break;
            }
            *taken_s += (to_s.min(begin_s + STEP_S) - from_s.max(begin_s)).max(0.0);
        }
    }
    for own_s in &mut taken_s {
        *own_s = own_s.min(STEP_S);
    }
    taken_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(from_s: f64, length_s: f64) -> Away {
        Away::Cpu(Span { from_s, length_s })
    }

    fn visit(from_s: f64, length_s: f64) -> Away {
        Away::Application(Span { from_s, length_s })
    }

    fn fluid() -> Fluid {
        Fluid {
            load_pps: 200e3,
            service_s: 2.5e-6,
            cold_service_s: 0.0,
            application_s: None,
            cold_application_s: 0.0,
            ring: 1000.0,
            socket: f64::INFINITY,
        }
    }

    fn lost(fluid: &Fluid, trial: &[Away]) -> f64 {
        fluid.lost(trial, 1.0).iter().sum()
    }

    #[test]
    fn the_fluid_is_counted_by_hand() {
        let bare = fluid();
        assert_eq!(lost(&bare, &[]), 0.0);
        // In 5 ms 1000 packets arrive, which the ring holds; a pause of 7 ms loses 400. 1 ms later 200 of the ring's
        // packets have been served, so a second pause of 3 ms loses 600 - 200.
        assert!(lost(&bare, &[pause(0.1, 5e-3)]) < 1e-6);
        assert!((lost(&bare, &[pause(0.1, 7e-3)]) - 400.0).abs() < 1e-6);
        assert!((lost(&bare, &[pause(0.1, 7e-3), pause(0.108, 3e-3)]) - 800.0).abs() < 1e-6);
        // Packets are lost when they arrive: in the last 2 of the 7 ms, in the slot that begins at 0.1 s.
        assert!((bare.lost(&[pause(0.1, 7e-3)], 1.0)[10] - 400.0).abs() < 1e-6);
        // The application takes as long per packet as protocol processing. After a pause of 2 ms, the ring's 400
        // packets leave within 2 ms at 400 kpps, and the socket then holds 800.
        let read = Fluid { application_s: Some(1.25e-6), socket: 700.0, ..fluid() };
        assert!((lost(&read, &[pause(0.1, 2e-3)]) - 100.0).abs() < 1e-6);
        // Then the application has half of the CPU and reads 400 kpps, 200 kpps more than arrive. 3 ms later 100
        // packets are left.
        let mut queues = Queues { socket: 700.0, ..Queues::default() };
        let lost: f64 = (0..30).map(|_| read.step(&mut queues, STEP_S, STEP_S)).sum();
        assert!((queues.socket - 100.0).abs() < 1e-6 && lost == 0.0, "{queues:?}");
    }

    /// Softirqs continue while another task has the CPU, so the socket overflows, not the ring.
    #[test]
    fn another_task_keeps_the_application_alone_from_working() {
        let fluid = Fluid { service_s: 1.25e-6, application_s: Some(1.25e-6), ring: 100.0, socket: 2000.0, ..fluid() };
        assert!(lost(&fluid, &[visit(0.1, 10e-3)]) < 1e-6);
        assert!((lost(&fluid, &[visit(0.1, 12e-3)]) - 400.0).abs() < 1e-6);
        assert!((lost(&fluid, &[pause(0.1, 12e-3)]) - 2300.0).abs() < 1e-6, "a pause of the CPU");
        // The application has 3/4 of the CPU and reads 600 kpps: 4 ms later the socket holds 1600 packets fewer.
        assert!((lost(&fluid, &[visit(0.1, 10e-3), visit(0.114, 9e-3)]) - 200.0).abs() < 1e-6);
        // Without an application no packet waits in a socket.
        let bare = Fluid { application_s: None, ..fluid };
        assert_eq!(lost(&bare, &[visit(0.1, 0.5)]), 0.0);
    }

    /// A packet takes 2.5 us with an empty socket (400 kpps) and 3 us with a full one (333 kpps). At 370 kpps an empty
    /// socket stays empty, and a socket that filled while another task ran stays full to the end; at 320 kpps it
    /// becomes empty again.
    #[test]
    fn a_full_socket_whose_packets_cost_more_stays_full() {
        let at = |load_pps: f64| Fluid {
            load_pps,
            service_s: 1.25e-6,
            application_s: Some(1.25e-6),
            cold_application_s: 0.5e-6,
            socket: 2000.0,
            ..fluid()
        };
        assert!(lost(&at(370e3), &[]) < 1e-6);
        let filled = [visit(0.1, 8e-3)];
        let slots = at(370e3).lost(&filled, 1.0);
        // Softirqs take 0.4625 of the CPU; with 1.75 us per packet, the rest of the CPU reads 307 kpps.
        let lost = 0.01 * (370e3 - 0.5375 / 1.75e-6);
        assert!(slots[90..].iter().all(|slot| (slot - lost).abs() < 1e-3), "{lost} and {:?}", &slots[90..]);
        assert!(at(320e3).lost(&filled, 1.0)[12..].iter().all(|lost| *lost < 1e-6));
    }
}
