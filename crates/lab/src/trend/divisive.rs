//! Change points of a series by E-divisive means (Matteson and James, "A nonparametric approach for multiple change
//! point analysis of multivariate data", JASA 109, 2014, with exponent 1), as used for performance results by Daly et
//! al. (ICPE 2020).
//!
//! A permutation test judges the split that maximises the energy distance between its sides. It counts how often a
//! shuffled series has a split that is at least as good. If this is rare, the series is divided there, and each part is
//! tested in turn. The method assumes no distribution, and an outlier is not a change of level.
//!
//! A single split hardly detects a level that comes and goes, because one of its sides contains both levels. Therefore
//! a second test uses the stretch whose mean differs most from the mean of the rest (circular binary segmentation;
//! Olshen et al., Biostatistics 5, 2004). Each of the two tests has half the level.

use netcliff_core::math::SplitMix64;

/// Smallest number of values on each side of a change. The energy within a side needs two values. With two values only,
/// a pair of outliers would count as a level.
pub const LEAST: usize = 3;

/// A split of a series into two parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Index of the first value after the split.
    pub at: usize,
    /// Probability of a split that is at least as good in a series without a change.
    pub p: f64,
}

/// Generator of random orders for the permutations.
struct Sequence(SplitMix64);

impl Sequence {
    fn below(&mut self, bound: usize) -> usize {
        // The bias of the high word is below 1e-15 for any series that fits in memory.
        ((u128::from(self.0.draw()) * bound as u128) >> 64) as usize
    }

    fn shuffle(&mut self, values: &mut [f64]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}

/// The best split of a series and its weighted energy distance. `None` if the series is too short.
fn best(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * LEAST {
        return None;
    }
    let apart = |of: f64, others: &[f64]| others.iter().map(|other| (of - other).abs()).sum::<f64>();
    // Sums of distances within the left part, between both, and within the right part.
    let (mut left, mut between) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| apart(values[i], &values[i + 1..])).sum();
    let mut found: Option<(usize, f64)> = None;
    for at in 1..=n - LEAST {
        let (to_left, to_right) = (apart(values[at - 1], &values[..at - 1]), apart(values[at - 1], &values[at..]));
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        if at < LEAST {
            continue;
        }
        let (m, k) = (at as f64, (n - at) as f64);
        let pairs = |count: f64| count * (count - 1.0) / 2.0;
        let energy = 2.0 * between / (m * k) - left / pairs(m) - right / pairs(k);
        let weighted = m * k / (m + k) * energy;
        if found.is_none_or(|(_, most)| weighted > most) {
            found = Some((at, weighted));
        }
    }
    found
}

/// The stretch `from..to` whose mean is furthest from that of the rest, with its deviation in units of the deviation of
/// one value. `None` if the series has no room for [`LEAST`] values in it and on each side.
fn stretch(values: &[f64]) -> Option<(usize, usize, f64)> {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(values.iter().scan(0.0, |sum, value| {
            *sum += value - mean;
            Some(*sum)
        }))
        .collect();
    let mut found: Option<(usize, usize, f64)> = None;
    for from in LEAST..n.saturating_sub(2 * LEAST - 1) {
        for to in from + LEAST..=n - LEAST {
            let inside = (to - from) as f64;
            let deviation = (sums[to] - sums[from]).abs() / (inside * (n as f64 - inside) / n as f64).sqrt();
            if found.is_none_or(|(.., most)| deviation > most) {
                found = Some((from, to, deviation));
            }
        }
    }
    found
}

