//! Which combinations of factors a transfer experiment measures.
//!
//! A configuration has one level per factor, numbered from 0. The baseline has level 0 of every factor.

use serde::{Deserialize, Serialize};

/// Most configurations of an experiment; more is probably a typing error.
pub const CONFIGURATIONS_AT_MOST: usize = 4096;

/// How configurations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Every combination.
    #[default]
    Full,
    /// The baseline, and each other level of each factor with all other factors at the baseline.
    OneAtATime,
    /// A regular two-level fractional design of resolution IV: no main effect is confounded with another one or with an
    /// interaction of two factors.
    Fractional,
}

impl Design {
    /// The configurations for factors with these numbers of levels (each at least 1), without duplicates, the baseline
    /// first.
    ///
    /// # Errors
    /// One sentence: a factor of a fractional design does not have two levels, or there are too many configurations.
    pub fn configurations(self, levels: &[usize]) -> Result<Vec<Vec<usize>>, String> {
        match self {
            Self::Full => full(levels),
            Self::OneAtATime => Ok(one_at_a_time(levels)),
            Self::Fractional => fractional(levels),
        }
    }
}

fn full(levels: &[usize]) -> Result<Vec<Vec<usize>>, String> {
    let count = levels.iter().try_fold(1usize, |product, levels| product.checked_mul(*levels));
    let Some(count) = count.filter(|count| *count <= CONFIGURATIONS_AT_MOST) else {
        return Err(format!(
            "every combination would be more than {CONFIGURATIONS_AT_MOST} configurations: use design = \"fractional\" or \
             \"one-at-a-time\", or fewer levels"
        ));
    };
    // The level of the last factor changes fastest.
    let nth = |mut place: usize| {
        let mut config = vec![0; levels.len()];
        for (level, levels) in config.iter_mut().zip(levels).rev() {
            (*level, place) = (place % levels, place / levels);
        }
        config
    };
    Ok((0..count).map(nth).collect())
}

fn one_at_a_time(levels: &[usize]) -> Vec<Vec<usize>> {
    let baseline = vec![0; levels.len()];
    let mut configs = vec![baseline.clone()];
    for (factor, levels) in levels.iter().enumerate() {
        for level in 1..*levels {
            let mut config = baseline.clone();
            config[factor] = level;
            configs.push(config);
        }
    }
    configs
}

/// The level of a factor is the parity of some bits of the run's number: an odd number of bits, another set for each
/// factor. The product of two factors is the parity of an even number of bits, so that no factor equals it (resolution
/// IV).
fn fractional(levels: &[usize]) -> Result<Vec<Vec<usize>>, String> {
    if let Some(several) = levels.iter().find(|levels| **levels != 2) {
        return Err(format!("a fractional design has factors of two levels, not {several}: list two, or use \"full\""));
    }
    // m bits have 2^(m-1) sets of odd size, enough for as many factors.
    let bits = (1..).find(|bits| levels.len() <= 1usize << (bits - 1)).unwrap_or(1);
    let mut words: Vec<usize> = (1..1usize << bits).filter(|word| word.count_ones() % 2 == 1).collect();
    // Single bits come first: with few factors the design is the full one.
    words.sort_by_key(|word| word.count_ones());
    let run =
        |number: usize| words.iter().take(levels.len()).map(move |word| (number & word).count_ones() as usize % 2);
    match 1usize << bits {
        runs if runs <= CONFIGURATIONS_AT_MOST => Ok((0..runs).map(|number| run(number).collect()).collect()),
        runs => Err(format!("{runs} configurations are more than {CONFIGURATIONS_AT_MOST}: choose fewer factors")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sign(level: usize) -> i64 {
        if level == 0 { -1 } else { 1 }
    }

    /// Sum over the runs of the product of these factors' signs.
    fn product(configs: &[Vec<usize>], factors: &[usize]) -> i64 {
        configs.iter().map(|config| factors.iter().map(|factor| sign(config[*factor])).product::<i64>()).sum()
    }

    proptest! {
        #[test]
        fn a_fraction_is_balanced_and_orthogonal_of_resolution_four(factors in 1usize..12) {
            let configs = Design::Fractional.configurations(&vec![2; factors]).expect("two levels each");
            prop_assert!(configs.len().is_power_of_two() && configs.len() > factors && configs.len() <= 4 * factors);
            prop_assert!(configs[0].iter().all(|level| *level == 0));
            for a in 0..factors {
                prop_assert_eq!(product(&configs, &[a]), 0, "balance of {}", a);
                for b in 0..a {
                    prop_assert_eq!(product(&configs, &[a, b]), 0, "orthogonality of {} and {}", a, b);
                    for c in 0..b {
                        prop_assert_eq!(product(&configs, &[a, b, c]), 0, "{} is not {} x {}", a, b, c);
                    }
                }
            }
        }

        #[test]
        fn the_full_design_has_every_combination_once(levels in proptest::collection::vec(1usize..5, 1..5)) {
            let mut configs = Design::Full.configurations(&levels).expect("few");
            prop_assert_eq!(configs.len(), levels.iter().product::<usize>());
            prop_assert!(configs[0].iter().all(|level| *level == 0));
            for config in &configs {
                prop_assert!(config.iter().zip(&levels).all(|(level, levels)| level < levels));
            }
            // Balance: each level of a factor occurs equally often.
            for a in 0..levels.len() {
                for level in 0..levels[a] {
                    let times = configs.iter().filter(|config| config[a] == level).count();
                    prop_assert_eq!(times * levels[a], configs.len());
                }
            }
            configs.sort();
            configs.dedup();
            prop_assert_eq!(configs.len(), levels.iter().product::<usize>());
        }

        #[test]
        fn one_at_a_time_changes_one_at_a_time(levels in proptest::collection::vec(1usize..5, 1..8)) {
            let configs = Design::OneAtATime.configurations(&levels).expect("always");
            prop_assert_eq!(configs.len(), 1 + levels.iter().map(|levels| levels - 1).sum::<usize>());
            for config in &configs[1..] {
                prop_assert_eq!(config.iter().filter(|level| **level != 0).count(), 1);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let said = |design: Design, levels: &[usize]| design.configurations(levels).expect_err("too much");
        assert!(said(Design::Fractional, &[2, 3]).contains("not 3"));
        assert!(said(Design::Full, &[16; 8]).contains("fractional"));
        assert!(said(Design::Full, &[usize::MAX; 8]).contains("4096"));
        assert!(said(Design::Fractional, &vec![2; 5000]).contains("fewer factors"));
    }
}
