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

/// The `i`-th zero of the Legendre polynomial of this degree, by Newton, and its weight on -1..1.
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