/// The change points of a series at a level, in their order.
///
/// `permutations` is the number of shuffled series that a split is compared with. `seed` starts their random sequence.
pub fn change_points(values: &[f64], level: f64, permutations: u32, seed: u64) -> Vec<Split> {
    let mut sequence = Sequence(SplitMix64(seed));
    let mut found = Vec::new();
    let mut waiting = vec![(0, values.len())];
    while let Some((start, end)) = waiting.pop() {
        let part = &values[start..end];
        let Some((at, energy)) = best(part) else { continue };
        let inner = stretch(part);
        let mut shuffled = part.to_vec();
        // A rearranged sum of the same values differs in the last bits.
        let reaches = |other: f64, most: f64| other >= most - 1e-12 * most.abs();
        let (mut as_split, mut as_stretch) = (0.0, 0.0);
        for _ in 0..permutations {
            sequence.shuffle(&mut shuffled);
            as_split += f64::from(u8::from(best(&shuffled).is_some_and(|(_, other)| reaches(other, energy))));
            if let Some((.., most)) = inner {
                as_stretch += f64::from(u8::from(stretch(&shuffled).is_some_and(|(.., other)| reaches(other, most))));
            }
        }
        let p = |as_good: f64| (2.0 * (as_good + 1.0) / (f64::from(permutations) + 1.0)).min(1.0);
        let (p_split, p_stretch) = (p(as_split), if inner.is_some() { p(as_stretch) } else { 1.0 });
        match inner {
            Some((from, to, most)) if p_stretch <= level && p_stretch < p_split && most > 0.0 => {
                found.extend([from, to].map(|at| Split { at: start + at, p: p_stretch }));
                waiting.extend([(start, start + from), (start + from, start + to), (start + to, end)]);
            }
            _ if p_split <= level && energy > 0.0 => {
                found.push(Split { at: start + at, p: p_split });
                waiting.extend([(start, start + at), (start + at, end)]);
            }
            _ => {}
        }
    }
    found.sort_by_key(|split| split.at);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series with these levels and noise of 1 %, always from the same random sequence.
    fn series(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut sequence = Sequence(SplitMix64(seed));
        // The sum of twelve uniform numbers minus 6 is nearly standard normal.
        let mut normal = || (0..12).map(|_| sequence.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0;
        levels
            .iter()
            .flat_map(|(count, level)| vec![*level; *count])
            .map(|level| level * (1.0 + 0.01 * normal()))
            .collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        change_points(values, 0.05, 199, 7).iter().map(|split| split.at).collect()
    }

    /// 60 series: each change is detected within one value of its position. With three tests at 5 % in each series, 14
    /// % of the series have additional changes. More than 18 of 60, the critical value here, have probability 0.0008
    /// (binomial).
    #[test]
    fn steps_of_three_deviations_and_more_are_found_where_they_are() {
        /// Levels with their lengths, and where they change.
        type Steps = (&'static [(usize, f64)], &'static [usize]);
        let kinds: [Steps; 3] = [
            (&[(20, 100.0), (20, 96.0)], &[20]),
            (&[(15, 100.0), (15, 95.0), (15, 100.0)], &[15, 30]),
            (&[(30, 100.0), (6, 90.0)], &[30]),
        ];
        let (mut further, mut missed) = (0, Vec::new());
        for seed in 0..60 {
            let (levels, changes) = kinds[seed as usize % kinds.len()];
            let places = places(&series(levels, seed));
            let near = |at: usize| places.iter().any(|place| place.abs_diff(at) <= 1);
            if !changes.iter().all(|at| near(*at)) {
                missed.push((seed, places.clone()));
            }
            further += usize::from(places.len() > changes.len());
        }
        assert!(missed.is_empty() && further <= 18, "missed {missed:?}, further changes in {further} of 60");
    }

    /// In series without a change, the share of false changes is at most the level. 5 % of 200 is 10; more than 20, the
    /// critical value here, have probability 0.0008 (binomial).
    #[test]
    fn noise_alone_shows_a_change_as_seldom_as_the_level_says() {
        let false_alarms = (0..200)
            .filter(|seed| !change_points(&series(&[(24, 100.0)], 1000 + seed), 0.05, 99, *seed).is_empty())
            .count();
        assert!(false_alarms <= 20, "{false_alarms} of 200");
    }

    #[test]
    fn outliers_short_and_constant_series_have_no_change() {
        let mut values = series(&[(30, 100.0)], 4);
        values[11] = 300.0;
        assert_eq!(places(&values), [0_usize; 0]);
        assert_eq!(places(&[1.0; 40]), [0_usize; 0]);
        assert_eq!(places(&[1.0, 1.0, 2.0, 2.0]), [0_usize; 0]);
        assert_eq!(places(&[]), [0_usize; 0]);
    }

    #[test]
    fn the_energy_of_a_split_is_that_of_its_definition() {
        let values = [1.0, 2.0, 4.0, 9.0, 11.0, 12.0, 20.0];
        let (at, found) = best(&values).expect("room for a split");
        let (left, right) = values.split_at(at);
        let mean = |a: &[f64], b: &[f64]| {
            a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs())).sum::<f64>() / (a.len() * b.len()) as f64
        };
        let within = |a: &[f64]| mean(a, a) * a.len() as f64 / (a.len() - 1) as f64;
        let (m, k) = (left.len() as f64, right.len() as f64);
        let defined = m * k / (m + k) * (2.0 * mean(left, right) - within(left) - within(right));
        assert!((found - defined).abs() < 1e-12 * defined, "{found}, not {defined}");
    }
}
