//! Quantiles of Student's t distribution.

use super::sin_cos;

/// The value that a variable of Student's t distribution exceeds in absolute value with probability `1 - confidence`.
///
/// The probability is a finite sum in sin and cos of the angle `atan(t / sqrt(freedom))` (Abramowitz and Stegun 26.7.3
/// and 26.7.4). Newton's method within bounds inverts it. `freedom`: degrees of freedom, at least 1.
pub fn two_sided_t(confidence: f64, freedom: usize) -> f64 {
    let freedom = freedom.max(1);
    if !(0.0..1.0).contains(&confidence) {
        return if confidence >= 1.0 { f64::INFINITY } else { f64::NAN };
    }
    if confidence == 0.0 {
        return 0.0;
    }
    // The derivative is proportional to cos^(freedom - 1) of the angle.
    let factor = if freedom % 2 == 1 { std::f64::consts::FRAC_2_PI } else { 1.0 }
        * (1..=freedom.saturating_sub(1) / 2).fold(1.0, |product, k| {
            let k = k as f64;
            product * if freedom % 2 == 1 { 2.0 * k / (2.0 * k - 1.0) } else { (2.0 * k + 1.0) / (2.0 * k) }
        });
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    // Start of the search: the normal distribution's value is near 2. The start changes only the number of steps.
    let mut angle = libm::atan(2.0 / (freedom as f64).sqrt());
    for _ in 0..200 {
        let (sin, cos) = sin_cos(angle);
        let excess = within(angle, sin, cos, freedom) - confidence;
        if excess > 0.0 {
            high = angle
        } else {
            low = angle
        }
        let step = excess / (factor * cos.powi(freedom as i32 - 1));
        let newton = angle - step;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if next == angle || (next - angle).abs() <= 1e-16 * angle {
            break;
        }
        angle = next;
    }
    let (sin, cos) = sin_cos(angle);
    (freedom as f64).sqrt() * sin / cos
}

/// Probability that `|t|` is below `sqrt(freedom)` times the tangent of `angle`.
fn within(angle: f64, sin: f64, cos: f64, freedom: usize) -> f64 {
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = if odd { (cos, cos) } else { (1.0, 1.0) };
    for k in 1..freedom / 2 {
        let k = k as f64;
        term *= cos * cos * if odd { 2.0 * k / (2.0 * k + 1.0) } else { (2.0 * k - 1.0) / (2.0 * k) };
        sum += term;
    }
    match (odd, freedom) {
        (true, 1) => std::f64::consts::FRAC_2_PI * angle,
        (true, _) => std::f64::consts::FRAC_2_PI * (angle + sin * sum),
        (false, _) => sin * sum,
    }
}
