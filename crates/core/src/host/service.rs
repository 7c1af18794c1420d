//! [`Service`]: distribution of a host's times.

use std::sync::Arc;

use crate::error::{Invalid, ParseError};
use crate::params::Params;

/// Distribution of the times of interrupts, poll overhead, protocol processing and application. Timers are constant.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// Exponential (squared coefficient of variation 1); the papers' assumption.
    Exponential,
    /// Constant.
    Deterministic,
    /// Lognormal with the coefficient of variation given (`lognormal:cv=0.5`).
    Lognormal {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Erlang: the sum of `stages` exponentials (`erlang:stages=4`).
    Erlang {
        /// Number of exponential stages, at least 1.
        stages: u32,
    },
    /// Hyperexponential with two phases of balanced means and this coefficient of variation, above 1
    /// (`hyperexponential:cv=2`): mostly short times, sometimes long ones.
    Hyperexponential {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// The distribution of measured times (`empirical:FILE`), scaled to the host's means.
    Empirical(Empirical),
}

/// Measured times from a file. The file is named here and read elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical {
    /// Name of the file: on each line one time, or a time and its weight.
    pub file: String,
    /// The times; None while the file has not been read.
    pub times: Option<Arc<MeasuredTimes>>,
}

/// Measured times as a distribution with mean 1. Drawing takes constant time (alias method, Walker 1977).
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTimes {
    /// (time / mean, probability), rising, without duplicates.
    parts: Vec<(f64, f64)>,
    /// Columns of the alias method, all of equal width: (height, time below that height, time above it), with heights
    /// from 0 to 1.
    columns: Vec<(f64, f64, f64)>,
    mean_s: f64,
    /// SHA-256 of the file, in hexadecimal digits; None if the times are not from a file.
    pub sha256: Option<String>,
}

impl MeasuredTimes {
    /// Distribution of these (time (s), weight). Errors: a time or weight is negative or not finite, or no time above 0
    /// has a weight.
    pub fn new(mut times: Vec<(f64, f64)>) -> Result<Self, Invalid> {
        for (seconds, weight) in &times {
            for (what, value) in [("measured time", *seconds), ("weight of a measured time", *weight)] {
                if !value.is_finite() || value < 0.0 {
                    return Err(Invalid::new(what, value, "must be finite and at least 0"));
                }
            }
        }
        times.retain(|(_, weight)| *weight > 0.0);
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        times.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        let total: f64 = times.iter().map(|(_, weight)| weight).sum();
        let mean_s = times.iter().map(|(seconds, weight)| seconds * (weight / total)).sum::<f64>();
        if times.is_empty() || !(mean_s > 0.0 && mean_s.is_finite() && total.is_finite()) {
            return Err(Invalid::new(
                "measured times",
                "none above 0s",
                "at least one must be above 0 and have weight",
            ));
        }
        let parts: Vec<(f64, f64)> =
            times.into_iter().map(|(seconds, weight)| (seconds / mean_s, weight / total)).collect();
        Ok(Self { columns: columns(&parts), parts, mean_s, sha256: None })
    }

    /// (time / mean, probability) of each distinct time, rising. The probabilities sum to 1, and the mean is 1.
    pub fn parts(&self) -> &[(f64, f64)] {
        &self.parts
    }

    /// Mean of the measured times (s).
    pub fn mean_s(&self) -> f64 {
        self.mean_s
    }

    /// Draws a time, divided by the mean, from a uniform random number in (0, 1].
    #[inline]
    pub fn pick(&self, uniform: f64) -> f64 {
        let place = (1.0 - uniform) * self.columns.len() as f64;
        let column = (place as usize).min(self.columns.len() - 1);
        let (height, below, above) = self.columns[column];
        if place - (column as f64) < height { below } else { above }
    }
}

/// Builds the alias method's columns: a part smaller than its column is filled up with one that is larger.
fn columns(parts: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let count = parts.len() as f64;
    let mut columns: Vec<(f64, f64, f64)> = parts.iter().map(|(time, share)| (share * count, *time, *time)).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(|i| columns[*i].0 < 1.0);
    while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
        columns[low].2 = columns[high].1;
        columns[high].0 -= 1.0 - columns[low].0;
        if columns[high].0 < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    columns
}

impl Service {
    /// Measured times that are not from a file; `name` replaces the file's name. Errors as [`MeasuredTimes::new`].
    pub fn from_times(name: &str, times: Vec<(f64, f64)>) -> Result<Self, Invalid> {
        let times = Some(Arc::new(MeasuredTimes::new(times)?));
        Ok(Self::Empirical(Empirical { file: name.to_owned(), times }))
    }

    /// Phases of a hyperexponential with balanced means: (probability p, mean of the phase / mean of all). A phase has
    /// rate 2 p, and p = (1 +- sqrt((cv^2 - 1)/(cv^2 + 1)))/2.
    pub fn balanced_phases(cv: f64) -> [(f64, f64); 2] {
        let squared = cv * cv;
        let apart = ((squared - 1.0) / (squared + 1.0)).max(0.0).sqrt();
        // 1 - apart without cancellation: (1 - apart^2)/(1 + apart), 1 - apart^2 = 2/(cv^2 + 1).
        let (often, rarely) = (0.5 * (1.0 + apart), 1.0 / ((squared + 1.0) * (1.0 + apart)));
        [(often, 0.5 / often), (rarely, 0.5 / rarely)]
    }

