//! The socket and the application in the idle time of the ring: asleep, on the way to the CPU, or at work with w packets
//! waiting.
//!
//! With the ring idle the application gets on; an arrival begins a wait, in which it gets on too, and then an excursion,
//! which brings the socket a batch. Where nothing is waited for, cuts give every state from those below it; else the
//! chain is a band (GTH).

use super::band::Band;
use super::budget::Budget;
use super::free::{Pace, Wait, Waited};
use super::laws::Served;
use crate::queue::wide::{self, product};

/// The application and its socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Socket {
    /// Packets it holds, K.
    pub most: usize,
    /// Rate of reading with so many packets waiting (pps), 0 to K.
    pub read_pps: Vec<f64>,
    /// Rate at which a context switch ends (1/s); None: it takes no time.
    pub switch_per_s: Option<f64>,
}

/// Shares of the ring's idle time.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// Asleep.
    pub asleep: f64,
    /// In a context switch with w packets waiting.
    pub switching: Vec<f64>,
    /// At work with w packets waiting.
    pub working: Vec<f64>,
}

/// What waits and excursions are with some number of packets in the socket.
pub struct Node {
    /// That number.
    pub waiting: usize,
    /// Waits of an application at work.
    pub working: Waited,
    /// The same of one in a context switch.
    pub switching: Waited,
    /// What excursions deliver, in the order of [`Cycle::packets`].
    pub served: Vec<Served>,
}

/// The waits, and the batches that follow.
pub struct Cycle {
    /// Every number of packets in the ring that a wait may end with, ascending.
    pub packets: Vec<usize>,
    /// By packets waiting, ascending from 0; one where these change nothing. Between two nodes both hold in proportion.
    pub nodes: Vec<Node>,
    /// Waits that find the application asleep.
    pub asleep: Waited,
    /// What excursions deliver that wake it, in the order of `packets`.
    pub woken: Vec<Served>,
}

/// The waits of an application at work and of one in a context switch.
pub struct Waits {
    /// At work.
    pub working: Waited,
    /// In a context switch.
    pub switching: Waited,
}

impl Cycle {
    /// The nodes that hold with so many packets waiting, with their shares.
    pub fn blend(&self, waiting: usize) -> [(&Node, f64); 2] {
        let above = self.nodes.partition_point(|node| node.waiting <= waiting);
        let (low, high) = (above.saturating_sub(1), above.min(self.nodes.len() - 1));
        let (low, high) = (&self.nodes[low], &self.nodes[high]);
        let apart = high.waiting.saturating_sub(low.waiting);
        let share = if apart == 0 { 0.0 } else { (waiting - low.waiting) as f64 / apart as f64 };
        [(low, 1.0 - share), (high, share)]
    }

    /// Services that no excursion exceeds, but for those too rare to be kept.
    pub fn longest(&self) -> usize {
        let laws = self.nodes.iter().flat_map(|node| &node.served).chain(&self.woken);
        laws.map(|law| law.equal.len()).max().unwrap_or(0)
    }

    /// The place of a number of packets in [`Cycle::packets`].
    pub fn place(&self, packets: usize) -> Option<usize> {
        self.packets.binary_search(&packets).ok()
    }
}

impl Socket {
    /// Progress is counted up to here: every packet read, and asleep.
    fn most_progress(&self) -> usize {
        self.most + 1
    }

    /// The waits of an application that is awake, which reads as with `waiting` packets; None where the budget does not last.
    pub fn waits(&self, wait: Wait, arrival_pps: f64, places: usize, waiting: usize, budget: &Budget) -> Option<Waits> {
        let others = self.read_pps[waiting];
        let solve = |first: f64| wait.solve(arrival_pps, places, Pace { first, others }, self.most_progress(), budget);
        let switching = match self.switch_per_s {
            Some(first) => solve(first)?,
            None => Waited::default(),
        };
        Some(Waits { working: solve(others)?, switching })
    }

    /// The waits of one that sleeps.
    pub fn asleep(&self, wait: Wait, arrival_pps: f64, places: usize, budget: &Budget) -> Option<Waited> {
        wait.solve(arrival_pps, places, Pace::NONE, self.most_progress(), budget)
    }

