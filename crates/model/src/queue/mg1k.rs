//! M/G/1/K without subtraction: Poisson arrivals, general service, K places including the one in service, and busy
//! periods that may begin with a set-up time during which packets gather.
//!
//! a_0 x_(j+1) = x_0 f_j + sum over i = 1..j of x_i P(A > j-i+1), where x_j is the share of departures that leave j
//! packets behind, and f_j = P(the first departure of a busy period leaves more than j). All terms are positive; the
//! alternating series of the papers is numerically unusable in doubles.

use super::arrivals::ArrivalCounts;

/// Set-up of a busy period: from an empty ring to the start of service.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// `q[i]` = P(i + 1 packets are present when service starts), at most K entries.
    pub present: Vec<f64>,
    /// Mean time from empty to the start of service (s).
    pub mean_s: f64,
    /// Mean number of packets lost during this time.
    pub lost: f64,
}

impl Setup {
    /// Makes an empty set-up: service starts with the first arrival.
    pub fn none(arrival: f64) -> Self {
        Self { present: vec![1.0], mean_s: 1.0 / arrival, lost: 0.0 }
    }
}

/// The queue M/G/1/K in equilibrium.
#[derive(Debug, Clone, PartialEq)]
pub struct Mg1k {
    /// Departures per unit of time.
    pub throughput: f64,
    /// Share of arrivals lost.
    pub loss: f64,
    /// Busy periods per unit of time.
    pub cycles: f64,
    /// Mean number present.
    pub mean_present: f64,
    /// `[j]`: share of departures that leave j packets behind; also the probability that an accepted arrival finds j
    /// packets.
    pub left_behind: Vec<f64>,
}

impl Mg1k {
    /// Computes the queue from arrival rate, mean service (s), distribution of arrivals per service up to at least
    /// `places`, and set-up. Takes places x (width of that distribution) operations.
    pub fn new(arrival: f64, service_s: f64, counts: &ArrivalCounts, places: usize, setup: &Setup) -> Self {
        let first = first_tails(counts, setup, places);
        let left_behind = left_behind(counts, &first, places);
        let empty = left_behind[0];
        // Packets lost per departure: in services that start with j packets present, in first services, and during
        // set-ups.
        let in_services: f64 = (1..places).map(|j| left_behind[j] * counts.excess[places - j]).sum();
        let in_first: f64 = setup
            .present
            .iter()
            .enumerate()
            .map(|(i, share)| share * counts.excess[places - (i + 1).min(places)])
            .sum();
        let lost = in_services + empty * (in_first + setup.lost);
        let loss = lost / (1.0 + lost);
        let throughput = 1.0 / (service_s + empty * setup.mean_s);
        let accepted: f64 = 1.0 / (1.0 + lost);
        let found: f64 = left_behind.iter().enumerate().map(|(j, share)| j as f64 * share).sum();
        debug_assert!((throughput / arrival - accepted).abs() < 1e-6 * accepted.max(1e-6) || empty == 0.0);
        Self {
            throughput,
            loss,
            cycles: throughput * empty,
            mean_present: found * accepted + places as f64 * loss,
            left_behind,
        }
    }
}

/// f_j = P(the first service of a busy period leaves more than j packets), j = 0..places-1 (0 at places - 1: no space).
fn first_tails(counts: &ArrivalCounts, setup: &Setup, places: usize) -> Vec<f64> {
    let mut more = 0.0;
    // present_above[j] = P(more than j + 1 packets present when service starts).
    let present_above: Vec<f64> = setup
        .present
        .iter()
        .rev()
        .map(|share| {
            let above = more;
            more += share;
            above
        })
        .collect();
    let length = setup.present.len();
    let mut tails = TailSum::new(counts, 0, false);
    (0..places)
        .map(|j| {
            let sure = if j < length { present_above[length - 1 - j] } else { 0.0 };
            // With i + 1 <= j + 1 packets present, more than j - i packets must arrive.
            sure + tails.next(&setup.present, j)
        })
        .collect()
}

/// If a service has no arrivals with a probability below this, that counts as impossible: leaving one packet less than
/// the ring holds is then equally rare. Powers of the inverse would exceed the range of doubles after three steps.
const ALWAYS: f64 = 1e-100;

