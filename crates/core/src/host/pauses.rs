//! [`Pauses`]: times in which the CPU is taken away, as by a hypervisor.

use std::sync::Arc;

use super::{Empirical, Host, MeasuredTimes, Service};
use crate::error::{Invalid, ParseError};
use crate::units;

/// Most stages; more cannot be distinguished from a constant.
const MOST_STAGES: u32 = 10_000;

/// Shortest mean (s); simulations with more than 10^9 pauses per second would not end.
const SHORTEST_S: f64 = 1e-9;

/// Distribution of the lengths of pauses.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum PauseTimes {
    /// Exponential.
    #[default]
    Exponential,
    /// All lengths are equal.
    Constant,
    /// The sum of `n` exponential stages (`erlang:4`).
    Erlang(u32),
    /// Measured lengths, used as they are (`empirical:FILE`).
    Empirical(Empirical),
    /// The measured pauses of one trial, replayed once at their measured times. This variant has no text form.
    Recorded(Arc<Recorded>),
}

/// Measured pauses of a trial.
#[derive(Debug, PartialEq)]
pub struct Recorded {
    /// (start, length) of each pause (s), by start, without overlaps.
    pub spans_s: Vec<(f64, f64)>,
    lengths: MeasuredTimes,
}

const FORMS: &str = "expected exponential, constant, erlang:K with K stages such as erlang:4, or empirical:FILE with one \
                     length a line";

impl std::str::FromStr for PauseTimes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("pause_times", text, FORMS);
        match text.trim().split_once(':') {
            None if text.trim() == "exponential" => Ok(Self::Exponential),
            None if text.trim() == "constant" => Ok(Self::Constant),
            Some(("erlang", stages)) => stages.trim().parse().map(Self::Erlang).map_err(|_| error()),
            Some(("empirical", file)) if !file.trim().is_empty() => {
                Ok(Self::Empirical(Empirical { file: file.trim().to_owned(), times: None }))
            }
            _ => Err(error()),
        }
    }
}

impl std::fmt::Display for PauseTimes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exponential => out.write_str("exponential"),
            Self::Constant => out.write_str("constant"),
            Self::Erlang(stages) => write!(out, "erlang:{stages}"),
            Self::Empirical(empirical) => write!(out, "empirical:{}", empirical.file),
            Self::Recorded(recorded) => write!(out, "recorded:{}", recorded.spans_s.len()),
        }
    }
}

crate::units::serde_as_text!(PauseTimes);

impl PauseTimes {
    /// Makes recorded pauses from (start, length) (s) of each. Errors are those of [`MeasuredTimes::new`] for the
    /// lengths.
    pub fn recorded(spans_s: Vec<(f64, f64)>) -> Result<Self, Invalid> {
        let lengths = MeasuredTimes::new(spans_s.iter().map(|(_, length_s)| (*length_s, 1.0)).collect())?;
        Ok(Self::Recorded(Arc::new(Recorded { spans_s, lengths })))
    }

    /// The measured lengths; None for other distributions, or if their file has not been read.
    pub fn measured(&self) -> Option<&MeasuredTimes> {
        match self {
            Self::Empirical(empirical) => empirical.times.as_deref(),
            Self::Recorded(recorded) => Some(&recorded.lengths),
            _ => None,
        }
    }

    /// The file that must be read before lengths can be drawn; None: no file, or it has been read.
    pub fn unread(&self) -> Option<&str> {
        match self {
            Self::Empirical(Empirical { file, times: None }) => Some(file),
            _ => None,
        }
    }

    /// Distribution of the lengths, scaled to mean 1.
    pub fn shape(&self) -> Service {
        match self {
            Self::Exponential => Service::Exponential,
            Self::Constant => Service::Deterministic,
            Self::Erlang(stages) => Service::Erlang { stages: *stages },
            Self::Empirical(empirical) => Service::Empirical(empirical.clone()),
            Self::Recorded(_) => Service::Deterministic,
        }
    }
}

