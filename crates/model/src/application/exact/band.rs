//! Socket and application during the ring's idle time, by the number of packets waiting in the socket, if there is a
//! wait for an interrupt.
//!
//! Only the states in which the application works are eliminated ([`elimination`](super::elimination)). A context
//! switch ends before the next begins, so that its states follow from the wake-ups in one upward pass. The base state
//! of the elimination is the end of a wait at which the application is asleep. The next excursion (busy period of the
//! ring) depends on the packets in the ring at the end of such waits, which depend on the solution: this fixed point is
//! iterated without a new elimination.
//!
//! If no time depends on the packets waiting, a long socket has a middle part that its boundaries do not influence. The
//! net flow of packets through this part is zero, so that its weights form a geometric series: a shorter socket is
//! solved, and its middle part is extended.

use super::budget::Budget;
use super::elimination::{Eliminated, Rows};
use super::free::Waited;
use super::laws::Served;
use super::socket::{Cycle, Idle, Node, Socket};
use crate::queue::wide::{self, sum};
use netcliff_core::math;

/// Probability below which batches and progress are left out.
const LEFT_OUT: f64 = 1e-13;
/// Operations per entry of a row, below 1 because several entries are processed at once (approximate).
const ENTRY: f64 = 0.3;
/// Operations of one step of the elimination, as a multiple of states x longest progress x largest batch.
const STEP: f64 = 0.25;
/// The iteration has converged when no share changes by more than this.
const SETTLED: f64 = 1e-12;
const MOST_TURNS: usize = 200;
/// Anderson acceleration uses the difference of two iterations only if more than this share of its squared norm is
/// orthogonal to the differences used before.
const ALONE: f64 = 1e-20;
/// Number of previous iterations from which the next one is extrapolated.
const LOOKED_BACK: usize = 7;
/// The socket's middle part counts as geometric only if the ratio of successive weights changes by at most this share
/// over [`MIDDLE`] packets.
const ALIKE: f64 = 1e-12;
/// Distance between the two positions whose ratios are compared (packets).
const MIDDLE: usize = 24;
/// Weights below this share of the total count as zero.
const NOTHING: f64 = 1e-16;
/// Minimum length of the socket's middle part (packets), which neither batches nor reads from its ends reach.
const FREE_OF_BOTH: usize = 160;
/// Lengths to try for a shorter socket that replaces a long one, as multiples of the reach of batches and reads. The
/// first one mostly suffices (0.25 to 0.6 do on `bench/model/hosts/veth.toml` at 100 to 600 kpps); a test decides.
const LAYERS: [f64; 3] = [0.4, 0.6, 1.0];
/// If the logarithm of the weight beyond the end of a socket exceeds this, the weight counts as infinite.
const NEGLIGIBLE: f64 = 40.0;

/// Changes of the number of packets in the socket during a wait for an interrupt and the busy period of the ring after
/// it. Progress is the number of pieces of work that the application finishes during the wait.
struct Moves {
    /// `[n]`: rate of waits without progress whose busy period delivers n packets.
    still: Vec<f64>,
    /// Number of packets in the socket to which the first entry of `change` applies.
    least: usize,
    /// `[w - least]`: rates of all changes from w packets in the socket, from `progress` fewer to `largest` more, with
    /// progress of at most w. The last entry applies to all larger w. Includes the rates of `still` only if the
    /// application works when the wait begins: after a context switch, waits with and without progress lead to states
    /// of different kinds.
    change: Vec<Vec<f64>>,
    /// `[w - least]`: sum of that entry of `change`.
    changes: Vec<f64>,
    /// Sum of `still`.
    brings: f64,
    /// `[end][j]`: rate of waits that end with this number of packets in the ring and progress of j or more.
    tails: Vec<Vec<f64>>,
    /// `[j]`: rate of waits with progress of j or more, over all ends.
    asleep: Vec<f64>,
}

