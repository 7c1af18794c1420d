//! A simulated host with a known cliff, for tests of `find` ([`Fake`]), and a bench that makes its trials by a closure
//! ([`Through`]). All randomness follows from the seed.

use netcliff_core::verdict::TesterCounts;
use netcliff_core::{Figure, Loss, Outcome};
use netcliff_host::cpu::{MeterError, Method};

use crate::calibrate::Costs;
use netcliff_mlrsearch::simulated::delivered_pps;
use netcliff_stats::chance::Chance;
use netcliff_trial::bench::{Bench, Counts, Observation, SenderCeiling, Slot, Slots, Span};
use netcliff_trial::trial::{Outside, TrialError, TrialShape, TrialSpec};

/// Time step of the fluid (s).
const STEP_S: f64 = 0.25e-3;
const SLOT_S: f64 = 0.01;
/// Speed of the loop that keeps the CPU awake, before any drift (iterations/s).
const TURNS_PER_S: f64 = 3e6;

/// Random events: exponential intervals and exponential lengths.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    /// Mean time from the end of one event to the start of the next (s).
    pub every_s: f64,
    /// Mean length (s).
    pub mean_s: f64,
}

/// A host and its sender.
#[derive(Debug, Clone)]
pub struct Fake {
    /// Median capacity (pps).
    pub capacity_pps: f64,
    /// Standard deviation of a trial's capacity, relative to the median.
    pub soft: f64,
    /// Whether the host livelocks: beyond its capacity it serves capacity^2 / load.
    pub livelock: bool,
    /// Size of its buffer (packets).
    pub buffer: f64,
    /// Pauses of its CPU; `None`: it has no pauses.
    pub pauses: Option<Random>,
    /// Whether its meter reports the pauses.
    pub tells_pauses: bool,
    /// Stalls of the sender.
    pub stalls: Option<Random>,
    /// Change of the capacity from the first trial to the 100th, as a share.
    pub drift: f64,
    /// (share of the trials in a slower state, relative amount by which the capacity is lower in that state).
    pub low_state: Option<(f64, f64)>,
    /// Costs of the host's packets before any drift, as its meter reports them; `None`: the host has no meter.
    pub costs: Option<Costs>,
    /// Highest rate of the sender (pps).
    pub ceiling_pps: f64,
    /// Number of trials after which all fail, as if the agent had died.
    pub dies_after: Option<u32>,
    /// Number of trials so far.
    pub trials: u32,
    /// The random number generator.
    pub chance: Chance,
}

impl Fake {
    /// A sharp cliff at `capacity_pps` without any disturbance.
    pub fn new(capacity_pps: f64, seed: u64) -> Self {
        Self {
            capacity_pps,
            soft: 0.0,
            livelock: false,
            buffer: 1000.0,
            pauses: None,
            tells_pauses: true,
            stalls: None,
            drift: 0.0,
            low_state: None,
            costs: None,
            ceiling_pps: 2e6,
            dies_after: None,
            trials: 0,
            chance: Chance::new(seed),
        }
    }

    /// Load (pps) at which half of the trials of `trial_s` (s) lose more than `loss`, without pauses and drift.
    pub fn cliff_pps(&self, trial_s: f64, loss: f64) -> f64 {
        (self.capacity_pps + self.buffer / trial_s) / (1.0 - loss)
    }

    /// Share of `trials` trials at a load that lose more than `loss`; all frames count, also during pauses.
    pub fn exceeding(&self, spec: &TrialSpec, loss: f64, trials: u32) -> f64 {
        let mut fake = self.clone();
        let lost = (0..trials).filter(|_| fake.observe(spec, false).is_ok_and(|o| o.loss() > loss));
        lost.count() as f64 / f64::from(trials)
    }

    fn capacity_now(&mut self) -> f64 {
        let drifted = self.speed();
        let low_state = self.low_state;
        let state = match low_state {
            Some((share, drop)) if self.chance.uniform() < share => 1.0 - drop,
            _ => 1.0,
        };
        self.trials += 1;
        let soft = if self.soft > 0.0 { 1.0 + self.soft * self.chance.normal() } else { 1.0 };
        self.capacity_pps * drifted * state * soft
    }