/// The pauses of a host. In a pause interrupts, polls, protocol and application stop where they are; packets still
/// arrive, and their interrupts wait. Cores pause independently of each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Pauses {
    /// R: mean length (s).
    pub mean_s: f64,
    /// U: mean time from the end of a pause to the start of the next (s), exponentially distributed.
    pub every_s: f64,
    /// Distribution of the lengths.
    pub times: PauseTimes,
}

impl Pauses {
    /// a = R/(U + R): share of the time spent in pauses.
    pub fn share(&self) -> f64 {
        self.mean_s / (self.every_s + self.mean_s)
    }

    /// Pauses per second.
    pub fn per_s(&self) -> f64 {
        1.0 / (self.every_s + self.mean_s)
    }
}

impl Host {
    /// Returns this host with pauses at given times: (start, length) (s) of each pause in a trial of `trial_s` (s). The
    /// simulator replays them at these times; computations with means use their mean length and rate. Errors are those
    /// of [`PauseTimes::recorded`].
    pub fn with_pauses_at(&self, spans_s: &[(f64, f64)], trial_s: f64) -> Result<Self, Invalid> {
        let times = PauseTimes::recorded(spans_s.to_vec())?;
        let every_s = trial_s / spans_s.len() as f64;
        Ok(Self { pause_s: None, pause_every_s: Some(every_s), pause_times: Some(times), ..self.clone() })
    }

    /// The host's pauses; None: it has none, or their measured lengths have not been read.
    pub fn pauses(&self) -> Option<Pauses> {
        let times = self.pause_times.clone().unwrap_or_default();
        let mean_s = match &times {
            PauseTimes::Empirical(_) | PauseTimes::Recorded(_) => times.measured()?.mean_s(),
            _ => self.pause_s?,
        };
        Some(Pauses { mean_s, every_s: self.pause_every_s?, times })
    }

    /// Share of the time in which the CPU is not paused (0 to 1).
    pub fn up_share(&self) -> f64 {
        1.0 - self.pauses().map_or(0.0, |pauses| pauses.share())
    }

    /// File of pause lengths that must be read before a simulation; `None`: no file, or it has been read.
    pub fn unread_pauses(&self) -> Option<&str> {
        self.pause_times.as_ref().and_then(PauseTimes::unread)
    }