    /// The file that must be read before times can be drawn; None: no file, or it has been read.
    pub fn unread(&self) -> Option<&str> {
        match self {
            Self::Empirical(Empirical { file, times: None }) => Some(file),
            _ => None,
        }
    }

    /// The measured times; None for other distributions, or if their file has not been read.
    pub fn measured(&self) -> Option<&MeasuredTimes> {
        match self {
            Self::Empirical(empirical) => empirical.times.as_deref(),
            _ => None,
        }
    }

    /// Checks the range of each parameter.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Lognormal { cv } if !(*cv > 0.0 && *cv <= 100.0) => {
                Err(Invalid::new("service cv", cv, "must be above 0 and at most 100"))
            }
            Self::Erlang { stages } if *stages == 0 || *stages > 10_000 => {
                Err(Invalid::new("service stages", stages, "must be from 1 to 10000"))
            }
            Self::Hyperexponential { cv } if !(*cv > 1.0 && *cv <= 100.0) => Err(Invalid::new(
                "service cv",
                cv,
                "must be above 1 and at most 100 for a hyperexponential (exponential has 1, lognormal any)",
            )),
            _ => Ok(()),
        }
    }
}

const FORMS: &str =
    "expected exponential, deterministic, lognormal:cv=0.5, erlang:stages=4, hyperexponential:cv=2 or empirical:FILE";

impl std::str::FromStr for Service {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(file) = text.trim().strip_prefix("empirical:").map(str::trim).filter(|file| !file.is_empty()) {
            return Ok(Self::Empirical(Empirical { file: file.to_owned(), times: None }));
        }
        let (name, mut params) = Params::split("service", text)?;
        let service = match name {
            "exponential" => Self::Exponential,
            "deterministic" => Self::Deterministic,
            "lognormal" => Self::Lognormal { cv: params.number("cv")?.unwrap_or(1.0) },
            "erlang" => Self::Erlang { stages: params.count_u32("stages")?.unwrap_or(2) },
            "hyperexponential" => Self::Hyperexponential { cv: params.number("cv")?.unwrap_or(2.0) },
            _ => return Err(ParseError::new("service", text, FORMS)),
        };
        params.finish()?;
        Ok(service)
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exponential => write!(out, "exponential"),
            Self::Deterministic => write!(out, "deterministic"),
            Self::Lognormal { cv } => write!(out, "lognormal:cv={cv}"),
            Self::Erlang { stages } => write!(out, "erlang:stages={stages}"),
            Self::Hyperexponential { cv } => write!(out, "hyperexponential:cv={cv}"),
            Self::Empirical(empirical) => write!(out, "empirical:{}", empirical.file),
        }
    }
}

crate::units::serde_as_text!(Service);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_times_have_mean_one_and_their_own_shares() {
        let times = MeasuredTimes::new(vec![(4e-6, 1.0), (1e-6, 2.0), (4e-6, 1.0), (0.0, 1.0), (9e-6, 0.0)]).unwrap();
        assert!((times.mean_s() - 2e-6).abs() < 1e-20);
        assert_eq!(times.parts(), [(0.0, 0.2), (0.5, 0.4), (2.0, 0.4)]);
    }

    /// Evenly spaced numbers give each time its share, with an error of at most one step per column edge.
    #[test]
    fn picks_have_their_shares() {
        let weights = [1.0, 7.0, 0.5, 3.0, 3.0, 20.0, 0.01];
        let times = MeasuredTimes::new(weights.iter().zip(1_u8..).map(|(w, t)| (f64::from(t), *w)).collect()).unwrap();
        let steps = 1_000_000;
        let mut counts = std::collections::BTreeMap::new();
        (1..=steps)
            .for_each(|n| *counts.entry(times.pick(f64::from(n) / f64::from(steps)).to_bits()).or_insert(0) += 1);
        for (time, share) in times.parts() {
            let seen = f64::from(counts[&time.to_bits()]) / f64::from(steps);
            assert!((seen - share).abs() < 2e-6 * weights.len() as f64, "{time}: {seen} {share}");
        }
        assert_eq!(counts.len(), weights.len());
    }

    #[test]
    fn impossible_times_are_refused() {
        for (times, part) in [
            (vec![], "must be above 0"),
            (vec![(0.0, 1.0)], "must be above 0"),
            (vec![(1.0, 0.0)], "must be above 0"),
            (vec![(-1.0, 1.0)], "-1"),
            (vec![(f64::NAN, 1.0)], "NaN"),
            (vec![(1.0, f64::INFINITY)], "inf"),
        ] {
            let error = MeasuredTimes::new(times.clone()).unwrap_err().to_string();
            assert!(error.contains(part), "{times:?}: {error}");
        }
    }

    #[test]
    fn a_file_is_named_and_not_read() {
        let service: Service = "empirical:a,b=c.csv".parse().unwrap();
        assert_eq!((service.to_string().as_str(), service.unread()), ("empirical:a,b=c.csv", Some("a,b=c.csv")));
        assert!("empirical:".parse::<Service>().is_err());
    }
}
