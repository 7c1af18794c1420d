//! The ring's free periods (the ring is empty or waits for an interrupt): what the application does in them, and the
//! excursions (busy periods) that end them.

use super::budget::Budget;
use super::free::{PacketWaits, Wait, Waited};
use super::socket::{Cycle, Idle, Socket};
use super::sweep::Begun;
use crate::queue::wide::{self, sum};

/// Waits for an interrupt are left out if they begin or end at a smaller rate (1/s).
const LEFT_OUT: f64 = 1e-18;
/// Stages of waits are left out if they take a smaller share of the idle time.
const RARE: f64 = 1e-22;
/// Operations per stage of a wait and per number of packets in the socket.
const FIELD: f64 = 8.0;
/// Operations per entry of a sum, below 1 because several entries are processed at once (approximate).
const ENTRY: f64 = 0.3;

/// Sums over the ring's free periods in one second of its idle time, including the waits for interrupts that begin with
/// its arrivals.
pub struct Free {
    /// Time asleep (s).
    pub asleep_s: f64,
    /// Time in a context switch (s).
    pub switching_s: f64,
    /// Time at work (s).
    pub working_s: f64,
    /// Integral over time of the packets in the socket [packet s].
    pub waiting_area: f64,
    /// Integral over time of the packets in the ring [packet s].
    pub area: f64,
    /// Integral over time of the packets in the ring that the socket will take [packet s].
    pub taken_area: f64,
    /// Time with a full ring (s).
    pub full_s: f64,
    /// Excursions that begin after these free periods.
    pub begun: Begun,
}

/// Rates during a wait with an exponential time.
struct Rates {
    arrival_pps: f64,
    ends_per_s: f64,
}

/// One stage of a wait for an interrupt: the time with one particular number of packets in the ring.
#[derive(Debug, Clone, Copy, Default)]
struct Stage {
    /// Expected time (s).
    time: f64,
    /// Integral of the time since the stage began [s2].
    own: f64,
    /// Integral of the time from the first packet to the beginning of the stage [s2].
    gathered: f64,
}

impl Stage {
    fn plus(&self, other: &Self) -> Self {
        Self { time: self.time + other.time, own: self.own + other.own, gathered: self.gathered + other.gathered }
    }

    /// Moves from the previous stage to the next; `falls`: other entries into the next stage.
    fn next(&mut self, rates: &Rates, is_full: bool, falls: &Self) {
        let stays_s = 1.0 / (rates.ends_per_s + if is_full { 0.0 } else { rates.arrival_pps });
        let gathered = rates.arrival_pps * (self.gathered + self.own) + falls.gathered;
        self.time = (rates.arrival_pps * self.time + falls.time) * stays_s;
        self.own = (self.time + falls.own) * stays_s;
        self.gathered = gathered * stays_s;
    }
}

/// One stage of the waits for an interrupt while the application is awake and reads at a constant rate, by packets in
/// the socket.
struct Field {
    read_pps: f64,
    switch_per_s: f64,
    working: Vec<f64>,
    switching: Vec<f64>,
    /// `[working, switching]` for each number of packets in the socket from `tight` on; see [`Stage`].
    of_working: Vec<[f64; 2]>,
    of_switching: Vec<[f64; 2]>,
    /// Smallest number of packets in the socket for which `of_working` and `of_switching` have entries.
    tight: usize,
    /// Smallest number of packets in the socket with any time.
    low: usize,
    /// Largest number of packets in the socket with any time.
    high: usize,
    /// Times below this count as 0.
    rare: f64,
}

impl Field {
    /// Makes the state before the first stage of a wait: the idle time that an arrival ends. `None` if no idle time
    /// precedes the waits.
    fn new(mut working: Vec<f64>, mut switching: Vec<f64>, socket: &Socket, node: usize, tight: usize) -> Option<Self> {
        let rare = RARE * (sum(&working) + sum(&switching));
        let heavy = |weight: &f64| *weight > rare;
        let both = [&working, &switching];
        let high = both.iter().filter_map(|of| of.iter().rposition(heavy)).max()?;
        let low = both.iter().filter_map(|of| of.iter().position(heavy)).min()?;
        for of in [&mut working, &mut switching] {
            of[..low].fill(0.0);
            of[high + 1..].fill(0.0);
        }
        let none = vec![[0.0; 2]; working.len().saturating_sub(tight)];
        let (read_pps, switch_per_s) = (socket.read_pps[node], socket.switch_per_s.unwrap_or(0.0));
        let (of_working, of_switching) = (none.clone(), none);
        Some(Self { read_pps, switch_per_s, working, switching, of_working, of_switching, tight, low, high, rare })
    }