    pub(super) fn validate_pauses(&self) -> Result<(), Invalid> {
        let printed = |seconds: f64| units::print_time_s(seconds);
        for (name, seconds) in [("pause", self.pause_s), ("pause_every", self.pause_every_s)] {
            let Some(seconds) = seconds else { continue };
            if seconds < SHORTEST_S {
                return Err(Invalid::new(
                    name,
                    printed(seconds),
                    "must be at least 1ns: shorter pauses are part of the costs",
                ));
            }
        }
        match (self.pause_s, self.pause_every_s, &self.pause_times) {
            (_, None, Some(times)) => {
                let form = "needs pause_every, the mean time between two pauses, such as pause_every=10ms";
                Err(Invalid::new("pause_times", times, form))
            }
            (Some(pause_s), None, None) => {
                let form = "needs pause_every, the mean time between two pauses, such as pause_every=10ms";
                Err(Invalid::new("pause", printed(pause_s), form))
            }
            (Some(pause_s), Some(_), Some(PauseTimes::Empirical(_) | PauseTimes::Recorded(_))) => {
                let form = "cannot go with pause_times=empirical, whose lengths are used as they are: leave out pause";
                Err(Invalid::new("pause", printed(pause_s), form))
            }
            (None, Some(every_s), times)
                if !matches!(times, Some(PauseTimes::Empirical(_) | PauseTimes::Recorded(_))) =>
            {
                let form = "needs pause, the mean length of a pause, such as pause=1ms";
                Err(Invalid::new("pause_every", printed(every_s), form))
            }
            (_, _, Some(PauseTimes::Erlang(stages))) if !(1..=MOST_STAGES).contains(stages) => {
                let form = format!("must have from 1 to {MOST_STAGES} stages");
                Err(Invalid::new("pause_times", format!("erlang:{stages}"), form))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[&str]) -> Host {
        let mut host = Host::pentium4_2530mhz();
        settings.iter().for_each(|setting| host.set(setting).unwrap());
        host
    }

    #[test]
    fn pauses_round_trip_in_files_and_records() {
        for times in ["exponential", "constant", "erlang:4"] {
            let host = with(&["pause=300us", "pause_every=5ms", &format!("pause_times={times}")]);
            host.validate().unwrap();
            assert_eq!(Host::from_toml("host.toml", &toml::to_string(&host).unwrap()).unwrap(), host);
            let json = serde_json::to_string(&host).unwrap();
            assert!(json.contains(&format!("\"pause_times\":\"{times}\"")), "{json}");
            assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
            let pauses = host.pauses().unwrap();
            assert_eq!((pauses.mean_s, pauses.every_s, pauses.times.to_string().as_str()), (3e-4, 5e-3, times));
        }
        assert_eq!(with(&["pause=1ms", "pause_every=19ms"]).pauses().unwrap().share(), 0.05);
        assert!(!serde_json::to_string(&Host::pentium4_2530mhz()).unwrap().contains("pause"));
    }

    #[test]
    fn pauses_can_be_taken_back() {
        let mut host = with(&["pause=1ms", "pause_every=10ms", "pause_times=constant"]);
        ["pause=none", "pause_every=none", "pause_times=none"].iter().for_each(|setting| host.set(setting).unwrap());
        assert_eq!(host, Host::pentium4_2530mhz());
    }

    #[test]
    fn measured_lengths_bring_their_own_mean() {
        let mut host = with(&["pause_every=10ms", "pause_times=empirical:lengths.txt"]);
        host.validate().unwrap();
        assert_eq!((host.unread_pauses(), host.pauses()), (Some("lengths.txt"), None));
        let times = MeasuredTimes::new(vec![(1e-3, 1.0), (3e-3, 1.0)]).unwrap();
        let read = Empirical { file: "lengths.txt".to_owned(), times: Some(std::sync::Arc::new(times)) };
        host.pause_times = Some(PauseTimes::Empirical(read));
        assert_eq!((host.unread_pauses(), host.pauses().unwrap().mean_s, host.get("pause")), (None, 2e-3, Some(2e-3)));
    }

    #[test]
    fn pauses_that_cannot_be_say_what_is_missing() {
        for (settings, parts) in [
            (&["pause=1ms"][..], ["pause = 1ms", "pause_every=10ms"]),
            (&["pause_every=1ms"][..], ["pause_every = 1ms", "pause=1ms"]),
            (&["pause_times=constant"][..], ["pause_times = constant", "needs pause_every"]),
            (&["pause=0s", "pause_every=1ms"][..], ["pause = 0s", "1e-18 s to 1e6 s"]),
            (&["pause=0.5ns", "pause_every=1ms"][..], ["pause = 0.5ns", "at least 1ns"]),
            (&["pause=1ms", "pause_every=1ms", "pause_times=erlang:0"][..], ["erlang:0", "1 to 10000"]),
            (&["pause=1ms", "pause_every=1ms", "pause_times=empirical:x"][..], ["pause = 1ms", "leave out pause"]),
        ] {
            let error = with(settings).validate().unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{settings:?}: {error}");
        }
        for times in ["pareto", "erlang", "erlang:x", "empirical:", "erlang:-1"] {
            let error = Host::pentium4_2530mhz().set(&format!("pause_times={times}")).unwrap_err().to_string();
            assert!(error.contains(times) && error.contains("erlang:4"), "{error}");
        }
    }
}
