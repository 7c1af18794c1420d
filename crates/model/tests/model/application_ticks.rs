//! Ring, socket and application with polls that wait for ticks, compared with a chain of the same host in all its
//! states, computed from tick to tick by uniformization until it is stationary, with the age of every packet in the
//! ring.

use std::collections::HashMap;

use netcliff_core::{Engine, Figure, Host, Point};
use netcliff_model::{Fidelity, ModelEngine};
use proptest::prelude::*;

/// Work that has priority over the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing: no interrupt and no cycle.
    Free,
    /// napi-2007: masked, waiting for a tick; the application may run.
    Waiting,
    Interrupt,
    /// napi-2007: the overhead of a poll. polling: this number of overheads, followed by the rest of a cycle, if any
    /// (its packets, and whether a tick occurred in it).
    Overhead(usize, Option<(usize, bool)>),
    Serving(usize, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Thread {
    Asleep,
    Switching,
    Working,
}

/// (packets in the ring, phase, thread, packets waiting in the socket).
type State = (usize, Phase, Thread, usize);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Arrival,
    Taken,
    Dropped,
    Other,
}

/// Times of one test case (us).
#[derive(Debug, Clone)]
struct Case {
    is_polling: bool,
    period: f64,
    quota: usize,
    gap: f64,
    protocol: f64,
    interrupt: f64,
    poll: f64,
    application: f64,
    switch: Option<f64>,
    ring: usize,
    socket: usize,
}

/// Maximum number of waiting overheads; more have a probability below the accuracy of the comparison.
const OVERHEADS: usize = 8;

impl Case {
    fn is_free(phase: Phase) -> bool {
        matches!(phase, Phase::Free | Phase::Waiting)
    }

    /// Ends a context switch that takes no time as soon as the application may run.
    fn settled(&self, (packets, phase, thread, waiting): State) -> State {
        let at_once = self.switch.is_none() && thread == Thread::Switching && Self::is_free(phase);
        if at_once { (packets, phase, Thread::Working, waiting - 1) } else { (packets, phase, thread, waiting) }
    }

    /// The cycle that begins with this number of packets in the ring.
    fn cycle(&self, packets: usize, rearmed: bool) -> Phase {
        if packets > 0 { Phase::Serving(self.quota, rearmed) } else { Phase::Free }
    }

    fn served(&self, packets: usize, left: usize, rearmed: bool) -> Phase {
        match left {
            _ if packets == 0 => Phase::Free,
            1 if !self.is_polling => Phase::Waiting,
            1 if rearmed => self.cycle(packets, false),
            1 => Phase::Free,
            _ => Phase::Serving(left - 1, rearmed),
        }
    }

    fn tick(&self, (packets, phase, thread, waiting): State) -> State {
        let after = match (self.is_polling, phase) {
            (false, Phase::Waiting) => Phase::Overhead(1, None),
            (false, other) => other,
            (true, Phase::Serving(left, _)) => Phase::Overhead(1, Some((left, true))),
            (true, Phase::Overhead(count, rest)) => {
                Phase::Overhead((count + 1).min(OVERHEADS), rest.map(|(left, _)| (left, true)))
            }
            (true, _) => Phase::Overhead(1, None),
        };
        self.settled((packets, after, thread, waiting))
    }

    fn jumps(&self, state: State) -> Vec<(State, f64, Event)> {
        let (packets, phase, thread, waiting) = state;
        let mut jumps = Vec::new();
        let mut add = |next: State, mean: f64, event: Event| jumps.push((self.settled(next), 1.0 / mean, event));
        if packets < self.ring {
            let after = if !self.is_polling && phase == Phase::Free { Phase::Interrupt } else { phase };
            add((packets + 1, after, thread, waiting), self.gap, Event::Arrival);
        }
        match phase {
            Phase::Free | Phase::Waiting => match (thread, self.switch) {
                (Thread::Switching, Some(mean)) => {
                    add((packets, phase, Thread::Working, waiting - 1), mean, Event::Other);
                }
                (Thread::Working, _) if waiting == 0 => {
                    add((packets, phase, Thread::Asleep, 0), self.application, Event::Other);
                }
                (Thread::Working, _) => add((packets, phase, thread, waiting - 1), self.application, Event::Other),
                _ => {}
            },
            Phase::Interrupt => {
                add((packets, Phase::Serving(self.quota, false), thread, waiting), self.interrupt, Event::Other);
            }
            Phase::Overhead(1, None) => {
                let after = self.cycle(packets, false);
                add((packets, after, thread, waiting), self.poll, Event::Other);
            }
            Phase::Overhead(1, Some((left, rearmed))) => {
                add((packets, Phase::Serving(left, rearmed), thread, waiting), self.poll, Event::Other);
            }
            Phase::Overhead(count, rest) => {
                let begun = if packets > 0 { Some((self.quota, true)) } else { None };
                add((packets, Phase::Overhead(count - 1, rest.or(begun)), thread, waiting), self.poll, Event::Other);
            }
            Phase::Serving(left, rearmed) => {
                let after = self.served(packets - 1, left, rearmed);
                let full = waiting == self.socket;
                let (thread, waiting) = match thread {
                    _ if full => (thread, waiting),
                    Thread::Asleep => (Thread::Switching, 1),
                    other => (other, waiting + 1),
                };
                let event = if full { Event::Dropped } else { Event::Taken };
                add((packets - 1, after, thread, waiting), self.protocol, event);
            }
        }
        jumps
    }

