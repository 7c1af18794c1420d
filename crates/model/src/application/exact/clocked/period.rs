//! One period of a ring with its socket and application, from just after a tick to just before the next, by
//! uniformization; all terms are positive.
//!
//! A row is a pair (packets in the ring, phase of the scheme). It has one weight for each state of the application:
//! first the states without the CPU (asleep, or in a context switch), then those in which it works, both by packets
//! waiting in the socket.

use crate::application::exact::budget::Budget;
use crate::queue::matrix::add_scaled;
use crate::queue::uniform::{Mixture, furthest};

/// Probability below which numbers of jumps in a period are left out.
const LEFT_OUT: f64 = 1e-15;
/// Operations per entry of a row, below 1 because several entries are processed at once (approximate).
const ENTRY: f64 = 0.3;

/// Effect of a jump on the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brings {
    /// No effect.
    Nothing,
    /// A packet arrives at the socket, which drops it if full.
    Packet,
}

/// A jump from one row to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// Row before the jump.
    pub from: usize,
    /// Row after the jump.
    pub to: usize,
    /// Rate of the jump (1/s).
    pub rate: f64,
    /// Effect of the jump on the socket.
    pub brings: Brings,
    /// True: the jump leads to a row that is left out as too rare. `to` is then the most probable row, so that the rate
    /// out of `from` is unchanged.
    pub is_astray: bool,
    /// True: this jump gives the CPU to the application. A context switch that takes no time then ends at once.
    pub frees: bool,
}

/// Rates of the application in rows in which it has the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Packets that it reads (pps).
    pub read_pps: f64,
    /// Context switches that end (1/s); `None` if they take no time.
    pub switch_per_s: Option<f64>,
}

/// The rows and their jumps.
pub struct Rows {
    /// By row, true if the application may run.
    pub free: Vec<bool>,
    /// Jumps between rows.
    pub moves: Vec<Move>,
    /// Maximum number of packets in the socket that is computed while the application works.
    pub most: usize,
    /// Maximum number of packets in the socket that is computed during a context switch, when few packets wait; at most
    /// `most`.
    pub most_switching: usize,
    /// Rates of the application.
    pub pace: Pace,
}

/// The distribution at the end of a period, and the times spent in it (s).
pub struct Later {
    /// Distribution before the tick.
    pub ended: Vec<f64>,
    /// Time spent in each state (s).
    pub spent: Vec<f64>,
}

impl Rows {
    /// Number of weights of a row.
    pub fn width(&self) -> usize {
        self.most_switching + self.most + 2
    }

