//! Queueing mathematics that is independent of netcliff: no hosts and schemes, only rates and sizes.
//!
//! | module | contents |
//! | --- | --- |
//! | [`geometric`] | truncated geometric distributions by x = ln(ratio), exact to the last digits at ratio 1 |
//! | [`birth_death`] | M/M/1/B |
//! | [`mmcb`] | M/M/c/B |
//! | [`arrivals`] | arrivals in a random time |
//! | [`mg1k`] | M/G/1/K with a set-up, subtraction-free |
//! | [`matrix`] | small dense matrices, inverses and stationary vectors without subtraction (GTH) |
//! | [`banded`] | stationary vectors of banded chains |
//! | [`qbd`] | finite level-dependent quasi-birth-death processes |
//! | [`pieces`] | weights by level as runs of a constant ratio |
//! | [`quadrature`] | Gauss-Legendre |
//! | [`inversion`] | quantiles from Laplace transforms |
//! | [`uniform`] | effect of a chain during a constant time |
//! | [`krylov`] | stationary vectors of chains known only by the effect of one step |
//! | [`two_moment`] | finite queues known only by two moments |
//!
//! Only [`krylov`] subtracts probabilities. Sums of positive terms keep their relative accuracy, so that a loss of
//! 1e-30 is as exact as one of 0.5.

pub mod arrivals;
pub mod banded;
pub mod birth_death;
pub mod geometric;
pub mod inversion;
pub mod krylov;
pub mod matrix;
pub mod mg1k;
pub mod mmcb;
pub mod pieces;
pub mod qbd;
pub mod two_moment;
pub mod uniform;
pub mod wide;

pub(crate) mod complex {
    //! Functions of complex numbers that give the same bits on every platform; the functions of num-complex call the C
    //! library.

    use netcliff_core::math;
    use num_complex::Complex64;

    /// e to the power of `z`.
    pub fn exp(z: Complex64) -> Complex64 {
        polar(math::exp(z.re), z.im)
    }

    /// `z` to a real power.
    pub fn pow(z: Complex64, power: f64) -> Complex64 {
        if power == 0.0 {
            return Complex64::new(1.0, 0.0);
        }
        polar(math::pow(norm(z), power), power * math::atan2(z.im, z.re))
    }

    /// Distance from 0.
    pub fn norm(z: Complex64) -> f64 {
        math::hypot(z.re, z.im)
    }

    fn polar(length: f64, angle: f64) -> Complex64 {
        let (sin, cos) = math::sin_cos(angle);
        Complex64::new(length * cos, length * sin)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn they_are_num_complexs_to_last_places() {
            for z in [Complex64::new(0.3, -2.0), Complex64::new(-0.9, 1e-3), Complex64::new(-4.0, 40.0)] {
                assert!((exp(z) - z.exp()).norm() <= 1e-15 * z.exp().norm());
                assert!((pow(z, 7.0) - z.powf(7.0)).norm() <= 1e-14 * z.powf(7.0).norm());
                assert!((norm(z) - z.norm()).abs() <= 1e-15 * z.norm());
            }
            assert_eq!(pow(Complex64::new(0.0, 0.0), 0.0), Complex64::new(1.0, 0.0));
        }
    }
}

pub mod quadrature {
    //! Gauss-Legendre quadrature on panels.

    use netcliff_core::math;

    /// (Node, weight) of `points` Gauss-Legendre points on each of `panels` equal parts of 0..`end`. The error falls
    /// exponentially in `points` for integrands that are smooth in each panel.
    pub fn gauss_legendre(end: f64, panels: usize, points: usize) -> Vec<(f64, f64)> {
        let base: Vec<(f64, f64)> = (0..points).map(|i| node(i, points)).collect();
        let half = 0.5 * end / panels as f64;
        (0..panels)
            .flat_map(|panel| {
                let middle = (2 * panel + 1) as f64 * half;
                base.iter().map(move |(x, w)| (middle + half * x, half * w))
            })
            .collect()
    }

    /// Returns the `i`-th zero of the Legendre polynomial of this degree, by Newton's method, and its weight on -1..1.
    fn node(i: usize, degree: usize) -> (f64, f64) {
        let mut x = math::cos(std::f64::consts::PI * (i as f64 + 0.75) / (degree as f64 + 0.5));
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut below, mut here) = (1.0, x);
            for k in 2..=degree {
                (below, here) = (here, ((2 * k - 1) as f64 * x * here - (k - 1) as f64 * below) / k as f64);
            }
            slope = degree as f64 * (x * here - below) / (x * x - 1.0);
            let step = here / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn integrates_polynomials_and_waves() {
            let sum = |end: f64, f: &dyn Fn(f64) -> f64| -> f64 {
                gauss_legendre(end, 3, 16).iter().map(|(x, w)| w * f(*x)).sum()
            };
            assert!((sum(2.0, &|x| x.powi(20)) - 2_f64.powi(21) / 21.0).abs() < 1e-8);
            assert!((sum(2.0, &|_| 1.0) - 2.0).abs() < 1e-14);
            assert!((sum(10.0, &|x| math::cos(3.0 * x)) - (30_f64).sin() / 3.0).abs() < 1e-10);
        }
    }
}