fn left_behind(counts: &ArrivalCounts, first: &[f64], places: usize) -> Vec<f64> {
    let mut shares = vec![0.0; places];
    shares[0] = 1.0;
    let none = counts.equal[0];
    if places > 1 && none < ALWAYS {
        // In such extreme overload every service has arrivals, so that the ring is always full.
        shares[0] = 0.0;
        shares[places - 1] = 1.0;
        return shares;
    }
    let mut tails = TailSum::new(counts, 1, true);
    let per_none = 1.0 / none;
    // One step multiplies by up to about 1 / `none`; the product must not overflow.
    let most = (1e250 * none).max(1.0);
    let mut steady = Steady::new(counts);
    let mut lowest = 0;
    for j in 0..places.saturating_sub(1) {
        if let Some(ratio) = steady.ratio(&shares[..=j], first[j]) {
            continue_geometrically(&mut shares, lowest, j, ratio);
            break;
        }
        let later = if j == 0 { 0.0 } else { tails.next(&shares[1..], j - 1) };
        shares[j + 1] = (shares[0] * first[j] + later) * per_none;
        // Denormal numbers are slow and do not vanish by themselves.
        if shares[j + 1] < 1e-300 {
            shares[j + 1] = 0.0;
        }
        if shares[j + 1] > most {
            let factor = 1.0 / shares[j + 1];
            lowest = scale(&mut shares, lowest..j + 2, factor);
            tails.scale(factor);
        }
    }
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= total);
    shares
}

/// Detects when the recursion has become geometric: from then on each further share takes one multiplication.
struct Steady {
    /// Number of steps with equal ratio that prove convergence; `None` if the tails are too heavy to decide.
    enough: Option<usize>,
    last: f64,
    same: usize,
}

impl Steady {
    fn new(counts: &ArrivalCounts) -> Self {
        let all = &counts.above;
        let enough = match counts.geometric.len() {
            1 => Some(8),
            // One step per relevant tail: after these steps, all terms of the sum are geometric.
            0 => {
                let width = all.iter().position(|p| *p < 1e-20).unwrap_or(all.len());
                light_tailed(&all[..width]).then_some(width + 8)
            }
            // Phases of similar rates converge so slowly that they cannot be distinguished from converged ones.
            _ => None,
        };
        Self { enough, last: 0.0, same: 0 }
    }

    /// Returns the ratio of all further shares, once it is constant and first services (`first`) no longer matter.
    fn ratio(&mut self, shares: &[f64], first: f64) -> Option<f64> {
        let enough = self.enough?;
        let [.., before, now] = shares else { return None };
        let ratio = now / before;
        let unchanged = (ratio - self.last).abs() <= 4.0 * f64::EPSILON * ratio;
        self.same = if unchanged && shares[0] * first <= 1e-18 * now { self.same + 1 } else { 0 };
        self.last = ratio;
        (self.same > enough).then_some(ratio)
    }
}

/// Scales the shares in `range` and sets those that become negligible to 0. Returns the index of the first share that
/// is not 0; shares below it need no scaling again, so that each share is scaled only a few times.
fn scale(shares: &mut [f64], range: std::ops::Range<usize>, factor: f64) -> usize {
    let start = range.start;
    let part = &mut shares[range];
    part.iter_mut().for_each(|share| {
        *share *= factor;
        if *share < 1e-300 {
            *share = 0.0;
        }
    });
    start + part.iter().position(|share| *share > 0.0).unwrap_or(0)
}

/// Fills the shares after `j` geometrically, scaling all if they would overflow; shares below `lowest` are 0.
fn continue_geometrically(shares: &mut [f64], mut lowest: usize, j: usize, ratio: f64) {
    let mut share = shares[j];
    for k in j + 1..shares.len() {
        let mut next = share * ratio;
        if next < 1e-300 {
            break;
        }
        if next > 1e250 {
            lowest = scale(shares, lowest..k, 1e-250);
            // A ratio above 1e58 can take a share beyond the range of doubles in one step.
            next = if next.is_finite() { next * 1e-250 } else { share * 1e-250 * ratio };
        }
        shares[k] = next;
        share = next;
    }
}

/// Computes S_j = sum over i = 0..j of x_i P(A > j - i + from), for j = 0, 1, 2, ... in order.
struct TailSum<'a> {
    above: &'a [f64],
    from: usize,
    /// Number of tails that are not negligible.
    width: usize,
    /// For each geometric part of the tails: P(A > from), ratio, and the part's contribution to the last sum.
    geometric: Vec<(f64, f64, f64)>,
    /// True if, once small, the terms of the sum never rise again.
    falling: bool,
}

impl<'a> TailSum<'a> {
    /// `smooth`: the x_i have no gaps, so that small terms of a light tail stay small.
    fn new(counts: &'a ArrivalCounts, from: usize, smooth: bool) -> Self {
        let all = counts.above.len();
        let geometric: Vec<(f64, f64, f64)> = counts
            .geometric
            .iter()
            .map(|(weight, ratio)| (weight * ratio.powi(from as i32 + 1), *ratio, 0.0))
            .collect();
        if !geometric.is_empty() {
            return Self { above: &counts.above, from, width: all, geometric, falling: false };
        }
        let width = counts.above.iter().position(|p| *p < 1e-300).unwrap_or(all);
        let falling = smooth && light_tailed(&counts.above[..width]);
        Self { above: &counts.above, from, width, geometric, falling }
    }

