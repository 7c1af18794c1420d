//! [`Goal`] and [`Constraint`]: the figure that settings optimise, and bounds on figures. Both are parsed from text,
//! such as `minimise latency_p99_s` and `loss<=1e-4`.

use crate::error::ParseError;
use crate::outcome::{Dimension, MEASURES, Measure};
use crate::units;

/// Short names of the most used figures.
const SHORT: [(&str, &str); 10] = [
    ("mean", "latency_mean_s"),
    ("p50", "latency_p50_s"),
    ("p90", "latency_p90_s"),
    ("p99", "latency_p99_s"),
    ("p999", "latency_p999_s"),
    ("loss", "loss_fraction"),
    ("throughput", "throughput_pps"),
    ("goodput", "goodput_bps"),
    ("available", "cpu_available"),
    ("interrupts", "interrupts_per_s"),
];

/// Reads a figure by its key or its short name.
///
/// # Errors
/// The text that cannot be read, with all accepted names.
pub fn figure(text: &str) -> Result<Measure, ParseError> {
    let text = text.trim();
    let key = SHORT.iter().find(|(short, _)| *short == text).map_or(text, |(_, key)| key);
    key.parse().map_err(|_: ParseError| {
        let names = SHORT.iter().map(|(short, _)| *short).chain(MEASURES.iter().map(|measure| measure.key));
        ParseError::new("figure", text, format!("expected one of {}", names.collect::<Vec<_>>().join(", ")))
    })
}

/// The figure that settings should make as small or as large as possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The figure.
    pub measure: Measure,
    /// True: larger is better.
    pub maximise: bool,
}

impl Goal {
    /// True if `value` is better than `other` (both in the figure's unit).
    pub fn better(&self, value: f64, other: f64) -> bool {
        if self.maximise { value > other } else { value < other }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} {}", if self.maximise { "maximise" } else { "minimise" }, self.measure)
    }
}

impl std::str::FromStr for Goal {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (word, name) = text.trim().split_once(' ').unwrap_or((text, ""));
        let maximise = match word {
            "maximise" => true,
            "minimise" => false,
            _ => return Err(ParseError::new("goal", text, "expected \"minimise FIGURE\" or \"maximise FIGURE\"")),
        };
        Ok(Self { measure: figure(name)?, maximise })
    }
}

crate::units::serde_as_text!(Goal);

/// A bound on a figure: `loss<=1e-4`, `available>=30%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constraint {
    /// The figure.
    pub measure: Measure,
    /// True: the figure is to be at least the bound; false: at most.
    pub at_least: bool,
    /// The bound, in the figure's unit.
    pub bound: f64,
}

impl Constraint {
    /// True if `value` is within the bound.
    pub fn met_by(&self, value: f64) -> bool {
        if self.at_least { value >= self.bound } else { value <= self.bound }
    }

    /// Ratio of value and bound, inverted for lower bounds: 1 at the bound, below 1 within it, 2 if the value misses it
    /// by a factor of 2.
    pub fn excess(&self, value: f64) -> f64 {
        if self.at_least { self.bound / value } else { value / self.bound }
    }

    /// Why the bound is useless: every value is within it, or no value is. `None` if the bound can decide.
    fn pointless(&self) -> Option<&'static str> {
        let share = self.measure.dimension == Dimension::Share;
        match self.at_least {
            false if self.bound <= 0.0 => {
                Some("no number of samples can show this; give a bound above 0, such as 1e-6")
            }
            false if share && self.bound >= 1.0 => Some("every share is at most 100%; give a bound below that"),
            true if share && self.bound >= 1.0 => Some("no share reaches this; give a bound below 100%"),
            true if self.bound <= 0.0 => Some("every figure is at least 0; give a bound above that"),
            _ => None,
        }
    }
}

const CONSTRAINT: &str = "expected FIGURE<=BOUND or FIGURE>=BOUND, such as \"loss<=1e-4\", \"available>=30%\" or \
                          \"p99<=200us\"";

impl std::str::FromStr for Constraint {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (parts, at_least) = match (text.split_once("<="), text.split_once(">=")) {
            (Some(parts), None) => (parts, false),
            (None, Some(parts)) => (parts, true),
            _ => return Err(ParseError::new("constraint", text, CONSTRAINT)),
        };
        let measure = figure(parts.0)?;
        let bound = measure.dimension.parse(parts.1.trim()).map_err(|error| error.within(measure.key))?;
        let constraint = Self { measure, at_least, bound };
        match constraint.pointless() {
            Some(why) => Err(ParseError::new("constraint", text, why)),
            None => Ok(constraint),
        }
    }
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.at_least { ">=" } else { "<=" };
        write!(out, "{}{sign}{}", self.measure, print(self.measure.dimension, self.bound))
    }
}

crate::units::serde_as_text!(Constraint);

fn print(dimension: Dimension, value: f64) -> String {
    match dimension {
        Dimension::Pps => units::print_pps(value),
        Dimension::Bps => units::print_bps(value),
        Dimension::Seconds => units::print_time_s(value),
        Dimension::Share => units::print_share(value),
        Dimension::Bytes => units::print_bytes(value as u64),
        Dimension::PerSecond | Dimension::Number => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_and_constraints_read_back() {
        for text in ["minimise latency_p99_s", "maximise cpu_available"] {
            assert_eq!(text.parse::<Goal>().unwrap().to_string(), text);
        }
        for (text, printed) in [
            ("loss<=1e-4", "loss_fraction<=0.01%"),
            ("available >= 30%", "cpu_available>=30%"),
            ("p99<=200us", "latency_p99_s<=200us"),
            ("throughput>=90kpps", "throughput_pps>=90kpps"),
            ("interrupts<=20000", "interrupts_per_s<=20000"),
        ] {
            let constraint: Constraint = text.parse().unwrap();
            assert_eq!(constraint.to_string(), printed);
            assert_eq!(printed.parse::<Constraint>().unwrap(), constraint);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        for (text, says) in [
            ("lost<=1e-4", ["lost", "loss_fraction"]),
            ("loss", ["\"loss\"", "FIGURE<=BOUND"]),
            ("loss<1e-4", ["loss<1e-4", "FIGURE<=BOUND"]),
            ("loss<=0", ["loss<=0", "above 0"]),
            ("available>=130%", ["130%", "below 100%"]),
            ("available<=100%", ["100%", "below that"]),
            ("throughput>=0kpps", ["0kpps", "above"]),
            ("p99<=200", ["\"200\"", "20us"]),
        ] {
            let error = text.parse::<Constraint>().unwrap_err().to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{text}: {error}");
        }
        assert!("minimize p99".parse::<Goal>().unwrap_err().to_string().contains("minimise FIGURE"));
    }

    #[test]
    fn an_excess_is_one_at_the_bound() {
        let (loss, cpu): (Constraint, Constraint) = ("loss<=1%".parse().unwrap(), "available>=50%".parse().unwrap());
        assert!(loss.met_by(0.01) && !loss.met_by(0.02) && cpu.met_by(0.5) && !cpu.met_by(0.4));
        assert_eq!((loss.excess(0.02), cpu.excess(0.25)), (2.0, 2.0));
    }
}
