//! One period of a ring with its socket and application, from just after a tick to just before the next, by uniformization: all terms
//! positive.
//!
//! A row is a (packets in the ring, phase of the scheme) with a weight for each state of the application: asleep or awake without the CPU's
//! switch to it, by packets waiting, then at work, by packets waiting.

use crate::application::exact::budget::Budget;
use crate::queue::matrix::add_scaled;
use crate::queue::uniform::{Mixture, furthest};

/// Jumps of a period that are rarer than this are left out.
const LEFT_OUT: f64 = 1e-15;
/// Operations an entry of a row takes, about: several at once.
const ENTRY: f64 = 0.3;

/// What a jump does to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brings {
    /// Nothing.
    Nothing,
    /// A packet, which a full socket drops.
    Packet,
}

/// A jump from one row to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// From this row.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// Jumps (1/s).
    pub rate: f64,
    /// For the socket.
    pub brings: Brings,
    /// It led to a row that is left out, and goes to a likely one instead, lest rows are left that nothing leaves.
    pub is_astray: bool,
    /// The application gets the CPU by it; a switch that takes no time is then over.
    pub frees: bool,
}

/// What the application may do in the rows where the CPU is left to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Packets read (pps).
    pub read_pps: f64,
    /// Context switches that end (1/s); None: they take no time.
    pub switch_per_s: Option<f64>,
}

/// The rows and their jumps.
pub struct Rows {
    /// True: the application may run.
    pub free: Vec<bool>,
    /// Jumps between rows.
    pub moves: Vec<Move>,
    /// Packets that the socket is followed up to with the application at work.
    pub most: usize,
    /// The same with it on its way to the CPU, where it seldom stays for long; at most as many.
    pub most_switching: usize,
    /// The application.
    pub pace: Pace,
}

/// A distribution a period later, and the time spent on the way (s).
pub struct Later {
    /// Before the tick.
    pub ended: Vec<f64>,
    /// Times.
    pub spent: Vec<f64>,
}

impl Rows {
    /// Weights a row.
    pub fn width(&self) -> usize {
        self.most_switching + self.most + 2
    }

    /// A row's weights of an application that sleeps or is on its way to the CPU, and of one at work.
    pub fn parts<'a>(&self, row: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        row.split_at(self.most_switching + 1)
    }

    /// The rate of the fastest state (1/s).
    pub fn fastest_per_s(&self) -> f64 {
        let mut out = vec![0.0; self.free.len()];
        self.moves.iter().for_each(|jump| out[jump.from] += jump.rate);
        let own = self.pace.read_pps.max(self.pace.switch_per_s.unwrap_or(0.0));
        let with_own = out.iter().zip(&self.free).map(|(out, free)| out + if *free { own } else { 0.0 });
        with_own.fold(0.0, f64::max)
    }

    /// Operations of one jump of everything.
    pub fn operations(&self) -> f64 {
        ENTRY * (self.width() * (2 * self.free.len() + self.moves.len())) as f64
    }

    /// One jump of `now`, added to `next`.
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

    /// What a jump makes of the states of the application.
    pub fn land(&self, brings: Brings, frees: bool, probability: f64, from: &[f64], to: &mut [f64]) {
        let (most, last) = (self.most, self.most_switching);
        let (switching, working) = self.parts(from);
        let (to_switching, to_working) = to.split_at_mut(last + 1);
        let packet = usize::from(brings == Brings::Packet);
        add_scaled(&mut to_working[packet..], &working[..=most - packet], probability);
        let at_once = frees && self.pace.switch_per_s.is_none();
        match (at_once, packet) {
            (false, _) => add_scaled(&mut to_switching[packet..], &switching[..=last - packet], probability),
            // It takes the packet that came, or the first of those that wait.
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

    /// A row in which the application gets on; `stay`: what no other jump takes.
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

    /// What a period makes of `start`, and the time spent on the way if `timed`. None where the budget does not last.
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

    /// What a period makes of copies that are taken while `start` goes through it: of the weight of `copies`' rows, so many a second. A copy goes
    /// on by the jumps of `alone`. None where the budget does not last.
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

/// A period of jumps at `rate`; None where there are more than the budget lasts for.
pub fn mixture(rate: f64, period_s: f64, operations: f64, budget: &Budget) -> Option<Mixture> {
    budget.lasts(furthest(rate * period_s) * operations)?;
    Some(Mixture::over(rate, period_s).without(LEFT_OUT))
}

impl Later {
    fn new(states: usize, timed: bool) -> Self {
        Self { ended: vec![0.0; states], spent: vec![0.0; if timed { states } else { 0 }] }
    }

    /// Adds a term of the mixture; times only if requested.
    fn add(&mut self, now: &[f64], end: f64, spent_s: f64) {
        add_scaled(&mut self.ended, now, end);
        add_scaled(&mut self.spent, now, spent_s);
    }
}
