//! The same block functions compiled for wider vectors and chosen once at run time. Rust never fuses multiplication and
//! addition by itself, so every version gives the same bits; a test compares them.

use super::{BLOCK, Stream};

/// Which instructions to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// What every machine of the target has.
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    /// The widest this machine has.
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
}

/// Exponentials of mean 1.
pub(super) fn exponential(width: Width, stream: &mut Stream, out: &mut [f64; BLOCK]) {
    match width {
        Width::Base => stream.exponential_block(out),
        // SAFETY: `Width::detect` found the features of this version on this machine.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { exponential_avx2(stream, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { exponential_avx512(stream, out) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn exponential_avx2(stream: &mut Stream, out: &mut [f64; BLOCK]) {
    stream.exponential_block(out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn exponential_avx512(stream: &mut Stream, out: &mut [f64; BLOCK]) {
    stream.exponential_block(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// Seed 3, 1000 blocks: every version this machine has gives the bits of the base version.
    #[test]
    fn all_widths_give_the_same_bits() {
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
        let of = |width| {
            let mut stream = Stream::new(3, Purpose::Gap, 0);
            let mut block = [0.0; BLOCK];
            let mut bits = Vec::new();
            for _ in 0..1000 {
                exponential(width, &mut stream, &mut block);
                bits.extend(block.iter().map(|x| x.to_bits()));
            }
            bits
        };
        let base = of(Width::Base);
        for width in widths {
            assert!(of(width) == base, "{width:?}");
        }
    }
}
