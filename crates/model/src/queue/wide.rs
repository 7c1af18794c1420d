//! Sums of the chains' rows, eight values at once, for [`netcliff_core::wide`].

use netcliff_core::wide::Width;
pub use netcliff_core::wide::Work;

/// Does the work with the widest vectors of this machine.
pub fn run<W: Work>(work: W) -> W::Output {
    Width::detect().run(work)
}

/// The sum, eight at once.
#[inline(always)]
pub fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value);
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest
}

/// The sum of products, eight at once; both have one length.
#[inline(always)]
pub fn product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (ones, others) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = ones.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in ones.zip(others) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Both<'a>(&'a [f64], &'a [f64]);

    impl Work for Both<'_> {
        type Output = [u64; 2];

        #[inline(always)]
        fn run(self) -> [u64; 2] {
            [sum(self.0), product(self.0, self.1)].map(f64::to_bits)
        }
    }

    /// Sums of all lengths have the bits of the narrowest vectors.
    #[test]
    fn all_widths_have_the_same_bits() {
        let values: Vec<f64> = (1..300).map(|at| 1.0 / f64::from(at)).collect();
        for length in 0..values.len() {
            let both = || Both(&values[..length], &values[values.len() - length..]);
            for width in Width::all() {
                assert_eq!(width.run(both()), both().run(), "{length} {width:?}");
            }
        }
    }
}
