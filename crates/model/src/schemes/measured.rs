//! Replaces the measured times of a host by a small number of constants, for the chains.

/// Largest number of distinct times that are used unchanged.
const FEW: usize = 1000;
/// If there are more than [`FEW`] times, times closer to each other than this ratio are merged.
const CLOSE: f64 = 1.01;

/// Returns true if [`constants`] merges some of these times.
pub fn merges(parts: &[(f64, f64)]) -> bool {
    parts.len() > FEW
}

/// Returns (probability, time / mean) of constants that represent `parts`, which are (time / mean, probability) by
/// rising time. Up to [`FEW`] times stay unchanged. With more times, those within 1 % of each other are replaced by two
/// constants with the same mean and variance. Six decades of times then become fewer than 2800 constants; the error is
/// only in third moments, below (1 %)^3.
pub fn constants(parts: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if parts.len() <= FEW {
        return parts.iter().map(|(time, share)| (*share, *time)).collect();
    }
    let groups = parts.chunk_by({
        let mut first = f64::NEG_INFINITY;
        move |(before, _), (time, _)| {
            if first == f64::NEG_INFINITY {
                first = *before;
            }
            let close = *time <= first * CLOSE;
            if !close {
                first = *time;
            }
            close
        }
    });
    groups.flat_map(two_constants).filter(|(share, _)| *share > 0.0).collect()
}

fn two_constants(group: &[(f64, f64)]) -> [(f64, f64); 2] {
    let share: f64 = group.iter().map(|(_, share)| share).sum();
    let mean = group.iter().map(|(time, part)| time * (part / share)).sum::<f64>();
    let variance = group.iter().map(|(time, part)| (time - mean).powi(2) * (part / share)).sum::<f64>();
    if group.len() == 1 || variance == 0.0 {
        return [(share, mean), (0.0, mean)];
    }
    [(share / 2.0, mean - variance.sqrt()), (share / 2.0, mean + variance.sqrt())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(constants: &[(f64, f64)]) -> [f64; 4] {
        [0, 1, 2, 3].map(|power| constants.iter().map(|(share, time)| share * time.powi(power)).sum())
    }

    /// With many times, total, mean and variance are preserved up to rounding, and the third moment to 1e-6.
    #[test]
    fn many_times_keep_their_moments() {
        let count = 50_000;
        let parts: Vec<(f64, f64)> = (0..count)
            .map(|n| (1e-3 * 1e6_f64.powf(f64::from(n) / f64::from(count)), 1.0 / f64::from(count)))
            .collect();
        let all: Vec<(f64, f64)> = parts.iter().map(|(time, share)| (*share, *time)).collect();
        let few = constants(&parts);
        assert!(few.len() < 2800, "{}", few.len());
        for (power, (few, all)) in moments(&few).into_iter().zip(moments(&all)).enumerate() {
            assert!((few / all - 1.0).abs() < [1e-12, 1e-12, 1e-12, 1e-6][power], "{power}: {few} {all}");
        }
        assert_eq!(constants(&parts[..FEW]), all[..FEW]);
    }
}