/// The chain during the ring's idle time.
pub struct Band<'a> {
    socket: &'a Socket,
    cycle: &'a Cycle,
    arrival_pps: f64,
    /// Moves while the application works, for each node.
    working: Vec<Moves>,
    switching: Vec<Moves>,
    /// Largest batch that is considered.
    largest: usize,
    progress: usize,
}

/// Weights of the application's states, by packets waiting in the socket or in a shorter socket that is solved instead.
struct Weights {
    asleep: f64,
    switching: Vec<f64>,
    working: Vec<f64>,
}

/// Returns one more than the longest progress (pieces of work finished in a wait) that is considered.
fn length(waited: &Waited, budget: &Budget) -> usize {
    let least = budget.least(LEFT_OUT);
    let far = |progress: &Vec<f64>| progress.iter().rposition(|p| *p > least).map_or(0, |last| last + 1);
    waited.ends.iter().map(|end| far(&end.progress)).max().unwrap_or(0)
}

/// Returns the longest progress (pieces of work finished in a wait) in all these waits, at least 1.
pub fn longest_progress<'a>(waits: impl Iterator<Item = &'a Waited>, budget: &Budget) -> usize {
    waits.map(|waited| length(waited, budget)).max().unwrap_or(0).max(1)
}

/// Operations of the elimination for waits with this `progress` and busy periods of at most `largest` services.
/// `alike`: no time depends on the packets in the socket.
pub fn operations(socket: &Socket, progress: usize, largest: usize, alike: bool) -> f64 {
    let whole = socket.most + 1;
    let states = if alike { whole.min(progress + largest + FREE_OF_BOTH) } else { whole };
    STEP * (states * progress.min(states)) as f64 * largest.min(states) as f64
}

impl<'a> Band<'a> {
    /// Builds the chain; `None` if the budget does not suffice.
    pub fn new(socket: &'a Socket, cycle: &'a Cycle, arrival_pps: f64, budget: &Budget) -> Option<Self> {
        let least = budget.least(LEFT_OUT);
        let rare = |served: &Served| served.equal.iter().rposition(|share| *share > least).unwrap_or(1);
        let laws = cycle.nodes.iter().flat_map(|node| &node.served).chain(&cycle.woken);
        let largest = laws.map(rare).max().unwrap_or(1).clamp(1, socket.most);
        let all = cycle.nodes.iter().flat_map(|node| [&node.working, &node.switching]);
        let progress = longest_progress(all, budget).min(socket.most);
        let (mut working, mut switching) = (Vec::new(), Vec::new());
        for (place, node) in cycle.nodes.iter().enumerate() {
            // Smallest number of packets in the socket at which this node (a computed occupancy) has any influence.
            let least = if place == 0 { 0 } else { cycle.nodes[place - 1].waiting };
            let moves = |waited: &Waited, with_still: bool| {
                Moves::new(waited, &node.served, cycle, (progress, largest, least), arrival_pps, with_still, budget)
            };
            working.push(moves(&node.working, true)?);
            switching.push(moves(&node.switching, false)?);
        }
        Some(Self { socket, cycle, arrival_pps, working, switching, largest, progress })
    }

    /// Computes the stationary distribution; `None` if the budget does not suffice.
    pub fn stationary(&self, budget: &Budget) -> Option<Idle> {
        let most = self.socket.most;
        let whole = |weights: Weights| {
            Idle { asleep: weights.asleep, switching: weights.switching, working: weights.working }.normalised()
        };
        let mut tried = 0;
        for share in LAYERS {
            if let Some(shorter) = self.enough(share).filter(|shorter| 5 * shorter < 4 * most && *shorter > tried) {
                tried = shorter;
                if let Some(found) = self.stretched(self.weights(shorter, budget)?) {
                    return Some(whole(found));
                }
            }
        }
        self.weights(most, budget).map(whole)
    }

