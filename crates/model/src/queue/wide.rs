//! Sums over the rows of chains, eight values at once, for [`netcliff_core::wide`].

use netcliff_core::wide::Width;
pub use netcliff_core::wide::Work;

/// Runs the work with the widest vectors of this machine.
pub fn run<W: Work>(work: W) -> W::Output {
    Width::detect().run(work)
}

/// Sums the values, eight at once. (A loop over indexes, because iterator adapters are not inlined into large callers.)
#[inline(always)]
pub fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for lane in 0..8 {
            sums[lane] += chunk[lane];
        }
    }
    let mut others = 0.0;
    for value in rest {
        others += value;
    }
    together(sums) + others
}

/// Scalar product, eight values at once; both slices have the same length.
#[inline(always)]
pub fn product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((ones, rest), (others, other_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for place in 0..ones.len().min(others.len()) {
        let (one, other) = (&ones[place], &others[place]);
        for lane in 0..8 {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let mut last = 0.0;
    for place in 0..rest.len().min(other_rest.len()) {
        last += rest[place] * other_rest[place];
    }
    together(sums) + last
}

#[inline(always)]
fn together(sums: [f64; 8]) -> f64 {
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]))
}

/// Adds each value times `factor` to the sum at the same index, up to the shorter of the two lengths.
#[inline(always)]
pub fn add(sums: &mut [f64], values: &[f64], factor: f64) {
    let length = sums.len().min(values.len());
    let (sums, values) = (&mut sums[..length], &values[..length]);
    for place in 0..length {
        sums[place] += factor * values[place];
    }
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

    /// Sums of all lengths have the same bits as with the narrowest vectors.
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
