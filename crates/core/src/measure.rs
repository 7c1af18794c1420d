//! [`Measure`]: a figure of an outcome by its name, and [`Dimension`]: the kind of unit a number has.

use crate::error::ParseError;
use crate::outcome::{Figure, Latency, Outcome};
use crate::units;

/// Kind of a number, which determines its unit and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Packets per second.
    Pps,
    /// Bits per second.
    Bps,
    /// Seconds.
    Seconds,
    /// A share, 1 being the whole.
    Share,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A number without a unit.
    Number,
}

impl Dimension {
    /// Reads a number of this dimension, with its unit if the dimension has one.
    ///
    /// # Errors
    /// The text that cannot be read, with the accepted form.
    pub fn parse(self, text: &str) -> Result<f64, ParseError> {
        match self {
            Self::Pps => units::parse_pps(text),
            Self::Bps => units::parse_bps(text),
            Self::Seconds => units::parse_time_s(text),
            Self::Share => units::parse_share(text),
            Self::Bytes => units::parse_bytes(text).map(|bytes| bytes as f64),
            Self::PerSecond | Self::Number => {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
                number.ok_or_else(|| {
                    ParseError::new("number", text, "expected a number of at least 0, such as \"20000\"")
                })
            }
        }
    }
}

/// A figure of an [`Outcome`]: its key in CSV and experiment files, its name on screens, and how to find it.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Key with its unit, as in CSV: `throughput_pps`, `latency_p99_s`.
    pub key: &'static str,
    /// Name on screens, without a unit.
    pub name: &'static str,
    /// Its dimension.
    pub dimension: Dimension,
    get: fn(&Outcome) -> Option<Figure>,
}

impl Measure {
    /// The figure in this outcome; None if the outcome does not have it.
    pub fn of(&self, outcome: &Outcome) -> Option<Figure> {
        (self.get)(outcome)
    }

    /// True for a quantile of latency.
    pub fn is_quantile(&self) -> bool {
        self.key.starts_with("latency_p")
    }
}

impl PartialEq for Measure {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.key)
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.key)
    }
}

impl std::str::FromStr for Measure {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        ALL.iter().find(|measure| measure.key == text).copied().ok_or_else(|| {
            let keys: Vec<&str> = ALL.iter().map(|measure| measure.key).collect();
            ParseError::new("figure", text, format!("expected one of {}", keys.join(", ")))
        })
    }
}

crate::units::serde_as_text!(Measure);

fn latency(outcome: &Outcome) -> Option<Latency> {
    outcome.latency_s
}

const fn measure(
    key: &'static str,
    name: &'static str,
    dimension: Dimension,
    get: fn(&Outcome) -> Option<Figure>,
) -> Measure {
    Measure { key, name, dimension, get }
}

/// Packets delivered (pps).
pub const THROUGHPUT: Measure = measure("throughput_pps", "throughput", Dimension::Pps, |o| o.throughput_pps);

/// All figures of an outcome, in the order of the CSV's columns.
pub const ALL: &[Measure] = &[
    measure("offered_pps", "offered load", Dimension::Pps, |o| o.offered_pps),
    THROUGHPUT,
    measure("goodput_bps", "goodput", Dimension::Bps, |o| o.goodput_bps),
    measure("loss_fraction", "loss", Dimension::Share, |o| o.loss_fraction),
    measure("loss_ring", "loss at the ring", Dimension::Share, |o| o.loss?.ring),
    measure("loss_socket", "loss at the socket", Dimension::Share, |o| o.loss?.socket),
    measure("loss_sender", "loss at the sender", Dimension::Share, |o| o.loss?.sender),
    measure("latency_mean_s", "mean latency", Dimension::Seconds, |o| latency(o)?.mean),
    measure("latency_p50_s", "median latency", Dimension::Seconds, |o| latency(o)?.p50),
    measure("latency_p90_s", "90th percentile of latency", Dimension::Seconds, |o| latency(o)?.p90),
    measure("latency_p99_s", "99th percentile of latency", Dimension::Seconds, |o| latency(o)?.p99),
    measure("latency_p999_s", "99.9th percentile of latency", Dimension::Seconds, |o| latency(o)?.p999),
    measure("latency_max_s", "largest latency", Dimension::Seconds, |o| latency(o)?.max),
    measure("cpu_interrupt", "CPU in interrupts", Dimension::Share, |o| o.cpu?.interrupt),
    measure("cpu_poll", "CPU in poll overhead", Dimension::Share, |o| o.cpu?.poll),
    measure("cpu_protocol", "CPU in protocol processing", Dimension::Share, |o| o.cpu?.protocol),
    measure("cpu_application", "CPU of the application", Dimension::Share, |o| o.cpu?.application),
    measure("cpu_available", "CPU available", Dimension::Share, |o| o.cpu?.available),
    measure("interrupts_per_s", "interrupts", Dimension::PerSecond, |o| o.interrupts_per_s),
    measure("polls_per_s", "polls", Dimension::PerSecond, |o| o.polls_per_s),
    measure("packets_per_poll", "packets a poll", Dimension::Number, |o| o.packets_per_poll),
    measure("packets_in_system", "packets in the host", Dimension::Number, |o| o.packets_in_system),
    measure("transmitted_pps", "transmissions completed", Dimension::Pps, |o| o.transmitted?.completed_pps),
    measure("transmit_refused", "transmissions refused", Dimension::Share, |o| o.transmitted?.refused_fraction),
    measure("transmit_waiting_s", "wait for completion", Dimension::Seconds, |o| o.transmitted?.waiting_s),
    measure("latency_done_mean_s", "mean latency to the application's end", Dimension::Seconds, |o| {
        latency(o)?.done_mean
    }),
    measure("cpu_paused", "CPU taken away in pauses", Dimension::Share, |o| o.cpu?.paused),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_reads_back_and_an_unknown_one_is_told_what_there_is() {
        for known in ALL {
            assert_eq!(known.to_string().parse::<Measure>().unwrap(), *known);
        }
        let error = "troughput".parse::<Measure>().unwrap_err().to_string();
        assert!(error.contains("troughput") && error.contains("throughput_pps"), "{error}");
    }

    #[test]
    fn a_number_is_read_in_its_dimension() {
        assert_eq!(Dimension::Pps.parse("187kpps").unwrap(), 187e3);
        assert_eq!(Dimension::Seconds.parse("20us").unwrap(), 20e-6);
        assert_eq!(Dimension::Share.parse("80%").unwrap(), 0.8);
        assert_eq!(Dimension::PerSecond.parse("20000").unwrap(), 20e3);
        for text in ["", "-1", "NaN", "inf", "20us"] {
            assert!(Dimension::Number.parse(text).is_err(), "{text}");
        }
    }
}