    /// Returns the length (packets) of a shorter socket that may suffice for this one: `share` of the reach of batches
    /// and reads. `None` if only the whole socket suffices.
    fn enough(&self, share: f64) -> Option<usize> {
        let slopes: Vec<f64> = (0..self.working.len()).map(|place| self.slope(place)).collect();
        let all_fall = slopes.iter().all(|slope| *slope < 0.0);
        let slowest = slopes.iter().map(|slope| slope.abs()).fold(f64::INFINITY, f64::min);
        let filled = self.largest as f64 + NEGLIGIBLE / slowest;
        let layers = share * (self.progress + self.largest) as f64 + FREE_OF_BOTH as f64;
        let packets = match slopes.len() {
            1 if all_fall => filled.min(layers),
            1 => (self.progress as f64 + NEGLIGIBLE / slowest).min(layers),
            _ if all_fall => filled,
            _ => return None,
        };
        Some(packets.clamp(64.0, 1e9) as usize)
    }

    /// Change of ln(weight) per packet in the socket, far from its ends, if all costs were the costs at the occupancy
    /// `node`.
    fn slope(&self, node: usize) -> f64 {
        let read_pps = self.socket.read_pps[self.cycle.nodes[node].waiting];
        let Some(change) = self.working[node].change.last() else { return -1.0 };
        let mean: f64 =
            change.iter().enumerate().map(|(at, rate)| rate * (at as f64 - self.progress as f64)).sum::<f64>()
                - read_pps;
        // Weights fall as e^(-tilt d), where the sum of rate(k) (e^(tilt k) - 1) over all changes k of the occupancy is
        // 0. The sum is convex in tilt, and 0 at tilt = 0.
        let excess = |tilt: f64| {
            let step = math::exp(tilt);
            let mut factor = math::exp(-tilt * self.progress as f64);
            let mut sum = read_pps * (1.0 / step - 1.0);
            for rate in change {
                sum += rate * (factor - 1.0);
                factor *= step;
            }
            sum
        };
        let sign = if mean < 0.0 { 1.0 } else { -1.0 };
        let (mut low, mut high) = (0.0, 1e-6);
        while high < 1.0 && excess(sign * high) < 0.0 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..12 {
            let middle = 0.5 * (low + high);
            if excess(sign * middle) < 0.0 { low = middle } else { high = middle }
        }
        -sign * low.max(1e-9)
    }

    /// Extends the weights of a shorter socket to the whole socket; `None` if the shorter one's middle is not
    /// geometric.
    fn stretched(&self, shorter: Weights) -> Option<Weights> {
        let (most, length) = (self.socket.most, shorter.working.len());
        let Weights { mut asleep, mut switching, working } = shorter;
        let more = most + 1 - length;
        let total = asleep + working.iter().chain(&switching).sum::<f64>();
        let part = |of: std::ops::Range<usize>| working[of.clone()].iter().chain(&switching[of]).sum::<f64>() / total;
        let (lowest, highest) = (asleep / total + part(0..length / 8), part(length - length / 8..length));
        let ratio = |waiting: usize| working[waiting + 1] / working[waiting];
        // Find the position at which the ratio of weights changes least.
        let differs = |waiting: usize| ((ratio(waiting + MIDDLE) - ratio(waiting)) / ratio(waiting)).abs();
        let places = length / 8..(length - MIDDLE - 2).max(length / 8);
        let middle = places.min_by(|a, b| differs(*a).total_cmp(&differs(*b))).filter(|middle| {
            self.working.len() == 1
                && differs(*middle) <= ALIKE
                && switching[*middle..].iter().sum::<f64>() <= NOTHING * total
        });
        let Some(middle) = middle else {
            // Weights that are zero at one end are also zero in a longer socket.
            let mut working = working;
            if highest <= NOTHING {
                working.resize(most + 1, 0.0);
                switching.resize(most + 1, 0.0);
                return Some(Weights { asleep, switching, working });
            }
            if lowest <= NOTHING && self.working.len() == 1 {
                working.splice(0..0, std::iter::repeat_n(0.0, more));
                return Some(Weights { asleep: 0.0, switching: vec![0.0; most + 1], working });
            }
            return None;
        };
        let middle = middle + MIDDLE / 2;
        let ratio = ratio(middle);
        let mut found = vec![0.0; most + 1];
        if ratio > 1.0 {
            found[middle + 1 + more..].copy_from_slice(&working[middle + 1..]);
            for waiting in (middle..middle + 1 + more).rev() {
                found[waiting] = found[waiting + 1] / ratio;
            }
            let factor = found[middle] / working[middle];
            found[..middle].iter_mut().zip(&working).for_each(|(to, from)| *to = from * factor);
            asleep *= factor;
            switching.iter_mut().for_each(|weight| *weight *= factor);
        } else {
            found[..=middle].copy_from_slice(&working[..=middle]);
            for waiting in middle + 1..=middle + more {
                found[waiting] = found[waiting - 1] * ratio;
            }
            let factor = found[middle + more] / working[middle];
            let (_, after) = found.split_at_mut(middle + more + 1);
            after.iter_mut().zip(&working[middle + 1..]).for_each(|(to, from)| *to = from * factor);
        }
        switching.truncate(middle);
        switching.resize(most + 1, 0.0);
        Some(Weights { asleep, switching, working: found })
    }

