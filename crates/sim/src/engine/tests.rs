//! Two vectors (queues with their interrupts) are coupled if they are on SMT siblings, or if one processes the transmit
//! completions of packets that the other forwards. The engine simulates them one after the other, with the sibling's
//! mean busy share or a Poisson stream of completions. These tests compare this with a joint simulation of both.

use std::collections::VecDeque;

use netcliff_core::{Engine, Figure, Host, Outcome, Point, Service};

use crate::SimEngine;
use crate::draw::Draw;
use crate::random::Purpose;

/// Length of a tick of the draws (s).
const PS: f64 = 1e-12;

#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Ideal,
    /// Each arrival interrupts, unless an interrupt is being handled.
    Interrupt,
    /// One interrupt precedes each busy period.
    DisableEnable,
}

/// One core: its queue, and its remaining present work (s at full speed).
struct Core {
    rule: Rule,
    places: usize,
    queue: VecDeque<f64>,
    handler: Option<f64>,
    packet: Option<f64>,
    masked: bool,
    handling: Draw,
    service: Draw,
    busy_s: f64,
    departed: u64,
    latency_s: f64,
}

impl Core {
    fn new(rule: Rule, places: usize, (handling_s, service_s): (f64, f64), seed: u64) -> Self {
        let draw = |purpose, mean_s: f64| Draw::new(seed, purpose, 0, &Service::Exponential, mean_s / PS);
        Self {
            rule,
            places,
            queue: VecDeque::new(),
            handler: None,
            packet: None,
            masked: false,
            handling: draw(Purpose::Interrupt, handling_s),
            service: draw(Purpose::Protocol, service_s),
            busy_s: 0.0,
            departed: 0,
            latency_s: 0.0,
        }
    }

    fn left_s(&self) -> Option<f64> {
        self.handler.or(self.packet)
    }

    fn arrival(&mut self, now: f64) {
        let accepted = self.queue.len() < self.places;
        if accepted {
            self.queue.push_back(now);
        }
        let interrupts = match self.rule {
            Rule::Ideal => false,
            Rule::Interrupt => self.handler.is_none(),
            Rule::DisableEnable => accepted && !std::mem::replace(&mut self.masked, true),
        };
        if interrupts {
            self.handler = Some(self.handling.next() as f64 * PS);
        }
        self.start();
    }

    fn start(&mut self) {
        if self.handler.is_none() && self.packet.is_none() && !self.queue.is_empty() {
            self.packet = Some(self.service.next() as f64 * PS);
        }
    }

    fn work(&mut self, elapsed_s: f64, done_s: f64) {
        if let Some(left) = self.handler.as_mut().or(self.packet.as_mut()) {
            *left -= done_s;
            self.busy_s += elapsed_s;
        }
    }

    /// Finishes the present work. Returns true if that was a packet.
    fn finish(&mut self, now: f64) -> bool {
        let packet = self.handler.take().is_none();
        if packet {
            self.packet = None;
            let arrived = self.queue.pop_front().expect("a packet in service");
            self.departed += 1;
            self.latency_s += now - arrived;
            self.masked &= !self.queue.is_empty();
        }
        self.start();
        packet
    }
}

/// Results of a core: packets per second, mean latency (s), busy share.
#[derive(Debug, Clone, Copy)]
struct Did {
    pps: f64,
    latency_s: f64,
    busy: f64,
}

/// Simulates both cores together; the work of one takes `slow` times as long while the other is busy. With `forwards`,
/// the second core gets the packets that leave the first; otherwise it has its own arrivals.
fn together(mut cores: [Core; 2], rates_pps: [f64; 2], slow: f64, forwards: bool, packets: u64, seed: u64) -> [Did; 2] {
    let gap = |place: usize| {
        let purpose = [Purpose::Gap, Purpose::Transmission][place];
        Draw::new(seed, purpose, 0, &Service::Exponential, 1.0 / rates_pps[place] / PS)
    };
    let mut gaps = [gap(0), gap(1)];
    let mut arrivals = [0, 1].map(|place| gaps[place].next() as f64 * PS);
    if forwards {
        arrivals[1] = f64::INFINITY;
    }
    let (mut now, mut count) = (0.0, 0);
    while count < packets {
        let pace = [0, 1].map(|place: usize| if cores[1 - place].left_s().is_some() { slow } else { 1.0 });
        let ends =
            [0, 1].map(|place: usize| cores[place].left_s().map_or(f64::INFINITY, |left| now + left * pace[place]));
        let next = arrivals.into_iter().chain(ends).fold(f64::INFINITY, f64::min);
        let elapsed = next - now;
        (0..2).for_each(|place| cores[place].work(elapsed, elapsed / pace[place]));
        now = next;
        for place in 0..2 {
            if ends[place] == next && cores[place].finish(now) && forwards && place == 0 {
                cores[1].arrival(now);
            }
            if arrivals[place] == next {
                cores[place].arrival(now);
                arrivals[place] = now + gaps[place].next() as f64 * PS;
                count += u64::from(place == 0);
            }
        }
    }
    cores.map(|core| Did {
        pps: core.departed as f64 / now,
        latency_s: core.latency_s / core.departed as f64,
        busy: core.busy_s / now,
    })
}

