//! SplitMix64, for seeds and for draws of which few are made.

/// Pseudo-random numbers that are the same everywhere: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), from a seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number, uniform over all 64 bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number, uniform in (0, 1), of 53 bits.
    pub fn uniform(&mut self) -> f64 {
        ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation (Vigna, splitmix64.c) from the seed 1234567.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut numbers = SplitMix64(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0; 3].map(|_: u64| numbers.draw()), first);
    }
}
