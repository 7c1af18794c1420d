//! [`StreamWarning`]: a limit of a stream's figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::OtherRun;

/// Last words of [`StreamWarning::FullThreads`] and [`StreamWarning::FullCpus`], by which their sentences are read.
const FULL_THREADS: &str = " to the full: it is what limits the rate";
const FULL_CPUS: &str = " fully busy, softirqs and other programs included";

/// A limit of a stream's figures, as a sentence. In JSON it is the sentence alone; what is read from JSON has its kind
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StreamWarning {
    /// The threads of an end were fully busy, and limited the rate.
    FullThreads(String),
    /// CPUs of the host were fully busy.
    FullCpus(String),
    /// Another netcliff run was active during this run ([`OtherRun`]).
    OtherRun(String),
    /// Any other limit.
    Other(String),
}

impl StreamWarning {
    /// The threads of `end` (`sender` or `receiver`) were fully busy in `row`. `several`: the end has several threads.
    pub fn full_threads(row: &str, end: &str, several: bool) -> Self {
        let (what, it) = if several { ("threads", "their CPUs") } else { ("thread", "its CPU") };
        Self::FullThreads(format!("{row}: the {end}'s {what} used {it}{FULL_THREADS}"))
    }

    /// These CPUs were fully busy in `row`.
    pub fn full_cpus(row: &str, cpus: &[String]) -> Self {
        let what = if cpus.len() > 1 { "CPUs" } else { "CPU" };
        Self::FullCpus(format!("{row}: {what} {} were{FULL_CPUS}", cpus.join(", ")))
    }

    /// The sentence.
    pub fn sentence(&self) -> &str {
        match self {
            Self::FullThreads(sentence)
            | Self::FullCpus(sentence)
            | Self::OtherRun(sentence)
            | Self::Other(sentence) => sentence,
        }
    }
}

impl fmt::Display for StreamWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl From<String> for StreamWarning {
    fn from(sentence: String) -> Self {
        if sentence.ends_with(FULL_THREADS) {
            Self::FullThreads(sentence)
        } else if sentence.ends_with(FULL_CPUS) {
            Self::FullCpus(sentence)
        } else if OtherRun::read(&sentence).is_some() {
            Self::OtherRun(sentence)
        } else {
            Self::Other(sentence)
        }
    }
}

impl From<StreamWarning> for String {
    fn from(warning: StreamWarning) -> Self {
        match warning {
            StreamWarning::FullThreads(sentence)
            | StreamWarning::FullCpus(sentence)
            | StreamWarning::OtherRun(sentence)
            | StreamWarning::Other(sentence) => sentence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON has the sentences, as it had before there were kinds, and a stored warning is read with its kind.
    #[test]
    fn a_stored_warning_is_read_with_its_kind() {
        let cpus = ["2".to_owned(), "3".to_owned()];
        let all = [
            StreamWarning::full_threads("write of 1MiB", "receiver", false),
            StreamWarning::full_threads("write of 1MiB", "sender", true),
            StreamWarning::full_cpus("write of 1MiB", &cpus[..1]),
            StreamWarning::full_cpus("write of 1MiB", &cpus),
            OtherRun { process: "pid 17 of user alice (1000)".to_owned() }.to_string().into(),
            "devices dropped 3 packets".to_owned().into(),
        ];
        let kinds = |warning: &StreamWarning| std::mem::discriminant(warning);
        assert_eq!(all.iter().map(kinds).collect::<std::collections::HashSet<_>>().len(), 4, "{all:?}");
        for warning in all {
            let json = serde_json::to_string(&warning).unwrap();
            assert_eq!(json, serde_json::to_string(warning.sentence()).unwrap());
            assert_eq!(serde_json::from_str::<StreamWarning>(&json).unwrap(), warning);
        }
        let stored = "write of 1MiB: the receiver's thread used its CPU to the full: it is what limits the rate";
        assert_eq!(StreamWarning::full_threads("write of 1MiB", "receiver", false).to_string(), stored);
        let stored = "write of 1MiB: CPUs 2, 3 were fully busy, softirqs and other programs included";
        assert_eq!(StreamWarning::full_cpus("write of 1MiB", &cpus).to_string(), stored);
    }
}