    /// Computes the weights of a socket of `most` packets; `None` if the budget does not suffice.
    fn weights(&self, most: usize, budget: &Budget) -> Option<Weights> {
        let (down, up) = (self.progress.min(most), self.largest.min(most));
        budget.take(STEP * (most * down) as f64 * up as f64)?;
        let fill = |waiting: usize, row: &mut [f64]| self.row(waiting, most, (down, up), row);
        let eliminated = Rows { states: most + 1, down, up, fill: &fill }.eliminate();
        let asleep = &self.cycle.asleep.ends;
        let asleep: Vec<(usize, f64)> = asleep.iter().map(|end| (end.packets, end.progress.iter().sum())).collect();
        let mut ends = vec![0.0; self.cycle.packets.len()];
        let idle = |ends: &mut [f64], rate: f64| {
            for (packets, share) in &asleep {
                if let Some(place) = self.cycle.place(*packets) {
                    ends[place] += rate * share;
                }
            }
        };
        idle(&mut ends, 1.0);
        // (result, change) of each iteration.
        let mut turns: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
        // Sum of all weights, as a multiple of the sum of the weights that every iteration computes.
        let mut whole = None;
        for _ in 0..MOST_TURNS {
            budget.take(ENTRY * ((most + self.cycle.packets.len()) * (down + up)) as f64)?;
            // The application can fall asleep only from states with at most as many packets as the longest progress.
            let count = if whole.is_some() { (self.progress + 1).min(most + 1) } else { most + 1 };
            let weights = self.woken_by(&ends, most, &eliminated, count);
            let mut next = vec![0.0; ends.len()];
            idle(&mut next, weights.asleep * self.arrival_pps);
            self.fall_asleep(&weights, &mut next);
            let all: f64 = next.iter().sum();
            if all <= 0.0 {
                return Some(self.woken_by(&ends, most, &eliminated, most + 1));
            }
            next.iter_mut().for_each(|share| *share /= all);
            let moves: Vec<f64> = next.iter().zip(&ends).map(|(after, before)| after - before).collect();
            let moved = moves.iter().map(|moved| moved.abs()).sum::<f64>();
            // Sum of all weights.
            let total = |working: &[f64]| weights.asleep + sum(&weights.switching) + sum(working);
            let looked_at = total(&weights.working[..(self.progress + 1).min(weights.working.len())]);
            let whole = *whole.get_or_insert_with(|| total(&weights.working) / looked_at);
            let matters = (all / (self.arrival_pps * looked_at * whole)).min(1.0);
            if moved * matters <= budget.least(SETTLED) {
                return Some(self.woken_by(&next, most, &eliminated, most + 1));
            }
            turns.push((next, moves));
            if turns.len() > LOOKED_BACK {
                turns.remove(0);
            }
            ends = led_to(&turns);
        }
        None
    }

