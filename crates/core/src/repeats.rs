//! [`Repeats`]: number of repeats of a configuration. [`Known`]: precision of a figure's mean over these repeats.

use serde::{Deserialize, Serialize};

use crate::units;

/// Smallest number of repeats at which a precision is judged: with fewer, the width of the interval is too uncertain.
pub const LEAST_FOR_PRECISION: u32 = 5;
/// Largest number of repeats that can be requested.
pub const MOST: u32 = 1000;
/// Default of [`Repeats::most`] divided by [`Repeats::least`], if a precision is requested.
const MOST_FOR_EACH: u32 = 5;

/// Number of repeats of a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// Smallest number of repeats.
    pub least: u32,
    /// Largest number of repeats; equals `least` without a precision.
    pub most: u32,
    /// Relative half width of the mean's 95 % interval at which the repeats end early.
    pub precision: Option<f64>,
}

impl Repeats {
    /// Exactly this number of repeats.
    pub fn exactly(repeats: u32) -> Self {
        Self { least: repeats, most: repeats, precision: None }
    }

    /// At least `least` repeats, then more until the mean is known to `precision`, at most `most` (if `None`: 5 times
    /// `least`). Without a precision exactly `least` repeats.
    ///
    /// # Errors
    /// The impossible value, with the accepted range.
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

    /// True if another repeat is needed after `made` repeats whose mean is known to `half_width` (relative; None: not
    /// known yet).
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

/// Precision of the mean over the repeats of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Known {
    /// The figure, by its key in JSON.
    pub figure: String,
    /// Half width of the mean's interval divided by the mean; None: fewer than two repeats, or a mean of 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Number of repeats.
    pub repeats: u32,
    /// Requested half width; None if none was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
}

impl Known {
    /// Describes a requested precision that was not reached; None if it was reached or not requested.
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
