//! The socket and the application in the idle time of the ring: asleep, on the way to the CPU, or at work with w packets
//! waiting.
//!
//! With the ring idle the application gets on; an arrival begins a wait, in which it gets on too, and then an excursion,
//! which brings the socket a batch. Where nothing is waited for, cuts give every state from those below it; else the
//! chain is a band (GTH).

use super::batch::Served;
use super::free::{Pace, Wait, Waited};
use crate::queue::banded::Banded;

/// The application and its socket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Socket {
    /// Packets it holds, K.
    pub most: usize,
    /// Rate of reading (pps).
    pub read_pps: f64,
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

/// One way for a wait to end, with what the excursion then delivers.
pub struct Ending {
    /// Packets in the ring.
    pub packets: usize,
    /// To an application that is awake.
    pub awake: Served,
    /// To one that sleeps.
    pub asleep: Served,
}

/// The waits of the three kinds of application, and the batches that follow.
pub struct Cycle {
    /// At work.
    pub working: Waited,
    /// In a context switch.
    pub switching: Waited,
    /// Asleep.
    pub asleep: Waited,
    /// Every number of packets that a wait may end with.
    pub endings: Vec<Ending>,
}

/// Batches and progress rarer than this are left out of the band.
const LEFT_OUT: f64 = 1e-20;
/// Operations at the most: about a tenth of a second.
const MOST_OPERATIONS: f64 = 2e8;

impl Socket {
    /// Progress is counted up to here: every packet read, and asleep.
    pub fn most_progress(&self) -> usize {
        self.most + 1
    }

    /// The waits; None where one would take too long.
    pub fn waits(&self, wait: Wait, arrival_pps: f64, places: usize) -> Option<[Waited; 3]> {
        let solve = |pace: Pace| wait.solve(arrival_pps, places, pace, self.most_progress());
        let working = solve(Pace { first: self.read_pps, others: self.read_pps })?;
        let switching = match self.switch_per_s {
            Some(first) => solve(Pace { first, others: self.read_pps })?,
            None => Waited::default(),
        };
        Some([working, switching, solve(Pace::NONE)?])
    }

    /// The ring's idle time; None where the band would take too long.
    pub fn idle(&self, cycle: &Cycle, wait: Wait, arrival_pps: f64) -> Option<Idle> {
        match (wait, cycle.endings.first()) {
            (Wait::Nothing, Some(ending)) => Some(self.by_cuts(ending, arrival_pps)),
            _ => Band::new(self, cycle, arrival_pps).stationary(),
        }
    }

    fn by_cuts(&self, ending: &Ending, arrival_pps: f64) -> Idle {
        let most = self.most;
        let (equal, at_least) = (&ending.awake.equal, &ending.awake.at_least);
        let mut idle = Idle { asleep: 1.0, switching: vec![0.0; most + 1], working: vec![0.0; most + 1] };
        // switched[w]: rate at which a context switch ends with w packets waiting.
        let mut switched = vec![0.0; most + 2];
        for waiting in 1..=most {
            // Batches of `waiting - w` more packets; the fullest socket takes all larger ones, too.
            let by = if waiting == most { at_least } else { equal };
            let first =
                arrival_pps * if waiting == most { ending.asleep.at_least[most] } else { ending.asleep.equal[waiting] };
            let Some(switch_per_s) = self.switch_per_s else {
                switched[waiting] = first;
                continue;
            };
            let more: f64 = (1..waiting).map(|from| idle.switching[from] * by[waiting - from]).sum();
            let out = switch_per_s + if waiting == most { 0.0 } else { arrival_pps };
            idle.switching[waiting] = (first + arrival_pps * more) / out;
            switched[waiting] = idle.switching[waiting] * switch_per_s;
        }
        for waiting in (1..=most).rev() {
            switched[waiting] += switched[waiting + 1];
        }
        for waiting in 0..=most {
            let more: f64 = (0..waiting).map(|from| idle.working[from] * at_least[waiting - from]).sum();
            idle.working[waiting] = (switched[waiting + 1] + arrival_pps * more) / self.read_pps;
            if idle.working[waiting] > 1e250 {
                let all = idle.switching.iter_mut().chain(&mut idle.working).chain(&mut switched);
                all.for_each(|weight| *weight *= 1e-250);
                idle.asleep *= 1e-250;
            }
        }
        idle.normalised()
    }
}

impl Idle {
    fn normalised(mut self) -> Self {
        let total = self.asleep + self.switching.iter().chain(&self.working).sum::<f64>();
        self.asleep /= total;
        self.switching.iter_mut().chain(&mut self.working).for_each(|share| *share /= total);
        self
    }
}

/// Rates of batches of n packets after progress j: [j][n], the last n stands for all larger ones.
type Batches = Vec<Vec<f64>>;

/// The chain of the idle time, listed state by state: asleep, then by packets waiting.
struct Band<'a> {
    socket: &'a Socket,
    cycle: &'a Cycle,
    arrival_pps: f64,
    working: Batches,
    switching: Batches,
    /// Largest batch that counts.
    largest: usize,
    progress: usize,
}

