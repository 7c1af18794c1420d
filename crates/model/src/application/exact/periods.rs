//! The ring's free periods as a whole: what the application does in them, and the excursions that end them.

use super::budget::Budget;
use super::free::Waited;
use super::socket::{Cycle, Idle, Socket};
use super::sweep::Begun;

/// Waits begun and ends of waits rarer than this are left out.
const LEFT_OUT: f64 = 1e-18;
/// Operations a sum over a slice takes an entry: several at once.
const ENTRY: f64 = 0.3;

/// The free periods: a second of idle time, and the waits that follow its arrivals.
pub struct Free {
    /// Time asleep (s).
    pub asleep_s: f64,
    /// Time in a context switch (s).
    pub switching_s: f64,
    /// Time at work (s).
    pub working_s: f64,
    /// Integral of the packets in the socket [packet s].
    pub waiting_area: f64,
    /// Integral of the packets in the ring [packet s].
    pub area: f64,
    /// The same of those that the socket will take [packet s].
    pub taken_area: f64,
    /// Time with a full ring (s).
    pub full_s: f64,
    /// Excursions begun.
    pub begun: Begun,
}

/// Waits begun, and what the application does meanwhile.
struct Doing<'a> {
    waited: &'a Waited,
    /// Rate of waits begun by packets waiting; one entry: asleep.
    rates: &'a [f64],
    /// What it is doing when the wait begins.
    first: First,
}

#[derive(Clone, Copy, PartialEq)]
enum First {
    Asleep,
    Switching,
    Working,
}

impl Free {
    /// None where the budget does not last.
    pub fn new(socket: &Socket, cycle: &Cycle, idle: &Idle, arrival_pps: f64, budget: &Budget) -> Option<Self> {
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
                rooms[least..].iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate * share);
                // Where there is room for all packets, they wait as long whatever the room.
                let short = end.packets.saturating_sub(least).min(rates.len());
                let these = rates[..short].iter().enumerate();
                self.taken_area += these.map(|(more, rate)| rate * waits.of_first(least + more)).sum::<f64>();
                self.taken_area += rates[short..].iter().sum::<f64>() * waits.of_first(end.packets);
            }
        }
        Some(())
    }
}

/// Rates of waits begun, and what is left of what they found after progress.
struct Found {
    /// By packets waiting, the most first; empty: all find the application asleep.
    rates: Vec<f64>,
    /// Packets waiting, of the first entry.
    largest: usize,
    /// [j]: rate of those with j packets or more.
    tails: Vec<f64>,
    /// [j]: of those with fewer.
    heads: Vec<f64>,
    /// [j]: the packets that j do not reach, times the rate.
    beyond: Vec<f64>,
    /// Rate of all.
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

    /// Rate of waits that find the application awake after so much progress.
    fn awake(&self, progress: usize) -> f64 {
        self.tails.get(progress).copied().unwrap_or(0.0)
    }

    /// The same of those that find it asleep: all, if it was before.
    fn asleep(&self, progress: usize) -> f64 {
        self.heads.get(progress).copied().unwrap_or(self.all)
    }

    /// Packets that still wait after so much progress, times the rate.
    fn waiting(&self, progress: usize) -> f64 {
        self.beyond.get(progress).copied().unwrap_or(0.0)
    }

    /// The least room in a socket of `most` packets after so much progress, and the rates from it on.
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