    fn point(&self) -> Point {
        let host = Host {
            interrupt_s: self.interrupt * 1e-6,
            protocol_s: self.protocol * 1e-6,
            poll_s: self.poll * 1e-6,
            application_s: Some(self.application * 1e-6),
            context_switch_s: self.switch.unwrap_or(0.0) * 1e-6,
            per_byte_s: 0.0,
            mask_s: 0.0,
            ring: self.ring as u64,
            socket_buffer: self.socket as u64,
            ..Host::pentium4_2530mhz()
        };
        let name = if self.is_polling { "polling" } else { "napi-2007" };
        let scheme = format!("{name}:period={}us,quota={}", self.period, self.quota);
        Point::poisson(host, scheme.parse().unwrap(), 1e6 / self.gap)
    }
}

/// For each state: its weight, then weight x age of each packet in the ring, the oldest packet first.
type Weights = Vec<Vec<f64>>;

/// The host as jumps between numbered states.
struct Chain {
    states: Vec<State>,
    jumps: Vec<Vec<(usize, f64, Event)>>,
    ticks: Vec<usize>,
    rate: f64,
    /// (P(n jumps in a period), time after n jumps).
    mixture: Vec<(f64, f64)>,
}

impl Chain {
    fn new(case: &Case) -> Self {
        let mut states = vec![(0, Phase::Free, Thread::Asleep, 0)];
        let mut index = HashMap::from([(states[0], 0)]);
        let mut at = 0;
        while at < states.len() {
            let next: Vec<State> = case.jumps(states[at]).into_iter().map(|(next, ..)| next).collect();
            for one in next.into_iter().chain([case.tick(states[at])]) {
                index.entry(one).or_insert_with(|| {
                    states.push(one);
                    states.len() - 1
                });
            }
            at += 1;
        }
        let jumps: Vec<Vec<(usize, f64, Event)>> = states
            .iter()
            .map(|state| {
                case.jumps(*state).into_iter().map(|(next, rate, event)| (index[&next], rate, event)).collect()
            })
            .collect();
        let out = |jumps: &Vec<(usize, f64, Event)>| jumps.iter().map(|(_, rate, _)| rate).sum::<f64>();
        let rate = jumps.iter().map(out).fold(0.0, f64::max);
        let ticks = states.iter().map(|state| index[&case.tick(*state)]).collect();
        let (mut mixture, mut share, mut above) = (Vec::new(), (-rate * case.period).exp(), 1.0);
        for count in 1.. {
            above -= share;
            mixture.push((share, above / rate));
            share *= rate * case.period / f64::from(count);
            if share < 1e-18 && f64::from(count) > rate * case.period {
                break;
            }
        }
        Self { states, jumps, ticks, rate, mixture }
    }

    fn none(&self) -> Weights {
        self.states.iter().map(|(packets, ..)| vec![0.0; packets + 1]).collect()
    }

    fn jump(&self, now: &Weights) -> Weights {
        let mut next = self.none();
        for (from, weights) in now.iter().enumerate() {
            let mut stays = 1.0;
            for (to, rate, event) in &self.jumps[from] {
                let share = rate / self.rate;
                stays -= share;
                next[*to][0] += share * weights[0];
                let left = if matches!(event, Event::Taken | Event::Dropped) { 2 } else { 1 };
                next[*to][1..].iter_mut().zip(&weights[left..]).for_each(|(sum, age)| *sum += share * age);
            }
            next[from].iter_mut().zip(weights).for_each(|(sum, weight)| *sum += stays * weight);
            // The time spent here is added to the age of each packet.
            next[from][1..].iter_mut().for_each(|age| *age += weights[0] / self.rate);
        }
        next
    }

