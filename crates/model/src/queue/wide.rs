//! The same loops compiled for wider vectors, chosen at run time. Rust never fuses multiplication and addition by itself, and sums keep their order, so
//! that every version gives the same bits; a test compares them. (`netcliff-sim` has the same for its random numbers.)

/// Work that gains from wide vectors; `run` and what it calls in its loops must be `#[inline(always)]`.
pub trait Work {
    /// What it gives.
    type Output;
    /// Does it.
    fn run(self) -> Self::Output;
}

/// Does the work with the widest vectors of this machine.
pub fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: this machine has the features.
            return unsafe { run_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { run_avx2(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run()
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
            assert_eq!(run(both()), both().run(), "{length}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: this machine has the features.
                assert_eq!(unsafe { run_avx2(both()) }, both().run(), "{length}");
            }
        }
    }
}