    /// Speed of the next trial relative to the first.
    fn speed(&self) -> f64 {
        1.0 + self.drift * f64::from(self.trials) / 100.0
    }

    /// Random events within `seconds`.
    fn spans(&mut self, random: Option<Random>, seconds: f64) -> Vec<Span> {
        let mut spans = Vec::new();
        let Some(Random { every_s, mean_s }) = random else { return spans };
        let mut at_s = self.chance.exponential() * every_s;
        while at_s < seconds {
            let length_s = self.chance.exponential() * mean_s;
            spans.push(Span { from_s: at_s, length_s });
            at_s += length_s + self.chance.exponential() * every_s;
        }
        spans
    }
}

/// The fluid of one trial.
struct Fluid {
    load_pps: f64,
    served_pps: f64,
    buffer: f64,
    queue: f64,
    /// (sent, lost, late) frames of each slot.
    slots: Vec<[f64; 3]>,
}

impl Fluid {
    /// One step: `arrivals` reach the host, which serves `served`. Frames that overflow the buffer are counted as lost
    /// in `slot`.
    fn step(&mut self, arrivals: f64, served: f64, slot: usize) {
        let queue = self.queue + arrivals;
        let room = self.buffer + served;
        self.slots[slot][1] += (queue - room).max(0.0);
        self.queue = (queue.min(room) - served).max(0.0);
    }

    fn run(&mut self, seconds: f64, pauses: &[Span], stalls: &[Span]) {
        let steps = (seconds / STEP_S).round() as usize;
        let (paused, stalled) = (steps_in(pauses, steps), steps_in(stalls, steps));
        let last = self.slots.len() - 1;
        let (mut held, mut held_slot) = (0.0, 0);
        for step in 0..steps {
            let slot = (((step as f64 + 0.5) * STEP_S / SLOT_S) as usize).min(last);
            let due = self.load_pps * STEP_S;
            self.slots[slot][0] += due;
            let served = if paused[step] { 0.0 } else { self.served_pps * STEP_S };
            if stalled[step] {
                held += due;
                held_slot = slot;
                self.slots[slot][2] += due;
                self.step(0.0, served, slot);
            } else {
                self.step(std::mem::take(&mut held), 0.0, held_slot);
                self.step(due, served, slot);
            }
        }
        self.step(held, 0.0, held_slot);
    }
}

/// For each step, whether its middle lies in a span.
fn steps_in(spans: &[Span], steps: usize) -> Vec<bool> {
    let mut within = vec![false; steps];
    // The first step whose middle is not before the time.
    let first = |at_s: f64| ((at_s / STEP_S - 0.5).ceil().max(0.0) as usize).min(steps);
    for span in spans {
        within[first(span.from_s)..first(span.from_s + span.length_s)].fill(true);
    }
    within
}

/// Counts of a trial with two packets per poll, in which every tenth poll wakes the application.
fn counts(costs: Costs, speed: f64, elapsed_s: f64, packets: f64) -> Counts {
    let (polls, wakeups) = (packets / 2.0, packets / 20.0);
    Counts {
        elapsed_s,
        idle_s: 0.5 * elapsed_s,
        protocol_s: (costs.protocol_s * packets + costs.poll_s * polls + costs.wakeup_s * wakeups) / speed,
        application_s: (costs.application_s * packets + costs.context_switch_s * wakeups + costs.hidden_s * polls)
            / speed,
        packets,
        polls,
        interrupts: polls,
        delivered: packets,
        wakeups,
        busy_interrupts: polls,
        ..Counts::default()
    }
}

