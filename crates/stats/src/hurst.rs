//! Hurst parameter of a series of counts, by two methods: how slowly bursts average out over longer times. 0.5: as fast
//! as independent counts. Near 1: long-range dependence.
//!
//! Aggregated variance: the variance of means over m slices falls as m^(2H-2) (Leland et al. 1994). Means vary less
//! around the series' own mean than around the true one, by a factor of 1 - n^(2H-2) for n blocks, which is corrected
//! for.
//!
//! Wavelets: the energy of Haar details of octave j grows as 2^(j(2H-1)) (Abry and Veitch 1998). This is exact for
//! fractional Gaussian noise, and a trend of the mean has little effect.

use std::ops::RangeInclusive;

use netcliff_core::Figure;
use netcliff_core::math;

use crate::mean_at;

/// Smallest number of blocks, or details, of the longest octave. With fewer, the estimate is poor and its logarithm too
/// low.
const LEAST_BLOCKS: usize = 32;
/// Smallest number of octaves for fitting a line.
const LEAST_OCTAVES: u32 = 3;
/// Number of iterations that correct aggregated variance for the series' own mean. After them, H changes by less than
/// 1e-9 if it is at most 0.95.
const ROUNDS: u32 = 60;

/// The Hurst parameter by both methods: each the mean over the series, with its Student interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hurst {
    /// By aggregated variance.
    pub aggregated_variance: Figure,
    /// By Haar wavelets.
    pub wavelets: Figure,
}

impl Hurst {
    /// Estimates H from independent series of one process, each of at least 1024 counts, over octaves from `first` on
    /// (block lengths from 2^`first` slices). `None` if there are too few octaves, or if a series does not vary.
    pub fn of(series: &[Vec<f64>], first: u32, confidence: f64) -> Option<Self> {
        let each = |method: fn(&[f64], RangeInclusive<u32>) -> Option<f64>| -> Option<Figure> {
            let found: Option<Vec<f64>> =
                series.iter().map(|counts| method(counts, octaves(counts.len(), first)?)).collect();
            mean_at(&found?, confidence)
        };
        Some(Self { aggregated_variance: each(aggregated_variance)?, wavelets: each(wavelets)? })
    }
}

/// The octaves from `first` to the longest with [`LEAST_BLOCKS`] blocks. `None` if they are fewer than
/// [`LEAST_OCTAVES`].
fn octaves(counts: usize, first: u32) -> Option<RangeInclusive<u32>> {
    let last = (counts / LEAST_BLOCKS).checked_ilog2()?;
    (last + 1 >= first + LEAST_OCTAVES).then_some(first..=last)
}

/// Returns H (the Hurst exponent) by the variances of block means over `octaves`. `None` if the means do not vary.
pub fn aggregated_variance(counts: &[f64], octaves: RangeInclusive<u32>) -> Option<f64> {
    let points: Option<Vec<[f64; 3]>> = octaves
        .map(|octave| {
            let blocks: Vec<f64> = counts.chunks_exact(1 << octave).map(mean).collect();
            let variance = squares(&blocks, mean(&blocks)) / blocks.len() as f64;
            (variance > 0.0).then(|| [f64::from(octave), variance.log2(), blocks.len() as f64])
        })
        .collect();
    let points = points?;
    let mut hurst = 0.5;
    for _ in 0..ROUNDS {
        let kept = |blocks: f64| 1.0 - math::pow(blocks, 2.0 * hurst - 2.0);
        let given_back = points.iter().map(|[octave, log, blocks]| [*octave, log - kept(*blocks).log2(), *blocks]);
        hurst = (1.0 + 0.5 * slope(&given_back.collect::<Vec<_>>())).clamp(0.01, 0.995);
    }
    Some(hurst)
}

