//! [`time_shares`]: share of time in each profile of Linux's dynamic interrupt moderation (lib/dim).
//!
//! A state is the state of lib/dim together with the previous measurement, with which the next one is compared. That
//! measurement is one of a grid of equally probable measurements of the profile in which it was made. While the
//! algorithm is parked on top (it has settled on a profile), the mean number of measurements until one differs
//! significantly is 1/(1 - P(a measurement does not differ)); this probability is an integral over the normal
//! distribution instead of a sum over the grid.

use netcliff_core::math;
use std::collections::BTreeMap;

use netcliff_core::net_dim::{Compared, EVENTS, PROFILES, SIGNIFICANT_PERCENT, Walk};

use super::cycle::Cycle;
use crate::queue::quadrature::gauss_legendre;

/// Number of packet rates in the grid, and of event rates for each packet rate.
const SIDE: usize = 7;
const GRID: usize = SIDE * SIDE;
/// Maximum number of rounds of the power iteration, and the change at which it ends.
const ROUNDS: usize = 3000;
const SETTLED: f64 = 1e-7;
/// Longest mean stay when parked, in measurements. A longer stay means smaller probabilities, at which the noise is not
/// normal.
const LONGEST_STAY: f64 = 1e9;

/// A measurement: (ln(packets per second), ln(events per second)).
type Measured = (f64, f64);

/// Normal distribution of a profile's measurements: means, standard deviations, and the slope of events on packets.
struct Normal {
    mean: Measured,
    deviation: Measured,
    slope: f64,
    /// Standard deviation of the event rate at a given packet rate.
    rest: f64,
    grid: Vec<Measured>,
    /// Bytes per packet.
    frame_bytes: f64,
}

impl Normal {
    fn new(cycle: &Cycle, frame_bytes: f64) -> Self {
        let [packets, events, both] = cycle.noise.map(|moment| moment / EVENTS as f64);
        let mean = (math::ln(cycle.packet_rate), -math::ln(cycle.length_s));
        let slope = both / packets;
        let rest = (events - both * slope).max(0.0).sqrt();
        let deviation = (packets.sqrt(), events.sqrt());
        let level = |n: usize| quantile((n as f64 + 0.5) / SIDE as f64);
        let grid = (0..GRID)
            .map(|n| {
                let x = deviation.0 * level(n / SIDE);
                (mean.0 + x, mean.1 + slope * x + rest * level(n % SIDE))
            })
            .collect();
        Self { mean, deviation, slope, rest, grid, frame_bytes }
    }

    /// P(a measurement of this profile does not differ significantly from `previous`).
    fn same(&self, previous: Measured) -> f64 {
        // Ranges of byte and packet rates that do not differ significantly, in standard deviations from the mean, cut
        // where the density is negligible.
        let (bytes, packets) = (band(previous.0, self.frame_bytes), band(previous.0, 1.0));
        let ends = [bytes.0.max(packets.0), bytes.1.min(packets.1)]
            .map(|end| ((end - self.mean.0) / self.deviation.0).clamp(-9.0, 9.0));
        let (low, high) = band(previous.1, 1.0);
        let width = ends[1] - ends[0];
        if width <= 0.0 {
            return 0.0;
        }
        let density = |z: f64| math::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
        let within = |z: f64| {
            let middle = self.mean.1 + self.slope * self.deviation.0 * z;
            let upto = |end: f64| below((end - middle) / self.rest.max(1e-12));
            upto(high) - upto(low)
        };
        gauss_legendre(width, 4, 8)
            .into_iter()
            .map(|(z, weight)| weight * density(ends[0] + z) * within(ends[0] + z))
            .sum()
    }
}

/// Computes a rate as dim_calc_stats does, with `each` units per packet: in whole units per millisecond, rounded up.
fn whole(rate_ln: f64, each: f64) -> f64 {
    (math::exp(rate_ln) * each / 1e3).ceil().max(1.0)
}

/// Returns the logarithms of the lowest and highest rate that do not differ significantly from this one. The kernel
/// compares whole percentages of whole numbers.
fn band(rate_ln: f64, each: f64) -> (f64, f64) {
    let before = whole(rate_ln, each);
    // The largest difference d of whole numbers whose percentage, 100 d / before rounded down, is not significant.
    let most = ((SIGNIFICANT_PERCENT + 1) as f64 * before / 100.0).ceil() - 1.0;
    let rate_ln = |whole: f64| math::ln(whole * 1e3 / each);
    // Whole numbers are rounded up: the range begins just above the whole number below the lowest.
    (rate_ln((before - most - 1.0).max(0.0)), rate_ln(before + most))
}

fn compare(current: Measured, previous: Measured, frame_bytes: f64) -> Compared {
    let differs = |now: f64, before: f64, each: f64| {
        let (low, high) = band(before, each);
        now <= low || now > high
    };
    let more = |now: f64, before: f64| if now > before { Compared::Better } else { Compared::Worse };
    let (packets, events) = ((current.0, previous.0), (current.1, previous.1));
    if differs(packets.0, packets.1, frame_bytes) || differs(packets.0, packets.1, 1.0) {
        more(packets.0, packets.1)
    } else if differs(events.0, events.1, 1.0) {
        more(events.1, events.0)
    } else {
        Compared::Same
    }
}

/// Index of each result in the `targets` of [`Chain::measure`].
const WORSE: u8 = 1;
const SAME: u8 = 2;

