//! [`Repeats`]: how often a configuration is measured, and [`Known`]: how well that makes a figure known.

use serde::{Deserialize, Serialize};

use crate::units;

/// The least repeats that a precision is judged by: with fewer the width of the interval is itself too uncertain.
pub const LEAST_FOR_PRECISION: u32 = 5;
/// The most repeats that can be asked for.
pub const MOST: u32 = 1000;
/// With a precision, the most repeats for each of the least ones unless told otherwise.
const MOST_FOR_EACH: u32 = 5;

/// How often a configuration is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// So often at least.
    pub least: u32,
    /// So often at most; the same without a precision.
    pub most: u32,
    /// Relative half width of the 95 % interval of the mean that ends the repeats before.
    pub precision: Option<f64>,
}

impl Repeats {
    /// So many, whatever they bring.
    pub fn exactly(repeats: u32) -> Self {
        Self { least: repeats, most: repeats, precision: None }
    }

    /// At least `least`, then on until the mean is known to `precision`, at most `most` (5 times `least` if None).
    ///
    /// # Errors
    /// The value that cannot be, with what is accepted.
    pub fn new(least: u32, precision: Option<f64>, most: Option<u32>) -> Result<Self, String> {
        if !(1..=MOST).contains(&least) {
            return Err(format!("{least} repeats: expected 1 to {MOST}"));
        }
        let Some(precision) = precision else {
            return match most {
                None => Ok(Self::exactly(least)),
                Some(most) => {
                    Err(format!("at most {most} repeats: without a precision none are added; give one, such as 2%"))
                }
            };
        };
        if least < LEAST_FOR_PRECISION {
            return Err(format!(
                "{least} repeats: a precision is judged by at least {LEAST_FOR_PRECISION}; ask for more repeats, or for no \
                 precision"
            ));
        }
        let most = most.unwrap_or_else(|| (least * MOST_FOR_EACH).min(MOST));
        if !(least..=MOST).contains(&most) {
            return Err(format!("at most {most} repeats: expected {least} (the least) to {MOST}"));
        }
        Ok(Self { least, most, precision: Some(precision) })
    }

    /// True where a repeat is to be made after `made` that know the mean to `half_width` (relative; None: to nothing yet).
    pub fn wants(&self, made: u32, half_width: Option<f64>) -> bool {
        let precise = self.precision.is_some_and(|precision| half_width.is_some_and(|width| width <= precision));
        made < self.least || (made < self.most && !precise)
    }
}

impl std::fmt::Display for Repeats {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.precision {
            None => write!(out, "{}", self.most),
            Some(precision) => {
                write!(out, "{} to {} until known to {}", self.least, self.most, units::print_share(precision))
            }
        }
    }
}

/// How well the mean of the repeats of a configuration is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Known {
    /// The figure, by its name in JSON.
    pub figure: String,
    /// Half width of its mean's interval over the mean; None: fewer than two repeats, or a mean of 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Repeats behind it.
    pub repeats: u32,
    /// Half width asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
}

impl Known {
    /// In words, where a precision was asked for and not reached.
    pub fn shortfall(&self) -> Option<String> {
        let asked = self.asked.filter(|asked| self.half_width.is_none_or(|width| width > *asked))?;
        let width = self.half_width.map_or("nothing".to_owned(), |width| format!("{:.2} %", width * 100.0));
        let asked = units::print_share(asked);
        Some(format!("known to {width} after {} repeats, not to the {asked} asked for", self.repeats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_go_on_until_the_precision_or_the_most() {
        let repeats = Repeats::new(5, Some(0.02), Some(8)).expect("they fit");
        assert!(repeats.wants(4, Some(0.001)), "the least are always made");
        assert!(repeats.wants(5, Some(0.021)) && repeats.wants(7, None));
        assert!(!repeats.wants(5, Some(0.02)) && !repeats.wants(8, Some(1.0)));
        assert_eq!(repeats.to_string(), "5 to 8 until known to 2%");
        let three = Repeats::exactly(3);
        assert!(three.wants(2, Some(0.0)) && !three.wants(3, None));
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Repeats::new(7, Some(0.02), None).map(|repeats| repeats.most), Ok(35));
        for (least, precision, most, word) in [
            (0, None, None, "0 repeats"),
            (3, Some(0.02), None, "at least 5"),
            (5, Some(0.02), Some(4), "at most 4"),
            (5, None, Some(9), "without a precision"),
        ] {
            let said = Repeats::new(least, precision, most).expect_err(word);
            assert!(said.contains(word), "{said}");
        }
    }
}