    /// State after a period and its tick, and the integral over the period.
    fn period(&self, start: &Weights) -> (Weights, Weights) {
        let (mut now, mut ended, mut spent) = (start.clone(), self.none(), self.none());
        for (share, time) in &self.mixture {
            let add = |sums: &mut Weights, factor: f64| {
                let each = sums.iter_mut().flatten().zip(now.iter().flatten());
                each.for_each(|(sum, value)| *sum += factor * value);
            };
            add(&mut ended, *share);
            add(&mut spent, *time);
            now = self.jump(&now);
        }
        let mut after = self.none();
        for (weights, to) in ended.iter().zip(&self.ticks) {
            after[*to].iter_mut().zip(weights).for_each(|(sum, value)| *sum += value);
        }
        (after, spent)
    }

    /// Integral over a period in the long run.
    fn stationary(&self) -> Weights {
        let mut now = self.none();
        now[0][0] = 1.0;
        for _ in 0..100_000 {
            let (after, spent) = self.period(&now);
            let moved = after.iter().flatten().zip(now.iter().flatten()).map(|(a, b)| (a - b).abs()).sum::<f64>();
            now = after;
            if moved < 1e-11 {
                return spent;
            }
        }
        panic!("no equilibrium");
    }
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let outcome = ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&case.point()).unwrap();
    prop_assert_eq!(outcome.cpu_method.as_deref(), Some("exact"), "{:?}", outcome.notes);
    let chain = Chain::new(case);
    let spent = chain.stationary();
    let all = case.period;
    let sum = |value: &dyn Fn(usize, &State) -> f64| -> f64 {
        chain.states.iter().enumerate().map(|(place, state)| value(place, state)).sum::<f64>() / all
    };
    let rate = |place: usize, wanted: Event| -> f64 {
        chain.jumps[place].iter().filter(|(_, _, event)| *event == wanted).map(|(_, rate, _)| rate).sum()
    };
    let taken = sum(&|place, _| spent[place][0] * rate(place, Event::Taken));
    let dropped = sum(&|place, _| spent[place][0] * rate(place, Event::Dropped));
    let ages = sum(&|place, state| if state.0 > 0 { spent[place][1] * rate(place, Event::Taken) } else { 0.0 });
    let waiting = sum(&|place, state| spent[place][0] * state.3 as f64);
    let share =
        |wanted: &dyn Fn(&State) -> bool| sum(&|place, state| if wanted(state) { spent[place][0] } else { 0.0 });
    let near = |name: &str, found: Option<Figure>, right: f64| {
        let found = found.unwrap().value;
        prop_assert!((found - right).abs() <= 1e-7 * right.abs() + 1e-9, "{name}: {found}, by states {right}");
        Ok(())
    };
    let loss = outcome.loss.unwrap();
    near("read", outcome.throughput_pps.map(|read| Figure::exact(read.value * 1e-6)), taken)?;
    near("ring loss", loss.ring, share(&|state| state.0 == case.ring))?;
    near("socket loss", loss.socket, dropped * case.gap)?;
    let latency = outcome.latency_s.unwrap().mean.unwrap().value * 1e6;
    near("latency", Some(Figure::exact(latency)), (ages + waiting) / taken)?;
    let cpu = outcome.cpu.unwrap();
    near("application", cpu.application, share(&|state| Case::is_free(state.1) && state.2 != Thread::Asleep))?;
    near("available", cpu.available, share(&|state| Case::is_free(state.1) && state.2 == Thread::Asleep))?;
    near("protocol", cpu.protocol, share(&|state| matches!(state.1, Phase::Serving(..))))?;
    near("poll", cpu.poll, share(&|state| matches!(state.1, Phase::Overhead(..))))
}

fn cases() -> impl Strategy<Value = Case> {
    // If interrupts and protocol starve the application for a long time, the iteration from tick to tick takes equally
    // long.
    let load = 0.2..1.0_f64;
    let time = || (-1.2..1.2_f64).prop_map(f64::exp);
    let switch = prop_oneof![Just(None), time().prop_map(Some)];
    let sizes = (1..4_usize, 1..5_usize, 1..5_usize);
    (any::<bool>(), 2.0..8.0_f64, (load, time(), time(), time(), switch), 0.05..0.2_f64, sizes).prop_map(
        |(is_polling, period, (load, protocol, interrupt, application, switch), poll, (quota, ring, socket))| Case {
            is_polling,
            period,
            quota,
            gap: (protocol + application) / load,
            protocol,
            interrupt,
            poll: poll * period,
            application,
            switch,
            ring,
            socket,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, ..ProptestConfig::default() })]

    /// All figures, with other hosts in each run.
    #[test]
    fn every_figure_of_a_chain_by_states(case in cases()) {
        check(&case)?;
    }
}