impl<'a> Band<'a> {
    fn new(socket: &'a Socket, cycle: &'a Cycle, arrival_pps: f64) -> Self {
        let rare = |served: &Served| served.at_least.iter().rposition(|tail| *tail > LEFT_OUT).unwrap_or(1);
        let largest =
            cycle.endings.iter().map(|ending| rare(&ending.awake).max(rare(&ending.asleep))).max().unwrap_or(1);
        let batches = |waited: &Waited| -> Batches {
            let far = |progress: &Vec<f64>| progress.iter().rposition(|p| *p > LEFT_OUT).map_or(0, |last| last + 1);
            let length = waited.ends.iter().map(|end| far(&end.progress)).max().unwrap_or(0);
            let mut batches = vec![vec![0.0; largest + 1]; length];
            for end in &waited.ends {
                let Some(ending) = cycle.endings.iter().find(|ending| ending.packets == end.packets) else { continue };
                for (sum, share) in batches.iter_mut().zip(&end.progress) {
                    let rate = share * arrival_pps;
                    sum.iter_mut().zip(&ending.awake.equal).for_each(|(sum, p)| *sum += rate * p);
                }
            }
            batches
        };
        let (working, switching) = (batches(&cycle.working), batches(&cycle.switching));
        let progress = working.len().max(switching.len());
        Self { socket, cycle, arrival_pps, working, switching, largest, progress }
    }

    /// States a packet waiting: working, and switching where that takes time.
    fn kinds(&self) -> usize {
        if self.socket.switch_per_s.is_some() { 2 } else { 1 }
    }

    fn working(&self, waiting: usize) -> usize {
        self.kinds() * waiting + 1
    }

    fn stationary(&self) -> Option<Idle> {
        let (kinds, most) = (self.kinds(), self.socket.most);
        let states = self.working(most) + 1;
        let down = (kinds * self.progress).max(kinds).min(states - 1);
        let up = (kinds * self.largest + 1).min(states - 1);
        if states as f64 * down as f64 * up as f64 > MOST_OPERATIONS {
            return None;
        }
        let alike = if kinds == 1 {
            let first = self.working(self.progress + 1);
            first..self.working(most.saturating_sub(self.largest + 1)).max(first)
        } else {
            0..0
        };
        let mut row = |state: usize| self.row(state, down, up);
        let vector = Banded { states, down, up, alike, row: &mut row }.stationary()?;
        let switching = |waiting: usize| if kinds == 1 || waiting == 0 { 0.0 } else { vector[kinds * waiting] };
        let idle = Idle {
            asleep: vector[0],
            switching: (0..=most).map(switching).collect(),
            working: (0..=most).map(|waiting| vector[self.working(waiting)]).collect(),
        };
        Some(idle.normalised())
    }

    /// Rates from a state to state - down ..= state + up.
    fn row(&self, state: usize, down: usize, up: usize) -> Vec<f64> {
        let (kinds, most) = (self.kinds(), self.socket.most);
        let mut row = vec![0.0; down + up + 1];
        let mut put = |to: usize, rate: f64| {
            if let Some(entry) = (to + down).checked_sub(state).and_then(|place| row.get_mut(place)) {
                *entry += rate;
            }
        };
        let batch = |batches: &[f64], base: usize, put: &mut dyn FnMut(usize, f64)| {
            batches.iter().enumerate().skip(1).for_each(|(n, rate)| put((base + n).min(most), *rate));
        };
        if state == 0 {
            self.land(&self.cycle.asleep, 0, &mut put);
            return row;
        }
        let waiting = (state - 1).div_ceil(kinds);
        if state == self.working(waiting) {
            let next = if waiting == 0 { 0 } else { self.working(waiting - 1) };
            put(next, self.socket.read_pps);
            for (progress, batches) in self.working.iter().enumerate().take(waiting + 1) {
                batch(batches, waiting - progress, &mut |to, rate| put(self.working(to), rate));
            }
            self.land(&self.cycle.working, waiting + 1, &mut put);
            return row;
        }
        put(self.working(waiting - 1), self.socket.switch_per_s.unwrap_or(0.0));
        for (progress, batches) in self.switching.iter().enumerate().take(waiting + 1) {
            if progress == 0 {
                batch(batches, waiting, &mut |to, rate| put(kinds * to, rate));
            } else {
                batch(batches, waiting - progress, &mut |to, rate| put(self.working(to), rate));
            }
        }
        self.land(&self.cycle.switching, waiting + 1, &mut put);
        row
    }

    /// Waits with progress of `from` or more find the application asleep, and the batch wakes it.
    fn land(&self, waited: &Waited, from: usize, put: &mut dyn FnMut(usize, f64)) {
        for end in &waited.ends {
            let asleep: f64 = end.progress.iter().skip(from).sum();
            let Some(ending) = self.cycle.endings.iter().find(|ending| ending.packets == end.packets) else { continue };
            if asleep == 0.0 {
                continue;
            }
            for (n, p) in ending.asleep.equal.iter().enumerate().take(self.largest + 1).skip(1) {
                let to = if self.kinds() == 1 { self.working(n - 1) } else { 2 * n };
                put(to, self.arrival_pps * asleep * p);
            }
        }
    }
}