    /// Moves from the previous stage to the next.
    fn next(&mut self, rates: &Rates, is_full: bool) {
        let Rates { arrival_pps, ends_per_s } = *rates;
        let out = ends_per_s + if is_full { 0.0 } else { arrival_pps };
        let (switch_stays_s, stays_s) = (1.0 / (out + self.switch_per_s), 1.0 / (out + self.read_pps));
        let high = self.high;
        // Updates the times for one more stage.
        for waiting in (self.tight.max(self.low)..=high).rev() {
            let [own, gathered] = &mut self.of_switching[waiting - self.tight];
            *gathered = arrival_pps * (*gathered + *own) * switch_stays_s;
        }
        let moved = arrival_pps * switch_stays_s;
        self.switching[self.low..=high].iter_mut().for_each(|time| *time *= moved);
        for waiting in self.tight.max(self.low)..=high {
            self.of_switching[waiting - self.tight][0] = self.switching[waiting] * switch_stays_s;
        }
        let (arrived, read, switched) = (arrival_pps * stays_s, self.read_pps * stays_s, self.switch_per_s * stays_s);
        let (mut above, mut switching_above) = (0.0, 0.0);
        let mut waiting = high;
        loop {
            let switching = self.switching[waiting];
            above = self.working[waiting] * arrived + switching_above * switched + above * read;
            self.working[waiting] = above;
            switching_above = switching;
            if waiting == 0 {
                break;
            }
            if waiting <= self.low {
                if above + switching < self.rare {
                    break;
                }
                self.low = waiting - 1;
            }
            waiting -= 1;
        }
        let (mut above, mut switching_above) = ([0.0; 2], [0.0; 2]);
        for waiting in (self.tight.max(self.low)..=high).rev() {
            let time = self.working[waiting];
            let [own, gathered] = &mut self.of_working[waiting - self.tight];
            *gathered = arrived * (*gathered + *own) + read * above[1] + switched * switching_above[1];
            *own = time * stays_s + read * above[0] + switched * switching_above[0];
            above = [*own, *gathered];
            switching_above = self.of_switching[waiting - self.tight];
        }
    }

    fn own(&self, waiting: usize) -> f64 {
        self.of_working[waiting - self.tight][0] + self.of_switching[waiting - self.tight][0]
    }

    fn gathered(&self, waiting: usize) -> f64 {
        self.of_working[waiting - self.tight][1] + self.of_switching[waiting - self.tight][1]
    }

    /// Rate at which the application falls asleep.
    fn falls(&self) -> Stage {
        let [own, gathered] = if self.tight == 0 { self.of_working[0] } else { [0.0; 2] };
        let [time, own, gathered] = [self.working[0], own, gathered].map(|value| value * self.read_pps);
        Stage { time, own, gathered }
    }
}

/// Rates of waits that begin, and what the application does during them.
struct Doing<'a> {
    waited: &'a Waited,
    /// Rate of waits by packets in the socket at their beginning; a single entry if the application is asleep.
    rates: &'a [f64],
    /// The application's first piece of work in the wait.
    first: First,
}

#[derive(Clone, Copy, PartialEq)]
enum First {
    Asleep,
    Switching,
    Working,
}

impl Free {
    /// Computes the free periods of a ring with `places`; `None` if the budget does not suffice.
    pub fn new(
        socket: &Socket,
        cycle: &Cycle,
        idle: &Idle,
        (wait, places): (Wait, usize),
        arrival_pps: f64,
        budget: &Budget,
    ) -> Option<Self> {
        let most = socket.most;
        let begun = Begun {
            awake: cycle.packets.iter().map(|packets| (*packets, vec![0.0; most + 1])).collect(),
            asleep: cycle.packets.iter().map(|packets| (*packets, 0.0)).collect(),
        };
        let mut free = Self {
            asleep_s: idle.asleep,
            switching_s: idle.switching.iter().sum(),
            working_s: idle.working.iter().sum(),
            waiting_area: (0..=most).map(|w| w as f64 * (idle.switching[w] + idle.working[w])).sum(),
            area: 0.0,
            taken_area: 0.0,
            full_s: 0.0,
            begun,
        };
        if let Wait::Exponential { mean_s } = wait {
            let rates = Rates { arrival_pps, ends_per_s: 1.0 / mean_s };
            free.add_exponential(socket, cycle, idle, &rates, places, budget)?;
            return Some(free);
        }
        let rates = [idle.asleep * arrival_pps];
        free.add(cycle, most, &Doing { waited: &cycle.asleep, rates: &rates, first: First::Asleep }, budget)?;
        for node in &cycle.nodes {
            let share = |waiting: usize| -> f64 {
                let nodes = cycle.blend(waiting);
                nodes.iter().filter(|(one, _)| one.waiting == node.waiting).map(|(_, share)| share).sum()
            };
            let rates = |shares: &[f64]| -> Vec<f64> {
                shares.iter().enumerate().map(|(waiting, here)| arrival_pps * here * share(waiting)).collect()
            };
            let (working, switching) = (rates(&idle.working), rates(&idle.switching));
            let working = Doing { waited: &node.working, rates: &working, first: First::Working };
            free.add(cycle, most, &working, budget)?;
            let switching = Doing { waited: &node.switching, rates: &switching, first: First::Switching };
            free.add(cycle, most, &switching, budget)?;
        }
        Some(free)
    }

