//! Quantiles of a positive time from its Laplace transform E[e^(-z T)].
//!
//! Euler summation (Abate, Whitt 1995): P(T > t) from 11 + 15 terms of the Fourier series with A = 18.4, absolute
//! error about 1e-8 where the distribution is smooth at t. A quantile therefore has an absolute error of about
//! 1e-8 / density; the 99.9th is still good to a part in 1e5.

use num_complex::Complex64;

/// Discretisation error e^-A.
const DISCRETISATION: f64 = 18.4;
/// Binomial averaging over 11 partial sums after the first 15.
const BINOMIAL: [f64; 12] = [1.0, 11.0, 55.0, 165.0, 330.0, 462.0, 462.0, 330.0, 165.0, 55.0, 11.0, 1.0];
const FIRST_TERMS: usize = 15;

/// P(T > t) for t > 0.
pub fn tail(transform: &dyn Fn(Complex64) -> Complex64, t: f64) -> f64 {
    let half = DISCRETISATION / (2.0 * t);
    let value = |k: usize| {
        let z = Complex64::new(half, k as f64 * std::f64::consts::PI / t);
        ((Complex64::new(1.0, 0.0) - transform(z)) / z).re
    };
    let scale = (DISCRETISATION / 2.0).exp() / t;
    let mut sum = 0.5 * value(0);
    let mut average = 0.0;
    for k in 1..FIRST_TERMS + BINOMIAL.len() {
        sum += if k % 2 == 0 { value(k) } else { -value(k) };
        if k >= FIRST_TERMS {
            average += BINOMIAL[k - FIRST_TERMS] * sum;
        }
    }
    (scale * average / 2048.0).clamp(0.0, 1.0)
}

/// The time t with P(T > t) = 1 - `share`, to a part in 1e6; None if the transform does not give one between
/// `mean` / 1e9 and `mean` x 1e6.
pub fn quantile(transform: &dyn Fn(Complex64) -> Complex64, mean: f64, share: f64) -> Option<f64> {
    let target = 1.0 - share;
    let (mut low, mut high) = (mean, mean);
    while tail(transform, low) < target {
        low *= 0.25;
        if low < mean * 1e-9 {
            return None;
        }
    }
    while tail(transform, high) > target {
        high *= 2.0;
        if high > mean * 1e6 {
            return None;
        }
    }
    while high - low > 1e-6 * high {
        let middle = 0.5 * (low + high);
        if tail(transform, middle) > target {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_and_erlang() {
        let exponential = |z: Complex64| 1.0 / (1.0 + z);
        for t in [0.1, 1.0, 5.0] {
            assert!((tail(&exponential, t) - f64::exp(-t)).abs() < 1e-7);
        }
        let p999 = quantile(&exponential, 1.0, 0.999).unwrap();
        assert!((p999 - 1000_f64.ln()).abs() < 1e-4, "{p999}");
        let erlang = |z: Complex64| (1.0 / (1.0 + z)).powi(2);
        assert!((tail(&erlang, 3.0) - 4.0 * f64::exp(-3.0)).abs() < 1e-7);
    }
}