    /// Computes the weights of the states if one wait per second ends with the application asleep, with packets in the
    /// ring distributed by `ends`. Returns only the first `count` of the states in which the application works.
    fn woken_by(&self, ends: &[f64], most: usize, eliminated: &Eliminated, count: usize) -> Weights {
        let mut brought = vec![0.0; most + 1];
        for (share, law) in ends.iter().zip(&self.cycle.woken).filter(|(share, _)| **share > 0.0) {
            let fits = law.equal.len().min(most);
            wide::run(Add { sums: &mut brought[..fits], parts: [&law.equal[..fits]], rates: [*share] });
            brought[most] += share * law.equal[fits..].iter().sum::<f64>();
        }
        let mut base = vec![0.0; most + 1];
        let mut switching = vec![0.0; most + 1];
        if let Some(switch_per_s) = self.socket.switch_per_s {
            for waiting in 1..=most {
                if brought[waiting] < 0.01 * LEFT_OUT {
                    continue;
                }
                let mut out = switch_per_s;
                for (place, share) in self.blend(waiting) {
                    let moves = &self.switching[place];
                    out += share * moves.asleep.get(waiting + 1).copied().unwrap_or(0.0);
                    out += share * moves.changes[moves.place(waiting)];
                    if waiting < most {
                        out += share * moves.brings;
                    }
                }
                let here = brought[waiting] / out;
                switching[waiting] = here;
                base[waiting - 1] += here * switch_per_s;
                for (place, share) in self.blend(waiting) {
                    let moves = &self.switching[place];
                    let rate = here * share;
                    // The last entry includes all larger batches, which do not fit into the socket completely.
                    let reach = moves.still.len().min(most - waiting + 1);
                    if waiting < most && reach > 1 {
                        let into = &mut brought[waiting + 1..waiting + reach];
                        wide::run(Add { sums: into, parts: [&moves.still[1..reach]], rates: [rate] });
                        brought[most] += rate * moves.still[reach..].iter().sum::<f64>();
                    }
                    let change = &moves.change[moves.place(waiting)];
                    add_clipped(&mut base, change, (waiting as isize) - self.progress as isize, rate);
                }
            }
        } else {
            base[..most].copy_from_slice(&brought[1..]);
        }
        let (factor, working) = eliminated.weights(base, count);
        switching.iter_mut().for_each(|weight| *weight *= factor);
        let asleep = working[0] * self.socket.read_pps[0] / self.arrival_pps;
        Weights { asleep, switching, working }
    }

    /// Adds the rates of waits that begin with the application awake and end with it asleep, by packets in the ring.
    fn fall_asleep(&self, weights: &Weights, rates: &mut [f64]) {
        let kinds = [(&self.working, &weights.working, true), (&self.switching, &weights.switching, false)];
        for (moves, weights, works) in kinds {
            for (place, moves) in moves.iter().enumerate() {
                let share = |waiting: usize| {
                    self.blend(waiting).filter(|(node, _)| *node == place).map(|(_, share)| share).sum::<f64>()
                };
                let here: Vec<f64> = weights
                    .iter()
                    .take(moves.asleep.len())
                    .enumerate()
                    .map(|(waiting, weight)| weight * share(waiting))
                    .collect();
                if here.iter().all(|weight| *weight == 0.0) {
                    continue;
                }
                let node = &self.cycle.nodes[place];
                let waited = if works { &node.working } else { &node.switching };
                for (end, tails) in waited.ends.iter().zip(&moves.tails) {
                    if let Some(into) = self.cycle.place(end.packets).filter(|_| tails.len() > 1) {
                        let both = here.len().min(tails.len() - 1);
                        rates[into] += wide::run(Product(&here[..both], &tails[1..=both]));
                    }
                }
            }
        }
    }

    /// Returns the two computed occupancies (nodes) between which the value at `waiting` packets is interpolated:
    /// (node, share).
    fn blend(&self, waiting: usize) -> impl Iterator<Item = (usize, f64)> {
        let place = |node: &Node| self.cycle.nodes.partition_point(|other| other.waiting < node.waiting);
        let nodes = self.cycle.blend(waiting).into_iter().filter(|(_, share)| *share > 0.0);
        nodes.map(move |(node, share)| (place(node), share))
    }

