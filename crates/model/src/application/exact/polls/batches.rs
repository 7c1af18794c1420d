//! Number of packets that an excursion delivers to the socket. Computed forwards from the beginning if the result is
//! needed for few numbers of packets at the beginning; otherwise backwards from the end, for all these numbers at once,
//! with a column for each remainder of the number of services modulo a full poll.

use super::{Field, Polls, Spread, Stage, Sums, TOGETHER};
use crate::application::exact::budget::Budget;
use crate::application::exact::laws::{LEFT_OUT, Served};
use crate::queue::wide;

/// Operations per entry (approximate).
const ENTRY: f64 = 0.3;
/// A packet during unmasking counts as impossible if its probability is below this.
const NEVER: f64 = 1e-17;

/// Distributions for each number of packets at the beginning: first for busy periods that start with the application
/// awake, then for those that wake it.
type Laws = (Vec<Served>, Vec<Served>);

impl Polls {
    /// Number of packets in the ring that busy periods exceed only with negligible probability, if they begin with
    /// `packets` and have the slowest services. `fits`: returns `None` if a table of this many (services, packets in
    /// the ring) does not fit into the budget.
    pub fn highest(&self, packets: usize, fits: &dyn Fn(usize, usize) -> Option<()>, budget: &Budget) -> Option<usize> {
        /// Once the packets in the ring have fallen this many rows below the highest row reached, the search for the
        /// highest row ends, because even the slowest busy periods then only descend.
        const COMING_DOWN: usize = 16;
        let slowest = self.delivers.len() - 1;
        let mut sums = Sums::default();
        let mut field = Field::new(1, self);
        field.add(packets, 0, 1.0);
        let mut highest = packets;
        let start = [Some(self.isr), Some(self.overhead), self.wakes];
        let before = start.into_iter().flatten().map(|spread| (spread, false));
        let service = (self.delivers[slowest], true);
        for (services, (spread, serves)) in before.chain(std::iter::repeat_n(service, slowest)).enumerate() {
            budget.take(ENTRY * field.rows.len() as f64)?;
            field.spend(&Stage::alike(1, spread), serves, &mut sums);
            field.take_empty(|_, _| ());
            let Some(reached) = field.rows.clone().next_back() else { break };
            highest = highest.max(reached);
            fits(services.max(packets.min(slowest)), highest)?;
            if reached + COMING_DOWN < highest || highest == self.places {
                break;
            }
            field.trim();
        }
        Some(highest)
    }

    /// Returns distributions of the number of services, for busy periods that begin with each number in `packets`, if
    /// `waiting` packets in the socket determine the time of all services. If `asleep`, also for busy periods that wake
    /// the application. More than `top` packets count as impossible. `None` if the budget does not suffice.
    pub fn served(&self, packets: &[usize], waiting: usize, asleep: bool, top: usize, budget: &Budget) -> Option<Laws> {
        let service = self.delivers[waiting];
        let (mut awake, mut woken) = if packets.len() * (1 + usize::from(asleep)) < TOGETHER {
            self.forwards(packets, service, asleep, budget)?
        } else {
            Backwards::new(self, service, top).laws(packets, asleep, budget)?
        };
        let most = self.delivers.len() - 1;
        for law in awake.iter_mut().chain(&mut woken) {
            if law.equal.len() > most {
                law.equal.truncate(most);
                let fewer: f64 = law.equal.iter().sum();
                law.equal.push((1.0 - fewer).max(0.0));
            }
        }
        // All distributions get the length of the longest one with a noticeable probability.
        let some =
            |law: &Served| law.equal.iter().rposition(|share| *share > 0.1 * self.least).map_or(1, |last| last + 1);
        let length = awake.iter().chain(&woken).map(some).max().unwrap_or(1);
        awake.iter_mut().chain(&mut woken).for_each(|law| law.equal.truncate(length));
        Some((awake, woken))
    }

    fn forwards(&self, packets: &[usize], service: Spread, asleep: bool, budget: &Budget) -> Option<Laws> {
        let weight = self.weight;
        let most = self.delivers.len() - 1;
        let run = |field: &mut Field, spread: Spread, serves: bool| -> Option<()> {
            budget.take(ENTRY * (field.rows.len() * field.columns) as f64)?;
            field.spend(&Stage::alike(TOGETHER, spread), serves, &mut Sums::default());
            Some(())
        };
        // Columns: a busy period from each number of packets in `packets`, the same if it wakes the application, and a
        // busy period that begins again during unmasking.
        let (awake, anew) = (packets.len(), packets.len() * (1 + usize::from(asleep)));
        let mut field = Field::new(TOGETHER, self);
        field.add(0, anew, 1.0);
        run(&mut field, self.unmask, false)?;
        field.take_empty(|_, _| ());
        packets.iter().enumerate().for_each(|(column, packets)| field.add(*packets, column, 1.0));
        if asleep {
            packets.iter().enumerate().for_each(|(column, packets)| field.add(*packets, awake + column, 1.0));
        }
        run(&mut field, self.isr, false)?;
        let mut ended = vec![vec![0.0]; anew + 1];
        let mut first = true;
        while field.total() > self.least && ended[0].len() <= most {
            run(&mut field, self.overhead, false)?;
            let before = ended[0].len() - 1;
            field.take_empty(|column, weight| ended[column][before] += weight);
            for place in 0..weight {
                let served = before + place + 1;
                ended.iter_mut().for_each(|law| law.push(0.0));
                if let Some(wakes) = self.wakes.filter(|_| first && asleep) {
                    self.wake(&mut field, awake..anew, service, wakes);
                    first = false;
                } else {
                    run(&mut field, service, true)?;
                }
                if place + 1 < weight {
                    field.take_empty(|column, weight| ended[column][served] += weight);
                }
            }
            field.trim();
        }
        let anew = ended.pop()?;
        let laws = if self.unmask.up < NEVER { ended } else { renewed(&ended, &anew, self.unmask.leave, most) };
        let mut awake: Vec<Served> = laws.into_iter().map(|equal| Served { equal }).collect();
        let woken = awake.split_off(packets.len());
        Some((awake, woken))
    }

