//! The ring's free periods as a whole: what the application does in them, and the excursions that end them.

use super::budget::Budget;
use super::free::Waited;
use super::socket::{Cycle, Idle, Socket};
use super::sweep::Begun;

/// Waits begun and ends of waits rarer than this are left out.
const LEFT_OUT: f64 = 1e-18;

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
        // Packets waiting after progress; None: asleep.
        let after = |waiting: usize, progress: usize| match first {
            First::Asleep => None,
            _ => waiting.checked_sub(progress),
        };
        let begun = || rates.iter().enumerate().filter(|(_, rate)| **rate > LEFT_OUT * all);
        budget.take((waited.times.len() * rates.len()) as f64)?;
        for (progress, time) in waited.times.iter().enumerate().filter(|(_, time)| **time > 0.0) {
            for (waiting, rate) in begun() {
                let sum = match after(waiting, progress) {
                    None => &mut self.asleep_s,
                    Some(_) if progress == 0 && first == First::Switching => &mut self.switching_s,
                    Some(_) => &mut self.working_s,
                };
                *sum += rate * time;
                self.waiting_area += rate * time * after(waiting, progress).unwrap_or(0) as f64;
            }
        }
        for end in &waited.ends {
            let Some(place) = cycle.place(end.packets) else { continue };
            for (progress, share) in end.progress.iter().enumerate().filter(|(_, share)| **share > LEFT_OUT) {
                let waits = end.first_waits(progress);
                budget.take(begun().count() as f64)?;
                for (waiting, rate) in begun() {
                    let room = match after(waiting, progress) {
                        Some(waiting) => {
                            self.begun.awake[place].1[most - waiting] += rate * share;
                            most - waiting
                        }
                        None => {
                            self.begun.asleep[place].1 += rate * share;
                            most
                        }
                    };
                    self.taken_area += rate * waits.of(room);
                }
            }
        }
        Some(())
    }
}