    fn next(&mut self, x: &[f64], j: usize) -> f64 {
        if self.geometric.is_empty() {
            let first = (j + self.from + 1).saturating_sub(self.width);
            let terms = (first..x.len().min(j + 1)).rev().map(|i| x[i] * self.above[j - i + self.from]);
            return if self.falling { sum_while_it_matters(terms) } else { terms.sum() };
        }
        let new = x.get(j).copied().unwrap_or(0.0);
        let mut total = 0.0;
        for (above, ratio, sum) in &mut self.geometric {
            // P(A > k + 1) = ratio P(A > k): all earlier terms shrink by the same factor.
            *sum = *ratio * *sum + new * *above;
            total += *sum;
        }
        total
    }

    /// Scales the sums after the x have been scaled.
    fn scale(&mut self, factor: f64) {
        self.geometric.iter_mut().for_each(|(_, _, sum)| *sum *= factor);
    }
}

/// Returns true if the tail falls ever faster (log-concave): then small terms of the recursion never rise again.
fn light_tailed(above: &[f64]) -> bool {
    above.windows(3).all(|w| w[1] * w[1] >= w[0] * w[2] * (1.0 - 1e-9))
}

/// Sums terms until one is below 1e-22 of the sum; requires that small terms never rise again.
fn sum_while_it_matters(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    for term in terms {
        sum += term;
        if term <= 1e-22 * sum {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::arrivals::TimeShape;
    use crate::queue::birth_death::Mm1b;

    #[test]
    fn exponential_service_is_mm1b() {
        for rho in [1e-6, 0.3, 0.999, 1.0, 1.5, 40.0] {
            for places in [1, 2, 30, 500] {
                let counts = ArrivalCounts::new(&TimeShape::Exponential, rho, places);
                let queue = Mg1k::new(rho, 1.0, &counts, places, &Setup::none(rho));
                let exact = Mm1b::new(rho, 1.0, places as u64);
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-11 * b.abs();
                assert!(near(queue.loss, exact.blocking()), "{rho} {places} {} {}", queue.loss, exact.blocking());
                assert!(near(queue.mean_present, exact.mean_present()), "{rho} {places}");
                assert!(near(queue.throughput, exact.throughput()), "{rho} {places}");
            }
        }
    }

    /// In heavy overload one step of the recursion may grow by hundreds of powers of ten.
    #[test]
    fn heavy_overload_stays_finite() {
        let loads = [1.5, 30.0, 600.0, 1e4].into_iter().chain((100..=230).map(f64::from));
        for (load, places) in loads.flat_map(|load| [(load, 308), (load, 374)]) {
            let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, places);
            let queue = Mg1k::new(load, 1.0, &counts, places, &Setup::none(load));
            assert!((queue.loss / (1.0 - 1.0 / load) - 1.0).abs() < 1e-9, "{load} {places}: {}", queue.loss);
            let full = places as f64;
            assert!((full - 4.0..=full).contains(&queue.mean_present), "{load} {places}: {}", queue.mean_present);
        }
    }

    /// docs/theory/misprints.md, eq. (11): at rho = 0.9 and B = 40 the exact idle share is 0.100026.
    #[test]
    fn deterministic_service_where_the_alternating_sum_fails() {
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, 0.9, 40);
        let queue = Mg1k::new(0.9, 1.0, &counts, 40, &Setup::none(0.9));
        let idle = queue.cycles / 0.9;
        assert!((idle - 0.100026).abs() < 5e-7, "{idle}");
    }

    /// The recursion as written at the top of this file, with all terms.
    fn term_by_term(counts: &ArrivalCounts, places: usize) -> Vec<f64> {
        let mut x = vec![1.0];
        for j in 0..places - 1 {
            let later: f64 = (1..=j).map(|i| x[i] * counts.above[j - i + 1]).sum();
            x.push((x[0] * counts.above[j] + later) / counts.equal[0]);
            if x[j + 1] > 1e250 {
                x.iter_mut().for_each(|share| *share *= 1e-250);
            }
        }
        let total: f64 = x.iter().sum();
        x.iter().map(|share| share / total).collect()
    }

    #[test]
    fn short_cuts_change_nothing() {
        let shapes = [
            TimeShape::Exponential,
            TimeShape::Deterministic,
            TimeShape::Erlang(3),
            TimeShape::Lognormal(0.4),
            TimeShape::Lognormal(2.0),
            TimeShape::Hyperexponential([(0.9, 5.0 / 9.0), (0.1, 5.0)]),
        ];
        for shape in shapes {
            for rho in [0.05, 0.6, 0.98, 1.0, 1.02, 1.7, 6.0] {
                let places = 1500;
                let counts = ArrivalCounts::new(&shape, rho, places);
                let queue = Mg1k::new(rho, 1.0, &counts, places, &Setup::none(rho));
                for (j, (fast, plain)) in queue.left_behind.iter().zip(term_by_term(&counts, places)).enumerate() {
                    assert!(
                        (fast - plain).abs() <= 1e-11 * plain.max(1e-200),
                        "{shape:?} rho = {rho} x_{j}: {fast} {plain}"
                    );
                }
            }
        }
    }
}