/// H by the energies of Haar details over `octaves`. `None` if all details of an octave are 0.
pub fn wavelets(counts: &[f64], octaves: RangeInclusive<u32>) -> Option<f64> {
    let mut rough = counts.to_vec();
    let mut points = Vec::new();
    for octave in 1..=*octaves.end() + 1 {
        let pairs = || rough.chunks_exact(2);
        let details = pairs().count() as f64;
        let energy = pairs().map(|pair| 0.5 * (pair[0] - pair[1]).powi(2)).sum::<f64>() / details;
        rough = pairs().map(|pair| (pair[0] + pair[1]) * std::f64::consts::FRAC_1_SQRT_2).collect();
        // Details of octave j compare two blocks of 2^(j-1) slices.
        if octave > *octaves.start() {
            if energy <= 0.0 {
                return None;
            }
            // On average, the logarithm of a mean of few squares is too low by this amount.
            let bias = 1.0 / (details * std::f64::consts::LN_2);
            points.push([f64::from(octave), energy.log2() + bias, details]);
        }
    }
    Some(0.5 * (1.0 + slope(&points)))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn squares(values: &[f64], around: f64) -> f64 {
    values.iter().map(|value| (value - around) * (value - around)).sum()
}

/// Slope of the line fitted to points of x, y and weight.
fn slope(points: &[[f64; 3]]) -> f64 {
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|[x, y, weight]| weight * of(*x, *y)).sum::<f64>();
    let all = sum(&|_, _| 1.0);
    let (x_mean, y_mean) = (sum(&|x, _| x) / all, sum(&|_, y| y) / all);
    sum(&|x, y| (x - x_mean) * (y - y_mean)) / sum(&|x, _| (x - x_mean) * (x - x_mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform numbers in (0, 1): SplitMix64.
    struct Uniforms(u64);

    impl Uniforms {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON / 4.0
        }

        /// Two independent standard normal numbers (Box and Muller).
        fn normals(&mut self) -> (f64, f64) {
            let (radius, angle) = ((-2.0 * self.next().ln()).sqrt(), std::f64::consts::TAU * self.next());
            (radius * angle.cos(), radius * angle.sin())
        }
    }

    /// Discrete Fourier transform of a power of two of (real, imaginary) numbers.
    fn transform(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let count = values.len();
        if count == 1 {
            return values.to_vec();
        }
        let half = |odd: usize| transform(&values.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>());
        let (even, odd) = (half(0), half(1));
        let mut found = vec![(0.0, 0.0); count];
        for k in 0..count / 2 {
            let (sin, cos) = (-std::f64::consts::TAU * k as f64 / count as f64).sin_cos();
            let turned = (odd[k].0 * cos - odd[k].1 * sin, odd[k].0 * sin + odd[k].1 * cos);
            found[k] = (even[k].0 + turned.0, even[k].1 + turned.1);
            found[k + count / 2] = (even[k].0 - turned.0, even[k].1 - turned.1);
        }
        found
    }

    /// Fractional Gaussian noise with this H: exact, by circulant embedding (Davies and Harte 1987).
    fn noise(hurst: f64, count: usize, uniforms: &mut Uniforms) -> Vec<f64> {
        let power = |k: f64| k.abs().powf(2.0 * hurst);
        let covariance = |k: usize| {
            let k = k as f64;
            0.5 * (power(k - 1.0) - 2.0 * power(k) + power(k + 1.0))
        };
        let circle: Vec<(f64, f64)> = (0..2 * count).map(|k| (covariance(k.min(2 * count - k)), 0.0)).collect();
        let waves: Vec<(f64, f64)> = transform(&circle)
            .iter()
            .map(|(eigenvalue, _)| {
                let (real, imaginary) = uniforms.normals();
                let size = (eigenvalue.max(0.0) / (2 * count) as f64).sqrt();
                (size * real, size * imaginary)
            })
            .collect();
        transform(&waves)[..count].iter().map(|(real, _)| *real).collect()
    }

    fn contains(figure: Figure, hurst: f64) -> bool {
        figure.interval.is_some_and(|ends| ends.low <= hurst && hurst <= ends.high)
    }

    /// Seed 3: for 20 series each, the 99 % interval of either method contains the H of the generated noise, and is
    /// narrow.
    #[test]
    fn noise_of_known_hurst_parameter_lies_in_the_interval() {
        let mut uniforms = Uniforms(3);
        for hurst in [0.5, 0.6, 0.7, 0.8, 0.9] {
            let series: Vec<Vec<f64>> = (0..20).map(|_| noise(hurst, 4096, &mut uniforms)).collect();
            let found = Hurst::of(&series, 2, 0.99).unwrap();
            assert!(
                contains(found.aggregated_variance, hurst) && contains(found.wavelets, hurst),
                "{hurst}: {found:?}"
            );
            for figure in [found.aggregated_variance, found.wavelets] {
                let ends = figure.interval.unwrap();
                assert!(ends.high - ends.low < 0.07, "{hurst}: {figure:?}");
            }
        }
    }

    /// Seed 5: counts of Poisson arrivals, 3 per slice, have H = 0.5. With a slow sine (a day's load) added, wavelets
    /// still estimate it, but aggregated variance takes the sine for dependence.
    #[test]
    fn poisson_counts_have_a_half_also_with_a_slow_trend_by_wavelets() {
        let mut uniforms = Uniforms(5);
        let mut poisson = |mean: f64| {
            let (limit, mut product, mut count) = ((-mean).exp(), 1.0, 0.0);
            loop {
                product *= uniforms.next();
                if product < limit {
                    return count;
                }
                count += 1.0;
            }
        };
        let mut made = |swing: f64| -> Vec<Vec<f64>> {
            let load = |k: usize| 3.0 + swing * (std::f64::consts::TAU * k as f64 / 8192.0).sin();
            (0..20).map(|_| (0..8192).map(|k| poisson(load(k))).collect()).collect()
        };
        let even = Hurst::of(&made(0.0), 2, 0.99).unwrap();
        assert!(contains(even.aggregated_variance, 0.5) && contains(even.wavelets, 0.5), "{even:?}");
        let trend = Hurst::of(&made(1.0), 2, 0.99).unwrap();
        assert!(trend.aggregated_variance.value > trend.wavelets.value + 0.1, "{trend:?}");
    }

    #[test]
    fn what_does_not_vary_or_is_too_short_has_none() {
        assert_eq!(Hurst::of(&[vec![2.0; 4096]], 2, 0.95), None);
        assert_eq!(Hurst::of(&[(0..200).map(f64::from).collect()], 2, 0.95), None);
        assert_eq!(octaves(4096, 2), Some(2..=7));
        assert_eq!(octaves(512, 2), Some(2..=4));
        assert_eq!(octaves(511, 2), None);
    }
}
