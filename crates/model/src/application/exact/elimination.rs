//! Stationary distribution of a band of states and one base state. Every state may enter the base, and the base may
//! enter any state. The states between two visits to the base are eliminated from the top without subtraction (GTH),
//! eight states at a time, so that each row is read and written only once for eight states.

use crate::queue::wide;

/// Number of rows eliminated together.
const TOGETHER: usize = 8;
/// Weights above this are scaled down, so that the next step does not overflow: it multiplies by up to 1/[`NEVER`] and
/// adds as many terms as the band is wide.
const LARGE: f64 = 1e8;
/// Values below this become 0, because denormal numbers are slow and do not vanish by themselves.
const NOTHING: f64 = 1e-300;
/// Probability that counts as zero.
const NEVER: f64 = 1e-290;

/// Rates of the states 0..states. Each state has rates to the states state - down ..= state + up; rates to states
/// outside 0..states must be 0.
pub struct Rows<'a> {
    /// Number of states.
    pub states: usize,
    /// Longest jump down.
    pub down: usize,
    /// Longest jump up.
    pub up: usize,
    /// Writes the rates of a state into a row of zeros, and returns its rate to the base.
    pub fill: &'a dyn Fn(usize, &mut [f64]) -> f64,
}

/// The band after elimination from the top.
pub struct Eliminated {
    states: usize,
    down: usize,
    up: usize,
    /// Rates of each state to the `down` states below it.
    lower: Vec<f64>,
    /// Rate of each state to all states below and to the base.
    leaving: Vec<f64>,
    /// For each state: rates into it from the `up` states below, divided by the state's own rate out; the nearest state
    /// last.
    inflows: Vec<f64>,
}

/// A contribution to an entry of a row is left out if it is below this share of the entry.
const LEFT_OUT: f64 = 1e-18;

impl Rows<'_> {
    /// Eliminates the states from the top down.
    pub fn eliminate(&self) -> Eliminated {
        wide::run(Eliminate(self))
    }
}

struct Eliminate<'a>(&'a Rows<'a>);

impl wide::Work for Eliminate<'_> {
    type Output = Eliminated;

    #[inline(always)]
    fn run(self) -> Eliminated {
        let Rows { states, down, up, .. } = *self.0;
        let mut found = Eliminated {
            states,
            down,
            up,
            lower: vec![0.0; states * down],
            leaving: vec![0.0; states],
            inflows: vec![0.0; states * up],
        };
        let width = down + up + 1;
        let ring = (up + 2 * TOGETHER).min(states);
        let mut rows = vec![0.0; ring * width];
        let mut to_base = vec![0.0; states];
        // Total rate of each row.
        let mut own = vec![0.0; states];
        // Lowest state whose row is in the buffer.
        let mut filled = states;
        let mut block = vec![vec![0.0; down]; TOGETHER];
        let mut top = states;
        while top > 0 {
            let count = TOGETHER.min(top);
            let lowest = top - count;
            let last_touched = lowest.saturating_sub(up);
            while filled > last_touched {
                filled -= 1;
                let row = &mut rows[filled % ring * width..][..width];
                row.fill(0.0);
                to_base[filled] = (self.0.fill)(filled, row);
                own[filled] = wide::sum(row) + to_base[filled];
            }
            // Eliminate the states within the block one by one.
            for state in (lowest..top).rev() {
                let place = state % ring * width;
                let lower = &mut found.lower[state * down..][..down];
                lower.copy_from_slice(&rows[place..place + down]);
                let leaving = wide::sum(lower) + to_base[state];
                found.leaving[state] = leaving;
                if leaving < NEVER {
                    continue;
                }
                for below in (lowest..state).rev() {
                    let apart = state - below;
                    let row = &mut rows[below % ring * width..][..width];
                    let factor = if apart <= up { row[down + apart] / leaving } else { 0.0 };
                    if factor != 0.0 {
                        found.inflows[state * up + up - apart] = factor;
                        wide::add(&mut row[apart..apart + down], lower, factor);
                        to_base[below] += factor * to_base[state];
                    }
                }
            }
            // Copy the entries to states below the block, in the columns lowest - down .. lowest.
            for (place, part) in block.iter_mut().enumerate() {
                part.fill(0.0);
                if place < count {
                    let own = &found.lower[(lowest + place) * down..][..down];
                    let kept = down.saturating_sub(place);
                    part[place.min(down)..].copy_from_slice(&own[..kept]);
                }
            }
            let through = through(&found, lowest, count);
            // If the largest contribution to a row, halved h times, is negligible (LEFT_OUT), the columns before
            // `first_above[h]` are left out, because all their entries are below 2^-h times the largest entry.
            let first_above = first_above(&block);
            let largest = block.iter().flatten().copied().fold(0.0, f64::max);
            for below in (last_touched..lowest).rev() {
                let row = &mut rows[below % ring * width..][..width];
                // Rates into the block from the states below within reach.
                let nearest = lowest - below;
                let reach = count.min(up + 1 - nearest);
                let mut factors = [0.0; TOGETHER];
                for (rate, each) in row[down + nearest..down + nearest + reach].iter().zip(&through) {
                    for place in 0..TOGETHER {
                        factors[place] += rate * each[place];
                    }
                }
                for (place, factor) in factors.iter().enumerate().take(reach) {
                    found.inflows[(lowest + place) * up + up - nearest - place] = *factor;
                }
                if factors == [0.0; TOGETHER] {
                    continue;
                }
                let most = factors.iter().copied().fold(0.0, f64::max) * largest;
                let first = first_above[halvings(LEFT_OUT * own[below], most)];
                let into = &mut row[lowest - below + first..][..down - first];
                let [a, b, c, d, e, f, g, h] = std::array::from_fn(|place| &block[place][first..]);
                add_four(into, &factors[..4], a, b, c, d);
                add_four(into, &factors[4..], e, f, g, h);
                to_base[below] += (0..count).map(|place| factors[place] * to_base[lowest + place]).sum::<f64>();
            }
            top = lowest;
        }
        found
    }
}

