//! [`Stretch`]: effect of a deterministic time on announced packets, which are served, and on packets that arrive
//! during this time.

use super::{Row, Tally};
use crate::queue::arrivals::ArrivalCounts;
use crate::queue::uniform::poisson;

/// Probability below which numbers of jumps are left out.
pub const LEFT_OUT: f64 = 1e-16;
/// Maximum number of events of a stretch.
const MOST_EVENTS: f64 = 4e3;

/// A constant time with arrivals, services of announced packets, and possibly a count that ends it earlier.
pub struct Stretch {
    pub length_s: f64,
    places: usize,
    /// Number of packets not yet announced that ends the stretch; `None` if packets are not counted.
    frames: Option<usize>,
    /// P(an event is an arrival).
    arrival: f64,
    /// Mean time between events (s).
    event_s: f64,
    /// P(n events), and P(more than n events), during the stretch.
    events: ArrivalCounts,
    /// P(n services), and P(more than n services), as if announced packets never run out.
    services: ArrivalCounts,
    arrivals: ArrivalCounts,
    service_s: f64,
    /// Maximum number of services, and below of arrivals; more are negligible.
    pub down: usize,
    pub up: usize,
}

fn counts(load: f64, most: usize) -> (ArrivalCounts, usize) {
    let counts = poisson(load);
    let reach = counts.above.iter().position(|tail| *tail < LEFT_OUT).unwrap_or(counts.above.len() - 1);
    (counts, reach.min(most))
}

impl Stretch {
    /// Makes the stretch; the error states that it has too many events.
    pub fn new(
        arrival_pps: f64,
        service_pps: f64,
        places: usize,
        length_s: f64,
        frames: Option<usize>,
    ) -> Result<Self, String> {
        let rate = arrival_pps + service_pps;
        let load = rate * length_s;
        if load > MOST_EVENTS {
            return Err(format!(
                "a timer of {} holds some {load:.0} arrivals and services, more than the {MOST_EVENTS} that unmasked \
                 coalescing is solved with: use masked=true, fidelity paper or the simulator",
                netcliff_core::units::print_time_s(length_s)
            ));
        }
        let (events, _) = counts(load, usize::MAX);
        let (services, down) = counts(service_pps * length_s, places);
        let (arrivals, up) = counts(arrival_pps * length_s, places);
        let up = frames.map_or(up, |frames| up.min(frames)) + 1;
        let (arrival, event_s, service_s) = (arrival_pps / rate, 1.0 / rate, 1.0 / service_pps);
        Ok(Self {
            length_s,
            places,
            frames,
            arrival,
            event_s,
            events,
            services,
            arrivals,
            service_s,
            down: down + 1,
            up: up.min(places),
        })
    }

    /// True if announced packets may run out while others find the ring full.
    pub fn needs_both(&self, announced: usize, waiting: usize) -> bool {
        announced < self.down && announced + waiting + self.up > self.places
    }

    /// Number of operations for all rows. Unless `exact`, rows use the level alone, even if the ring may be full.
    pub fn operations(&self, exact: bool) -> f64 {
        let events = self.events.equal.len() as f64;
        let (down, up, places) = (self.down.min(self.places) as f64, self.up as f64, self.places as f64);
        let by_level = up * (down + up) * events;
        let free = if self.frames.is_none() { down * down * up } else { 0.0 };
        if !exact {
            return by_level + free;
        }
        by_level + free + (down + up).min(places + 1.0) * down * (up + 2.0) * events
    }

    /// Returns the distribution of levels after the stretch, from this number of `announced` and `waiting` packets.
    /// `exact`: announced packets may run out while arrivals are dropped. `apart`: returns entries in two halves, the
    /// second one for stretches without arrivals.
    pub fn row(&self, announced: usize, waiting: usize, exact: bool, apart: bool) -> Row {
        let blocks = announced + waiting + self.up > self.places;
        if apart || self.frames.is_some() || (exact && self.needs_both(announced, waiting)) {
            return self.by_both(announced, waiting, apart);
        }
        if blocks { self.by_level(announced + waiting) } else { self.free(announced, waiting) }
    }