/// Compares each measurement of `current` with each of `previous`.
fn table(current: &Normal, previous: &Normal) -> Vec<u8> {
    let code = |one: Compared| match one {
        Compared::Better => 0,
        Compared::Worse => WORSE,
        Compared::Same => SAME,
    };
    let bytes = current.frame_bytes;
    let all =
        previous.grid.iter().flat_map(|before| current.grid.iter().map(move |now| code(compare(*now, *before, bytes))));
    all.collect()
}

/// Phi(z), the normal distribution function.
fn below(z: f64) -> f64 {
    0.5 * math::erfc(-z / std::f64::consts::SQRT_2)
}

/// Inverse of Phi, by bisection.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// State of lib/dim, and the profile of the previous measurement.
type Place = (Walk, usize);
/// Probabilities of each place, by the previous measurement. Ordered (a BTreeMap), so that sums have the same bits in
/// every run.
type Spread = BTreeMap<Place, Vec<f64>>;

struct Chain<'a> {
    cycles: &'a [Cycle; PROFILES],
    normals: [Normal; PROFILES],
    /// Results of comparisons, by profile and previous profile: for each previous measurement, its results with all new
    /// ones.
    compared: Vec<Vec<u8>>,
    /// Mean number of measurements that a stay on top lasts, by profile, previous profile and previous measurement.
    stays: BTreeMap<(usize, usize), Vec<f64>>,
}

/// Returns the long-run share of time in each profile, starting at profile `start`, for frames of this length (bytes).
pub fn time_shares(cycles: &[Cycle; PROFILES], start: usize, frame_bytes: f64) -> [f64; PROFILES] {
    let normals = cycles.each_ref().map(|cycle| Normal::new(cycle, frame_bytes));
    let compared = (0..PROFILES * PROFILES).map(|n| table(&normals[n / PROFILES], &normals[n % PROFILES])).collect();
    let mut chain = Chain { cycles, normals, compared, stays: BTreeMap::new() };
    // As in the kernel, a zeroed struct dim is parked, and its first measurement counts as better.
    let mut first = Walk::parked(start);
    first.decide(|| Compared::Better);
    let mut spread: Spread = [((first, start), vec![1.0 / GRID as f64; GRID])].into();
    let mut shares = [0.0; PROFILES];
    for _ in 0..ROUNDS {
        let (mut next, mut time_s) = (Spread::new(), [0.0; PROFILES]);
        for (place, weights) in &spread {
            chain.measure(*place, weights, &mut next, &mut time_s);
        }
        // Half of the weight stays in place in each round, so that the iteration is not periodic.
        spread.iter_mut().for_each(|(_, weights)| weights.iter_mut().for_each(|weight| *weight *= 0.5));
        for (place, weights) in next {
            let sum = spread.entry(place).or_insert_with(|| vec![0.0; GRID]);
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += 0.5 * weight);
        }
        let total: f64 = time_s.iter().sum();
        let found = time_s.map(|seconds| seconds / total);
        let change: f64 = found.iter().zip(&shares).map(|(a, b)| (a - b).abs()).sum();
        shares = found;
        if change < SETTLED {
            break;
        }
    }
    shares
}

impl Chain<'_> {
    /// Makes one measurement or, if parked on top, all until one differs. Adds the time they take to `time_s`.
    fn measure(
        &mut self,
        (walk, compared_with): Place,
        weights: &[f64],
        next: &mut Spread,
        time_s: &mut [f64; PROFILES],
    ) {
        let index = walk.index();
        let measurement_s = EVENTS as f64 * self.cycles[index].length_s;
        if walk.is_on_top() {
            let stays = self.stays(index, compared_with);
            time_s[index] +=
                weights.iter().zip(&stays).map(|(weight, stay)| weight * stay * measurement_s).sum::<f64>();
        } else {
            time_s[index] += weights.iter().sum::<f64>() * measurement_s;
        }
        // For each result of the comparison: the next place, and the weights by measurement.
        let mut targets = [Compared::Better, Compared::Worse, Compared::Same].map(|one| {
            let mut after = walk;
            after.decide(|| one);
            (after, vec![0.0; GRID])
        });
        let on_top = walk.is_on_top();
        let table = &self.compared[index * PROFILES + compared_with];
        for (weight, compared) in weights.iter().zip(table.chunks(GRID)).filter(|(weight, _)| **weight > 1e-15) {
            let leaving = compared.iter().filter(|one| **one != SAME).count();
            // A stay on top ends only with a measurement that differs; if no measurement of the grid differs, any of
            // them ends it.
            let only = on_top && leaving > 0;
            let share = weight / if only { leaving } else { GRID } as f64;
            for (measured, one) in compared.iter().enumerate().filter(|(_, one)| !only || **one != SAME) {
                let one = if on_top && *one == SAME { WORSE } else { *one };
                targets[one as usize].1[measured] += share;
            }
        }
        for (after, reached) in targets {
            let total: f64 = reached.iter().sum();
            if total == 0.0 {
                continue;
            }
            if after.index() != index {
                // After a change of profile, the measurement starts at the second busy period; the first one's time is
                // added here.
                time_s[after.index()] += total * self.cycles[after.index()].length_s;
            }
            let sum = next.entry((after, index)).or_insert_with(|| vec![0.0; GRID]);
            sum.iter_mut().zip(reached).for_each(|(sum, weight)| *sum += weight);
        }
    }

    fn stays(&mut self, index: usize, compared_with: usize) -> Vec<f64> {
        let normals = &self.normals;
        let stays = self.stays.entry((index, compared_with)).or_insert_with(|| {
            let grid = normals[compared_with].grid.iter();
            grid.map(|previous| (1.0 / (1.0 - normals[index].same(*previous)).max(0.0)).min(LONGEST_STAY)).collect()
        });
        stays.clone()
    }
}
