//! Accuracy against the standard library, and the exact bits, which must not depend on the platform or the version of
//! libm.
#![allow(clippy::disallowed_methods, reason = "the C library's are the measure")]

use super::*;

/// Pseudo-random numbers of all sizes that the engines use, equal in every run.
fn numbers() -> impl Iterator<Item = f64> {
    let mut state = 1_u64;
    (0..20_000).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        // From 2^-20 to 2^20: below 1 half of the time.
        unit * 2_f64.powi((state % 41) as i32 - 20)
    })
}

type Function = fn(f64) -> f64;

#[test]
fn each_function_is_the_standard_librarys_to_two_ulp() {
    let pairs: [(&str, Function, Function); 8] = [
        ("ln", ln, f64::ln),
        ("ln_1p", ln_1p, f64::ln_1p),
        ("exp", |x| exp(-x), |x| (-x).exp()),
        ("exp_m1", |x| exp_m1(-x), |x| (-x).exp_m1()),
        ("cos", cos, f64::cos),
        ("tanh", tanh, f64::tanh),
        ("pow", |x| pow(x, -1.7), |x| x.powf(-1.7)),
        ("hypot", |x| hypot(x, 0.3), |x| x.hypot(0.3)),
    ];
    for (name, ours, standard) in pairs {
        for x in numbers() {
            let (ours, standard) = (ours(x), standard(x));
            let tolerance = 4.5e-16 * standard.abs().max(f64::MIN_POSITIVE);
            assert!((ours - standard).abs() <= tolerance, "{name}({x:e}) = {ours:e}, std says {standard:e}");
        }
    }
}

#[test]
fn logarithms_of_strange_numbers_are_the_standard_librarys() {
    for x in [0.0, -0.0, 1.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY] {
        assert!(ln(x) == x.ln() || (ln(x) / x.ln() - 1.0).abs() < 1e-15, "{x}: {} {}", ln(x), x.ln());
    }
    assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan());
}

/// A checksum of the bits of all results: equal on every platform and with every supported libm. With musl:
/// `scripts/cargo.sh test -p netcliff-core --target x86_64-unknown-linux-musl math`.
#[test]
fn the_bits_are_always_these() {
    let sum = |function: &dyn Fn(f64) -> f64| {
        numbers().fold(0_u64, |sum, x| sum.rotate_left(5).wrapping_add(function(x).to_bits()))
    };
    let found: Vec<String> = [
        sum(&ln),
        sum(&ln_1p),
        sum(&|x| exp(-x)),
        sum(&|x| exp_m1(-x)),
        sum(&cos),
        sum(&|x| sin_cos(x).0),
        sum(&tanh),
        sum(&|x| pow(x, -1.7)),
        sum(&|x| hypot(x, 0.3)),
        sum(&erfc),
    ]
    .iter()
    .map(|sum| format!("{sum:016x}"))
    .collect();
    assert_eq!(
        found.join(" "),
        "9dc002dccded0fb4 b487812caaf6c2ff 1de88c4bda4023da f98097f9a2116e88 c245876228f3002c eb64681253b921ee 47d8e9b1dd3b4411 \
         e0544aacbe2dc89f b99b5c196138aa62 74492f1f865f2533"
    );
}

/// Compares with values for which Simpson's rule over the density gives the confidence to 1e-15, then with the closed
/// forms for one and two degrees of freedom.
#[test]
fn student_has_the_values_of_tables() {
    for (confidence, freedom, table) in [
        (0.95, 9, 2.262_157_162_798_204),
        (0.99, 9, 3.249_835_541_592_114),
        (0.95, 30, 2.042_272_456_301_241),
        (0.95, 1, 12.706_204_736_174_68),
        (0.999, 4, 8.610_301_581_378_872),
        (0.9, 1000, 1.646_378_817_285_475),
    ] {
        let found = two_sided_t(confidence, freedom);
        assert!((found / table - 1.0).abs() < 1e-11, "{confidence} {freedom}: {found} {table}");
    }
    for confidence in [0.0, 1e-6, 0.3, 0.9, 0.999_999] {
        let exact = (std::f64::consts::FRAC_PI_2 * confidence).tan();
        assert!((two_sided_t(confidence, 1) - exact).abs() <= 1e-9 * exact);
        let exact = confidence * (2.0 / (1.0 - confidence * confidence)).sqrt();
        assert!((two_sided_t(confidence, 2) - exact).abs() <= 1e-9 * exact);
    }
    assert_eq!(two_sided_t(1.0, 5), f64::INFINITY);
    assert!(two_sided_t(f64::NAN, 5).is_nan());
}
