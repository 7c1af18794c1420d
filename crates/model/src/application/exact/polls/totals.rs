//! Sums over excursions, block by block. A block covers as many values of free space in the socket as a full poll has
//! packets, so that a poll that begins in one block ends in the next.

use super::{Field, ISR, OVERHEAD, Polls, SERVING, Spread, Stage, Sums, TOGETHER, UNMASK};
use crate::application::exact::budget::Budget;
use crate::application::exact::sweep::{Begun, Totals};

/// Busy periods with one particular number of packets and free space in the socket are left out if they are a smaller
/// share of all, also those that begin again during unmasking.
const RARE: f64 = 1e-17;
/// Operations per entry (approximate).
const ENTRY: f64 = 0.3;
/// Number of polls with a full socket that are computed one by one.
const FOLLOWED: usize = 12;

/// One pass over all excursions that begin in a second.
pub struct Pass<'a> {
    polls: &'a Polls,
    /// Maximum number of packets in the socket.
    most: usize,
    budget: &'a Budget,
    /// Total rate of excursions, to which weights are relative.
    all: f64,
    /// Rate of polls that leave the ring empty, by free space in the socket.
    idle: Vec<f64>,
    /// Free space in the socket above which busy periods never fill it. Their deliveries do not depend on the space, so
    /// that all of them are computed together.
    filling: usize,
    sums: Sums,
    /// Empty fields for reuse, because allocating one takes as long as computing with it.
    spare: Vec<Field>,
    totals: Totals,
}

impl<'a> Pass<'a> {
    /// Sums over the busy periods of `begun`, which have at most `longest` services; `None` if the budget does not
    /// suffice.
    pub fn totals(
        polls: &'a Polls,
        (most, longest): (usize, usize),
        begun: &Begun,
        budget: &'a Budget,
    ) -> Option<Totals> {
        let none = vec![0.0; SERVING + polls.weight];
        let totals = Totals { present_s: none.clone(), empty_s: none, ..Totals::default() };
        let all = begun.total();
        let filling = if polls.is_uniform { longest.min(most) } else { most };
        let idle = vec![0.0; most + 1];
        let mut pass =
            Self { polls, most, budget, all, idle, filling, sums: Sums::default(), spare: Vec::new(), totals };
        if all > 0.0 {
            pass.run(begun)?;
        }
        Some(pass.totals)
    }

    fn field(&mut self, columns: usize) -> Field {
        let place = self.spare.iter().position(|field| field.columns == columns.next_multiple_of(TOGETHER));
        place.map_or_else(|| Field::new(columns, self.polls), |place| self.spare.swap_remove(place))
    }

    fn give_back(&mut self, mut field: Field) {
        field.clear();
        self.spare.push(field);
    }

    fn run(&mut self, begun: &Begun) -> Option<()> {
        let (weight, most) = (self.polls.weight, self.most);
        let (woken, woken_room) = self.wake(begun)?;
        let asleep = self.polls.wakes.is_none().then_some(&begun.asleep);
        if self.filling < most {
            self.together(begun, (&woken, woken_room))?;
        }
        let mut polled = self.field(weight);
        let mut entered = self.field(weight);
        for block in (0..=self.filling / weight).rev() {
            let rooms: Vec<usize> = (0..weight).map(|column| block * weight + column).collect();
            if let Some(column) =
                rooms.iter().position(|room| *room > 0 && *room == woken_room && *room <= self.filling)
            {
                woken.rows.clone().for_each(|packets| polled.add(packets, column, woken.get(packets, 0)));
            }
            for (packets, rates) in &begun.awake {
                for (column, room) in rooms.iter().enumerate().filter(|(_, room)| **room > 0 && **room <= self.filling)
                {
                    let share = rates[*room] / self.all;
                    if share > RARE {
                        entered.add(*packets, column, share);
                    }
                }
            }
            if let Some(column) = rooms.iter().position(|room| *room == most && *room <= self.filling) {
                for (packets, rate) in asleep.into_iter().flatten().filter(|(_, rate)| *rate > 0.0) {
                    entered.add(*packets, column, rate / self.all);
                }
            }
            // Polls of a block that leave the ring empty within the same block continue in it.
            let mut carried = self.field(weight);
            loop {
                self.unmask(&rooms, &mut entered)?;
                self.interrupt(&rooms, &mut entered)?;
                polled.add_all(&entered);
                entered.clear();
                if polled.is_empty() {
                    break;
                }
                self.poll(&mut polled, &rooms, 0)?;
                carried.add_all(&polled);
                polled.clear();
            }
            self.give_back(std::mem::replace(&mut polled, carried));
        }
        let mut full = self.field(1);
        let merged = polled.rows.clone();
        merged.for_each(|packets| full.add(packets, 0, polled.row_sum(packets)));
        if woken_room == 0 {
            woken.rows.clone().for_each(|packets| full.add(packets, 0, woken.get(packets, 0)));
        }
        for (packets, rates) in begun.awake.iter().filter(|(_, rates)| rates[0] > RARE * self.all) {
            entered.add(*packets, 0, rates[0] / self.all);
        }
        let mut begins = self.field(1);
        entered.rows.clone().for_each(|packets| begins.add(packets, 0, entered.get(packets, 0)));
        self.drop(full, begins)
    }

