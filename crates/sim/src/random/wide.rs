//! The same block functions, compiled for wider vectors and selected once at run time. Rust never fuses multiplication
//! and addition by itself, so every version gives the same bits; a test compares them.

/// The instruction set to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// The instructions of every machine of the target.
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Work on a block that benefits from wide vectors. `run` and all functions it calls must be `#[inline(always)]`.
pub(super) trait Work {
    fn run(self);
}

impl Width {
    /// The widest instruction set of this machine.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Base
    }

    /// Does the work with this instruction set.
    pub(super) fn run(self, work: impl Work) {
        match self {
            Self::Base => work.run(),
            // SAFETY: `Width::detect` found the features of this version on this machine.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: `Width::detect` found the features of this version on this machine.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { run_avx512(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2(work: impl Work) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn run_avx512(work: impl Work) {
    work.run();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{BLOCK, Purpose, Stream};

    fn widths() -> Vec<Width> {
        let mut widths = vec![Width::Base];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                widths.push(Width::Avx2);
            }
            if Width::detect() == Width::Avx512 {
                widths.push(Width::Avx512);
            }
        }
        widths
    }

    /// Fills 1000 blocks of a stream with each instruction set of this machine, and compares their bits with those of
    /// the base version.
    fn same_bits(fill: impl Fn(&mut Stream, &mut [u64; BLOCK])) {
        let of = |width| {
            let mut stream = Stream { width, ..Stream::new(3, Purpose::Gap, 0) };
            let mut block = [0; BLOCK];
            let mut bits = Vec::new();
            for _ in 0..1000 {
                fill(&mut stream, &mut block);
                bits.extend(block);
            }
            bits
        };
        let base = of(Width::Base);
        for width in widths() {
            assert!(of(width) == base, "{width:?}");
        }
    }

    #[test]
    fn exponentials_have_the_same_bits_at_all_widths() {
        same_bits(|stream, bits| {
            let mut block = [0.0; BLOCK];
            stream.exponential(&mut block);
            *bits = block.map(f64::to_bits);
        });
    }

    #[test]
    fn ticks_are_the_same_at_all_widths() {
        for mean in [0.3, 5e6, 1e13, 1e17] {
            same_bits(|stream, ticks| stream.exponential_ticks(mean, ticks));
        }
    }
}
