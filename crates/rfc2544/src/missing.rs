//! [`MissingFigure`]: what the results of a frame size lack.

use std::fmt;

use netcliff_core::sentences;
use serde::{Deserialize, Serialize};

/// A figure that was not measured as requested, with the reason. In JSON it is a sentence; what is read from JSON has
/// its kind again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum MissingFigure {
    /// The figure is only a lower bound: the device may forward more.
    LowerBound(Reason),
    /// The figure was not measured, or is less certain than requested.
    NotMeasured(Reason),
}

/// The reason for which a figure is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Name of the test or goal, such as `latency` or `goal 2`; empty if a stored sentence has none.
    pub figure: String,
    /// The reason, a clause.
    pub why: String,
}

sentences! {
    /// How a search ended without the requested bounds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Ended {
        AtMaximum => "the highest load allowed (--max) was forwarded; the device may forward more";
        BelowVoid =>
            "trials at higher loads were void (other programs had the tester's CPUs, or its receiver was full): the device may forward more";
        AtTester =>
            "the tester is the limit: the device forwarded all frames that the tester sent at its full rate in these trials, and may forward more";
        BelowMinimum => "even a thousandth of the highest load lost frames";
        SenderTooSlow => "the sender did not reach even a thousandth of the highest load";
        Apart =>
            "the bounds are further apart than requested (--width): the tester did not reach the loads between them";
        OutOfTime =>
            "the bounds were not close enough after 30 full trials: the device's loss does not depend on the load alone";
    }
}

impl MissingFigure {
    /// A figure that was not measured.
    pub fn new(figure: &str, why: impl Into<String>) -> Self {
        Self::NotMeasured(Reason { figure: figure.to_owned(), why: why.into() })
    }

    /// The result of searches that ended so. `searches`: their number, and the number of all searches; `None` if only
    /// one was requested.
    pub fn of_searches(figure: &str, ended: Ended, searches: Option<(usize, usize)>) -> Self {
        let of = searches.map_or(String::new(), |(count, made)| format!("in {count} of {made} searches: "));
        let reason = Reason { figure: figure.to_owned(), why: format!("{of}{ended}") };
        match ended {
            Ended::AtMaximum | Ended::BelowVoid | Ended::AtTester => Self::LowerBound(reason),
            Ended::BelowMinimum | Ended::SenderTooSlow | Ended::Apart | Ended::OutOfTime => Self::NotMeasured(reason),
        }
    }

    /// The figure and the reason.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::LowerBound(reason) | Self::NotMeasured(reason) => reason,
        }
    }
}

impl fmt::Display for MissingFigure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { figure, why } = self.reason();
        if figure.is_empty() { out.write_str(why) } else { write!(out, "{figure}: {why}") }
    }
}

impl From<String> for MissingFigure {
    fn from(sentence: String) -> Self {
        let (figure, why) = sentence.split_once(": ").unwrap_or(("", sentence.as_str()));
        let reason = Reason { figure: figure.to_owned(), why: why.to_owned() };
        // Earlier versions wrote `can forward more`.
        let is_lower_bound = ["may forward more", "can forward more", "the tester is the limit"];
        let is_lower_bound = is_lower_bound.iter().any(|words| why.contains(words));
        if is_lower_bound { Self::LowerBound(reason) } else { Self::NotMeasured(reason) }
    }
}

impl From<MissingFigure> for String {
    fn from(missing: MissingFigure) -> Self {
        missing.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON has the sentences, and a stored one is read with its kind.
    #[test]
    fn a_stored_reason_is_read_with_its_kind() {
        let ends = [
            Ended::AtMaximum,
            Ended::BelowVoid,
            Ended::AtTester,
            Ended::BelowMinimum,
            Ended::SenderTooSlow,
            Ended::Apart,
            Ended::OutOfTime,
        ];
        let of = |searches| ends.map(|ended| MissingFigure::of_searches("goal 2", ended, searches));
        let all = [of(None), of(Some((1, 3)))].concat();
        for missing in all.into_iter().chain([MissingFigure::new("loss", "1 load is void"), "old".to_owned().into()]) {
            let json = serde_json::to_string(&missing).unwrap();
            assert_eq!(json, serde_json::to_string(&missing.to_string()).unwrap());
            assert_eq!(serde_json::from_str::<MissingFigure>(&json).unwrap(), missing);
        }
        let of_tester = MissingFigure::of_searches("goal 2", Ended::AtTester, Some((1, 3)));
        assert!(matches!(&of_tester, MissingFigure::LowerBound(reason) if reason.figure == "goal 2"));
        assert!(of_tester.to_string().starts_with("goal 2: in 1 of 3 searches: the tester is the limit"));
    }
}
