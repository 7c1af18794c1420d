//! [`Aims`]: figures that a simulation must know to a given precision, and [`Precision`]: the precision it reached.

use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::measure::{self, Measure};
use crate::outcome::Outcome;

/// Short names, and the figures (keys of [`Measure`]) that each stands for.
const SHORT: &[(&str, &[&str])] = &[
    ("throughput", &["throughput_pps"]),
    ("goodput", &["goodput_bps"]),
    ("loss", &["loss_fraction"]),
    ("latency", &["latency_mean_s"]),
    ("p50", &["latency_p50_s"]),
    ("p90", &["latency_p90_s"]),
    ("p99", &["latency_p99_s"]),
    ("p999", &["latency_p999_s"]),
    ("cpu", &["cpu_interrupt", "cpu_poll", "cpu_protocol", "cpu_application", "cpu_available", "cpu_paused"]),
    ("interrupts", &["interrupts_per_s"]),
];

/// A set of figures, written `throughput,latency,p99,cpu` or with the keys of [`Measure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aims(u32);

impl Default for Aims {
    /// Throughput, mean latency and the CPU split.
    fn default() -> Self {
        Self(["throughput", "latency", "cpu"].iter().filter_map(|name| bits(name)).sum())
    }
}

/// Bit mask of a name's figures, by their index in [`measure::ALL`].
fn bits(name: &str) -> Option<u32> {
    let one = [name];
    let keys = SHORT.iter().find(|(short, _)| *short == name).map_or(&one[..], |(_, keys)| keys);
    keys.iter().try_fold(0, |sum, key| {
        let place = measure::ALL.iter().position(|measure| measure.key == *key)?;
        // A maximum has no interval, and longer simulation does not make it more precise.
        (*key != "latency_max_s").then_some(sum | 1 << place)
    })
}

impl Aims {
    /// The figures, in the order of [`measure::ALL`].
    pub fn measures(self) -> impl Iterator<Item = &'static Measure> {
        measure::ALL.iter().enumerate().filter(move |(place, _)| self.0 & 1 << place != 0).map(|(_, measure)| measure)
    }
}

impl std::str::FromStr for Aims {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || {
            let names: Vec<&str> = SHORT.iter().map(|(name, _)| *name).collect();
            let form = format!("expected a list of {} or columns of --csv such as packets_per_poll", names.join(", "));
            ParseError::new("figures", text, form)
        };
        let sum = text.split(',').try_fold(0, |sum, name| Some(sum | bits(name.trim())?));
        sum.map(Self).ok_or_else(error)
    }
}

impl std::fmt::Display for Aims {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in SHORT {
            let bits = bits(name).unwrap_or(0);
            if rest & bits == bits {
                names.push(name);
                rest &= !bits;
            }
        }
        names.extend(Self(rest).measures().map(|measure| measure.key));
        out.write_str(&names.join(","))
    }
}

crate::units::serde_as_text!(Aims);

/// Result of a requested precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Precision {
    /// Requested half width: relative to the value, or for CPU shares as a share of one CPU.
    pub asked: f64,
    /// True if all figures reached it.
    pub reached: bool,
    /// Arrivals simulated, warm-up included.
    pub packets: u64,
    /// Number of replications.
    pub replications: u64,
    /// The figures one by one, without those that the outcome does not have.
    pub figures: Vec<Attained>,
}

/// Precision of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attained {
    /// The figure.
    pub figure: Measure,
    /// Half width of its interval, in the terms of [`Precision::asked`]; None: its value is 0, or it has no finite
    /// interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// True if the half width is at most the requested one and the figure is reliable.
    pub reached: bool,
}

impl Attained {
    /// Precision of `figure` in `outcome`, compared with `asked` (above 0). It is reached if the half width is at most
    /// asked/(1+asked) of the estimate, and so at most `asked` of the true value anywhere in the interval. None if the
    /// outcome does not have the figure.
    pub fn of(figure: &Measure, outcome: &Outcome, asked: f64) -> Option<Self> {
        let found = figure.of(outcome)?;
        let half = found.interval.map_or(0.0, |ends| (ends.high - ends.low) / 2.0);
        let scale = if figure.key.starts_with("cpu_") { 1.0 } else { found.value.abs() };
        let half_width = Some(if half == 0.0 { 0.0 } else { half / scale }).filter(|width| width.is_finite());
        let reached = half_width.is_some_and(|width| width <= goal(asked));
        Some(Self { figure: *figure, half_width, reached })
    }
}

/// Half width relative to the estimate that guarantees `asked` relative to the true value.
pub fn goal(asked: f64) -> f64 {
    asked / (1.0 + asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{CpuShares, Figure};

    #[test]
    fn a_list_reads_back_and_an_unknown_name_is_told_what_there_is() {
        for text in
            ["throughput,latency,cpu", "p99", "loss,p50,interrupts", "throughput,packets_per_poll", "cpu_available"]
        {
            assert_eq!(text.parse::<Aims>().unwrap().to_string(), text);
        }
        assert_eq!("cpu, latency_mean_s,throughput".parse::<Aims>().unwrap(), Aims::default());
        for text in ["", "lattency", "p99,", "latency_max_s"] {
            let error = text.parse::<Aims>().unwrap_err().to_string();
            assert!(error.contains("throughput") && error.contains("p999"), "{error}");
        }
    }

    #[test]
    fn half_widths_are_relative_but_those_of_the_cpu() {
        let available = Some(Figure::sampled(0.01, 0.005, 0.95));
        let outcome = Outcome {
            throughput_pps: Some(Figure::sampled(100.0, 1.0, 0.95)),
            loss_fraction: Some(Figure::between(0.0, 0.0, 1e-3, 0.95)),
            cpu: Some(CpuShares {
                available,
                interrupt: Some(Figure::sampled(0.0, 0.0, 0.95)),
                ..CpuShares::default()
            }),
            ..Outcome::default()
        };
        let of = |name: &str| -> Vec<Attained> {
            let aims: Aims = name.parse().unwrap();
            aims.measures().filter_map(|figure| Attained::of(figure, &outcome, 0.01)).collect()
        };
        assert_eq!((of("throughput")[0].half_width, of("throughput")[0].reached), (Some(0.01), false));
        let cpu = of("cpu");
        assert_eq!((cpu.len(), cpu[0].half_width), (2, Some(0.0)));
        assert!((cpu[1].half_width.unwrap() - 0.005).abs() < 1e-12);
        assert!(cpu.iter().all(|share| share.reached));
        // No loss was observed: its true size remains unknown.
        assert_eq!((of("loss")[0].half_width, of("loss")[0].reached), (None, false));
        assert!(of("p99").is_empty());
    }
}