    /// Fills `row` with the rates from a working application with `waiting` packets, to states with `down` fewer ..
    /// `up` more packets. Returns the rate of waits that end with the application asleep.
    fn row(&self, waiting: usize, most: usize, (down, up): (usize, usize), row: &mut [f64]) -> f64 {
        let read_pps = self.socket.read_pps[waiting];
        let mut asleep = 0.0;
        if waiting == 0 {
            asleep += read_pps;
        } else {
            row[down - 1] += read_pps;
        }
        for (place, share) in self.blend(waiting) {
            let moves = &self.working[place];
            asleep += share * moves.asleep.get(waiting + 1).copied().unwrap_or(0.0);
            let change = &moves.change[moves.place(waiting)];
            // First change that is possible: fewer than 0 packets cannot wait.
            let first = self.progress - down;
            let room = (most - waiting).min(up);
            let last = (self.progress + room + 1).min(change.len());
            wide::add(row, &change[first..last], share);
            if room > 0 {
                row[down + room] += share * change[last..].iter().sum::<f64>();
            }
        }
        row[down] = 0.0;
        asleep
    }
}

/// Anderson acceleration of a linear iteration: combines the last iterations so that the change is smallest. No entry
/// becomes negative.
fn led_to(turns: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let Some((last, moves)) = turns.last() else { return Vec::new() };
    let (mut found, mut left) = (last.clone(), moves.clone());
    let difference = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let product = |a: &[f64], b: &[f64]| wide::run(Product(a, b));
    let subtract = |from: &mut [f64], what: &[f64], times: f64| {
        wide::add(from, what, -times);
    };
    // (difference of results, difference of changes, square of the second one), each made orthogonal to the earlier
    // ones.
    let mut known: Vec<(Vec<f64>, Vec<f64>, f64)> = Vec::new();
    for pair in turns.windows(2).rev() {
        let [(before, moves_before), (after, moves_after)] = pair else { continue };
        let (mut led, mut moved) = (difference(after, before), difference(moves_after, moves_before));
        let whole = product(&moved, &moved);
        for (other_led, other_moved, square) in &known {
            let share = product(&moved, other_moved) / square;
            subtract(&mut moved, other_moved, share);
            subtract(&mut led, other_led, share);
        }
        let square = product(&moved, &moved);
        if square > ALONE * whole {
            let share = product(&left, &moved) / square;
            subtract(&mut left, &moved, share);
            subtract(&mut found, &led, share);
            known.push((led, moved, square));
        }
    }
    found.iter_mut().for_each(|share| *share = share.max(0.0));
    found
}

/// Adds `rate` times the values to a vector, starting at `from`. Values beyond the last entry are added to it; values
/// before the first are left out.
fn add_clipped(sums: &mut [f64], values: &[f64], from: isize, rate: f64) {
    let skipped = usize::try_from(-from).unwrap_or(0).min(values.len());
    let first = usize::try_from(from).unwrap_or(0);
    let values = &values[skipped..];
    let fits = values.len().min(sums.len().saturating_sub(first));
    wide::run(Add { sums: &mut sums[first..first + fits], parts: [&values[..fits]; 1], rates: [rate] });
    if fits < values.len()
        && let Some(last) = sums.last_mut()
    {
        *last += rate * sum(&values[fits..]);
    }
}

/// Adds several vectors of equal length to `sums`, each times its rate.
struct Add<'a, const PARTS: usize> {
    sums: &'a mut [f64],
    parts: [&'a [f64]; PARTS],
    rates: [f64; PARTS],
}

impl<const PARTS: usize> wide::Work for Add<'_, PARTS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { sums, parts, rates } = self;
        let parts = parts.map(|part| &part[..sums.len()]);
        for place in 0..sums.len() {
            let mut all = 0.0;
            for part in 0..PARTS {
                all += rates[part] * parts[part][place];
            }
            sums[place] += all;
        }
    }
}

/// Scalar product of two vectors.
struct Product<'a>(&'a [f64], &'a [f64]);