/// For each state of the block, from `lowest` on: expected visits to every state of the block per entry into that
/// state, divided by the visited state's rate out.
#[inline(always)]
fn through(found: &Eliminated, lowest: usize, count: usize) -> [[f64; TOGETHER]; TOGETHER] {
    let Eliminated { down, lower, leaving, .. } = found;
    let mut all = [[0.0; TOGETHER]; TOGETHER];
    for (entered, visits) in all.iter_mut().enumerate().take(count) {
        for place in (0..=entered).rev() {
            let state = lowest + place;
            if leaving[state] < NEVER {
                continue;
            }
            let mut rate = f64::from(place == entered);
            for higher in place + 1..=entered {
                // From a higher state of the block to a lower one.
                let step = higher - place;
                if step <= *down {
                    rate += visits[higher] * lower[(lowest + higher) * down + down - step];
                }
            }
            visits[place] = rate / leaving[state];
        }
    }
    all
}

/// Adds four rows, each times its factor. (The slices are separate arguments, so that the compiler knows that they do
/// not overlap.)
#[inline(always)]
fn add_four(into: &mut [f64], factors: &[f64], a: &[f64], b: &[f64], c: &[f64], d: &[f64]) {
    let length = into.len();
    let (a, b, c, d) = (&a[..length], &b[..length], &c[..length], &d[..length]);
    let [fa, fb, fc, fd] = [factors[0], factors[1], factors[2], factors[3]];
    for place in 0..length {
        into[place] += (fa * a[place] + fb * b[place]) + (fc * c[place] + fd * d[place]);
    }
}

/// `[h]`: first column with an entry of at least 2^-h times the largest entry of the block. The first columns belong to
/// the most distant states and have the smallest entries.
#[inline(always)]
fn first_above(block: &[Vec<f64>]) -> [usize; HALVINGS + 1] {
    let columns = block[0].len();
    let at = |column: usize| block.iter().map(|row| row[column]).fold(0.0, f64::max);
    let largest = block.iter().flatten().copied().fold(0.0, f64::max);
    let mut found = [0; HALVINGS + 1];
    let mut column = 0;
    for halvings in (0..HALVINGS).rev() {
        let least = largest * 0.5_f64.powi(halvings as i32);
        while column < columns && at(column) < least {
            column += 1;
        }
        found[halvings] = column;
    }
    found
}

/// Maximum of [`halvings`]; with this number, no column is left out.
const HALVINGS: usize = 64;

/// How often `most` must be halved to be below `least`, rounded up, at most [`HALVINGS`].
#[inline(always)]
fn halvings(least: f64, most: f64) -> usize {
    if least <= 0.0 || most >= least * 1e19 {
        return HALVINGS;
    }
    let exponent = |value: f64| (value.to_bits() >> 52) as i64;
    (exponent(most) - exponent(least) + 1).clamp(0, HALVINGS as i64) as usize
}

impl Eliminated {
    /// Weights of the base and of the first `count` states, if the base has weight 1 and enters the states at the rates
    /// `base`. All weights are scaled down together if they would exceed a double.
    pub fn weights(&self, base: Vec<f64>, count: usize) -> (f64, Vec<f64>) {
        wide::run(FromBase { eliminated: self, base, count })
    }
}