    /// Computes the first service, with a wake-up in the columns `woken`.
    fn wake(&self, field: &mut Field, woken: std::ops::Range<usize>, service: Spread, wakes: Spread) {
        let nothing = Spread { up: 0.0, leave: 1.0, mean_s: 0.0 };
        let mut stage = Stage::alike(TOGETHER, nothing);
        woken.clone().for_each(|column| stage.set(column, service, usize::MAX));
        field.spend(&stage, false, &mut Sums::default());
        let mut stage = Stage::alike(TOGETHER, service);
        woken.for_each(|column| stage.set(column, wakes, usize::MAX));
        field.spend(&stage, true, &mut Sums::default());
    }
}

/// Distributions of the number of services until busy periods finally end, computed from the distributions `first`
/// until they end for the first time: a packet that arrives during unmasking makes a busy period begin again. `anew`:
/// distribution, until the next end, for a busy period that begins again; `leave`: P(it does not begin again).
fn renewed(first: &[Vec<f64>], anew: &[f64], leave: f64, most: usize) -> Vec<Vec<f64>> {
    let backwards = |law: &[f64]| -> Vec<f64> { law[..law.len().min(most + 1)].iter().rev().copied().collect() };
    let against = |values: &[f64], services: usize, law: &[f64]| -> f64 {
        // Sum over j from 1 of law[j] values[services - j].
        let reach = services.min(law.len() - 1);
        wide::run(Dot(&law[law.len() - 1 - reach..law.len() - 1], &values[services - reach..services]))
    };
    // Services after the first poll that emptied the ring, until more have a negligible probability.
    let again = backwards(anew);
    let mut after = vec![leave];
    while after.len() <= most
        && after[after.len().saturating_sub(again.len())..].iter().any(|share| *share > 0.1 * NEVER)
    {
        after.push(against(&after, after.len(), &again));
    }
    after.resize((after.len() + anew.len()).min(most + 1), 0.0);
    let each = |law: &Vec<f64>| -> Vec<f64> {
        let backwards = backwards(law);
        let all = |services: usize| against(&after, services, &backwards) + law[0] * after[services];
        (0..after.len()).map(all).collect()
    };
    first.iter().map(each).collect()
}

struct Dot<'a>(&'a [f64], &'a [f64]);

impl wide::Work for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        wide::product(self.0, self.1)
    }
}

/// Computes distributions backwards from the end of a busy period, one block of services at a time. States are the
/// numbers of packets just after the first service of each poll.
struct Backwards<'a> {
    polls: &'a Polls,
    service: Spread,
    /// Maximum number of packets in the ring.
    top: usize,
}

/// Expected values by packets in the ring (rows, 0 to top) and by number of remaining services (columns).
#[derive(Clone)]
struct Block {
    /// Number of rows.
    height: usize,
    /// The rows of the first [`TOGETHER`] columns, then the rows of the next [`TOGETHER`] columns, and so on.
    at: Vec<[f64; TOGETHER]>,
}

impl Block {
    fn new(top: usize, columns: usize) -> Self {
        let height = top + 1;
        Self { height, at: vec![[0.0; TOGETHER]; columns.div_ceil(TOGETHER) * height] }
    }

    fn at(&self, packets: usize, column: usize) -> f64 {
        self.at[column / TOGETHER * self.height + packets][column % TOGETHER]
    }

    fn at_mut(&mut self, packets: usize, column: usize) -> &mut f64 {
        &mut self.at[column / TOGETHER * self.height + packets][column % TOGETHER]
    }

    /// Replaces the values after a stage by the values before it. If the stage `serves`, a packet leaves at its end,
    /// and an empty ring has the value 0.
    fn before(&mut self, spread: Spread, places: usize, serves: bool) {
        wide::run(Before { block: self, spread, places, serves });
    }
}

struct Before<'a> {
    block: &'a mut Block,
    spread: Spread,
    places: usize,
    serves: bool,
}

