//! Functions of complex numbers that give the same bits on every platform: num-complex's go by the C library.

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