    /// Sums over busy periods that start with more free space in the socket than they can fill. Weights are their
    /// number in the first column, and their number times the packets in the socket in the second.
    fn together(&mut self, begun: &Begun, (woken, woken_room): (&Field, usize)) -> Option<()> {
        let (weight, most) = (self.polls.weight, self.most);
        let rooms = self.filling + 1..most + 1;
        let mut entered = self.field(2);
        for (packets, rates) in &begun.awake {
            let rates = &rates[rooms.clone()];
            let waiting: f64 = rates.iter().rev().enumerate().map(|(waiting, rate)| waiting as f64 * rate).sum();
            entered.add(*packets, 0, rates.iter().sum::<f64>() / self.all);
            entered.add(*packets, 1, waiting / self.all);
        }
        if self.polls.wakes.is_none() {
            begun.asleep.iter().for_each(|(packets, rate)| entered.add(*packets, 0, rate / self.all));
        }
        let mut polled = self.field(2);
        if rooms.contains(&woken_room) {
            for packets in woken.rows.clone() {
                polled.add(packets, 0, woken.get(packets, 0));
                polled.add(packets, 1, (most - woken_room) as f64 * woken.get(packets, 0));
            }
        }
        let mut idle = [0.0; 2];
        for room in rooms {
            let weight = std::mem::take(&mut self.idle[room]);
            idle[0] += weight;
            idle[1] += (most - room) as f64 * weight;
        }
        loop {
            let mut unmasked = self.field(2);
            for (column, weight) in idle.iter_mut().enumerate().filter(|(_, weight)| **weight > 0.0) {
                unmasked.add(0, column, std::mem::take(weight));
            }
            self.stage_together(&mut unmasked, UNMASK, self.polls.unmask, 0)?;
            unmasked.take_empty(|_, _| ());
            if unmasked.total() > RARE {
                entered.add_all(&unmasked);
            }
            self.give_back(unmasked);
            self.stage_together(&mut entered, ISR, self.polls.isr, 0)?;
            polled.add_all(&entered);
            entered.clear();
            if polled.total() < self.polls.least {
                return Some(());
            }
            self.stage_together(&mut polled, OVERHEAD, self.polls.overhead, 0)?;
            polled.take_empty(|column, weight| idle[column] += weight);
            for served in 0..weight {
                self.stage_together(&mut polled, SERVING + served, self.polls.delivers[0], served)?;
                if served + 1 < weight {
                    polled.take_empty(|column, weight| {
                        idle[column] += weight;
                        idle[1] += if column == 0 { (served + 1) as f64 * weight } else { 0.0 };
                    });
                }
            }
            polled.trim();
            for packets in polled.rows.clone() {
                polled.add(packets, 1, weight as f64 * polled.get(packets, 0));
            }
        }
    }

    /// Computes one stage of the busy periods that never fill the socket, after `served` packets of a poll.
    fn stage_together(&mut self, field: &mut Field, stage: usize, spread: Spread, served: usize) -> Option<()> {
        if field.is_empty() {
            return Some(());
        }
        let mut columns = Stage::new(2);
        // The second column must not add to the times, so that its mean time is 0: its number of ends is only the sum
        // of the packets waiting in the socket.
        [0, 1].into_iter().for_each(|column| columns.set(column, spread, self.most));
        columns.mean_s[1] = 0.0;
        let serves = stage >= SERVING;
        self.spend(field, stage, &columns, serves)?;
        let [ends, waiting] = [self.sums.all[0], self.sums.all[1]];
        self.totals.waiting_area += self.all * spread.mean_s * (waiting + served as f64 * ends);
        self.totals.taken += if serves { self.all * ends } else { 0.0 };
        Some(())
    }