impl Bench for Fake {
    fn observe(&mut self, spec: &TrialSpec, _: bool) -> Result<Observation, TrialError> {
        if self.dies_after.is_some_and(|trials| self.trials >= trials) {
            let (method, reason) = (Method::Ebpf, "the agent is gone".to_owned());
            return Err(MeterError::Unavailable { method, reason }.into());
        }
        let load_pps = spec.rate_pps.min(self.ceiling_pps);
        let speed = self.speed();
        let turns_per_s = Some(TURNS_PER_S * speed);
        let capacity = self.capacity_now();
        // Below its capacity the host could serve more packets than arrive.
        let served_pps = if load_pps > capacity { delivered_pps(load_pps, capacity, self.livelock) } else { capacity };
        let (pauses, stalls) =
            (self.spans(self.pauses, spec.shape.seconds), self.spans(self.stalls, spec.shape.seconds));
        let slots = vec![[0.0; 3]; (spec.shape.seconds / SLOT_S).ceil() as usize];
        let mut fluid = Fluid { load_pps, served_pps, buffer: self.buffer, queue: 0.0, slots };
        if pauses.is_empty() && stalls.is_empty() {
            let count = fluid.slots.len() as f64;
            let lost = ((load_pps - served_pps) * spec.shape.seconds - self.buffer).max(0.0);
            fluid.slots.iter_mut().for_each(|slot| *slot = [load_pps * spec.shape.seconds / count, lost / count, 0.0]);
        } else {
            fluid.run(spec.shape.seconds, &pauses, &stalls);
        }
        let slots: Vec<Slot> = fluid
            .slots
            .iter()
            .map(|[sent, lost, late]| Slot {
                sent: sent.round() as u64,
                lost: lost.round() as u64,
                late: late.round() as u64,
            })
            .collect();
        let sum = |part: usize| fluid.slots.iter().map(|slot| slot[part]).sum::<f64>().round() as u64;
        let (sent, lost) = (sum(0), sum(1));
        let share = lost as f64 / sent.max(1) as f64;
        Ok(Observation {
            spec: spec.clone(),
            outcome: Outcome {
                throughput_pps: Some(Figure::exact(load_pps * (1.0 - share))),
                loss_fraction: Some(Figure::exact(share)),
                loss: Some(Loss { ring: Some(Figure::exact(share)), ..Loss::default() }),
                ..Outcome::default()
            },
            sides: TesterCounts {
                offered_share: load_pps / spec.rate_pps,
                reached_pps: load_pps,
                lost,
                late: sum(2),
                missed: 0,
            },
            sent,
            slots: Slots {
                each_s: SLOT_S,
                slots,
                sender_stalls: stalls,
                host_pauses: self.tells_pauses.then_some(pauses),
                sender_pauses: None,
                visits: None,
            },
            outside: Outside { shortest_pause_s: Some(STEP_S), turns_per_s, ..Outside::default() },
            lateness_p99_s: None,
            steal_share: 0.0,
            counts: self.costs.map(|costs| counts(costs, speed, spec.shape.seconds, (sent - lost.min(sent)) as f64)),
        })
    }

    fn ceiling(&mut self, _: u32) -> Result<SenderCeiling, TrialError> {
        Ok(SenderCeiling { method: "fake".to_owned(), pps: vec![self.ceiling_pps; 3], most_pps: None })
    }

    fn socket_capacity(&mut self, _: &TrialShape) -> Result<Option<f64>, TrialError> {
        Ok(Some(self.buffer))
    }

    fn ring_slots(&self) -> Option<u64> {
        Some(1000)
    }

    fn cpu_method(&self) -> Result<String, String> {
        Err("a fake has no CPU".to_owned())
    }
}

/// A bench whose trials are made by `observe`; `host` answers all other calls.
pub struct Through<B, F> {
    /// The host under load.
    pub host: B,
    /// Makes a trial of the host.
    pub observe: F,
}

impl<B, F> Bench for Through<B, F>
where
    B: Bench,
    F: FnMut(&mut B, &TrialSpec, bool) -> Result<Observation, TrialError>,
{
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        (self.observe)(&mut self.host, spec, metered)
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        self.host.ceiling(frame_bytes)
    }

    fn socket_capacity(&mut self, shape: &TrialShape) -> Result<Option<f64>, TrialError> {
        self.host.socket_capacity(shape)
    }

    fn ring_slots(&self) -> Option<u64> {
        self.host.ring_slots()
    }

    fn cpu_method(&self) -> Result<String, String> {
        self.host.cpu_method()
    }
}