    /// Splits a row's weights into two parts: states in which the application does not have the CPU, and states in
    /// which it works.
    pub fn parts<'a>(&self, row: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        row.split_at(self.most_switching + 1)
    }

    /// Total jump rate of the fastest state (1/s).
    pub fn fastest_per_s(&self) -> f64 {
        let mut out = vec![0.0; self.free.len()];
        self.moves.iter().for_each(|jump| out[jump.from] += jump.rate);
        let own = self.pace.read_pps.max(self.pace.switch_per_s.unwrap_or(0.0));
        let with_own = out.iter().zip(&self.free).map(|(out, free)| out + if *free { own } else { 0.0 });
        with_own.fold(0.0, f64::max)
    }

    /// Number of operations to apply one jump to all states.
    pub fn operations(&self) -> f64 {
        ENTRY * (self.width() * (2 * self.free.len() + self.moves.len())) as f64
    }

    /// Adds one jump of the distribution `now` to `next`.
    fn jump(&self, rate: f64, now: &[f64], next: &mut [f64]) {
        let width = self.width();
        let mut stays = vec![1.0; self.free.len()];
        for one in &self.moves {
            let probability = one.rate / rate;
            stays[one.from] -= probability;
            let (from, to) = (&now[one.from * width..(one.from + 1) * width], one.to * width);
            self.land(one.brings, one.frees, probability, from, &mut next[to..to + width]);
        }
        for (row, stay) in stays.into_iter().enumerate() {
            let here = row * width..(row + 1) * width;
            if self.free[row] {
                self.run(rate, stay, &now[here.clone()], &mut next[here]);
            } else {
                add_scaled(&mut next[here.clone()], &now[here], stay.max(0.0));
            }
        }
    }

    /// Adds the weights of the row `from`, multiplied by `probability`, to the row `to`, in the states of the
    /// application after a jump with these effects.
    pub fn land(&self, brings: Brings, frees: bool, probability: f64, from: &[f64], to: &mut [f64]) {
        let (most, last) = (self.most, self.most_switching);
        let (switching, working) = self.parts(from);
        let (to_switching, to_working) = to.split_at_mut(last + 1);
        let packet = usize::from(brings == Brings::Packet);
        add_scaled(&mut to_working[packet..], &working[..=most - packet], probability);
        let at_once = frees && self.pace.switch_per_s.is_none();
        match (at_once, packet) {
            (false, _) => add_scaled(&mut to_switching[packet..], &switching[..=last - packet], probability),
            // A working application takes the packet that arrived, or the first that waits.
            (true, 1) => add_scaled(to_working, &switching[..last], probability),
            (true, _) => {
                to_switching[0] += probability * switching[0];
                add_scaled(to_working, &switching[1..], probability);
            }
        }
        if packet == 1 {
            to_working[most] += probability * working[most];
            let full = probability * switching[last];
            if at_once { to_working[last - 1] += full } else { to_switching[last] += full }
        }
    }

    /// Applies one jump to a row in which the application runs; `stay`: probability that the jump does not change the
    /// row.
    fn run(&self, rate: f64, stay: f64, from: &[f64], to: &mut [f64]) {
        let (most, last) = (self.most, self.most_switching);
        let (read, switch) = (self.pace.read_pps / rate, self.pace.switch_per_s.unwrap_or(0.0) / rate);
        let (switching, working) = self.parts(from);
        let (to_switching, to_working) = to.split_at_mut(last + 1);
        to_switching[0] += stay.max(0.0) * switching[0] + read * working[0];
        add_scaled(&mut to_switching[1..], &switching[1..], (stay - switch).max(0.0));
        add_scaled(to_working, &switching[1..], switch);
        add_scaled(&mut to_working[..most], &working[1..], read);
        add_scaled(to_working, working, (stay - read).max(0.0));
    }

    /// Computes the distribution one period after `start` and, if `timed`, the time spent in each state. `None` if the
    /// budget does not suffice.
    pub fn pass(&self, mixture: &Mixture, start: &[f64], timed: bool, budget: &Budget) -> Option<Later> {
        let mut now = start.to_vec();
        let mut next = vec![0.0; start.len()];
        let mut later = Later::new(start.len(), timed);
        for (end, spent_s) in mixture.ends.iter().zip(&mixture.spent_s) {
            later.add(&now, *end, *spent_s);
            budget.take(self.operations())?;
            next.fill(0.0);
            self.jump(mixture.rate, &now, &mut next);
            std::mem::swap(&mut now, &mut next);
        }
        Some(later)
    }

    /// Like [`Self::pass`], for copies of probability made during the period: each row of `copies` makes copies of its
    /// weight at a rate per second. A copy then follows the jumps of `alone`. `None` if the budget does not suffice.
    pub fn pass_of_copies(
        &self,
        alone: &Self,
        mixture: &Mixture,
        start: &[f64],
        copies: (&[usize], f64),
        budget: &Budget,
    ) -> Option<Later> {
        let (rows, enter_per_s) = copies;
        let width = self.width();
        let (mut now, mut next) = (start.to_vec(), vec![0.0; start.len()]);
        let (mut copied, mut copied_next) = (vec![0.0; start.len()], vec![0.0; start.len()]);
        let mut later = Later::new(start.len(), true);
        for (end, spent_s) in mixture.ends.iter().zip(&mixture.spent_s) {
            later.add(&copied, *end, *spent_s);
            budget.take(self.operations() + alone.operations())?;
            next.fill(0.0);
            copied_next.fill(0.0);
            alone.jump(mixture.rate, &copied, &mut copied_next);
            for row in rows {
                let here = row * width..(row + 1) * width;
                add_scaled(&mut copied_next[here.clone()], &now[here], enter_per_s / mixture.rate);
            }
            self.jump(mixture.rate, &now, &mut next);
            std::mem::swap(&mut now, &mut next);
            std::mem::swap(&mut copied, &mut copied_next);
        }
        Some(later)
    }
}

/// Probabilities of the numbers of jumps in a period at `rate`; `None` if the budget does not suffice for them.
pub fn mixture(rate: f64, period_s: f64, operations: f64, budget: &Budget) -> Option<Mixture> {
    budget.lasts(furthest(rate * period_s) * operations)?;
    Some(Mixture::over(rate, period_s).without(LEFT_OUT))
}

impl Later {
    fn new(states: usize, timed: bool) -> Self {
        Self { ended: vec![0.0; states], spent: vec![0.0; if timed { states } else { 0 }] }
    }

    /// Adds a term of the mixture to the distribution, and its times if they are wanted.
    fn add(&mut self, now: &[f64], end: f64, spent_s: f64) {
        add_scaled(&mut self.ended, now, end);
        add_scaled(&mut self.spent, now, spent_s);
    }
}