/// Work of [`Eliminated::weights`].
struct FromBase<'a> {
    eliminated: &'a Eliminated,
    base: Vec<f64>,
    count: usize,
}

impl wide::Work for FromBase<'_> {
    type Output = (f64, Vec<f64>);

    #[inline(always)]
    fn run(self) -> (f64, Vec<f64>) {
        let Self { eliminated, mut base, count } = self;
        let Eliminated { states, down, up, lower, leaving, inflows } = eliminated;
        let (states, down, up) = (*states, *down, *up);
        let mut from_base = vec![0.0; states];
        // The highest state that is never left, if any: the states below it are never entered.
        let mut floor = None;
        for state in (0..states).rev() {
            if leaving[state] < NEVER {
                floor = Some(state);
                break;
            }
            let factor = base[state] / leaving[state];
            if factor == 0.0 {
                continue;
            }
            from_base[state] = factor;
            let reach = down.min(state);
            let lower = &lower[state * down..][down - reach..down];
            wide::add(&mut base[state - reach..state], lower, factor);
        }
        let mut weights = vec![0.0; count];
        let mut of_base = 1.0;
        let first = match floor {
            Some(state) => {
                of_base = 0.0;
                if let Some(weight) = weights.get_mut(state) {
                    *weight = 1.0;
                }
                state + 1
            }
            None => 0,
        };
        let mut lowest = 0;
        for state in first..count {
            let reach = up.min(state - lowest);
            let inflows = &inflows[state * up..][up - reach..up];
            weights[state] = of_base * from_base[state] + wide::product(inflows, &weights[state - reach..state]);
            if weights[state] > LARGE {
                let factor = 1.0 / weights[state];
                of_base *= factor;
                for weight in &mut weights[lowest..=state] {
                    *weight *= factor;
                    if *weight < NOTHING {
                        *weight = 0.0;
                    }
                }
                lowest += weights[lowest..=state].iter().position(|weight| *weight > 0.0).unwrap_or(0);
            }
        }
        (of_base, weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each state is left as often as it is entered.
    #[test]
    fn states_are_left_as_often_as_entered() {
        let mut seed = 7_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (states, down, up) in
            [(1, 1, 1), (3, 1, 2), (9, 2, 3), (40, 7, 5), (41, 3, 11), (64, 1, 1), (50, 12, 4), (6, 9, 9)]
        {
            let rates: Vec<Vec<f64>> = (0..states)
                .map(|state| {
                    let inside = |place: usize| (down..states + down).contains(&(state + place)) && place != down;
                    (0..down + up + 1).map(|place| if inside(place) { draw() } else { 0.0 }).collect()
                })
                .collect();
            let to_base: Vec<f64> = (0..states).map(|state| if state < 2 { draw() } else { 0.0 }).collect();
            let base: Vec<f64> = (0..states).map(|state| if state < up { draw() } else { 0.0 }).collect();
            let fill = |state: usize, row: &mut [f64]| {
                row.copy_from_slice(&rates[state]);
                to_base[state]
            };
            let (of_base, weights) = Rows { states, down, up, fill: &fill }.eliminate().weights(base.clone(), states);
            for state in 0..states {
                let left = weights[state] * (rates[state].iter().sum::<f64>() + to_base[state]);
                let from = |other: usize| rates[other].get((state + down).wrapping_sub(other)).copied().unwrap_or(0.0);
                let entered =
                    of_base * base[state] + (0..states).map(|other| weights[other] * from(other)).sum::<f64>();
                assert!((left / entered - 1.0).abs() < 1e-11, "{states} {down} {up}: {state} {left} {entered}");
            }
        }
    }

    /// In extreme overload the top state is never left and has all weight.
    #[test]
    fn a_state_that_is_never_left() {
        for floor in [0, 1, 3, 9] {
            let fill = |state: usize, row: &mut [f64]| {
                row[0] = if state == floor || state == 0 { 0.0 } else { 1.0 };
                row[2] = if state < 9 { 0.5 } else { 0.0 };
                if state == 0 && floor != 0 { 1.0 } else { 0.0 }
            };
            let eliminated = Rows { states: 10, down: 1, up: 1, fill: &fill }.eliminate();
            let (of_base, weights) = eliminated.weights(vec![1.0; 10], 10);
            assert!(of_base == 0.0 && weights[..floor].iter().all(|weight| *weight == 0.0) && weights[floor] == 1.0);
            assert!(weights[floor..].windows(2).all(|pair| (pair[1] / pair[0] - 0.5).abs() < 1e-12), "{weights:?}");
        }
    }
}