impl wide::Work for Before<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { block: Block { height, at }, spread: Spread { up, leave, .. }, places, serves } = self;
        let below = usize::from(serves);
        for part in at.chunks_exact_mut(*height) {
            let mut above = [0.0; TOGETHER];
            for packets in (below..*height).rev() {
                let (up, leave) = if packets == places { (0.0, 1.0) } else { (up, leave) };
                let after = part[packets - below];
                for column in 0..TOGETHER {
                    above[column] = leave * after[column] + up * above[column];
                }
                part[packets] = above;
            }
            if serves {
                part[0] = [0.0; TOGETHER];
            }
        }
    }
}

impl<'a> Backwards<'a> {
    fn new(polls: &'a Polls, service: Spread, top: usize) -> Self {
        Self { polls, service, top }
    }

    /// Replaces the values just after the first service of a poll by the values one poll earlier. `ends`: adds the
    /// probability, for each number of services, that the poll leaves the ring empty.
    fn turn(&self, block: &mut Block, ends: bool) {
        let Polls { places, weight, overhead, .. } = *self.polls;
        block.before(self.service, places, true);
        let end = |block: &mut Block, services: usize| {
            if ends {
                *block.at_mut(0, services) = 1.0;
            }
        };
        end(block, weight - 1);
        block.before(overhead, places, false);
        for services in (1..weight).rev() {
            block.before(self.service, places, true);
            if services > 1 {
                end(block, services - 1);
            }
        }
    }

    fn laws(&self, packets: &[usize], asleep: bool, budget: &Budget) -> Option<Laws> {
        let Polls { places, weight, isr, overhead, unmask, .. } = *self.polls;
        let most = self.polls.delivers.len() - 1;
        let take = || budget.take(ENTRY * ((self.top + 1) * weight * weight) as f64);
        take()?;
        let mut block = Block::new(self.top, weight);
        self.turn(&mut block, true);
        // [packets]: P(the poll leaves the ring empty after j more services), the largest j first.
        let reach = weight.min(self.top + 1);
        let ending: Vec<Vec<f64>> =
            (0..reach).map(|packets| (1..weight).rev().map(|column| block.at(packets, column)).collect()).collect();
        // Distribution of packets just after the first service of a busy period that began again during unmasking.
        let anew = self.anew();
        let mut awake = vec![Served { equal: vec![0.0] }; packets.len()];
        let mut woken = if asleep { awake.clone() } else { Vec::new() };
        // P(number of services) after a poll that left the ring empty.
        let mut after: Vec<f64> = Vec::new();
        block.at.fill([0.0; TOGETHER]);
        loop {
            let before_last = (0..anew.len()).map(|packets| block.at(packets, weight - 1)).collect::<Vec<_>>();
            if !after.is_empty() {
                take()?;
                self.turn(&mut block, false);
            }
            for column in 0..weight {
                let mut renewed = 0.0;
                for (packets, share) in anew.iter().enumerate() {
                    let expected = if column == 0 { before_last[packets] } else { block.at(packets, column - 1) };
                    renewed += share * expected;
                }
                let services = after.len();
                after.push(renewed + if services == 0 { unmask.leave } else { 0.0 });
                *block.at_mut(0, column) = after[services];
                let reach = (weight - 1).min(services);
                let past = &after[services - reach..services];
                if past.iter().all(|share| *share == 0.0) {
                    continue;
                }
                for (packets, ending) in ending.iter().enumerate().skip(1) {
                    let ending = &ending[ending.len() - reach..];
                    *block.at_mut(packets, column) += wide::run(Dot(ending, past));
                }
            }
            let before = |stages: &[(Spread, bool)], laws: &mut [Served]| {
                let mut expected = block.clone();
                stages.iter().for_each(|(spread, serves)| expected.before(*spread, places, *serves));
                for (packets, law) in packets.iter().zip(laws) {
                    law.equal.extend((0..weight).map(|column| expected.at(*packets, column)));
                }
            };
            before(&[(self.service, true), (overhead, false), (isr, false)], &mut awake);
            if let Some(wakes) = self.polls.wakes.filter(|_| asleep) {
                before(&[(wakes, true), (self.service, false), (overhead, false), (isr, false)], &mut woken);
            }
            if after.len() >= most || awake.iter().chain(&woken).all(|law| law.is_over(budget.least(LEFT_OUT))) {
                return Some((awake, woken));
            }
        }
    }

    /// `[n]`: P(packets arrive during unmasking, and n packets are left just after the next first service). Empty if
    /// the probability is negligible.
    fn anew(&self) -> Vec<f64> {
        let Polls { isr, overhead, unmask, .. } = *self.polls;
        if unmask.up < NEVER {
            return Vec::new();
        }
        let mut field = Field::new(1, self.polls);
        let mut sums = Sums::default();
        field.add(0, 0, 1.0);
        for (spread, serves) in [(unmask, false), (isr, false), (overhead, false), (self.service, true)] {
            field.spend(&Stage::alike(1, spread), serves, &mut sums);
            if !serves {
                field.take_empty(|_, _| ());
            }
        }
        (0..field.rows.end.min(self.top + 1)).map(|packets| field.get(packets, 0)).collect()
    }
}