    /// Adds waits with an exponential time. There is one stage for each number of packets in the ring; each covers all
    /// numbers of packets in the socket.
    fn add_exponential(
        &mut self,
        socket: &Socket,
        cycle: &Cycle,
        idle: &Idle,
        rates: &Rates,
        places: usize,
        budget: &Budget,
    ) -> Option<()> {
        let most = socket.most;
        let longest = cycle.packets.last().copied().unwrap_or(0);
        // With less free space in the socket than this, it may drop packets that arrive during a wait.
        let tight = most - longest.min(most);
        let share = |waiting: usize, node: usize| -> f64 {
            let nodes = cycle.blend(waiting);
            nodes.iter().filter(|(one, _)| one.waiting == cycle.nodes[node].waiting).map(|(_, share)| share).sum()
        };
        let part = |weights: &[f64], node: usize| -> Vec<f64> {
            weights
                .iter()
                .enumerate()
                .map(|(waiting, weight)| if *weight > 0.0 { weight * share(waiting, node) } else { 0.0 })
                .collect()
        };
        let mut fields: Vec<Field> = Vec::new();
        for (node, at) in cycle.nodes.iter().enumerate() {
            let (working, switching) = (part(&idle.working, node), part(&idle.switching, node));
            fields.extend(Field::new(working, switching, socket, at.waiting, tight));
        }
        let mut asleep = Stage { time: idle.asleep, ..Stage::default() };
        for packets in 1..=longest {
            let Some(place) = cycle.place(packets) else { continue };
            let is_full = packets == places;
            let mut falls = Stage::default();
            let mut time_s = 0.0;
            for field in &mut fields {
                budget.take(FIELD * (field.high - field.low + 1) as f64)?;
                field.next(rates, is_full);
                let (low, high) = (field.low, field.high);
                let (working, switching) = (&field.working[low..=high], &field.switching[low..=high]);
                let [works_s, switches_s] = [sum(working), sum(switching)];
                self.working_s += works_s;
                self.switching_s += switches_s;
                time_s += works_s + switches_s;
                // Packets waiting now, and the remaining free space in the socket.
                let rooms = &mut self.begun.awake[place].1[most - high..=most - low];
                let both = working.iter().zip(switching);
                for ((waiting, room), (works, switches)) in (low..=high).zip(rooms.iter_mut().rev()).zip(both) {
                    let time = works + switches;
                    self.waiting_area += waiting as f64 * time;
                    *room += rates.ends_per_s * time;
                }
                for waiting in field.tight..=high {
                    let room = most - waiting;
                    let (gathering_s, after_s) = (field.gathered(waiting), field.own(waiting));
                    let waits = PacketWaits { packets, gathering_s, after_s };
                    if room < packets {
                        self.taken_area -= rates.ends_per_s * (waits.of_first(packets) - waits.of_first(room));
                    }
                }
                falls = falls.plus(&field.falls());
            }
            asleep.next(rates, is_full, &falls);
            self.asleep_s += asleep.time;
            time_s += asleep.time;
            self.begun.asleep[place].1 += rates.ends_per_s * asleep.time;
            if most < packets {
                let waits = PacketWaits { packets, gathering_s: asleep.gathered, after_s: asleep.own };
                self.taken_area -= rates.ends_per_s * (waits.of_first(packets) - waits.of_first(most));
            }
            self.area += packets as f64 * time_s;
            self.full_s += if is_full { time_s } else { 0.0 };
        }
        self.taken_area = (self.taken_area + self.area).max(0.0);
        Some(())
    }

