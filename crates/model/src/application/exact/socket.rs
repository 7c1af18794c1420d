//! Socket and application during the ring's idle time: the application is asleep, in a context switch, or working, with
//! w packets waiting.
//!
//! While the ring is idle, the application makes progress. An arrival begins a wait for its interrupt, with further
//! progress, and then an excursion, which adds a batch to the socket. If interrupts come at once, cut equations give
//! each state from the states below it ([`Socket::idle`]); otherwise the chain is a band, solved by elimination (GTH).

use super::budget::Budget;
use super::free::{Pace, Wait, Waited};
use super::laws::Served;
use crate::queue::wide::{self, product};

/// The socket and its application.
#[derive(Debug, Clone, PartialEq)]
pub struct Socket {
    /// K: maximum number of packets in the socket.
    pub most: usize,
    /// Rate of reading by packets waiting (pps), 0 to K.
    pub read_pps: Vec<f64>,
    /// Rate at which a context switch ends (1/s); `None` if it takes no time.
    pub switch_per_s: Option<f64>,
}

/// Shares of the ring's idle time, by state of the application.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// Asleep, with an empty socket.
    pub asleep: f64,
    /// In a context switch with w packets waiting.
    pub switching: Vec<f64>,
    /// Working with w packets waiting.
    pub working: Vec<f64>,
}

/// Waits for interrupts, and the busy periods after them, at one number of packets in the socket.
pub struct Node {
    /// Number of packets waiting.
    pub waiting: usize,
    /// Waits with the application working.
    pub working: Waited,
    /// Waits during a context switch.
    pub switching: Waited,
    /// Number of packets that busy periods deliver, in the order of [`Cycle::packets`].
    pub served: Vec<Served>,
}

/// The waits for interrupts, and the batches of packets delivered after them.
pub struct Cycle {
    /// All numbers of packets that may be in the ring at the end of a wait, ascending.
    pub packets: Vec<usize>,
    /// Waits and busy periods by packets in the socket, ascending from 0; a single node if these packets have no
    /// influence. Between two nodes values are interpolated.
    pub nodes: Vec<Node>,
    /// Waits for interrupts during which the application sleeps from the beginning.
    pub asleep: Waited,
    /// Number of packets delivered by busy periods that wake the application, in the order of `packets`.
    pub woken: Vec<Served>,
}

/// Waits with an awake application.
pub struct Waits {
    /// With the application working.
    pub working: Waited,
    /// During a context switch.
    pub switching: Waited,
}

impl Cycle {
    /// Returns the two nodes (computed numbers of packets in the socket) between which values at `waiting` are
    /// interpolated, with their shares.
    pub fn blend(&self, waiting: usize) -> [(&Node, f64); 2] {
        let above = self.nodes.partition_point(|node| node.waiting <= waiting);
        let (low, high) = (above.saturating_sub(1), above.min(self.nodes.len() - 1));
        let (low, high) = (&self.nodes[low], &self.nodes[high]);
        let apart = high.waiting.saturating_sub(low.waiting);
        let share = if apart == 0 { 0.0 } else { (waiting - low.waiting) as f64 / apart as f64 };
        [(low, 1.0 - share), (high, share)]
    }

    /// Number of services that a busy period of the ring exceeds only with negligible probability.
    pub fn longest(&self) -> usize {
        let laws = self.nodes.iter().flat_map(|node| &node.served).chain(&self.woken);
        laws.map(|law| law.equal.len()).max().unwrap_or(0)
    }

    /// Index of a number of packets in [`Cycle::packets`].
    pub fn place(&self, packets: usize) -> Option<usize> {
        self.packets.binary_search(&packets).ok()
    }
}

impl Socket {
    /// Maximum number of pieces of work that the application finishes in a wait: all packets read, and one more for
    /// falling asleep.
    fn most_progress(&self) -> usize {
        self.most + 1
    }

    /// Computes the waits for interrupts of an awake application that reads as fast as with `waiting` packets; `None`
    /// if the budget does not suffice.
    pub fn waits(&self, wait: Wait, arrival_pps: f64, places: usize, waiting: usize, budget: &Budget) -> Option<Waits> {
        let others = self.read_pps[waiting];
        let solve = |first: f64| wait.solve(arrival_pps, places, Pace { first, others }, self.most_progress(), budget);
        let switching = match self.switch_per_s {
            Some(first) => solve(first)?,
            None => Waited::default(),
        };
        Some(Waits { working: solve(others)?, switching })
    }

    /// Computes the waits for interrupts of a sleeping application; `None` if the budget does not suffice.
    pub fn asleep(&self, wait: Wait, arrival_pps: f64, places: usize, budget: &Budget) -> Option<Waited> {
        wait.solve(arrival_pps, places, Pace::NONE, self.most_progress(), budget)
    }

    /// Computes the distribution over the ring's idle time if interrupts come at once; `None` if the budget does not
    /// suffice.
    pub fn idle(&self, cycle: &Cycle, arrival_pps: f64, budget: &Budget) -> Option<Idle> {
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
        // Weights by packets waiting, divided among the nodes.
        let mut switching = vec![vec![0.0; most + 1]; tails.len()];
        let mut working = switching.clone();
        let put = |of: &mut Vec<Vec<f64>>, waiting: usize, weight: f64| {
            cycle.blend(waiting).iter().for_each(|(one, share)| of[node(one)][waiting] += share * weight);
        };
        let mut idle = Idle { asleep: 1.0, switching: vec![0.0; most + 1], working: vec![0.0; most + 1] };
        // [w]: rate at which a context switch ends with w packets waiting.
        let mut switched = vec![0.0];
        for waiting in 1..=most {
            // Batches of `waiting - w` packets or more; at a full socket this includes all larger batches.
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
                // Denormal numbers are slow, and negligible compared with later weights.
                all.for_each(|weight| *weight = if *weight > 1.0 { *weight * 1e-250 } else { 0.0 });
            }
        }
        idle.normalised()
    }
}

/// Work of [`Socket::by_cuts`].
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

/// Returns the sum over k < n of `weights[k]` times the probability of a batch of n - k packets, where n is the number
/// of weights. If the weights are the probabilities of k waiting packets, this is the share of arrivals after which n
/// packets wait. `law` has the probabilities of batches in reverse order.
#[inline(always)]
fn come(weights: &[f64], law: &[f64]) -> f64 {
    let reach = weights.len().min(law.len().saturating_sub(1));
    product(&law[law.len() - 1 - reach..law.len() - 1], &weights[weights.len() - reach..])
}

impl Idle {
    /// Returns the shares scaled to sum 1.
    pub fn normalised(mut self) -> Self {
        let total = self.asleep + self.switching.iter().chain(&self.working).sum::<f64>();
        self.asleep /= total;
        self.switching.iter_mut().chain(&mut self.working).for_each(|share| *share /= total);
        self
    }
}