    /// Row if no arrival is dropped: services and arrivals are then independent.
    fn free(&self, announced: usize, waiting: usize) -> Row {
        let lowest = announced.saturating_sub(self.down);
        let mut left = vec![0.0; announced - lowest + 1];
        for (n, share) in left.iter_mut().enumerate() {
            let served = announced - lowest - n;
            *share = match lowest + n {
                0 if announced == 0 => 1.0,
                0 => self.services.above.get(announced - 1).copied().unwrap_or(0.0),
                _ => self.services.equal.get(served).copied().unwrap_or(0.0),
            };
        }
        let mut levels = vec![0.0; left.len() + self.up];
        for (n, share) in left.iter().enumerate() {
            let come = levels[n..].iter_mut().zip(&self.arrivals.equal[..self.arrivals.equal.len().min(self.up + 1)]);
            come.for_each(|(sum, arrived)| *sum += share * arrived);
        }
        let mut tally = Tally { length_s: self.length_s, ..Tally::default() };
        // P(more than d services in the time) x mean service is the mean time with exactly d packets served, if more
        // packets are announced.
        let mut busy_s = 0.0;
        for served in 0..announced {
            let Some(tail) = self.services.above.get(served) else { break };
            let here_s = tail * self.service_s;
            busy_s += here_s;
            tally.present += (announced - served) as f64 * here_s;
            if served + 1 == announced {
                tally.last_s = here_s;
            }
        }
        tally.busy_s = busy_s;
        tally.idle_s = if announced < self.down { self.idle_s(announced) } else { 0.0 };
        let load = self.arrival / self.event_s * self.length_s;
        tally.present += self.length_s * (waiting as f64 + 0.5 * load);
        Row { base: lowest + waiting, levels, tally }
    }

    /// Mean time without announced packets (s), after `announced` services: excess of the services x mean service.
    fn idle_s(&self, announced: usize) -> f64 {
        self.services.excess.get(announced).copied().unwrap_or(0.0) * self.service_s
    }

    /// Row by the level alone, if announced packets cannot run out.
    fn by_level(&self, level: usize) -> Row {
        let lowest = level.saturating_sub(self.down);
        let top = (level + self.up).min(self.places);
        let length = top - lowest + 1;
        let (mut now, mut next) = (vec![0.0; length], vec![0.0; length]);
        now[level - lowest] = 1.0;
        let mut row = Row { base: lowest, levels: vec![0.0; length], tally: Tally::default() };
        for (end, more) in self.events.equal.iter().zip(&self.events.above) {
            next.fill(0.0);
            let here_s = more * self.event_s;
            for n in 0..length {
                let share = now[n];
                if share == 0.0 {
                    continue;
                }
                row.levels[n] += share * end;
                row.tally.present += (lowest + n) as f64 * share * here_s;
                row.tally.full_s += if lowest + n == self.places { share * here_s } else { 0.0 };
                next[(n + 1).min(length - 1)] += share * self.arrival;
                next[n.saturating_sub(1)] += share * (1.0 - self.arrival);
            }
            std::mem::swap(&mut now, &mut next);
        }
        row.tally.length_s = self.length_s;
        row.tally.busy_s = self.length_s;
        row
    }

    /// Row by the pair (announced, not announced).
    fn by_both(&self, announced: usize, waiting: usize, apart: bool) -> Row {
        let lowest = announced.saturating_sub(self.down);
        let (rows, width) = (announced - lowest + 1, self.up + 2);
        let (mut now, mut next) = (vec![0.0; rows * width], vec![0.0; rows * width]);
        now[(rows - 1) * width + waiting] = 1.0;
        let mut ended = vec![0.0; rows * width];
        let top = (announced + width).min(self.places);
        let mut levels = vec![0.0; top + 1 - lowest];
        let mut tally = Tally::default();
        let service = 1.0 - self.arrival;
        for (end, more) in self.events.equal.iter().zip(&self.events.above) {
            next.fill(0.0);
            let here_s = more * self.event_s;
            for place in 0..rows * width {
                let share = now[place];
                if share < 1e-40 {
                    continue;
                }
                let (left, come) = (lowest + place / width, place % width);
                let full = left + come >= self.places;
                ended[place] += share * end;
                let spent_s = share * here_s;
                tally.length_s += spent_s;
                *(if left == 0 { &mut tally.idle_s } else { &mut tally.busy_s }) += spent_s;
                tally.last_s += if left == 1 { spent_s } else { 0.0 };
                tally.full_s += if full { spent_s } else { 0.0 };
                tally.present += (left + come) as f64 * spent_s;
                if full {
                    next[place] += share * self.arrival;
                } else if self.frames.is_some_and(|frames| come + 1 >= frames) {
                    // The next event, if it is within the time, is an arrival that reaches the count.
                    levels[left + come + 1 - lowest] += share * self.arrival * more;
                } else {
                    next[if come + 1 < width { place + 1 } else { place }] += share * self.arrival;
                }
                // The lowest row stays in place: it is empty, or its probability is negligible.
                next[if place >= width { place - width } else { place }] += share * service;
            }
            std::mem::swap(&mut now, &mut next);
        }
        let mut nothing = vec![0.0; levels.len()];
        for (place, share) in ended.into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
            let (n, come) = (place / width, place % width);
            *(if apart && come == 0 { &mut nothing[n] } else { &mut levels[(n + come).min(top - lowest)] }) += share;
        }
        if apart {
            levels.extend(nothing);
        }
        Row { base: lowest, levels, tally }
    }
}