    fn add(&mut self, cycle: &Cycle, most: usize, doing: &Doing<'_>, budget: &Budget) -> Option<()> {
        let Doing { waited, rates, first } = *doing;
        let all: f64 = rates.iter().sum();
        if all == 0.0 {
            return Some(());
        }
        self.area += all * waited.area;
        self.full_s += all * waited.full_s;
        let found = Found::new(rates, first, all);
        budget.take((waited.times.len() + rates.len()) as f64)?;
        for (progress, time) in waited.times.iter().enumerate() {
            let awake =
                if progress == 0 && first == First::Switching { &mut self.switching_s } else { &mut self.working_s };
            *awake += time * found.awake(progress);
            self.asleep_s += time * found.asleep(progress);
            self.waiting_area += time * found.waiting(progress);
        }
        for end in &waited.ends {
            let Some(place) = cycle.place(end.packets) else { continue };
            let rooms = &mut self.begun.awake[place].1;
            for (progress, share) in end.progress.iter().enumerate().filter(|(_, share)| **share > LEFT_OUT) {
                let waits = end.waits(progress);
                budget.take(ENTRY * found.rates.len() as f64)?;
                self.begun.asleep[place].1 += share * found.asleep(progress);
                self.taken_area += found.asleep(progress) * waits.of_first(most);
                let (least, rates) = found.rooms(progress, most);
                wide::add(&mut rooms[least..], rates, *share);
                // If there is space for all packets of a wait, their waiting times do not depend on the space.
                let short = end.packets.saturating_sub(least).min(rates.len());
                let these = rates[..short].iter().enumerate();
                self.taken_area += these.map(|(more, rate)| rate * waits.of_first(least + more)).sum::<f64>();
                self.taken_area += rates[short..].iter().sum::<f64>() * waits.of_first(end.packets);
            }
        }
        Some(())
    }
}

/// Rates of waits by packets in the socket, and what remains in the socket after the application has read some packets.
struct Found {
    /// Rates by packets in the socket, the largest number first; empty if the application is asleep in all waits.
    rates: Vec<f64>,
    /// Number of packets waiting of the first entry.
    largest: usize,
    /// `[j]`: rate of waits with j packets or more.
    tails: Vec<f64>,
    /// `[j]`: rate of waits with fewer than j packets.
    heads: Vec<f64>,
    /// `[j]`: sum of rate x (packets beyond the first j).
    beyond: Vec<f64>,
    /// Rate of all waits.
    all: f64,
}

impl Found {
    fn new(rates: &[f64], first: First, all: f64) -> Self {
        let largest = rates.iter().rposition(|rate| *rate > LEFT_OUT * all).unwrap_or(0);
        let awake = if first == First::Asleep { &[] } else { &rates[..=largest] };
        let tails = tails(awake);
        let beyond = tails.get(1..).map_or(Vec::new(), self::tails);
        let heads = awake.iter().scan(0.0, |sum, rate| Some(std::mem::replace(sum, *sum + rate))).collect();
        Self { rates: awake.iter().rev().copied().collect(), largest, tails, heads, beyond, all }
    }

    /// Rate of waits in which the application is still awake after this number of finished pieces of work.
    fn awake(&self, progress: usize) -> f64 {
        self.tails.get(progress).copied().unwrap_or(0.0)
    }

    /// Rate of waits in which the application is asleep after this number of finished pieces of work; all waits if it
    /// was asleep at their beginning.
    fn asleep(&self, progress: usize) -> f64 {
        self.heads.get(progress).copied().unwrap_or(self.all)
    }

    /// Sum of rate x packets still waiting after this progress.
    fn waiting(&self, progress: usize) -> f64 {
        self.beyond.get(progress).copied().unwrap_or(0.0)
    }

    /// Smallest free space in a socket of `most` packets after this number of finished pieces of work, and the rates
    /// from this free space on.
    fn rooms(&self, progress: usize, most: usize) -> (usize, &[f64]) {
        let progress = progress.min(self.rates.len());
        (most - self.largest + progress.min(self.largest), &self.rates[..self.rates.len() - progress])
    }
}

/// Sums from each entry to the last.
fn tails(values: &[f64]) -> Vec<f64> {
    let mut sums = values.to_vec();
    for place in (1..sums.len()).rev() {
        sums[place - 1] += sums[place];
    }
    sums
}