    /// Computes busy periods that wake a sleeping application, if that takes time. Returns the packets at the beginning
    /// of the next poll, and the socket's free space at that time.
    fn wake(&mut self, begun: &Begun) -> Option<(Field, usize)> {
        let weight = self.polls.weight;
        let mut field = self.field(1);
        let Some(wakes) = self.polls.wakes else { return Some((field, 0)) };
        for (packets, rate) in begun.asleep.iter().filter(|(_, rate)| *rate > RARE * self.all) {
            field.add(*packets, 0, rate / self.all);
        }
        if field.is_empty() {
            return Some((field, 0));
        }
        let rooms = [self.most];
        self.interrupt(&rooms, &mut field)?;
        self.stage(&mut field, OVERHEAD, &rooms, self.polls.overhead, false)?;
        self.stage(&mut field, SERVING, &rooms, self.polls.delivers[0], false)?;
        self.stage(&mut field, SERVING, &rooms, wakes, true)?;
        self.totals.taken += self.all * self.sums.all[0];
        let left = self.most - 1;
        field.take_empty(|_, weight| self.idle[left] += weight);
        self.poll(&mut field, &[left], 1)?;
        Some((field, left.saturating_sub(weight - 1)))
    }

    /// Computes unmasking after polls that left the ring empty, by column and free space in the socket. Packets that
    /// arrive during unmasking begin the busy period again.
    fn unmask(&mut self, rooms: &[usize], entered: &mut Field) -> Option<()> {
        let mut field = self.field(rooms.len());
        for (column, room) in rooms.iter().enumerate() {
            if let Some(idle) = self.idle.get_mut(*room).filter(|idle| **idle > 0.0 && *room > 0) {
                field.add(0, column, std::mem::take(idle));
            }
        }
        self.stage(&mut field, UNMASK, rooms, self.polls.unmask, false)?;
        field.take_empty(|_, _| ());
        if field.total() > RARE {
            entered.add_all(&field);
        }
        self.give_back(field);
        Some(())
    }

    fn interrupt(&mut self, rooms: &[usize], entered: &mut Field) -> Option<()> {
        self.stage(entered, ISR, rooms, self.polls.isr, false)
    }

    /// Computes one stage that is equal for all columns.
    fn stage(&mut self, field: &mut Field, stage: usize, rooms: &[usize], spread: Spread, serves: bool) -> Option<()> {
        if field.is_empty() {
            return Some(());
        }
        let mut columns = Stage::new(rooms.len());
        rooms.iter().enumerate().for_each(|(column, room)| columns.set(column, spread, (*room).min(self.most)));
        self.spend(field, stage, &columns, serves)
    }

    fn spend(&mut self, field: &mut Field, stage: usize, columns: &Stage, serves: bool) -> Option<()> {
        self.budget.take(ENTRY * (field.rows.len() * field.columns) as f64)?;
        let mut sums = std::mem::take(&mut self.sums);
        field.spend(columns, serves, &mut sums);
        let totals = &mut self.totals;
        let has_empty = !serves && field.rows.start == 0;
        for column in 0..columns.up.len() {
            let each = self.all * columns.mean_s[column];
            let time = each * sums.all[column];
            let empty = if has_empty { each * field.get(0, column) } else { 0.0 };
            totals.present_s[stage] += time - empty;
            totals.empty_s[stage] += empty;
            totals.full_s += each * sums.full[column];
            totals.area += each * sums.packets[column];
            totals.taken_area += each * sums.taken[column];
            totals.waiting_area += time * (self.most as f64 - columns.room[column]);
        }
        self.sums = sums;
        Some(())
    }

    /// Computes the services of polls from number `from` on, and the overhead before the first service; `rooms`: free
    /// space of each column.
    fn poll(&mut self, field: &mut Field, rooms: &[usize], from: usize) -> Option<()> {
        let weight = self.polls.weight;
        if from == 0 {
            self.stage(field, OVERHEAD, rooms, self.polls.overhead, false)?;
            field.take_empty(|column, weight| self.idle[rooms[column]] += weight);
        }
        let mut columns = Stage::new(rooms.len());
        for service in from..weight {
            if field.is_empty() {
                break;
            }
            let served = service - from;
            for (column, room) in rooms.iter().enumerate() {
                let left = room.saturating_sub(served).min(self.most);
                let spread = if left > 0 { self.polls.delivers[self.most - left] } else { self.polls.drops };
                columns.set(column, spread, left);
            }
            self.spend(field, SERVING + service, &columns, true)?;
            for (column, room) in rooms.iter().enumerate() {
                let packets = self.all * self.sums.all[column];
                if *room > served { self.totals.taken += packets } else { self.totals.dropped += packets }
            }
            if service + 1 < weight {
                field.take_empty(|column, weight| {
                    self.idle[rooms[column].saturating_sub(served + 1)] += weight;
                });
            }
        }
        field.trim();
        Some(())
    }

