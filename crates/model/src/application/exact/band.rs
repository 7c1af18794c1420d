//! The socket and the application in the idle time of the ring as a band, state by state: asleep, then by packets waiting.

use super::budget::Budget;
use super::free::Waited;
use super::laws::Served;
use super::socket::{Cycle, Idle, Node, Socket};
use crate::queue::banded::Banded;

/// Batches and progress rarer than this are left out of the band.
const LEFT_OUT: f64 = 1e-18;

/// Operations an entry of a row takes, about: several at once.
const ENTRY: f64 = 0.3;

/// What a wait of one kind and the excursion after it do to the packets waiting.
struct Moves {
    /// Rates with no progress, by packets brought.
    still: Vec<f64>,
    /// [w]: rates of the change of w packets waiting by progress of at most w, from `progress` fewer to `largest` more; the last
    /// entry holds for all larger w. With `still` only where both are of one kind.
    change: Vec<Vec<f64>>,
    /// [j]: rates of progress of j or more, by packets then brought to an application that fell asleep.
    asleep: Vec<Vec<f64>>,
}

/// The chain of the idle time.
pub struct Band<'a> {
    socket: &'a Socket,
    cycle: &'a Cycle,
    /// By node.
    working: Vec<Moves>,
    switching: Vec<Moves>,
    /// Of waits that find it asleep.
    asleep: Moves,
    /// Largest batch that counts.
    largest: usize,
    progress: usize,
}

/// Progress after the longest that counts.
fn length(waited: &Waited) -> usize {
    let far = |progress: &Vec<f64>| progress.iter().rposition(|p| *p > LEFT_OUT).map_or(0, |last| last + 1);
    waited.ends.iter().map(|end| far(&end.progress)).max().unwrap_or(0)
}

/// The longest progress of all these, at least 1.
pub fn longest_progress<'a>(waits: impl Iterator<Item = &'a Waited>) -> usize {
    waits.map(length).max().unwrap_or(0).max(1)
}

/// Sizes of a band, and what its elimination takes.
pub struct Extent {
    states: usize,
    down: usize,
    up: usize,
}

impl Extent {
    /// Of waits of this progress, and excursions of at most `largest` services.
    pub fn new(socket: &Socket, progress: usize, largest: usize) -> Self {
        let kinds = socket.kinds();
        let states = kinds * socket.most + 2;
        let (down, up) = (kinds * progress, kinds * largest + 1);
        Self { states, down: down.min(states - 1), up: up.min(states - 1) }
    }

    /// Operations of its elimination: from each state `down` times `up`, or as many as there are states below.
    pub fn operations(&self) -> f64 {
        let [states, down, up] = [self.states, self.down, self.up].map(|count| count as f64);
        let (few, many) = (down.min(up), down.max(up));
        let lowest = few * few * few / 3.0 + few * (many * many - few * few) / 2.0;
        ENTRY * (lowest + few * many * (states - many))
    }
}

impl<'a> Band<'a> {
    /// None where the budget does not last.
    pub fn new(socket: &'a Socket, cycle: &'a Cycle, arrival_pps: f64, budget: &Budget) -> Option<Self> {
        let rare = |served: &Served| served.at_least.iter().rposition(|tail| *tail > LEFT_OUT).unwrap_or(1);
        let laws = cycle.nodes.iter().flat_map(|node| &node.served).chain(&cycle.woken);
        let largest = laws.map(rare).max().unwrap_or(1);
        let all = cycle.nodes.iter().flat_map(|node| [&node.working, &node.switching]);
        let progress = longest_progress(all);
        let moves = |waited: &Waited, served: &[Served], with_still: bool| {
            Moves::new(waited, served, cycle, (progress, largest), arrival_pps, with_still, budget)
        };
        let (mut working, mut switching) = (Vec::new(), Vec::new());
        for node in &cycle.nodes {
            working.push(moves(&node.working, &node.served, true)?);
            switching.push(moves(&node.switching, &node.served, false)?);
        }
        let asleep = moves(&cycle.asleep, &cycle.woken, true)?;
        Some(Self { socket, cycle, working, switching, asleep, largest, progress })
    }

    fn kinds(&self) -> usize {
        self.socket.kinds()
    }

    fn working(&self, waiting: usize) -> usize {
        self.kinds() * waiting + 1
    }