    /// The ring's idle time; None where the budget does not last.
    pub fn idle(&self, cycle: &Cycle, wait: Wait, arrival_pps: f64, budget: &Budget) -> Option<Idle> {
        if wait != Wait::Nothing {
            return Band::new(self, cycle, arrival_pps, budget)?.stationary(budget);
        }
        let longest = cycle.nodes.iter().map(|node| node.served[0].equal.len()).max().unwrap_or(0);
        budget.take((self.most * longest * cycle.nodes.len()) as f64)?;
        Some(wide::run(ByCuts { socket: self, cycle, arrival_pps }))
    }

    #[inline(always)]
    fn by_cuts(&self, cycle: &Cycle, arrival_pps: f64) -> Idle {
        let most = self.most;
        let woken = &cycle.woken[0];
        let woken_tails = woken.at_least();
        let backwards = |law: &[f64]| law.iter().rev().copied().collect::<Vec<f64>>();
        let tails: Vec<Vec<f64>> = cycle.nodes.iter().map(|node| backwards(&node.served[0].at_least())).collect();
        let laws: Vec<Vec<f64>> = cycle.nodes.iter().map(|node| backwards(&node.served[0].equal)).collect();
        let node = |node: &Node| cycle.nodes.partition_point(|other| other.waiting < node.waiting);
        // Weights by packets waiting, as much of them as each node has.
        let mut switching = vec![vec![0.0; most + 1]; tails.len()];
        let mut working = switching.clone();
        let put = |of: &mut Vec<Vec<f64>>, waiting: usize, weight: f64| {
            cycle.blend(waiting).iter().for_each(|(one, share)| of[node(one)][waiting] += share * weight);
        };
        let mut idle = Idle { asleep: 1.0, switching: vec![0.0; most + 1], working: vec![0.0; most + 1] };
        // switched[w]: rate at which a context switch ends with w packets waiting.
        let mut switched = vec![0.0];
        for waiting in 1..=most {
            // Batches of `waiting - w` more packets; the fullest socket takes all larger ones, too.
            let last = waiting == most;
            let law = if last { &woken_tails } else { &woken.equal };
            let first = arrival_pps * law.get(waiting).copied().unwrap_or(0.0);
            let Some(switch_per_s) = self.switch_per_s else {
                switched.push(first);
                continue;
            };
            let more: f64 = switching
                .iter()
                .zip(if last { &tails } else { &laws })
                .map(|(from, law)| come(&from[..waiting], law))
                .sum();
            let out = switch_per_s + if last { 0.0 } else { arrival_pps };
            idle.switching[waiting] = (first + arrival_pps * more) / out;
            put(&mut switching, waiting, idle.switching[waiting]);
            switched.push(idle.switching[waiting] * switch_per_s);
        }
        switched.push(0.0);
        for waiting in (1..=most).rev() {
            switched[waiting] += switched[waiting + 1];
        }
        for waiting in 0..=most {
            let more: f64 = working.iter().zip(&tails).map(|(from, law)| come(&from[..waiting], law)).sum();
            idle.working[waiting] = (switched[waiting + 1] + arrival_pps * more) / self.read_pps[waiting];
            put(&mut working, waiting, idle.working[waiting]);
            if idle.working[waiting] > 1e250 {
                let all = idle.switching.iter_mut().chain(&mut idle.working).chain(&mut switched);
                let all = all.chain(working.iter_mut().flatten()).chain([&mut idle.asleep]);
                // Denormal numbers are slow, and come to nothing beside what is to come.
                all.for_each(|weight| *weight = if *weight > 1.0 { *weight * 1e-250 } else { 0.0 });
            }
        }
        idle.normalised()
    }
}

/// See [`Socket::by_cuts`].
struct ByCuts<'a> {
    socket: &'a Socket,
    cycle: &'a Cycle,
    arrival_pps: f64,
}

impl wide::Work for ByCuts<'_> {
    type Output = Idle;

    #[inline(always)]
    fn run(self) -> Idle {
        self.socket.by_cuts(self.cycle, self.arrival_pps)
    }
}

/// What comes to a number of packets from each smaller one, whose weights are given, by batches of this law (backwards).
#[inline(always)]
fn come(weights: &[f64], law: &[f64]) -> f64 {
    let reach = weights.len().min(law.len().saturating_sub(1));
    product(&law[law.len() - 1 - reach..law.len() - 1], &weights[weights.len() - reach..])
}

impl Idle {
    /// The same scaled to 1 in all.
    pub fn normalised(mut self) -> Self {
        let total = self.asleep + self.switching.iter().chain(&self.working).sum::<f64>();
        self.asleep /= total;
        self.switching.iter_mut().chain(&mut self.working).for_each(|share| *share /= total);
        self
    }
}