    /// Computes polls with a full socket, and excursions that begin with a full socket.
    fn drop(&mut self, mut polled: Field, mut begins: Field) -> Option<()> {
        for _ in 0..FOLLOWED {
            self.begin_anew(&mut begins, None)?;
            polled.add_all(&begins);
            begins.clear();
            if polled.total() < self.polls.least {
                return Some(());
            }
            self.poll(&mut polled, &[0], 0)?;
        }
        self.begin_anew(&mut begins, None)?;
        polled.add_all(&begins);
        begins.clear();
        // Each busy period empties the ring at its end, and once more each time it begins again during unmasking.
        let to_come = polled.total() / self.polls.unmask.leave;
        self.begin_anew(&mut begins, Some(to_come))?;
        polled.add_all(&begins);
        let mut all = self.polls.visits_beyond_full(&polled, self.budget)?;
        self.poll(&mut all, &[0], 0)
    }

    /// Computes unmasking after polls that left the ring empty with a full socket, or after `count` such polls, and the
    /// interrupts that follow.
    fn begin_anew(&mut self, begins: &mut Field, count: Option<f64>) -> Option<()> {
        let idle = std::mem::take(&mut self.idle[0]);
        let mut field = self.field(1);
        if let Some(count) = Some(count.unwrap_or(idle)).filter(|count| *count > 0.0) {
            field.add(0, 0, count);
        }
        self.stage(&mut field, UNMASK, &[0], self.polls.unmask, false)?;
        field.take_empty(|_, _| ());
        if field.total() > RARE {
            begins.add_all(&field);
        }
        self.interrupt(&[0], begins)
    }
}

impl Polls {
    /// Number of polls with a full socket, by packets at their beginning, until the ring is empty.
    fn visits_beyond_full(&self, begins: &Field, budget: &Budget) -> Option<Field> {
        let Self { places, weight, .. } = *self;
        let states = places + 1;
        // [k]: P(the next poll begins with j packets), for j from k - weight on; and P(no poll follows).
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(states);
        let mut ends = Vec::with_capacity(states);
        let (overhead, service) = (Stage::alike(weight, self.overhead), Stage::alike(weight, self.drops));
        let mut sums = Sums::default();
        for first in (0..states).step_by(weight) {
            let count = weight.min(states - first);
            let mut field = Field::new(weight, self);
            let mut over = vec![0.0; count];
            (0..count).for_each(|column| field.add(first + column, column, 1.0));
            for stage in 0..=weight {
                budget.take(ENTRY * (field.rows.len() * field.columns) as f64)?;
                field.spend(if stage == 0 { &overhead } else { &service }, stage > 0, &mut sums);
                if stage < weight {
                    field.take_empty(|column, weight| over[column] += weight);
                }
            }
            for column in 0..count {
                let lowest = (first + column).saturating_sub(weight);
                let last = field.rows.clone().rev().find(|packets| field.get(*packets, column) > RARE);
                let last = last.unwrap_or(lowest).max(first + column);
                rows.push((lowest..=last).map(|packets| field.get(packets, column)).collect());
            }
            ends.extend(over);
        }
        // Elimination from the top without subtraction (GTH).
        let lowest = |state: usize| state.saturating_sub(weight);
        let mut entries: Vec<f64> = (0..states).map(|packets| begins.get(packets, 0)).collect();
        let mut leaving = vec![0.0; states];
        for top in (0..states).rev() {
            let down: Vec<f64> = rows[top][..top - lowest(top)].to_vec();
            let out = down.iter().sum::<f64>() + ends[top];
            leaving[top] = out;
            budget.take((rows[top].len() * down.len()) as f64)?;
            for state in (0..top).rev() {
                let place = top - lowest(state);
                let Some(factor) = rows[state].get(place).map(|rate| rate / out).filter(|factor| *factor > 0.0) else {
                    continue;
                };
                let from = lowest(top) - lowest(state);
                rows[state][from..from + down.len()]
                    .iter_mut()
                    .zip(&down)
                    .for_each(|(sum, rate)| *sum += factor * rate);
                ends[state] += factor * ends[top];
            }
            let factor = entries[top] / out;
            entries[lowest(top)..top].iter_mut().zip(&down).for_each(|(sum, rate)| *sum += factor * rate);
        }
        let mut found = Field::new(1, self);
        let mut visits = vec![0.0; states];
        for state in 0..states {
            let from = (0..state).filter_map(|other| {
                rows[other].get(state.checked_sub(lowest(other))?).map(|rate| visits[other] * rate)
            });
            let all = entries[state] + from.sum::<f64>();
            visits[state] = all / leaving[state];
            found.add(state, 0, visits[state]);
        }
        Some(found)
    }
}
