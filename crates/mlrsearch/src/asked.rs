//! Text form of a goal: `trial=60s,sum=60s,loss=0,exceed=0,width=0.5%`.

use std::fmt;
use std::str::FromStr;

use netcliff_core::{ParseError, units};

use super::Goal;

/// The keys and the form of their values, for error messages.
const ACCEPTED: &str = "expected keys of trial, sum, initial (times such as 60s), loss, exceed, width (shares such as 0.5%), each at \
                        most once, such as \"trial=1s,sum=21s,exceed=50%\"";

/// Function that parses a value.
type Read = fn(&str) -> Result<f64, ParseError>;

/// Keys that a user gives for a goal; [`Asked::or`] completes them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Asked {
    final_trial_s: Option<f64>,
    initial_trial_s: Option<f64>,
    duration_sum_s: Option<f64>,
    loss_ratio: Option<f64>,
    exceed_ratio: Option<f64>,
    width: Option<f64>,
}

impl Asked {
    /// Completes the goal. Values of keys that were not given: `trial`, `loss` and `width` from `default`; `sum`: one
    /// full trial; `initial`: 1 s, or a full trial if that is shorter; `exceed`: 0.
    pub fn or(&self, default: &Goal) -> Goal {
        let final_trial_s = self.final_trial_s.unwrap_or(default.final_trial_s);
        Goal {
            final_trial_s,
            initial_trial_s: self.initial_trial_s.unwrap_or(final_trial_s.min(1.0)),
            duration_sum_s: self.duration_sum_s.unwrap_or(final_trial_s),
            loss_ratio: self.loss_ratio.unwrap_or(default.loss_ratio),
            exceed_ratio: self.exceed_ratio.unwrap_or(0.0),
            width: self.width.unwrap_or(default.width),
        }
    }
}

impl FromStr for Asked {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut asked = Self::default();
        for pair in text.split(',') {
            let bad = || ParseError::new("goal", pair.trim(), ACCEPTED);
            let (key, value) = pair.split_once('=').ok_or_else(bad)?;
            let (place, read): (_, Read) = match key.trim() {
                "trial" => (&mut asked.final_trial_s, units::parse_time_s),
                "initial" => (&mut asked.initial_trial_s, units::parse_time_s),
                "sum" => (&mut asked.duration_sum_s, units::parse_time_s),
                "loss" => (&mut asked.loss_ratio, units::parse_share),
                "exceed" => (&mut asked.exceed_ratio, units::parse_share),
                "width" => (&mut asked.width, units::parse_share),
                _ => return Err(bad()),
            };
            let value = read(value).map_err(|error| error.within(&format!("goal, {}", key.trim())))?;
            if place.replace(value).is_some() {
                return Err(bad());
            }
        }
        Ok(asked)
    }
}

impl fmt::Display for Goal {
    /// Writes every key, in the form that [`Asked`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, share) = (units::print_time_s, units::print_share);
        write!(f, "trial={},sum={},", time(self.final_trial_s), time(self.duration_sum_s))?;
        write!(f, "loss={},exceed={},", share(self.loss_ratio), share(self.exceed_ratio))?;
        write!(f, "width={},initial={}", share(self.width), time(self.initial_trial_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_read_and_what_was_not_written_has_its_default() {
        let default = Goal::rfc2544(60.0, 0.001, 0.01);
        let read = |text: &str| text.parse::<Asked>().unwrap().or(&default);
        assert_eq!(read("trial=60s"), default);
        let typical = Goal { duration_sum_s: 21.0, exceed_ratio: 0.5, ..Goal::rfc2544(1.0, 0.001, 0.01) };
        assert_eq!(read("trial=1s,sum=21s,exceed=50%"), typical);
        let own = read(" loss=0 , width=0.02, initial=100ms,trial=200ms");
        let goal = Goal { initial_trial_s: 0.1, ..Goal::rfc2544(0.2, 0.0, 0.02) };
        assert_eq!(own, goal);
        assert_eq!(read(&own.to_string()), own);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_is_accepted() {
        for (text, words) in [
            ("", ["goal: cannot read \"\"", "trial, sum, initial"]),
            ("speed=1", ["speed=1", "loss, exceed, width"]),
            ("trial=1s,trial=2s", ["trial=2s", "at most once"]),
            ("trial=fast", ["goal, trial", "fast"]),
            ("loss=2s", ["goal, loss", "percentage"]),
        ] {
            let error = text.parse::<Asked>().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