    /// Its stationary vector; None where the budget does not last.
    pub fn stationary(&self, budget: &Budget) -> Option<Idle> {
        let (kinds, most) = (self.kinds(), self.socket.most);
        let extent = Extent::new(self.socket, self.progress, self.largest);
        budget.take(extent.operations())?;
        let Extent { states, down, up } = extent;
        let alike = if self.cycle.nodes.len() == 1 {
            let first = self.working(self.progress + 1);
            first..self.working(most.saturating_sub(self.largest + 1)).max(first)
        } else {
            0..0
        };
        let mut row = |state: usize| self.row(state, down, up);
        let vector = Banded { states, down, up, alike, period: kinds, row: &mut row }.stationary()?;
        let switching = |waiting: usize| if kinds == 1 || waiting == 0 { 0.0 } else { vector[kinds * waiting] };
        let idle = Idle {
            asleep: vector[0],
            switching: (0..=most).map(switching).collect(),
            working: (0..=most).map(|waiting| vector[self.working(waiting)]).collect(),
        };
        Some(idle.normalised())
    }

    /// The nodes at so many packets waiting: (place, share).
    fn blend(&self, waiting: usize) -> impl Iterator<Item = (usize, f64)> {
        let place = |node: &Node| self.cycle.nodes.partition_point(|other| other.waiting < node.waiting);
        let nodes = self.cycle.blend(waiting).into_iter().filter(|(_, share)| *share > 0.0);
        nodes.map(move |(node, share)| (place(node), share))
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
        if state == 0 {
            self.land(&self.asleep, 0, 1.0, &mut put);
            return row;
        }
        let waiting = (state - 1).div_ceil(kinds);
        let works = state == self.working(waiting);
        let (next, rate) = match (works, waiting) {
            (true, 0) => (0, self.socket.read_pps[0]),
            (true, _) => (self.working(waiting - 1), self.socket.read_pps[waiting]),
            (false, _) => (self.working(waiting - 1), self.socket.switch_per_s.unwrap_or(0.0)),
        };
        put(next, rate);
        for (place, share) in self.blend(waiting) {
            let moves = if works { &self.working[place] } else { &self.switching[place] };
            if !works {
                for (more, rate) in moves.still.iter().enumerate().skip(1) {
                    put(kinds * (waiting + more).min(most), share * rate);
                }
            }
            let Some(change) = moves.change.get(waiting).or(moves.change.last()) else { continue };
            for (place, rate) in change.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                // Progress beyond what waits is not among them.
                let to = (waiting + place).saturating_sub(self.progress).min(most);
                put(self.working(to), share * rate);
            }
            self.land(moves, waiting + 1, share, &mut put);
        }
        row
    }

    /// Waits with progress of `from` or more find the application asleep, and the batch wakes it; `share` of them.
    fn land(&self, moves: &Moves, from: usize, share: f64, put: &mut dyn FnMut(usize, f64)) {
        let Some(batches) = moves.asleep.get(from) else { return };
        for (n, rate) in batches.iter().enumerate().skip(1) {
            let to = if self.kinds() == 1 { self.working(n - 1) } else { 2 * n };
            put(to, share * rate);
        }
    }
}

impl Moves {
    /// Of waits after which excursions deliver `served`; `with_still`: `change` has those without progress, too. None where the budget does
    /// not last.
    fn new(
        waited: &Waited,
        served: &[Served],
        cycle: &Cycle,
        (most_progress, largest): (usize, usize),
        arrival_pps: f64,
        with_still: bool,
        budget: &Budget,
    ) -> Option<Self> {
        let length = length(waited);
        // By progress, then packets brought.
        let (mut awake, mut asleep) = (vec![vec![0.0; largest + 1]; length], vec![vec![0.0; largest + 1]; length]);
        for end in &waited.ends {
            let Some(place) = cycle.place(end.packets) else { continue };
            let laws = [(&mut awake, &served[place].equal), (&mut asleep, &cycle.woken[place].equal)];
            for (batches, law) in laws {
                for (sum, share) in batches.iter_mut().zip(&end.progress).filter(|(_, share)| **share > LEFT_OUT) {
                    budget.take(ENTRY * largest as f64)?;
                    let rate = share * arrival_pps;
                    sum.iter_mut().zip(law).for_each(|(sum, p)| *sum += rate * p);
                }
            }
        }
        for progress in (1..length).rev() {
            let (less, more) = asleep.split_at_mut(progress);
            less[progress - 1].iter_mut().zip(&more[0]).for_each(|(sum, rate)| *sum += rate);
        }
        let mut change: Vec<Vec<f64>> = Vec::with_capacity(length);
        for (progress, batches) in awake.iter().enumerate() {
            let mut sum = change.last().cloned().unwrap_or_else(|| vec![0.0; most_progress + largest + 1]);
            if progress > 0 || with_still {
                let moved = &mut sum[most_progress - progress..];
                moved.iter_mut().zip(batches).skip(1).for_each(|(sum, rate)| *sum += rate);
            }
            change.push(sum);
        }
        Some(Self { still: awake.first().cloned().unwrap_or_default(), change, asleep })
    }
}
