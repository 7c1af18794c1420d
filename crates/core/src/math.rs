//! Elementary functions with the same bits on every platform.
//!
//! The standard library calls the C library, and glibc, musl and WebAssembly differ in the last digits. Addition,
//! multiplication, division and square root are rounded equally everywhere (IEEE 754) and need no replacement, nor does
//! `powi`, a product in a fixed order. core, model and sim forbid the standard library's functions (`clippy.toml` of
//! the workspace).

mod student;

pub use split_mix::SplitMix64;
pub use student::two_sided_t;

// libm is pure Rust: musl's port of FreeBSD's msun, errors below 1 ulp.
pub use libm::{atan2, cos, erfc, exp, expm1 as exp_m1, hypot, log1p as ln_1p, pow, sincos as sin_cos, tanh};

/// Natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    // Zero, subnormal and negative numbers, infinity and NaN need the complete function.
    if x.is_normal() && x > 0.0 { ln_of_normal(x) } else { libm::log(x) }
}

/// Natural logarithm of a normal positive number, without branches, so that loops over it can be vectorised (fdlibm's
/// polynomial; error below 2 ulp).
#[inline(always)]
pub fn ln_of_normal(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_0000_0000;
    let bits = x.to_bits();
    // Exponent and mantissa such that the mantissa lies in [sqrt(1/2), sqrt(2)).
    let shifted = bits.wrapping_add(0x3ff0_0000_0000_0000 - SQRT_HALF_BITS);
    // The exponent through the magic constant 2^52 + 1023: an integer to float conversion that vectorises everywhere.
    let exponent = f64::from_bits((shifted >> 52) | 0x4330_0000_0000_0000) - 4_503_599_627_371_519.0;
    let f = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff) + SQRT_HALF_BITS) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let odd = w * (0.399_999_999_994_094_2 + w * (0.222_221_984_321_497_84 + w * 0.153_138_376_992_093_73));
    let even = z
        * (0.666_666_666_666_673_5
            + w * (0.285_714_287_436_623_9 + w * (0.181_835_721_616_180_5 + w * 0.147_981_986_051_165_86)));
    let half = 0.5 * f * f;
    exponent * LN2_HIGH - ((half - (s * (half + odd + even) + exponent * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests;

mod split_mix {
    //! SplitMix64, for seeds and for small numbers of draws.

    /// Pseudo-random numbers that are equal on all platforms: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), from a
    /// seed.
    #[derive(Debug, Clone)]
    pub struct SplitMix64(pub u64);

    impl SplitMix64 {
        /// The next number, uniform over all 64-bit values.
        #[inline]
        pub fn draw(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// The next number, uniform in (0, 1), with 53 random bits.
        pub fn uniform(&mut self) -> f64 {
            ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The first numbers of the reference implementation (Vigna, splitmix64.c) with seed 1234567.
        #[test]
        fn numbers_are_those_of_the_reference() {
            let mut numbers = SplitMix64(1_234_567);
            let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
            assert_eq!([0; 3].map(|_: u64| numbers.draw()), first);
        }
    }
}