impl wide::Work for Product<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        wide::product(self.0, self.1)
    }
}

impl Moves {
    /// Computes the changes for waits that are followed by busy periods with the distributions `served`, for at least
    /// `least` packets in the socket. `with_still`: `change` includes waits without progress. `None` if the budget does
    /// not suffice.
    fn new(
        waited: &Waited,
        served: &[Served],
        cycle: &Cycle,
        (most_progress, largest, least): (usize, usize, usize),
        arrival_pps: f64,
        with_still: bool,
        budget: &Budget,
    ) -> Option<Self> {
        let length = length(waited, budget);
        let rarest = budget.least(LEFT_OUT);
        let kept = length.min(most_progress + 1);
        let tails = |progress: &[f64]| -> Vec<f64> {
            let mut tails: Vec<f64> =
                progress[..length.min(progress.len())].iter().map(|share| share * arrival_pps).collect();
            for place in (1..tails.len()).rev() {
                tails[place - 1] += tails[place];
            }
            tails
        };
        let tails: Vec<Vec<f64>> = waited.ends.iter().map(|end| tails(&end.progress)).collect();
        let mut asleep = vec![0.0; length];
        for tails in &tails {
            asleep.iter_mut().zip(tails).for_each(|(sum, tail)| *sum += tail);
        }
        let laws: Vec<(&[f64], &[f64])> = waited
            .ends
            .iter()
            .filter_map(|end| {
                let law = &served[cycle.place(end.packets)?].equal;
                Some((end.progress.as_slice(), &law[..law.len().min(largest + 1)]))
            })
            .collect();
        let mut sum = vec![0.0; most_progress + largest + 1];
        let (mut still, mut change) = (vec![0.0; largest + 1], Vec::new());
        let mut batches = vec![0.0; largest + 1];
        let least = least.min(kept.saturating_sub(1));
        for progress in 0..kept {
            batches.fill(0.0);
            let mut chosen =
                laws.iter().filter(|(shares, _)| shares.get(progress).is_some_and(|share| *share > rarest));
            // Add four vectors at once.
            while let Some((shares, law)) = chosen.next() {
                let rate = shares[progress] * arrival_pps;
                let more: Vec<_> = chosen.by_ref().take(3).collect();
                budget.take(ENTRY * 0.5 * (largest * (1 + more.len())) as f64)?;
                if let [(sb, b), (sc, c), (sd, d)] = more[..] {
                    let rates = [sb, sc, sd].map(|shares| shares[progress] * arrival_pps);
                    let fits = [law.len(), b.len(), c.len(), d.len()].into_iter().min().unwrap_or(0);
                    let parts = [&law[..fits], &b[..fits], &c[..fits], &d[..fits]];
                    let all = [rate, rates[0], rates[1], rates[2]];
                    wide::run(Add { sums: &mut batches[..fits], parts, rates: all });
                    for (rate, law) in [rate, rates[0], rates[1], rates[2]].into_iter().zip([law, b, c, d]) {
                        wide::add(&mut batches[fits..], &law[fits..], rate);
                    }
                    continue;
                }
                for (shares, law) in std::iter::once(&(*shares, *law)).chain(more) {
                    let rate = shares[progress] * arrival_pps;
                    wide::add(&mut batches, law, rate);
                }
            }
            if progress == 0 {
                still.copy_from_slice(&batches);
            }
            if progress > 0 || with_still {
                let moved = &mut sum[most_progress - progress..];
                wide::add(&mut moved[1..], &batches[1..], 1.0);
            }
            if progress >= least {
                change.push(sum.clone());
            }
        }
        if change.is_empty() {
            change.push(sum);
        }
        let changes = change.iter().map(|rates| self::sum(rates)).collect();
        let brings = still.iter().skip(1).sum();
        Some(Self { still, least, change, changes, brings, tails, asleep })
    }

    /// Index in `change` for this number of packets waiting.
    fn place(&self, waiting: usize) -> usize {
        waiting.saturating_sub(self.least).min(self.change.len() - 1)
    }
}