fn value(figure: Option<Figure>) -> f64 {
    figure.unwrap().value
}

fn did(outcome: &Outcome) -> Did {
    Did {
        pps: value(outcome.throughput_pps),
        latency_s: value(outcome.latency_s.unwrap().mean),
        busy: 1.0 - value(outcome.cpu.unwrap().available),
    }
}

/// Errors of simulating coupled cores one by one, at the core where each error is largest: relative for rates and
/// latencies, as a share of a core for busy shares.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    pps: f64,
    latency: f64,
    busy: f64,
    /// Busy share of the busier core in the joint simulation.
    busiest: f64,
}

fn larger(one: f64, other: f64) -> f64 {
    if one.abs() > other.abs() { one } else { other }
}

const PACKETS: u64 = 200_000;

/// Returns the errors for one host, whose receive queues are offered `kpps` each.
fn errors(queues: &str, scheme: &str, kpps: f64) -> Errors {
    let host = Host { queues: Some(queues.parse().unwrap()), ring: 200, ..Host::pentium4_2530mhz() };
    let layout = host.queues.clone().unwrap();
    let each_pps = kpps * 1e3;
    let (rule, handling_s) = match scheme {
        "ideal" => (Rule::Ideal, 0.0),
        "interrupt" => (Rule::Interrupt, host.interrupt_s),
        _ => (Rule::DisableEnable, host.mask_s + host.interrupt_s),
    };
    let cold = layout.cold;
    let service_s = host.service_s(64.0) * cold;
    let second_s = layout.transmit_s.map_or(service_s, |seconds| seconds * cold);
    let core = |seconds, seed| Core::new(rule, 200, (handling_s, seconds), seed);
    let forwards = layout.transmit_s.is_some();
    let truth = together([core(service_s, 1), core(second_s, 2)], [each_pps; 2], layout.smt, forwards, PACKETS, 3);
    let point = Point::poisson(host, scheme.parse().unwrap(), each_pps * f64::from(layout.count));
    let found = SimEngine::with_packets(4, 2 * PACKETS).evaluate(&point).unwrap();
    let parts: Vec<Did> = found.queues.iter().map(|queue| did(queue.outcome.as_ref().unwrap())).collect();
    let mut errors = Errors::default();
    for (truth, found) in truth.iter().zip(&parts) {
        errors.pps = larger(errors.pps, found.pps / truth.pps - 1.0);
        errors.latency = larger(errors.latency, found.latency_s / truth.latency_s - 1.0);
        errors.busy = larger(errors.busy, found.busy - truth.busy);
        errors.busiest = errors.busiest.max(truth.busy);
    }
    errors
}

const SCHEMES: [&str; 3] = ["ideal", "interrupt", "disable-enable:merged=false"];

/// Without coupling, both methods agree to within chance.
#[test]
fn uncoupled_vectors_agree() {
    for scheme in SCHEMES {
        let found = errors("2:map=smt,smt=1", scheme, 80.0);
        assert!(
            found.pps.abs() < 0.01 && found.latency.abs() < 0.03 && found.busy.abs() < 0.005,
            "{scheme}: {found:?}"
        );
    }
}

/// Checks the errors over a grid: with a busy share up to `calm` they are below `below`, otherwise below `beyond`
/// (rate, latency, busy share). The output (`-- --nocapture`) is the table of docs/theory/queues.md.
fn within(queues: &str, loads_kpps: &[f64], calm: f64, below: (f64, f64, f64), beyond: (f64, f64, f64)) {
    for scheme in SCHEMES {
        for kpps in loads_kpps {
            let found = errors(queues, scheme, *kpps);
            println!(
                "{queues} {scheme} {kpps} kpps, {:.2} busy: rate {:+.1} %, latency {:+.1} %, busy {:+.3}",
                found.busiest,
                100.0 * found.pps,
                100.0 * found.latency,
                found.busy
            );
            let (pps, latency, busy) = if found.busiest < calm { below } else { beyond };
            let good = found.pps.abs() < pps && found.latency.abs() < latency && found.busy.abs() < busy;
            assert!(good, "{queues} {scheme} {kpps} kpps: {found:?}");
        }
    }
}

#[test]
fn siblings_by_their_mean_busy_shares() {
    within("2:map=smt,smt=1.5", &[20.0, 60.0, 90.0, 110.0, 200.0], 0.85, (0.01, 0.05, 0.025), (0.015, 0.08, 0.025));
    let (below, beyond) = ((0.01, 0.09, 0.025), (0.05, 0.9, 0.035));
    within("1:map=smt,smt=1.5,transmit=4us", &[20.0, 60.0, 90.0, 130.0, 200.0], 0.85, below, beyond);
}

#[test]
fn completions_as_a_poisson_stream() {
    let (below, beyond) = ((0.01, 0.06, 0.02), (0.01, 0.45, 0.035));
    within("1:map=spread,transmit=4us,cold=1.2", &[60.0, 130.0, 200.0], 0.85, below, beyond);
    within("1:map=spread,transmit=5us", &[60.0, 110.0, 130.0, 200.0], 0.85, below, beyond);
}
